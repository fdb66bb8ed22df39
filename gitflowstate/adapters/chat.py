"""The channel to chat services that apprise knows, by a URL which is a secret of the user's.

Rules: what is sent is plain text, in which nobody can be mentioned (hazard F3); a message cannot be
edited or found again, so such a channel suits ends and questions; nothing that a service says is
kept or shown. Apprise tells success from all else and no more, so all else is unknown.
"""

from __future__ import annotations

import logging
import warnings
from hashlib import sha256

from apprise import Apprise, AppriseAsset, NotifyFormat

from gitflowstate import plaintext, prose
from gitflowstate.delivery import Gone, Unauthorised, Unknown
from gitflowstate.kinds import Time
from gitflowstate.ports import Capabilities, Found, Notice

TIMEOUT_S = 20.0
LIMIT = 1500  # what every service takes in one message, its title not counted
_TITLE = 200


class ChatChannel:
    """Posts to one service."""

    capabilities = Capabilities(edits=False, searches=False, limit=LIMIT)

    def __init__(
        self,
        name: str,
        url: str,
        *,
        variable: str = "GFS_CHAT_URL",
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        """Read the URL; `variable` held it. Raises Unauthorised if it names no service, or many."""
        self.name = name
        self._variable = variable
        self._timeout_s = timeout_s
        _silence()
        asset = AppriseAsset(
            app_id="gitflowstate",
            async_mode=False,
            http_redirects=False,
            allow_templates=False,
            result_log_disk_size=0,  # what a service says is written nowhere
        )
        self._service = Apprise(asset=asset)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what its many parts warn of is not ours to mend
            added = self._service.add(url)
        if not added or len(self._service) != 1:
            raise Unauthorised(variable)

    def post(self, notice: Notice) -> str:
        """Send a notice; its id is made of what it is about, since services tell none."""
        title, text = shown(notice)
        with self._service.notify(
            title=title, body=text, body_format=NotifyFormat.TEXT, timeout=self._timeout_s
        ) as outcome:
            if outcome:
                return _id(self.name, notice)
        raise Unknown(
            "the chat service did not confirm the message: it may have arrived or not",
            hint=f"if it stays so, look at what {self._variable} holds",
        )

    def edit(self, id: str, notice: Notice) -> str:  # noqa: A002  the word of the protocol
        """Raise Gone: what was posted to a chat stays as it was."""
        del id, notice
        raise Gone("a message in a chat cannot be edited")

    def digest(self, id: str) -> None:  # noqa: A002  as above
        """Return nothing: it cannot be read."""

    def find(self, notice: Notice, since: Time | None) -> list[Found]:
        """Return nothing: a chat is not searched."""
        del notice, since
        return []

    def close(self) -> None:
        """Let go of the service."""
        self._service.clear()


def shown(notice: Notice) -> tuple[str, str]:
    """Return a title and a text for a chat: plain, short enough, calling nobody."""
    title = prose.cut(plaintext.quiet(prose.fold(notice.title)), _TITLE)
    return title, plaintext.quiet(plaintext.plain(notice.text)) or title


def _id(channel: str, notice: Notice) -> str:
    parts = (channel, notice.flow, notice.kind, str(notice.revision))
    return sha256("\0".join(parts).encode()).hexdigest()


def _silence() -> None:
    """Switch off what apprise logs: it quotes what services say."""
    logging.getLogger("apprise").disabled = True
