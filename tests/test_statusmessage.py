"""The message that people get: what it says, that it fits, and that no text of users acts in it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import cmarkgfm
import pytest
from anyflow import ATTACKS, EXAMPLE, NOW, UNSAFE, WAITING, dirtied, flows
from cmarkgfm.cmark import Options
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from gitflowstate import codec, marker
from gitflowstate.marker import MARKED_KINDS
from gitflowstate.model import Claim, Failure, Flow, Task, Waiting
from gitflowstate.statusmessage import LIMIT, superseded, text, title

DOCS = Path(__file__).parents[1] / "docs/explanation/the-status-message.md"
MESSAGES = Path(__file__).parent / "transcripts/messages"
REWRITE = os.environ.get("GFS_TEST_REWRITE") == "1"
ENOUGH = 400  # bytes into which the marker and the first line of any flow fit
CODER = "\U0001f469\U0001f3fd\u200d\U0001f4bb"  # one character for its reader, four code points


def task(name: str, status: str = "pending", **fields: object) -> Task:
    return Task(id=name, goal=f"Do {name}", status=status, **fields)


def chain(length: int, **fields: object) -> tuple[Task, ...]:
    return tuple(task(f"t{n}", deps=(f"t{n - 1}",) if n else (), **fields) for n in range(length))


# ── what it says ────────────────────────────────────────────────────────────────────────────────

PEOPLE = Waiting(reason="The offer is over budget", condition="Ana agrees", on="human")
WORK = EXAMPLE.replace(
    id="f-k2m9qx",
    goal="Move the reports to the new store",
    revision=12,
    owner="reports",
    progress="Export runs.\nThe first two years are across.",
    next_action="Compare the totals",
    children=(
        task("list", "done", result_ref="out/list.md", finished_at=NOW),
        task("export", "done", result_ref="out/export.csv", deps=("list",)),
        task(
            "copy",
            deps=("export",),
            claim=Claim(worker="w.k3j9x2ab", by="w", attempt=9, until="2026-09-06T11:00:00Z"),
        ),
        task("mail", "waiting", waiting=PEOPLE.replace(on="external", condition="A reply")),
        task("quota", "waiting", waiting=PEOPLE),
        task("announce", not_before="2026-09-07T08:00:00Z"),
        task("check", deps=("copy", "quota")),
        task("old", "failed", outcome="timed_out", reason="The host was gone"),
    ),
)
ENDED = {"status": "done", "result_ref": "artifacts/report.md", "next_action": None}
FAILED = {
    "status": "failed",
    "failure": Failure(reason="No budget", recoverable="The comparison table"),
    "next_action": None,
}
CASES = {
    "running": (EXAMPLE, "status"),
    "tasks": (WORK, "status"),
    "waiting": (WAITING, "waiting"),
    "done": (EXAMPLE.replace(revision=6, children=(), **ENDED), "final"),
    "failed": (EXAMPLE.replace(revision=6, **FAILED), "final"),
    "long": (EXAMPLE.replace(progress="Many words. " * 130, children=chain(14)), "status"),
}


@pytest.mark.req("R-TF-49", "R-TF-51")
@pytest.mark.parametrize("name", CASES)
def test_a_message_reads_like_this(name):
    flow, kind = CASES[name]
    path = MESSAGES / f"{name}.md"
    shown = text(flow, kind=kind) + "\n"
    if REWRITE:
        path.write_text(shown)
    assert shown == path.read_text()


@pytest.mark.req("R-TF-49")
def test_the_page_about_the_message_shows_what_the_code_makes():
    start, end = "<!-- the example begins -->\n", "\n<!-- the example ends -->"
    page = DOCS.read_text()
    shown = page.partition(start)[2].partition(end)[0]
    made = text(WORK, kind="status")
    if REWRITE:
        DOCS.write_text(page.replace(start + shown + end, start + made + end))
    assert made == shown


@pytest.mark.parametrize(
    ("flow", "kind", "line"),
    [
        (EXAMPLE, "status", "flow-example-001 is running: Compare three data-platform"),
        (WAITING, "waiting", "flow-example-001 needs a person: Compare three data-platform"),
        (WAITING, "status", "flow-example-001 is waiting: Compare three data-platform"),
        (EXAMPLE.replace(**ENDED), "final", "flow-example-001 is done: Compare three"),
        (EXAMPLE.replace(**FAILED), "final", "flow-example-001 has failed: Compare three"),
    ],
)
def test_a_title_says_which_flow_and_what_it_is_at(flow, kind, line):
    assert title(flow, kind).startswith(line)
    assert len(title(flow, kind)) <= 100


@pytest.mark.parametrize(
    ("on", "line", "label"),
    [
        ("human", "**Waiting for a person** since 2026-09-06 12:00 UTC · ", "from a person"),
        ("agent", "**Waiting for an agent** since 2026-09-06 12:00 UTC · ", "from an agent"),
        ("external", "**Waiting for something outside** since 2026-09-06 ", "from outside"),
    ],
)
def test_who_is_needed_stands_in_the_first_line(on, line, label):
    flow = WAITING.replace(waiting=WAITING.waiting.replace(on=on))
    shown = text(flow, kind="waiting")
    assert shown.split("\n")[1].startswith(line)
    assert f"**Needed {label}:** A person picks one" in shown


@pytest.mark.req("R-TF-47")
def test_nothing_is_called_stale_that_the_record_does_not_call_so():
    late = task("late", claim=Claim(worker="w", by="w", attempt=1, until="2026-01-01T00:00:00Z"))
    shown = text(EXAMPLE.replace(children=(late, task("hand", "running"))), kind="status")
    assert "| `late` | claimed | Do late | `w` |" in shown
    assert "| `hand` | running | Do hand |  |" in shown
    assert "stale" not in shown


@pytest.mark.req("R-TF-51")
def test_people_come_before_all_else_that_waits():
    shown = text(WORK, kind="status")
    assert "a person is needed for 1 task" in shown.split("\n")[1]
    rows = re.findall(r"^\| `(\w+)` \| (\w+)", shown, re.MULTILINE)
    assert rows == [
        ("copy", "claimed"),
        ("quota", "waiting"),
        ("mail", "waiting"),
        ("announce", "scheduled"),
        ("check", "blocked"),
        ("old", "failed"),
        ("list", "done"),
        ("export", "done"),
    ]


def test_what_an_ended_flow_left_open_waits_for_nothing():
    shown = text(EXAMPLE.replace(children=chain(2), **ENDED), kind="final")
    assert "**Not done (2)**" in shown
    held = task("t", "waiting", waiting=PEOPLE)
    assert "is needed" not in text(EXAMPLE.replace(children=(held,), **ENDED), kind="final")
    assert "| `t1` | pending | Do t1 |  |" in shown


# ── the same record, the same bytes ─────────────────────────────────────────────────────────────


@pytest.mark.req("R-TF-49")
def test_neither_clock_nor_locale_nor_hash_changes_a_byte(tmp_path):
    document = tmp_path / "flow.json"
    document.write_bytes(codec.encode(WORK))
    script = (
        "import pathlib, sys\nfrom gitflowstate import codec, model, statusmessage\n"
        "flow = codec.decode(model.Flow, pathlib.Path(sys.argv[1]).read_bytes())\n"
        "sys.stdout.buffer.write(statusmessage.text(flow, kind='status').encode())\n"
    )
    made = set()
    for zone, locale, seed in (("UTC", "C", "1"), ("Asia/Tokyo", "C.UTF-8", "2")):
        env = os.environ | {"TZ": zone, "LC_ALL": locale, "PYTHONHASHSEED": seed}
        command = [sys.executable, "-c", script, str(document)]
        made.add(subprocess.run(command, env=env, capture_output=True, check=True).stdout)
    assert made == {text(WORK, kind="status").encode()}


@pytest.mark.req("R-TF-49")
@given(flows, st.sampled_from(MARKED_KINDS), st.integers(0, 3000))
def test_an_equal_flow_gives_an_equal_message(flow, kind, limit):
    again = Flow(**flow.__dict__)
    assert text(flow, kind=kind, limit=limit) == text(again, kind=kind, limit=limit)


# ── the marker ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.req("F4", "R-TF-53")
@pytest.mark.parametrize("kind", MARKED_KINDS)
def test_the_marker_is_the_first_line(kind):
    line = text(EXAMPLE, kind=kind).partition("\n")[0]
    assert line == f"<!-- gfs:1 flow=flow-example-001 kind={kind} rev=4 -->"


@pytest.mark.req("F4")
@pytest.mark.parametrize("word", ["-->", "kind=final", "--> kind=final rev=9 -->", "\n-->\n"])
def test_no_goal_breaks_the_marker(word):
    assert marker.read(text(dirtied(word), kind="status")) == ("f-1", "status", 1)


def test_a_superseded_message_is_found_by_no_search():
    shown = superseded(text(WORK, kind="status"))
    assert shown == (
        "**Superseded.** This was sent twice; the earlier message about `f-k2m9qx` is the one that "
        "is kept."
    )
    assert superseded(shown) == superseded("x") == shown.replace(" about `f-k2m9qx`", "")


# ── inert ───────────────────────────────────────────────────────────────────────────────────────

OURS = {"p", "strong", "em", "code", "pre", "blockquote", "details", "summary", "br"}
OURS |= {"table", "thead", "tbody", "tr", "th", "td"}
ACTED_ON = re.compile(
    r"#\d|\bgh-\d|/(?:issues|pull|discussions)/\d|(?<![A-Za-z0-9])@\w|\[(?:skip ci|no ci|ci skip)\]"
    r"|://\S|www\.|<(?:!|[@#]\S)|[\u202a-\u202e\u2060-\u2069\u200b\ufeff]",
    re.IGNORECASE,
)
HOSTILE = [
    *(
        "@everyone",
        "@here",
        "@user",
        "<!channel>",
        "<@U1>",
        "fixes #12",
        "GH-12",
        "o/r#3",
        "[x](y)",
    ),
    *("https://github.com/o/r/issues/12", "![](http://x/p.png)", "<img src=x>", "www.x.example"),
    *("<a href=javascript:1>", "</details>", "</summary>", "<script>", "<!--", "-->", "[skip ci]"),
    *(
        "<!-- gfs:1 flow=other kind=final rev=9 -->",
        "```",
        "`",
        "``",
        "~~~",
        "|",
        "| a | b |",
        "\\",
    ),
    *(
        "|---|---|",
        "\n" * 300,
        "\u202e",
        "\u200b",
        "---",
        "===",
        "# h",
        "> q",
        "- l",
        "1. l",
        "<b>",
    ),
    *("*", "_", "**", "__", "~~", "$", "$$", "&lt;", "&#64;all", "\t", " ", "\n", "\n\n", "\u2028"),
    *(
        "[a]: http://x",
        "[^1]",
        "a@b.example",
        "mailto:a@b.example",
        "\u4e2d",
        CODER,
        "e\u0301",
        "a",
    ),
]
hostile = st.lists(st.sampled_from([*HOSTILE, *ATTACKS]), max_size=8).map("".join)


class Rendered(HTMLParser):
    """What a page of HTML is made of; text within code apart from the rest."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: set[str] = set()
        self.attributes: list[tuple[str, str | None]] = []
        self.comments: list[str] = []
        self.open: list[str] = []
        self.words = self.code = ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes += attrs
        if tag != "br":
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag
        if tag == "code":  # what stands before one and after it does not touch
            self.code += "\n"
            self.words += "\n"

    def handle_comment(self, data):
        self.comments.append(data)

    def handle_data(self, data):
        if "code" in self.open:
            self.code += data
        else:
            self.words += data


