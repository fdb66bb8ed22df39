"""The scalar kinds of fields: their Python type, pattern and bounds.

Rules: a field's annotation names its kind, and three judges read this one table: `codec` on the
hot path, pydantic in `boundary`, and the JSON Schemas made from it. Patterns therefore use only
what Python and ECMA 262 share, and end in END, since `$` would let a final newline pass.
"""

from __future__ import annotations

import re
from typing import Any, Literal, get_args

from gitflowstate.errors import Invalid

# What a field may be, as mypy sees it; the names are the keys of KINDS.
Id = str
Name = str
Line = str
Ref = str
Text = str
Argument = str
Words = str
Reason = str
Time = str
Sha256 = str
Commit = str
Revision = int
Count = int
Parts = int
Int = int
Flag = bool
Json = dict[str, Any]
Status = Literal["pending", "running", "waiting", "done", "failed"]
On = Literal["human", "agent", "external"]
Outcome = Literal["completed", "errored", "cancelled", "timed_out", "lost", "uncertain"]
OnInterrupt = Literal["rerun", "hold"]
Proof = Literal["lock", "time"]
Decision = Literal["retry", "done", "fail", "leave"]
NoticeKind = Literal["status", "waiting", "final"]
ProcessState = Literal[
    "starting", "running", "completed", "failed", "cancelled", "timed_out", "lost"
]
Notify = Literal["on_exit", "manual"]

TERMINAL: tuple[Status, ...] = ("done", "failed")
# How a process ends; the first is what its command says of itself.
ENDS: tuple[ProcessState, ...] = ("completed", "failed", "cancelled", "timed_out", "lost")
LARGE = ("Text", "Words", "Argument")  # texts of any length: a message holds them by digest
MAX_INT = 2**53 - 1  # the integers every JSON reader keeps exact
MAX_DEPTH = 32
MAX_DOCUMENT = 4 * 2**20  # bytes that are read
MAX_GROWN = 2**20  # bytes an op that adds may leave
MAX_CHILDREN = 2000

END = r"(?![\s\S])"
_TEXT_CHAR = r"[^\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]"
_LINE_CHAR = r"[^\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]"
# U+FEFF is white space in ECMA 262 alone.
_SEEN = r"(?=[\s\S]*[^\s\ufeff])"
_DATE = (
    r"(?!0000)(?:\d{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\d|3[01])"
    r"|(?:0[469]|11)-(?:0[1-9]|[12]\d|30)|02-(?:0[1-9]|1\d|2[0-8]))"
    r"|(?:\d\d(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)-02-29)"
)
ID_PATTERN = (
    r"^(?!(?:con|prn|aux|nul|com[0-9]|lpt[0-9])(?:\.|" + END + r"))(?![\s\S]*\.\.)"
    r"(?![\s\S]*(?:\.|\.lock|\.json)" + END + r")[a-z0-9][a-z0-9._-]{0,63}" + END
)
ID_RULE = (
    "1 to 64 of a-z 0-9 . _ - beginning with a letter or digit; no '..', no final '.', "
    "'.lock' or '.json', and no device name such as con or aux"
)


class Kind:
    """One kind of scalar: how it is checked and how it is described."""

    def __init__(self, base: type, rule: str, **bounds: Any) -> None:  # noqa: ANN401  int or str bounds
        self.base = base
        self.rule = rule
        self.pattern: str | None = bounds.get("pattern")
        self.longest: int | None = bounds.get("longest")
        self.least: int = bounds.get("least", -MAX_INT)
        self.most: int = bounds.get("most", MAX_INT)
        self.values: tuple[str, ...] = bounds.get("values", ())
        # Whether a list may hold one twice; what else is listed names things.
        self.repeats: bool = bounds.get("repeats", False)
        # Whether all printable ASCII that is not blank matches the pattern.
        self._easy: bool = bounds.get("easy", False)
        self._match: Any = None

    def accepts(self, value: object) -> bool:
        """Tell whether the value is of this kind."""
        if isinstance(value, str):
            return self.base is str and self._accepts_text(value)
        if self.base is int:
            return type(value) is int and self.least <= value <= self.most
        return type(value) is self.base

    def _accepts_text(self, value: str) -> bool:
        if self.values:
            return value in self.values
        if self.longest is not None and len(value) > self.longest:
            return False
        if self._easy and value.isascii() and value.isprintable() and value.strip():
            return True  # without the pattern, which most commands never compile
        if self._match is None:
            self._match = re.compile(self.pattern or "").match
        return self._match(value) is not None


