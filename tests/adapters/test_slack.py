"""Slack: its errors, its limits, its pages, and a token that goes nowhere else."""

import errno
import json
import shutil
import ssl
import subprocess
from socket import gaierror
from ssl import SSLCertVerificationError
from urllib.error import URLError

import pytest
from fakes.loopback import Answer, Loopback
from fakes.slacks import BOT, CHANNEL, USER
from fakes.worlds import TOKEN, Clock, SlackWorld

from gitflowstate import marker
from gitflowstate.adapters import slack, slackwire
from gitflowstate.adapters.slack import SlackChannel
from gitflowstate.delivery import Gone, HoldOff, NotSent, Refused, Unauthorised, Unknown
from gitflowstate.ports import Notice


@pytest.fixture
def world(tmp_path):
    made = SlackWorld(tmp_path)
    yield made
    made.close()


def notice(revision=4, words="**Running**", flow="f-1", target=None, kind="status"):
    text = f"{marker.line(flow, kind, revision)}\n{words}"
    return Notice(flow, kind, revision, target, f"{flow} is running", text)


def metadata(flow="f-1", kind="status", revision=4, event=slack.EVENT):
    return {
        "event_type": event,
        "event_payload": {"flow": flow, "kind": kind, "revision": revision},
    }


@pytest.mark.req("L15", "L16")
@pytest.mark.parametrize(
    ("said", "error", "words"),
    [
        *((said, Unauthorised, "GFS_SLACK_TOKEN") for said in sorted(slack._UNAUTHORISED)),
        *((said, HoldOff, "too many") for said in sorted(slack._WAIT)),
        *((said, Unknown, "no answer") for said in sorted(slack._UNCERTAIN)),
        *((said, Refused, reason) for said, reason in slack._REASONS.items()),
        ("a_new_error", Refused, "does not accept it"),
        ("message_not_found", Refused, "does not accept it"),
    ],
)
def test_what_slack_says_is_the_decision_it_calls_for(world, said, error, words):
    world.server.script.append(said)
    with pytest.raises(error, match=words) as failed:
        world.channel().post(notice())
    assert type(failed.value) is error
    assert world.server.messages == []
    assert "a_new_error" not in str(failed.value)


@pytest.mark.parametrize("said", sorted(slack._GONE))
def test_an_edit_that_slack_does_not_allow_makes_a_new_message(world, said):
    known = world.channel().post(notice())
    world.server.script.append(said)
    with pytest.raises(Gone):
        world.channel().edit(known, notice(5))


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"[]",
        b'"ok"',
        b"<html>",
        b"[" * 100_000,
        b'{"ok": true}',
        b'{"ok": true, "ts": 5, "channel": "C01"}',
        b'{"ok": true, "ts": "x", "channel": "C01"}',
        b'{"ok": true, "ts": "1.1", "channel": null}',
        b'{"ok": true, "ts": "1.1", "channel": "C01\\u0007"}',
        b'{"ok": true, "ts": "1.1", "channel": "C' + b"0" * 3000 + b'"}',
        b'{"ok": "perhaps"',
    ],
    ids=range(12),
)
def test_a_success_that_says_too_little_may_have_happened(world, answer):
    world.server.serve = lambda _: Answer(200, answer)
    with pytest.raises(Unknown):
        world.channel().post(notice())


@pytest.mark.parametrize(
    ("status", "error"),
    [(500, Unknown), (503, Unknown), (408, Unknown), (404, Refused), (403, Refused)],
)
def test_a_status_of_what_stands_before_slack_counts_too(world, status, error):
    world.server.script.append(status)
    with pytest.raises(error):
        world.channel().post(notice())


def test_nothing_is_sent_twice_by_the_library(world):
    for fault in ("dropped", "lost", 500, 429, "ratelimited"):
        world.server.requests.clear()
        world.server.script.append(fault)
        with pytest.raises((Unknown, HoldOff)):
            world.channel().post(notice())
        assert len(world.server.requests) == 1


@pytest.mark.req("G2", "G3")
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_g3_the_token_follows_no_redirect(world, status):
    elsewhere = Loopback()
    try:
        world.server.headers = (("Location", f"http://127.0.0.1:{elsewhere.port}/"),)
        world.server.script.append(status)
        with pytest.raises(Refused, match="redirects"):
            world.channel().post(notice())
        assert elsewhere.requests == []
    finally:
        elsewhere.stop()


