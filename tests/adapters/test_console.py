"""The console and its file: readable, replaced whole, and never somebody else's."""

import io
import os
import subprocess
import sys

import pytest

from gitflowstate import marker
from gitflowstate.adapters.board import Board
from gitflowstate.adapters.console import ConsoleChannel
from gitflowstate.delivery import Gone, NotSent, Refused
from gitflowstate.ports import Notice


def notice(revision=4, words="**Running**", flow="f-1", kind="status"):
    text = f"{marker.line(flow, kind, revision)}\n{words}"
    return Notice(flow, kind, revision, None, f"{flow} is running", text)


@pytest.fixture
def board(tmp_path):
    return Board("console", tmp_path, "STATUS.md")


def test_the_file_has_one_section_for_each_flow(board, tmp_path):
    status = board.add(notice())
    board.add(notice(flow="f-2"))
    board.add(notice(5, "**Done**", kind="final"))
    board.change(status, notice(5, "**Done** too"))
    assert (tmp_path / "STATUS.md").read_text("utf-8") == (
        "<!-- gfs:1 board of console -->\n\n"
        "*Kept by gitflowstate, which writes it anew: do not edit it.*\n\n"
        "## f-1\n\n"
        "<!-- gfs:1 message=status-1 in f-1 -->\n"
        "<!-- gfs:1 flow=f-1 kind=status rev=5 -->\n**Done** too\n<!-- gfs:1 end -->\n\n"
        "<!-- gfs:1 message=final-2 in f-1 -->\n"
        "<!-- gfs:1 flow=f-1 kind=final rev=5 -->\n**Done**\n<!-- gfs:1 end -->\n\n"
        "## f-2\n\n"
        "<!-- gfs:1 message=status-1 in f-2 -->\n"
        "<!-- gfs:1 flow=f-2 kind=status rev=4 -->\n**Running**\n<!-- gfs:1 end -->\n"
    )


@pytest.mark.req("R-TF-53")
def test_a_message_that_was_edited_by_hand_is_found_and_told_apart(board, tmp_path):
    board.add(notice())
    (before,) = board.find("f-1")
    path = tmp_path / "STATUS.md"
    path.write_text(path.read_text().replace("**Running**", "Walking"))
    (after,) = board.find("f-1")
    assert before.digest != after.digest
    assert (before.id, before.revision) == (after.id, after.revision)


def test_an_id_is_not_given_again_while_later_ones_are_there(board, tmp_path):
    first, second = board.add(notice()), board.add(notice(5, kind="waiting"))
    path = tmp_path / "STATUS.md"
    text = path.read_text()
    start, end = text.index("<!-- gfs:1 message=status-1"), text.index("<!-- gfs:1 message=waiting")
    path.write_text(text[:start] + text[end:])
    assert board.add(notice(6)) == "f-1/status-3"
    assert second == "f-1/waiting-2"
    with pytest.raises(Gone):
        board.change(first, notice(7))


@pytest.mark.parametrize(
    "content", [b"", b"# Mine\n", b"\xff\xfe", b"<!-- gfs:1 board of other -->\n", b"\n" * 9]
)
def test_a_file_that_something_else_wrote_is_left_alone(board, tmp_path, content):
    path = tmp_path / "STATUS.md"
    path.write_bytes(content)
    for act in (
        lambda: board.add(notice()),
        lambda: board.change("x", notice()),
        lambda: board.find("f-1"),
    ):
        with pytest.raises(Refused, match="not written by this channel"):
            act()
    assert path.read_bytes() == content
    assert [each.name for each in tmp_path.iterdir()] == ["STATUS.md"]


@pytest.mark.req("G8")
@pytest.mark.parametrize("link", ["file", "folder"])
def test_no_link_leads_out_of_the_folder(tmp_path, link):
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    inside.mkdir()
    outside.mkdir()
    if link == "file":
        (inside / "a").mkdir()
        (inside / "a" / "S.md").symlink_to(outside / "S.md")
    else:
        (inside / "a").symlink_to(outside)
    with pytest.raises(Refused, match="leads out of the folder"):
        Board("console", inside, "a/S.md").add(notice())
    assert list(outside.iterdir()) == []


