"""The documentation is true: its commands run, its links lead somewhere, nothing is left out.

Each page's ```console blocks are one shell session, in a fresh folder with a sealed HOME. A line
`$ command` is run (`> ` goes on with it); the lines below it are what it prints, stderr included,
where `…` stands for any text within a line and, alone on a line, for any lines. A command that
ends with another code than 0 must be followed by `$ echo $?`.
"""

import os
import re
import shutil
import subprocess
import sys
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import takewhile
from pathlib import Path

import pytest
from fakes.github import BOT, FakeClock, GitHub

ROOT = Path(__file__).parents[1]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
MARK = "@@gfs-docs@@"
TOOLS = ("git", "jq", "perl")  # what pages use beside gfs and the shell


def name(page):
    return str(page.relative_to(ROOT))


def sessions(page):
    """Return the (command, expected lines, line number) of a page's console blocks."""
    found, fence = [], None
    for number, line in enumerate(page.read_text("utf-8").split("\n"), 1):
        if fence is None:
            fence = line[3:].strip() if line.startswith("```") else None
        elif line == "```":
            fence = None
        elif fence == "console":
            if line.startswith("$ "):
                found.append(([line[2:]], [], number))
            elif line.startswith("> ") and not found[-1][1]:
                found[-1][0].append(line[2:])
            else:
                found[-1][1].append(line)
    return [("\n".join(command), expected, number) for command, expected, number in found]


def pattern(expected):
    lines = [r"(?:.*\n)*?" if line == "…" else _line(line) + r"\n" for line in expected]
    return re.compile("".join(lines))


def _line(line):
    return "[^\n]*?".join(re.escape(part) for part in line.split("…"))


def sealed(folder, binaries=None):
    """Return an environment in which nothing of the user's can be seen."""
    home = folder / "home"
    home.mkdir()
    (home / ".gitconfig").write_text(
        "[user]\n\tname = Ana\n\temail = ana@example.org\n"
        "[init]\n\tdefaultBranch = main\n[pull]\n\trebase = true\n"
    )
    binaries = binaries or Path(sys.executable).parent
    return {
        "HOME": str(home),
        "PATH": f"{binaries}:{os.environ['PATH']}",
        "LC_ALL": "C.UTF-8",
        "TZ": "UTC",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_PAGER": "cat",
        "TMPDIR": str(folder / "tmp"),
    }


def script(commands):
    """Return a shell script that runs the commands in one shell and marks where each begins."""
    lines = ["__status=0"]
    for command in commands:
        lines += [f"echo '{MARK}'", "(exit $__status)", command, "__status=$?"]
        lines += [f'echo "{MARK}$__status"']
    return "\n".join([*lines, ""])


def run(commands, folder, binaries=None, **more):
    """Return (output, exit code) of each command; `binaries` is where `gfs` is found first."""
    env = sealed(folder, binaries) | more
    (folder / "tmp").mkdir()
    work = folder / "work"
    work.mkdir()
    done = subprocess.run(
        ["bash", "-c", script(commands)],
        cwd=work,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
        timeout=100,
    )
    text = done.stdout.decode("utf-8", "replace")
    found = re.findall(rf"{MARK}\n([\s\S]*?){MARK}(\d+)\n", text)
    assert len(found) == len(commands), text[-2000:]
    return [(output, int(code)) for output, code in found]


def with_commands():
    return [page for page in PAGES if sessions(page)]


# ── a page that comments on GitHub meets the fake one ───────────────────────────────────────────

WATCHES = "gfs watch github --once"
TOKEN = "token-for-tests-0123456789"


def quoted(page, number):
    """Return the lines of the first quotation behind a line of a page; none where there is none."""
    lines = page.read_text("utf-8").split("\n")[number:]
    places = (place for place, line in enumerate(lines) if line.startswith("> **"))
    start = next(places, len(lines))
    return [line[2:] for line in takewhile(lambda line: line.startswith(">"), lines[start:])]


@contextmanager
def issue(watched):
    """Yield the environment of a fake GitHub, and the comments that are there in the end."""
    if not watched:
        yield {}, []
        return
    server = GitHub({TOKEN: BOT}, FakeClock(datetime.now(UTC)))
    comments = []
    try:
        yield {"GITHUB_API_URL": server.url, "GITHUB_TOKEN": TOKEN}, comments
        comments += server.bodies(BOT)
    finally:
        server.stop()
    assert server.violations == []


