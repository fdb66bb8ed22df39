"""Hazards A2, A6, C8, C9, F10, L1 and L11 where several hosts share a remote: what must be there.

The command line throughout; hosts that write at once are processes of their own.
"""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import time
from contextlib import suppress
from pathlib import Path

import mounts
import pytest
from clirun import Cli, here
from fakes.gitservers import hook
from flowrepo import Lab, imported, put
from gitrepo import MAIN, child, code_of, fsck, git, loose, overwrite
from hostbench import main_of, only_forward, remote, subjects

from gitflowstate import cgit, documents, identity, runlocks
from gitflowstate.model import flow_path
from gitflowstate.processmodel import process_id


@pytest.fixture
def bare(tmp_path):
    return remote(tmp_path)


@pytest.fixture
def hosts(tmp_path, bare):
    """Two hosts and a flow, which end with one head, histories that replay, nothing forced."""
    made = [Cli(tmp_path / name) for name in ("one", "two")]
    assert here("init", made[0].folder, "--remote", bare).code == 0
    made[0]("create", "Compare", "--id", "f-1", "--next", "Read")
    assert here("clone", bare, made[1].folder).code == 0
    yield made
    for cli in made:
        cli("sync")
        assert cli.head == main_of(bare)
        cli("verify")
        assert cli.run("doctor").code == 0
        fsck(cli.gitdir)
    only_forward(bare)


def at_once(*works):
    """Run each in a process of its own, begun together; check that all succeed."""
    gate, opener = os.pipe()

    def act(work):
        os.close(opener)
        os.read(gate, 1)
        work()

    pids = [child(lambda work=work: act(work)) for work in works]
    os.close(gate)
    os.close(opener)
    assert [code_of(pid) for pid in pids] == [0] * len(works)


# ── a remote that refuses ───────────────────────────────────────────────────────────────────────


@pytest.mark.req("F10", "C8")
@pytest.mark.parametrize("name", ["update", "pre-receive"])
def test_f10_a_refused_push_is_no_success(bare, hosts, name):
    one, _ = hosts
    hook(bare, name, "exit 1")
    refs = git(one.gitdir, "for-each-ref")
    for words in (("note", "f-1", "x"), ("create", "New"), ("task", "add", "f-1", "T")):
        done = one.run(*words, "--json")
        assert done.code == 77, done
        assert done.error["message"].startswith("the remote refuses to move main")
        assert done.error["hint"]
    assert git(one.gitdir, "for-each-ref") == refs
    assert len(subjects(bare)) == 2
    (bare / "hooks" / name).unlink()


@pytest.mark.req("F10")
@pytest.mark.parametrize("name", ["update", "pre-receive"])
def test_f10_the_reason_of_a_hook_is_told_and_is_no_race_whatever_its_words(bare, hosts, name):
    one, _ = hosts
    hook(bare, name, "echo 'fetch first, unpack later: blocked by policy' >&2; exit 1")
    done = one.run("note", "f-1", "x", "--json")
    assert done.code == 77, done
    assert "fetch first, unpack later: blocked by policy" in done.error["message"]
    (bare / "hooks" / name).unlink()


@pytest.mark.req("F10")
def test_f10_a_remote_that_cannot_be_written_is_not_said_to_be_busy(bare, hosts, tmp_path):
    one, _ = hosts
    with mounts.mounted(tmp_path / "view", "--bind", bare) as view:
        mounts.remounted(view, "bind,ro")
        git(one.gitdir / "gfs/remote", "config", "remote.gfs.url", view)
        done = one.run("note", "f-1", "x", "--json")
        assert done.code == 77, done
        assert done.error["message"].startswith("the remote cannot be written")
    git(one.gitdir / "gfs/remote", "config", "remote.gfs.url", bare)


@pytest.mark.req("C9")
def test_c9_a_remote_at_a_path_has_its_hooks_run(bare, hosts):
    one, _ = hosts
    hook(bare, "update", f'echo "$1 $2 $3" >> {bare}/seen')
    before = main_of(bare)
    one("note", "f-1", "x")
    assert (bare / "seen").read_text().split() == [MAIN, before, main_of(bare)]


