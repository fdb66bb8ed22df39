"""`gfs init --remote`, `clone`, `sync`, `where`, `--offline`: what a person and an agent see."""

from __future__ import annotations

import json
import re
import shutil

import pytest
from clirun import Cli, here
from flowrepo import Change, imported
from gitrepo import MAIN, fsck, git
from hostbench import main_of, remote, subjects
from jsonschema import Draft202012Validator

from gitflowstate import schemata
from gitflowstate.adapters import transport

FIRST = "2ef7b4f47bc5"


@pytest.fixture
def bare(tmp_path):
    return remote(tmp_path)


def joined(folder, bare, *options):
    done = here("init", folder, "--remote", bare, *options)
    assert (done.code, done.err) == (0, ""), done
    return Cli(folder)


def cloned(folder, bare, *options):
    done = here("clone", bare, folder, *options)
    assert (done.code, done.err) == (0, ""), done
    return Cli(folder)


@pytest.fixture
def one(tmp_path, bare):
    cli = joined(tmp_path / "one", bare)
    cli("create", "Do it", "--id", "f-1")
    return cli


@pytest.fixture
def two(tmp_path, bare, one):
    return cloned(tmp_path / "two", bare)


def something_else(bare):
    imported(bare, Change("README", b"x"), parents=())


def fits(result):
    """Judge what --json printed by the schema of the envelope."""
    Draft202012Validator(schemata.json_schema("envelope")).validate(json.loads(result.out))
    return result.envelope


# ── how it begins ───────────────────────────────────────────────────────────────────────────────


def test_init_begins_at_an_empty_remote_with_the_commit_that_is_the_same_everywhere(tmp_path, bare):
    one = joined(tmp_path / "one", bare)
    local = Cli(tmp_path / "local")
    assert here("init", tmp_path / "local").code == 0
    assert main_of(bare) == one.head == local.head
    assert main_of(bare).startswith(FIRST)


def test_init_again_is_harmless_and_says_the_same(tmp_path, bare, one):
    before = one.state()
    joined(tmp_path / "one", bare)
    assert one.state() == before
    error = here("init", tmp_path / "one", "--remote", tmp_path / "other.git")
    assert error.code == 3
    assert "has a remote already" in error.err


def test_init_with_a_remote_in_a_work_tree_and_in_a_folder_with_files(tmp_path, bare):
    git(tmp_path, "init", "-q", "work")
    done = here("init", "--remote", bare, cwd=tmp_path / "work")
    assert (done.code, done.err) == (0, ""), done
    assert ".gfs" in (tmp_path / "work/.git/info/exclude").read_text()
    assert git(tmp_path / "work", "status", "--porcelain") == ""
    (tmp_path / "full").mkdir()
    (tmp_path / "full/x").write_text("x")
    assert joined(tmp_path / "full", bare).head == main_of(bare)


def test_init_without_naming_the_remote_again_asks_nobody(bare, one):
    shutil.rmtree(bare)
    assert here("init", one.folder).code == 0


def test_a_workflow_is_published_with_it(tmp_path, bare):
    one = joined(tmp_path / "one", bare, "--github")
    assert "gfs-watch.yml" in git(bare, "ls-tree", "-r", "--name-only", MAIN)
    assert one.head == main_of(bare)


def test_a_host_is_no_remote_of_others(tmp_path, bare, one):
    """What is pushed to a copy is not at the remote, and the copy could not go on."""
    head = one.head
    alone = Cli(tmp_path / "alone")
    assert here("init", alone.folder).code == 0
    for words in (
        ("clone", one.folder, tmp_path / "a"),
        ("init", tmp_path / "b", "--remote", f"file://{one.folder}"),
        ("init", alone.folder, "--remote", one.folder),
    ):
        done = here(*words)
        assert done.code == 3, done
        assert "through a remote" in done.err
    assert "remote" not in alone.json("where")
    assert one.head == head


def test_a_wrong_url_is_not_kept(tmp_path, bare):
    alone = Cli(tmp_path / "alone")
    assert here("init", alone.folder).code == 0
    something_else(bare)
    for url, code in ((tmp_path / "typo.git", 5), (bare, 3)):
        done = here("init", alone.folder, "--remote", url)
        assert done.code == code, done
        assert alone.json("where").get("remote") is None
        assert not [*alone.gitdir.glob("gfs/remote*")]
    alone("create", "Alone", "--id", "f-9")


