"""What users write stays words: in a commit message, on a terminal, in Markdown."""

from __future__ import annotations

import html
import os
import re
import subprocess
import unicodedata

import cmarkgfm
import pytest
from cmarkgfm.cmark import Options
from hypothesis import given
from hypothesis import strategies as st

from gitflowstate import prose

# What hosts act on, as their documentation has it, written apart from the module's patterns.
_ACTED_ON = {
    "skips CI": re.compile(
        r"\[(skip ci|ci skip|no ci|skip actions|actions skip)\]|skip-checks:", re.IGNORECASE
    ),
    "refers": re.compile(r"#\d|\bgh-\d|/(issues|pull|discussions)/\d", re.IGNORECASE),
    "closes": re.compile(
        r"\b(close[sd]?|fix(es|ed)?|resolve[sd]?):?\s+([\w.-]+/[\w.-]+)?(#|gh-|\S+/(issues|pull)/)\d",
        re.IGNORECASE,
    ),
    "mentions": re.compile(r"(?:^|[^A-Za-z0-9_])@[A-Za-z0-9]"),
    "signs": re.compile(
        r"\b(signed-off-by|co-authored-by|reviewed-by|on-behalf-of|gfs-op|gfs-rules)\s*:",
        re.IGNORECASE,
    ),
}

_FRAGMENTS = st.sampled_from(
    [
        *"[]()#@/:-_=.|>< \t\n\r!*`~$\\&1aé",
        *"\x00\x1b\x85\xad\u200b\u200c\u200d\u2028\u202e\u2066\ufeff\U000e0041\ud800",
        *("skip", "ci", "no", "actions", "checks", "Skip CI", "[skip ci]", "[ACTIONS-SKIP]"),
        *("fixes ", "Closes: ", "RESOLVED ", "#12", "o/r#3", "GH-4", "gh-", "/issues/7", "/pull/"),
        *("https://github.com/o/r/issues/12", "https://", "www.", "http://x/p.png", "mailto:"),
        *("@name", "@org/team", "me@example.com", "@everyone", "<!channel>"),
        *("Signed-off-by: ", "Co-authored-by", "Gfs-Op: {}", "Gfs-", "-by:", "Revision: 999"),
        *("---", "diff --git a/x b/x", "From x", "(cherry picked from commit ab)", "# note"),
        *("<img src=x>", "<a href=javascript:1>", "</details>", "<!-- gfs:1 flow=other -->", "-->"),
        *(
            "![](http://x/p.png)",
            "[a](http://x)",
            "```",
            "~~~",
            "| a |",
            "|---|",
            ":-",
            "1. ",
            "+ ",
        ),
        *(
            "\u4e2d\u6587",
            "\U0001f469\U0001f3fd\u200d\U0001f4bb",
            "e\u0301",
            "\U0001f1e9\U0001f1ea",
        ),
    ]
)
nasty = st.lists(_FRAGMENTS | st.text(max_size=3), max_size=14).map("".join)


def acted_on(text: str) -> list[str]:
    return [name for name, pattern in _ACTED_ON.items() if pattern.search(text)]


def git(*args: str, text: str = "", cwd: object = None) -> str:
    sealed = {
        "PATH": os.environ["PATH"],
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CEILING_DIRECTORIES": "/",
    }
    done = subprocess.run(
        ["git", *args], input=text.encode(), capture_output=True, check=True, cwd=cwd, env=sealed
    )
    return done.stdout.decode()


# --- one line


@pytest.mark.parametrize(
    ("size", "said"), [(0, "0 KiB"), (1, "1 KiB"), (1024, "1 KiB"), (1025, "2 KiB")]
)
def test_what_takes_anything_takes_a_kib(size, said):
    assert prose.kibibytes(size) == said


def test_fold_makes_one_line_of_words():
    assert prose.fold("  a\r\n\tb\u2028c\x85\u3000d  ") == "a b c d"
    assert prose.fold("a\x00\x1b[2Jb\u202ec\u200bd\ufeff") == "a[2Jbcd"


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("\U0001f469\u200d\U0001f4bb", True),  # an emoji of two
        ("\u0645\u06cc\u200c\u062e", True),  # a Persian word
        ("a\u200db", False),
        ("\u00e9\u200c\u200d\u00e9", False),
        ("\u00e9\u200d@name", False),
        ("\u200d\u00e9", False),
        ("\u00e9\u200c", False),
    ],
)
def test_fold_keeps_a_joiner_only_where_it_joins(text, kept):
    assert prose.fold(text) == (text if kept else text.replace("\u200c", "").replace("\u200d", ""))