@pytest.mark.req("C9")
def test_c9_our_own_hook_at_the_remote_takes_what_we_push_and_nothing_made_by_hand(bare, hosts):
    one, two = hosts
    assert here("hooks", "install", "--repo", bare).code == 0
    two.run("note", "f-1", "queued", "--offline")
    one("note", "f-1", "x")
    two("sync")
    edit = put(flow_path("f-1"), {**two.flow("f-1"), "goal": "changed"})
    good = two.head
    imported(two.gitdir, edit)
    assert two.run("sync").code == 77
    two.git("branch", "kept", MAIN)  # what is kept so was not lost, as doctor sees it
    two.git("update-ref", MAIN, good)
    assert here("hooks", "remove", "--repo", bare).code == 0


@pytest.mark.req("F10")
def test_f10_what_the_remote_says_is_shown_and_kept_nowhere(bare, hosts):
    one, _ = hosts
    hook(bare, "pre-receive", "echo 'token=s3cr3t-of-the-server \x1b[31m' >&2; exit 1")
    done = one.run("note", "f-1", "x")
    assert done.code == 77
    assert "\x1b" not in done.err
    (bare / "hooks/pre-receive").unlink()
    one("note", "f-1", "y")
    for cli in hosts:
        assert b"s3cr3t" not in cli.every_object()


# ── what fails here is not put down to the remote ───────────────────────────────────────────────


@pytest.mark.req("A6")
def test_a_copy_that_cannot_be_written_is_read_and_the_reason_is_said(hosts, tmp_path):
    one, two = hosts
    one("note", "f-1", "x")
    with mounts.mounted(tmp_path / "view", "--bind", two.folder) as view:
        mounts.remounted(view, "bind,ro")
        done = here("show", "f-1", "--repo", view)
    assert done.code == 0, done
    assert "cannot be written here" in done.err
    assert "out of reach" not in done.err


@pytest.mark.req("A6")
def test_a_disk_that_is_full_here_is_told_as_that(bare, hosts, tmp_path):
    one, _ = hosts
    with mounts.in_memory(tmp_path / "small", "1m") as small:
        assert here("clone", bare, small / "three").code == 0
        one("note", "f-1", "x")
        with (small / "ballast").open("wb", buffering=0) as file, suppress(OSError):
            while True:
                file.write(bytes(512))
        done = here("show", "f-1", "--repo", small / "three")
    assert done.code == 0, done
    assert "no room here" in done.err
    assert "out of reach" not in done.err


@pytest.mark.req("A6", "D8")
def test_an_object_that_is_broken_here_is_no_fault_of_the_remote(hosts):
    one, two = hosts
    for number in range(3):
        one("note", "f-1", str(number))
    two("list")
    tree = git(two.gitdir, "rev-parse", "main^{tree}")
    path = loose(two, tree)
    good = path.read_bytes()
    overwrite(path, b"")
    one("note", "f-1", "x")
    done = two.run("note", "f-1", "y")
    assert done.code == 75, done
    assert "gfs doctor looks at this side" in done.err
    assert "out of reach" not in done.err
    assert tree in two.run("doctor").out
    overwrite(path, good)
    two("note", "f-1", "y")


# ── races ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.req("C8")
def test_c8_two_clones_write_at_once(bare, hosts, scale):
    count = scale(4)

    def write(cli):
        for number in range(count):
            done = cli.run("note", "f-1", f"{cli.folder.name} {number}")
            assert done.code == 0, done

    at_once(*[lambda cli=cli: write(cli) for cli in hosts])
    assert len(subjects(bare)) == 2 + 2 * count
    texts = {note["text"] for note in hosts[0].json("show", "f-1")["flow"]["notes"]}
    assert texts == {f"{name} {n}" for name in ("one", "two") for n in range(count)}


