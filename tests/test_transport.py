"""The way to a remote: how it is named, what has a say in it, and what it brings."""

from __future__ import annotations

import os
import stat

import pytest
from fakes.loopback import Loopback
from flowrepo import Lab, imported, objects
from gitrepo import MAIN, fsck, git, intercepted

from gitflowstate import location
from gitflowstate.adapters import transport
from gitflowstate.adapters.transport import Transport
from gitflowstate.delivery import NotSent
from gitflowstate.errors import Denied, Rejected, Unavailable, Usage
from gitflowstate.location import TRACKED
from gitflowstate.ports import IS_THERE

SECRET = "t0p-secret"


@pytest.fixture
def lab(tmp_path):
    made = Lab(tmp_path / "flows")
    made.create()
    git(tmp_path, "init", "-q", "--bare", tmp_path / "remote.git")
    transport.attach(made.gitdir, str(tmp_path / "remote.git"))
    yield made
    made.repo.close()


@pytest.fixture
def bare(tmp_path):
    return tmp_path / "remote.git"


def way(lab, url=None, **environ):
    found = location.at(lab.folder).remote
    return Transport(lab.gitdir, url or found, {**os.environ, **environ}, timeout_s=20)


# ── how it is named ─────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("flows.git", "/here/flows.git"),
        ("../x/./flows.git", "/x/flows.git"),
        ("/srv/flows.git", "/srv/flows.git"),
        ("file:///srv/flows.git", "file:///srv/flows.git"),
        ("git@example.org:team/flows.git", "git@example.org:team/flows.git"),
        ("ssh://git@example.org/flows", "ssh://git@example.org/flows"),
        ("https://example.org/flows", "https://example.org/flows"),
        ("https://example.org/flows?ref=x", "https://example.org/flows?ref=x"),
        ("git@[::1]:flows", "git@[::1]:flows"),
        ("ssh://git@[::1]/flows", "ssh://git@[::1]/flows"),
    ],
)
def test_a_place_means_the_same_from_anywhere(given, kept, tmp_path):
    assert transport.place_of(given, tmp_path.__class__("/here")) == kept


@pytest.mark.req("F9")
@pytest.mark.parametrize(
    "given",
    ["--upload-pack=x", "ext::sh -c id", "", "a\nb", "https://u:p@h/x", "https://token@h/x",
     "ssh://u:p@h/x", "https://h/x?access_token=s3cret", "https://h/x?a=b&private_token=s3cret",
     "ftp://h/x", "foo://h/x", "://", "://h/x", "ssh://-oProxyCommand=id/x", "ssh://a@-oP=id/x",
     "https:///x", "git@ext::id:x"],
)  # fmt: skip
def test_what_could_mean_anything_else_is_refused_and_so_are_credentials(given, tmp_path):
    with pytest.raises(Usage) as refused:
        transport.place_of(given, tmp_path)
    assert "token@" not in refused.value.message
    assert "s3cret" not in refused.value.message


@pytest.mark.parametrize("url", ['/a "b" c', "/a\\b", "/ü # ; x", "https://example.org/a?b=c"])
def test_a_url_is_read_back_as_it_was_given(tmp_path, url):
    made = Lab(tmp_path / "other")
    transport.attach(made.gitdir, url)
    assert location.at(made.folder).remote == url
    assert git(made.gitdir / "gfs/remote", "config", "remote.gfs.url") == url
    made.repo.close()


def test_a_remote_is_given_once_and_whole(lab, bare):
    before = (lab.gitdir / "gfs/remote/config").read_bytes()
    with pytest.raises(Rejected, match="a remote already"):
        transport.attach(lab.gitdir, "/elsewhere")
    assert (lab.gitdir / "gfs/remote/config").read_bytes() == before
    assert sorted(path.name for path in (lab.gitdir / "gfs").iterdir()) == ["remote"]


# ── what it does ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.req("F10")
def test_main_is_pushed_and_what_the_remote_has_is_known_afterwards(lab, bare):
    remote, head = way(lab), lab.head
    assert remote.track(MAIN, TRACKED) == "absent"
    assert remote.push(MAIN, None, head) is None
    assert lab.repo.ref(TRACKED) == head
    assert git(bare, "rev-parse", MAIN) == head
    assert remote.push(MAIN, head, head) == IS_THERE
    lab.update("on")
    assert remote.push(MAIN, None, lab.head)  # another value was there
    assert lab.repo.ref(TRACKED) == git(bare, "rev-parse", MAIN) == head
    fsck(lab.gitdir)
    fsck(bare)


