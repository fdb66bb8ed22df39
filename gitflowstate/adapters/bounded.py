"""A client over HTTP whose answers are read whole, but end: in time, and at a size (hazard K2)."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import httpx2

from gitflowstate.adapters.deadline import Deadline

MOST_BYTES = 64 * 2**20  # a hundred of GitHub's longest comments, each sign of them an escape
_OF_THE_WAY = ("content-encoding", "content-length", "transfer-encoding")


class Client(httpx2.Client):
    """Reads each answer whole, but not without end, in size or in time."""

    def __init__(self, deadline: Deadline, **given: Any) -> None:  # noqa: ANN401  its own
        super().__init__(**given)
        self._deadline = deadline

    def send(self, request: httpx2.Request, **how: Any) -> httpx2.Response:  # noqa: ANN401  the same
        """Make a request. Raises HTTPError for an answer that has no end as well."""
        request.extensions["trace"] = self._deadline.trace
        with closing(super().send(request, **{**how, "stream": True})) as answer:
            body = bytearray()
            for chunk in answer.iter_bytes():  # unpacked, so that none blows up behind the limit
                body += chunk
                if len(body) > MOST_BYTES:
                    raise httpx2.ReadError("the answer is too long", request=request)
        headers = [pair for pair in answer.headers.multi_items() if pair[0] not in _OF_THE_WAY]
        return httpx2.Response(
            answer.status_code, headers=headers, content=bytes(body), request=request
        )
