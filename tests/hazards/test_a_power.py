"""Part A: power cuts on real file systems (A9, A10), and in a model of the worst (A11, A12)."""

from __future__ import annotations

import hashlib
import os
import random
import shutil
from pathlib import Path

import aftermath
import mounts
import powercut
import pytest
from clirun import Cli, made
from scaling import scale

from gitflowstate.swap import Swap
from gitflowstate.syscalls import calls

VERBS = {
    "update": lambda n: ("update", "plan", "--progress", f"step {n}"),
    "create": lambda n: ("create", f"Goal {n}", "--id", f"f-{n}"),
    "done": lambda _: ("done", "plan", "--result", "r"),
}


FOREIGN = {"gc.pid.lock": "gfs.gc.pid", "refs/heads/main.lock": "gfs-ref-"}


def is_foreign(state, lock) -> bool:
    """Tell whether only one name of a lock of ours was kept.

    Nothing tells it from that of a program that lives: it is waited for until it is ten minutes
    old. Where its private name was kept as well, it is ours, and dead.
    """
    names = [name for name in state if name.startswith(FOREIGN[lock])]
    return lock in state and state[lock][0] not in [state[name][0] for name in names]


# ── the model ───────────────────────────────────────────────────────────────────────────────────


class Cuts:
    """Two commands, recorded, and what the disk may hold whenever power fails meanwhile."""

    def __init__(self, folder, verb, most, *, syncs=True) -> None:
        self.folder = folder
        self.cli = made(folder / "work", "--no-view")
        self.cli("create", "Compare options", "--id", "plan", "--next", "Read the docs")
        self.seed = random.randrange(10**9)
        print(f"seed {self.seed}")
        self.chance = random.Random(self.seed)
        self.most = most
        self.acked = [("plan", 1)]
        self.heads = [self.cli.head]
        self.words = ("note", "plan", "before"), VERBS[verb](1)
        self.found = {}
        powercut.recorded(self.cli.gitdir, self._work, self._cut, syncs=syncs)

    def _work(self, disk) -> None:
        for words in self.words:
            told = self.cli.json(*words)
            self.acked.append((told["id"], told["revision"]))
            self.heads.append(self.cli.head)
            self._cut(disk)

    def _cut(self, disk) -> None:
        for state in disk.states(self.chance, self.most):
            key = hashlib.sha256(repr(sorted(state.items())).encode()).digest()
            self.found[key] = state, len(self.acked)

    def check(self, state, acked) -> None:
        """Open what is left: it is old or new, what was acknowledged is there, and it goes on."""
        left = Cli(self.folder / "left")
        powercut.laid_out(state, left.gitdir)
        print(self.seed, sorted(state.items()))
        assert left.head in self.heads[acked - 1 : acked + 1]
        checked = left.run("doctor", "--json").envelope
        problems = [] if checked["ok"] else checked["error"]["details"]["findings"]
        # The reflog is never synced, so that its end may be anything; one that is ahead is a note.
        known = {"stale-lock", "reflog"}
        assert {each["kind"] for each in problems if not each["note"]} <= known
        words = self.words[min(acked, len(self.words)) - 1]
        again = left.run(*words, env={"GFS_LOCK_TIMEOUT": "0.1"})
        if again.code == 75:
            foreign = [left.gitdir / lock for lock in FOREIGN if is_foreign(state, lock)]
            assert foreign, again
            for lock in filter(Path.exists, foreign):
                os.utime(lock, (0, 0))
            again = left.run(*words)
        assert again.code == 0, again
        aftermath.check(left, *self.acked[: acked + 1])
        shutil.rmtree(left.folder)


@pytest.mark.req("A11", "A12", "R-TF-10", "F2", "F3")
@pytest.mark.parametrize(
    ("most", "count"),
    [(8, 10), pytest.param(64, scale(200), marks=[pytest.mark.long, pytest.mark.timeout(900)])],
)
@pytest.mark.parametrize("verb", VERBS)
def test_a11_a12_whatever_a_power_cut_leaves_is_old_or_new_and_goes_on(
    memory, monkeypatch, verb, most, count
):
    monkeypatch.setattr(Swap, "patience_s", 0.1)
    cuts = Cuts(memory, verb, most)
    assert len(cuts.found) > 100
    for state, acked in cuts.chance.sample([*cuts.found.values()], count):
        cuts.check(state, acked)


@pytest.mark.req("A11", "F2")
def test_a11_the_model_would_tell_if_nothing_were_synced(memory):
    cuts = Cuts(memory, "update", 8, syncs=False)
    worse = [state for state, acked in cuts.found.values() if acked == len(cuts.acked)]
    told = []
    for number, state in enumerate(worse):
        left = Cli(memory / f"left-{number}")
        powercut.laid_out(state, left.gitdir)
        told.append(left.run("show", "plan").out.startswith("plan r3 "))
    assert told.count(False) > len(told) // 2
    assert told.count(True) >= 1  # where everything was kept by luck


# ── real file systems ───────────────────────────────────────────────────────────────────────────


def power_cut(tmp_path, kind, *, syncs=True):
    """Update three times on an image, copy it as the third is acknowledged; open the copy."""
    image, after = mounts.image(tmp_path / "disk", kind), tmp_path / "after"
    # The periodic commit of ext4 would come to the help of who syncs nothing.
    options = "loop,commit=300" if kind == "ext4" else "loop"
    with mounts.mounted(tmp_path / "before", "-o", options, image) as folder:
        cli = made(folder / "work")
        cli("create", "Compare options", "--id", "plan", "--next", "Read the docs")
        os.sync()
        with pytest.MonkeyPatch.context() as patched:
            if not syncs:
                patched.setattr(calls, "fsync", lambda _: None)
            for number in range(3):
                cli("update", "plan", "--progress", f"step {number}")
            shutil.copyfile(image, after)
    with mounts.mounted(tmp_path / "later", "-o", "loop", after) as folder:
        left = Cli(folder / "work")
        shown = left.run("show", "plan")
        if syncs:
            assert shown.out.startswith("plan r4 "), shown
            aftermath.check(left, *[("plan", revision) for revision in range(1, 5)])
            assert left.flow("plan")["progress"] == "step 2"  # the plain file has healed, too
        return shown.out.startswith("plan r4 ")


@pytest.mark.req("A9", "A10", "R-TF-10", "F2")
@pytest.mark.parametrize("rounds", [1, pytest.param(scale(15), marks=pytest.mark.long)])
@pytest.mark.parametrize("kind", ["ext4", "xfs", "btrfs"])
def test_a9_a10_after_a_power_cut_on_a_real_file_system_all_that_was_acknowledged_is_there(
    tmp_path, kind, rounds
):
    for number in range(rounds):
        (tmp_path / str(number)).mkdir()
        power_cut(tmp_path / str(number), kind)


@pytest.mark.req("A9", "F2")
def test_a9_the_copy_of_the_image_is_a_power_cut_without_syncs_the_updates_are_lost(tmp_path):
    assert not power_cut(tmp_path, "ext4", syncs=False)
