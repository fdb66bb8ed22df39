"""GitHub as the channel meets it: issues with comments, their authors, pages, limits and faults.

Every request, and every answer that succeeds, is checked against GitHub's own description of the
operation (`github-openapi.json`); what breaks it stands in `violations`, which each test reads at
its end. A step of the script is one of `loopback`'s, an Answer, or a function from a request to a
step.
"""

import json
import re
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from hashlib import sha256
from pathlib import Path
from urllib.parse import parse_qsl, quote

from fakes.loopback import REMOTE_WORDS, Answer, Loopback
from jsonschema import Draft202012Validator

OPERATIONS = json.loads((Path(__file__).parent / "github-openapi.json").read_text())["operations"]
BOT, ANN, STRANGER = 41898282, 501, 777
START = datetime(2026, 9, 6, 10, tzinfo=UTC)
JSON_TYPE = ("Content-Type", "application/json; charset=utf-8")
_FORMATS = {"uri": "https://api.github.test/x", "date-time": "2026-09-06T10:00:00Z"}
_KINDS = {"string": "x", "integer": 1, "boolean": False, "array": [], "object": {}}


class FakeClock:
    """One clock for both ends: sleeping moves it, and nobody waits."""

    def __init__(self, moment=START):
        self.moment = moment

    def now(self):
        return f"{self.moment:%Y-%m-%dT%H:%M:%SZ}"

    def later(self, seconds):
        return f"{self.moment + timedelta(seconds=seconds):%Y-%m-%dT%H:%M:%SZ}"

    def ticks(self):
        return self.moment.timestamp()

    def pause(self, seconds):
        assert 0 < seconds <= 1
        self.moment += timedelta(seconds=seconds)

    def move(self, seconds):
        self.moment += timedelta(seconds=seconds)


def said(status, message, **headers):
    """Return an answer that fails the way GitHub's do."""
    body = {
        "message": f"{message} {REMOTE_WORDS}",
        "documentation_url": "https://docs.github.test/",
    }
    named = tuple((name.replace("_", "-"), str(value)) for name, value in headers.items())
    return Answer(status, json.dumps(body).encode(), (JSON_TYPE, *named))