def by_github(source: str) -> str:
    flags = Options.CMARK_OPT_UNSAFE | Options.CMARK_OPT_FOOTNOTES
    return cmarkgfm.github_flavored_markdown_to_html(source, flags)


def by_commonmark(source: str) -> str:
    return (
        MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"]).render(source)
    )


RENDERERS = {"github": by_github, "commonmark": by_commonmark}


def assert_inert(source: str) -> None:
    assert source.count("<!--") == 1
    assert not any(map(marker.read, source.split("\n")[1:]))
    comment = source.partition("\n")[0].removeprefix("<!--").removesuffix("-->")
    for render in RENDERERS.values():
        page = Rendered(render(source))
        assert page.open == []
        assert page.tags <= OURS
        assert page.comments == [comment]
        assert {name for name, _ in page.attributes} <= {"lang", "class"}
        assert {value for _, value in page.attributes} <= {"mermaid", "language-mermaid"}
        assert not ACTED_ON.search(page.words)
        assert not re.search(r"<[!@#]|(?<![A-Za-z0-9])@\w", page.code)


def statuses(flow: Flow) -> list[Flow]:
    return [flow.replace(status=status) for status in ("running", "waiting", "done", "failed")]


@pytest.mark.req("F3", "F4")
@pytest.mark.parametrize("word", HOSTILE + list(ATTACKS))
def test_no_text_of_users_acts_in_a_message(word):
    for flow in statuses(dirtied(word)):
        assert_inert(text(flow, kind="status"))
    named = title(dirtied(word), "status")
    assert not ACTED_ON.search(re.sub(r"://|www\.", "", named))  # an address of plain text
    assert not UNSAFE.search(named)
    assert "\n" not in named


