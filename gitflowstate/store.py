"""The store: load, commit, and the one way to write.

Rules: every commit is `apply` of one operation to the documents of its parent, published by
compare-and-swap; when the ref has moved the op is applied again to the new head, and text is never
merged. An op that changes nothing makes no commit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from gitflowstate import codec, documents, handmade, machine, secrets
from gitflowstate.documents import Broken
from gitflowstate.errors import Corrupt, NotFound, Rejected, Unavailable
from gitflowstate.git import CommitInfo, Oid, Repository, Staged
from gitflowstate.kinds import KINDS
from gitflowstate.locks import repository_lock
from gitflowstate.machine import State
from gitflowstate.message import RULES, decode_trailers, encode_message
from gitflowstate.model import Flow, Receipt, seconds
from gitflowstate.ops import FlowOp, Init, Op

MAIN = "refs/heads/main"
ATTEMPTS = 1000  # lost races, each of which somebody else won

# Told of every commit while the lock is held: old head, new head, the bytes that changed.
Published = Callable[[str, str, Mapping[str, bytes | None]], None]


class Definition(NamedTuple):
    """One family of documents on one ref: what an op reads and does, and which may come first."""

    ref: str
    reads: Callable[[Op], tuple[str, ...]]
    apply: Callable[[Op, State], State]
    first: tuple[type[Op], ...] = (Op,)


FLOWS = Definition(MAIN, machine.reads, machine.apply, (Init,))


class Outcome(NamedTuple):
    """What became of an op: the commit it made, if any, and the documents before and after."""

    op: Op
    commit: str | None
    before: State
    after: State
    message: bytes = b""
    changes: Mapping[str, bytes | None] = {}

    @property
    def flow(self) -> Flow | None:
        """Return the flow of the op as it is afterwards."""
        return machine.find(self.op.flow, self.after) if isinstance(self.op, FlowOp) else None

    @property
    def receipt(self) -> Receipt | None:
        """Return the receipt of the op's key where this very request was carried out before."""
        return machine.answered(self.op, self.before)


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
    ) -> None:
        self.repo = repo
        self.definition = definition
        self.ref = ref or definition.ref
        self.timeout = timeout
        self.published = published

    # ── reading ─────────────────────────────────────────────────────────────────────────────────

    def head(self) -> CommitInfo:
        """Return the head. Raises NotFound where the ref does not exist, Corrupt where it lies."""
        return self._commit_at(self.repo.ref(self.ref))

    def _commit_at(self, oid: Oid | None) -> CommitInfo:
        if oid is None:
            raise NotFound(
                f"{self.repo.gitdir} has no {self.ref}: it holds no flows",
                hint="gfs where, to see which repository it is; its clones may have the branch",
            )
        return self.repo.commit(oid)

    def managed(self, head: CommitInfo) -> CommitInfo:
        """Return the last commit that gfs made. Raises Corrupt where the history has none."""
        if handmade.is_managed(head):
            return head
        found = handmade.base(self.repo, head.oid)
        if found is None:
            raise Corrupt(
                f"no commit behind {self.ref} was made by gfs", hint="gfs where, to see which it is"
            )
        return found

    def flow(self, flow: str) -> Flow:
        """Return a flow at the head. Raises NotFound, or Corrupt when it may not be used."""
        head = self.head()
        state = documents.load(self.repo, head.tree, machine.places(flow))
        found = machine.find(flow, state)
        managed = self.managed(head)
        entry = handmade.verdict(self.repo, managed.tree, head.tree, flow)
        if entry is not None:
            raise machine.fallen(entry)
        if found is None:
            raise NotFound(f"there is no flow {flow}", hint="gfs list --all")
        return found

    def is_unmanaged(self, flow: str) -> bool:
        """Tell whether edits by hand changed the flow since the last managed commit."""
        head = self.head()
        managed = self.managed(head)
        return flow in handmade.touched(self.repo, managed.tree, head.tree)

    def flows(self, *, archived: bool = False) -> Iterator[Flow | Broken]:
        """Yield every flow in the order of ids; those that cannot be used, by name and reason.

        The ones that were removed by hand come last.
        """
        head = self.head()
        fallen = handmade.fallen(self.repo, self.managed(head), head)
        for item in documents.flows(self.repo, head.tree, archived=archived):
            entry = fallen.get(item.id) if isinstance(item, Flow) else None
            yield item if entry is None else Broken(entry.flow, machine.fallen(entry))
        for flow, entry in fallen.items():
            if not documents.stands(self.repo, head.tree, flow):
                yield Broken(flow, machine.fallen(entry))

    def version(self) -> str | None:
        """Return the id of the head, which changes when anything does."""
        return self.repo.ref(self.ref)

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
        with repository_lock(self.repo.gitdir, self.timeout):
            for _ in range(ATTEMPTS):
                outcome, staged = self._prepare(op)
                if staged is None or self._publish(outcome, staged):
                    return outcome
        raise self._restless()

    def _restless(self) -> Unavailable:
        return Unavailable(f"{self.ref} moved {ATTEMPTS} times meanwhile", hint="run it again")

    def preview(self, op: Op) -> Outcome:
        """Return what `commit` would do, and write nothing."""
        return self._prepare(self._checked(op), publishing=False)[0]

    def _checked(self, op: Op) -> Op:
        op = codec.checked(op)
        if op.allow_secret is None:
            secrets.check(codec.texts(op))
        return op

    def _prepare(self, op: Op, *, publishing: bool = True) -> tuple[Outcome, Staged | None]:
        head, observed = self._start(op, publishing=publishing)
        tree = head.tree if head else None
        before = {**documents.load(self.repo, tree, self.definition.reads(op)), **observed}
        after = self.definition.apply(op, before)
        if after is before:
            return Outcome(op, None, before, after), None
        if head is not None:
            self._check_type(op, head.tree, before, after)
        return self._stage(op, head, before, after)

    def _start(self, op: Op, *, publishing: bool) -> tuple[CommitInfo | None, State]:
        """Return the head to build on, and what an unpublished `observe` would have changed.

        What edits by hand did is recorded before the op, and is judged again on the head which
        that leaves, whoever won the race.
        """
        for _ in range(ATTEMPTS):
            oid = self.repo.ref(self.ref)
            if oid is None and isinstance(op, self.definition.first):
                return None, {}
            head = self._commit_at(oid)
            managed = self.managed(head)
            _check_rules(managed)
            if managed.oid == head.oid:
                return head, {}
            observed = self._observed(op, managed, head)
            if observed is None or not publishing:
                return head, observed[0].after if observed else {}
            self._publish(*observed)
        raise self._restless()

    def _observed(
        self, op: Op, managed: CommitInfo, head: CommitInfo
    ) -> tuple[Outcome, Staged] | None:
        """Return the `observe` that is due before the op, if the list of the fallen changes."""
        handmade.check_untouched(self.repo, managed, head)
        observation = handmade.observe(self.repo, managed, head, op.at)
        if observation is None:
            return None
        before = documents.load(self.repo, head.tree, self.definition.reads(observation))
        after = self.definition.apply(observation, before)
        return None if after is before else self._stage(observation, head, before, after)

    def _check_type(self, op: Op, tree: str, before: State, after: State) -> None:
        """Refuse data that the user's own schema for its type does not accept. Raises Invalid."""
        flow = machine.find(op.flow, after) if isinstance(op, FlowOp) else None
        old = machine.find(op.flow, before) if isinstance(op, FlowOp) else None
        if flow is None or flow.type is None or flow.data is None:
            return
        if old is not None and (old.type, old.data) == (flow.type, flow.data):
            return
        schema = documents.blob_at(self.repo, tree, f"types/{flow.type}.schema.json")
        if schema is not None:
            from gitflowstate import usertypes  # noqa: PLC0415  jsonschema is slow to import

            usertypes.check_data(schema, flow.data, flow.type)

    def _stage(
        self, op: Op, head: CommitInfo | None, before: State, after: State
    ) -> tuple[Outcome, Staged]:
        changes = {
            path: None if value is None else codec.encode(value)
            for path, value in after.items()
            if value is not before.get(path)
        }
        flow = machine.find(op.flow, after) if isinstance(op, FlowOp) else None
        message = encode_message(op, flow)
        staged = self.repo.commit_object(
            self.repo.stage(head.tree if head else None, changes),
            [head.oid] if head else [],
            message,
            op.by,
            seconds(op.at),
        )
        return Outcome(op, staged.commit, before, after, message, changes), staged

    def _publish(self, outcome: Outcome, staged: Staged) -> bool:
        old = staged.parents[0] if staged.parents else None
        subject = outcome.message.split(b"\n", 1)[0].decode()
        if not self.repo.publish(self.ref, old, staged, subject):
            return False
        if self.published and old and outcome.commit:
            self.published(old, outcome.commit, outcome.changes)
        return True


def _check_rules(managed: CommitInfo) -> None:
    trailers = decode_trailers(managed.message) or {}
    number = int(trailers.get("Gfs-Rules", RULES))
    if number > RULES:
        raise Rejected(
            f"the head was written under rule set {number}; this gfs knows {RULES}",
            hint="upgrade gitflowstate; reading works meanwhile",
        )
