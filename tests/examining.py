"""How tests examine a repository with `gfs doctor`, and see that looking changes nothing."""

from __future__ import annotations

import re

import clirun
from flowrepo import Change, imported
from gitrepo import overwrite

from gitflowstate import documents

# As `clirun.HARMFUL`, but for the words of our own verbs that take nothing away.
HARMFUL = re.compile(
    r"\bgit(?: -\S+)* +(?:reset|checkout|clean|restore|prune|gc|rm|update-ref)\b|\brm\b"
    r"|\bforce|\boverwrit|\bdelet|\bremov|--hard|\bpush -f",
    re.IGNORECASE,
)
SETTINGS = b"[channels.team]\nkind = 'console'\n"


def made(folder):
    """Return the command line on a repository with three flows, one of them archived."""
    found = clirun.made(folder / "work")
    for number in (1, 2, 3):
        found("create", f"Goal {number}", "--id", f"f-{number}", "--next", "Read")
    (folder / "r").write_text("result")
    found("done", "f-3", "--result", folder / "r")
    return found


def watched(cli):
    """Give a repository a channel `team`, which has looked at everything."""
    imported(cli.gitdir, Change("gfs.toml", SETTINGS), text=b"settings\n")
    assert cli.run("watch", "team", "--once").code == 0
    return cli


def photograph(folder):
    """Return every file of a folder but the lock, and every folder."""

    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in sorted(folder.rglob("*"))
        if not path.name.startswith("gfs.lock")
    }


def examined(cli, *options, env=None):
    """Return the findings by kind; without --fix nothing is written, and both forms agree."""
    documents._memo.clear()  # as in a process of its own
    before = photograph(cli.folder)
    told = cli.run("doctor", *options, "--json", env=env).envelope
    findings = told["data"]["findings"] if told["ok"] else told["error"]["details"]["findings"]
    still = [f for f in findings if not f["note"] and not f["fixed"]]
    assert told["ok"] == (not still)
    if "--fix" not in options:
        assert photograph(cli.folder) == before
        said = cli.run("doctor", *options, env=env)
        assert said.code == (1 if still else 0)
        assert "Traceback" not in said.err
        for found in findings:
            assert found["problem"]
            assert found["evidence"]
            assert found["problem"].split("\n")[0] in said.out
    for found in findings:
        assert not HARMFUL.search(found["next"]), found
    return {found["kind"]: found for found in findings}


def damaged(cli, name, data=b""):
    """Write over the object that a revision names; return its id."""
    oid = cli.git("rev-parse", name)
    overwrite(cli.gitdir / "objects" / oid[:2] / oid[2:], data)
    return oid


def torn(cli):
    """Leave an update whose objects did not reach the disk; return (good, torn)."""
    good = cli.head
    cli("note", "f-1", "lost")
    return good, damaged(cli, "main")