@pytest.mark.req("L1")
@pytest.mark.parametrize("which", ["named", "next"])
def test_l1_a_task_has_one_claimer_over_all_clones(hosts, tmp_path, which, scale):
    one, two = hosts
    for round_ in range(scale(1)):
        task = f"t{round_ + 1}"
        one("task", "add", "f-1", "Read", "--id", task)

        def claim(cli, number, task=task):
            words = [task] if which == "named" else ["--next"]
            done = cli.run("task", "claim", "f-1", *words, "--worker", f"w{number}", "--json")
            (tmp_path / f"{task}-{number}").write_text(f"{done.code} {done.out}")

        at_once(*[lambda n=n: claim((one, two)[n % 2], n) for n in range(4)])
        told = [(tmp_path / f"{task}-{n}").read_text().split(" ", 1) for n in range(4)]
        codes = sorted(int(code) for code, _ in told)
        assert codes == [0] + [4 if which == "named" else 8] * 3, told
        held = one.json("show", "f-1")["flow"]["children"][-1]["claim"]["worker"]
        for code, out in told:
            envelope = json.loads(out)
            named = envelope["data"]["worker"] if code == "0" else envelope["error"]["message"]
            assert which == "next" or held in named


@pytest.mark.req("C-12", "L1")
def test_l1_another_hosts_lock_file_proves_nothing(hosts):
    """A worker of this name is dead here, and may live there: only its time ends the claim."""
    one, two = hosts
    one("task", "add", "f-1", "Read", "--id", "t1")
    claimed = one.json("task", "claim", "f-1", "t1")
    assert "t1" not in two("recover", "f-1")
    words = ("recover", "f-1", "--task", "t1", "--decide", "retry", "--reason", "r")
    refused = two.run(*words)
    assert refused.code == 4, refused
    assert claimed["worker"] in refused.err


@pytest.mark.req("C-12", "L1")
def test_l1_what_may_start_once_is_not_started_offline(hosts, tmp_path):
    """Neither host could know that the other one has not started it as well."""
    one, _ = hosts
    effect = tmp_path / "effect"
    one("task", "add", "f-1", "Read", "--id", "t1")
    command = ("--", "sh", "-c", f"echo x >>{effect}")
    for named in (("--flow", "f-1", "--task", "t1"), ("--call-id", "once")):
        for cli in hosts:
            refused = cli.run("run", *named, *command, env={"GFS_OFFLINE": "1"})
            assert refused.code == 3, refused
            assert "run intend needs the remote" in refused.err
            assert not effect.exists()
            assert cli.json("inbox", "--peek")["events"] == []
        one("run", *named, *command)
        assert effect.read_text() == "x\n"
        again = one.run("run", *named, *command, env={"GFS_OFFLINE": "1"})
        assert again.code == (0 if "--call-id" in named else 3), again
        assert effect.read_text() == "x\n"
        effect.unlink()
    assert hosts[0].run("run", "--", "true", env={"GFS_OFFLINE": "1"}).code == 0


@pytest.mark.req("C-12", "A13")
def test_c12_a_host_of_the_same_name_and_another_boot_ends_nothing(hosts):
    """Of two hosts that have one name neither is the other one, started again."""
    one, two = hosts
    folder = one.folder.parent
    os.mkfifo(folder / "fifo")
    process = one.json("run", "--detach", "--", "cat", str(folder / "fifo"))["id"]
    lock = Path(runlocks.lock_path(one.gitdir, process))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(identity, "boot_id", lambda: "another")
        for words in (("sync",), ("inbox", "--all"), ("ps",)):
            assert two.run(*words).code == 0
        assert [row["state"] for row in two.json("ps")["processes"]] == ["running"]
        assert lock.exists()
    (folder / "fifo").write_text("x")
    while runlocks.is_held(lock):
        time.sleep(0.01)
    one.run("sync")


@pytest.fixture
def once(hosts):
    """Return a call that lasts until its pipe is written to, which is done at the end."""
    one, _ = hosts
    pipe = one.folder.parent / "pipe"
    os.mkfifo(pipe)
    yield ("run", "--call-id", "once", "--detach", "--json", "--", "cat", str(pipe))
    os.close(os.open(pipe, os.O_RDWR))  # which waits for nobody
    for cli in hosts:
        while runlocks.is_held(runlocks.lock_path(cli.gitdir, process_id("local", "once"))):
            time.sleep(0.01)
        cli.run("sync")


