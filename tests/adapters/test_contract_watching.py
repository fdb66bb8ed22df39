"""The requirements of the watcher, on every channel: one contract for what people get (R-TF-50)."""

import pytest
from fakes import worlds
from flowrepo import Lab
from gitrepo import MAIN
from watchbench import Clock

from gitflowstate import marker
from gitflowstate.cursorstore import CursorStore, verify
from gitflowstate.due import Rules
from gitflowstate.ops import Reopen, Resume, Wait
from gitflowstate.reports import Settings
from gitflowstate.snapshot import Snapshot
from gitflowstate.watcher import Watcher

pytestmark = pytest.mark.req("R-TF-50")

NAME = "any"
REF = f"refs/gfs/cursors/{NAME}"


class Watched:
    """Flows, a channel of a world, and passes of a watcher between them."""

    def __init__(self, world, folder):
        self.world = world
        self.lab = Lab(folder / "flows")
        self.clock = getattr(world, "clock", None) or Clock()
        self.can = world.channel().capabilities
        self.passes = 0

    def watch(self, channel=None, **how):
        self.passes += 1
        fields = {name: how.pop(name) for name in ("skew_s", "backfill") if name in how}
        settings = Settings(NAME, "watch", f"w{self.passes}", rules=Rules(**how), **fields)
        snapshot = Snapshot(self.lab.repo, self.lab.repo.ref(MAIN))
        cursors = CursorStore(self.lab.repo, NAME)
        opened = channel or self.world.channel
        report = Watcher(settings, snapshot, cursors, lambda _: opened(), self.clock).run()
        self.clock.move(1)
        return report

    def told(self, **how):
        return [(each.kind, each.revision) for each in self.watch(**how).told]

    def receipt(self, flow="f-1"):
        return CursorStore(self.lab.repo, NAME).delivery(flow)

    def later(self, seconds=600):
        self.clock.move(seconds)

    def settle(self):
        """Make passes until nothing is owed, far enough apart for every hold and look."""
        for _ in range(5):
            self.later(700)
            report = self.watch()
            if not (report.owed or report.uncertain):
                return
        raise AssertionError(report)

    def count(self, posted, printed):
        """Check how many messages people have; where an edit is printed anew, how often."""
        exact = posted if self.can.edits and type(self.world) is not worlds.Console else printed
        assert len(self.world.seen()) == exact

    def sound(self):
        assert verify(self.lab.repo, self.lab.repo.ref(REF), NAME).problems == []
        self.lab.sound()


@pytest.fixture
def watched(world, tmp_path):
    made = Watched(world, tmp_path)
    made.lab.create()
    assert made.told() == [("status", 1)]
    made.later()
    yield made
    made.sound()
    made.lab.repo.close()


@pytest.mark.req("R-TF-40")
def test_a_revision_that_was_reported_is_not_reported_again(watched):
    assert watched.told() == []
    watched.lab.update("one")
    assert watched.told() == [("status", 2)]
    assert watched.receipt().revision == 2
    assert watched.told() == []
    watched.count(posted=1, printed=2)


@pytest.mark.req("R-TF-41")
@pytest.mark.parametrize("fault", ["refused", "wait", "unreachable", worlds.LOST])
def test_a_receipt_comes_after_the_message_and_only_then(watched, fault):
    if fault not in watched.world.faults:
        pytest.skip("this kind of channel does not fail so")
    if fault == "unreachable" and isinstance(watched.world, worlds.Served):
        pytest.skip("the server that was stopped does not come back")
    watched.lab.done()
    watched.world.fail(fault)
    report = watched.watch()
    acknowledged = watched.receipt().terminal_revision is not None
    assert acknowledged == (("final", 2) in [(each.kind, each.revision) for each in report.told])
    assert acknowledged or "f-1" in report.owed
    watched.world.seen()  # what stood in the way is gone
    watched.settle()
    assert watched.receipt().terminal_revision == 2


@pytest.mark.req("R-TF-42")
def test_revisions_between_two_passes_are_one_message(watched):
    for words in ("five", "six", "seven"):
        watched.lab.update(words)
    assert watched.told() == [("status", 4)]
    assert watched.receipt().revision == 4
    watched.count(posted=1, printed=2)
    assert "seven" in watched.world.seen()[-1]
    assert not any("five" in each or "six" in each for each in watched.world.seen())


