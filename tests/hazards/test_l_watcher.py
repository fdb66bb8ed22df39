"""L12, L13, L14: history rewritten under the watcher, the watcher killed anywhere, two of them."""

from __future__ import annotations

import os
import random

import pytest
from flowrepo import AT, Change, imported
from gitrepo import child, code_of, fsck, git
from scaling import scale
from watchbench import NAME, REF, Bench

from gitflowstate.cursorstore import verify
from gitflowstate.git import Repository
from gitflowstate.movers import Local
from gitflowstate.ops import Resume, Wait
from gitflowstate.syscalls import calls

STEPS = 700  # effects that a pass with three messages has, roughly


def count_down(bench, steps):
    """Let this process die, as by kill -9, at one of its effects: a system call, or a message."""
    left = [steps]

    def spend(*_):
        left[0] -= 1
        if left[0] <= 0:
            os._exit(9)

    for name in [name for name in dir(calls) if not name.startswith("_")]:
        real = getattr(calls, name)

        def through(*arguments, real=real, **options):
            spend()
            return real(*arguments, **options)

        setattr(calls, name, through)
    calls.fsync = spend  # nothing here is about power cuts
    bench.box.around = spend


def a_pass(bench, holder, steps=None):
    """Make a pass in a process of its own, which may die at a step; return its exit code."""

    def work():
        if steps:
            count_down(bench, steps)
        with Repository.open(bench.lab.gitdir) as repo:
            bench.watcher(holder, repo=repo).run()

    return code_of(child(work))


class Life:
    """Flows that are begun, go on, wait for people and end, at random."""

    def __init__(self, bench, chance):
        self.bench = bench
        self.chance = chance
        self.live = {}
        self.ended = {}

    def go_on(self):
        """Let one thing happen to one flow."""
        lab, chance = self.bench.lab, self.chance
        if len(self.live) < 2 or chance.random() < 0.2:
            name = f"f-{len(self.live) + len(self.ended)}"
            self.live[name] = lab.create(name).flow
            return
        name = chance.choice(sorted(self.live))
        what = chance.choice(["update", "update", "wait", "end"])
        if what == "end":
            self.ended[name] = lab.done(name).flow.revision
            del self.live[name]
        elif what == "wait" and self.live[name].status != "waiting":
            at = self.bench.clock.now()
            asked = {"reason": "r", "until": "u", "on": "human", "at": at}
            self.live[name] = lab.commit(Wait, name, **asked).flow
        elif self.live[name].status == "waiting":
            self.live[name] = lab.commit(Resume, name).flow
        else:
            self.live[name] = lab.update(str(chance.random()), name).flow


@pytest.mark.req("L13", "R-TF-44", "R-TF-52", "R-TF-53")
@pytest.mark.parametrize("seed", range(2))
def test_l13_killed_anywhere_every_end_is_told_once(tmp_path, seed):
    """No end is lost and no message comes twice, since this channel can be searched."""
    chance = random.Random(seed)
    bench = Bench(tmp_path)
    life = Life(bench, chance)
    deaths = 0
    for number in range(scale(10)):
        for _ in range(chance.randint(1, 4)):
            life.go_on()
        code = a_pass(bench, f"w{number}", chance.randint(1, STEPS))
        assert code in (0, 9)
        deaths += code == 9
        bench.clock.move(chance.choice([5, 40, 120, 400]))
    assert deaths
    for number in range(8):
        bench.clock.move(400)
        assert a_pass(bench, f"last{number}") == 0
    finals = [(m.flow, m.revision) for m in bench.box.marks() if m and m.kind == "final"]
    assert sorted(finals) == sorted(life.ended.items())
    told = [mark for mark in bench.box.marks() if mark]
    assert len(told) == len(set(told))
    statuses = [mark.flow for mark in told if mark.kind == "status"]
    assert len(statuses) == len(set(statuses))
    for name, flow in life.live.items():
        assert bench.receipt(name).revision == flow.revision
    assert bench.watch().owed == ()
    report = verify(bench.lab.repo, bench.tip(), NAME)
    assert (report.problems, report.unmanaged) == ([], [])
    bench.lab.sound(killed=True)
    bench.lab.repo.close()