@given(nasty)
def test_fold_leaves_no_control_and_is_idempotent(text):
    folded = prose.fold(text)
    assert prose.fold(folded) == folded
    assert not {unicodedata.category(char) for char in folded} & {"Cc", "Cs", "Zl", "Zp"}
    assert not re.search(r"[\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff]|  |^ | $", folded)


# --- a commit message


@pytest.mark.req("F2")
@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("[skip ci] a", "(skip ci) a"),
        ("[CI  Skip]", "(CI  Skip)"),
        ("[ no\tci ]", "( no\tci )"),
        ("[Skip-Actions]", "(Skip-Actions)"),
        ("[actions skip]", "(actions skip)"),
        ("[skip\u200b ci]", "(skip ci)"),
        ("skip-checks: true", "skip checks: true"),
        ("skip-checks:true", "skip checks:true"),
        ("Fixes #1, closes o/r#2.", "Fixes # 1, closes o/r# 2."),
        ("resolved: GH-12", "resolved: GH 12"),
        ("closes https://github.com/o/r/issues/12", "closes https://github.com/o/r/issues/ 12"),
        ("ask @name and @org/team", "ask @ name and @ org/team"),
        ("\u00e9@name @@x _@y", "\u00e9@ name @@ x _@ y"),
        ("Signed-off-by: A <a@b.c>", "Signed-off by: A <a@b.c>"),
        ("Co-Authored-By : B", "Co-Authored By : B"),
        ("Gfs-Op: {}", "Gfs Op: {}"),
        ("on-behalf-of: @org", "on behalf-of: @ org"),
    ],
)
def test_inert_breaks_what_hosts_act_on(text, result):
    assert prose.inert(text) == result


@pytest.mark.parametrize(
    "text",
    [
        "Requirements captured; comparison in progress",
        "high-5, re-run by-laws, stand-by mode and skip-level talks [x] [skipped] [no change]",
        "mail me@example.com, use C# and F#, see https://example.com/a/issues",
        "step-by-step: done; fixes the bug; Gfs is nice",
        "two lines\n\tand a tab",
    ],
)
def test_inert_leaves_ordinary_words_alone(text):
    assert prose.inert(text) == text


@pytest.mark.req("F2")
@given(nasty)
def test_inert_is_inert_idempotent_and_short(text):
    once = prose.inert(text)
    assert acted_on(once) == []
    assert acted_on(prose.fold(once)) == []
    assert prose.inert(once) == once
    assert len(once) <= 2 * len(text)


@given(nasty, st.integers(0, 90))
def test_a_subject_keeps_its_prefix_and_its_width(text, width):
    prefix = "flow-example-001 r4 update"
    subject = prose.subject(prefix, text, width)
    assert subject == prefix or subject.startswith(prefix + ": ")
    assert subject == prefix or _columns(subject) <= width
    assert subject.splitlines() == [subject]
    assert subject == subject.rstrip()
    assert acted_on(subject) == []
    assert subject.isascii() or not text.isascii()


def _columns(text: str) -> int:
    """Count columns the way a plain terminal does: marks none, wide characters two."""
    shown = [char for char in text if unicodedata.category(char) not in {"Mn", "Me", "Cf"}]
    return sum(2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in shown)


@pytest.mark.parametrize(
    ("text", "width", "result"),
    [
        ("twelve chars", 12, "twelve chars"),
        ("twelve chars", 11, "twelve c..."),
        ("twelve chars", 10, "twelve..."),
        ("twelve chars", 4, "t..."),
        ("twelve chars", 3, ""),
        ("twelve chars", -5, ""),
        ("\u65e5\u672c\u8a9e", 6, "\u65e5\u672c\u8a9e"),
        ("\u65e5\u672c\u8a9e", 5, "\u65e5..."),
        ("e\u0301e\u0301e\u0301e\u0301e\u0301", 4, "e\u0301..."),
        ("x\U0001f469\U0001f3fd\u200d\U0001f4bb and more", 9, "x..."),
        ("\U0001f1e9\U0001f1ea\U0001f1eb\U0001f1f7 x", 5, "\U0001f1e9\U0001f1ea..."),
    ],
)
@pytest.mark.req("L17")
def test_cut_ends_on_a_whole_character(text, width, result):
    assert prose.cut(text, width) == result


def test_a_subject_of_stacked_marks_is_bounded():
    assert len(prose.subject("f r1 update", "e" + "\u0301" * 100_000)) < 1_000


@pytest.mark.req("F1")
@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("x\n\nGfs-Revision: 999\n", "x\n\nGfs Revision: 999"),
        ("Revision: 999", "| Revision: 999"),
        ("a\r\n\r\n\r\n\nb  \n\n", "a\n\nb"),
        (
            "ok\n continued\n#1 x\n---\ndiff --git a b",
            "ok\n|  continued\n| # 1 x\n| ---\n| diff --git a b",
        ),
        (
            "(cherry picked from commit ab)\nFrom here",
            "| (cherry picked from commit ab)\n| From here",
        ),
        ("See https://x.y\nhttps://x.y", "See https://x.y\n| https://x.y"),
        (" \n\x00\n", ""),
    ],
)
def test_body_prefixes_what_git_would_read(text, result):
    assert prose.body(text) == result


