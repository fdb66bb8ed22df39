"""Hazards L4, L18 to L20, L22, L25: what broke tools of this kind, seen from the command line."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import threading
import time

import clirun
import pytest
import time_machine
from clirun import FOUNDING, HARMFUL, SCRIPT, here
from gitrepo import become_nobody, child, code_of, let_others_in

# ── L4: nobody's text is replaced ───────────────────────────────────────────────────────────────


@pytest.mark.req("L4", "R-TF-25")
def test_l4_notes_and_an_update_of_another_owner_are_all_there(flow):
    flow("note", "plan", "from ann", "--as", "ann")
    flow("take", "plan", "--reason", "mine now", "--as", "owner")
    flow("update", "plan", "--progress", "by the owner", "--as", "owner")
    flow("note", "plan", "from bob", "--as", "bob")
    found = flow.flow("plan")
    assert [(note["by"], note["text"]) for note in found["notes"]] == [
        ("ann", "from ann"),
        ("owner", "Owner: local -> owner. mine now"),
        ("bob", "from bob"),
    ]
    assert found["progress"] == "by the owner"


@pytest.mark.req("L4", "R-TF-23")
def test_l4_the_same_at_the_same_time(flow):
    words = [
        ("note", "plan", "from ann", "--as", "ann"),
        ("note", "plan", "from bob", "--as", "bob"),
        ("update", "plan", "--progress", "by the owner"),
        ("update", "plan", "--next", "another step"),
    ]
    results = []
    threads = [
        threading.Thread(target=lambda given=each: results.append(flow.process(*given)))
        for each in words
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [result.code for result in results] == [0] * 4
    found = flow.flow("plan")
    assert sorted(note["text"] for note in found["notes"]) == ["from ann", "from bob"]
    assert (found["progress"], found["next_action"]) == ("by the owner", "another step")
    assert found["revision"] == 5


# ── L18, L19: ids ───────────────────────────────────────────────────────────────────────────────


BAD_NAMES = [
    *("con", "aux.json", "a:b", "dot.", "-dash", "A", "e\u0301", "é", "a\u200bb", "a\nb"),
    *("$(id)", "../up", ".git", "x" * 260),
]


@pytest.mark.req("L18")
def test_l18_one_rule_for_ids_and_the_message_says_it(flow, subtests):
    flow("done", "plan", "--result", "r")
    rule = "1 to 64 of a-z 0-9 . _ - beginning with a letter or digit"
    for name in BAD_NAMES:
        with subtests.test(name=ascii(name)):
            for words in (("create", "Goal", f"--id={name}"), ("retry", "plan", f"--id={name}")):
                assert rule in flow.refuses(3, *words)["message"]
            document = json.loads(FOUNDING.read_text()) | {"id": name}
            error = flow.refuses(3, "import", "-", stdin=json.dumps(document).encode())
            assert rule in error["message"]


@pytest.mark.req("L18")
def test_l18_names_that_differ_in_more_than_case_are_two_flows(cli):
    for name in ("a", "a.b", "a-b", "a_b", "0", "x" * 64):
        assert cli("create", f"Goal {name}", "--id", name).startswith(f"{name} r1 pending\n")
    assert len(cli.json("list")["flows"]) == 6


@pytest.mark.req("L19", "R-TF-27")
def test_l19_an_archived_id_points_at_its_flow_and_at_retry(flow):
    flow("done", "plan", "--result", "r")
    before = flow.flow("plan")
    error = flow.refuses(4, "create", "Compare options", "--id", "plan")
    assert "archived" in error["message"]
    assert "gfs retry plan" in error["hint"]
    assert error["details"]["next"] == ["gfs", "show", "plan"]
    flow("retry", "plan", "--id", "second")
    assert flow.flow("plan") == before


# ── L20: zones ──────────────────────────────────────────────────────────────────────────────────


def in_zone(zone, act):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", zone)
        time.tzset()
        try:
            return act()
        finally:
            patch.undo()
            time.tzset()


@pytest.mark.req("L20", "R-TF-04")
@pytest.mark.parametrize(
    ("zone", "at", "before", "after"),
    [
        ("Europe/Berlin", "2027-03-28T00:30:00Z", "+01:00", "+02:00"),
        ("Europe/Berlin", "2027-10-31T00:30:00Z", "+02:00", "+01:00"),
        ("America/New_York", "2027-03-14T06:30:00Z", "-05:00", "-04:00"),
        ("Australia/Lord_Howe", "2027-04-03T14:30:00Z", "+11:00", "+10:30"),
        ("Asia/Kathmandu", "2027-01-01T00:00:00Z", "+05:45", "+05:45"),
    ],
)
def test_l20_documents_are_in_utc_and_people_see_an_offset(cli, zone, at, before, after):
    def act():
        with time_machine.travel(at, tick=False) as clock:
            cli("create", "Goal", "--id", "plan")
            clock.shift(2 * 3600)
            cli("note", "plan", "two hours later")
            return cli("show", "plan"), cli("log", "plan")

    shown, logged = in_zone(zone, act)
    found = cli.flow("plan")
    assert found["created_at"] == at
    start, end = found["created_at"], found["updated_at"]
    assert (int(end[11:13]) - int(start[11:13])) % 24 == 2
    assert cli.op()["at"] == end
    stamps = re.findall(r"\d\d:\d\d:\d\d([+-]\d\d:\d\d)", shown + logged)
    assert stamps == [after, before, after, after, before]
    assert "(2 h ago)" in shown
    dates = cli.git("log", "-2", "--format=%cd", "--date=raw", "main").split("\n")
    first, second = (int(line.split()[0]) for line in reversed(dates))
    assert second - first == 7200
    assert {line.split()[1] for line in dates} == {"+0000"}


@pytest.mark.req("L20")
def test_l20_a_lease_over_a_change_lasts_as_long_as_it_says(cli):
    def act():
        with time_machine.travel("2027-03-28T00:30:00Z", tick=False) as clock:
            cli("create", "Goal", "--id", "plan")
            cli("task", "add", "plan", "Do it", "--id", "t1")
            cli.run("task", "claim", "plan", "t1", "--as", "ann")
            until = cli.flow("plan")["children"][0]["claim"]["until"]
            states = []
            for minutes in (119, 2):
                clock.shift(60 * minutes)
                states.append(cli.json("show", "plan")["tasks"]["t1"])
            return until, states

    assert in_zone("Europe/Berlin", act) == ("2027-03-28T02:30:00Z", ["claimed", "stale"])


# ── L22: a repository that is gone, damaged or closed ───────────────────────────────────────────

EVERY_VERB = [
    (),
    ("create", "Goal"),
    ("create", "Goal", "--id", "plan"),
    ("update", "plan", "--progress", "x"),
    ("note", "plan", "x"),
    ("wait", "plan", "--reason", "r", "--until", "u"),
    ("resume", "plan"),
    ("done", "plan", "--result", "r"),
    ("fail", "plan", "--reason", "r", "--recoverable", "none"),
    ("reopen", "plan", "--reason", "r", "--next", "n"),
    ("retry", "plan"),
    ("handoff", "plan", "--to", "ann", "--reason", "r"),
    ("take", "plan", "--reason", "r", "--as", "ann"),
    ("show", "plan"),
    ("list",),
    ("log", "plan"),
    ("diff", "plan"),
    ("changes", "plan", "--since", "1"),
    ("brief",),
    ("brief", "plan"),
    ("import", FOUNDING),
    ("export", "plan"),
    ("export", "--all"),
    ("where",),
    ("verify",),
    ("adopt", "plan", "--reason", "r"),
    ("task", "add", "plan", "Do it"),
    ("task", "claim", "plan", "--next"),
    ("next", "plan"),
    ("graph", "plan"),
    ("recover", "plan"),
]
CODES = {5, 6, 75, 77}


def every_verb(env):
    """Run every verb where none can succeed; return what each said."""
    said = []
    for words in EVERY_VERB:
        result = here(*words, env=env)
        if words == ("where",) and result.code == 0:
            continue  # it reads no flow
        assert result.code in CODES, (words, result)
        assert result.out == ""
        assert "Traceback" not in result.err
        lines = result.err.splitlines()
        assert lines[0].startswith("error: ")
        assert lines[-1].startswith("hint: ")
        assert HARMFUL.search(lines[-1]) is None, (words, lines)
        said += lines
    return said


def follow(said, env):
    """Run every command that the messages suggest, in order."""
    for line in dict.fromkeys(said):
        for command in re.findall(r"\bgfs [a-z]+(?: --?[a-z]+| [A-Za-z0-9_./-]+)*", line):
            words = [word for word in shlex.split(command)[1:] if word not in ("or", "then", "to")]
            here(*words, env=env)
            here(*words[:2], env=env)


def photograph(folder):
    """Return everything below a folder but the repository lock, and who held it last."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in sorted(folder.rglob("*"))
        if not path.name.startswith("gfs.lock")
    }


