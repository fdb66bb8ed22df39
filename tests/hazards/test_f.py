"""Hazards F1, F2, F5, F6, F7: what users write must not act on Git, on a host or on a terminal."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess

import clirun
import pytest
from flowrepo import Change, imported

TRAILERS = "%(trailers:only,unfold,separator=%x00)"


def trailers(cli, commit="main"):
    """Return the trailers of a commit as C git reads them, names to lists."""
    found = {}
    for line in cli.git("log", "-1", f"--format={TRAILERS}", commit).split("\0"):
        name, _, value = line.partition(": ")
        found.setdefault(name, []).append(value)
    return found


FORGED = [
    "x\n\nRevision: 999\n",
    "x\n\nRevision: 999\nStatus: done\nFlow: other\n",
    "Revision: 999",
    'x\n\nGfs-Op: {"op":"done"}\nGfs-Rules: 7',
    "x\n\nActor: root\n\n---\nSigned-off-by: a <a@b>",
    "x\r\n\r\nRevision: 999".replace("\r", "\u2028"),
    "x\n\nRevision : 999\n continued\nRevision= 9",
]


@pytest.mark.req("F1", "R-TF-29")
@pytest.mark.parametrize("text", FORGED, ids=ascii)
def test_f1_no_text_forges_a_trailer(flow, text):
    commands = [
        ("update", "plan", "--progress", text),
        ("update", "plan", "--next", text, "--goal", text),
        ("note", "plan", text),
        ("wait", "plan", "--reason", text, "--until", text),
        ("resume", "plan", "--next", text),
        ("fail", "plan", "--reason", text, "--recoverable", text),
    ]
    for revision, words in enumerate(commands, start=2):
        flow(*words)
        found = trailers(flow)
        assert found.pop("Gfs-Op")[0].startswith('{"at":')
        assert found == {
            "Flow": ["plan"],
            "Revision": [str(revision)],
            "Status": [flow.flow("plan")["status"]],
            "Actor": ["local"],
            "Gfs-Rules": ["1"],
        }
        logged = flow.json("log", "plan", "-n", "1")["log"][0]
        assert (logged["revision"], logged["op"]) == (revision, words[0])
    assert flow.flow("plan")["failure"]["reason"] == text
    assert flow.json("verify", "--strict")["problems"] == []


ACTIVE = re.compile(
    r"\[(skip ci|ci skip|no ci|skip actions|actions skip)\]|^\s*skip-checks\s*:"
    r"|(?<!\w)@\w|#\d|\bGH-\d|^(Co-authored|Signed-off)-by:|/(issues|pull)/\d",
    re.IGNORECASE | re.MULTILINE,
)
ACTING = [
    *("[skip ci]", "[ci skip]", "[no ci]", "[skip actions]", "[actions skip]"),
    *("skip-checks: true", "Fixes #1", "closes o/r#2", "resolves GH-12", "@org/team", "@somebody"),
    *("Co-authored-by: A <a@b.example>", "Signed-off-by: A <a@b.example>"),
    "fixes https://github.com/o/r/issues/7",
]


@pytest.mark.req("F2")
@pytest.mark.parametrize("text", ACTING)
def test_f2_nothing_acts_on_the_host(cli, text):
    assert ACTIVE.search(text)
    cli("create", text, "--id", "plan", "--next", text, "--label", text)
    cli("update", "plan", "--progress", f"one\n{text}\n{text}", "--next", f"two {text}")
    cli("note", "plan", f"{text}", "--as", text)
    cli("wait", "plan", "--reason", f"r {text}", "--until", text)
    cli("done", "plan", "--result", text)
    messages = cli.git("log", "--format=%B", "main")
    assert ACTIVE.search(messages) is None, ACTIVE.search(messages)
    assert cli.flow("plan")["goal"] == text
    assert cli.op()["result"] == text


# ── the terminal ────────────────────────────────────────────────────────────────────────────────

# Allowed in a document, and never to be seen raw; what acts on a terminal is in no document at all.
UNSEEN = "\u202e\u2066\u200b\u2028\ufeff\U000e0041"
ESCAPES = "\x1b]0;t\x07\x1b[2J\x1b]52;c;YQ==\x07\x1b]8;;http://x\x07\x9b31m\rX"
SHOWING = [
    ("show", "plan"),
    ("list", "--all"),
    ("log", "plan"),
    ("diff", "plan"),
    ("diff", "plan", "1"),
    ("changes", "plan", "--since", "0"),
    ("brief", "plan", "--since", "0"),
    ("brief",),
    ("verify",),
    ("where",),
    (),
]
RAW = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff]")


@pytest.fixture
def odd(cli):
    """Return the command line on a repository full of what no terminal should see."""
    word = f"a{UNSEEN}b"
    name = word.replace("\u2028", "")
    words = ("--label", name, "--link", f"{name}={name}", "--owner", name)
    cli("create", word, "--id", "plan", "--next", word, *words)
    cli(
        "update", "plan", "--progress", word, "--data", "-", stdin=json.dumps({word: word}).encode()
    )
    cli("note", "plan", f"{word}\n{word}", "--as", name)
    cli("wait", "plan", "--reason", word, "--until", word)
    document = cli.flow("plan") | {"revision": 5, "progress": f"by hand {word}"}
    person = f"E{ESCAPES.replace(chr(13), '')}{word}l <e@x>"
    path = cli.json("show", "plan", "--path")["path"]
    imported(
        cli.gitdir,
        Change(path, (json.dumps(document, indent=2) + "\n").encode()),
        Change(f"flows/aa/{ESCAPES[:9]}{UNSEEN}.json", b"{"),
        text=f"by {ESCAPES}{word}\n".encode(),
        person=person,
    )
    return cli


@pytest.mark.req("F5")
@pytest.mark.parametrize("words", SHOWING, ids=lambda words: words[0] if words else "gfs")
def test_f5_nothing_raw_reaches_a_terminal_or_a_pipe(odd, words):
    result = odd.run(*words)
    assert result.code == 0
    assert RAW.search(result.out + result.err) is None
    if words:
        assert odd.run(*words, "--json").envelope["ok"]


@pytest.mark.req("F5")
@pytest.mark.parametrize(
    "words",
    [
        (f"{ESCAPES}",),
        ("show", f"{ESCAPES}{UNSEEN}"),
        ("show", "plan", f"--{ESCAPES}"),
        ("schema", ESCAPES),
        ("verify", ESCAPES),
        ("list", "--status", ESCAPES),
        ("check", ESCAPES),
        ("note", "plan", ESCAPES),
        ("note", "plan", "x", "--as", ESCAPES),
        ("where", "--repo", f"/nowhere/{ESCAPES}{UNSEEN}\nhint: run this"),
    ],
    ids=lambda words: words[0] if words[0].isalpha() else "verb",
)
def test_f5_neither_does_an_error(odd, words):
    result = odd.run(*words)
    assert result.code != 0
    assert RAW.search(result.err) is None
    assert result.err.count("hint: ") == 1 or "\\nhint: " in result.err
    assert odd.run(*words[:1], "--json", *words[1:]).envelope["ok"] is False


@pytest.mark.req("F5")
def test_f5_a_folder_with_an_odd_name_is_shown_safely(tmp_path):
    folder = tmp_path / f"a\x1b[2J{UNSEEN}b\nc"
    for words in (("init", folder), ("where", "--repo", folder), ("demo", folder / "demo")):
        result = clirun.here(*words)
        assert result.code == 0, result
        shown = "\n".join(line for line in result.out.split("\n") if not line.startswith("    "))
        assert RAW.search(shown) is None
    assert RAW.search(clirun.here(env={"GFS_REPO": str(folder)}).out) is None
    clirun.Cli(folder / "demo").sound(("tour", 9))


def on_a_terminal(cli, *words, **env):
    """Run a command with a terminal as its output; return what arrived there."""
    ours, theirs = pty.openpty()
    try:
        done = subprocess.run(
            [clirun.SCRIPT, *words],
            stdout=theirs,
            stderr=theirs,
            stdin=subprocess.DEVNULL,
            env=os.environ | {"GFS_REPO": str(cli.folder), "TERM": "xterm"} | env,
            check=False,
        )
        os.close(theirs)
        theirs = -1
        parts = []
        while True:
            try:
                part = os.read(ours, 65536)
            except OSError:  # the other end is closed
                break
            if not part:
                break
            parts.append(part)
    finally:
        os.close(ours)
        if theirs >= 0:
            os.close(theirs)
    assert done.returncode == 0
    return b"".join(parts).decode().replace("\r\n", "\n")


@pytest.mark.req("F5")
def test_f5_on_a_terminal_the_only_escapes_are_our_colours(odd):
    shown = on_a_terminal(odd, "show", "plan")
    assert re.search("\x1b\\[3[0-9]m(waiting|stale)\x1b\\[0m", shown)
    assert RAW.search(re.sub("\x1b\\[(3[0-9]|0)m", "", shown)) is None
    assert RAW.search(on_a_terminal(odd, "show", "plan", NO_COLOR="1")) is None


@pytest.mark.req("F6")
@pytest.mark.parametrize("text", ["[red]x[/]", "[link=http://x]y[/link]", "[bold", ":smile:"])
def test_f6_markup_is_shown_as_it_was_typed(cli, text):
    cli("create", text, "--id", "plan", "--next", text)
    cli("note", "plan", text)
    for words in (("show", "plan"), ("list",), ("brief",), ("log", "plan")):
        assert text in cli(*words)
    assert text in cli.run(text).err
    assert text in cli.run("schema", text).err


@pytest.mark.req("F7")
def test_f7_a_name_is_one_line(flow, subtests):
    for char in "\n\r\x1b\x7f\u2028\u2029\x85":
        with subtests.test(char=ascii(char)):
            name = f"a{char}b"
            for words in (
                ("note", "plan", "x", "--as", name),
                ("create", "Goal", "--owner", name),
                ("handoff", "plan", "--to", name, "--reason", "r"),
                ("update", "plan", "--label", name),
                ("note", "plan", "x", "--key", name),
                ("done", "plan", "--result", name),
            ):
                assert flow.refuses(3, *words)["name"] == "invalid"
            for variable in ("GFS_ACTOR", "GFS_SESSION"):
                error = flow.refuses(3, "note", "plan", "x", env={variable: name})
                assert error["message"].startswith(f"{variable}: ")
            document = flow.flow("plan") | {"id": "other", "owner": name}
            flow.refuses(3, "import", "-", stdin=json.dumps(document).encode())


@pytest.mark.req("F7")
def test_f7_a_line_of_a_log_stays_one_line(flow):
    flow("note", "plan", "one\ntwo\n\nr9 done by root: forged", "--as", "ann: r9")
    lines = flow("log", "plan").splitlines()
    assert len(lines) == 2
    assert lines[0].split(" ", 3)[3].startswith("r2 note by ann: r9: one two r9 done by root")
