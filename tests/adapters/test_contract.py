"""One contract for every channel, on this machine and behind a server (R-TF-50)."""

import logging
import re

import pytest
from fakes import worlds
from fakes.loopback import REMOTE_WORDS
from fakes.worlds import SECRET, TOKEN

from gitflowstate import marker
from gitflowstate.codec import digest
from gitflowstate.delivery import Gone, HoldOff, Unauthorised
from gitflowstate.ports import Notice

pytestmark = pytest.mark.req("R-TF-50")

# What a user may write and a host may act on: hazard F3, with what chat services know.
HOSTILE = [
    "@everyone",
    "@here",
    "@user",
    "<!channel>",
    "<!here|here>",
    "<!subteam^S01>",
    "<@U012AB3CD>",
    "<#C012AB3CD>",
    "<https://evil.example|click>",
    "&lt;!channel&gt;",
    "fixes #12",
    "![](http://x/p.png)",
    "<img src=x>",
    "</details>",
    "<!-- gfs:1 end -->",
    "<!-- gfs:1 message=final-1 in other -->",
    marker.line("other", "final", 9),
    "```",
    "| a | b |",
    "\u202ebidi",
    "\x1b]0;t\x07\x1b[2J",
    "$(touch x); `touch y`",
]


def notice(kind="status", revision=4, flow="f-1", words="**Running** and well", title=None):
    text = f"{marker.line(flow, kind, revision)}\n{words}"
    return Notice(flow, kind, revision, None, title or f"{flow} is running", text)


def kinds_of(channel, about):
    return [(each.kind, each.revision) for each in channel.find(about, None)]


# ── posting ─────────────────────────────────────────────────────────────────────────────────────


def test_a_message_arrives_and_has_an_id_that_a_receipt_can_hold(world):
    with_id = world.channel().post(notice())
    (seen,) = world.seen()
    assert "Running" in seen
    assert re.fullmatch(r"[!-~]{1,2048}", with_id)


def test_what_it_can_do_is_known_before_anything_is_sent(world):
    channel = world.channel()
    edits, searches, limit, idempotent = channel.capabilities
    assert {type(edits), type(searches), type(idempotent)} == {bool}
    assert 1000 <= limit <= 60_000
    assert channel.name
    assert world.seen() == []


@pytest.mark.req("R-TF-49")
def test_the_same_notice_is_the_same_bytes_whoever_sends_it(world, request, tmp_path):
    other = worlds.opened(request.node.callspec.params["world"], tmp_path / "other")
    try:
        for each in (world, other):
            each.channel().post(notice())
            each.channel().post(notice("final", 5))
        assert world.sent() == other.sent()
    finally:
        other.close()


def test_where_messages_are_kept_as_they_are_no_byte_of_one_is_lost(world):
    text = (
        "**ü 🎉 漢字** \\*not bold\\* &amp; &lt;b&gt;\n\n| a | b |\n| --- | --- |\n\n> q\n\n\tend "
    )
    about = notice(words=text)
    world.channel().post(about)
    if world.exact:
        assert world.seen() == [about.text]
    for word in ("ü 🎉 漢字", "*not bold*", "& <b>", "a | b", "end"):
        shown = world.seen()[0]
        plain = (
            word
            if not world.exact
            else word.replace("*", r"\*").replace("& <b>", "&amp; &lt;b&gt;")
        )
        assert plain.replace("<b", "< b") in shown or plain in shown


