"""What becomes of operations that were queued here, on another head: each is applied again to it.

Rules: what is published under another commit is not applied again; what is refused now takes
nothing of the rest along; what edits by hand did is not brought over, but observed anew.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from gitflowstate import history, reconcile
from gitflowstate.ancestry import op_text
from gitflowstate.errors import GfsError, Rejected
from gitflowstate.git import Oid, Repository
from gitflowstate.history import Step
from gitflowstate.message import decode_trailers
from gitflowstate.movers import Chain
from gitflowstate.ops import FlowOp, Observe
from gitflowstate.outcomes import Outcome
from gitflowstate.store import Store


class Fate(NamedTuple):
    """What became of one queued commit: `commit` and `now` are the new ones, if it was taken.

    `was` and `now` are revisions of the flow. `refused` says why it was not taken, and `kept` which
    ref keeps it then.
    """

    old: Oid
    op: str
    flow: str | None
    was: int | None
    commit: Oid | None = None
    now: int | None = None
    refused: GfsError | None = None
    kept: str | None = None

    def as_it_was(self) -> Fate:
        """Return the fate of a commit that is published without being applied again."""
        return self._replace(commit=self.old, now=self.was)


def queued(repo: Repository, oid: Oid) -> Fate:
    """Return a queued commit of which nothing became yet."""
    return _queued(oid, decode_trailers(repo.commit(oid).message))


def replayed(
    repo: Repository, chain: Chain, queue: Iterable[Oid], published: Iterable[Oid]
) -> Iterator[Fate]:
    """Apply a queue to a head, but for what is among commits that are published already."""
    steps = [_step(repo, oid) for oid in queue]
    there = [op_text(repo, oid) for oid in published]
    pairs = [(step.commit.oid, (step.trailers or {}).get("Gfs-Op")) for step in steps]
    left = {*reconcile.unpublished(pairs, there)}
    for step in steps:
        fate = _queued(step.commit.oid, step.trailers)
        if fate.old not in left:
            yield fate.as_it_was()
        elif fate.op != Observe.TAG:  # what edits by hand did is observed anew
            yield _applied(repo, chain, step, fate)


def _applied(repo: Repository, chain: Chain, step: Step, fate: Fate) -> Fate:
    """Apply the operation of one queued commit again."""
    if step.trailers is None:
        by_hand = Rejected("it was made by hand", hint="make the edit again in an ordinary clone")
        return fate._replace(refused=by_hand)
    try:
        op = history.recorded(repo, step).op
        outcome: Outcome = Store(repo, refs=chain).commit(op)
    except GfsError as refused:
        return fate._replace(refused=refused)
    flow = outcome.flow if isinstance(op, FlowOp) else None
    return fate._replace(commit=outcome.commit or chain.head, now=flow.revision if flow else None)


def _step(repo: Repository, oid: Oid) -> Step:
    commit = repo.commit(oid)
    parent = repo.commit(commit.parents[0]) if commit.parents else None
    return Step(commit, parent, decode_trailers(commit.message))


def _queued(oid: Oid, trailers: dict[str, str] | None) -> Fate:
    if trailers is None:
        return Fate(oid, "by hand", None, None)
    revision = trailers.get("Revision")
    tag = json.loads(trailers["Gfs-Op"])["op"]
    return Fate(oid, tag, trailers.get("Flow"), int(revision) if revision else None)