@pytest.mark.req("K2")
@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl makes the certificate")
def test_k2_over_tls_an_answer_without_end_is_cut_too(tmp_path, monkeypatch):
    key, known = tmp_path / "key.pem", tmp_path / "certificate.pem"
    asked = ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=x", "-days", "2"]
    named = ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", known]
    subprocess.run(["openssl", *asked, *named], check=True, capture_output=True)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(known, key)
    monkeypatch.setenv("SSL_CERT_FILE", str(known))
    server = Loopback(tls)
    try:
        server.serve = lambda _: Answer(200, b'{"ok": true, "channel": "C01", "ts": "1.1"}')
        base = f"https://127.0.0.1:{server.port}/"
        channel = SlackChannel("slack", CHANNEL, TOKEN, Clock(), base_url=base, deadline_s=2.0)
        assert channel.post(notice()) == "C01/1.1"
        server.script.append("endless")
        with pytest.raises(Unknown):
            channel.post(notice())
    finally:
        server.stop()


def test_where_no_server_is_nothing_was_sent(world):
    for base in ("http://127.0.0.1:9/", "http://no-such-host.invalid/"):
        nowhere = SlackChannel("slack", CHANNEL, TOKEN, Clock(), base_url=base)
        with pytest.raises(NotSent):
            nowhere.post(notice())


@pytest.mark.parametrize(
    ("error", "unreached"),
    [
        (URLError(ConnectionRefusedError(111, "refused")), True),
        (URLError(gaierror(-2, "unknown")), True),
        (URLError(SSLCertVerificationError(1, "unknown authority")), True),
        (URLError(OSError(errno.ENETUNREACH, "no route")), True),
        (URLError(ConnectionResetError(104, "reset")), False),
        (URLError(TimeoutError("timed out")), False),
        (URLError(BrokenPipeError(32, "broken pipe")), False),
        (ConnectionRefusedError(111, "refused"), False),
        (TimeoutError("timed out"), False),
        (ValueError("no JSON"), False),
    ],
)
def test_only_an_error_before_the_request_proves_that_nothing_was_sent(error, unreached):
    assert slackwire.is_unreached(error) is unreached


# ── finding ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.req("R-TF-53")
def test_every_page_is_looked_at_and_the_oldest_comes_first(world):
    world.server.page = 3
    ids = [world.channel().post(notice(revision)) for revision in range(1, 9)]
    found = world.channel().find(notice(), None)
    assert [each.id for each in found] == ids
    assert [each.revision for each in found] == list(range(1, 9))
    history = [each for each in world.server.requests if "history" in each.path]
    assert len(history) == 3


@pytest.mark.req("R-TF-53", "F3")
def test_only_the_app_itself_can_have_written_a_message_of_ours(world):
    channel = world.channel()
    mine = channel.post(notice())
    server = world.server
    server.write("U0EVE", "B0EVE", metadata=metadata())
    server.write("U0EVE", None, metadata=metadata(), text=notice().text)
    server.write("", "", metadata=metadata())
    server.write(USER, BOT, metadata=metadata(event="other"))
    server.write(USER, BOT, metadata=metadata(flow="f-2"))
    server.write(USER, BOT, metadata=metadata(revision="4"))
    server.write(USER, BOT, metadata=metadata(revision=True))
    server.write(USER, BOT, metadata=metadata(kind="other"))
    server.write(USER, BOT, metadata=None)
    server.write(USER, BOT, text=notice().text)
    assert [each.id for each in channel.find(notice(), None)] == [mine]
    same = server.write("U0OTHER", BOT, metadata=metadata(revision=5))
    assert [each.revision for each in channel.find(notice(), None)] == [4, 5]
    assert same in channel.find(notice(), None)[1].id


def told(world, **history):
    """Let Slack tell this history."""
    serve = world.server.serve
    said = Answer(200, json.dumps({"ok": True, **history}).encode())
    world.server.serve = lambda each: said if "history" in each.path else serve(each)


@pytest.mark.parametrize(
    "odd",
    [
        *("x", None, 5, [], {"metadata": "x"}, {"metadata": [1]}),
        {"metadata": {"event_type": slack.EVENT, "event_payload": "x"}},
        {"metadata": {"event_type": [], "event_payload": {"kind": []}}},
        {"ts": 5, "user": USER, "metadata": metadata()},
        {"ts": "1.1", "user": USER, "metadata": metadata(kind=["status"])},
    ],
    ids=range(10),
)
def test_what_is_no_message_of_ours_is_passed_over_whatever_it_is(world, odd):
    mine = {"ts": "2.2", "user": USER, "metadata": metadata()}
    told(world, messages=[odd, mine], response_metadata="x")
    assert [each.id for each in world.channel().find(notice(), None)] == [f"{CHANNEL}/2.2"]


