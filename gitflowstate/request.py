"""Digests for idempotency: of the key a caller gave, and of what was asked under it.

Rules: a request is the verb and its arguments as canonical JSON (RFC 8785), so the order in which
they were given does not matter; the caller leaves out what differs from one try to the next.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Any

from gitflowstate.errors import Invalid
from gitflowstate.kinds import KINDS, check

MAX_KEY = 255  # characters


def key_digest(key: str) -> str:
    """Return the sha256 of a key, in hexadecimal; it names the key's receipt.

    A document of a list that is imported under one key has the key, NUL and its id as its own.
    Raises Invalid for a key that is not one line of 1 to 255 characters.
    """
    given, nul, document = key.partition("\0")
    if len(given) > MAX_KEY or not KINDS["Line"].accepts(given):
        rule = f"must be one line of 1 to {MAX_KEY} characters"
        raise Invalid(f"the key {rule}", violations=[{"path": "key", "message": rule}])
    if nul:
        check("Id", document, "key")
    return sha256(key.encode()).hexdigest()


def request_digest(verb: str, arguments: dict[str, Any]) -> str:
    """Return the sha256 of a request, in hexadecimal.

    Raises Invalid for arguments that are no JSON: a lone surrogate, an integer beyond 2^53-1, NaN.
    """
    from rfc8785 import dumps  # noqa: PLC0415  start-up: only a key needs it

    try:
        canonical = dumps({"verb": verb, "arguments": arguments})
    except ValueError as error:  # CanonicalizationError, or a key that UTF-16 cannot hold
        said = f"must be plain JSON: {error}"
        violation = {"path": "arguments", "message": said}
        raise Invalid(f"the arguments {said}", violations=[violation]) from None
    return sha256(canonical).hexdigest()
