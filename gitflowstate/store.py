"""The store: load, commit, and the one way to write.

Rules: every commit is `apply` of one operation to the documents of its parent, published by
compare-and-swap; when the ref has moved the op is applied again to the new head, and text is never
merged. An op that changes nothing makes no commit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from gitflowstate import codec, documents, handmade, judgement, machine
from gitflowstate.definitions import FLOWS, Definition
from gitflowstate.documents import Broken
from gitflowstate.errors import (
    Blocked,
    Corrupt,
    Invalid,
    NotFound,
    Rejected,
    Stale,
    Unavailable,
)
from gitflowstate.git import CommitInfo, Oid, Repository, Staged
from gitflowstate.kinds import KINDS
from gitflowstate.machine import State
from gitflowstate.model import Flow, Value
from gitflowstate.movers import Local, Refs
from gitflowstate.ops import Op
from gitflowstate.outcomes import Base, Outcome, check_rules, check_type, staged

ATTEMPTS = 1000  # lost races, each of which somebody else won
# What an op is refused with because of what stands at the head.
_REFUSALS = (Blocked, Corrupt, Invalid, NotFound, Rejected, Stale)

# Told of every commit while the lock is held: old head, new head, the bytes that changed.
Published = Callable[[str, str, Mapping[str, bytes | None]], None]


class Store:
    """One family of documents in one repository."""

    def __init__(
        self,
        repo: Repository,
        *,
        definition: Definition = FLOWS,
        ref: str | None = None,
        timeout: float = 10.0,
        published: Published | None = None,
        refs: Refs | None = None,
    ) -> None:
        self.repo = repo
        self.refs: Refs = refs or Local(repo)
        self.definition = definition
        self.ref = ref or definition.ref
        self.timeout = timeout
        self.published = published

    # ── reading ─────────────────────────────────────────────────────────────────────────────────

    def head(self) -> CommitInfo:
        """Return the head. Raises NotFound where the ref does not exist, Corrupt where it lies."""
        return self._commit_at(self.refs.ref(self.ref))

    def _commit_at(self, oid: Oid | None) -> CommitInfo:
        if oid is None:
            raise NotFound(
                f"{self.repo.gitdir} has no {self.ref}: it holds no flows",
                hint="gfs where, to see which repository it is; its clones may have the branch",
            )
        return self.repo.commit(oid)

    def document(self, path: str) -> Value | None:
        """Return the document at a path of the head, or None. Raises NotFound or Corrupt."""
        return documents.read(self.repo, self.head().tree, path, self.definition.classes)

    def managed(self, head: CommitInfo) -> CommitInfo:
        """Return the last commit that gfs made. Raises Corrupt where the history has none."""
        if handmade.is_managed(head):
            return head
        found = handmade.base(self.repo, head.oid, self.definition.governed)
        if found is None:
            raise Corrupt(
                f"no commit behind {self.ref} was made by gfs", hint="gfs where, to see which it is"
            )
        return found

    def flow(self, flow: str) -> Flow:
        """Return a flow at the head. Raises NotFound, or Corrupt when it may not be used."""
        try:
            return self._flow(flow)
        except (NotFound, Corrupt):
            if not self.refs.renewed(self.ref):
                raise
        return self._flow(flow)

    def _flow(self, flow: str) -> Flow:
        head = self.head()
        state = documents.load(self.repo, head.tree, machine.places(flow))
        found = machine.find(flow, state)
        managed = self.managed(head)
        entry = handmade.verdict(self.repo, managed.tree, head.tree, flow)
        if entry is not None:
            raise judgement.fallen(entry, stands=found is not None)
        if found is None:
            raise NotFound(f"there is no flow {flow}", next=["gfs", "list", "--all"])
        return found

    def unmanaged(self) -> set[str]:
        """Return the flows that edits by hand changed since the last managed commit."""
        head = self.head()
        return {*handmade.touched(self.repo, self.managed(head).tree, head.tree)}

    def is_unmanaged(self, flow: str) -> bool:
        """Tell whether edits by hand changed the flow since the last managed commit."""
        return flow in self.unmanaged()

    def flows(self, *, archived: bool = False) -> Iterator[Flow | Broken]:
        """Yield every flow in the order of ids; those that cannot be used, by name and reason.

        The ones that were removed by hand come last.
        """
        head = self.head()
        fallen = handmade.fallen(self.repo, self.managed(head), head)
        for item in documents.flows(self.repo, head.tree, archived=archived):
            entry = fallen.get(item.id) if isinstance(item, Flow) else None
            if entry is not None:
                yield Broken(entry.flow, judgement.fallen(entry, stands=True))
            else:
                yield item
        for flow, entry in fallen.items():
            if not documents.stands(self.repo, head.tree, flow):
                yield Broken(flow, judgement.fallen(entry, stands=False))

    def version(self) -> str | None:
        """Return the id of the head, which changes when anything does."""
        return self.refs.version(self.ref)

    def exists(self, flow: str) -> bool:
        """Tell whether the id is taken, by a live or an archived flow."""
        return documents.stands(self.repo, self.head().tree, flow)

    def resolve(self, prefix: str) -> str:
        """Return the one id that the text names: exactly, or as a unique prefix.

        Raises NotFound when none or several begin with it.
        """
        tree = self.head().tree
        if KINDS["Id"].accepts(prefix) and documents.stands(self.repo, tree, prefix):
            return prefix
        ids = [
            i for i in documents.flow_ids(self.repo, tree, archived=True) if i.startswith(prefix)
        ]
        if len(ids) == 1:
            return ids[0]
        if not ids and self.refs.renewed(self.ref):
            return self.resolve(prefix)
        if not ids and KINDS["Id"].accepts(prefix):
            return prefix
        raise NotFound(
            f"{len(ids)} flows begin with {prefix!r}" if ids else f"there is no flow {prefix!r}",
            hint=", ".join(ids[:5]) or "gfs list --all",
        )

    # ── writing ─────────────────────────────────────────────────────────────────────────────────

    def commit(self, op: Op) -> Outcome:
        """Apply an op to the head and publish it; the only way to write.

        Raises what `machine.apply` raises, Invalid for a field that is not of its kind, Rejected
        for a secret, Unavailable when the lock or the ref is out of reach, and Uncertain when the
        commit is in place but may not survive a power cut.
        """
        op = self._checked(op)
        with self.refs.alone(self.timeout):
            for _ in range(ATTEMPTS):
                outcome = self._attempt(op)
                if outcome is not None:
                    return outcome
        raise self._restless()

    def _attempt(self, op: Op) -> Outcome | None:
        """Return what became of an op, None where it is to be applied again to a newer head."""
        try:
            outcome, staged = self._prepare(op)
        except _REFUSALS:
            if self.refs.renewed(self.ref):
                return None
            raise
        if staged is None:
            return None if self.refs.renewed(self.ref) else outcome
        return outcome if self._publish(outcome, staged) else None

    def _restless(self) -> Unavailable:
        return Unavailable(f"{self.ref} moved {ATTEMPTS} times meanwhile", hint="run it again")

    def preview(self, op: Op) -> Outcome:
        """Return what `commit` would do, and write nothing."""
        op = self._checked(op)
        try:
            return self._prepare(op, publishing=False)[0]
        except _REFUSALS:
            if not self.refs.renewed(self.ref):
                raise
        return self._prepare(op, publishing=False)[0]

    def _checked(self, op: Op) -> Op:
        op = codec.checked(op)
        if op.allow_secret is None:
            from gitflowstate import secrets  # noqa: PLC0415  start-up: readers have none to refuse

            secrets.check(codec.texts(op))
        return op

    def _prepare(self, op: Op, *, publishing: bool = True) -> tuple[Outcome, Staged | None]:
        base = self._start(op, publishing=publishing)
        try:
            return self._built(op, base)
        except Corrupt:
            if not self.definition.expendable or base.head is None:
                raise
            return self._built(op, base._replace(head=None))

    def _built(self, op: Op, base: Base) -> tuple[Outcome, Staged | None]:
        before = {**self._load(base.head, self.definition.reads(op)), **base.observed}
        after = self.definition.apply(op, before)
        if after is before:
            return Outcome(op, None, before, after), None
        if base.head is not None:
            check_type(self.repo, op, base.head.tree, before, after)
        outcome, objects = staged(self.repo, op, base.head, before, after)
        return outcome._replace(old=base.old), objects

    def _load(self, head: CommitInfo | None, paths: Iterable[str]) -> State:
        known = self.definition
        load = documents.salvage if known.expendable else documents.load
        return load(self.repo, head.tree if head else None, paths, known.classes)

    def _start(self, op: Op, *, publishing: bool) -> Base:
        """Return the head to build on, and what an unpublished `observe` would have changed.

        What edits by hand did is recorded before the op, and is judged again on the head which
        that leaves, whoever won the race.
        """
        for _ in range(ATTEMPTS):
            oid = self.refs.ref(self.ref)
            head = self._base(oid, op)
            if head is None or not self.definition.judged:
                return Base(oid, head, {})
            managed = self.managed(head)
            check_rules(managed)
            if managed.oid == head.oid:
                return Base(oid, head, {})
            observed = self._observed(op, managed, head)
            if observed is None or not publishing:
                return Base(oid, head, observed[0].after if observed else {})
            self._publish(*observed)
        raise self._restless()

    def _base(self, oid: Oid | None, op: Op) -> CommitInfo | None:
        """Return the commit to build on, None where an op is the first."""
        if oid is None and isinstance(op, self.definition.first):
            return None
        try:
            head = self._commit_at(oid)
        except Corrupt:
            if self.definition.expendable:
                return None
            raise
        if not self.definition.judged:
            check_rules(head)
        return head

    def _observed(
        self, op: Op, managed: CommitInfo, head: CommitInfo
    ) -> tuple[Outcome, Staged] | None:
        """Return the `observe` that is due before the op, if the list of the fallen changes."""
        handmade.check_untouched(self.repo, managed, head)
        observation = handmade.observe(self.repo, managed, head, op.at)
        if observation is None:
            return None
        before = self._load(head, self.definition.reads(observation))
        after = self.definition.apply(observation, before)
        return None if after is before else staged(self.repo, observation, head, before, after)

    def _publish(self, outcome: Outcome, staged: Staged) -> bool:
        old = outcome.old
        subject = outcome.message.split(b"\n", 1)[0].decode()
        if not self.refs.publish(self.ref, old, staged, subject):
            return False
        for path in outcome.changes:
            value, entry = outcome.after[path], self.repo.lookup(staged.tree, path)
            if value is not None and entry is not None:
                documents.remember(path, entry.oid, value)
        if self.published and old and outcome.commit:
            self.published(old, outcome.commit, outcome.changes)
        return True