@pytest.mark.parametrize("moved", ["whole", "empty"])
def test_a_remote_that_moved_is_named_anew(tmp_path, bare, one, two, moved):
    two.run("note", "f-1", "queued", "--offline")
    git(two.gitdir / "gfs/remote", "config", "core.sshCommand", "ssh -4")
    other = tmp_path / "other.git"
    if moved == "whole":
        bare.rename(other)
    else:
        shutil.rmtree(bare)
        git(tmp_path, "init", "-q", "--bare", other)
    for cli in (two, one):
        joined(cli.folder, other)
        joined(cli.folder, other)
        assert cli.json("where")["remote"] == str(other)
        assert cli.head == main_of(other)
    one("note", "f-1", "on")
    assert one.flow("f-1")["revision"] == 3
    assert "core.sshcommand" in git(two.gitdir / "gfs/remote", "config", "--name-only", "--list")


def test_a_url_that_never_answered_is_named_anew(tmp_path, bare, one):
    alone = Cli(tmp_path / "alone")
    assert here("init", alone.folder).code == 0
    transport.attach(alone.gitdir, str(tmp_path / "typo.git"))
    assert alone.run("create", "Alone").code == 75
    joined(alone.folder, bare)
    assert alone.head == main_of(bare)


def test_init_takes_over_what_is_there(tmp_path, bare, one):
    two = joined(tmp_path / "two", bare)
    assert two.head == one.head
    assert two.flow("f-1")["goal"] == "Do it"
    assert git(bare, "rev-list", "--count", "--max-parents=0", MAIN) == "1"


def test_init_gives_a_remote_to_flows_that_were_alone(tmp_path, bare):
    alone = Cli(tmp_path / "alone")
    assert here("init", alone.folder).code == 0
    alone("create", "Alone", "--id", "f-9")
    joined(alone.folder, bare)
    assert main_of(bare) == alone.head
    assert alone.json("where")["ahead"] == 0


def test_init_joins_flows_that_were_alone_to_others(tmp_path, bare, one):
    alone = Cli(tmp_path / "alone")
    assert here("init", alone.folder).code == 0
    alone("create", "Alone", "--id", "f-9")
    alone("create", "Taken", "--id", "f-1")
    tip = alone.head
    done = here("init", alone.folder, "--remote", bare, "--json")
    assert done.code == 4  # as sync says it
    told = done.error["details"]
    refused = [each for each in told["operations"] if each["refused"]]
    assert [each["flow"] for each in refused] == ["f-1"]
    assert alone.flow("f-1")["goal"] == "Do it"
    assert alone.flow("f-9")["goal"] == "Alone"
    assert main_of(bare) == alone.head
    assert git(alone.gitdir, "rev-parse", told["kept"]) == tip
    joined(alone.folder, bare)


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("loss", ["folder", "config", "emptied"])
def test_a_clone_that_lost_its_way_decides_nothing_by_itself(bare, one, two, loss, packed):
    """Else both would be the one that decides, and each task would have two winners."""
    one("note", "f-1", "meanwhile")
    if packed:
        two.git("pack-refs", "--all")
    if loss == "folder":
        shutil.rmtree(two.gitdir / "gfs")
    elif loss == "config":
        (two.gitdir / "gfs/remote/config").unlink()
    else:
        (two.gitdir / "gfs/remote/config").write_text("")
    head = two.git("rev-parse", MAIN)
    for words in (("note", "f-1", "x"), ("note", "f-1", "x", "--offline"), ("show", "f-1")):
        done = two.run(*words)
        assert done.code == 6, done
        assert f"gfs init {two.folder} --remote URL" in done.err
    assert two.git("rev-parse", MAIN) == head
    joined(two.folder, bare)
    two("note", "f-1", "on")
    assert two.head == main_of(bare)
    assert two.flow("f-1")["revision"] == 3