@pytest.mark.req("C-12", "R-TJ-03")
@pytest.mark.parametrize("how", ["in turn", "out of reach", "killed"])
def test_c12_a_call_that_another_clone_started_is_not_ended_by_a_repeat(hosts, bare, once, how):
    """Both clones are on one host, and only one of them has the lock of the process."""
    one, two = hosts
    if how == "out of reach":
        bare.rename(f"{bare}-away")
        assert two.run(*once).code == 75
        Path(f"{bare}-away").rename(bare)
    if how == "killed":  # it had taken its lock, and recorded nothing yet
        lock = runlocks.lock_path(two.gitdir, process_id("local", "once"))
        code = child(lambda: [runlocks.write_holder(runlocks.hold(lock), b'{"session": "local"')])
        assert code_of(code) == 0
    began = one.run(*once).data
    if how == "in turn":
        again = two.run(*once).data
        assert (again["id"], again["repeated"]) == (began["id"], True)
    two.run("sync")
    for cli in (two, one):
        assert cli.run("inbox", "--all").code == 0
        (row,) = cli.run("ps", "--json").data["processes"]
        assert row["state"] == "running"
    assert subjects(bare)[-1].startswith(f"{began['id']} run start")


@pytest.mark.req("C-12", "R-TJ-03")
def test_c12_of_two_clones_that_start_a_call_at_once_one_does(hosts, bare, once, tmp_path):
    one, two = hosts

    def start(cli):
        done = cli.process(*once)
        (tmp_path / f"{cli.folder.name}.json").write_text(done.out)
        assert done.code == 0, done

    at_once(*[lambda cli=cli: start(cli) for cli in hosts])
    told = [json.loads((tmp_path / f"{name}.json").read_text())["data"] for name in ("one", "two")]
    assert sorted(each["repeated"] for each in told) == [False, True]
    for cli in (two, one):
        cli.run("sync")
        assert cli.run("inbox", "--all").code == 0
        (row,) = cli.run("ps", "--json").data["processes"]
        assert row["state"] == "running"


def ended(cli, process):
    """Wait until the supervisor of a process has gone."""
    while runlocks.is_held(runlocks.lock_path(cli.gitdir, process)):
        time.sleep(0.01)


def states(cli):
    return {row["id"]: row["state"] for row in cli.run("ps", "--all", "--json").data["processes"]}


@pytest.mark.req("C-12", "R-TJ-12")
def test_the_end_of_a_detached_process_is_published(hosts, bare):
    one, two = hosts
    process = one.run("run", "--detach", "--json", "--", "false").data["id"]
    ended(one, process)
    assert states(two) == {process: "failed"}
    one("note", "f-1", "next")
    assert [s for s in subjects(bare) if "run settle" in s] == subjects(bare)[-2:-1]


@pytest.mark.req("X-40")
def test_an_inbox_tells_what_ended_on_another_host(hosts, bare):
    one, two = hosts
    mine = {"GFS_SESSION": "s"}

    def run():
        process = one.run("run", "--detach", "--json", "--", "true", env=mine).data["id"]
        ended(one, process)
        return process

    process = run()
    told = two.run("inbox", "--json", env=mine)
    assert told.envelope["remote"]["asked"]
    assert [event["event"] for event in told.data["events"]] == [process]
    assert two.run("inbox", "--ack-all", env=mine).code == 0
    later = run()
    bare.rename(f"{bare}-away")
    deaf = two.run("inbox", "--json", env=mine)
    assert (deaf.code, deaf.data["events"]) == (0, [])
    assert "this is what was known here" in deaf.err
    Path(f"{bare}-away").rename(bare)
    assert later in two("inbox", env=mine)


@pytest.mark.req("C-12", "R-TJ-12", "L1")
@pytest.mark.parametrize("moved", [False, True])
def test_an_end_that_is_queued_stops_no_writer(hosts, bare, tmp_path, moved):
    one, two = hosts
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    process = one.run("run", "--detach", "--json", "--", "cat", str(pipe)).data["id"]
    bare.rename(f"{bare}-away")
    pipe.write_text("x")
    ended(one, process)
    assert states(one) == {process: "completed"}
    Path(f"{bare}-away").rename(bare)
    if moved:
        two("note", "f-1", "meanwhile")
    one("note", "f-1", "next")
    assert states(two) == {process: "completed"}
    assert [s.split(":")[0] for s in subjects(bare)][-2:] == [
        f"{process} run settle", f"f-1 r{2 + moved} note",
    ]  # fmt: skip


