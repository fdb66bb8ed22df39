"""Hazards L15 to L17: what an issue, its limits and a very large flow do, from the command line."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime

import pytest
import time_machine
from clirun import FOUNDING
from fakes.github import BOT, FakeClock, GitHub, said
from flowrepo import Change, imported
from markdown_it import MarkdownIt

from gitflowstate import marker

TOKEN = "token-for-tests-0123456789"
SETTINGS = b"[channels.github]\nkind = 'github'\nmin_interval = 0\n"
BOARD = b"[channels.file]\nkind = 'console'\nfile = 'board.md'\nmin_interval = 0\n"
SECONDARY = "You have exceeded a secondary rate limit. Please wait a few minutes."


@pytest.fixture
def server():
    made = GitHub({TOKEN: None}, FakeClock(datetime.now(UTC)))
    yield made
    made.stop()
    assert made.violations == []


@pytest.fixture
def clock():
    with time_machine.travel(datetime.now(UTC), tick=True) as moved:
        yield moved


@pytest.fixture
def told(cli, server, clock, monkeypatch):
    """Return the command line on a repository whose one flow has its comment on the issue."""
    monkeypatch.setattr("time.sleep", lambda _: None)  # between two requests
    imported(cli.gitdir, Change("gfs.toml", SETTINGS), text=b"settings\n")
    cli("create", "Compare", "--id", "plan", "--next", "Read", "--issue", "octo/hello#12")
    assert watch(cli, server).code == 0
    clock.shift(600)
    return cli


def watch(cli, server, *options):
    env = {"GITHUB_API_URL": server.url, "GITHUB_TOKEN": TOKEN}
    return cli.run("watch", "github", "--once", *options, env=env)


def kinds(server):
    marks = [marker.read(body) for body in server.bodies(BOT)]
    return [(mark.kind, mark.revision) for mark in marks if mark]


@pytest.mark.req("L15")
def test_l15_a_comment_that_was_deleted_comes_back_once(told, server, clock):
    for number in range(3):
        server.issues[1001, 12].comments.clear()
        told("update", "plan", "--progress", f"step {number}")
        clock.shift(600)
        assert watch(told, server).code == 0
        assert kinds(server) == ([("status", 2)] if number == 0 else [])
    told("done", "plan", "--result", "out.md")
    assert watch(told, server).code == 0
    assert kinds(server) == [("final", 5)]


def _locked(server):
    server.issues[1001, 12].locked = True


def _gone(server):
    server.issues[1001, 12].gone = True


def _without_scope(server):
    server.fail("POST", *[said(403, "Resource not accessible by integration")] * 3)


@pytest.mark.req("L15")
@pytest.mark.parametrize(
    ("harm", "says"), [(_locked, "locked"), (_gone, "410"), (_without_scope, "403")]
)
def test_l15_what_is_not_taken_is_parked_by_its_reason_and_the_end_follows(
    told, server, clock, harm, says
):
    told("done", "plan", "--result", "out.md")
    harm(server)
    result = watch(told, server, "--json")
    assert result.code == 1
    assert says in result.error["details"]["parked"]["plan"]
    listed = told.run("channel", "list")
    assert says in listed.out + listed.err
    asked = len(server.requests)
    assert watch(told, server).code == 1
    assert len(server.requests) == asked  # no storm
    server.issues[1001, 12].locked = server.issues[1001, 12].gone = False
    server.faults.clear()
    clock.shift(3600)
    assert watch(told, server).code == 0
    assert ("final", 2) in kinds(server)


@pytest.mark.req("L15")
def test_l15_an_issue_that_moved_is_followed(told, server, clock):
    server.repos["octo/other"] = 1002
    server.issues[1002, 7] = server.issues.pop((1001, 12))
    server.moved["octo/hello", 12] = (1002, 7)
    told("update", "plan", "--progress", "on")
    assert watch(told, server).code == 0
    (comment,) = server.issues[1002, 7].comments
    assert marker.read(comment["body"]) == ("plan", "status", 2)


@pytest.mark.req("L16")
@pytest.mark.parametrize(
    ("step", "wait_s"),
    [
        (said(403, SECONDARY, Retry_After=90), 90),
        (said(429, "Too many requests", Retry_After=90), 90),
        (said(403, "API rate limit exceeded", X_RateLimit_Remaining=0), 60),
        (said(403, SECONDARY), 60),
    ],
    ids=["retry-after", "429", "remaining-0", "secondary"],
)
def test_l16_a_limit_is_waited_for_as_told_and_the_end_comes_first(
    told, server, clock, step, wait_s
):
    told("create", "Second", "--id", "second", "--next", "n", "--issue", "octo/hello#12")
    told("done", "plan", "--result", "out.md")
    server.fail("POST", step)
    watch(told, server)
    assert len([each for each in server.requests if each.method == "POST"]) == 2
    asked = len(server.requests)
    for _ in range(3):
        clock.shift(wait_s // 5)
        watch(told, server)
    assert len(server.requests) == asked
    clock.shift(wait_s)
    assert watch(told, server).code == 0
    assert [kind for kind, _ in kinds(server)] == ["status", "final", "status"]


@pytest.mark.req("L16")
@pytest.mark.parametrize("step", [502, "dropped", "truncated"])
def test_l16_a_server_in_trouble_is_asked_again_and_told_once(told, server, clock, step):
    told("done", "plan", "--result", "out.md")
    server.fail("POST", step)
    assert watch(told, server).code in (0, 75)
    for _ in range(3):
        clock.shift(310)
        watch(told, server)
    assert kinds(server) == [("status", 2), ("final", 2)]


@pytest.mark.req("L17")
@pytest.mark.parametrize("word", ["\U0001f469\u200d\U0001f4bb", "\u6bd4\u8f03 "])
def test_l17_a_very_large_flow_is_one_valid_comment(cli, word):
    imported(cli.gitdir, Change("gfs.toml", BOARD), text=b"settings\n")
    tasks = [
        {"id": f"t{n}", "goal": word * 10, "deps": [f"t{n - 1}"] if n else []}
        | ({"status": "done", "result_ref": f"out/{n}"} if n % 2 else {"status": "pending"})
        for n in range(2000)
    ]
    document = json.loads(FOUNDING.read_text()) | {"id": "plan", "progress": "", "children": tasks}
    document["progress"] = (word * 100_000)[: 100_000 // len(word.encode())]
    cli("import", "-", stdin=json.dumps(document).encode())
    cli("done", "plan", "--result", "out.md", "--cancel-children", "--as", document["owner"])
    assert cli.run("watch", "file", "--once").code == 0
    text = (cli.folder / "board.md").read_text()
    (body,) = re.findall(r"(<!-- gfs:1 flow=.*?)\n<!-- gfs:1 end -->", text, re.DOTALL)
    assert marker.read(body).kind == "final"
    assert body.split("\n")[1].startswith("**Done**")
    assert 10_000 < len(body.encode()) <= 60_000
    assert "\ufffd" not in body
    assert "Cut to fit" in body
    rows = [line for line in body.split("\n") if line.startswith("|")]
    assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} == {5}
    html = MarkdownIt("gfm-like", {"linkify": False}).render(body)
    assert html.count("<table>") == html.count("</table>") > 0