def problems_of(page, folder, binaries=None):
    """Run the commands of a page; return where it does not say what happened."""
    blocks, problems = sessions(page), []
    commands = [command for command, _, _ in blocks]
    watched = [number for command, _, number in blocks if command == WATCHES]
    with issue(watched) as (env, comments):
        results = run(commands, folder, binaries, **env)
    for index, (output, code) in enumerate(results):
        command, expected, number = blocks[index]
        where = f"{name(page)}:{number}: $ {command}"
        if not pattern(expected).fullmatch(output):
            problems.append(f"{where}\nsays:\n" + "\n".join(expected) + f"\nprints:\n{output}")
        asked = commands[index + 1 : index + 2] == ["echo $?"]
        if code and not asked:
            problems.append(f"{where}\nleaves with {code}, and the page does not say so")
    told = [body.partition("\n")[2] + "\n" for body in comments]  # without its marker
    for number in watched:
        said = quoted(page, number)
        if said and not any(pattern(said).fullmatch(body) for body in told):
            problems.append(f"{name(page)}:{number} quotes:\n" + "\n".join(said + told))
    return problems


@pytest.mark.parametrize("page", with_commands(), ids=name)
def test_the_commands_of_a_page_print_what_it_says(page, tmp_path):
    commands = [command for command, _, _ in sessions(page)]
    used = [tool for tool in TOOLS if any(re.search(rf"\b{tool} ", c) for c in commands)]
    missing = [tool for tool in used if shutil.which(tool) is None]
    if missing:
        pytest.skip(f"the page uses {', '.join(missing)}")
    problems = problems_of(page, tmp_path)
    assert not problems, "\n\n".join(problems)


def test_the_readme_shows_what_github_gets():
    page = ROOT / "README.md"
    (number,) = [number for command, _, number in sessions(page) if command == WATCHES]
    assert quoted(page, number)[0].startswith("**Done** · `advice`")


def test_the_runner_sees_a_wrong_page(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "```console\n$ x=7; echo one; echo two\none\n…\n$ (exit 3)\n$ echo $? $x\n3 7\n"
        "$ cat <<'END'\n> a b\n> END\na …\n$ printf 'x\\ny\\n'\nx\n```\n```sh\n$ false\n```\n"
    )
    blocks = sessions(page)
    results = run([command for command, _, _ in blocks], tmp_path)
    matches = [
        bool(pattern(expected).fullmatch(output))
        for (_, expected, _), (output, _) in zip(blocks, results, strict=True)
    ]
    assert matches == [True, True, True, True, False]
    assert [code for _, code in results] == [0, 3, 0, 0, 0]


# ── links ───────────────────────────────────────────────────────────────────────────────────────


def anchors(page):
    text = re.sub(r"```[\s\S]*?```", "", page.read_text("utf-8"))
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_link_leads_somewhere(page):
    text = re.sub(r"```[\s\S]*?```|`[^`\n]*`", "", page.read_text("utf-8"))
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if "://" in target:
            continue
        path, _, anchor = target.partition("#")
        found = (page.parent / path).resolve() if path else page
        assert found.exists(), f"{name(page)}: {target}"
        assert found.is_relative_to(ROOT), f"{name(page)}: {target}"
        if anchor:
            assert anchor in anchors(found), f"{name(page)}: {target}"


def test_every_page_can_be_reached_from_the_readme():
    seen, todo = set(), [ROOT / "README.md"]
    while todo:
        page = todo.pop()
        if page in seen or page.suffix != ".md":
            continue
        seen.add(page)
        targets = re.findall(r"\]\(([^)#\s]+)", page.read_text("utf-8"))
        todo += [(page.parent / t).resolve() for t in targets if "://" not in t]
    fragments = {page for page in PAGES if page.parent.name == "changelog"}
    assert set(PAGES) - seen - fragments == set()


# ── nothing is left out ─────────────────────────────────────────────────────────────────────────


def read(path):
    return (ROOT / "docs" / path).read_text("utf-8")


def test_the_page_of_commands_is_what_the_verbs_say():
    from gitflowstate.cli.reference import page

    assert page() == read("reference/commands.md"), (
        "python -m gitflowstate.cli.reference > docs/reference/commands.md"
    )