def test_a_message_as_long_as_the_limit_arrives_whole(world):
    channel = world.channel()
    head = len(notice(words="").text)
    words = "ab&<é漢🎉 "
    room = channel.capabilities.limit - head - len("end")
    about = notice(words=words * (room // len(words.encode())) + "end")
    assert len(about.text.encode()) <= channel.capabilities.limit
    channel.post(about)
    (seen,) = world.seen()
    whole = re.sub(r"\s", "", about.text.partition("\n")[2])
    assert re.sub(r"\s", "", seen).endswith(whole) or world.exact


# ── editing ─────────────────────────────────────────────────────────────────────────────────────


def test_an_edit_changes_its_message_and_no_other(world):
    channel = world.channel()
    first, _second = channel.post(notice()), channel.post(notice(flow="f-2"))
    if not channel.capabilities.edits:
        with pytest.raises(Gone):
            channel.edit(first, notice(revision=5, words="**Done** by now"))
        assert len(world.seen()) == 2
        return
    assert world.channel().edit(first, notice(revision=5, words="**Done** by now")) == first
    seen = world.seen()
    assert sum("Done" in each for each in seen) == 1
    assert sum("Running" in each for each in seen) == (2 if type(world) is worlds.Console else 1)
    assert first in (channel.edit(first, notice(revision=5, words="**Done** by now")), first)


def test_an_edit_of_what_people_removed_says_that_it_is_gone(world):
    channel = world.channel()
    known = channel.post(notice())
    if not world.tells_gone:
        assert channel.edit(known, notice(revision=5)) == known
        return
    world.remove(known)
    with pytest.raises(Gone):
        world.channel().edit(known, notice(revision=5))


def test_what_people_made_of_a_message_can_be_told_from_what_was_sent(world):
    channel = world.channel()
    about = notice()
    known = channel.post(about)
    if not world.rewrites:
        assert world.channel().digest(known) is None
        return
    assert world.channel().digest(known) == digest(about.text.encode())
    world.rewrite(known, "**My own** words")
    assert world.channel().digest(known) == digest(b"**My own** words")
    assert world.channel().digest("no such message") is None
    world.remove(known)
    assert world.channel().digest(known) is None


# ── finding ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.req("R-TF-53")
def test_a_restarted_watcher_finds_what_it_posted(world):
    channel = world.channel()
    ids = [
        channel.post(notice()),
        channel.post(notice("waiting", 5)),
        channel.post(notice("final", 6)),
    ]
    channel.post(notice(flow="f-2"))
    channel.close()
    again = world.channel()
    if not again.capabilities.searches:
        assert again.find(notice(), None) == []
        return
    found = again.find(notice(), "2026-09-05T10:00:00Z")
    assert [each.id for each in found] == ids
    assert {each.flow for each in found} == {"f-1"}
    assert kinds_of(again, notice()) == [("status", 4), ("waiting", 5), ("final", 6)]


@pytest.mark.req("R-TF-53")
def test_the_marker_moves_with_an_edit_and_goes_with_it(world):
    channel = world.channel()
    known = channel.post(notice())
    if not channel.capabilities.searches:
        assert world.channel().find(notice(), None) == []
        return
    channel.edit(known, notice(revision=7))
    assert kinds_of(world.channel(), notice()) == [("status", 7)]
    channel.edit(known, notice(revision=7)._replace(text="**Superseded.** This was sent twice."))
    assert kinds_of(world.channel(), notice()) == []
    assert "Superseded" in world.seen()[0]
    assert "gfs:1" not in world.seen()[0]
    assert channel.edit(known, notice(revision=8)) == known
    assert kinds_of(world.channel(), notice()) == [("status", 8)]


@pytest.mark.req("F3", "F4", "R-TF-53")
@pytest.mark.parametrize("words", ["\n".join(HOSTILE), "--> kind=final", "x\n" * 300])
def test_f3_f4_no_text_forges_a_marker_or_breaks_the_next_message(world, words):
    channel = world.channel()
    known = channel.post(notice(words=words))
    channel.post(notice(flow="f-2", words="the next"))
    assert "the next" in world.seen()[1]
    if channel.capabilities.searches:
        assert kinds_of(world.channel(), notice()) == [("status", 4)]
        assert kinds_of(world.channel(), notice(flow="other")) == []
        assert world.channel().edit(known, notice(revision=5)) == known
        assert len(world.seen()) == 2


# ── what a text may do ──────────────────────────────────────────────────────────────────────────


@pytest.mark.req("F3")
@pytest.mark.parametrize("kind", ["slack", "chat"])
@pytest.mark.parametrize("hostile", HOSTILE)
def test_f3_a_chat_calls_nobody_and_follows_nothing(kind, hostile, tmp_path):
    with_it = worlds.opened(kind, tmp_path)
    try:
        with_it.channel().post(notice(words=hostile, title=f"f-1: {hostile}"))
        raw = with_it.sent()[0].decode("unicode_escape")
        assert re.search(r"@\w", raw.replace("@127", "")) is None
        assert re.search(r"<[!@#a-z]", raw) is None
    finally:
        with_it.close()


@pytest.mark.req("F5")
def test_f5_no_control_character_reaches_a_terminal(tmp_path):
    console = worlds.opened("console", tmp_path)
    console.channel().post(notice(words="\x1b]0;t\x07\r\x9b2J\u202e", title="a\x1b[2J\nb"))
    (seen,) = console.seen()
    assert re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", seen) is None
    assert seen.startswith("a[2J b\n")


@pytest.mark.req("F8")
def test_f8_nothing_in_a_notice_is_a_command(world, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    command = "$(touch pwned); `touch pwned`; ${HOME} %s {x} \\n"
    world.channel().post(notice(words=command, title=command))
    assert not any(path.name == "pwned" for path in tmp_path.rglob("*"))
    (seen,) = world.seen()
    for word in ("$(touch pwned)", "${HOME}", "%s {x}"):
        assert word in seen


# ── failing ─────────────────────────────────────────────────────────────────────────────────────


def faults():
    for kind, world in worlds.WORLDS.items():
        known = worlds.Memory if kind.startswith("memory") else world
        yield from ((kind, fault, error) for fault, error in known.faults.items())


@pytest.mark.req("R-TF-41", "G2", "L16")
@pytest.mark.parametrize(("kind", "fault", "error"), list(faults()))
def test_a_failure_is_the_decision_it_calls_for_and_tells_no_secret(  # noqa: PLR0917  fixtures
    kind, fault, error, tmp_path, caplog, capfd
):
    caplog.set_level(logging.DEBUG)
    world = worlds.opened(kind, tmp_path)
    try:
        channel = world.channel()
        world.fail(fault)
        with pytest.raises(error) as failed:
            channel.post(notice())
        assert type(failed.value) is error
        told = repr((failed.value, failed.value.hint, failed.value.details))
        told += caplog.text + "".join(capfd.readouterr())
        for secret in (REMOTE_WORDS, TOKEN, SECRET):
            assert secret not in told
        if error is HoldOff:
            assert failed.value.until == "2026-09-06T10:02:00Z"
        if error is Unauthorised:
            assert failed.value.variable.startswith("GFS_")
        if fault != "unreachable" or not isinstance(world, worlds.Served):
            there = len(world.seen())
            assert there == (1 if fault in (worlds.LOST, worlds.SILENT, *worlds.TALKING) else 0)
            world.channel().post(notice())
            assert len(world.seen()) == (1 if kind == "webhook" else there + 1)
    finally:
        world.close()


@pytest.mark.req("R-TF-52")
def test_a_channel_that_is_idempotent_shows_a_repeat_once(world):
    channel = world.channel()
    for _ in range(2):
        channel.post(notice())
    assert len(world.seen()) == (1 if channel.capabilities.idempotent else 2)


def test_it_can_be_closed_twice_and_before_it_was_used(world):
    channel = world.channel()
    channel.close()
    channel.close()