@pytest.mark.req("C-12", "F10")
def test_what_a_person_queued_is_published_by_nobody_else(hosts, bare):
    one, _ = hosts
    head = main_of(bare)
    assert one.run("note", "f-1", "mine", env={"GFS_OFFLINE": "1"}).code == 0
    process = one.run("run", "--detach", "--json", "--", "true", env={"GFS_OFFLINE": "1"}).data
    ended(one, process["id"])
    assert states(one) == {process["id"]: "completed"}
    assert one.run("note", "f-1", "next").code == 4
    assert main_of(bare) == head


# ── killed ──────────────────────────────────────────────────────────────────────────────────────


WRITES = [
    ("create", "New", "--id", "f-2"),
    ("note", "f-1", "x"),
    ("task", "claim", "f-1", "t1"),
    ("done", "f-1", "--result", "r.md", "--cancel-children"),
]


@pytest.mark.req("A2")
@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("words", WRITES, ids=lambda words: " ".join(words[:2]))
def test_a2_killed_around_each_call_of_git_the_repeat_is_the_one(hosts, bare, words, after):
    one, two = hosts
    two("task", "add", "f-1", "Read", "--id", "t1")
    before = len(subjects(bare))
    killed = [_killed(one, number, (*words, "--key", "k"), after=after) for number in range(4)]
    assert killed[0]
    assert not killed[-1]
    done = one.run(*words, "--key", "k", "--json")
    assert done.code == 0, done
    assert done.data["repeated"] is True
    assert len(subjects(bare)) == before + 1
    two("note", "f-1", "alive") if words[0] != "done" else two("sync")


def _killed(cli, number, words, *, after):
    """Run a command in a child that dies around its call `number` of Git; tell whether it did."""

    def work():
        real, count = cgit.start, iter(range(1000))

        def start(*given, **options):
            last = next(count) == number
            if last and not after:
                os.kill(os.getpid(), signal.SIGKILL)
            ended = real(*given, **options)
            if last:
                os.kill(os.getpid(), signal.SIGKILL)
            return ended

        cgit.start = start
        done = here(*words, env={"GFS_REPO": str(cli.folder)})
        assert done.code == 0, done

    code = code_of(child(work))
    assert code in (0, -signal.SIGKILL)
    return code != 0


# ── a disk that lost something here ─────────────────────────────────────────────────────────────


def spoil(cli, name, data):
    """Write over the loose object that a revision names, or remove it; return its id."""
    oid = cli.git("rev-parse", name)
    path = cli.gitdir / "objects" / oid[:2] / oid[2:]
    if data is None:
        path.unlink()
    else:
        overwrite(path, data)
    return oid


NAMES = ("main", "main^{tree}", f"main:{flow_path('f-1')}", "main~1")
DAMAGE = (b"", b"garbage", None)


@pytest.mark.req("A6")
@pytest.mark.parametrize(
    ("name", "data"),
    [
        # One of each kind always, each with each in the long run.
        pytest.param(name, data, marks=[] if number % 3 == place % 3 else pytest.mark.long)
        for place, name in enumerate(NAMES)
        for number, data in enumerate(DAMAGE)
    ],
)
def test_a6_doctor_brings_from_the_remote_what_was_lost_here(hosts, name, data):
    one, _ = hosts
    one("note", "f-1", "x")
    one("note", "f-1", "y")
    oid = spoil(one, name, data)
    documents._memo.clear()  # as in a process of its own
    told = one.run("doctor")
    assert told.code == 1, told
    assert oid in told.out
    assert "from the remote" in told.out
    head = one.head
    assert one.run("doctor", "--fix").code == 0
    assert one.head == head
    assert not one.git("for-each-ref", "refs/gfs/rescued")
    assert "nothing is wrong" in one("doctor")
    one("note", "f-1", "z")


