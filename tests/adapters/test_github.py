"""GitHub: what `gfs channel check` finds, what stays secret, and what the library must not do."""

from __future__ import annotations

import gzip
import json
import logging
import os
import subprocess
import sys
import time
from contextlib import closing

import pytest
from fakes.github import BOT, GitHub, said
from fakes.loopback import REMOTE_WORDS, Answer
from fakes.worlds import TOKEN, GitHubWorld
from gitrepo import git

from gitflowstate import marker
from gitflowstate.adapters import bounded
from gitflowstate.delivery import HoldOff, NotSent, Refused, Unauthorised, Unknown
from gitflowstate.ports import Notice


@pytest.fixture
def world(tmp_path):
    made = GitHubWorld(tmp_path)
    yield made
    made.close()


def notice(revision=4):
    text = f"{marker.line('f-1', 'status', revision)}\n**Running**"
    return Notice("f-1", "status", revision, None, "", text)


def scoped(*steps):
    """Return a step that serves nothing but the scopes of a classic token, beside an issue."""
    body = json.dumps({"number": 12, "locked": False})
    return said(200, "")._replace(body=body.encode(), headers=steps)


# ── what a check finds ──────────────────────────────────────────────────────────────────────────


def test_a_check_tries_the_token_and_the_issue_and_writes_nothing(world):
    found = world.channel().examine()
    assert found == [f"the token speaks for user {BOT}", "octo/hello#12 can be read"]
    assert "no target" in world.channel(target=None).examine()[1]
    assert {each.method for each in world.server.requests} == {"GET"}


@pytest.mark.parametrize(
    ("scopes", "words"),
    [("repo, gist", None), ("public_repo", None), ("repo:status", "lacks"), ("gist", "lacks")],
)
def test_a_check_names_the_scope_that_a_classic_token_lacks(world, scopes, words):
    world.server.script += [None, scoped(("X-OAuth-Scopes", scopes))]
    channel = world.channel()
    if words:
        with pytest.raises(Refused, match=words):
            channel.examine()
    else:
        assert channel.examine()[1] == "octo/hello#12 can be commented on"


@pytest.mark.req("L15")
def test_a_check_names_what_is_wrong_with_the_issue_or_the_token(world):
    issue = world.server.issues[1001, 12]
    issue.locked = True
    with pytest.raises(Refused, match="octo/hello#12 is locked"):
        world.channel().examine()
    issue.gone = True
    with pytest.raises(Refused, match="gone, or issues are turned off"):
        world.channel().examine()
    with pytest.raises(Refused, match="no such issue"):
        world.channel(target="octo/hello#99").examine()
    with pytest.raises(Unauthorised, match="GFS_GITHUB_TOKEN"):
        world.channel(token="wrong").examine()
    world.server.script.append(said(403, "secondary rate limit"))
    with pytest.raises(HoldOff):
        world.channel().examine()


@pytest.mark.parametrize("closed", [False, True])
def test_a_check_on_the_command_line_tries_the_cursor_too(tmp_path, closed):
    """In a clone whose origin takes no pushes it says so; nothing is written either way."""
    server = GitHub({TOKEN: BOT})
    try:
        environ = {**os.environ, "GFS_GITHUB_TOKEN": TOKEN, "GITHUB_API_URL": server.url}
        gfs = [sys.executable, "-m", "gitflowstate"]
        flows, clone = tmp_path / "flows", tmp_path / "clone"
        subprocess.run([*gfs, "init", flows, "--github"], check=True, capture_output=True)
        git(tmp_path, "clone", "-q", f"file://{flows}", clone)
        if closed:
            git(clone, "remote", "set-url", "--push", "origin", f"file://{tmp_path}/nowhere")
        ran = subprocess.run(
            [*gfs, "channel", "check", "github", "--repo", clone],
            env=environ,
            capture_output=True,
            text=True,
            check=False,
        )
        assert ran.returncode == (75 if closed else 0), ran.stderr
        assert ("its cursor can be pushed" in ran.stdout) != closed
        assert git(flows, "for-each-ref", "refs/gfs") == ""
        assert TOKEN not in ran.stdout + ran.stderr
        assert server.violations == []
    finally:
        server.stop()


@pytest.mark.req("L15")
@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("Unable to create comment because issue is locked.", "the issue is locked"),
        ("Repository was archived so is read-only.", "the repository is archived"),
        ("Resource not accessible by integration", "needs Issues, read and write"),
    ],
)
def test_a_refusal_says_what_has_to_be_mended_in_words_of_ours(world, words, reason):
    world.server.script.append(said(403, words, X_GitHub_Request_Id="bad\tid"))
    with pytest.raises(Refused, match=reason) as refused:
        world.channel().post(notice())
    assert REMOTE_WORDS not in str(refused.value)
    assert "request" not in refused.value.reason


# ── answers that say something else ─────────────────────────────────────────────────────────────


def made(**odd):
    """Return a step that makes a comment, and says something odd of it."""
    return lambda request: shown(
        {"id": 9001, "body": json.loads(request.body)["body"], "user": {"id": BOT}, **odd}, 201
    )


def shown(body, status=200, *headers):
    return Answer(
        status, json.dumps(body).encode(), (("Content-Type", "application/json"), *headers)
    )


@pytest.mark.parametrize(
    "user", ["x", [1], 5, None, {"id": 10**200}, {"id": -1}, {"id": "7"}, {"id": True}, {}]
)
def test_a_comment_of_an_odd_author_is_one_and_its_author_is_not_kept(world, user):
    world.server.script.append(made(user=user))
    channel = world.channel()
    assert channel.post(notice()) == "octo/hello#12/9001"
    assert channel.author_id is None