@pytest.mark.parametrize("messages", [{"a": 1}, "x", 5, None])
def test_a_history_that_is_no_list_is_not_taken_for_an_empty_one(world, messages):
    told(world, messages=messages)
    with pytest.raises(NotSent, match="without a list"):
        world.channel().find(notice(), None)


@pytest.mark.parametrize("more", ["x", 5, [1], {"next_cursor": {"a": 1}}, {"next_cursor": 0}])
def test_an_odd_next_page_is_none(world, more):
    told(world, messages=[], response_metadata=more)
    assert world.channel().find(notice(), None) == []
    assert len([each for each in world.server.requests if "history" in each.path]) == 1


@pytest.mark.parametrize("fault", ["dropped", "silent", "endless", "dripping", 500, "fatal_error"])
def test_of_what_only_asks_nobody_hears_that_a_message_may_have_arrived(world, fault):
    world.server.script.append(fault)
    with pytest.raises(NotSent):
        world.channel().find(notice(), None)


@pytest.mark.req("F3")
def test_a_token_without_a_bot_owns_no_message_that_has_none(world):
    serve = world.server.serve
    who = Answer(200, b'{"ok": true, "user_id": "U0ANN"}')
    world.server.serve = lambda each: who if each.path.endswith("auth.test") else serve(each)
    world.server.write("U0EVE", "", metadata=metadata())
    mine = world.server.write("U0ANN", "", metadata=metadata())
    (found,) = world.channel().find(notice(), None)
    assert mine in found.id


def test_what_counts_for_nothing_is_told_apart_in_slack_too(world):
    channel = world.channel()
    known = channel.post(notice())
    assert world.server.messages[0]["metadata"] == metadata()
    channel.edit(known, notice()._replace(text="**Superseded.**"))
    assert world.server.messages[0]["metadata"] == {
        "event_type": "gfs_superseded",
        "event_payload": {"flow": "f-1"},
    }


def test_how_far_back_it_looks_leaves_room_for_clocks(world):
    world.channel().post(notice())
    asked = []
    serve = world.server.serve
    world.server.serve = lambda request: asked.append(request.body) or serve(request)
    for since in ("2026-09-06T10:00:00Z", "0001-01-01T00:00:00Z", None):
        world.channel().find(notice(), since)
    oldest = [body.decode().partition("oldest=")[2] for body in asked if b"oldest" in body]
    assert oldest == ["1788688500", "0", "0"]


def test_a_token_that_may_not_read_finds_nothing_and_posts_all_the_same(world):
    world.server.scopes.discard("channels:history")
    channel = world.channel()
    channel.post(notice())
    assert channel.find(notice(), None) == []
    world.server.script += [None, "ratelimited"]
    with pytest.raises(HoldOff):
        world.channel().find(notice(), None)


# ── what is shown ───────────────────────────────────────────────────────────────────────────────


@pytest.mark.req("L17", "F3")
@pytest.mark.parametrize(
    "unit", ["&", "<>", "a", "é", "x y\n", "\n", "&\n", "漢字 ", "🎉" * 7 + "\n"]
)
def test_l17_a_text_of_any_signs_fits_into_slacks_blocks_and_is_whole(world, unit):
    limit = SlackChannel.capabilities.limit
    words = unit * ((limit - 100) // len(unit.encode())) + "end"
    world.channel().post(notice(words=words))
    (seen,) = world.server.shown()
    shown = seen.replace(" ", "").replace("\n", "")
    assert shown == words.replace(" ", "").replace("\n", "")


def test_a_notice_without_words_shows_its_title(world):
    world.channel().post(notice(words=""))
    assert world.server.shown() == ["f-1 is running"]


def test_a_notice_may_name_another_channel_of_slack_and_its_id_leads_back_there(world):
    channel = SlackWorld.channel(world, target="C0OTHER")
    known = channel.post(notice(target=CHANNEL))
    assert known.startswith(f"{CHANNEL}/")
    assert channel.edit(known, notice(5)) == known
    assert [each.id for each in channel.find(notice(target=CHANNEL), None)] == [known]
    with pytest.raises(Refused, match="no such channel"):
        channel.post(notice())