@pytest.mark.req("F3", "F4", "L17")
@settings(deadline=None)
@given(hostile, st.integers(ENOUGH, 5000), st.sampled_from(MARKED_KINDS), st.integers(1, 400))
def test_no_text_of_users_acts_wherever_it_is_cut(words, limit, kind, times):
    shown = text(dirtied(words * times), kind=kind, limit=limit)
    assert len(shown.encode()) <= limit
    assert_inert(shown)


@pytest.mark.req("F3", "F4", "L17")
@settings(deadline=None)
@given(flows, st.sampled_from(MARKED_KINDS), st.integers(ENOUGH, 2000) | st.just(LIMIT))
def test_any_flow_gives_one_valid_message(flow, kind, limit):
    shown = text(flow, kind=kind, limit=limit)
    assert len(shown) <= len(shown.encode()) <= limit
    assert marker.read(shown) == (flow.id, kind, flow.revision)
    assert_inert(shown)


@pytest.mark.req("E10", "F3")
@pytest.mark.parametrize(
    ("reference", "shown"),
    [
        ("https://github.com/o/r/pull/12", "`https://github.com/o/r/pull/12`"),
        ("javascript:alert(1)", "`javascript:alert(1)`"),
        ("a`b", "``a`b``"),
        ("`", "`` ` ``"),
        ("a|b", "`a|b`"),
        ("/etc/passwd", "`/etc/passwd`"),
        ("\u202egnp.exe", r"`\u202egnp.exe`"),
        ("npm:@org/x", "`npm:@ org/x`"),
        ("git@host.example:o/r", "`git@host.example:o/r`"),
    ],
)
def test_a_result_is_inert_code_that_can_be_copied(reference, shown):
    flow = EXAMPLE.replace(status="done", result_ref=reference, next_action=None)
    message = text(flow, kind="final")
    assert f"**Result:** {shown}\n" in message
    assert_inert(message)