class GitHub(Loopback):
    """The server. `tokens` are those it knows and whose they are, None where it will not say."""

    def __init__(self, tokens, clock=None, lag=0):
        self.clock = clock or FakeClock()
        self.tokens = tokens
        self.lag = lag  # how many listings do not show a new comment yet
        self.repos = {"octo/hello": 1001}
        self.issues = {(1001, number): Issue() for number in (12, 13)}
        self.moved = {}  # "octo/old" or ("octo/old", 3) -> where GitHub points
        self.writes = []  # the time of each comment that was made or changed
        self.violations = []
        self.blocked_until = None
        self.faults = []
        self.between = []  # what happens after a page was answered
        self._made = 9000
        super().__init__()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    @property
    def comments(self):
        """Return the comments of issue 12, the oldest first."""
        return self.issues[1001, 12].comments

    def bodies(self, author=None):
        """Return what people read on issue 12, of one author or of all."""
        return [each["body"] for each in self.comments if author in (None, each["author"])]

    def add(self, body, author=BOT, number=12):
        """Add a comment as if somebody had; return it."""
        self._made += 1
        now = self.clock.now()
        comment = {"id": self._made, "body": body, "author": author, "made": now, "changed": now}
        self.issues[1001, number].comments.append({**comment, "hidden": 0})
        return self.issues[1001, number].comments[-1]

    def fail(self, method, *steps):
        """Let the next requests of a method meet these steps."""
        self.faults += [(method, step) for step in steps]

    def taken(self, request):
        with self._lock:
            self.requests.append(request)
            step = self._step(request)
            step = step(request) if callable(step) else step
            if isinstance(step, int):
                step = Answer(step, REMOTE_WORDS.encode(), self.headers)
            if isinstance(step, Answer):
                return None, self._dated(step)
            return step, Answer() if step == "dropped" else self._dated(self.serve(request))

    def _step(self, request):
        for place, (method, step) in enumerate(self.faults):
            if method == request.method:
                del self.faults[place]
                return step
        return self.script.pop(0) if self.script else None

    def serve(self, request):
        if self.blocked_until is not None and self.clock.ticks() < self.blocked_until:
            self.violations.append(f"too early: {request.method} {request.path}")
        return self._served(request)

    # ── one request ─────────────────────────────────────────────────────────────────────────────

    def _served(self, request):
        path, _, query = request.path.partition("?")
        author = self.tokens.get(request.headers.get("Authorization", "").partition(" ")[2], 0)
        if author == 0:
            return said(401, "Bad credentials")
        for operation, shape in OPERATIONS.items():
            verb, _, route = operation.partition(" ")
            found = re.fullmatch(re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", route), path)
            if verb == request.method and found:
                self._check(operation, shape, found.groupdict(), dict(parse_qsl(query)), request)
                return self._operated(operation, shape, found.groupdict(), query, request, author)
        found = re.fullmatch(r"/repositories/(\d+)", path)
        if found and request.method == "GET":
            names = [name for name, number in self.repos.items() if number == int(found[1])]
            return (
                self._json(200, {"id": int(found[1]), "full_name": names[0]})
                if names
                else said(404, "Not Found")
            )
        self.violations.append(f"no such operation: {request.method} {path}")
        return said(404, "Not Found")

    def _operated(  # noqa: PLR0911, PLR0917  one answer for each operation
        self, operation, shape, route, query, request, author
    ):
        if operation == "GET /user":
            if author is None:
                return said(403, "Resource not accessible by integration")
            return self._shaped(shape, 200, {"id": author})
        name = f"{route['owner']}/{route['repo']}"
        there = self._relocated(name, route, request)
        if there is not None:
            return there
        repo = self.repos.get(name)
        if "comment_id" in route and operation.startswith("GET"):
            return self._read(shape, repo, int(route["comment_id"]))
        if "comment_id" in route:
            return self._edited(shape, repo, int(route["comment_id"]), request)
        issue = self.issues.get((repo, int(route["issue_number"])))
        if issue is None or issue.gone:
            return said(410, "This issue was deleted") if issue else said(404, "Not Found")
        if operation.startswith("POST"):
            return self._posted(shape, issue, repo, request, author)
        if operation.endswith("comments"):
            return self._listed(shape, issue, dict(parse_qsl(query)), request.path)
        return self._shaped(
            shape, 200, {"number": int(route["issue_number"]), "locked": issue.locked}
        )

    def _relocated(self, name, route, request):
        number = route.get("issue_number")
        target = self.moved.get((name, int(number))) if number else None
        target = target or self.moved.get(name)
        if target is None:
            return None
        rest = request.path.split(name, 1)[1]
        if isinstance(target, tuple):
            rest = rest.replace(f"/issues/{number}", f"/issues/{target[1]}", 1)
            target = target[0]
        location = f"{self.url}/repositories/{target}{rest}" if isinstance(target, int) else target
        return said(301, "Moved Permanently", Location=location)

    def _posted(self, shape, issue, repo, request, author):
        if issue.locked:
            return said(403, "Unable to create comment because issue is locked.")
        body = json.loads(request.body)["body"]
        if len(body) > 65_536:
            return said(422, "Validation Failed")
        number = next(n for (r, n), each in self.issues.items() if each is issue and r == repo)
        made = self.add(body, BOT if author is None else author)
        self.comments.remove(made)
        self.issues[repo, number].comments.append({**made, "hidden": self.lag})
        self.writes.append(self.clock.ticks())
        return self._shaped(shape, 201, self._shown(made))

    def _read(self, shape, repo, number):
        for (owner, _), issue in self.issues.items():
            for comment in issue.comments if owner == repo else ():
                if comment["id"] == number:
                    return self._shaped(shape, 200, self._shown(comment))
        return said(404, "Not Found")

    def _edited(self, shape, repo, number, request):
        for (owner, _), issue in self.issues.items():
            for comment in issue.comments if owner == repo else ():
                if comment["id"] == number:
                    if issue.locked:
                        return said(403, "Unable to update comment because issue is locked.")
                    comment["body"] = json.loads(request.body)["body"]
                    comment["changed"] = self.clock.now()
                    self.writes.append(self.clock.ticks())
                    return self._shaped(shape, 200, self._shown(comment))
        return said(404, "Not Found")

    def _listed(self, shape, issue, query, path):
        size, page = int(query.get("per_page", 30)), int(query.get("page", 1))
        shown = [
            c for c in issue.comments if c["changed"] >= query.get("since", "") and not c["hidden"]
        ]
        if page == 1:
            for comment in issue.comments:
                comment["hidden"] = max(0, comment["hidden"] - 1)
        part = [self._shown(each) for each in shown[(page - 1) * size : page * size]]
        headers = []
        if len(shown) > page * size:
            asked = "&".join(f"{k}={quote(v)}" for k, v in {**query, "page": str(page + 1)}.items())
            base = f"{self.url}{path.partition('?')[0]}"
            headers = [("Link", f'<{base}?{asked}>; rel="next", <{base}?page=9>; rel="last"')]
        answer = self._shaped(shape, 200, part, *headers)
        if self.between:
            self.between.pop(0)()
        return answer

    # ── shapes ──────────────────────────────────────────────────────────────────────────────────

    def _shown(self, comment):
        user = {"id": comment["author"], "login": f"user-{comment['author']}"}
        facts = {"created_at": comment["made"], "updated_at": comment["changed"]}
        return {"id": comment["id"], "body": comment["body"], "user": user, **facts}

    def _shaped(self, shape, status, known, *headers):
        whole = filled(shape["responses"][str(status)], known)
        faults = [*Draft202012Validator(shape["responses"][str(status)]).iter_errors(whole)]
        self.violations += [f"answer: {each.message[:200]}" for each in faults]
        return self._json(status, whole, *headers)

    def _json(self, status, whole, *headers):
        body = json.dumps(whole).encode()
        tag = ("ETag", f'W/"{sha256(body).hexdigest()}"')
        return Answer(status, body, (JSON_TYPE, tag, *headers))

    def _dated(self, answer):
        given = {name.lower() for name, _ in answer.headers}
        own = {
            "Date": format_datetime(self.clock.moment, usegmt=True),
            "X-GitHub-Request-Id": "A1:B2",
        }
        added = tuple((name, value) for name, value in own.items() if name.lower() not in given)
        return answer._replace(headers=answer.headers + added)

    def _check(self, operation, shape, route, query, request):
        for each in shape["parameters"]:
            given = (route if each["in"] == "path" else query).pop(each["name"], None)
            if given is None:
                continue
            kind = each["schema"]["type"]
            fits = given.isdigit() if kind == "integer" else True
            if each["schema"].get("format") == "date-time":
                fits = re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", given) is not None
            if not fits:
                self.violations.append(f"{operation}: {each['name']}={given}")
        self.violations += [f"{operation}: no parameter {name}" for name in query]
        if shape["request"] is None:
            self.violations += [f"{operation}: a body"] if request.body else []
            return
        whole = json.loads(request.body)
        faults = [*Draft202012Validator(shape["request"]).iter_errors(whole)]
        faults += [name for name in whole if name not in shape["request"]["properties"]]
        self.violations += [f"{operation}: {each}" for each in faults]


class Issue:
    """One issue of the server's."""

    def __init__(self):
        self.comments = []
        self.locked = self.gone = False


def filled(schema, known=None):
    """Return an instance of a schema, with what is known of it."""
    if "anyOf" in schema or "oneOf" in schema:
        choices = schema.get("anyOf") or schema["oneOf"]
        return filled(choices[0], known) if known is not None else filled(choices[-1])
    kind = schema.get("type")
    if kind == "array":
        return [filled(schema["items"], each) for each in known or ()]
    if kind == "object" or "properties" in schema:
        parts = {
            name: filled(schema["properties"][name], (known or {}).get(name))
            for name in schema.get("required", ())
            if name in schema["properties"]
        }
        return {**(known or {}), **parts}
    if known is not None:
        return known
    if "enum" in schema:
        return schema["enum"][0]
    return _FORMATS.get(schema.get("format"), _KINDS.get(kind))
