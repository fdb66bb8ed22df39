"""Chats by apprise: one service, no redirect, plain text, and an id made of what it is about."""

import pytest
from fakes.loopback import Loopback
from fakes.worlds import Chat

from gitflowstate import marker
from gitflowstate.delivery import Unknown
from gitflowstate.ports import Notice


@pytest.fixture
def world(tmp_path):
    made = Chat(tmp_path)
    yield made
    made.close()


def notice(revision=4, words="**Done**", title="f-1 is done"):
    text = f"{marker.line('f-1', 'final', revision)}\n{words}"
    return Notice("f-1", "final", revision, None, title, text)


@pytest.mark.req("G3")
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_no_redirect_is_followed(world, status):
    elsewhere = Loopback()
    try:
        world.server.headers = (("Location", f"http://127.0.0.1:{elsewhere.port}/"),)
        world.server.script.append(status)
        with pytest.raises(Unknown):
            world.channel().post(notice())
        assert elsewhere.requests == []
    finally:
        elsewhere.stop()


def test_one_post_is_one_request_also_when_it_fails(world):
    for fault in (500, "dropped", None):
        world.server.requests.clear()
        world.server.script.append(fault)
        if fault is None:
            world.channel().post(notice())
        else:
            with pytest.raises(Unknown):
                world.channel().post(notice())
        assert len(world.server.requests) == 1


@pytest.mark.req("R-TF-50")
def test_title_and_text_are_plain_and_fit(world):
    words = "| a | b |\n| --- | --- |\n| **x** | see [it](https://a.example/) |"
    ids = [world.channel().post(notice(words=words, title="long " * 100)) for _ in range(2)]
    ids.append(world.channel().post(notice(5)))
    assert ids[0] == ids[1] != ids[2]
    first = world.server.messages[0]
    assert first["message"] == "a | b\nx | see it (https://a.example/)"
    assert len(first["title"]) <= 200
    assert first["title"].endswith("...")
