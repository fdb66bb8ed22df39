"""Which flows edits by hand have left unusable: the verdict, the list, and the refusal.

Rule: a document whose revision rose is used, whoever wrote it; any other change by hand makes its
flow unusable, and no other flow, until `adopt` or a revert (architecture, section 1, Hand-made).
"""

from __future__ import annotations

from gitflowstate.errors import Corrupt
from gitflowstate.model import Fallen, Flow, Unusable, Value


def judge(
    entry: Fallen | None,
    before: tuple[Flow, str] | None,
    after: tuple[Flow, str] | None,
    flow: str,
) -> Fallen | None:
    """Return the entry a flow deserves after edits by hand, or None when it may be used.

    `before` and `after` are the document and the digest of its bytes, at the last managed commit
    and now; None where it is absent or does not decode.
    """
    last = entry
    if last is None and before is not None:
        last = Fallen(flow=flow, revision=before[0].revision, digest=before[1])
    if last is None or after is None:
        return last
    mended = after[0].revision > last.revision or after[1] == last.digest
    return None if mended else last


def entry_of(unusable: Value | None, flow: str) -> Fallen | None:
    """Return the entry of a flow in `unusable.json`, if it has one."""
    entries = unusable.flows if isinstance(unusable, Unusable) else ()
    return next((entry for entry in entries if entry.flow == flow), None)


def listed(
    unusable: Value | None, fallen: tuple[Fallen, ...], mended: tuple[str, ...]
) -> Unusable | None:
    """Return `unusable.json` with the fallen added and the mended removed, or None for none."""
    entries = {e.flow: e for e in unusable.flows} if isinstance(unusable, Unusable) else {}
    entries |= {entry.flow: entry for entry in fallen}
    kept = tuple(entries[flow] for flow in sorted(entries) if flow not in mended)
    return Unusable(schema_version=1, flows=kept) if kept else None


def fallen(entry: Fallen, *, stands: bool) -> Corrupt:
    """Return the error for a flow that was edited by hand against the rules, or removed.

    What does not stand anywhere cannot be adopted, so that is not what its hint says.
    """
    if not stands:
        return Corrupt(
            f"{entry.flow} was removed by hand: it was at r{entry.revision}",
            hint="ask a person to revert the commit that removed it",
        )
    return Corrupt(
        f"{entry.flow} was edited by hand: its last managed revision is {entry.revision}, and what "
        "stands there now is not a later one",
        hint=f"gfs adopt {entry.flow} --reason REASON, or revert that commit",
        next=["gfs", "adopt", entry.flow, "--reason", "REASON"],
    )
