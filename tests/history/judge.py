"""What a history promised, compared with what the repository says, as C git alone reads it.

Rules: nothing of gfs is used but two of its commands, `verify` and `restore`; each promise is one
function, which returns what broke it.
"""

from __future__ import annotations

import subprocess
from collections import Counter, defaultdict
from pathlib import Path

import clirun
from chronicle import Trace
from drive import PATIENT
from gitrepo import fsck, git
from tasksjudge import dependencies, one_holder, settled_by_holder


def problems(history) -> list[str]:
    """Return every promise that was broken."""
    found = [*history.failed]
    found += [f"{each['by']}: {each['words']} ended with {each['code']}: {each['said'][-600:]}"
              for each in history.wrong()]  # fmt: skip
    try:
        trace = Trace(history.cli.gitdir)
    except (subprocess.CalledProcessError, ValueError) as error:
        return [*found, f"the history cannot be read: {error}"]
    told = history.told()
    for promise in (rising, acknowledged, in_real_time, once_for_each_key, notes_kept):
        found += promise(trace, told)
    for promise in (one_holder, dependencies, settled_by_holder):
        found += promise(trace)
    found += watched(history, trace)
    found += copies(history, trace, told)
    found += sound(history)
    return found


# ── what was acknowledged ───────────────────────────────────────────────────────────────────────


def writes(told):
    """Return the answers that say that a commit was made."""
    return [each for each in told if each["data"].get("commit") and each["data"].get("id")]


def rising(trace, told):
    """Each flow's revisions rise by one, and each document has the revision of its commit."""
    last: dict[str, int] = {}
    for step in trace.steps:
        if step.revision != last.get(step.flow, 0) + 1:
            yield f"{step.flow} goes from r{last.get(step.flow)} to r{step.revision}"
        if step.after is None or step.after["revision"] != step.revision:
            yield f"{step.commit[:12]}: the document of {step.flow} is not at r{step.revision}"
        last[step.flow] = step.revision


def acknowledged(trace, told):
    """Each commit that was acknowledged is on main, with the flow and revision that were told."""
    for each in writes(told):
        data = each["data"]
        step = trace.by_commit.get(data["commit"])
        if step is None:
            yield f"lost: {data['id']} r{data['revision']} of {each['words']}"
        elif (step.flow, step.revision) != (data["id"], data["revision"]):
            yield f"{each['words']} was told r{data['revision']}, and is r{step.revision}"
    for each in told:
        data = each["data"]
        if data.get("repeated") and (data["id"], data["revision"]) not in trace.by_revision:
            yield f"lost: {data['id']} r{data['revision']}, told to the repeat of {each['words']}"


def in_real_time(trace, told):
    """What was acknowledged before a command began comes before it, for writers and readers."""
    latest: list[tuple[float, int]] = []  # when it was told, the newest commit told until then
    newest = -1
    shown: dict[str, list[tuple[float, int]]] = defaultdict(list)
    for each in told:
        data = each["data"]
        if each["words"][0] == "show":
            flow, revision = data["flow"]["id"], data["flow"]["revision"]
            known = [r for when, r in shown[flow] if when < each["begun"]]
            if known and revision < max(known):
                yield f"{flow} r{revision} was shown after r{max(known)} was told"
            if (flow, revision) not in trace.by_revision:
                yield f"{flow} r{revision} was shown, and is not there"
            shown[flow].append((each["ended"], revision))
        elif data.get("commit") in trace.by_commit:
            step = trace.by_commit[data["commit"]]
            before = max((at for when, at in latest if when < each["begun"]), default=-1)
            if step.place <= before:
                yield f"{step.commit[:12]} was begun after {before} was told, and is {step.place}"
            newest = max(newest, step.place)
            latest.append((each["ended"], newest))
            shown[step.flow].append((each["ended"], step.revision))


def once_for_each_key(trace, told):
    """No key was used by two commits; what was asked under one and told is there once."""
    used = Counter(step.op["key"] for step in trace.steps if step.op.get("key"))
    yield from (f"{count} commits have the key {key}" for key, count in used.items() if count > 1)


