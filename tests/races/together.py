"""Many processes at once on one repository: begun together, asked for their answers."""

from __future__ import annotations

import contextlib
import json
import os
import traceback

from gitrepo import MAIN, child, code_of, git

from gitflowstate.git import Repository
from gitflowstate.store import Store

PATIENCE_S = 60.0  # for a lock that many wait for; nothing here is about how long


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