@pytest.mark.long
@pytest.mark.req("L13")
@pytest.mark.timeout(600)
def test_l13_killed_at_every_effect_around_one_message(tmp_path):
    """Every step of one pass in turn: the flow is created anew each time, and ends meanwhile."""
    bench = Bench(tmp_path)
    bench.began()
    step, number = 1, 0
    while True:
        name = f"f-{number}"
        bench.lab.create(name)
        code = a_pass(bench, f"w{number}", step)
        bench.lab.done(name)
        for again in range(4):
            bench.clock.move(310)
            assert a_pass(bench, f"a{number}.{again}") == 0
        kinds = bench.box.kinds(name)
        assert kinds.count(("final", 2)) == 1
        assert [kind for kind, _ in kinds].count("status") <= 1
        assert len(kinds) <= 2
        if code == 0:
            break
        assert code == 9
        step += max(1, 24 // scale(1))
        number += 1
    assert number > 5
    fsck(bench.lab.gitdir)
    bench.lab.repo.close()


@pytest.mark.req("L14", "R-TF-46")
def test_l14_a_slow_post_and_a_second_watcher_make_one_message(tmp_path):
    """The second begins while the first waits for its answer, in processes of their own."""
    bench = Bench(tmp_path)
    bench.began()
    for number in range(scale(3)):
        name = f"f-{number}"
        bench.lab.create(name)
        bench.clock.move(1000)
        gate, (reading, writing) = os.pipe(), os.pipe()

        def slow(when, gate=gate, writing=writing):
            if when == "before post":
                os.write(writing, b"x")
                os.close(writing)
                os.read(gate[0], 1)

        bench.box.around = slow
        first = child(lambda number=number: go(bench, f"slow{number}"))
        os.close(writing)
        assert os.read(reading, 1) == b"x"
        bench.box.around = lambda _: None
        before = len(bench.box.calls)
        report = bench.watch("quick")
        assert (report.told, report.held_by) == ((), f"slow{number}")
        assert len(bench.box.calls) == before
        os.write(gate[1], b"x")
        assert code_of(first) == 0
        for end in (*gate, reading):
            os.close(end)
        assert bench.box.kinds(name) == [("status", 1)]
    bench.sound()
    bench.lab.repo.close()


def go(bench, holder):
    """Make a pass on a repository of this process."""
    with Repository.open(bench.lab.gitdir) as repo:
        bench.watcher(holder, repo=repo).run()


# ── history rewritten ───────────────────────────────────────────────────────────────────────────


def history(bench):
    """Flows that live and have ended, all of them told."""
    for number in range(4):
        bench.lab.create(f"f-{number}")
        bench.lab.update("on", f"f-{number}")
    bench.lab.done("f-0")
    bench.lab.done("f-1")
    bench.watch()
    bench.clock.move(600)


def squashed(bench):
    """Make one commit of all, as an amend or a squashing rebase does."""
    lab = bench.lab
    paths = git(lab.gitdir, "ls-tree", "-r", "--name-only", "main").splitlines()
    tree = [Change(path, lab.shown(path)) for path in paths]
    message = git(lab.gitdir, "log", "-1", "--format=%B", "main").encode() + b"\n"
    imported(lab.gitdir, *tree, text=message, parents=())


def rolled_back(bench):
    """Go back to before the last end, which was told already."""
    git(bench.lab.gitdir, "update-ref", "refs/heads/main", "main~1")


def forked(bench):
    """Put something else in place of what came last."""
    rolled_back(bench)
    bench.lab.create("f-9")


@pytest.mark.req("L12", "R-TF-45")
@pytest.mark.parametrize("prune", [False, True])
@pytest.mark.parametrize("rewrite", [squashed, rolled_back, forked])
def test_l12_history_rewritten_under_the_watcher(tmp_path, rewrite, prune):
    bench = Bench(tmp_path)
    history(bench)
    rewrite(bench)
    if prune:
        git(bench.lab.gitdir, "reflog", "expire", "--expire=now", "--all")
        git(bench.lab.gitdir, "gc", "-q", "--prune=now")
    with Repository.open(bench.lab.gitdir, writing=True) as repo:
        bench.lab.repo.close()
        bench.lab.repo = bench.lab.store.repo = repo
        bench.lab.store.refs = Local(repo)
        bench.lab.create("f-new", at=AT)
        bench.lab.done("f-2")
        report = bench.watch()
        assert sum("rewritten" in warning for warning in report.warnings) == 1
        finals = {name: bench.box.kinds(name) for name in ("f-0", "f-1", "f-2")}
        for kinds in finals.values():
            assert [kind for kind, _ in kinds].count("final") == 1
        assert bench.box.kinds("f-new") == [("status", 1)]
        again = bench.watch()
        assert (again.told, again.warnings) == ((), ())
        if rewrite is not squashed:
            bench.lab.done("f-1")
            bench.watch()
            assert bench.box.kinds("f-1").count(("final", 3)) == 1
        assert verify(repo, repo.ref(REF), NAME).problems == []
