"""What GitHub's answers say of comments: their numbers, whose they are, their digests, more pages.

Rule: only what has the shape, the marker and the author of one of our own counts as one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, TypeGuard

from gitflowstate import marker
from gitflowstate.adapters.githubwire import Answer
from gitflowstate.codec import digest
from gitflowstate.delivery import Unknown
from gitflowstate.ports import Found, Notice

if TYPE_CHECKING:
    from gitflowstate.adapters.github import Issue

_MOST = 10**18 - 1  # what `_MESSAGE` of the channel reads, and more than GitHub counts


def number(answer: Answer, notice: Notice) -> int:
    """Return the number of the comment that an answer shows. Raises Unknown for another one."""
    made, body = answer.mapping.get("id"), answer.mapping.get("body")
    first = notice.text.split("\n", 1)[0]
    if _is_number(made) and isinstance(body, str) and _first_line(body) == first:
        return made
    raise Unknown("GitHub answered without the comment", hint="the next run looks for it")


def author(user: object) -> str | None:
    """Return the number of a user, None where an answer does not say it."""
    number = user.get("id") if isinstance(user, dict) else None
    return str(number) if _is_number(number) else None


def _is_number(raw: object) -> TypeGuard[int]:
    """Tell whether something can be the number of a comment or a user, which is kept."""
    return type(raw) is int and 0 < raw <= _MOST


def _first_line(text: str) -> str:
    return text.split("\n", 1)[0].removesuffix("\r")


def ours(page: list[Any], place: Issue, own: str) -> Iterator[tuple[int, Found]]:
    """Yield the comments of a page that are our own and carry a marker, by their numbers."""
    for comment in page:
        if not isinstance(comment, dict):
            continue
        number, body = comment.get("id"), comment.get("body")
        if not _is_number(number) or not isinstance(body, str):
            continue
        mark = marker.read(body)
        if mark is not None and author(comment.get("user")) == own:
            yield number, Found(f"{place}/{number}", *mark, whole(body))


def whole(body: str) -> str:
    """Return the digest of a comment's text, whatever ends its lines."""
    return digest(body.replace("\r\n", "\n").encode("utf-8", "surrogatepass"))


def following(answer: Answer) -> str | None:
    """Return the URL of the page that follows, as the header Link names it."""
    for part in (answer.headers.get("link") or "").split(","):
        found = re.fullmatch(r"\s*<([^<>]+)>((?:\s*;[^;]*)*)", part)
        if found and re.search(r';\s*rel="?next"?\s*(;|$)', found[2]):
            return found[1]
    return None
