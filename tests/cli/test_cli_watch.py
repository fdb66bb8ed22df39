"""`gfs watch` and `gfs channel`, as people and timers use them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time

import pytest
from clirun import SCRIPT, heeding_signals
from flowrepo import Change, imported
from gitrepo import become_nobody, child, code_of, git, let_others_in
from samples import flow as made_flow

from gitflowstate.adapters import registry
from gitflowstate.cli.watch import rules_of, target_of
from gitflowstate.model import Link
from gitflowstate.settings import ChannelSettings

REF = "refs/gfs/cursors"
CONSOLE = '[channels.console]\nkind = "console"\nmin_interval = 0\n'
BOARD = '[channels.file]\nkind = "console"\nfile = "board.md"\nmin_interval = 0\n'
HOOK = """\
[channels.hook]
kind = "webhook"
target = "http://localhost:9/"
"""
SECRET = {"GFS_WEBHOOK_SECRET": "s"}


def configure(cli, *texts):
    """Push another gfs.toml, as a person does."""
    imported(cli.gitdir, Change("gfs.toml", "".join(texts).encode()), text=b"settings\n")


@pytest.fixture
def quick(flow):
    """The command line on a repository with the flow `plan`, and channels that never wait."""
    configure(flow, CONSOLE, BOARD, HOOK)
    return flow


# ── one pass ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.req("R-TF-40", "R-TF-41")
def test_one_pass_after_another(flow):
    """Without any gfs.toml there is the console."""
    first = flow("watch", "console", "--once")
    assert "Compare options" in first
    assert first.endswith("console: 1 sent\n")
    assert flow("watch", "console", "--once") == "console: nothing sent\n"
    flow("update", "plan", "--progress", "half way")
    assert flow("watch", "console", "--once") == "console: nothing sent, 1 flow owed\n"
    flow("done", "plan", "--result", "out.md")
    told = flow("watch", "console", "--once")
    assert "out.md" in told
    assert told.endswith("console: 2 sent\n")
    assert git(flow.gitdir, "log", "-1", "--format=%s", f"{REF}/console").startswith(
        "console advance"
    )
    flow("verify", "--strict")


def test_as_json_it_is_one_document(quick):
    result = quick.run("watch", "console", "--once", "--json")
    assert (result.code, result.data["sent"]) == (
        0,
        [{"flow": "plan", "kind": "status", "revision": 1, "message": "plan/status"}],
    )
    assert "Compare options" in result.err
    assert quick.json("watch", "console", "--once") == {
        "channel": "console", "sent": [], "owed": [], "parked": {}, "skipped": 0,
        "uncertain": 0, "failed": 0, "held_by": None, "silent_until": None, "warnings": [],
    }  # fmt: skip


def test_a_file_is_kept_with_one_message_for_each_flow(quick):
    quick("watch", "file", "--once")
    quick("update", "plan", "--progress", "half way")
    quick("watch", "file", "--once")
    text = (quick.folder / "board.md").read_text()
    assert text.count("kind=status") == 1
    assert "half way" in text
    quick("channel", "reset", "file")
    assert quick("watch", "file", "--once").endswith("file: 1 sent\n")
    assert (quick.folder / "board.md").read_text() == text


def test_a_preview_shows_the_messages_and_needs_no_token(quick):
    before = quick.state()
    told = quick("watch", "hook", "--dry-run")
    assert told.startswith("hook: 1 message would be sent; nothing was written\n")
    assert "── plan r1 status, new: plan is pending: Compare options" in told
    assert "<!-- gfs:1 flow=plan kind=status rev=1 -->" in told
    data = quick.json("watch", "hook", "--dry-run")
    assert data["planned"][0]["target"] == "http://localhost:9/"
    assert data["dry_run"]
    assert quick.state() == before
    assert not (quick.gitdir / "refs/gfs").exists()


def test_what_ended_long_ago_is_counted_and_can_be_sent(quick):
    quick("done", "plan", "--result", "out.md")
    old = git(quick.gitdir, "show", "main:archive/" + archived(quick))
    back = old.replace(time.strftime("%Y-", time.gmtime()), "2020-").replace(
        '"revision": 2', '"revision": 3'
    )
    imported(quick.gitdir, Change("archive/" + archived(quick), back.encode() + b"\n"))
    told = quick("watch", "console", "--once")
    assert told == "console: nothing sent, 1 had ended long ago (--backfill sends them)\n"
    assert quick("watch", "console", "--once", "--backfill").endswith("console: 1 sent\n")


def archived(cli):
    (path,) = cli.folder.glob("archive/*/plan.json")
    return str(path.relative_to(cli.folder / "archive"))


# ── what goes wrong ─────────────────────────────────────────────────────────────────────────────


def test_what_is_parked_is_exit_code_1_until_it_is_taken(quick):
    result = quick.run("watch", "hook", "--once", env=SECRET)
    assert result.code == 1
    assert "hook does not take what is about plan" in result.err
    assert "not public" in result.err
    told = quick.run("watch", "hook", "--once", "--json", env=SECRET)
    assert (told.code, list(told.error["details"]["parked"])) == (1, ["plan"])
    listed = quick("channel", "list")
    assert "hook (webhook): 1 flow owed\n  plan is not taken: " in listed
    configure(quick, HOOK, 'statuses = ["done"]\n')
    assert quick.run("watch", "hook", "--once", env=SECRET).code == 0


def test_what_could_not_be_sent_is_exit_code_75(quick):
    configure(quick, HOOK.replace("target", 'allow_addresses = ["127.0.0.1", "::1"]\ntarget'))
    result = quick.run("watch", "hook", "--once", env=SECRET)
    assert result.code == 75
    assert "1 message could not be sent" in result.err
    assert result.err.count("warning: the webhook cannot be reached") == 1
    assert "run the same command again" in result.err


def test_a_variable_that_is_missing_is_named_and_nothing_is_touched(quick):
    error = quick.refuses(77, "watch", "hook", "--once")
    assert error["details"]["variable"] == "GFS_WEBHOOK_SECRET"
    assert "GFS_WEBHOOK_SECRET" in error["hint"]
    error = quick.refuses(77, "channel", "check", "hook")
    assert "GFS_WEBHOOK_SECRET" in error["message"]


def test_a_channel_that_is_not_there(quick):
    for verb in (("watch", "nobody", "--once"), ("channel", "check", "nobody")):
        error = quick.refuses(5, *verb)
        assert "console, file, hook" in error["hint"]


def test_a_channel_that_is_wrong_costs_itself_alone(quick):
    configure(quick, CONSOLE, HOOK, 'colour = "red"\n')
    error = quick.refuses(3, "watch", "hook", "--once")
    assert "channels.hook.colour" in error["message"]
    assert quick("watch", "console", "--once").endswith("1 sent\n")
    listed = quick.run("channel", "list")
    assert "channel hook is not used" in listed.err
    assert "console (console): nothing owed" in listed.out


def test_a_policy_that_is_wrong_keeps_no_channel_silent(quick):
    configure(quick, CONSOLE, '[policy]\nstale_after = "2 h"\n')
    for verb in (("channel", "list"), ("channel", "check", "console"), ("watch", "console")):
        done = quick.run(*verb, *(("--once",) if verb[0] == "watch" else ()))
        assert "the policy is not used: gfs.toml: policy.stale_after" in done.err
    assert done.out.endswith("1 sent\n")


def test_options_that_exclude_each_other(quick):
    for argv in (("--once", "--every", "5"), ("--dry-run", "--every", "5"), ("--every", "soon")):
        quick.refuses(2, "watch", "console", *argv)


@pytest.mark.req("R-TF-46")
def test_a_second_watcher_leaves_with_0_and_says_who_holds_it(quick):
    """The hold is made by hand here: its watcher is at work elsewhere."""
    quick("watch", "console", "--once")
    cursor = json.loads(git(quick.gitdir, "show", f"{REF}/console:cursor.json"))
    until = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 200))
    cursor["hold"] = {"by": "another.12345678", "until": until}
    text = json.dumps(cursor, indent=2).encode() + b"\n"
    ref = f"{REF}/console"
    imported(quick.gitdir, Change("cursor.json", text), ref=ref, parents=(f"{ref}^0",))
    quick("done", "plan", "--result", "out.md")
    told = quick("watch", "console", "--once")
    assert told == "console: nothing sent, held by another.12345678\n"
    assert quick.json("watch", "console", "--once")["held_by"] == "another.12345678"
    error = quick.refuses(4, "channel", "reset", "console")
    assert "another.12345678" in error["message"]


# ── channels ────────────────────────────────────────────────────────────────────────────────────


def test_the_channels_and_what_they_are_owed(quick):
    assert quick("channel", "list") == (
        "console (console): not begun; gfs watch console --once begins it\n"
        "file (console): not begun; gfs watch file --once begins it\n"
        "hook (webhook): not begun; gfs watch hook --once begins it\n"
    )
    quick("watch", "console", "--once")
    quick("update", "plan", "--progress", "on")
    data = quick.json("channel", "list")
    console, file, _ = data["channels"]
    assert (console["owed"], console["parked"], file["begun"]) == (["plan"], {}, False)


@pytest.mark.parametrize(("seconds", "silent"), [(900, True), (-900, False), (400 * 86_400, False)])
def test_the_list_names_a_silence_that_the_watcher_keeps_and_no_other(quick, seconds, silent):
    quick("watch", "console", "--once")
    ref = f"{REF}/console"
    cursor = json.loads(git(quick.gitdir, "show", f"{ref}:cursor.json"))
    until = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + seconds))
    cursor["budget"] = {"until": until, "reason": "x", "tries": 1}
    text = json.dumps(cursor, indent=2).encode() + b"\n"
    imported(quick.gitdir, Change("cursor.json", text), ref=ref, parents=(f"{ref}^0",))
    listed = quick.json("channel", "list")["channels"][0]
    assert listed["silent_until"] == (until if silent else None)
    assert ("silent until" in quick("channel", "list")) == silent
    assert ("silent until" in quick("watch", "console", "--once")) == silent


def test_a_flow_without_a_link_is_passed_over_by_a_channel_without_a_target(quick):
    configure(quick, '[channels.github]\nkind = "github"\n')
    environ = {"GFS_GITHUB_TOKEN": "x", "GITHUB_API_URL": "http://127.0.0.1:9"}
    told = quick("watch", "github", "--once", env=environ)
    assert told == "github: nothing sent\n"
    assert quick("channel", "list").splitlines()[-1] == "github (github): nothing owed"
    quick("update", "plan", "--link", "issue=octo/hello#12")
    assert quick.run("watch", "github", "--once", env=environ).code == 75


@pytest.mark.parametrize(
    ("held", "said"), [("garbage", "does not hold a commit id"), ("1" * 40, "is missing")]
)
def test_a_cursor_that_cannot_be_read_costs_itself_alone(quick, held, said):
    quick("watch", "console", "--once")
    (quick.gitdir / REF / "console").write_text(f"{held}\n")
    first, *rest = quick("channel", "list").splitlines()
    assert first == "console (console): its cursor cannot be read"
    assert said in rest[0]
    assert rest[-1].startswith("hook (webhook): not begun")


def test_a_check_reads_the_file_of_a_channel(quick):
    assert "its file holds 0 messages" in quick("channel", "check", "file")
    quick("watch", "file", "--once")
    assert "its file holds 1 message\n" in quick("channel", "check", "file")
    (quick.folder / "board.md").write_text("of somebody else\n")
    error = quick.refuses(1, "channel", "check", "file")
    assert "was not written by this channel" in error["message"]


def test_a_check_sends_nothing(quick):
    before = quick.state()
    assert quick("channel", "check", "console") == (
        "console (console) can be used; it edits its messages and cannot be searched: "
        "a message may come twice\n"
    )
    assert "finds them again" in quick("channel", "check", "file")
    data = quick.json("channel", "check", "hook", env=SECRET)
    assert (data["edits"], data["searches"], data["begun"]) == (True, False, False)
    assert quick.state() == before


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become nobody")
def test_a_check_says_that_the_cursor_cannot_be_kept(quick):
    let_others_in(quick.gitdir)
    environ = {"GFS_TRUST": f"{quick.folder}:{quick.gitdir}", "PYTHONDONTWRITEBYTECODE": "1"}

    def work():
        become_nobody()
        assert not os.access(quick.gitdir, os.W_OK)
        error = quick.refuses(77, "channel", "check", "console", env=environ)
        assert "its cursor cannot be kept" in error["message"]
        quick.refuses(77, "watch", "console", "--once", env=environ)

    assert code_of(child(work)) == 0


def test_a_reset_begins_anew(quick):
    quick.refuses(5, "channel", "reset", "console")
    quick("watch", "console", "--once")
    assert quick("channel", "reset", "console").startswith("console begins anew")
    assert quick("watch", "console", "--once").endswith("console: 1 sent\n")
    assert quick("watch", "console", "--once") == "console: nothing sent\n"
    subjects = git(quick.gitdir, "log", "--format=%s", f"{REF}/console").splitlines()
    assert sum("begin" in subject for subject in subjects) == 2


# ── a watcher that stays ────────────────────────────────────────────────────────────────────────


class Staying:
    """A watcher in a process of its own."""

    def __init__(self, cli, *argv, env=None):
        self.err = cli.folder.parent / "err"
        environ = os.environ | {"GFS_REPO": str(cli.folder)} | (env or {})
        with self.err.open("wb") as err, heeding_signals():
            self.process = subprocess.Popen(
                [SCRIPT, "watch", *argv], env=environ, stdout=subprocess.DEVNULL, stderr=err
            )

    def says(self, text):
        """Wait until it said something on stderr."""
        for _ in range(600):
            if text in self.err.read_text():
                return
            assert self.process.poll() is None, self.err.read_text()
            time.sleep(0.05)
        raise AssertionError(self.err.read_text())

    def end(self, number=signal.SIGTERM):
        """End it; return its exit code."""
        self.process.send_signal(number)
        self.process.wait(timeout=30)
        return self.process.returncode


def test_a_watcher_that_stays_survives_what_fails(quick):
    staying = Staying(quick, "console", "--every", "1")
    try:
        staying.says("console: 1 sent")
        configure(quick, "nonsense")
        staying.says("warning: console: gfs.toml is not TOML")
        configure(quick, CONSOLE)
        quick("done", "plan", "--result", "out.md")
        staying.says("console: 2 sent")
        (quick.gitdir / REF / "console").write_text("odd")
        quick("create", "More", "--id", "more")
        staying.says("does not hold a commit id")
    finally:
        code = staying.end()
    assert code == 143


def test_without_a_time_it_stays_as_gfs_toml_says(quick):
    configure(quick, CONSOLE, "every = 1\n")
    staying = Staying(quick, "console")
    try:
        staying.says("console: 1 sent")
        quick("update", "plan", "--progress", "on")
        staying.says("Z console: 1 sent\n2")
    finally:
        code = staying.end(signal.SIGINT)
    assert code == 130


def test_a_watcher_that_was_mistyped_or_may_not_send_does_not_stay(quick):
    for name, code in (("nobody", 5), ("hook", 77)):
        assert quick.process("watch", name, "--every", "1").code == code
    configure(quick, "nonsense")
    assert quick.process("watch", "console", "--every", "1").code == 3


def test_how_long_a_message_may_be_is_known_before_a_channel_is_made():
    modules = {
        kind: pytest.importorskip(f"gitflowstate.adapters.{kind}") for kind in registry.KINDS
    }
    assert {kind: registry.LIMITS[kind] for kind in modules} == {
        kind: module.LIMIT for kind, module in modules.items()
    }


def test_where_a_message_goes():
    linked = made_flow(
        links=(Link(rel="report", href="r.md"), Link(rel="issue", href="ann/flows#12"))
    )
    anywhere = ChannelSettings("github")
    somewhere = anywhere._replace(target="ann/flows#1")
    chat = ChannelSettings("slack", target="C01")
    assert [target_of(each)(linked) for each in (anywhere, somewhere, chat)] == [
        "ann/flows#12", "ann/flows#12", "C01",
    ]  # fmt: skip
    assert [target_of(each)(made_flow()) for each in (anywhere, somewhere, chat)] == [
        None, "ann/flows#1", "C01",
    ]  # fmt: skip
    assert [rules_of(each).linked for each in (anywhere, somewhere, chat)] == [True, False, False]
    assert (rules_of(anywhere).per_hour, rules_of(chat).per_hour) == (400, None)