def test_a_clone_reads_and_writes(bare, one, two):
    assert two.json("show", "f-1")["flow"]["goal"] == "Do it"
    assert two("update", "f-1", "--progress", "half") == "f-1 r2 running\n"
    assert "progress:    half" in one("show", "f-1")
    assert one.flow("f-1")["progress"] == "half"  # the plain files as well
    assert one("note", "f-1", "seen") == "f-1 r3 running\n"
    for cli in (one, two):
        cli("verify")
        fsck(cli.gitdir)
    assert one.json("where")["head"] == two.json("where")["head"] == main_of(bare)


@pytest.mark.parametrize(
    ("prepare", "code", "said"),
    [
        (bool, 5, "has no main"),
        (shutil.rmtree, 5, "does not appear to be a git repository"),
        (something_else, 3, "something else than flows"),
    ],
)
def test_what_cannot_be_cloned_leaves_nothing(tmp_path, bare, prepare, code, said):
    prepare(bare)
    done = here("clone", bare, tmp_path / "new")
    assert done.code == code, done
    assert said in done.err
    assert not (tmp_path / "new").exists()


def test_init_never_touches_a_remote_that_holds_something_else(tmp_path, bare):
    something_else(bare)
    before = main_of(bare)
    done = here("init", tmp_path / "new", "--remote", bare)
    assert done.code == 3, done
    assert main_of(bare) == before


def test_a_folder_with_anything_in_it_is_not_cloned_into(tmp_path, bare, one):
    (tmp_path / "full").mkdir()
    (tmp_path / "full/x").write_text("x")
    assert here("clone", bare, tmp_path / "full").code == 3
    assert [path.name for path in (tmp_path / "full").iterdir()] == ["x"]
    assert here("clone", bare, one.folder).code == 3


@pytest.mark.parametrize("verb", [("clone",), ("init", "--remote")])
def test_credentials_are_not_taken_in_a_url(tmp_path, verb):
    url = "https://me:s3cret@example.invalid/x"
    done = here(*verb, url, tmp_path / "new")
    assert done.code == 2
    assert "GFS_GIT_TOKEN" in done.err
    assert "s3cret" not in done.err


# ── offline ─────────────────────────────────────────────────────────────────────────────────────


def test_what_is_written_offline_is_queued_and_every_answer_says_so(bare, one, two):
    head = main_of(bare)
    done = two.run("note", "f-1", "queued", "--offline", "--json")
    told = fits(done)["remote"]
    assert (told["asked"], told["queued"]) == (False, 1)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", told["as_of"])
    said = two.run("note", "f-1", "again", env={"GFS_OFFLINE": "1"})
    assert (said.code, said.out) == (0, "f-1 r3 pending\n")
    assert "2 are queued; gfs sync" in said.err
    assert "was not asked; it last answered" in said.err
    shown = two.run("show", "f-1", env={"GFS_OFFLINE": "1"})
    assert "again" in shown.out
    assert "last answered" in shown.err
    online = two.run("show", "f-1", "--json")
    assert fits(online)["remote"]["queued"] == 2
    assert online.envelope["remote"]["asked"] is True
    assert main_of(bare) == head
    where = two.run("where", "--json").data
    assert (where["ahead"], where["behind"]) == (2, 0)
    assert where["remote"] == str(bare)


def test_while_something_is_queued_nothing_else_is_published(one, two):
    two.run("note", "f-1", "queued", "--offline")
    error = two.run("note", "f-1", "now", "--json")
    assert error.code == 4
    assert fits(error)["error"]["details"]["next"] == ["gfs", "sync"]
    assert error.envelope["remote"]["queued"] == 1


@pytest.mark.parametrize(
    "words",
    [
        ("task", "claim", "f-1", "t1"),
        ("task", "claim", "f-1", "--next"),
        ("take", "f-1", "--reason", "r", "--as", "bob"),
        ("work", "f-1", "--", "true"),
        ("watch", "console", "--once"),
    ],
)
def test_what_needs_the_remote_is_refused_offline(one, words):
    one("task", "add", "f-1", "Read", "--id", "t1")
    head = one.head
    done = one.run(*words, env={"GFS_OFFLINE": "1"})
    assert done.code == 3, done
    assert "needs the remote" in done.err
    assert one.head == head