def test_every_verb_is_documented():
    from gitflowstate.cli.app import NOUNS, VERBS

    headings = re.findall(r"^## gfs (.+)$", read("reference/commands.md"), re.MULTILINE)
    parts = [[verb, *([part] if part else [])] for verb in VERBS for part in NOUNS.get(verb, [""])]
    assert headings == [" ".join(words) for words in parts]


def test_no_page_speaks_of_a_verb_that_does_not_exist():
    from gitflowstate.cli.app import VERBS

    known = {*VERBS, "VERB"}
    for page in PAGES:
        text = page.read_text("utf-8")
        spans = re.findall(r"`([^`\n]+)`", text) + [c for c, _, _ in sessions(page)]
        used = {v for s in spans for v in re.findall(r"\bgfs ([a-zA-Z]+)", s)}
        assert used <= known, f"{name(page)}: {used - known}"


def test_every_exit_code_is_documented():
    from gitflowstate import errors

    classes = [c for c in vars(errors).values() if isinstance(c, type)]
    codes = {0, *(c.code for c in classes if issubclass(c, errors.GfsError))}
    codes |= {errors.INTERNAL, errors.INTERRUPTED, errors.TERMINATED}
    table = re.findall(r"^\| (\d+) \|", read("reference/exit-codes.md"), re.MULTILINE)
    assert sorted(map(int, table)) == sorted(codes)
    names = {c.name for c in classes if issubclass(c, errors.GfsError)}
    assert {n for n in names if f"`{n}`" not in read("reference/exit-codes.md")} == set()


def test_every_variable_of_the_environment_is_documented():
    code = "".join(path.read_text("utf-8") for path in (ROOT / "gitflowstate").rglob("*.py"))
    used = set(re.findall(r"\b(?:GFS_[A-Z_]+|GITHUB_API_URL|NO_COLOR|SOURCE_DATE_EPOCH)\b", code))
    documented = set(re.findall(r"^\| `(\w+)` \|", read("reference/environment.md"), re.MULTILINE))
    assert used == documented


def test_every_field_of_every_document_is_documented():
    from gitflowstate import codec, cursors, model

    text = read("reference/documents.md")
    found = {**vars(model), **vars(cursors)}.values()
    classes = [c for c in found if isinstance(c, type) and c is not model.Value]
    for cls in (c for c in classes if issubclass(c, model.Value)):
        section = text.partition(f"\n## {cls.__name__}\n")[2].partition("\n## ")[0]
        rows = re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)
        assert rows == list(codec.fields(cls)), cls.__name__


def test_every_operation_and_trailer_is_documented():
    from gitflowstate import codec, inbox, message, ops, processops, union, watchops

    text = read("reference/commit-message.md")
    tables = re.findall(r"^\| Operation.*\n\|.*\n((?:\|.*\n)+)", text, re.MULTILINE)
    rows = dict(re.findall(r"^\| `([a-z ]+)` \|([^|]*)\|", "".join(tables), re.MULTILINE))
    common = codec.fields(ops.Op)
    every = union.BY_TAG | processops.BY_TAG | watchops.BY_TAG | inbox.BY_TAG
    assert rows.keys() == every.keys()
    for tag, op in every.items():
        own = [field for field in codec.fields(op) if field not in common]
        assert re.findall(r"`(\w+)`", rows[tag]) == own, tag
    assert set(common) <= set(re.findall(r"`(\w+)`", text))
    assert {t for t in message.TRAILERS if f"`{t}`" not in text} == set()


# ── promises ────────────────────────────────────────────────────────────────────────────────────


def test_each_promise_names_tests_that_exist():
    text = read("explanation/guarantees.md")
    rows = [line for line in text.split("\n") if line.startswith("| **")]
    assert len(rows) > 25
    for row in rows:
        _, promise, _, tests, _ = re.split(r" ?(?<!\\)\| ?", row, maxsplit=4)
        named = re.findall(r"\[(\w+)\]\((\S+)\)", tests)
        assert named, promise
        for test, file in named:
            code = (ROOT / "docs/explanation" / file).read_text("utf-8")
            assert re.search(rf"^def {test}\(", code, re.MULTILINE), f"{promise}: {test}"