def test_main_is_brought_forward_only(lab, bare):
    remote, first = way(lab), lab.head
    assert remote.push(MAIN, None, first) is None
    assert remote.track(MAIN, TRACKED) == "here"
    second = imported(bare)
    assert remote.track(MAIN, TRACKED) == "here"
    assert lab.repo.ref(TRACKED) == second
    assert lab.repo.commit(second).parents == (first,)
    git(bare, "update-ref", MAIN, first)
    assert remote.track(MAIN, TRACKED) == "replaced"
    git(bare, "update-ref", "-d", MAIN)
    assert remote.track(MAIN, TRACKED) == "absent"
    assert lab.repo.ref(TRACKED) == second
    assert lab.head == first


def synced(act):
    """Return the folders of objects that were synced while something was done."""
    found = set()

    def noted(_number, name, real, arguments):
        if name == "open" and arguments[1] & os.O_DIRECTORY:
            found.add(str(arguments[0]).partition("/objects/")[2])
        return real(*arguments)

    with intercepted(noted):
        act()
    return found - {""}


@pytest.mark.req("F2")
def test_what_came_is_synced_and_where_nothing_came_nothing_is(lab, bare):
    remote = way(lab)
    assert remote.push(MAIN, None, lab.head) is None
    assert synced(lambda: remote.track(MAIN, TRACKED)) == set()
    imported(bare)
    before = objects(lab.gitdir)
    touched = synced(lambda: remote.track(MAIN, TRACKED))
    assert {oid[:2] for oid in objects(lab.gitdir) - before} <= touched
    # Whoever brought it may have been killed before that; main is not there yet.
    for folder in lab.gitdir.glob("objects/*"):
        os.utime(folder, (1, 1))
    assert synced(lambda: remote.track(MAIN, TRACKED)) >= touched


