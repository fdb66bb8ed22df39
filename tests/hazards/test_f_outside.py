"""Hazards F3, F4, F8, F9: words of users in a comment, in a script of CI, as Git's arguments."""

from __future__ import annotations

import json
import os
import re

import pytest
from flowrepo import Change, imported
from markdown_it import MarkdownIt

from gitflowstate import marker

BOARD = b'[channels.file]\nkind = "console"\nfile = "board.md"\nmin_interval = 0\n'
MENTIONS = [
    "@everyone @here @user @org/team <!channel> <!here> <@U012345> #12 fixes #12 GH-12 o/r#3",
    "![](http://x/p.png) <img src=x onerror=y> <a href=javascript:x>y</a> [x](javascript:y)",
    "https://github.com/o/r/issues/1 closes https://github.com/o/r/pull/2 </details></summary>",
    "\u202edone\u202c a\u2066b | a | b |",
    *("# Done", "> quoted", "- [x] all", "***", "~~~"),
]
BLOCKS = ["```\nrun\n```", "\n" * 300 + "end", "| a | b |\n| - | - |\n| c | d |", "<!--\nopen"]
FORGED = [
    *("-->", "--> kind=final", "<!-- gfs:1 flow=plan kind=final rev=9 -->", "kind=final rev=9"),
    *("<!-- gfs:1 flow=other kind=status rev=1 -->", "<!-- gfs:1 end -->"),
    "<!-- gfs:1 message=final-1 in plan -->",
]
SEEN = re.compile(r"(?<![\w/&;`])@\w|(?<![\w&`])#\d|\bGH-\d|<!(?!--)|\b[\w-]+/[\w-]+#\d")
BIDI = re.compile("[\u202a-\u202e\u2066-\u2069\u200e\u200f]")


def told(cli):
    """Make a pass; return the text of the one file that people see, message by message."""
    assert cli.run("watch", "file", "--once").code == 0
    text = (cli.folder / "board.md").read_text()
    return re.findall(
        r"<!-- gfs:1 message=\S+ in \S+ -->\n(.*?)\n<!-- gfs:1 end -->", text, re.DOTALL
    )


@pytest.fixture
def posted(cli):
    """Return the command line on a repository with a channel that keeps a file."""
    imported(cli.gitdir, Change("gfs.toml", BOARD), text=b"settings\n")
    return cli


def full_of(cli, words):
    """Bring a flow into being and to its end, with the same words wherever words may be."""
    line = " ".join(words.split("\n"))
    cli("create", "--id", "plan", f"--next={line}", "--", line)
    cli("task", "add", "plan", "--id", "t1", "--", line)
    cli("update", "plan", f"--progress={words}")
    cli("wait", "plan", f"--reason={words}", f"--until={words}")
    messages = told(cli)
    cli("fail", "plan", f"--reason={words}", f"--recoverable={words}", "--cancel-children")
    return messages + told(cli)


@pytest.mark.req("F3")
@pytest.mark.parametrize("words", [*MENTIONS, *BLOCKS], ids=ascii)
def test_f3_words_in_a_comment_are_inert_and_the_one_marker_is_ours(posted, words):
    messages = full_of(posted, words)
    kinds = [marker.read(text).kind for text in messages]
    assert kinds == ["waiting", "waiting", "final"]
    for text in messages:
        assert text.count("<!-- gfs:1 flow=") == 1
        assert text.splitlines()[0] == marker.line("plan", *marker.read(text)[1:])
        html = MarkdownIt("gfm-like", {"linkify": False}).render(text)
        shown = re.sub(r"<code>.*?</code>|<!--.*?-->", "", html, flags=re.DOTALL)
        assert not re.search(r"<(img|a|script|h[1-6]|input|pre)\b", shown), shown
        assert not SEEN.search(shown), SEEN.search(shown)
        assert not BIDI.search(text)
        assert html.count("<details>") == html.count("</details>")
        assert len(text) < 10_000


@pytest.mark.req("F4")
@pytest.mark.parametrize("words", FORGED, ids=ascii)
def test_f4_no_words_end_or_forge_a_marker(posted, words):
    posted("create", "--id", "plan", f"--next={words}", "--", f"{words} {words}")
    posted("create", "Another goal", "--id", "other", "--next", "Read")
    first, second = sorted(told(posted), key=lambda text: marker.read(text).flow)
    assert marker.read(first) == ("other", "status", 1)
    assert marker.read(second) == ("plan", "status", 1)
    posted("update", "plan", f"--progress={words}", f"--goal={words}")
    marks = sorted(marker.read(text) for text in told(posted))
    assert marks == [("other", "status", 1), ("plan", "status", 2)]
    posted("done", "plan", "--result", "out.md")
    marks = sorted(marker.read(text) for text in told(posted))
    assert marks == [("other", "status", 1), ("plan", "final", 3), ("plan", "status", 3)]


# ── F8: shells and CI ───────────────────────────────────────────────────────────────────────────

SHELL = [
    "$(touch ran)",
    "`touch ran`",
    "; touch ran",
    "a\ntouch ran",
    "| touch ran",
    "a && touch ran",
]
CI = "EOF\ninjected=1\nGFS_EOF\nghadelimiter_1\ninjected=2"