def test_a_reference_in_a_table_keeps_its_bars():
    done = task("t1", "done", result_ref="a|b`c|d\\|e")
    page = Rendered(by_github(text(EXAMPLE.replace(children=(done,)), kind="status")))
    assert "a|b`c|d\\|e" in page.code


# ── the link ────────────────────────────────────────────────────────────────────────────────────


def test_the_record_is_linked_where_there_is_an_address():
    shown = text(EXAMPLE, kind="status", link="https://example.org/f/(1)?a=b c")
    assert shown.endswith(". [The record](https://example.org/f/%281%29?a=b%20c)")
    cut = text(EXAMPLE, kind="status", limit=450, link="https://example.org/f")
    assert cut.endswith(" [Cut to fit: the whole record](https://example.org/f)")


@pytest.mark.parametrize("address", ["javascript:alert(1)", "/etc", "https://" + "x" * 3000, ""])
def test_what_is_no_address_of_the_web_is_no_link(address):
    assert text(EXAMPLE, kind="status", link=address) == text(EXAMPLE, kind="status")


# ── what fits ───────────────────────────────────────────────────────────────────────────────────


def monster(words: str) -> Flow:
    """Return a flow of 2,000 tasks and 100 kB of progress."""
    children = tuple(
        task(
            f"t{n}", "done" if n % 2 else "pending", deps=(f"t{n - 1}",) if n else (), reason=words
        )
        for n in range(2000)
    )
    children = tuple(each.replace(goal=words, result_ref=f"out/{each.id}|x") for each in children)
    return EXAMPLE.replace(
        goal=words * 40, progress=words * (100_000 // len(words)), children=children
    )


@pytest.mark.req("L17")
@pytest.mark.parametrize("limit", [ENOUGH, 1000, 2000, 4096, 16_000, LIMIT])
@pytest.mark.parametrize("words", [CODER, "\u6bd4\u8f03 ", "plain words ", "<!-- --> `|` @all #1 "])
def test_two_thousand_tasks_are_one_valid_message(words, limit):
    shown = text(monster(words), kind="status", limit=limit)
    assert len(shown.encode()) <= limit
    assert_inert(shown)
    lines = shown.split("\n")
    assert lines[1].startswith("**Running** · `flow-example-001` · 1,000 of 2,000 tasks done")
    assert lines[-1].endswith("Cut to fit: `gfs show flow-example-001` has all of it.")
    for line in lines:
        if line.startswith("|"):
            assert line.endswith("|")
            assert len(re.findall(r"(?<!\\)\|", line)) == 5
    told = re.findall(r"^<summary>\w+ \((\d),(\d+)\)", shown, re.MULTILINE)
    left = re.findall(r"^([\d,]+) more$", shown, re.MULTILINE)
    rows = len(re.findall(r"^\| `t", shown, re.MULTILINE))
    assert len(told) == len(left)
    assert rows + sum(int(n.replace(",", "")) for n in left) == 1000 * len(told)
    assert rows > 0 or limit < 2000
    assert len(shown.encode()) > limit * 0.8 or limit == ENOUGH


@pytest.mark.req("L17")
@pytest.mark.parametrize("limit", range(600, 640))
def test_no_character_is_cut_in_two(limit):
    shown = text(EXAMPLE.replace(progress=CODER * 500), kind="status", limit=limit)
    (kept,) = re.findall(r"\*\*Progress:\*\* (.*)\.\.\.$", shown, re.MULTILINE)
    assert kept == CODER * (len(kept) // len(CODER))
    assert len(kept) >= len(CODER)


@pytest.mark.req("L17")
def test_what_matters_most_is_cut_last():
    words = "many words " * 300
    flow = WAITING.replace(progress=words, goal=words, next_action=words, children=chain(50))
    shown = text(flow, kind="waiting", limit=ENOUGH)
    assert "**Needed from a person:** A person picks one" in shown
    assert "**Why it waits:** Two options cost the same" in shown
    assert "**Progress" not in shown


@pytest.mark.parametrize("limit", [*range(200), 210, 250, 300])
def test_however_little_fits_it_is_something_and_no_more(limit):
    shown = text(WAITING, kind="waiting", limit=limit)
    assert len(shown.encode()) <= limit
    assert shown.startswith(("f", "<!-- gfs:1 ")) or limit < 4
    if shown.startswith("<"):
        assert marker.read(shown)


def test_nothing_is_cut_that_fits():
    words = "0123456789" * 4000
    shown = text(EXAMPLE.replace(progress=words), kind="status")
    assert words in shown
    assert "Cut to fit" not in shown


def test_rows_that_are_missing_are_counted_and_said_to_be():
    shown = text(EXAMPLE.replace(children=chain(150)), kind="status")
    assert shown.count("\n| `t") == 100
    assert "\n\n50 more\n\n" in shown
    assert "Cut to fit" in shown.split("\n")[-1]
    assert "Cut to fit" not in text(EXAMPLE.replace(children=chain(100)), kind="status")


def test_a_long_text_folds_away_behind_its_beginning():
    words = "\n".join(f"line {n}" for n in range(100))
    shown = text(EXAMPLE.replace(progress=words), kind="status")
    assert "**Progress:** line 0 line 1 " in shown
    assert (
        f"<summary>Progress, {len(words):,} characters</summary>\n\n> line 0\n> line 1\n" in shown
    )


@pytest.mark.parametrize(("count", "folded"), [(10, False), (11, True)])
def test_a_long_table_folds_away(count, folded):
    shown = text(EXAMPLE.replace(children=chain(count)), kind="status")
    assert ("<details>\n<summary>Waiting" in shown) is folded


# ── the graph ───────────────────────────────────────────────────────────────────────────────────


def drawn(*children: Task, kind: str = "status", **fields: object) -> str:
    shown = text(EXAMPLE.replace(children=children, **fields), kind=kind)
    return shown.partition("```mermaid\n")[2].partition("\n```")[0]


def test_finished_tasks_are_one_node_of_the_graph():
    done = {"status": "done", "result_ref": "r"}
    lines = drawn(
        task("a", **done), task("b", **done), task("c", deps=("a", "b")), task("d", deps=("c",))
    ).split("\n")
    assert lines[:6] == [
        "flowchart TD",
        '  n0["2 done: a, b"]:::done',
        '  n1["c: Do c"]:::ready',
        '  n2["d: Do d"]:::blocked',
        "  n0 --> n1",
        "  n1 --> n2",
    ]


def test_a_graph_is_drawn_only_where_it_helps():
    assert drawn(*chain(60))
    assert not drawn(*chain(61))
    assert not drawn(task("a"), task("b"))
    assert not drawn(*chain(3), kind="waiting")
    assert not drawn(*chain(3), **FAILED)
    assert drawn(*[task(f"t{n}", "done", result_ref="r") for n in range(500)], *chain(5))[:9] == (
        "flowchart"
    )


def test_a_graph_that_does_not_fit_is_left_out_whole():
    whole = text(WORK, kind="status")
    less = text(WORK, kind="status", limit=len(whole.encode()) - 1)
    assert "```mermaid" in whole
    assert "mermaid" not in less
    assert "| `check` |" in less