@pytest.mark.req("R-TF-43")
def test_the_interval_between_two_updates_is_kept(watched):
    watched.lab.update("one")
    assert watched.told(interval_s=110) == [("status", 2)]
    watched.lab.update("two")
    watched.later(60)
    assert watched.told(interval_s=110) == []
    watched.later(50)
    assert watched.told(interval_s=110) == [("status", 3)]
    watched.lab.update("three")
    assert watched.told(interval_s=0) == [("status", 4)]


@pytest.mark.req("R-TF-44", "R-TF-45")
def test_an_end_is_told_though_the_flow_is_archived_and_the_cursor_is_lost(watched):
    watched.lab.update("one")
    watched.lab.done()
    told = watched.told()
    assert [kind for kind, _ in told].count("final") == 1
    watched.lab.create("f-2")
    watched.lab.done("f-2")
    assert ("final", 2) in watched.told()
    assert watched.receipt("f-2").terminal_revision is not None
    before = len(watched.world.seen())
    if watched.can.searches:
        (watched.lab.gitdir / REF).unlink()
        watched.later()
        watched.settle()
        assert len(watched.world.seen()) == before


@pytest.mark.req("R-TF-44")
def test_an_end_comes_once_the_channel_takes_messages_again(watched):
    fault = "refused"
    if fault not in watched.world.faults:
        pytest.skip("this kind of channel refuses nothing")
    watched.lab.done()
    for _ in range(3):
        watched.world.fail(fault)
        watched.watch()
        watched.world.seen()  # what stood in the way is gone
        watched.later(90_000)
    watched.settle()
    assert watched.receipt().terminal_revision == 2


@pytest.mark.req("R-TF-46")
def test_a_second_watcher_sends_nothing(watched):
    watched.lab.done()
    channel, others = watched.world.channel(), []

    class Slow:
        """The channel, with another watcher that comes while it sends."""

        name, capabilities = channel.name, channel.capabilities
        edit, digest, find, close = channel.edit, channel.digest, channel.find, channel.close

        def post(self, about):
            others.append(watched.watch())
            return channel.post(about)

    watched.watch(Slow)
    assert [other.held_by for other in others] == ["w2"]
    assert [other.told for other in others] == [()]
    assert watched.told() == []


@pytest.mark.req("R-TF-47", "R-TF-48")
def test_a_watcher_changes_no_flow_and_infers_nothing(watched):
    watched.lab.update("as far as it got")
    before = watched.lab.repo.ref(MAIN)
    watched.later(90_000)
    watched.watch()
    watched.watch()
    assert watched.lab.repo.ref(MAIN) == before
    assert "as far as it got" in watched.world.seen()[-1]


@pytest.mark.req("R-TF-51")
def test_people_see_what_waits_and_for_whom(watched):
    watched.lab.commit(Wait, reason="Which region?", until="a choice", on="human")
    told = watched.told()
    assert ("waiting", 2) in told
    assert "Which region?" in "".join(watched.world.seen())
    watched.lab.commit(Resume)
    watched.later()
    watched.lab.commit(Wait, reason="And now?", until="another", on="human", at=watched.clock.now())
    assert ("waiting", 4) in watched.told()


@pytest.mark.req("R-TF-44")
def test_the_next_end_of_a_reopened_flow_is_told_again(watched):
    watched.lab.done()
    assert ("final", 2) in watched.told()
    watched.lab.commit(Reopen, reason="not yet", next="on")
    watched.later()
    watched.watch()
    watched.lab.done()
    assert [kind for kind, _ in watched.told()].count("final") == 1


@pytest.mark.req("R-TF-52", "R-TF-53")
def test_a_message_whose_receipt_was_lost_comes_at_most_once_more(watched):
    watched.lab.done()
    channel = watched.world.channel()

    class Dies:
        """The channel, and the end of its watcher right after a message."""

        name, capabilities = channel.name, channel.capabilities
        edit, digest, find, close = channel.edit, channel.digest, channel.find, channel.close

        def post(self, about):
            channel.post(about)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        watched.watch(Dies)
    watched.settle()
    finals = sum("done" in each.lower() for each in _final(watched))
    assert 1 <= finals <= (1 if watched.can.searches or watched.can.idempotent else 2)


def _final(watched):
    """Return the messages about the end, as far as the world keeps markers; else all new ones."""
    marked = [each for each in watched.world.seen() if "kind=final" in each]
    return marked or watched.world.seen()[1:]


def test_the_marker_of_every_message_is_its_first_line_where_it_is_kept(watched):
    watched.lab.done()
    watched.watch()
    if watched.world.exact:
        marks = [marker.read(each) for each in watched.world.seen()]
        assert [mark.flow for mark in marks if mark] == ["f-1"] * len(marks)
