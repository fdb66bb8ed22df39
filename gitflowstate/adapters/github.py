"""The channel that keeps messages as comments on issues of GitHub.

Rules: the marker is the first line of a comment, and counts only in one of our own author, whose
number is that of the first comment that was made; only status 201 is a new comment; a repository or
an issue that moved is looked up once, by its number (hazards, GitHub notification protocol).
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import NamedTuple, NoReturn

from gitflowstate.adapters import comments
from gitflowstate.adapters.githubwire import (
    CREATED,
    FORBIDDEN,
    MISSING,
    MOVED,
    OK,
    Answer,
    Wire,
    hold_off,
    refuse,
)
from gitflowstate.delivery import Gone, NotSent, Refused
from gitflowstate.kinds import Time
from gitflowstate.model import instant
from gitflowstate.ports import Capabilities, Clock, Found, Notice
from gitflowstate.settingforms import ISSUE_PATTERN

LIMIT = 60_000
ACTIONS_BOT = "41898282"  # github-actions[bot], whose token cannot ask who it is
_PAGE = 100
_PAGES = 100
_MESSAGE = re.compile(r"(?P<issue>[^/#]+/[^/#]+#[0-9]+)/(?P<comment>[1-9][0-9]{0,17})")
_RELOCATED = re.compile(r"/repositories/(?P<repo>[1-9][0-9]{0,14})(?:/issues/(?P<number>[0-9]+))?")


class Issue(NamedTuple):
    """One issue, as `owner/repo#12` names it."""

    owner: str
    repo: str
    number: int

    def __str__(self) -> str:
        return f"{self.owner}/{self.repo}#{self.number}"


def issue(text: str | None) -> Issue:
    """Return the issue that a target names. Raises Refused before anything is sent."""
    if text is None:
        raise Refused("the flow has no link to an issue, and the channel has no target")
    found = re.fullmatch(ISSUE_PATTERN, text)
    if found is None:
        raise Refused("the target is not an issue such as owner/repo#12")
    return Issue(found["owner"], found["repo"], int(found["number"]))


class GitHubChannel:
    """Posts, edits and finds comments on issues; `author_id` is the number of who wrote them."""

    capabilities = Capabilities(edits=True, searches=True, limit=LIMIT)

    def __init__(
        self,
        name: str,
        target: str | None,
        wire: Wire,
        clock: Clock,
        *,
        variable: str = "GFS_GITHUB_TOKEN",
        author_id: str | None = None,
        unasked: str = ACTIONS_BOT,
    ) -> None:
        """Keep what is needed; nothing is sent yet.

        `author_id` is what an earlier run learned; `unasked` holds where the token cannot ask.
        """
        self.name = name
        self.author_id = author_id
        self._target = target
        self._wire = wire
        self._clock = clock
        self._variable = variable
        self._unasked = unasked
        self._own: str | None = None
        self._moved: dict[Issue, Issue] = {}
        self._listed: dict[Issue, tuple[str, list[Found]]] = {}

    def post(self, notice: Notice) -> str:
        """Add a comment; its id is the issue's and the number that GitHub gave it."""
        wanted = issue(notice.target or self._target)
        listed = self._listed.pop(wanted, None)  # unless it succeeds, who knows what is there
        place, answer = self._asked("issues.create_comment", wanted, body=notice.text)
        if answer.status != CREATED:
            self._refuse(answer)
        made = comments.number(answer, notice)
        self.author_id = comments.author(answer.mapping.get("user")) or self.author_id
        if listed is not None:
            whole = comments.whole(notice.text)
            new = Found(f"{place}/{made}", notice.flow, notice.kind, notice.revision, whole)
            self._listed[wanted] = listed[0], [*listed[1], new]
        return f"{place}/{made}"

    def edit(self, id: str, notice: Notice) -> str:  # noqa: A002  the word of the protocol
        """Bring a comment to the text of the notice. Raises Gone."""
        known = _MESSAGE.fullmatch(id)
        if known is None:
            raise Gone("that is no comment of GitHub's")
        fields = {"comment_id": int(known["comment"]), "body": notice.text}
        wanted = issue(known["issue"])
        place, answer = self._asked("issues.update_comment", wanted, **fields)
        if answer.status in MISSING:
            there = self._there(place)
            if there == place:
                raise Gone("the comment is not there any more")
            place, answer = self._asked("issues.update_comment", there, **fields)
            if answer.status in MISSING:
                raise Gone("the comment did not move with its issue")
        if answer.status != OK:
            self._refuse(answer)
        return f"{place}/{comments.number(answer, notice)}"

    def digest(self, id: str) -> str | None:  # noqa: A002  as above
        """Return the digest of a comment as people read it now, None where it is not there."""
        known = _MESSAGE.fullmatch(id)
        if known is None:
            return None
        number = int(known["comment"])
        _, answer = self._asked("issues.get_comment", issue(known["issue"]), comment_id=number)
        if answer.status in MISSING:
            return None  # an edit learns whether it moved
        body = answer.mapping.get("body")
        if answer.status != OK:
            self._refuse(answer)
        return comments.whole(body) if isinstance(body, str) else None

    def find(self, notice: Notice, since: Time | None) -> list[Found]:
        """Return our own comments about the flow, the oldest first.

        An issue is listed for all notices of a run, and anew after a comment there whose fate is
        unknown; nobody else writes while this run holds the cursor. Where an older flow follows,
        the list goes twice as far back as that needs, so that there are few.
        """
        wanted = issue(notice.target or self._target)
        start, found = self._listed.get(wanted, (None, []))
        if start is None or instant(since or _EVER) < instant(start):
            begin = since if start is None else _further(since, self._clock.now())
            found = self._list(wanted, begin)
            self._listed[wanted] = begin or _EVER, found
        return [each for each in found if each.flow == notice.flow]

    def close(self) -> None:
        """Close the connection."""
        self._wire.close()

    # ── who, and where ──────────────────────────────────────────────────────────────────────────

    def author(self) -> str:
        """Return the number of who writes: as learned, as GitHub says, or as it must be."""
        if self.author_id is not None:
            return self.author_id
        if self._own is None:
            answer = self._wire.call("users.get_authenticated")
            hold_off(answer, self._clock)
            number = comments.author(answer.body)
            if answer.status == OK and number is not None:
                self._own = number
            elif answer.status in (FORBIDDEN, *MISSING):  # the token of an app, or of Actions
                self._own = self._unasked
            else:
                self._refuse(answer)
        return self._own

    def examine(self) -> list[str]:
        """Try the token, and the issue where the channel has one; write nothing.

        Return what was found. Raises as `post` does, naming the scope or setting that is missing.
        """
        found = [f"the token speaks for user {self.author()}"]
        if self._target is None:
            return [*found, "it has no target: only flows that are linked to an issue are told"]
        place, answer = self._asked("issues.get", issue(self._target))
        if answer.status != OK:
            self._refuse(answer)
        if answer.mapping.get("locked"):
            raise Refused(
                f"{place} is locked", hint="unlock it, or give the channel another target"
            )
        scopes = answer.headers.get("x-oauth-scopes")  # of classic tokens; others have none
        if scopes and not {"repo", "public_repo"} & {*re.split(r"[,\s]+", scopes)}:
            raise Refused("the token lacks the scope repo, or public_repo for what is public")
        can = "can be commented on" if scopes else "can be read"
        return [*found, f"{place} {can}"]

    def _there(self, place: Issue) -> Issue:
        """Return where an issue is now, having asked. Raises Refused where it is nowhere."""
        there, answer = self._asked("issues.get", place)
        if answer.status != OK:
            self._refuse(answer)
        return there

    def _asked(self, operation: str, wanted: Issue, **fields: object) -> tuple[Issue, Answer]:
        """Make a request about an issue, once more where it moved; return where it is."""
        place = self._moved.get(wanted, wanted)
        answer = self._wire.call(operation, **_route(operation, place), **fields)
        if answer.status in MOVED:
            place = self._moved[wanted] = self._relocated(place, answer)
            answer = self._wire.call(operation, **_route(operation, place), **fields)
            if answer.status in MOVED:
                raise Refused("the issue moved again and again")
        return place, answer

    def _relocated(self, place: Issue, answer: Answer) -> Issue:
        """Return where an issue moved to, by the number of its repository. Raises Refused."""
        location = self._wire.own(answer.headers.get("location") or "")
        found = _RELOCATED.search(location or "")
        if found is None:
            raise Refused("the issue moved, and GitHub does not say where to")
        said = self._wire.get(f"{self._wire.base_url}/repositories/{found['repo']}")
        if said.status != OK:
            hold_off(said, self._clock)
            raise Refused("the issue moved to a repository that the token does not see")
        return issue(f"{said.mapping.get('full_name')}#{found['number'] or place.number}")

    def _refuse(self, answer: Answer) -> NoReturn:
        refuse(answer, self._clock, self._variable)

    # ── what is there ───────────────────────────────────────────────────────────────────────────

    def _list(self, wanted: Issue, since: Time | None) -> list[Found]:
        own = self.author()
        seen: dict[int, Found] = {}
        more = self._walk(wanted, since, own, seen)
        if more:  # a comment that is removed meanwhile moves the next one out of sight
            self._walk(wanted, since, own, seen)
        return [seen[number] for number in sorted(seen)]

    def _walk(self, wanted: Issue, since: Time | None, own: str, seen: dict[int, Found]) -> bool:
        """Add our own comments of each page; tell whether there was more than one page."""
        fields = {"per_page": _PAGE, **({"since": since} if since else {})}
        place, answer = self._asked("issues.list_comments", wanted, **fields)
        for number in range(_PAGES):
            if answer.status != OK:
                self._refuse(answer)
            if not isinstance(answer.body, list):
                raise NotSent("GitHub answered without a list", hint="run the same command again")
            seen.update(comments.ours(answer.body, place, own))
            following = comments.following(answer)
            if following is None:
                return number > 0
            answer = self._wire.get(following)
        return True


def _further(since: Time | None, now: Time) -> Time | None:
    """Return a time that is twice as long ago, and a month at least; None for ever."""
    if since is None:
        return None
    moment = datetime.fromisoformat(since)
    try:
        moment -= max(datetime.fromisoformat(now) - moment, timedelta(days=30))
    except OverflowError:
        return None
    return f"{moment.year:04}-{moment:%m-%dT%H:%M:%SZ}"


_EVER = "0001-01-01T00:00:00Z"


def _route(operation: str, place: Issue) -> dict[str, object]:
    route: dict[str, object] = {"owner": place.owner, "repo": place.repo}
    if not operation.endswith("_comment") or operation == "issues.create_comment":
        route["issue_number"] = place.number
    return route
