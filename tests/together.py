"""Many processes at once on one repository: begun together, asked for their answers."""

from __future__ import annotations

import contextlib
import json
import os
import traceback

from flowrepo import made, revisions
from gitrepo import MAIN, child, code_of, git

from gitflowstate.errors import Blocked, GfsError, Stale
from gitflowstate.git import Repository
from gitflowstate.ops import Update
from gitflowstate.store import Store
from gitflowstate.taskops import TaskClaim

PATIENCE_S = 60.0  # for a lock that many wait for; nothing here is about how long
LATER = "2026-09-06T12:00:00Z"


@contextlib.contextmanager
def opened(lab):
    """Yield a store of this process's own."""
    with Repository.open(lab.gitdir, writing=True) as repo:
        yield Store(repo, timeout=PATIENCE_S)


def together(lab, count, work):
    """Run `work(number)` in that many processes, begun at once; return what each answered."""
    gate, opener = os.pipe()
    folder = lab.folder.parent / "answers"
    folder.mkdir(exist_ok=True)

    def act(number):
        os.close(opener)
        os.read(gate, 1)
        try:
            answer = [work(number), None]
        except BaseException:  # noqa: BLE001  shown by the parent
            answer = [None, traceback.format_exc()]
        (folder / str(number)).write_text(json.dumps(answer))

    pids = [child(lambda number=number: act(number)) for number in range(count)]
    os.close(gate)
    os.close(opener)
    assert [code_of(pid) for pid in pids] == [0] * count
    answers = [json.loads((folder / str(number)).read_text()) for number in range(count)]
    assert [raised for _, raised in answers if raised] == []
    return [answer for answer, _ in answers]


def clean(lab):
    assert git(lab.gitdir, "rev-list", "--count", "--min-parents=2", MAIN) == "0"
    assert lab.verify().problems == []
    lab.sound()


def acknowledged_once(lab, answers, flow="f-1"):
    """Check every acknowledged revision and its text against the history that C git reads."""
    told = dict(answers)
    assert len(told) == len(answers)
    assert sorted(told) == list(range(2, len(answers) + 2))
    assert revisions(lab.gitdir, flow) == list(range(1, len(answers) + 2))
    format_ = "%(trailers:key=Gfs-Op,valueonly,unfold)"
    ops = git(lab.gitdir, "log", "--reverse", f"--format={format_}", f"--grep=^Flow: {flow}$", MAIN)
    said = [json.loads(line).get("progress") for line in ops.splitlines() if line]
    assert said[1:] == [told[revision] for revision in sorted(told)]
    assert lab.store.flow(flow).progress == said[-1]
    clean(lab)


def updating(lab, rounds, *, again=()):
    """Return work that records its own progress so often, and tells revision and text of each.

    What was refused with one of the exit codes in `again` is done again.
    """

    def work(number):
        told = []
        with opened(lab) as store:
            for round_ in range(rounds):
                text = f"{number}: {round_}"
                outcome = None
                while outcome is None:
                    try:
                        outcome = store.commit(made(Update, progress=text))
                    except GfsError as error:
                        if error.code not in again:
                            raise
                told.append((outcome.flow.revision, text))
        return told

    return work


def flat(answers):
    return [tuple(pair) for told in answers for pair in told]


def claiming(lab, task):
    def work(number):
        with opened(lab) as store:
            try:
                store.commit(made(TaskClaim, task=task, worker=f"w.{number}", until=LATER))
            except Stale as error:
                return error.details["holder"]
            except Blocked:
                return None
        return f"w.{number}"

    return work
