"""One run of one verb: its repository, its store, and how an op is made, committed and answered."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import TracebackType
from typing import Any, Self, TypeVar

from gitflowstate.cli import config, output
from gitflowstate.errors import Denied, NotFound
from gitflowstate.git import Repository
from gitflowstate.location import Location
from gitflowstate.model import Flow
from gitflowstate.ops import FlowOp, Op
from gitflowstate.outcomes import Outcome
from gitflowstate.store import Store

O = TypeVar("O", bound=FlowOp)  # noqa: E741  an op
SHARED_SKEW_S = 900  # where other machines work on the same flows


class Session:
    """What a verb works with; closed when the verb ends."""

    def __init__(
        self,
        *,
        verb: str,
        json_: bool = False,
        repo: str | None = None,
        as_: str | None = None,
        expect: int | None = None,
        key: str | None = None,
        dry_run: bool = False,
        allow_secret: str | None = None,
        offline: bool = False,
        writes: bool = False,
    ) -> None:
        self.verb = verb
        self.writes = writes and not dry_run
        self.json = json_
        self.repo_argument = repo
        self.expect = expect
        self.key = key
        self.dry_run = dry_run
        self.allow_secret = allow_secret
        self.offline = offline or config.offline()
        self._as = as_
        self._store: Store | None = None
        self._writing = False
        self._published = False
        self._location: Location | None = None

    def __enter__(self) -> Self:
        output.about = None
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        if self._store is not None:
            self._show(self._store, failed=error is not None)
            for warning in self._store.repo.warnings:
                output.warn(warning)
            self._store.repo.close()

    def _show(self, store: Store, *, failed: bool) -> None:
        """Bring the view up to date where something that is not of this run moved main."""
        if self.location.remote is not None or (
            not failed and self._writing and not self._published
        ):
            from gitflowstate.cli.showing import show_head

            show_head(store.repo, self.location, store.timeout)

    @property
    def actor(self) -> str:
        """Return who acts: --as, GFS_ACTOR, GFS_SESSION, then local."""
        return config.actor(self._as)

    @property
    def location(self) -> Location:
        """Return which repository this is. Raises NotFound."""
        if self._location is None:
            try:
                self._location = config.find(self.repo_argument)
            except NotFound as error:
                # It may have been moved: nothing here may lead to a second, empty one.
                if "gfs init" in error.hint:
                    error.hint = "name it by --repo DIR or GFS_REPO; gfs alone says how to begin"
                raise
        return self._location

    def store(self, *, writing: bool = False) -> Store:
        """Return the store, opened once. Raises Denied when an ordinary clone would be written."""
        if self._store is not None and writing and not self._writing:
            self._store.repo.close()  # what forbids writing is looked at when it is opened
            self._store = None
        if self._store is None:
            self._writing = writing
            self._store = self._opened(writing=writing)
        return self._store

    def _opened(self, *, writing: bool) -> Store:
        place = self.location
        if writing and not place.writable:
            raise Denied(
                f"{place.folder} is an ordinary clone: reading works here, writing does not",
                hint="write in the flow repository itself: --repo DIR, or GFS_REPO",
            )
        repo = Repository.open(place.gitdir, trust=config.trust(), writing=writing)

        def published(old: str, new: str, changes: Any) -> None:  # noqa: ANN401  a mapping of bytes
            from gitflowstate.view import View

            self._published = True
            view = View(place.folder, place.gitdir)
            repo.warnings.extend(view.refresh(repo, old, new, changes))

        given: Any = {}
        if place.remote is not None:
            from gitflowstate.cli import hosts

            given = hosts.joined(repo, place, writing=writing, offline=self.offline)
        return Store(
            repo,
            ref=place.ref,
            timeout=config.lock_timeout(),
            published=published if place.view else None,
            **given,
        )

    @property
    def skew_s(self) -> int:
        """Return the allowance for the skew of other hosts' clocks, in seconds: none locally."""
        return 0 if self.location.remote is None else SHARED_SKEW_S

    def addressed(self) -> list[str]:
        """Return the options that a following command needs to reach the same flow as the same."""
        repo = [] if self.repo_argument is None else ["--repo", self.repo_argument]
        return repo + ([] if self._as is None else ["--as", self._as])

    def flow_id(self, text: str) -> str:
        """Return the id that a text names, exactly or as a unique prefix."""
        return self.store(writing=self.writes).resolve(text)

    def newest(self) -> Store:
        """Return the store to read from before a write; a remote is asked, as for any reader."""
        store = self.store(writing=not self.dry_run)
        store.refs.renewed(store.ref)
        return store

    def unmanaged(self) -> set[str]:
        """Return the flows that edits by hand changed since the last managed commit."""
        return self.store().unmanaged()

    # ── writing ─────────────────────────────────────────────────────────────────────────────────

    def op(
        self,
        kind: type[O],
        *,
        minted: bool = False,
        derived: Collection[str] = (),
        asked: Mapping[str, Any] | None = None,
        **fields: Any,  # noqa: ANN401  fields of the op
    ) -> O:
        """Return an op of this run: time, actor, expectation and key are common to all.

        `derived` names the fields that the caller did not give: they are no part of what a key
        was used for, since they may be others when the same command is repeated. `asked` says what
        was given in their stead, such as the length of a lease for its end.
        """
        if self.allow_secret is not None:
            from gitflowstate import secrets

            secrets.check([("--allow-secret", self.allow_secret)])  # it wants a reason
        op = kind(
            at=config.now(),
            by=self.actor,
            expect=self.expect,
            allow_secret=self.allow_secret,
            made=(fields["flow"],) if minted else (),
            **fields,
        )
        if self.key is None:
            return op
        omitted = {*derived, "flow"} if minted else {*derived}
        return _keyed(op, self.key, omitted, asked or {})

    def write(self, op: FlowOp, **answer: Any) -> Outcome:  # noqa: ANN401  JSON values
        """Commit an op and print the answer; with --dry-run print what it would do."""
        store = self.store(writing=not self.dry_run)
        if self.dry_run:
            outcome = store.preview(op)
            self._show_preview(outcome)
            return outcome
        outcome = store.commit(op)
        self.answer(outcome, **answer)
        return outcome

    def answer(self, outcome: Outcome, hint: str = "", **more: Any) -> None:  # noqa: ANN401  JSON values
        """Print what became of an op: the flow, its revision and status."""
        data, text = self.outcome_data(outcome) | more, self.outcome_text(outcome)
        output.success(data, "\n".join(filter(None, (text, hint))), as_json=self.json)

    def outcome_text(self, outcome: Outcome) -> str:
        """Return the success line."""
        receipt = outcome.receipt
        if receipt is not None:
            return f"{receipt.flow} r{receipt.revision} (already done under this key)"
        flow = outcome.flow
        assert flow is not None
        return f"{flow.id} r{flow.revision} {flow.status}" + (
            "" if outcome.commit else " (unchanged)"
        )

    def outcome_data(self, outcome: Outcome) -> dict[str, Any]:
        """Return the answer of a writing verb as JSON."""
        receipt, flow = outcome.receipt, outcome.flow
        if receipt is not None:
            return {
                "id": receipt.flow,
                "revision": receipt.revision,
                "changed": False,
                "repeated": True,
                "made": list(receipt.made),
            }
        assert flow is not None
        return {
            "id": flow.id,
            "revision": flow.revision,
            "status": flow.status,
            "changed": outcome.commit is not None,
            "commit": outcome.commit,
        }

    def _show_preview(self, outcome: Outcome) -> None:
        data, text = self.preview(outcome)
        output.success(data, text, as_json=self.json)

    def preview(self, outcome: Outcome) -> tuple[dict[str, Any], str]:
        """Return what an op would change and the message of its commit, as JSON and as text."""
        before, after = flow_before(outcome), outcome.flow
        data = self.outcome_data(outcome) | {"dry_run": True}
        if outcome.commit is None:
            return data, f"{self.outcome_text(outcome)}; nothing to do"
        assert after is not None
        from gitflowstate import compare, prose

        difference = compare.diff(before, after)
        message = outcome.message.decode()
        data |= {"commit": None, "diff": difference, "message": message}
        return data, f"{difference}\n\n{prose.terminal(message)}\n(nothing was written)"


def _keyed(op: O, key: str, omitted: set[str], asked: Mapping[str, Any]) -> O:
    """Return an op with its key, and the digest of what was asked under it."""
    from gitflowstate import codec, request

    told = codec.to_json(codec.checked(op))
    for name in ("at", "by", "expect", "made", "allow_secret", *omitted):
        told.pop(name, None)
    if "flow" in omitted and "plan" in told:
        del told["plan"]["flow"]  # the same minted id
    digest = request.request_digest(
        op.TAG, told | {k: v for k, v in asked.items() if v is not None}
    )
    return op.replace(key=request.key_digest(key), request=digest)


def quoted(path: object) -> str:
    """Return a path as a person can paste it into a shell, on one line."""
    from shlex import quote

    from gitflowstate import prose

    return prose.terminal(quote(str(path)), lines=False)


def flow_before(outcome: Outcome) -> Flow | None:
    """Return the flow as the op found it."""
    from gitflowstate import machine

    op: Op = outcome.op
    return machine.find(op.flow, outcome.before) if isinstance(op, FlowOp) else None