def test_sync_is_one_push_and_says_what_became_of_each(bare, one, two):
    for number in range(3):
        two.run("note", "f-1", f"queued {number}", "--offline")
    one("note", "f-1", "meanwhile")
    logged = len((bare / "logs" / MAIN).read_text().splitlines())
    said = two("sync")
    assert said.splitlines()[:3] == [
        "f-1 note r2 → r3", "f-1 note r3 → r4", "f-1 note r4 → r5",
    ]  # fmt: skip
    assert "the old tip is kept: refs/gfs/offline/" in said
    assert len((bare / "logs" / MAIN).read_text().splitlines()) == logged + 1
    assert two.flow("f-1")["revision"] == 5
    assert subjects(bare)[-1] == "f-1 r5 note: queued 2"
    assert two("sync") == f"main at {main_of(bare)[:12]}, here and at the remote\n"
    assert two.run("show", "f-1").err == ""


@pytest.mark.req("L1")
def test_twenty_here_and_twenty_there_and_five_that_do_not_go_together(bare, one, two):
    """Nothing acknowledged is gone: what is refused is kept, and listed with its reason."""
    for number in range(5):
        one("create", "Shared", "--id", f"s-{number}")
    two("sync")
    for number in range(15):
        assert two.run("note", "f-1", f"two {number}", "--offline").code == 0
    for number in range(5):
        assert two.run("note", f"s-{number}", "late", "--offline").code == 0
    for number in range(15):
        one("note", "f-1", f"one {number}")
    for number in range(5):
        one("done", f"s-{number}", "--result", "r.md")
    told = two.run("sync")
    assert (told.code, told.out) == (4, "")
    assert "5 of 20 operations were refused" in told.err
    assert told.err.count("kept: refs/gfs/rejected/") == 5
    assert one.json("where")["head"] == two.json("where")["head"] == main_of(bare)
    texts = {note["text"] for note in one.flow("f-1")["notes"]}
    assert texts == {f"{name} {number}" for name in ("one", "two") for number in range(15)}
    kept = git(two.gitdir, "for-each-ref", "--format=%(subject)", "refs/gfs/rejected").splitlines()
    assert sorted(kept) == [f"s-{number} r2 note: late" for number in range(5)]
    for cli in (one, two):
        cli("verify")


def test_sync_of_refused_operations_as_json(one, two):
    two.run("note", "f-1", "late", "--offline")
    one("done", "f-1", "--result", "r.md")
    error = fits(two.run("sync", "--json"))["error"]
    (fate,) = error["details"]["operations"]
    assert (error["code"], fate["flow"], fate["was"], fate["now"]) == (4, "f-1", 2, None)
    assert fate["refused"]["code"] == 3
    assert git(two.gitdir, "rev-parse", fate["kept"]) == fate["old"]


@pytest.mark.parametrize(
    ("words", "env"),
    [(("sync", "--follow", "--republish"), {}), (("sync",), {"GFS_OFFLINE": "1"})],
)
def test_sync_that_makes_no_sense(one, words, env):
    assert one.run(*words, env=env).code == 2


@pytest.mark.parametrize("words", [("clone",), ("init", "--remote")])
def test_what_begins_with_the_remote_is_not_begun_offline(tmp_path, bare, one, words):
    done = here(*words, bare, tmp_path / "new", env={"GFS_OFFLINE": "1"})
    assert done.code == 2, done
    assert "GFS_OFFLINE is set" in done.err
    assert not (tmp_path / "new").exists()


def test_a_word_that_does_not_say_whether_to_ask_is_refused(bare, one):
    head = main_of(bare)
    done = one.run("note", "f-1", "x", env={"GFS_OFFLINE": "yes"})
    assert done.code == 2, done
    assert "GFS_OFFLINE is 'yes'" in done.err
    assert main_of(bare) == one.head == head
    assert one.run("note", "f-1", "x", env={"GFS_OFFLINE": "0"}).code == 0


def test_sync_without_a_remote(tmp_path):
    assert here("init", tmp_path / "x").code == 0
    done = here("sync", "--repo", tmp_path / "x")
    assert done.code == 2
    assert "no remote" in done.err


