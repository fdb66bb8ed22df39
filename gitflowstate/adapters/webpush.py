"""One push over HTTP and the ref read back after it, on one connection: Git's own helper, driven.

Pure. What is written to `git remote-http` and read from it is the protocol of gitremote-helpers(7).
`git push` and `git ls-remote`, one after the other, would each begin by asking for the same list.
"""

from __future__ import annotations

from typing import NamedTuple

from gitflowstate.ports import IS_THERE

_UNSAID = "expecting report"  # what the helper says where the server said nothing of the ref


class Answer(NamedTuple):
    """What the helper told of one ref: whether it answered, why not, and what is there now.

    `there` is None where the ref was not read back, and empty where it is not there.
    """

    answered: bool
    refusal: str | None
    there: str | None


def command(remote: str, url: str) -> tuple[str, ...]:
    """Return the arguments that start the helper; a newer protocol would list nothing to us."""
    scheme = url.partition(":")[0]
    return ("-c", "protocol.version=0", f"remote-{scheme}", remote, url)


def script(name: str, old: str | None, new: str) -> str:
    """Return what moves a ref from a value to a commit, and then looks at it."""
    return (
        "option verbosity 1\n"
        "option progress true\n"
        f"option cas {name}:{old or ''}\n"
        "list for-push\n"
        f"push {new}:{name}\n"
        "\n"
        "list\n"
        "\n"
    )


def answer(out: str, name: str) -> Answer:
    """Return what the helper said of a ref.

    It prints what it thinks of the options and a list, a line for each ref that was to be moved,
    and a list again; an empty line ends each of the three. It stops where something fails.
    """
    _, _, rest = out.partition("\n\n")
    said, ended, listed = rest.partition("\n\n")
    for line in said.splitlines():
        verdict, _, about = line.partition(" ")
        ref, _, reason = about.partition(" ")
        if ref == name and verdict in ("ok", "error") and reason != _UNSAID:
            refusal = None if verdict == "ok" else reason or "no reason given"
            if verdict == "ok" and reason == IS_THERE:
                refusal = IS_THERE
            return Answer(
                answered=True, refusal=refusal, there=_held(listed, name) if ended else None
            )
    return Answer(answered=False, refusal=None, there=None)


def _held(listed: str, name: str) -> str | None:
    """Return what a list says a ref holds, None if the list is not whole."""
    if not listed.endswith("\n\n") and listed != "\n":
        return None
    pairs = (line.split(" ", 1) for line in listed.splitlines() if " " in line)
    return next((oid for oid, ref in pairs if ref == name), "")