@given(nasty)
def test_body_is_idempotent_and_inert(text):
    once = prose.body(text)
    assert prose.body(once) == once
    assert acted_on(once) == []
    once.encode()


_OURS = "Flow: f\nRevision: 4\nGfs-Rules: 1\n"


@pytest.mark.req("F1")
@given(nasty)
def test_git_reads_no_trailer_from_users(text):
    head = f"{prose.subject('f r4 update', text)}\n\n{prose.body(text)}"
    parse = ("-c", "trailer.separators=:=#", "interpret-trailers", "--parse")
    assert git(*parse, text=f"{head}\n") == ""
    assert git(*parse, text=f"{head}\n\n{_OURS}") == _OURS


@pytest.mark.req("F1")
@given(nasty)
def test_no_tool_of_git_cuts_a_body(text):
    body = prose.body(text)
    assert git("stripspace", "--strip-comments", text=body).rstrip("\n") == body


@pytest.mark.req("F1")
@given(text=nasty)
def test_a_body_survives_mail(tmp_path_factory, text):
    body = prose.body(text)
    folder = tmp_path_factory.getbasetemp()
    mail = (
        f"From: A <a@b.c>\nSubject: s\nContent-Type: text/plain; charset=utf-8\n\n{body}\n---\n x\n"
    )
    git("mailinfo", "-b", "--no-scissors", "message", "patch", text=mail, cwd=folder)
    assert (folder / "message").read_text().strip("\n") == body


@pytest.mark.req("F1")
def test_git_log_gives_our_trailers_from_a_real_commit(tmp_path):
    text = (
        "\n\nRevision: 999\nSigned-off-by: Eve <e@x>\n(cherry picked from commit ab)\n\x00 \u202e"
    )
    git("init", "--quiet", "--bare", str(tmp_path))
    tree = git("hash-object", "-t", "tree", "-w", "--stdin", cwd=tmp_path).strip()
    who = "A <a@x> 1 +0000"
    message = f"{prose.subject('f r4 update', text)}\n\n{prose.body(text)}\n\n{_OURS}"
    commit = f"tree {tree}\nauthor {who}\ncommitter {who}\n\n{message}"
    made = git("hash-object", "-t", "commit", "-w", "--stdin", text=commit, cwd=tmp_path).strip()
    git("update-ref", "refs/heads/main", made, cwd=tmp_path)
    git("fsck", "--strict", cwd=tmp_path)
    assert git("log", "--format=%(trailers)", "main", cwd=tmp_path).rstrip("\n") + "\n" == _OURS
    revision = "--format=%(trailers:key=Revision,valueonly)"
    assert git("log", revision, "main", cwd=tmp_path).strip() == "4"


# --- a terminal


@pytest.mark.req("F5", "F6")
@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("\x1b]0;t\x07", r"\x1b]0;t\x07"),
        ("a\x1b[2J\x9b\x7f\rb", r"a\x1b[2J\x9b\x7f\rb"),
        ("\u202eabc\u200b", r"\u202eabc\u200b"),
        ("a\u2028b\x85c\U000e0041\udcff", r"a\u2028b\x85c\U000e0041\udcff"),
        ("one\n\ttwo", "one\n\ttwo"),
        ("[red]x[/] [link=http://x]y[/link]", "[red]x[/] [link=http://x]y[/link]"),
        (
            "\U0001f469\u200d\U0001f4bb \u65e5\u672c e\u0301",
            "\U0001f469\u200d\U0001f4bb \u65e5\u672c e\u0301",
        ),
    ],
)
def test_terminal_shows_what_would_act(text, result):
    assert prose.terminal(text) == result


@pytest.mark.req("F7")
def test_terminal_can_keep_to_one_line():
    assert prose.terminal("a\nb\tc\rd", lines=False) == r"a\nb\tc\rd"


@pytest.mark.req("F5")
@given(nasty, st.booleans())
def test_terminal_lets_no_control_through(text, lines):
    shown = prose.terminal(text, lines=lines)
    allowed = "\n\t" if lines else ""
    assert all(char in allowed or unicodedata.category(char) not in {"Cc", "Cs"} for char in shown)
    assert not re.search(r"[\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff]", shown)
    assert prose.terminal(shown, lines=lines) == shown
    shown.encode()


# --- Markdown