def test_offline_is_no_matter_where_there_is_no_remote(tmp_path):
    assert here("init", tmp_path / "x").code == 0
    cli = Cli(tmp_path / "x")
    cli("create", "Do it", "--id", "f-1", "--offline")
    cli("take", "f-1", "--reason", "r", "--as", "bob", "--offline")
    assert "remote" not in cli.run("show", "f-1", "--json").envelope


# ── a remote that does not answer ───────────────────────────────────────────────────────────────


def test_a_remote_out_of_reach_stops_writing_and_not_reading(bare, one):
    bare.rename(bare.with_name("away.git"))
    head = one.head
    done = one.run("note", "f-1", "x", env={"GFS_REMOTE_TIMEOUT": "1"})
    assert done.code == 75, done
    lines = done.err.splitlines()
    assert [line.partition(":")[0] for line in lines] == ["error", "note", "hint"]
    assert lines[1].startswith("note: the remote was not heard; it last answered ")
    shown = one.run("show", "f-1", "--json")
    assert shown.code == 0
    assert "this is what was known here" in shown.err
    assert fits(shown)["remote"]["asked"] is False
    assert one.run("note", "f-1", "x", "--offline").code == 0
    assert one.run("sync").code == 75
    bare.with_name("away.git").rename(bare)
    one("sync")
    assert main_of(bare) == one.head != head


def take_back(bare, how):
    """Take the last commit back at the remote: move main, or merge without keeping it."""
    if how == "merge":
        imported(bare, Change("README", b"x"), parents=(f"{MAIN}~1", f"{MAIN}^0"))
    else:
        git(bare, "update-ref", *(("-d", MAIN) if how == "gone" else (MAIN, f"{MAIN}~1")))


@pytest.mark.req("D3", "D5")
@pytest.mark.parametrize("how", ["back", "merge"])
def test_history_that_was_taken_back_is_said_and_somebody_decides(bare, one, two, how):
    one("note", "f-1", "acknowledged")
    take_back(bare, how)
    before = git(one.gitdir, "for-each-ref")
    for words in (("note", "f-1", "x"), ("sync",)):
        done = one.run(*words)
        assert done.code == 6, done
        assert "took history back" in done.err
    shown = one.run("show", "f-1")
    assert "acknowledged" in shown.out
    assert "took history back" in shown.err
    assert git(one.gitdir, "for-each-ref") == before
    one("sync", "--republish")
    two("sync")
    assert two.head == one.head == main_of(bare)
    take_back(bare, how)
    said = one("sync", "--follow")
    assert "the old tip is kept: refs/gfs/offline/" in said
    assert one.head == main_of(bare)
    assert "notes" not in one.flow("f-1")
    one("note", "f-1", "on")


def test_beside_a_refusal_what_is_queued_is_said_to_be_of_before(bare, one):
    assert one.run("note", "f-1", "mine", "--offline").code == 0
    refused = one.run("note", "f-9", "x", "--offline")
    assert refused.code == 5
    assert "note: 1 earlier operation queued here, not at the remote; gfs sync" in refused.err
    assert "recorded here" not in refused.err
    one("sync")


def test_it_is_said_whether_the_remote_was_asked_and_whether_it_answered(bare, one):
    """Never asked, asked in vain, and asked with an answer that nobody likes are three things."""
    assert "the remote was not asked" in one.run("note", "f-1", "ghp_" + "a1B2" * 9).err
    bare.rename(bare.with_name("away.git"))
    assert "the remote was not heard" in one.run("note", "f-1", "x").err
    bare.with_name("away.git").rename(bare)
    one("note", "f-1", "x")
    git(bare, "update-ref", MAIN, f"{MAIN}~1")
    refused = one.run("note", "f-1", "y")
    assert refused.code == 6
    assert "the remote was" not in refused.err
    one("sync", "--republish")
    one("sync", "--republish")


# ── beside it ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.req("C-12")
def test_the_allowance_for_clocks_is_in_every_claim(bare, one):
    one("task", "add", "f-1", "Read", "--id", "t1")
    one("task", "claim", "f-1", "t1")
    assert one.op()["skew_s"] == 900


def test_create_with_an_id_that_another_host_took_is_what_it_would_be_here(one, two):
    assert two("create", "Do it", "--id", "f-1").startswith("f-1 r1 pending (unchanged)")
    assert two.run("create", "Another", "--id", "f-1").code == 4