@pytest.mark.req("A6")
def test_a6_nothing_is_cut_off_that_the_remote_may_have(hosts, bare):
    one, _ = hosts
    one("note", "f-1", "x")
    head = one.head
    spoil(one, "main", b"")
    bare.rename(f"{bare}-away")
    told = one.run("doctor", "--fix")
    assert told.code == 1
    assert "not mended" in told.out
    assert one.head == head
    bare.with_name(f"{bare.name}-away").rename(bare)
    assert one.run("doctor", "--fix").code == 0


@pytest.mark.req("A6")
def test_a6_what_was_queued_here_alone_and_is_torn_is_cut_off_and_kept(hosts):
    one, _ = hosts
    good = one.head
    one.run("note", "f-1", "queued", "--offline")
    spoil(one, "main", b"")
    assert one.run("doctor", "--fix").code == 0
    assert one.head == good
    assert one.git("for-each-ref", "refs/gfs/rescued")


# ── which repositories can be a remote ──────────────────────────────────────────────────────────


@pytest.mark.req("L11")
@pytest.mark.parametrize("kind", ["bare", "made", "aside"])
def test_l11_a_remote_is_any_repository_whose_main_is_not_checked_out(tmp_path, kind):
    place = tmp_path / "there"
    if kind == "bare":
        git(tmp_path, "init", "-q", "--bare", place)
    elif kind == "made":
        assert here("init", place).code == 0
    else:
        git(tmp_path, "init", "-q", "-b", "other", place)
    cli = Cli(tmp_path / "host")
    assert here("init", cli.folder, "--remote", place).code == 0
    cli("create", "Do it", "--id", "f-1")
    assert git(place, "rev-parse", MAIN) == cli.head


@pytest.mark.req("L11")
def test_l11_one_whose_main_is_checked_out_is_refused_with_the_reason(tmp_path):
    place = tmp_path / "there"
    git(tmp_path, "init", "-q", "-b", "main", place)
    done = here("init", tmp_path / "host", "--remote", place)
    assert done.code == 77, done
    assert "checked out" in done.err
    assert not (tmp_path / "host").exists()


@pytest.mark.req("L11")
def test_l11_a_shallow_clone_is_no_remote_and_the_reason_is_said(tmp_path):
    lab = Lab(tmp_path / "flows")
    lab.create()
    cut = lab.clone("cut", "--depth=1", "--bare")
    done = here("clone", cut, tmp_path / "host")
    assert done.code == 3, done
    assert "shallow" in done.err
    lab.repo.close()


# ── what is pushed ──────────────────────────────────────────────────────────────────────────────


@pytest.mark.req("R-TF-06")
def test_nothing_that_is_pushed_tells_of_the_machine(bare, hosts, tmp_path, monkeypatch):
    """Every object at the remote: no host, no path, no user but the actors that were named."""
    monkeypatch.setenv("USER", "machineuser")
    monkeypatch.setenv("LOGNAME", "machineuser")
    one, two = hosts
    (tmp_path / "plan.json").write_text(json.dumps({"tasks": [{"id": "t1", "goal": "Read"}]}))
    one("plan", "f-1", tmp_path / "plan.json", "--as", "ann")
    assert one.run("work", "f-1", "--as", "ann", "--", "sh", "-c", "echo out/t1.md").code == 0
    two.run("note", "f-1", "queued", "--offline")
    one("note", "f-1", "x", "--key", "k1")
    two("sync")
    two("done", "f-1", "--result", "r.md", "--as", "ann")
    two("retry", "f-1", "--as", "ben")
    told = Cli(bare)
    told.gitdir = bare
    every = told.every_object().lower()
    named = {socket.gethostname(), socket.getfqdn(), str(tmp_path), str(Path.home()), "machineuser"}
    for word in named - {"localhost"}:
        # A short name may stand in the bytes of an id, or within another word.
        whole = rb"(?<![a-z0-9])" + re.escape(word.lower().encode()) + rb"(?![a-z0-9])"
        texts = [line for line in every.splitlines() if line.isascii() and b"\0" not in line]
        assert not [line for line in texts if re.search(whole, line)], word
    people = git(bare, "log", "--format=%an <%ae>%n%cn <%ce>", MAIN).splitlines()
    actors = {re.sub(r" <.*", "", person) for person in people}
    assert actors <= {"ann", "ben", "local", "gitflowstate"}
    assert all("@" not in person or person.endswith("localhost>") for person in people), people