@pytest.mark.parametrize("number", [10**18, 10**200, 0, -1, "9001", None, True])
def test_a_comment_without_a_number_that_can_be_kept_may_be_there(world, number):
    world.server.script.append(made(id=number))
    with pytest.raises(Unknown):
        world.channel().post(notice())


@pytest.mark.parametrize(
    "location", ["http://[x", "", "/elsewhere", "http://other.example/repositories/1001/issues/12"]
)
def test_an_odd_location_is_a_refusal_and_is_not_asked(world, location):
    world.server.script.append(Answer(301, b"{}", (("Location", location),)))
    with pytest.raises(Refused, match="does not say where to"):
        world.channel().post(notice())
    assert len(world.server.requests) == 1


@pytest.mark.parametrize(
    "link", ["http://[x", "http://other.example/x", "//[", "/\x7f", "/" + "a" * 70_000]
)
def test_an_odd_next_page_is_no_page_and_nothing_was_written(world, link):
    world.server.script += [None, shown([], 200, ("Link", f'<{link}>; rel="next"'))]
    with pytest.raises(NotSent):
        world.channel().find(notice(), None)
    assert {each.method for each in world.server.requests} == {"GET"}


@pytest.mark.parametrize(
    "answer",
    [
        *(Answer(status) for status in (304, 204, 502, 408)),
        *(shown(body) for body in ("x", {}, {"id": "x"}, {"id": 10**200})),
        *("dropped", "silent", "endless", "dripping", "garbled", "truncated"),
    ],
    ids=range(14),
)
def test_of_what_only_asks_nobody_hears_that_a_message_may_have_arrived(world, answer):
    world.server.script.append(answer)
    with pytest.raises(NotSent) as failed:
        world.channel().examine()
    assert "message" not in str(failed.value)
    world.server.script += [None, answer]
    with pytest.raises(NotSent):
        world.channel().find(notice(), None)


@pytest.mark.req("K2")
def test_k2_a_connection_is_cut_in_its_second_exchange_too_and_the_next_one_is_new(world):
    with closing(world.channel()) as channel:
        first = channel.post(notice())
        world.server.script.append("endless")
        with pytest.raises(Unknown):
            channel.edit(first, notice(5))
        assert channel.edit(first, notice(6)) == first


@pytest.mark.req("K2")
@pytest.mark.parametrize("packed", [False, True])
def test_k2_an_answer_is_read_up_to_a_size_packed_or_not(world, monkeypatch, packed):
    monkeypatch.setattr(bounded, "MOST_BYTES", 100_000)
    body = json.dumps(["a" * 200_000]).encode()
    headers = (("Content-Encoding", "gzip"),) if packed else ()
    world.server.script += [None, Answer(200, gzip.compress(body) if packed else body, headers)]
    with pytest.raises(NotSent):
        world.channel().find(notice(), None)
    monkeypatch.setattr(bounded, "MOST_BYTES", 300_000)
    world.server.script += [None, Answer(200, gzip.compress(body) if packed else body, headers)]
    assert world.channel().find(notice(), None) == []


# ── what the library must not do ────────────────────────────────────────────────────────────────


@pytest.mark.req("G2", "G3")
def test_g2_g3_the_token_is_the_given_one_and_shows_nowhere(world, monkeypatch, capfd, caplog):
    caplog.set_level(logging.DEBUG)
    for name in ("GITHUB_TOKEN", "GITHUB_JWT_TOKEN", "GH_HOST"):
        monkeypatch.setenv(name, "https://other.example")
    monkeypatch.setenv("GHAPI_DEBUG", "1")
    with closing(world.channel()) as channel:
        channel.post(notice())
    sent = {each.headers["Authorization"] for each in world.server.requests}
    assert sent == {f"Bearer {TOKEN}"}
    printed = "".join(capfd.readouterr())
    assert printed == ""
    assert TOKEN not in caplog.text


def test_nothing_is_sent_twice_by_the_library(world, monkeypatch):
    monkeypatch.setattr(time, "sleep", lambda _: pytest.fail("it tries again by itself"))
    for fault in ("dropped", 500, 429, 403, 301):
        world.server.requests.clear()
        world.server.script.append(fault)
        with pytest.raises(Exception, match=r"GitHub|silence|moved|refused"):
            world.channel().post(notice())
        assert len(world.server.requests) == 1
    world.server.stop()
    with pytest.raises(NotSent):
        world.channel().post(notice())


@pytest.mark.req("L16")
def test_a_second_lies_between_two_requests_that_write(world):
    with closing(world.channel()) as channel:
        first = channel.post(notice())
        world.clock.move(0.4)
        channel.edit(first, notice(5))
        channel.find(notice(), None)
        channel.edit(first, notice(6))
        world.clock.move(7)
        channel.edit(first, notice(7))
    begin = world.server.writes[0]
    assert [each - begin for each in world.server.writes] == [0, 1, 2, 9]


def test_an_issue_is_listed_a_few_times_however_old_the_flows_are_that_follow(world):
    channel = world.channel()
    message = channel.post(notice())
    listed = [f"2026-0{month}-{day:02}T00:00:00Z" for month in range(9, 0, -1) for day in (5, 4, 3)]
    for since in (*listed, "0001-01-01T00:00:00Z", None):
        assert [each.id for each in channel.find(notice(), since)] == [message]
    lists = [each.path for each in world.server.requests if "per_page" in each.path]
    assert 2 <= len(lists) <= 7
    assert "since" in lists[0]
    assert "since" not in lists[-1]


def test_one_connection_serves_all_requests(world):
    with closing(world.channel()) as channel:
        for revision in range(4, 7):
            channel.post(notice(revision))
        client = channel._wire._transport.client
        assert len(client._transport._pool.connections) == 1
