"""Flows for tests of what people read: the founding example, and any flow with any text in it."""

from __future__ import annotations

import re

from hypothesis import strategies as st

from gitflowstate.kinds import KINDS
from gitflowstate.listing import LogEntry
from gitflowstate.model import Claim, Failure, Flow, Link, Note, Task, Waiting

NOW = "2026-09-06T13:10:00Z"

# What no terminal may get: C0 but newline and tab, C1, separators of lines, and bidi overrides.
UNSAFE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
# Each would act on a terminal, or pose as something else, if it came through.
ATTACKS = (
    "\x1b]0;title\x07",
    "\x1b[2J",
    "\x1b]52;c;aGk=\x07",
    "\x1b]8;;http://x\x1b\\link",
    "\x9b31m",
    "shown\rhidden",
    "\u202egnp.exe",
    "a\x85b\u2028c",
    "\ud800",
)

EXAMPLE = Flow(
    schema_version=1,
    id="flow-example-001",
    goal="Compare three data-platform architecture options",
    status="running",
    revision=4,
    owner="architecture-session",
    updated_at="2026-09-06T10:00:00Z",
    progress="Requirements captured; comparison in progress",
    next_action="Review child findings and draft a recommendation",
    children=(
        Task(
            id="task-001",
            goal="Compare operating constraints",
            status="done",
            result_ref="artifacts/constraints.md",
        ),
        Task(id="task-002", goal="Assess integration options", status="running"),
    ),
)
WAITING = EXAMPLE.replace(
    status="waiting",
    revision=5,
    waiting=Waiting(
        reason="Two options cost the same",
        condition="A person picks one",
        on="human",
        since="2026-09-06T12:00:00Z",
    ),
)

texts = st.text(st.characters(), max_size=60) | st.sampled_from(ATTACKS)
ids = st.from_regex(r"[a-z0-9][a-z0-9_-]{0,63}", fullmatch=True)
times = st.datetimes().map(lambda moment: f"{moment:%Y-%m-%dT%H:%M:%S}Z".zfill(20))
revisions = st.integers(1, 2**53 - 1)
waits = st.builds(
    Waiting,
    reason=texts,
    condition=texts,
    on=st.sampled_from(KINDS["On"].values),
    since=st.none() | times,
)
tasks = st.builds(
    Task,
    id=ids,
    goal=texts,
    status=st.sampled_from(KINDS["Status"].values),
    deps=st.lists(ids, max_size=3).map(tuple),
    not_before=st.none() | times,
    claim=st.none() | st.builds(Claim, worker=texts, by=texts, attempt=revisions, until=times),
    outcome=st.none() | st.sampled_from(KINDS["Outcome"].values),
    result_ref=st.none() | texts,
    reason=st.none() | texts,
    finished_at=st.none() | times,
    finished_by=st.none() | texts,
    waiting=st.none() | waits,
)
flows = st.builds(
    Flow,
    schema_version=st.just(1),
    id=ids,
    goal=texts.map(lambda text: "g" + text),
    status=st.sampled_from(KINDS["Status"].values),
    revision=revisions,
    owner=texts,
    created_at=st.none() | times,
    updated_at=times,
    progress=st.none() | texts,
    next_action=st.none() | texts.map(lambda text: "n" + text),
    waiting=st.none() | waits,
    failure=st.none() | st.builds(Failure, reason=texts, recoverable=texts),
    result_ref=st.none() | texts,
    notes=st.lists(st.builds(Note, at=times, by=texts, text=texts), max_size=7).map(tuple),
    links=st.lists(st.builds(Link, rel=texts, href=texts), max_size=2).map(tuple),
    attempt_of=st.none() | ids,
    labels=st.lists(texts, max_size=3).map(tuple),
    data=st.none() | st.dictionaries(texts, texts | st.integers() | st.booleans(), max_size=3),
    children=st.lists(tasks, max_size=12, unique_by=lambda task: task.id).map(tuple),
)
entries = st.builds(
    LogEntry,
    commit=st.just("0123456789"),
    time=times,
    actor=texts,
    revision=st.none() | revisions,
    op=texts,
    headline=texts,
    unmanaged=st.booleans(),
)


def dirtied(text: str) -> Flow:
    """Return a flow with the text in every field that takes words."""
    task = Task(
        id="t1",
        goal=text,
        status="pending",
        claim=Claim(worker=text, by=text, attempt=1, until=NOW),
        result_ref=text,
        finished_at=NOW,
        finished_by=text,
    )
    wait = Waiting(reason=text, condition=text, on="human", since=NOW)
    return Flow(
        schema_version=1,
        id="f-1",
        goal=text,
        status="waiting",
        revision=1,
        owner=text,
        updated_at=NOW,
        progress=text,
        next_action=text,
        waiting=wait,
        failure=Failure(reason=text, recoverable=text),
        result_ref=text,
        notes=(Note(at=NOW, by=text, text=text),),
        links=(Link(rel=text, href=text),),
        labels=(text,),
        data={text: [text]},
        children=(
            task,
            task.replace(id="t2", claim=None, status="waiting", waiting=wait),
            task.replace(id="t3", claim=None, status="failed", outcome="lost", reason=text),
            task.replace(id="t4", claim=None, status="done"),
        ),
    )
