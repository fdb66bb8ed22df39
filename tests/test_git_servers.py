"""The servers that tests of several hosts stand on do what real ones do: C git is their client."""

import contextlib
import subprocess

import pytest
from fakes.githttp import PASSWORD, USER, GitHttp
from fakes.gitservers import GitDaemon, Sshd, need_sshd, refuse
from fakes.listening import free_port
from fakes.proxy import MODES, Proxy
from gitrepo import MAIN, fsck, git

LARGE = 3_000_000  # more than http.postBuffer: sent in chunks


@pytest.fixture
def bare(tmp_path):
    """Return a bare repository in a folder that servers serve."""
    folder = tmp_path / "served" / "flows.git"
    folder.parent.mkdir()
    git(tmp_path, "init", "-q", "--bare", folder)
    return folder


@pytest.fixture
def serve():
    """Return what keeps a server until the test ends."""
    with contextlib.ExitStack() as stack:

        def kept(server):
            stack.callback(server.stop)
            return server

        yield kept


def run(where, *words, ssh="false"):
    """Run C git, which may fail; return its exit code and what it said."""
    done = subprocess.run(
        ["git", "-C", where, "-c", f"core.sshCommand={ssh}", *words],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    return done.returncode, done.stderr


def goes_well(bare, tmp_path, url, ssh="false"):
    """Clone, push something small and something large, and clone again."""
    work = tmp_path / "work"
    assert run(tmp_path, "clone", "-q", url, work, ssh=ssh)[0] == 0
    for size in (10, LARGE):
        data = (work / "data").open("wb")
        with data:
            data.write(bytes(range(256)) * (size // 256 + 1) if size < LARGE else noise(size))
        git(work, "add", "data")
        git(work, "commit", "-q", "-m", f"{size} bytes")
        assert run(work, "push", "-q", "origin", f"HEAD:{MAIN}", ssh=ssh) == (0, "")
        assert git(bare, "rev-parse", MAIN) == git(work, "rev-parse", "HEAD")
    assert run(tmp_path, "clone", "-q", url, tmp_path / "again", ssh=ssh)[0] == 0
    assert (tmp_path / "again/data").stat().st_size == LARGE
    fsck(bare)


def noise(size):
    """Return bytes that do not compress."""
    with open("/dev/urandom", "rb") as random:  # noqa: PTH123  a device
        return random.read(size)


def seeded(tmp_path, url=None):
    """Return a clone with one commit that was not pushed."""
    work = tmp_path / "work"
    git(tmp_path, "init", "-q", work)
    git(work, "commit", "-q", "--allow-empty", "-m", "one")
    git(work, "remote", "add", "origin", url or "nowhere")
    return work


def push(work, url):
    return run(work, "push", "-q", url, f"HEAD:{MAIN}")


def moved(bare):
    return git(bare, "rev-parse", "-q", "--verify", MAIN, check=False) != ""


def test_over_http(bare, tmp_path, serve):
    server = serve(GitHttp(bare.parent))
    goes_well(bare, tmp_path, server.url("flows.git"))
    heads = [request.headers for request in server.requests if request.method == "POST"]
    assert any("chunked" in head.get("Transfer-Encoding", "") for head in heads)


def test_over_http_a_request_may_be_compressed(bare, tmp_path, serve):
    server = serve(GitHttp(bare.parent))
    work = seeded(tmp_path)
    for number in range(40):  # each is a line of the next fetch
        git(work, "commit", "-q", "--allow-empty", "-m", str(number))
        git(work, "branch", f"b{number}")
    assert run(work, "push", "-q", "--all", server.url("flows.git")) == (0, "")
    git(work, "checkout", "-q", "--orphan", "other")
    git(work, "commit", "-q", "--allow-empty", "-m", "apart")
    assert run(work, "push", "-q", server.url("flows.git"), "other") == (0, "")
    other = tmp_path / "other"
    assert run(tmp_path, "clone", "-q", "--mirror", server.url("flows.git"), other)[0] == 0
    assert git(other, "rev-parse", "other") == git(work, "rev-parse", "other")
    assert any(request.headers.get("Content-Encoding") == "gzip" for request in server.requests)


def test_over_http_with_a_password(bare, tmp_path, serve):
    server = serve(GitHttp(bare.parent, password=PASSWORD))
    for credentials in ("", f"{USER}:wrong@"):
        url = server.url("flows.git", credentials)
        code, said = run(tmp_path, "clone", "-q", url, tmp_path / "no")
        assert code == 128
        assert "could not read Username" in said or "Authentication failed" in said
    goes_well(bare, tmp_path, server.url("flows.git", f"{USER}:{PASSWORD}@"))


def test_over_the_protocol_of_git(bare, tmp_path, serve):
    goes_well(bare, tmp_path, serve(GitDaemon(bare.parent)).url("flows.git"))


def test_over_ssh(bare, tmp_path, serve):
    need_sshd()
    server = serve(Sshd(tmp_path / "sshd"))
    goes_well(bare, tmp_path, server.url(bare), server.command)
    code, said = run(bare, "ls-remote", server.url(bare), ssh=server.client("stranger"))
    assert (code, "Permission denied" in said) == (128, True)


@pytest.mark.parametrize("kind", ["http", "git", "file"])
def test_a_hook_refuses(bare, tmp_path, serve, kind):
    refuse(bare, "closed for today")
    work = seeded(tmp_path)
    urls = {
        "http": lambda: serve(GitHttp(bare.parent)).url("flows.git"),
        "git": lambda: serve(GitDaemon(bare.parent)).url("flows.git"),
        "file": lambda: f"file://{bare}",
    }
    code, said = push(work, urls[kind]())
    assert (code, moved(bare)) == (1, False)
    assert "closed for today" in said
    assert "pre-receive hook declined" in said


@pytest.mark.parametrize("kind", ["http", "git"])
@pytest.mark.parametrize("mode", ["pass", *MODES])
def test_a_proxy_breaks_a_push(bare, tmp_path, serve, mode, kind):
    server = serve(GitHttp(bare.parent) if kind == "http" else GitDaemon(bare.parent))
    proxy = serve(Proxy(server.port, mode))
    url = server.url("flows.git").replace(str(server.port), str(proxy.port))
    work = seeded(tmp_path)
    if mode == "hang":
        with pytest.raises(subprocess.TimeoutExpired):
            subprocess.run(
                ["git", "-C", work, "push", "-q", url, f"HEAD:{MAIN}"],
                capture_output=True,
                timeout=0.5,
                check=True,
            )
    else:
        assert (push(work, url)[0] == 0) is (mode == "pass")
    assert moved(bare) is (mode in {"pass", "cut"})
    assert bool(proxy.broken) is (mode != "pass")


def test_nobody_listens(bare, tmp_path):
    code, said = push(seeded(tmp_path), f"http://127.0.0.1:{free_port()}/flows.git")
    assert code == 128
    assert "Failed to connect" in said
    assert not moved(bare)