def _text(rule: str, pattern: str) -> Kind:
    # `\d` means more in Python than in ECMA 262: only ASCII digits make a time.
    return Kind(str, rule, pattern=pattern.replace(r"\d", "[0-9]"))


def _prose(rule: str, pattern: str, longest: int | None = None, **more: Any) -> Kind:  # noqa: ANN401  bounds
    return Kind(str, rule, pattern=pattern, longest=longest, easy=True, **more)


def _words(literal: object) -> Kind:
    values = get_args(literal)
    return Kind(str, "one of " + ", ".join(values), values=values)


_NO_CONTROL = "without control characters or lone surrogates"
KINDS: dict[str, Kind] = {
    "Id": _text(ID_RULE, ID_PATTERN),
    "Name": _prose(
        f"one line of 1 to 128 characters {_NO_CONTROL}", f"^{_SEEN}{_LINE_CHAR}+{END}", 128
    ),
    "Line": _prose(
        f"one line of 1 to 1,000 characters {_NO_CONTROL}", f"^{_SEEN}{_LINE_CHAR}+{END}", 1000
    ),
    "Ref": _prose(
        f"one line of 1 to 2,048 characters {_NO_CONTROL}", f"^{_SEEN}{_LINE_CHAR}+{END}", 2048
    ),
    "Text": _prose(f"text {_NO_CONTROL} (tab and newline excepted)", f"^{_TEXT_CHAR}*{END}"),
    "Argument": _prose(
        f"text {_NO_CONTROL} (tab and newline excepted)", f"^{_TEXT_CHAR}*{END}", repeats=True
    ),
    "Words": _prose(
        f"text that is not blank, {_NO_CONTROL} (tab and newline excepted)",
        f"^{_SEEN}{_TEXT_CHAR}+{END}",
    ),
    # Short enough for a commit message and for the note it becomes part of.
    "Reason": _prose(
        f"1 to 1,000 characters, not blank, {_NO_CONTROL} (tab and newline excepted)",
        f"^{_SEEN}{_TEXT_CHAR}+{END}",
        1000,
    ),
    "Time": _text(
        "a UTC time such as 2026-09-06T10:00:00Z",
        f"^{_DATE}T(?:[01]\\d|2[0-3]):[0-5]\\d:[0-5]\\d(?:\\.\\d{{6}})?Z{END}",
    ),
    "Sha256": _text("64 hexadecimal digits", f"^[0-9a-f]{{64}}{END}"),
    "Commit": _text("40 hexadecimal digits", f"^[0-9a-f]{{40}}{END}"),
    "Revision": Kind(int, "an integer from 1 to 2^53-1", least=1),
    "Count": Kind(int, "an integer from 0 to 2^53-1", least=0),
    "Parts": Kind(int, "an integer from 0 to 10,000", least=0, most=10_000),
    "Int": Kind(int, "an integer within 2^53-1 of zero"),
    "Flag": Kind(bool, "true or false"),
    "Status": _words(Status),
    "On": _words(On),
    "Outcome": _words(Outcome),
    "OnInterrupt": _words(OnInterrupt),
    "Proof": _words(Proof),
    "Decision": _words(Decision),
    "NoticeKind": _words(NoticeKind),
    "ProcessState": _words(ProcessState),
    "Notify": _words(Notify),
}


def check(kind: str, value: object, field: str) -> None:
    """Refuse a value that is not of the kind.

    Raises Invalid with the field's name and the rule; never with the value, which may be long.
    """
    if not KINDS[kind].accepts(value):
        raise Invalid(
            f"{field}: must be {KINDS[kind].rule}",
            violations=[{"path": field, "message": f"must be {KINDS[kind].rule}"}],
        )