def notes_kept(trace, told):
    """A note that was acknowledged stands in its flow exactly once, and no note stands twice."""
    for name, document in trace.last.items():
        texts = Counter(note["text"] for note in document.get("notes", []))
        wanted = [each["words"][2] for each in told if each["words"][:2] == ["note", name]]
        yield from (f"{name}: the note {text} is there {texts[text]} times"
                    for text in wanted if texts[text] != 1)  # fmt: skip
        doubled = [text for text, count in texts.items() if count > 1 and text[:5] == "note-"]
        yield from (f"{name}: the note {text} is there twice" for text in doubled)


# ── the watcher ─────────────────────────────────────────────────────────────────────────────────


def watched(history, trace):
    """Every end is announced, none twice; what is acknowledged never falls, and is there."""
    if history.last["owed"] or history.last["held_by"]:
        yield f"the watcher does not come to an end: {history.last}"
    seen: dict[str, int] = {}
    finals: set[tuple[str, int]] = set()
    for op in trace.ops("refs/gfs/cursors/file"):
        if op["op"] != "ack":
            continue
        flow, revision = op["flow"], op["revision"]
        if revision < seen.get(flow, 0):
            yield f"the watcher acknowledged {flow} r{revision} after r{seen[flow]}"
        seen[flow] = revision
        if (flow, revision) not in trace.by_revision:
            yield f"the watcher acknowledged {flow} r{revision}, which is not there"
        if op["kind"] == "final":
            if (flow, revision) in finals:
                yield f"the end of {flow} at r{revision} was acknowledged twice"
            finals.add((flow, revision))
    yield from _board(history, trace, finals)


def _board(history, trace, finals):
    text = (history.cli.folder / "board.md").read_text()
    posted = Counter(trace.marks(text, "final"))
    yield from (f"the end of {flow} r{revision} was told {count} times"
                for (flow, revision), count in posted.items() if count > 1)  # fmt: skip
    for name, document in trace.last.items():
        if document["status"] in ("done", "failed"):
            end = name, document["revision"]
            if end not in posted:
                yield f"the end of {name} r{document['revision']} was never told"
            if end not in finals:
                yield f"the end of {name} r{document['revision']} was never acknowledged"
    for flow, revision in posted:
        if trace.by_revision[flow, revision].after["status"] not in ("done", "failed"):
            yield f"an end of {flow} was told at r{revision}, where it had none"


# ── copies, and the whole ───────────────────────────────────────────────────────────────────────


def copies(history, trace, told):
    """A backup that was reported holds what was acknowledged before it began."""
    backups = [each for each in told if each["words"][0] == "backup"]
    for each in backups:
        head = trace.place_of(each["data"]["head"])
        told_before = [one for one in writes(told) if one["ended"] < each["begun"]]
        steps = [trace.by_commit.get(one["data"]["commit"]) for one in told_before]
        before = [step.place for step in steps if step]
        if head < max(before, default=-1):
            yield f"the backup {each['words'][1]} lacks what was told before"
    if backups:
        file = Path(backups[-1]["words"][1])
        done = clirun.here("restore", file, history.folder / "restored", "--json")
        if done.code or done.data["problems"]:
            yield f"{file.name} cannot be restored: {done}"


def sound(history):
    """One more command of each kind succeeds; C git and `verify` find nothing."""
    cli = history.cli
    for words in (("note", "f-3", "the last words"), ("gc",), ("verify", "--strict")):
        done = cli.run(*words, env=PATIENT)
        if done.code and not (words[0] == "note" and done.code == 3):
            yield f"{words[0]} ends with {done.code}: {done.err}"
    try:
        fsck(cli.gitdir)
    except AssertionError as error:
        yield f"git fsck: {error}"
    shown = {path.stem for top in ("flows", "archive") for path in cli.folder.glob(f"{top}/*/*")}
    stored = git(cli.gitdir, "ls-tree", "-r", "--name-only", "main", "flows", "archive")
    if shown != {Path(line).stem for line in stored.splitlines()}:
        yield "the plain files are not those of the head"
    left = [*cli.gitdir.glob("*.lock"), *cli.gitdir.glob("refs/**/*.lock"), cli.gitdir / "gc.pid"]
    yield from (f"{path} was left" for path in left if path.name != "gfs.lock" and path.exists())
    status = subprocess.run(
        ["git", "-C", cli.gitdir, "rev-list", "--min-parents=2", "main"],
        capture_output=True, check=True,
    )  # fmt: skip
    if status.stdout:
        yield "there is a merge"
