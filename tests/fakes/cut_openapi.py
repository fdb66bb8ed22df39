"""Cuts the operations that the GitHub channel uses out of GitHub's own description of them.

    curl -sO https://registry.npmjs.org/@octokit/openapi/-/openapi-23.0.2.tgz
    tar xzf openapi-23.0.2.tgz package/generated/api.github.com.deref.json package/package.json
    python tests/fakes/cut_openapi.py package > tests/fakes/github-openapi.json

What is kept says which shapes hold; prose, and what need not be there, are left out.
"""

import json
import sys
from pathlib import Path

OPERATIONS = (
    ("post", "/repos/{owner}/{repo}/issues/{issue_number}/comments"),
    ("get", "/repos/{owner}/{repo}/issues/{issue_number}/comments"),
    ("get", "/repos/{owner}/{repo}/issues/comments/{comment_id}"),
    ("patch", "/repos/{owner}/{repo}/issues/comments/{comment_id}"),
    ("get", "/repos/{owner}/{repo}/issues/{issue_number}"),
    ("get", "/user"),
)
_PROSE = {"description", "title", "example", "examples", "default", "deprecated", "x-github"}


def plain(schema, inside=False):
    """Return a schema as JSON Schema: without prose, and with `nullable` as a type."""
    if isinstance(schema, list):
        return [plain(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {
        name: plain(each, name == "properties" and not inside)
        for name, each in schema.items()
        if inside or name not in _PROSE
    }
    if inside:
        return kept
    if "required" in kept and "properties" in kept:
        kept["properties"] = {
            name: each for name, each in kept["properties"].items() if name in kept["required"]
        }
    if not kept.pop("nullable", False):
        return kept
    return {"anyOf": [kept, {"type": "null"}]}


def content(said):
    """Return the schema of a request or an answer, None where it has no JSON."""
    media = said.get("content", {}).get("application/json")
    return media and plain(media["schema"])


def operation(whole):
    """Return what of one operation is checked."""
    return {
        "parameters": [
            {
                "name": each["name"],
                "in": each["in"],
                "required": each.get("required", False),
                "schema": plain(each["schema"]),
            }
            for each in whole.get("parameters", [])
        ],
        "request": content(whole.get("requestBody", {})),
        "responses": {status: content(said) for status, said in whole["responses"].items()},
    }


def main():
    """Print the cut of an unpacked package."""
    package = Path(sys.argv[1])
    facts = json.loads((package / "package.json").read_text())
    whole = json.loads((package / "generated" / "api.github.com.deref.json").read_text())
    cut = {
        "from": f"{facts['name']} {facts['version']} ({facts['license']})",
        "operations": {
            f"{verb.upper()} {path}": operation(whole["paths"][path][verb])
            for verb, path in OPERATIONS
        },
    }
    print(json.dumps(cut, indent=None, separators=(",", ":"), sort_keys=True))


if __name__ == "__main__":
    main()