def test_many_bring_the_same_at_once(lab, bare):
    """They meet at the lock of one ref, which is nobody's failure."""
    import threading

    way(lab).push(MAIN, None, lab.head)
    lab.update("on")
    git(lab.gitdir, "push", "-q", bare, f"{MAIN}:{MAIN}")
    found = []
    threads = [
        threading.Thread(target=lambda: found.append(way(lab).track(MAIN, TRACKED)))
        for _ in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == ["here"] * 6
    assert lab.repo.ref(TRACKED) == lab.head


def test_when_it_last_answered_is_known(lab, bare):
    remote = way(lab)
    assert remote.asked() is None
    remote.refs(MAIN)
    assert remote.asked() == pytest.approx(bare.stat().st_mtime, abs=3600)
    gone = Transport(lab.gitdir, "/nowhere", dict(os.environ), timeout_s=5)
    os.utime(lab.gitdir / "gfs/remote/asked", (1, 1))
    git(lab.gitdir / "gfs/remote", "config", "remote.gfs.url", "/nowhere")
    with pytest.raises(Unavailable):
        gone.refs(MAIN)
    assert gone.asked() == 1


# ── what has a say in it ────────────────────────────────────────────────────────────────────────


@pytest.mark.req("G4", "G5")
def test_the_repositorys_own_configuration_steers_nothing(lab, bare, tmp_path):
    ran = tmp_path / "ran"
    for name, value in {
        f"url.{tmp_path}/elsewhere.insteadOf": str(bare),
        "core.sshCommand": f"touch {ran}",
        "credential.helper": f"!touch {ran}",
        "remote.gfs.url": "/elsewhere",
        "remote.gfs.receivepack": f"touch {ran};",
        "remote.gfs.uploadpack": f"touch {ran};",
        "core.hooksPath": f"{tmp_path}",
        "push.gpgSign": "true",
    }.items():
        git(lab.gitdir, "config", name, value)
    for name in ("pre-push", "reference-transaction"):
        (tmp_path / name).write_text(f"#!/bin/sh\ntouch {ran}\nexit 1\n")
        (tmp_path / name).chmod(0o755)
    assert way(lab).push(MAIN, None, lab.head) is None
    assert way(lab).track(MAIN, TRACKED) == "here"
    git(lab.gitdir / "gfs/remote", "config", "remote.gfs.url", "ssh://127.0.0.1:1/x")
    remote = way(lab)
    with pytest.raises(NotSent):
        remote.push(MAIN, None, lab.head)
    assert not ran.exists()


@pytest.mark.req("G4")
def test_a_persons_own_configuration_sends_it_nowhere_else(lab, bare, tmp_path):
    git(tmp_path, "init", "-q", "--bare", tmp_path / "elsewhere.git")
    (tmp_path / ".gitconfig").write_text(
        f'[push]\n\tpushOption = x\n[remote "origin"]\n\turl = {tmp_path}/elsewhere.git\n'
    )
    remote = way(lab, HOME=str(tmp_path), XDG_CONFIG_HOME=str(tmp_path))
    assert remote.push(MAIN, None, lab.head) is None
    assert git(bare, "rev-parse", MAIN) == lab.head
    assert not git(tmp_path / "elsewhere.git", "for-each-ref")


def test_its_own_configuration_and_the_variable_do(lab, tmp_path):
    script = tmp_path / "ssh"
    script.write_text(f'#!/bin/sh\necho "$0" "$@" >> {tmp_path}/told\nexit 255\n')
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    config = lab.gitdir / "gfs/remote"
    git(config, "config", "remote.gfs.url", "ssh://host.invalid/x")
    git(config, "config", "core.sshCommand", f"{script} kept")
    with pytest.raises((Unavailable, Denied)):
        way(lab).refs(MAIN)
    with pytest.raises((Unavailable, Denied)):
        way(lab, GFS_SSH_COMMAND=f"{script} given", GIT_SSH_COMMAND="false").refs(MAIN)
    told = (tmp_path / "told").read_text().splitlines()
    assert "kept" in told[0]
    assert "given" in told[-1]


@pytest.mark.parametrize("language", ["de", "fr:de"])
def test_what_git_says_is_read_in_the_one_language_it_is_known_in(lab, bare, language):
    assert way(lab, LANGUAGE=language, LC_ALL="").track(MAIN, TRACKED) == "absent"
    remote = Transport(lab.gitdir, str(bare), {**os.environ, "LANGUAGE": language}, timeout_s=20)
    (bare / "HEAD").unlink()
    with pytest.raises(Unavailable, match="does not appear to be a git repository"):
        remote.refs(MAIN)


def test_who_may_not_come_in_is_told_what_lets_in(lab):
    from gitflowstate.adapters.remote import _access

    assert "GFS_GIT_TOKEN" in _access("https://example.org/x")
    for url in ("ssh://h/x", "git@h:x"):
        assert "GFS_SSH_COMMAND" in _access(url)
    for url in ("/srv/x", "file:///srv/x", "git://h/x"):
        assert "GFS_" not in _access(url)


@pytest.mark.req("X-04")
@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_token_goes_to_the_host_of_the_url_and_to_no_other(lab, status):
    """Another that the first one names, in an answer or for a password, is not asked at all."""
    first, second = Loopback(), Loopback()
    try:
        first.script = [status] * 20
        elsewhere = f"http://127.0.0.1:{second.port}/flows.git/info/refs?service=git-upload-pack"
        first.headers = (("Location", elsewhere),)
        url = f"http://127.0.0.1:{first.port}/flows.git"
        git(lab.gitdir / "gfs/remote", "config", "remote.gfs.url", url)
        remote = way(lab, url, GFS_GIT_TOKEN=SECRET)
        for act in (
            lambda: remote.refs(MAIN),
            lambda: remote.track(MAIN, TRACKED),
            lambda: remote.push(MAIN, None, lab.head),
        ):
            with pytest.raises((Unavailable, Denied)) as error:
                act()
            assert SECRET not in error.value.message
        given = {request.headers.get("Authorization") for request in first.requests}
        assert len(given) == 1
        assert None not in given  # it was shown where it belongs
        assert second.requests == []
    finally:
        first.stop()
        second.stop()
