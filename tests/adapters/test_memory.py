"""The channel in memory: what a user's own test can ask of it."""

import pytest

from gitflowstate import marker
from gitflowstate.adapters.memory import MemoryChannel, Message
from gitflowstate.delivery import Gone, NotSent, Unknown
from gitflowstate.ports import Capabilities, Notice


def notice(revision=4, flow="f-1", kind="status"):
    text = f"{marker.line(flow, kind, revision)}\n**Running**"
    return Notice(flow, kind, revision, "there", f"{flow} is running", text)


def test_a_message_says_where_it_went_and_how_often_it_changed():
    channel = MemoryChannel()
    known = channel.post(notice())
    channel.edit(known, notice(5))
    assert channel.messages == [Message(known, "there", "f-1 is running", notice(5).text, edits=1)]
    assert channel.log == [("post", "f-1"), ("edit", known)]


def test_faults_come_in_their_order_before_or_after_the_effect():
    down, lost = NotSent("down"), Unknown("lost")
    channel = MemoryChannel(before=[down, None, None], after=[None, lost])
    with pytest.raises(NotSent):
        channel.post(notice())
    assert channel.messages == []
    channel.post(notice())
    with pytest.raises(Unknown):
        channel.post(notice(5))
    assert [each.id for each in channel.messages] == ["m1", "m2"]
    assert len(channel.log) == 3
    assert (channel.before, channel.after) == ([], [])


def test_a_new_message_may_be_found_late():
    channel = MemoryChannel(lag=2)
    channel.post(notice())
    shown = [len(channel.find(notice(), None)) for _ in range(4)]
    assert shown == [0, 0, 1, 1]


def test_it_can_do_what_it_is_told_to():
    channel = MemoryChannel("mine", edits=False, searches=False, idempotent=True, limit=99)
    assert (channel.name, channel.capabilities) == ("mine", Capabilities(False, False, 99, True))
    known = channel.post(notice())
    with pytest.raises(Gone):
        channel.edit(known, notice(5))
    assert channel.find(notice(), None) == []


def test_a_message_can_be_removed_as_people_do():
    channel = MemoryChannel()
    first, second = channel.post(notice()), channel.post(notice(flow="f-2"))
    channel.delete(first)
    with pytest.raises(Gone):
        channel.edit(first, notice(5))
    assert [each.id for each in channel.messages] == [second]
    assert channel.post(notice()) == "m3"
    channel.close()
    assert channel.closed
