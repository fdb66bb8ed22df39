"""The channel that keeps messages in a Slack channel, with the token of an app of the user's.

Rules: the marker is the metadata of a message, which no text can forge; what is shown is plain
text, in which neither a mention nor a command of Slack's can come about (hazard F3); nothing that
Slack says becomes part of an error.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime, timedelta
from http.client import HTTPException
from typing import TYPE_CHECKING, Any
from urllib.error import URLError

from slack_sdk.errors import SlackApiError

from gitflowstate import marker, plaintext, prose
from gitflowstate.adapters import answers
from gitflowstate.adapters.slackwire import BASE_URL, SlackClient, is_unreached
from gitflowstate.delivery import Gone, HoldOff, NotSent, Refused, Unauthorised, Unknown
from gitflowstate.kinds import Time
from gitflowstate.marker import MARKED_KINDS
from gitflowstate.ports import Capabilities, Clock, Found, Notice
from gitflowstate.settingforms import SLACK_PATTERN

if TYPE_CHECKING:
    from slack_sdk.web import SlackResponse

TIMEOUT_S = 10
DEADLINE_S = 40.0  # for a whole exchange: a page of the longest messages takes its time
LIMIT = 12_000
EVENT = "gfs_notice"
SUPERSEDED = "gfs_superseded"  # of a message that counts for nothing any more
_SECTION = 3000  # characters of one block, by Slack's rule
_PIECE = 500  # characters that fit into a block whatever they are
_PAGE, _PAGES = 200, 20
_MARGIN = timedelta(minutes=5)  # between the clock of Slack and ours

_UNAUTHORISED = {
    *("invalid_auth", "not_authed", "account_inactive", "token_revoked", "token_expired"),
    *("not_allowed_token_type", "ekm_access_denied", "org_login_required"),
}
_GONE = {"message_not_found", "cant_update_message", "edit_window_closed"}
_UNCERTAIN = {"fatal_error", "internal_error", "request_timeout", "service_unavailable"}
_WAIT = {"ratelimited", "rate_limited", "message_limit_exceeded"}
_REASONS = {
    "missing_scope": "the token lacks the scope chat:write",
    "no_permission": "the token lacks a permission",
    "channel_not_found": "the token sees no such channel",
    "not_in_channel": "the app is no member of the channel",
    "is_archived": "the channel is archived",
    "restricted_action": "posting there is restricted",
    "msg_too_long": "the message is too long",
}
# Without the scope channels:history all works, only what is there already is not found.
_UNSEARCHABLE = {"missing_scope", "no_permission"}


class SlackChannel:
    """Posts, edits and finds messages of one app in a Slack channel."""

    capabilities = Capabilities(edits=True, searches=True, limit=LIMIT)

    def __init__(
        self,
        name: str,
        target: str,
        token: str,
        clock: Clock,
        *,
        variable: str = "GFS_SLACK_TOKEN",
        base_url: str = BASE_URL,
        timeout_s: int = TIMEOUT_S,
        deadline_s: float = DEADLINE_S,
    ) -> None:
        """Keep what is needed; `target` is the id of a Slack channel. Nothing is sent yet."""
        self.name = name
        self._target = target
        self._clock = clock
        self._variable = variable
        self._client = SlackClient(token, base_url, timeout_s, deadline_s)
        self._own: tuple[str, str] | None = None

    def post(self, notice: Notice) -> str:
        """Send a new message; its id is the channel's and the time that Slack gave it."""
        channel = notice.target or self._target
        unfurled = {"unfurl_links": False, "unfurl_media": False}
        asked = {"channel": channel, **_content(notice), **unfurled}
        return _id(self._call("chat.postMessage", json=asked))

    def edit(self, id: str, notice: Notice) -> str:  # noqa: A002  the word of the protocol
        """Bring a message to the text of the notice. Raises Gone."""
        channel, _, moment = id.partition("/")
        asked = {"channel": channel, "ts": moment, **_content(notice)}
        return _id(self._call("chat.update", json=asked))

    def digest(self, id: str) -> None:  # noqa: A002  as above
        """Return nothing: nobody else can edit a bot's message."""

    def find(self, notice: Notice, since: Time | None) -> list[Found]:
        """Return the app's messages about the flow, the oldest first.

        At most the newest 4,000 messages of the channel are looked at; none where the token may
        not read them.
        """
        channel = notice.target or self._target
        asked = {"channel": channel, "limit": _PAGE, "include_all_metadata": True}
        asked["oldest"] = _epoch(since)
        found: list[Found] = []
        try:
            own = self._author()
            for _ in range(_PAGES):
                page = self._call("conversations.history", params=asked)
                found += _found(channel, page, notice.flow, own)
                after = _mapping(page.get("response_metadata")).get("next_cursor")
                if not after or not isinstance(after, str):
                    break
                asked["cursor"] = after
        except _UnsearchableError:
            return []
        return sorted(found, key=lambda each: float(each.id.partition("/")[2]))

    def close(self) -> None:
        """Do nothing: no connection is kept."""

    def _author(self) -> tuple[str, str]:
        """Return the user and the bot that the token speaks for."""
        if self._own is None:
            answer = self._call("auth.test", params={})
            self._own = str(answer.get("user_id") or ""), str(answer.get("bot_id") or "")
        return self._own

    def _call(
        self,
        method: str,
        *,
        json: dict[str, Any] | None = None,
        params: dict[str, Any] | None = None,
    ) -> SlackResponse:
        """Call a method of Slack's: those that write take JSON. Raises the errors of `delivery`."""
        refused = None
        try:
            return self._client.api_call(method, json=json, params=params)
        except SlackApiError as error:
            refused = error.response
        except (URLError, OSError, HTTPException, ValueError) as error:
            if is_unreached(error):
                hint = "what is owed is sent by a later run"
                raise NotSent("Slack cannot be reached", hint=hint) from None
        if refused is not None:
            self._refuse(method, refused)
        if not method.startswith("chat."):
            raise NotSent("no answer came from Slack", hint="run the same command again")
        raise Unknown(
            "no answer came from Slack: the message may have arrived or not",
            hint="the next run looks for it",
        )

    def _refuse(self, method: str, answer: SlackResponse) -> None:
        """Raise what an answer other than success means; return where that is unknown."""
        said = answer.data.get("error") if isinstance(answer.data, dict) else None
        headers = {name.lower(): value for name, value in answer.headers.items()}
        now, wait = self._clock.now(), headers.get("retry-after")
        if answer.status_code != 200:  # noqa: PLR2004  Slack says no with it too
            writes = method.startswith("chat.")
            answers.refuse(answer.status_code, wait, now, "Slack", writes=writes)
        if said in _UNAUTHORISED:
            raise Unauthorised(self._variable)
        if said in _WAIT:
            raise HoldOff(
                answers.until(wait, now), "Slack counts too many messages", guessed=not wait
            )
        if said in _GONE and method == "chat.update":
            raise Gone("the message is not there any more, or cannot be edited")
        if said in _UNSEARCHABLE and not method.startswith("chat."):
            raise _UnsearchableError
        if said not in _UNCERTAIN:
            raise Refused(_REASONS.get(str(said), "Slack does not accept it"))