@pytest.fixture
def victim(flow, tmp_path):
    """Return a copy of a repository, to be damaged."""
    shutil.copytree(flow.folder, tmp_path / "victim")
    return clirun.Cli(tmp_path / "victim")


def _moved(cli):
    cli.folder.rename(cli.folder.parent / "elsewhere")


def _head_missing(cli):
    (cli.gitdir / "refs/heads/main").unlink()


def _head_empty(cli):
    (cli.gitdir / "refs/heads/main").write_bytes(b"")


def _head_garbage(cli):
    (cli.gitdir / "refs/heads/main").write_bytes(b"not a sha\n")


def _head_unknown(cli):
    (cli.gitdir / "refs/heads/main").write_bytes(b"12345678" * 5 + b"\n")


def _commit_truncated(cli):
    path = cli.gitdir / "objects" / cli.head[:2] / cli.head[2:]
    path.chmod(0o644)
    path.write_bytes(path.read_bytes()[:20])


def _tree_gone(cli):
    tree = cli.git("rev-parse", "main^{tree}")
    (cli.gitdir / "objects" / tree[:2] / tree[2:]).unlink()


def _config_broken(cli):
    (cli.gitdir / "config").write_text("[core\n")


def _head_a_folder(cli):
    (cli.gitdir / "refs/heads/main").unlink()
    (cli.gitdir / "refs/heads/main").mkdir()


