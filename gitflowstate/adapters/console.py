"""The channel that prints on this machine, and keeps a Markdown file where it is given one.

Rules: what users wrote reaches a terminal only through `prose.terminal` (hazard F5). What the file
holds was printed: it is written last, and looked at first, so that one of others stops both.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

from gitflowstate import plaintext, prose
from gitflowstate.adapters.board import Board
from gitflowstate.delivery import Gone, NotSent
from gitflowstate.kinds import Time
from gitflowstate.ports import Capabilities, Found, Notice

LIMIT = 60_000

Show = Callable[[str], None]


class ConsoleChannel:
    """Prints each notice; an edit is printed as well, unless it says what was printed last."""

    def __init__(self, name: str, board: Board | None = None, show: Show | None = None) -> None:
        """Keep what is needed; `show` gets each text, and may raise OSError."""
        self.name = name
        self.capabilities = Capabilities(edits=True, searches=board is not None, limit=LIMIT)
        self._board = board
        self._show = show or printed
        self._last: dict[str, str] = {}  # by flow

    def post(self, notice: Notice) -> str:
        """Print the notice and add it to the file; return its id."""
        self.examine()
        self._print(notice.flow, shown(notice))
        return self._board.add(notice) if self._board else f"{notice.flow}/{notice.kind}"

    def edit(self, id: str, notice: Notice) -> str:  # noqa: A002  the word of the protocol
        """Print the message and change it in the file. Raises Gone."""
        if self._board and self._board.digest(id) is None:
            raise Gone("the message is not in the file any more")
        text = shown(notice)
        if self._last.get(notice.flow) != text:
            self._print(notice.flow, text)
        if self._board:
            self._board.change(id, notice)
        return id

    def digest(self, id: str) -> str | None:  # noqa: A002  as above
        """Return the digest of a message as the file holds it."""
        return self._board.digest(id) if self._board else None

    def find(self, notice: Notice, since: Time | None) -> list[Found]:
        """Return what the file holds about the flow, whenever it was written."""
        del since
        return self._board.find(notice.flow) if self._board else []

    def examine(self) -> list[str]:
        """Read the file where the channel has one; write nothing. Raises as `post` does."""
        return self._board.examine() if self._board else []

    def close(self) -> None:
        """Do nothing: nothing is kept open."""

    def _print(self, flow: str, text: str) -> None:
        try:
            self._show(text)
        except (OSError, ValueError):  # ValueError: it was closed
            raise NotSent("standard output cannot be written") from None
        self._last[flow] = text


def shown(notice: Notice) -> str:
    """Return what is printed: the title, and the text indented below it."""
    title = prose.terminal(prose.fold(notice.title), lines=False)
    lines = prose.terminal(plaintext.plain(notice.text)).split("\n")
    return "\n".join([title, *(f"  {line}".rstrip() for line in lines)])


def printed(text: str) -> None:
    """Print a text on standard output, in UTF-8 whatever the locale says.

    Raises OSError, or ValueError where that is closed.
    """
    if sys.stdout is None:
        raise ValueError("closed")
    sys.stdout.flush()
    sys.stdout.buffer.write(f"{text}\n\n".encode("utf-8", "backslashreplace"))
    sys.stdout.flush()