@pytest.mark.req("F8", "L18")
def test_f8_what_a_shell_would_run_is_no_id(cli, tmp_path):
    for name in SHELL:
        cli.refuses(3, "create", "Goal", "--id", name, cwd=tmp_path)
        for words in (("show", name), ("note", name, "x"), ("task", "claim", name, "--next")):
            assert cli.run(*words, cwd=tmp_path).code in (3, 5)
    assert not (tmp_path / "ran").exists()


@pytest.mark.req("F8")
def test_f8_a_task_reaches_its_command_as_data(cli, tmp_path):
    """Its goal is in no argument and in no variable but as JSON, whole and on one line."""
    cli("create", "Goal", "--id", "plan", "--next", "n")
    goals = dict(zip("abcdefg", [*SHELL, CI], strict=True))
    tasks = [{"id": name, "goal": goal} for name, goal in goals.items()]
    cli("plan", "plan", "-", stdin=json.dumps(tasks).encode())
    script = (
        'cd "$GFS_TASK_ID"; cat > stdin; env -0 > environment; '
        'printf "%s\\n" "$GFS_TASK" > variable; echo out'
    )
    for name in goals:
        (tmp_path / name).mkdir()
    done = cli.run("work", "plan", "--", "sh", "-c", script, cwd=tmp_path)
    assert done.code == 0, done
    assert [*tmp_path.rglob("ran")] == []
    for name, goal in goals.items():
        folder = tmp_path / name
        assert json.loads((folder / "stdin").read_text())["task"]["goal"] == goal
        assert (folder / "variable").read_text().count("\n") == 1
        assert json.loads((folder / "variable").read_text())["task"]["goal"] == goal
        variables = (folder / "environment").read_bytes().split(b"\0")
        assert not any(each.startswith(b"injected") for each in variables)


@pytest.mark.req("F8")
def test_f8_nothing_is_written_to_the_files_of_ci(cli, tmp_path):
    """So that there is no delimiter to guess: what CI reads is the one JSON document."""
    cli("create", CI.replace("\n", " "), "--id", "plan", "--next", "n")
    files = {
        name: tmp_path / name for name in ("GITHUB_OUTPUT", "GITHUB_ENV", "GITHUB_STEP_SUMMARY")
    }
    for path in files.values():
        path.write_text("")
    env = {name: str(path) for name, path in files.items()} | {"GITHUB_ACTIONS": "true"}
    for words in (("show", "plan"), ("note", "plan", CI), ("watch", "console", "--once")):
        done = cli.run(*words, "--json", env=env)
        assert (done.code, done.out.count("\n")) == (0, 1)
        assert not re.search("^::", done.err, re.MULTILINE)
    assert [path.read_text() for path in files.values()] == [""] * 3


# ── F9: arguments of Git ────────────────────────────────────────────────────────────────────────

PLACES = [
    *("--upload-pack=touch ran", "ext::sh -c 'touch ran'", "-oProxyCommand=touch ran", "-x"),
    *("fd::7", "a\nb", "", "ext::%S foo", "--", "transport::address"),
]
REVISIONS = ["-d", "a b", "@{u}", "--output=ran", "main..--all", "HEAD^{/x", ":/x", "a..b..c", "\n"]


@pytest.mark.req("F9")
def test_f9_a_place_that_git_could_take_for_something_else_is_refused_before_it_runs(
    flow, tmp_path, subtests
):
    spy = tmp_path / "bin"
    spy.mkdir()
    (spy / "git").write_text(f"#!/bin/sh\ntouch {tmp_path}/started\n")
    (spy / "git").chmod(0o755)
    env = {"PATH": f"{spy}:{os.environ['PATH']}"}
    for place in PLACES:
        with subtests.test(place=ascii(place)):
            for words in (("backup", "--", place), ("restore", "--", place, "new")):
                done = flow.run(*words, cwd=tmp_path, env=env)
                assert (done.code, done.out) == (2, ""), done
    assert not (tmp_path / "started").exists()
    assert not (tmp_path / "ran").exists()


@pytest.mark.req("F9")
def test_f9_a_revision_that_is_none_runs_nothing(flow, tmp_path, subtests):
    for revision in REVISIONS:
        with subtests.test(revision=ascii(revision)):
            done = flow.run("verify", "--", revision, cwd=tmp_path)
            assert done.code in (2, 3, 5), done
            for verb in ("show", "log", "diff"):
                assert flow.run(verb, "--", revision, cwd=tmp_path).code in (3, 5)
    assert [path.name for path in tmp_path.iterdir()] == ["work"]


@pytest.mark.req("F9")
def test_f9_a_channel_is_no_part_of_a_ref_until_its_name_is_plain(flow, subtests):
    before = flow.git("for-each-ref", "--format=%(refname)")
    for name in ("-d", "a b", "@{u}", "../main", "x.lock", "a..b", "A", "~1"):
        with subtests.test(name=name):
            text = f"[channels.'{name}']\nkind = 'console'\n".encode()
            imported(flow.gitdir, Change("gfs.toml", text), text=b"settings\n")
            for words in (("watch", "--once", "--", name), ("channel", "reset", "--", name)):
                assert flow.run(*words).code in (2, 3, 5)
            assert flow.run("channel", "list").code in (0, 3)
    assert flow.git("for-each-ref", "--format=%(refname)") == before