@pytest.mark.req("L22")
@pytest.mark.parametrize(
    "damage",
    [
        *(_moved, _head_missing, _head_empty, _head_garbage, _head_unknown, _head_a_folder),
        *(_commit_truncated, _tree_gone, _config_broken),
    ],
    ids=lambda damage: damage.__name__.strip("_"),
)
def test_l22_no_message_leads_to_harm(victim, damage):
    damage(victim)
    folder = victim.folder.parent
    before = photograph(folder)
    env = {"GFS_REPO": str(victim.folder)}
    follow(every_verb(env), env)
    assert photograph(folder) == before


@pytest.mark.req("L22")
def test_l22_moved_away_and_called_from_where_it_was(victim, tmp_path):
    victim.folder.rename(tmp_path / "elsewhere")
    victim.folder.mkdir()
    for words in EVERY_VERB[1:]:
        result = here(*words, cwd=victim.folder)
        assert result.code == 5
        assert HARMFUL.search(result.err.splitlines()[-1]) is None
    assert list(victim.folder.iterdir()) == []


@pytest.mark.req("L22")
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody who is refused")
@pytest.mark.parametrize("place", ["", ".git", ".git/objects", ".git/refs", ".git/config"])
def test_l22_without_permission(victim, place):
    let_others_in(victim.folder / "x")
    for path in (victim.folder, *victim.folder.rglob("*")):
        os.chown(path, 65534, 65534)
    before = photograph(victim.folder)
    closed = victim.folder / place
    mode = closed.stat().st_mode
    closed.chmod(0)
    env = {"GFS_REPO": str(victim.folder), "HOME": "/nonexistent"}

    def work():
        become_nobody()
        follow(every_verb(env), env)

    assert code_of(child(work)) == 0
    closed.chmod(mode)
    assert photograph(victim.folder) == before


@pytest.mark.req("L22")
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody who is refused")
def test_l22_read_only_is_still_read(victim):
    let_others_in(victim.folder / "x")
    for path in (victim.folder, *victim.folder.rglob("*")):
        os.chown(path, 65534, 65534)
        path.chmod(0o555 if path.is_dir() else 0o444)
    env = {"GFS_REPO": str(victim.folder), "HOME": "/nonexistent"}

    def work():
        become_nobody()
        for words in (("show", "plan"), ("list",), ("log", "plan"), ("brief",), ("verify",)):
            assert here(*words, env=env).code == 0
        result = here("note", "plan", "x", "--json", env=env)
        assert result.code == 77
        assert not HARMFUL.search(result.error["hint"])

    assert code_of(child(work)) == 0


# ── L25: where output goes, and what the locale says ────────────────────────────────────────────


