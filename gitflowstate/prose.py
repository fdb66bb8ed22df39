"""Owns making the words of users inert: in a commit message, on a terminal, in Markdown.

Rules: nothing here needs to be undone, the exact text is in the op. What Git or a host acts on is
broken by one visible character (`@ name`, `# 12`), never by an invisible one. Every function is
total: it takes any `str`, lone surrogates included, in linear time.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_ELLIPSIS = "..."
_QUOTE = "| "

# Controls (white space apart), and what Unicode draws as nothing: bidi, zero width, fillers, tags.
_UNSEEN = (
    r"\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f"
    r"\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff0-\ufffb"
    r"\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff\ud800-\udfff"
)
_JOINERS = "\u200c\u200d"
_SPACE_CONTROLS = r"\x0b-\x0d\x1c-\x1f\x85\u2028\u2029"

# The longest emoji in use has 10 code points; without a limit a subject of stacked marks has none.
_CLUSTER_MAX = 10


def count(number: int, noun: str) -> str:
    """Return how many there are of something, such as `1 task` or `2,000 tasks`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def kibibytes(size: int) -> str:
    """Return a number of bytes as whole KiB, rounded up: `0 KiB` is nothing at all."""
    return f"{-(-size // 1024):,} KiB"


def fold(text: str) -> str:
    """Return `text` as one line: white space folded to single spaces, unseen characters dropped."""
    return " ".join(_seen(text).split())


def inert(text: str) -> str:
    """Break everything in `text` that Git or a Git host would act on in a commit message.

    These are the commands that skip CI, references to issues and pull requests (so that no closing
    keyword has an object), mentions, and known trailers. Idempotent; never twice as long.
    """
    text = _seen(text)
    lowered = text.casefold()
    if not any(hint in lowered for hint in _HINTS):
        return text
    return _active().sub(_break, text)


def cut(text: str, width: int) -> str:
    """Cut `text` to at most `width` columns, between whole characters, ending in `...`.

    Returns "" where not even one character and the dots fit. Wide characters count two columns.
    """
    if len(text) <= width and text.isascii():
        return text
    kept: list[str] = []
    used = fits = 0
    for cluster, columns in _clusters(text):
        used += columns
        if used > width:
            head = "".join(kept[:fits]).rstrip()
            return head + _ELLIPSIS if head else ""
        kept.append(cluster)
        if used + len(_ELLIPSIS) <= width:
            fits = len(kept)
    return text


def subject(prefix: str, text: str, width: int = 72) -> str:
    """Return `prefix: text` in at most `width` columns; `text` is cut or dropped, `prefix` never.

    `prefix` comes without the colon and is trusted (architecture, section 4, Commit message).
    """
    room = width - sum(columns for _, columns in _clusters(prefix)) - 2
    shown = cut(inert(fold(text)), room)
    return f"{prefix}: {shown}" if shown else prefix


def body(text: str) -> str:
    """Return `text` as lines for a message's body; what Git gives a meaning gets a `| ` in front.

    These lines are whatever could be a trailer or go on with one, comments, and what tools that
    read mail or patches cut at. Blank lines are single, none at the ends. Idempotent.
    """
    lines = _paragraphs(inert(text).splitlines())
    return "\n".join(_QUOTE + line if _meant_for_git(line) else line for line in lines)


def terminal(text: str, *, lines: bool = True) -> str:
    r"""Return `text` safe for a terminal: what is unseen or a control is shown, as `\x1b`.

    Newline and tab stay, unless `lines` is false; markup is left alone (hazard F6).
    """
    if text.isascii() and text.isprintable():
        return text
    return _shown(lines=lines).sub(_escape, text)


def json_text(text: str) -> str:
    r"""Return JSON of the same value, safe for a terminal: what is unseen is shown as `\u202e`."""
    return text if text.isascii() else _shown(lines=True).sub(_escape_in_json, text)


def markdown(text: str) -> str:
    """Return `text` as one line of Markdown that renders as plain text wherever it stands.

    Hosts look for mentions, references and addresses after rendering, so an escape would not stop
    those: they are broken in the text itself.
    """
    plain = re.sub(r"@(?=\S)|://(?=\S)|www(?=\.)", r"\g<0> ", inert(fold(text)))
    plain = re.sub(r"[\\`*_\[\]!|#~$]", r"\\\g<0>", plain)
    plain = re.sub(r"^(\d*)([-+=:.)])", r"\1\\\2", plain)
    return plain.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def markdown_block(text: str) -> str:
    """Return `text` as a Markdown quotation, each line as `markdown` gives it, blank ones single.

    A blank line must follow it, or the next paragraph is read as part of it.
    """
    lines = _paragraphs([markdown(line) for line in text.splitlines()])
    return "\n".join(f"> {line}".rstrip() for line in lines)


def _paragraphs(lines: list[str]) -> Iterator[str]:
    """Yield `lines` without trailing white space, without blank ends, blank lines single."""
    blank = started = False
    for line in map(str.rstrip, lines):
        if not line:
            blank = True
            continue
        if blank and started:
            yield ""
        blank, started = False, True
        yield line


