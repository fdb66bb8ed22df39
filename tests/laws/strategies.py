"""Strategies for whatever the core can hold, made from the codec's own table of fields.

A new field, operation or document is therefore drawn without a change here; only what must fit
together (the ids of one small world, owners, keys) is said apart.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from hypothesis import strategies as st

from gitflowstate import codec, machine
from gitflowstate.kinds import KINDS, MAX_INT
from gitflowstate.model import (
    UNUSABLE_PATH,
    Fallen,
    Flow,
    Plan,
    Receipt,
    Step,
    Task,
    Unusable,
    Value,
    key_path,
)
from gitflowstate.ops import Create, Import, Op, ProcessOp
from gitflowstate.processmodel import Process, process_path
from gitflowstate.processops import UNION as PROCESS_UNION
from gitflowstate.taskops import Plan as PlanOp
from gitflowstate.union import UNION

MAIN = (*UNION, *PROCESS_UNION)  # every op on main

# ── texts ───────────────────────────────────────────────────────────────────────────────────────

# What means something to Git, to hosts, to JSON or to a terminal, in pieces that combine.
PIECES = [
    *(
        "x",
        " ",
        "\n",
        "\t",
        "\n\n",
        "\\",
        '"',
        "/",
        "\\u0023",
        "\\/",
        "{}",
        "null",
        ":",
        "#",
        "@",
        "[",
    ),
    *("Revision: 999", "\n\nRevision: 999\n", "Gfs-Op: {}", "Flow: other", "Status: done", "---\n"),
    *("[skip ci]", "skip-checks: true", "Fixes #1", "GH-2", "@org/team", "Signed-off-by: A <a@b>"),
    *(
        "\u00e9",
        "e\u0301",
        "\u202e",
        "\u2028",
        "\u200b",
        "\ufeff",
        "\U0001f469\u200d\U0001f4bb",
        "\u0130",
    ),
    "long " * 900,
]
_pieces = st.sampled_from(PIECES)
_letters = st.characters(exclude_categories=["Cs", "Cc"])
texts = st.lists(_letters | _pieces, max_size=6).map("".join).filter(KINDS["Text"].accepts)
words = st.lists(_letters | _pieces, min_size=1, max_size=6).map("".join)
lines = words.map(lambda text: " ".join(text.splitlines())[:100])

ids = st.sampled_from(["f-1", "f-2", "t1", "t2", "t10", "x", "a.b_c-0", "z" * 64])
moments = st.datetimes().map(
    lambda moment: moment.strftime(f"{moment.year:04}-%m-%dT%H:%M:%S.%fZ").replace(".000000", "")
)
positive = st.integers(1, 5) | st.integers(1, MAX_INT)
whole = st.integers(0, 5) | st.integers(-MAX_INT, MAX_INT)
data = st.dictionaries(
    texts,
    st.recursive(
        st.none() | st.booleans() | whole | texts,
        lambda inner: (
            st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2)
        ),
        max_leaves=4,
    ),
    max_size=2,
) | st.just({"sha256": "a" * 64, "bytes": 9000})
_SCALARS = {
    "Id": ids,
    **dict.fromkeys(["Name", "Line", "Ref"], lines),
    **dict.fromkeys(["Words", "Reason"], words),
    **dict.fromkeys(["Text", "Argument"], texts),
    "Time": moments,
    "Sha256": st.sampled_from(["a" * 64, "0" * 64]),
    "Commit": st.sampled_from(["a" * 40, "0" * 40]),
    "Revision": positive,
    "Count": st.just(0) | positive,
    "Parts": st.integers(0, 10_000),
    "Int": whole,
    "Flag": st.booleans(),
}


@cache
def of_kind(kind: str) -> st.SearchStrategy[Any]:
    """Return a strategy for the scalars of a kind."""
    if kind == "Json":
        return data
    rule = KINDS[kind]
    return st.sampled_from(rule.values) if rule.values else _SCALARS[kind].filter(rule.accepts)


# ── values ──────────────────────────────────────────────────────────────────────────────────────


@st.composite
def values(draw, cls: type[Value], **chosen: st.SearchStrategy[Any]) -> Any:
    """Draw a valid value of a class; `chosen` says how to draw some of its fields."""
    status = draw(chosen.get("status", of_kind("Status"))) if cls.NEEDS else None
    needed = cls.NEEDS.get(str(status), ())
    found: dict[str, Any] = {}
    # One draw says which of the optional fields are there, about a quarter of them.
    there = draw(st.integers(0, 2**20 - 1)) & draw(st.integers(0, 2**20 - 1))
    for number, (name, field) in enumerate(codec.fields(cls).items()):
        if name in cls.OWN and name not in needed:
            continue
        if name == "schema_version":
            found[name] = 1
        elif name == "status" and cls.NEEDS:
            found[name] = status
        elif name in chosen:
            found[name] = draw(chosen[name])
        elif field.required or name in needed or there >> number & 1:
            found[name] = draw(_field(field))
    return cls(**found)


@cache
def _field(field: codec.Field) -> st.SearchStrategy[Any]:
    one = values(field.nested) if field.nested else of_kind(field.kind)
    if not field.many:
        return one
    unique = None
    if field.nested is None:
        unique = str
    elif "id" in codec.fields(field.nested):
        unique = _id_of
    return st.lists(one, max_size=3, unique_by=unique).map(tuple)


def _id_of(value: Any) -> str:
    return value.id


documents = st.one_of([values(cls) for cls in (Flow, Receipt, Unusable, Process)])
unknown = st.dictionaries(
    st.sampled_from(["colour", "self", "cls", "at", "kind", "_new", "weight"]),
    data | whole | st.lists(texts, max_size=2),
    max_size=3,
)


@st.composite
def newer_documents(draw) -> dict[str, Any]:
    """Draw the JSON of a flow that a later version wrote, with new fields at every depth."""
    raw = codec.to_json(draw(values(Flow)))
    raw["schema_version"] = draw(st.integers(2, 9))
    for place in (raw, *raw["children"], *raw.get("notes", ())):
        place |= {name: new for name, new in draw(unknown).items() if name not in place}
    return raw


# ── a small world, in which operations meet ─────────────────────────────────────────────────────

FLOWS = ("f-1", "f-2")
ACTORS = ("ann", "bob", "local")
flow_ids = st.sampled_from(FLOWS)
actors = st.sampled_from(["local", *ACTORS])
owners = st.sampled_from(["local", *ACTORS])
statuses = st.sampled_from(["running", "running", *KINDS["Status"].values])


def seldom(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Return a strategy for None, and now and then for what the other one draws."""
    return st.sampled_from([False] * 5 + [True]).flatmap(
        lambda there: strategy if there else st.none()
    )