@pytest.fixture
def large(cli):
    """Return the command line on a repository whose export is longer than a pipe holds."""
    document = json.loads(FOUNDING.read_text())
    several = [document | {"id": f"f{n}", "progress": "p" * 1000} for n in range(120)]
    cli("import", "-", stdin=json.dumps(several).encode())
    return cli


def piped(cli, line, **env):
    """Run a pipeline in bash; return the codes of its parts, and standard error."""
    path = f"{SCRIPT.parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", f'{line}\necho "${{PIPESTATUS[@]}}"'],
        env=os.environ | {"GFS_REPO": str(cli.folder), "PATH": path} | env,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.splitlines()[-1], done.stderr


@pytest.mark.req("L25")
def test_l25_a_reader_that_goes_away_is_no_error(large):
    for line in (
        "gfs export --all | head -1 >/dev/null",
        "gfs export --all --json | head -c 10 >/dev/null",
        "gfs list --limit 500 | true",
    ):
        assert piped(large, line) == ("0 0", "")
    assert piped(large, "gfs note f1 x --as architecture-session | true") == ("0 0", "")
    assert large.json("show", "f1")["flow"]["revision"] == 5


@pytest.mark.req("L25")
@pytest.mark.parametrize("options", ["", " --json"])
def test_l25_closed_streams_are_no_error(flow, options):
    assert piped(flow, f"gfs show plan{options} >&-") == ("0", "")
    assert piped(flow, f"gfs note plan x{options} >&-") == ("0", "")
    assert piped(flow, f"gfs note plan x{options} <&- >&- 2>&-") == ("0", "")
    assert piped(flow, f"gfs note nope x{options} >&- 2>&-") == ("5", "")
    assert len(flow.flow("plan")["notes"]) == 2


@pytest.mark.req("L25")
def test_l25_a_disk_that_is_full_is_one(flow):
    code, said = piped(flow, "gfs export plan >/dev/full")
    assert code == "1"
    assert "the answer could not be written to standard output: No space left" in said
    assert "Exception" not in said
    code, said = piped(flow, "gfs note plan x --json >/dev/full")
    assert code == "1"
    assert "a change is recorded all the same" in said
    code, said = piped(flow, "gfs note nope x --json >/dev/full")
    assert (code, said.splitlines()[0]) == ("5", "error: there is no flow nope")
    assert piped(flow, "gfs note nope x 2>/dev/full")[0] == "5"


BARE = [
    {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONWARNINGS": "default"},
    {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": "ascii"},
    {"LC_ALL": "POSIX", "LANG": "", "TERM": "", "HOME": "/nonexistent", "PYTHONWARNINGS": "always"},
]


@pytest.mark.req("L25")
@pytest.mark.parametrize("env", BARE, ids=["C", "ascii", "posix"])
def test_l25_the_locale_changes_nothing(flow, env):
    text = "Größe geprüft, 試験 🎉"
    words = ("update", "plan", "--progress", text, "--label", "ü", "--link", "ä=ö", "--as", "Zoë")
    flow("create", text, "--id", "usual")
    result = flow.process(*words, env=env)
    assert result == clirun.Result(0, "plan r2 running\n", "")
    found = flow.flow("plan")
    assert (found["progress"], found["labels"]) == (text, ["ü"])
    assert found["links"] == [{"rel": "ä", "href": "ö"}]
    assert flow.op()["by"] == "Zoë"
    for words in (
        ("log", "usual"),
        ("show", "usual", "--json"),
        ("list", "--label", "ü", "--json"),
        ("show", "ünknown"),
        ("show", "ünknown", "--json"),
    ):
        assert flow.process(*words, env=env, start_new_session=True) == flow.process(*words)


@pytest.mark.req("L25")
def test_l25_files_are_found_under_any_locale(flow, tmp_path):
    file = tmp_path / "größe.json"
    file.write_text('{"ü": "ö"}')
    env = {"LC_ALL": "C", "PYTHONUTF8": "0"}
    result = flow.process("update", "plan", "--data", file, env=env)
    assert result == clirun.Result(0, "plan r2 pending\n", "")
    assert flow.flow("plan")["data"] == {"ü": "ö"}
    other = tmp_path / "travail ä"
    assert clirun.process("init", other, env=env).code == 0
    assert clirun.process("list", "--repo", other, env=env).code == 0
