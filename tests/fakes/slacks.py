"""Slack's Web API, as a bot with one channel sees it, with its limits and its errors.

A step of the script that is a text which is no fault of `loopback` is an error as Slack says it.
"""

import html
import json
from urllib.parse import parse_qs

from fakes.loopback import REMOTE_WORDS, Answer, Loopback, Received

CHANNEL = "C0123456789"
USER, BOT = "U0GFS", "B0GFS"
FAULTS = {"dropped", "lost", "silent", "dripping", "endless", "garbled"}


class Slack(Loopback):
    """One workspace with one channel; `people` may write too."""

    def __init__(self, token: str) -> None:
        super().__init__()
        self.token = token
        self.messages: list[dict] = []  # the oldest first
        self.scopes = {"chat:write", "channels:history"}
        self.page = 200
        self._moment = 1_788_688_800

    def taken(self, request: Received):
        if self.script and isinstance(self.script[0], str) and self.script[0] not in FAULTS:
            self.requests.append(request)
            return None, _no(self.script.pop(0))
        return super().taken(request)

    def serve(self, request: Received) -> Answer:
        if request.headers.get("Authorization") != f"Bearer {self.token}":
            return _no("invalid_auth")
        method = request.path.removeprefix("/api/")
        if method in ("chat.postMessage", "chat.update"):
            return self._write(method, json.loads(request.body))
        asked = {name: values[0] for name, values in parse_qs(request.body.decode()).items()}
        if method == "auth.test":
            return _yes(user_id=USER, bot_id=BOT, user="gfs")
        if method == "conversations.history":
            return self._history(asked)
        return _no("unknown_method")

    def _write(self, method: str, asked: dict) -> Answer:
        if asked["channel"] != CHANNEL:
            return _no("channel_not_found")
        blocks = [block["text"] for block in asked["blocks"]]
        assert 0 < len(blocks) <= 50
        assert all(0 < len(block["text"]) <= 3000 for block in blocks)
        assert asked["parse"] == "none"
        assert asked["link_names"] is False
        content = {name: asked[name] for name in ("text", "blocks", "metadata")}
        if method == "chat.update":
            found = [each for each in self.messages if each["ts"] == asked["ts"]]
            if not found:
                return _no("message_not_found")
            found[0].update(content)
            return _yes(channel=CHANNEL, ts=asked["ts"])
        return _yes(channel=CHANNEL, ts=self.write(USER, BOT, **content))

    def write(self, user: str, bot: str | None = None, **content) -> str:
        """Add a message of anybody's; return its time."""
        self._moment += 1
        moment = f"{self._moment}.000100"
        self.messages.append(
            {"type": "message", "user": user, "bot_id": bot, "ts": moment, **content}
        )
        return moment

    def _history(self, asked: dict) -> Answer:
        if "channels:history" not in self.scopes:
            return _no("missing_scope")
        size = min(int(asked["limit"]), self.page)
        newest = [m for m in reversed(self.messages) if float(m["ts"]) > float(asked["oldest"])]
        start = int(asked.get("cursor", 0))
        shown = newest[start : start + size]
        if asked.get("include_all_metadata") != "1":
            shown = [{k: v for k, v in each.items() if k != "metadata"} for each in shown]
        after = str(start + size) if start + size < len(newest) else ""
        return _yes(messages=shown, has_more=bool(after), response_metadata={"next_cursor": after})

    def shown(self) -> list[str]:
        """Return the messages as a person reads them, signs that Slack acts on told apart."""
        return [
            "\n".join(_read(block["text"]["text"]) for block in each["blocks"])
            for each in self.messages
            if "blocks" in each
        ]


def _read(text: str) -> str:
    assert "<" not in text, "a control sequence of Slack's"
    assert ">" not in text
    return html.unescape(text)


def _yes(**answer) -> Answer:
    return Answer(200, json.dumps({"ok": True, **answer}).encode())


def _no(error: str) -> Answer:
    body = {"ok": False, "error": error, "detail": REMOTE_WORDS}
    return Answer(200, json.dumps(body).encode())