class _UnsearchableError(Exception):
    """The token may not read the channel."""


# ── what is shown, and what is found again ──────────────────────────────────────────────────────


def _content(notice: Notice) -> dict[str, Any]:
    title = _escaped(prose.fold(notice.title))
    shown = plaintext.plain(notice.text) or title
    known = marker.read(notice.text)
    payload = known._asdict() if known else {"flow": notice.flow}
    return {
        "text": title,  # what a notification shows
        "blocks": [_block(chunk) for chunk in _chunks(shown)],
        "metadata": {"event_type": EVENT if known else SUPERSEDED, "event_payload": payload},
        "parse": "none",
        "link_names": False,
    }


def _block(text: str) -> dict[str, Any]:
    # `verbatim`: Slack makes no links and mentions of its own out of the text.
    return {"type": "section", "text": {"type": "mrkdwn", "text": text, "verbatim": True}}


def _chunks(text: str) -> Iterator[str]:
    """Yield a text, escaped, in parts of whole lines where they fit into a block."""
    chunk = ""
    for line in text.split("\n"):
        for number, piece in enumerate(_pieces(line)):
            joined = f"{chunk}{'' if number else chr(10)}{piece}" if chunk else piece
            if len(joined) > _SECTION:
                yield chunk
                joined = piece
            chunk = joined
    yield chunk


def _pieces(line: str) -> list[str]:
    whole = _escaped(line)
    if len(whole) <= _SECTION:
        return [whole]
    return [_escaped(line[start : start + _PIECE]) for start in range(0, len(line), _PIECE)]


def _escaped(text: str) -> str:
    """Return plain text as Slack's: the three signs that it reads are entities, mentions broken."""
    quiet = plaintext.quiet(text)
    return quiet.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _id(answer: SlackResponse) -> str:
    channel, moment = answer.get("channel"), answer.get("ts")
    if not (isinstance(channel, str) and re.fullmatch(SLACK_PATTERN, channel)) or (
        not _is_moment(moment)
    ):
        raise Unknown(
            "Slack answered without the id of the message", hint="the next run looks for it"
        )
    return f"{channel}/{moment}"


def _is_moment(raw: object) -> bool:
    return isinstance(raw, str) and re.fullmatch(r"[0-9]{1,12}\.[0-9]{1,9}", raw) is not None


def _found(channel: str, page: SlackResponse, flow: str, own: tuple[str, str]) -> Iterator[Found]:
    """Yield the messages of a page that are our own and marked with the flow."""
    messages = page.get("messages")
    if not isinstance(messages, list):  # an empty one says that there is nothing
        raise NotSent("Slack answered without a list", hint="run the same command again")
    for message in map(_mapping, messages):
        author = message.get("user"), message.get("bot_id")
        metadata = _mapping(message.get("metadata"))
        marked = _mapping(metadata.get("event_payload"))
        kind, revision = marked.get("kind"), marked.get("revision")
        if (
            any(each and each == mine for each, mine in zip(author, own, strict=True))
            and metadata.get("event_type") == EVENT
            and marked.get("flow") == flow
            and isinstance(kind, str)
            and kind in MARKED_KINDS
            and type(revision) is int
            and _is_moment(message.get("ts"))
        ):
            yield Found(f"{channel}/{message['ts']}", flow, kind, revision)


def _mapping(raw: object) -> dict[str, Any]:
    """Return an object of an answer, an empty one where something else stands in its place."""
    return raw if isinstance(raw, dict) else {}


def _epoch(since: Time | None) -> str:
    if since is None:
        return "0"
    moment = datetime.fromisoformat(since)
    return str(max(0, int(moment.timestamp() - _MARGIN.total_seconds())))
