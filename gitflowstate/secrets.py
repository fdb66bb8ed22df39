"""Owns the shapes of known secrets, which are refused before anything is written.

Rules: what Git once holds it holds for ever, so a false alarm costs less than a miss; but words,
digests, ids and addresses raise none. Nothing here returns, logs or raises a secret itself. It is
linear on any input, and compiles a pattern only for a text that holds the letters of its hint.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING

from gitflowstate.errors import Rejected

if TYPE_CHECKING:
    from collections.abc import Iterable

_SHORTEST = 9  # an address with credentials in it, `x://u:p@h`, is the shortest of all
_RANDOM_FROM = 20

# What it is, what it begins with, what follows at least. The issuers document these. After a
# letter or a digit the same letters are part of a word.
_PREFIXED = (
    ("GitHub token", "ghp_ gho_ ghu_ ghs_ ghr_ github_pat_", r"[\w.-]{36}"),
    ("GitLab token", "glpat- gloas- gldt- glrt- glrtr- glcbt- glptt- glft- glimt-", r"[\w-]{20}"),
    ("GitLab token", "glagent- glsoat- glffct- glwt-", r"[\w-]{20}"),
    ("AWS access key", "AKIA ASIA", r"[A-Z0-9]{16}(?![A-Za-z0-9])"),
    (
        "Slack token",
        "xoxa- xoxb- xoxc- xoxd- xoxe- xoxo- xoxp- xoxr- xoxs- xoxe.xox",
        r"[\w%-]{10}",
    ),
    ("Slack token", "xapp-", r"\d-[\w-]{10}"),
    ("Slack webhook", "hooks.slack.com/", r"(?:services|workflows|triggers)/[\w/]{20}"),
    ("Discord webhook", "discord.com/api/webhooks/ discordapp.com/api/webhooks/", r"\d+/[\w-]{20}"),
    ("Teams webhook", "webhook.office.com/webhookb2/", r"[\w@-]{20}"),
    ("npm token", "npm_", r"[A-Za-z0-9]{36}"),
    ("PyPI token", "pypi-AgE", r"[\w-]{40}"),
    ("RubyGems key", "rubygems_", r"[0-9a-f]{48}"),
    ("Docker token", "dckr_pat_ dckr_oat_", r"[\w-]{20}"),
    ("OpenAI key", "sk-proj- sk-svcacct- sk-admin-", r"[\w-]{20}"),
    ("Anthropic key", "sk-ant-", r"[\w-]{20}"),
    ("OpenRouter key", "sk-or-", r"[\w-]{20}"),
    ("AI provider's key", "sk-", r"[A-Za-z0-9]{32}"),
    ("Google key", "AIza", r"[\w-]{35}"),
    ("Google OAuth secret", "GOCSPX- ya29.", r"[\w-]{20}"),
    ("Hugging Face token", "hf_", r"[A-Za-z0-9]{30}"),
    ("Groq key", "gsk_", r"[A-Za-z0-9]{40}"),
    ("xAI key", "xai-", r"[A-Za-z0-9]{40}"),
    ("Replicate token", "r8_", r"[A-Za-z0-9]{30}"),
    ("Perplexity key", "pplx-", r"[A-Za-z0-9]{40}"),
    ("NVIDIA key", "nvapi-", r"[\w-]{40}"),
    ("LangSmith key", "lsv2_pt_ lsv2_sk_", r"[0-9a-f]{32}"),
    ("Databricks token", "dapi", r"[0-9a-f]{32}"),
    ("Stripe key", "sk_live_ sk_test_ rk_live_ rk_test_ whsec_", r"[A-Za-z0-9]{16}"),
    ("SendGrid key", "SG.", r"[\w-]{16,32}\.[\w-]{32}"),
    ("DigitalOcean token", "dop_v1_ doo_v1_ dor_v1_", r"[0-9a-f]{40}"),
    ("Shopify token", "shpat_ shpca_ shppa_ shpss_", r"[0-9A-Fa-f]{32}"),
    ("Atlassian token", "ATATT3", r"[\w-]{40}"),
    ("Linear key", "lin_api_", r"[A-Za-z0-9]{32}"),
    ("Notion token", "ntn_", r"[A-Za-z0-9]{40}"),
    ("Grafana token", "glsa_ glc_", r"[\w+/]{32}"),
    ("Vault token", "hvs. hvb.", r"[\w-]{24}"),
    ("age key", "AGE-SECRET-KEY-1", r"[A-Z0-9]{40}"),
)

_NAME = (
    r"(?i:token|passwo?r?d|passphrase|pwd|secret|credential|(?:api|access|auth|private)[_-]?key)"
    r"[\w-]{0,20}"
)
# White space and what separates or refers ends a value: `${TOKEN}`, `$(cat f)`, `env:NAME`.
_VALUE = r"(?P<value>[^\s\"'`,;:=&<>(){}\[\]|\\$%*/~][^\s\"'`,;:=&<>(){}\[\]|\\]{19,200})"

# What it is, letters that it holds (case aside), the pattern. Quantifiers are bounded, or
# possessive behind a start that cannot be inside the run before it.
_SHAPED = (
    ("private key", "private", r"-----BEGIN[ A-Z0-9]{0,40} PRIVATE KEY"),
    ("JSON web token", "eyj", r"(?<![\w-])eyJ[\w-]{10,}+\.[\w-]{10,}+\.[\w-]{10}"),
    ("bearer token", "bearer", r"(?i:bearer)[ \t]{1,4}(?P<value>[\w.~+/-]{20,200})"),
    (
        "HTTP credential",
        "authorization",
        r"(?i:authorization)[\"']?[ \t]{0,4}[:=][ \t\"']{0,4}(?i:basic|token)\s{1,4}[\w+/=-]{12}",
    ),
    (
        "credential in an address",
        "://",
        r"://[^\s/@:?#]{0,200}+:(?![$<{*]|%[({])[^\s/@]{1,200}+@(?!sha256:)[\w\[]",
    ),
    ("credential in an address", "://", r"(?i:https?)://(?P<value>[^\s/@:?#]{16,200}+)@[\w\[]"),
    (
        "AWS secret key",
        "aws",
        r"(?i:aws[\w-]{0,20}secret[\w-]{0,20})[\"']?\s{0,4}[:=]>?\s{0,4}[\"']?[\w+/]{40}(?![\w+/])",
    ),
    ("Azure key", "accountkey", r"(?i:accountkey)=[\w+/]{40}"),
    ("Telegram token", ":aa", r"(?<!\w)\d{8,10}:AA[\w-]{33}"),
    (
        "password or key",
        "token|pass|pwd|secret|credential|key",
        _NAME + r"[\"'\]]{0,2}\s{0,4}(?:=>|:=|[:=])\s{0,4}[\"'`]?" + _VALUE,
    ),
    ("password or key", "--", r"(?<![\w-])--[\w-]{0,20}?" + _NAME + r"\s{1,2}[\"']?" + _VALUE),
)

_BEGINNINGS = tuple(
    (hint, kind, tail) for kind, hints, tail in _PREFIXED for hint in hints.split(" ")
)
_NAME_HINTS = ("token", "pass", "pwd", "secret", "credential", "key")
_CHANGES = {"ld", "dl", "ud", "du", "lu"}  # not "ul": a capital letter begins many a word


def find(text: str) -> str | None:
    """Return what kind of secret `text` seems to hold, such as "GitHub token", or None."""
    if len(text) < _SHORTEST:
        return None
    for hint, kind, tail in _BEGINNINGS:
        if hint in text and any(map(_is_no_example, _beginning(hint, tail).finditer(text))):
            return kind
    lowered = text.casefold()
    for kind, hints, shape in _SHAPED:
        if not any(hint in lowered for hint in hints.split("|")):
            continue
        if any(map(_is_convincing, _compiled(shape).finditer(text))):
            return kind
    return None


def check(fields: Iterable[tuple[str, str]]) -> None:
    """Raise Rejected for the first of the (name, text) pairs that seems to hold a secret.

    The error names the field and the kind, never the text. A field whose own name says that it
    holds a secret, such as `data.api_key`, is judged by its text alone.
    """
    for name, text in fields:
        kind = find(text) or _named(name, text)
        if kind:
            raise Rejected(
                f"{name} seems to hold a secret ({kind}); nothing was written, since Git would"
                " keep it for ever",
                hint="write where it is kept instead, such as the name of an environment variable;"
                " if this is a false alarm, add --allow-secret REASON",
                field=name,
                kind=kind,
            )


def _named(name: str, text: str) -> str | None:
    last = name.rpartition(".")[2].casefold()
    if len(text) < _RANDOM_FROM or not any(hint in last for hint in _NAME_HINTS):
        return None
    named = _compiled(_NAME).search(last) and _compiled(_VALUE).fullmatch(text[:200])
    return "password or key" if named and _is_random(text[:200]) else None


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.ASCII)


def _beginning(hint: str, tail: str) -> re.Pattern[str]:
    literal = re.escape(hint)  # in front, where the engine searches for it fastest
    return _compiled(f"{literal}(?<![A-Za-z0-9]{literal})(?P<tail>{tail})")


def _is_no_example(found: re.Match[str]) -> bool:
    """Tell `sk-ant-your-key-goes-here-now` apart: lower-case words with hyphens."""
    words = found["tail"].replace("_", "-")
    return not ("-" in words and words.islower() and words.replace("-", "").isalpha())


def _is_convincing(found: re.Match[str]) -> bool:
    value = found.groupdict().get("value")
    return value is None or _is_random(value)


def _is_random(value: str) -> bool:
    """Say whether a value is no name, path, date or UUID: letters and digits change all the time.

    In random base 62 and in hexadecimal, close to every second character is of another kind than
    the one before.
    """
    if _compiled(r"(?i:[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})").fullmatch(value):
        return False
    piece = max(value.split("/"), key=len)
    kinds = "".join(map(_kind, piece))
    changes = sum(kinds[at : at + 2] in _CHANGES for at in range(len(kinds)))
    return "d" in kinds and len(set(piece)) >= 6 and changes >= max(4, len(piece) // 5)  # noqa: PLR2004  a guess that the tests measure


def _kind(char: str) -> str:
    if char.isdigit():
        return "d"
    return "u" if char.isupper() else "l" if char.islower() else "-"