_TASKS = ("t1", "t2", "t10")
task_ids = st.sampled_from(["t1", "t1", "t2", "t10"])
times = st.integers(0, 59).map(lambda minute: f"2026-09-06T10:{minute:02}:00Z")
small = st.integers(1, 4)
keys = st.sampled_from(["1" * 64, "2" * 64])
# Two sessions, of which each knows both processes: so that one id stands in two folders.
sessions = st.sampled_from(["s-1", "s-1", "S 2"])
process_ids = st.sampled_from(["p-1", "p-1", "p-2"])

tasks = values(
    Task,
    id=task_ids,
    status=st.sampled_from(["pending", "pending", "pending", *KINDS["Status"].values]),
    not_before=seldom(times),
    deps=st.lists(task_ids, max_size=1, unique=True).map(tuple),
    priority=st.integers(-1, 1),
    claim=st.none()
    | values(codec.fields(Task)["claim"].nested, by=actors, attempt=small, until=times),
    process=seldom(st.just("p-1")),
)


def _numbered(found: list[Task]) -> tuple[Task, ...]:
    return tuple(task.replace(id=name) for task, name in zip(found, _TASKS, strict=False))


def flows(**chosen: st.SearchStrategy[Any]) -> st.SearchStrategy[Flow]:
    """Return a strategy for the flows of the small world."""
    fields: dict[str, st.SearchStrategy[Any]] = {
        "id": flow_ids,
        "owner": owners,
        "status": statuses,
        "revision": small,
        "updated_at": times,
        "plan": st.none() | small,
        "children": st.lists(tasks, min_size=1, max_size=3).map(_numbered),
    }
    return values(Flow, **(fields | chosen))