# --- what is not seen


@cache
def _unseen() -> re.Pattern[str]:
    return re.compile(f"[{_UNSEEN}{_JOINERS}]+")


@cache
def _shown(*, lines: bool) -> re.Pattern[str]:
    layout = "" if lines else r"\t\n"
    return re.compile(f"[{_UNSEEN}{_JOINERS}{_SPACE_CONTROLS}{layout}]+")


def _seen(text: str) -> str:
    if text.isascii() and text.isprintable():
        return text
    return _unseen().sub(lambda run: run[0] if _joins(run) else "", text)


def _escape(run: re.Match[str]) -> str:
    return run[0] if _joins(run) else run[0].encode("unicode_escape").decode("ascii")


def _escape_in_json(run: re.Match[str]) -> str:
    if _joins(run):
        return run[0]
    units = run[0].encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[place : place + 4]}" for place in range(0, len(units), 4))


def _joins(run: re.Match[str]) -> bool:
    """Say whether a run is one joiner inside an emoji or a word, where it belongs."""
    text, start, end = run.string, run.start(), run.end()
    if end - start != 1 or run[0] not in _JOINERS or start == 0 or end == len(text):
        return False
    return all(not char.isascii() and not char.isspace() for char in (text[start - 1], text[end]))


# --- what Git and hosts act on

# Text without any of these needs no pattern, and the pattern is not even compiled.
_HINTS = ("[", "@", "#", "gh-", "gfs-", "-by", "skip-", "-behalf-", "/issues/", "/pull", "/discuss")


@cache
def _active() -> re.Pattern[str]:
    # Quantifiers are possessive or bounded, alternatives start apart: linear on any input.
    return re.compile(
        r"""
        \[ (?P<skip> \s*+ (?: (?:skip [\s_-]++ [^\W_]++ | no [\s_-]++ ci)
                            | [^\W_]++ [\s_-]++ skip ) \s*+ ) \]       # [skip ci] and its kin
        | (?P<mark> (?<![a-z0-9]) @ (?=[a-z0-9_])                      # @name, @org/team
                  | [#] (?=\d)                                         # #12, owner/repo#12
                  | /(?:issues|pulls?|discussions)/ (?=\d) )           # a full address of one
        | (?<![a-z0-9_]) (?P<word> gh (?=-\d)                          # GH-12
                                 | gfs (?=-[\w-]{,40}+ \s*+ :) ) -     # Gfs-Op:
        | (?<=[a-z]) - (?=by \s*+ :)                                   # Signed-off-by:
        | (?<=skip) - (?=checks \s*+ [:=])                             # skip-checks: true
        | (?<=on) - (?=behalf-of \s*+ :)                               # on-behalf-of: @org
        """,
        re.IGNORECASE | re.VERBOSE,
    )


def _break(found: re.Match[str]) -> str:
    if found["skip"] is not None:
        return f"({found['skip']})"
    return (found["mark"] or found["word"] or "") + " "


def _meant_for_git(line: str) -> bool:
    return _git_line().match(line) is not None


@cache
def _git_line() -> re.Pattern[str]:
    return re.compile(
        r"""
        [A-Za-z0-9-]++ [ \t]*+ [:=\#]    # a trailer, with any separator that is in use
        | \s                             # a trailer's second line
        | \(cherry[ ]picked[ ]from       # Git takes it for a trailer of its own
        | \#                             # a comment, once somebody amends
        | --- | diff[ ] | From[ ]        # where `git am` and mail readers cut
        """,
        re.VERBOSE,
    )


# --- columns


def _clusters(text: str) -> Iterator[tuple[str, int]]:
    """Yield what a reader takes for one character, with an upper bound of its columns."""
    if text.isascii():
        yield from ((char, 1) for char in text)
        return
    start = columns = 0
    for index, char in enumerate(text):
        if index > start and not (_extends(text, start, index) and index - start < _CLUSTER_MAX):
            yield text[start:index], max(columns, 1)
            start, columns = index, 0
        columns += _columns(char)
    yield text[start:], max(columns, 1)


def _extends(text: str, start: int, index: int) -> bool:
    char, before = text[index], text[index - 1]
    flag = _is_flag_letter(char) and _is_flag_letter(before) and index - start == 1
    tone = "\U0001f3fb" <= char <= "\U0001f3ff"
    return flag or tone or before == "\u200d" or char in _JOINERS or _is_mark(char)


def _is_flag_letter(char: str) -> bool:
    return "\U0001f1e6" <= char <= "\U0001f1ff"


def _is_mark(char: str) -> bool:
    from unicodedata import category  # noqa: PLC0415  only text beyond ASCII pays for the tables

    return category(char).startswith("M")


def _columns(char: str) -> int:
    from unicodedata import east_asian_width  # noqa: PLC0415  as above

    if char == "\ufe0f":  # asks for the coloured form of a narrow sign, which is wide
        return 1
    if char in _JOINERS or _is_mark(char):
        return 0
    return 2 if east_asian_width(char) in "WF" else 1