@pytest.mark.req("G8")
def test_links_in_a_circle_are_refused(tmp_path):
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    for act in (Board.examine, lambda board: board.add(notice())):
        with pytest.raises((Refused, NotSent)):
            act(Board("console", tmp_path, "a/S.md"))


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir], ids=["pipe", "folder"])
def test_what_is_no_file_is_refused_and_not_waited_for(board, tmp_path, make):
    make(tmp_path / "STATUS.md")
    for act in (board.examine, lambda: board.add(notice())):
        with pytest.raises((Refused, NotSent)) as failed:
            act()
        assert make is os.mkdir or "not a regular file" in str(failed.value)
    assert [each.name for each in tmp_path.iterdir()] == ["STATUS.md"]


@pytest.mark.req("A3")
def test_what_cannot_be_written_leaves_the_old_file_and_nothing_else(board, tmp_path, monkeypatch):
    board.add(notice())
    before = (tmp_path / "STATUS.md").read_bytes()

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(NotSent, match="No space left"):
        board.add(notice(5))
    assert (tmp_path / "STATUS.md").read_bytes() == before
    assert [each.name for each in tmp_path.iterdir()] == ["STATUS.md"]


def test_the_folder_of_the_file_is_made(tmp_path):
    Board("console", tmp_path, "a/b/S.md").add(notice())
    assert (tmp_path / "a" / "b" / "S.md").exists()


def test_an_end_and_the_status_message_that_says_the_same_are_printed_once():
    printed = []
    channel = ConsoleChannel("console", show=printed.append)
    status = channel.post(notice())
    channel.post(notice(5, "**Done**", kind="final"))
    channel.edit(status, notice(5, "**Done**"))
    assert len(printed) == 2
    channel.edit(status, notice(6, "**Running** again"))
    channel.post(notice(6, "**Running** again"))
    assert len(printed) == 4


@pytest.mark.req("L25")
def test_it_prints_utf_8_whatever_the_locale_says():
    code = (
        "from gitflowstate.adapters.console import ConsoleChannel;"
        "from gitflowstate.ports import Notice;"
        "ConsoleChannel('console').post(Notice('f-1','final',1,None,'f-1 \\u00fc',"
        "'<!-- gfs:1 flow=f-1 kind=final rev=1 -->\\n**\\u6f22** \\\\* \\udcff'))"
    )
    run = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0"},
        capture_output=True,
        check=True,
    )
    assert run.stdout.decode() == "f-1 ü\n  漢 * \\udcff\n\n"
    assert run.stderr == b""


@pytest.mark.req("L25")
@pytest.mark.parametrize("gone", [True, False])
def test_what_cannot_be_printed_is_owed_still(monkeypatch, gone):
    out = io.TextIOWrapper(io.BytesIO())
    out.close()
    monkeypatch.setattr(sys, "stdout", None if gone else out)
    with pytest.raises(NotSent):
        ConsoleChannel("console").post(notice())


@pytest.mark.req("L25")
def test_what_the_file_holds_was_printed(board):
    printed, down = [], [True, False, True, False]

    def show(text):
        if down.pop(0):
            raise BrokenPipeError
        printed.append(text)

    channel = ConsoleChannel("console", board, show)
    with pytest.raises(NotSent):
        channel.post(notice())
    assert channel.find(notice(), None) == []
    message = channel.post(notice())
    with pytest.raises(NotSent):
        channel.edit(message, notice(5, "**Done**"))
    assert [each.revision for each in channel.find(notice(), None)] == [4]
    channel.edit(message, notice(5, "**Done**"))
    assert [each.revision for each in channel.find(notice(), None)] == [5]
    assert ["Done" in text for text in printed] == [False, True]


def test_what_the_file_does_not_take_is_not_printed(board, tmp_path):
    printed = []
    channel = ConsoleChannel("console", board, printed.append)
    with pytest.raises(Gone):
        channel.edit("f-1/status-1", notice())
    (tmp_path / "STATUS.md").write_text("# Mine\n")
    with pytest.raises(Refused):
        channel.post(notice())
    assert printed == []


@pytest.mark.req("L25")
def test_what_does_not_fit_on_the_disk_is_owed_still():
    code = (
        "import os\nfrom gitflowstate.adapters.console import ConsoleChannel\n"
        "from gitflowstate.delivery import NotSent\nfrom gitflowstate.ports import Notice\n"
        "try: ConsoleChannel('console').post(Notice('f-1', 'final', 1, None, 't', 'x'))\n"
        "except NotSent: os._exit(9)"
    )
    with open("/dev/full", "wb") as full:  # noqa: PTH123  a device
        run = subprocess.run([sys.executable, "-c", code], stdout=full, check=False)
    assert run.returncode == 9