# A plan of the small world: sound more often than not, and mostly of the flow that is asked.
plans = values(
    Plan,
    tasks=st.lists(
        values(
            Step,
            id=task_ids,
            goal=st.sampled_from(["one", "two"]),
            deps=st.just(()) | st.sampled_from([("t1",), ("t2",), ("t1", "t2"), ("t9",)]),
            priority=st.integers(-1, 1),
            not_before=seldom(times),
        ),
        max_size=3,
        unique_by=_id_of,
    ).map(tuple),
)


def operations(*classes: type[Op], **chosen: st.SearchStrategy[Any]) -> st.SearchStrategy[Op]:
    """Return a strategy for ops of the classes, or of all, on the small world."""
    return st.sampled_from(classes or MAIN[::-1]).flatmap(lambda cls: _operation(cls, chosen))


_ON_PROCESSES = {
    "session_id": sessions,
    "process": process_ids,
    "flow": st.none() | flow_ids,
    "task": st.none() | task_ids,
    "argv": st.sampled_from([("make",), ("make", "make"), ("make", "long " * 900), ()]),
    "pid": st.sampled_from([7, 8]),
    "ticks": st.just(9),
    "state": st.sampled_from(["completed", "failed", *KINDS["ProcessState"].values]),
}
processes = values(
    Process,
    id=process_ids,
    session_id=sessions,
    state=st.sampled_from(["starting", "running"] * 4 + [*KINDS["ProcessState"].values]),
    flow=st.none() | flow_ids,
    task=st.none() | task_ids,
    pid=st.sampled_from([7, 8]),
    ticks=st.just(9),
)


def _operation(cls: type[Op], chosen: dict[str, st.SearchStrategy[Any]]) -> st.SearchStrategy[Op]:
    known = codec.fields(cls)
    fields = {
        "at": times,
        "by": actors,
        "to": actors,
        "owner": owners,
        "flow": flow_ids,
        "attempt_of": st.none() | flow_ids,
        "task": task_ids if known.get("task") and known["task"].required else st.none() | task_ids,
        "attempt": small
        if known.get("attempt") and known["attempt"].required
        else st.none() | small,
        "expect": seldom(seldom(small)),
        "key": seldom(keys),
        "request": st.sampled_from(["8" * 64, "9" * 64]),
        **({"document": flows()} if cls is Import else {}),
        **({"document": plans} if cls is PlanOp else {}),
        **({"plan": seldom(plans)} if cls is Create else {}),
        "priority": st.integers(-1, 1),
        "skew_s": st.sampled_from([0, 0, 600]),
        "deps": st.lists(task_ids, max_size=1, unique=True).map(tuple),
        **(_ON_PROCESSES if issubclass(cls, ProcessOp) else {}),
    } | chosen
    if known.get("until") and known["until"].kind == "Time":  # the end of a lease
        fields["until"] = times
    drawn = {name: how for name, how in fields.items() if name in known}
    return values(cls, **drawn).map(_fitting)


def _fitting(op: Op) -> Op:
    """Return the op with what it holds being mostly of the flow that it names."""
    for name in ("document", "plan"):
        held = getattr(op, name, None)
        if isinstance(held, Flow) and held.revision % 4:
            op = op.replace(**{name: held.replace(id=op.flow)})
        elif isinstance(held, Value) and not isinstance(held, Flow):
            op = op.replace(**{name: held.replace(flow=op.flow)})
    return op.replace(request=None) if op.key is None else op


@st.composite
def worlds(draw, **chosen: st.SearchStrategy[Any]) -> dict[str, Value]:
    """Draw the documents of a small repository, by path; `chosen` is about its flows."""
    found: dict[str, Value] = {}
    for name in FLOWS:
        if draw(st.integers(0, 6)) < 6:
            flow = draw(flows(id=st.just(name), **chosen))
            found[place(flow)] = flow
    fallen = draw(seldom(values(Fallen, flow=flow_ids, revision=small)))
    if fallen:
        found[UNUSABLE_PATH] = Unusable(schema_version=1, flows=(fallen,))
    for process in draw(st.lists(processes, max_size=2)):
        found[process_path(process.session_id, process.id)] = process
    key = draw(seldom(keys))
    if key:
        found[key_path(key)] = draw(
            values(Receipt, flow=flow_ids, request=st.sampled_from(["8" * 64, "9" * 64]))
        )
    return found


def place(flow: Flow) -> str:
    """Return where a flow belongs by its status."""
    live, archived = machine.places(flow.id)
    return archived if flow.status in ("done", "failed") else live