@pytest.mark.req("L14", "R-TF-46")
def test_the_watcher_keeps_its_cursor_at_the_remote(bare, one, two):
    toml = b'[channels.console]\nkind = "console"\nmin_interval = 0\n'
    imported(bare, Change("gfs.toml", toml))

    def watched(cli):
        return [told["flow"] for told in cli.json("watch", "console", "--once")["sent"]]

    one("sync")
    result = one.run("watch", "console", "--once", "--json")
    assert [told["flow"] for told in result.data["sent"]] == ["f-1"]
    assert two.run("watch", "console", "--once", "--json").data["sent"] == []
    assert "refs/gfs/cursors/console" in git(bare, "for-each-ref")
    assert "refs/gfs/cursors" not in git(one.gitdir, "for-each-ref")


def test_backup_takes_main_and_what_is_kept_and_not_what_was_asked(tmp_path, bare, one, two):
    two.run("note", "f-1", "queued", "--offline")
    one("note", "f-1", "meanwhile")
    two("sync")
    two("backup", tmp_path / "copy.bundle")
    done = here("restore", tmp_path / "copy.bundle", tmp_path / "back", "--json")
    kinds = {name.split("/")[2] for name in done.data["refs"] if name != MAIN}
    assert kinds == {"offline"}
    assert "remote" not in here("where", "--repo", tmp_path / "back", "--json").data


def test_doctor_says_what_is_queued_and_what_a_sync_has_kept(bare, one, two):
    two.run("note", "f-1", "late", "--offline")
    assert "1 operation not yet at the remote" in two("doctor")
    one("done", "f-1", "--result", "r.md")
    assert two.run("sync").code == 4
    told = two("doctor")
    assert "that a sync refused is kept" in told
    assert "refs/gfs/rejected/" in told
    assert "refs/gfs/offline/" in told
    assert "refs/gfs/" not in one("doctor")


@pytest.mark.req("D3", "D5")
@pytest.mark.parametrize("how", ["back", "gone", "merge"])
def test_doctor_says_that_the_remote_took_history_back(bare, one, how):
    one("note", "f-1", "acknowledged")
    take_back(bare, how)
    if how == "merge":  # what is not here yet may be newer
        told = one.run("doctor")
        assert told.code == 0
        assert "note: what the remote has now is not here" in told.out
        one.run("show", "f-1")
    before = git(one.gitdir, "for-each-ref")
    told = one.run("doctor")
    assert told.code == 1
    assert "the remote took history back" in told.out
    assert git(one.gitdir, "for-each-ref") == before
    bare.rename(bare.with_name("away.git"))
    told = one.run("doctor")
    assert told.code == 0
    assert "the remote was not heard" in told.out


@pytest.mark.req("D5")
def test_what_people_merged_at_the_remote_was_not_taken_back(bare, one):
    """Two people wrote beside the flows; the line that is followed is not the one that is here."""
    start = main_of(bare)
    imported(bare, Change("gfs.toml", b"# settings\n"))
    one("sync")
    imported(bare, Change("README", b"x"), ref="refs/heads/side", parents=(start,))
    both = Change("gfs.toml", b"# settings\n")
    imported(bare, both, ref="refs/heads/side", parents=("refs/heads/side^0", MAIN))
    git(bare, "update-ref", MAIN, "refs/heads/side")
    assert "took history back" not in one.run("doctor").out
    one("note", "f-1", "on")
    assert one.run("doctor").code == 0, one.run("doctor")
    assert one.head == main_of(bare)


def test_doctor_and_gc_find_nothing_odd(one, two):
    two.run("note", "f-1", "queued", "--offline")
    one("note", "f-1", "meanwhile")
    two("sync")
    assert two.run("doctor").code == 0, two.run("doctor")
    assert two.run("gc").code == 0
    two("note", "f-1", "after")
    one("sync")
    assert one.head == two.head


def test_a_bare_gfs_does_not_wait_for_anybody(bare, one):
    shutil.rmtree(bare)
    done = one.run()
    assert done.code == 0
    assert "1 open flow" in done.out