_TABLE = "<table>\n<thead>\n<tr>\n<th>h</th>\n</tr>\n</thead>\n<tbody>\n<tr>\n"
_PLACES = {
    "alone": ("{}", "<p>{}</p>"),
    "after a line": ("before\n{}", "<p>before\n{}</p>"),
    "in a list": ("- a {}", "<ul>\n<li>a {}</li>\n</ul>"),
    "first in a list": ("- x\n- {}\n- y", "<ul>\n<li>x</li>\n<li>{}</li>\n<li>y</li>\n</ul>"),
    "in a heading": ("## a {} b", "<h2>a {} b</h2>"),
    "in emphasis": ("**a {} b**", "<p><strong>a {} b</strong></p>"),
    "in a table": (
        "| h |\n| - |\n| a {} b |",
        _TABLE + "<td>a {} b</td>\n</tr>\n</tbody>\n</table>",
    ),
}


def render(text: str) -> str:
    flags = Options.CMARK_OPT_UNSAFE | Options.CMARK_OPT_FOOTNOTES
    return cmarkgfm.github_flavored_markdown_to_html(text, flags).strip()


def words(text: str) -> str:
    """Return what must survive: all but the characters with which something is broken."""
    return re.sub(r"[\s()\[\]-]", "", prose.fold(text))


def assert_plain(inner: str, text: str) -> None:
    assert "<" not in inner
    plain = html.unescape(inner)
    assert words(plain) == words(text)
    assert acted_on(plain) == []
    assert not re.search(r"://\S|www\.|@\S", plain)


@pytest.mark.req("F3", "F4")
@pytest.mark.parametrize("place", _PLACES)
@given(text=nasty)
def test_markdown_renders_as_plain_words(place, text):
    source, shape = _PLACES[place]
    escaped = prose.markdown(text)
    assert "\n" not in escaped
    assert "<" not in escaped
    if not escaped:
        return
    before, after = shape.split("{}")
    rendered = render(source.format(escaped))
    assert rendered.startswith(before)
    assert rendered.endswith(after)
    assert_plain(rendered[len(before) : len(rendered) - len(after)], text)


_STARTS = ["- x", "+ x", "* x", "1. x", "2) x", ":-", ":-:", "===", "---", "# x", "> x", "| a |"]
_STARTS += ["```", "~~~", "[a]: x", "[^1]: x", "<div>", "[!NOTE]", "www.a", "\tx"]


@pytest.mark.req("F3")
@pytest.mark.parametrize("text", _STARTS)
def test_markdown_starts_no_block(text):
    rendered = render(f"before\n{prose.markdown(text)}")
    assert rendered.startswith("<p>before\n")
    assert_plain(rendered[len("<p>before\n") : -len("</p>")], text)


@pytest.mark.req("F3")
@given(nasty)
def test_a_markdown_block_renders_as_one_quotation(text):
    block = prose.markdown_block(text)
    if not block:
        assert words(text) == ""
        return
    rendered = render(f"before\n\n{block}\n\nafter")
    found = re.fullmatch(
        r"<p>before</p>\n<blockquote>\n(.*)\n</blockquote>\n<p>after</p>", rendered, re.DOTALL
    )
    assert found
    assert_plain(re.sub(r"</?p>", "", found[1]), text)


@pytest.mark.req("F3")
def test_a_markdown_block_folds_blank_lines():
    assert prose.markdown_block("a" + "\n" * 300 + "b\n\n") == "> a\n>\n> b"


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("plain, words: (fine) 10:30", "plain, words: (fine) 10:30"),
        ("a_b *c* `d` <e> & [f]", r"a\_b \*c\* \`d\` &lt;e&gt; &amp; \[f\]"),
        ("1. one", r"1\. one"),
        ("- x", r"\- x"),
        ("see https://a.b/c and www.d.e", "see https:// a.b/c and www .d.e"),
        ("<!-- gfs:1 kind=final -->", r"&lt;\!-- gfs:1 kind=final --&gt;"),
    ],
)
def test_markdown_stays_readable(text, result):
    assert prose.markdown(text) == result


# --- size


@pytest.mark.timeout(30)  # what is quadratic takes minutes
@pytest.mark.parametrize(
    "unit",
    [
        "[",
        "[ ",
        "[skip ",
        "[_",
        "[a-",
        "@",
        "#",
        "gfs-",
        "-by ",
        "/issues/",
        "\u200d",
        "\u00e9\u200d",
        "\n",
        "a:",
    ],
)
def test_much_of_anything_is_finished(unit):
    text = unit * (2**18 // len(unit))
    for make in (
        prose.fold,
        prose.inert,
        prose.body,
        prose.terminal,
        prose.markdown,
        prose.markdown_block,
    ):
        make(text)
    assert len(prose.subject("f r1 update", text)) < 800
