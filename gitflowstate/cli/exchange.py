"""The verbs for documents from and to the outside: check, schema, import, export."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from gitflowstate import codec, loader, ops, prose, rules
from gitflowstate.cli import inputs, output
from gitflowstate.cli.resources import resource
from gitflowstate.cli.session import Session
from gitflowstate.cli.verb import reads, writes
from gitflowstate.documents import Broken
from gitflowstate.errors import Invalid, NotFound, Usage
from gitflowstate.model import Flow

SCHEMAS = ("flow", "op", "key", "plan", "cursor", "receipt", "acknowledged", "settings", "envelope")


@reads
def check(
    session: Session,
    files: Annotated[list[str], typer.Argument(metavar="FILE…", help="Documents; - is stdin.")],
) -> None:
    """Say everything that is wrong with documents, with path and line.

    Example: gfs check flow.json
    """
    from gitflowstate import checking

    found: list[dict[str, Any]] = []
    for name in files:
        data = inputs.read_file(name, name)
        found += [{"file": name, **violation} for violation in checking.check_file(name, data)]
    if found:
        raise Invalid(
            f"{prose.count(len(found), 'violation')} in "
            f"{len({v['file'] for v in found})} of {prose.count(len(files), 'file')}",
            violations=[{**violation, "path": _where(violation)} for violation in found],
        )
    output.success({"files": files}, f"{len(files)} valid", as_json=session.json)


def _where(violation: dict[str, Any]) -> str:
    line = f":{violation['line']}" if violation.get("line") else ""
    return f"{violation['file']}{line}: {violation['path'] or 'document'}"


@reads
def schema(
    session: Session,
    name: Annotated[str | None, typer.Argument(help="Which: flow, op, key, envelope.")] = None,
) -> None:
    """Print a JSON Schema (draft 2020-12), or list them.

    Example: gfs schema flow > flow.schema.json
    """
    if name is None:
        output.success({"schemas": list(SCHEMAS)}, "\n".join(SCHEMAS), as_json=session.json)
        return
    if name not in SCHEMAS:
        raise NotFound(f"there is no schema {name[:40]!r}", hint=f"one of {', '.join(SCHEMAS)}")
    text = resource(f"schemas/{name}.schema.json").read_text(encoding="utf-8")
    output.success(json.loads(text), text, as_json=session.json)


def _check_once(documents: Sequence[Flow]) -> None:
    """Refuse a list that holds a flow twice, since the second could be refused after the first."""
    first: dict[str, int] = {}
    for number, document in enumerate(documents):
        if first.setdefault(document.id, number) != number:
            raise loader.refuse(f"{number}.id", f"stands twice, first at {first[document.id]}")


@writes
def import_(
    session: Session,
    file: Annotated[str, typer.Argument(metavar="FILE", help="A flow, or a list; - is stdin.")],
) -> None:
    """Take over documents that were kept elsewhere, with their revisions.

    Example: gfs import flow-example-001.json
    """
    from gitflowstate import boundary

    raw = codec.load(inputs.read_file(file, "FILE"))
    several = isinstance(raw, list)
    documents = [
        rules.normalised(boundary.validate(Flow, item)) for item in (raw if several else [raw])
    ]
    _check_once(documents)
    key, asked = session.key, []
    for document in documents:
        session.key = f"{key}\0{document.id}" if key and several else key
        asked.append(session.op(ops.Import, flow=document.id, document=document))
    store = session.store(writing=not session.dry_run)
    # All are judged before the first is written, so that a refusal leaves none of a list behind.
    outcomes = [store.preview(op) for op in asked] if several or session.dry_run else []
    if session.dry_run:
        answers = [session.preview(outcome) for outcome in outcomes]
    else:
        outcomes = [store.commit(op) for op in asked]
        answers = [(session.outcome_data(each), session.outcome_text(each)) for each in outcomes]
    text = "\n".join(text for _, text in answers) or "no flows"
    output.success({"flows": [data for data, _ in answers]}, text, as_json=session.json)


@reads
def export(
    session: Session,
    ids: Annotated[list[str] | None, typer.Argument(metavar="[ID…]", help="Which.")] = None,
    every: Annotated[bool, typer.Option("--all", help="Every flow, ended ones too.")] = False,
) -> None:
    """Print documents as they are stored: one, or a list that import takes.

    What nobody would see in them, such as a change of direction, is escaped.

    Example: gfs export --all > flows.json
    """
    if every == bool(ids):
        raise Usage("export needs the ids of flows, or --all", next=["gfs", "export", "--all"])
    store = session.store()
    if every:
        items = list(store.flows(archived=True))
        flows = [item for item in items if isinstance(item, Flow)]
        for item in items:
            if isinstance(item, Broken):
                output.warn(f"left out: {item.said}")
    else:
        flows = [store.flow(session.flow_id(text)) for text in ids or ()]
    documents = [codec.to_json(flow) for flow in flows]
    single = not every and len(flows) == 1
    body = documents[0] if single else documents
    text = prose.json_text(json.dumps(body, ensure_ascii=False, indent=2))
    output.success(body, text, as_json=session.json)
