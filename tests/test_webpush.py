"""One push over HTTP, and the ref read back on the same connection, by Git's own helper."""

from __future__ import annotations

import os

import pytest
from fakes.githttp import PASSWORD, GitHttp
from fakes.gitservers import refuse
from fakes.proxy import Proxy
from flowrepo import Lab
from gitrepo import MAIN, fsck, git

from gitflowstate.adapters import transport, webpush
from gitflowstate.adapters.transport import Transport
from gitflowstate.adapters.webpush import Answer
from gitflowstate.delivery import NotSent, Unknown
from gitflowstate.errors import Denied
from gitflowstate.ports import IS_THERE

ONE, TWO = "1" * 40, "2" * 40
OPTIONS = "ok\nok\nunsupported\n"


@pytest.mark.parametrize(
    ("out", "answer"),
    [
        (f"{OPTIONS}{ONE} {MAIN}\n\nok {MAIN}\n\n{TWO} {MAIN}\n@{MAIN} HEAD\n\n", (None, TWO)),
        (f"{OPTIONS}\nok {MAIN}\n\n{TWO} {MAIN}\n\n", (None, TWO)),  # there was nothing before
        (f"{OPTIONS}\nok {MAIN} up to date\n\n{TWO} {MAIN}\n\n", (IS_THERE, TWO)),
        (f"{OPTIONS}\nok {MAIN}\n\n{TWO} refs/heads/other\n\n", (None, "")),
        (f"{OPTIONS}\nok {MAIN}\n\n\n", (None, "")),
        (f"{OPTIONS}\nok {MAIN}\n\n{TWO} {MAIN}\n", (None, None)),  # cut off
        (f"{OPTIONS}\nok {MAIN}\n", (None, None)),
        (f"{OPTIONS}{ONE} {MAIN}\n\nerror {MAIN} stale info\n\n", ("stale info", None)),
        (f"{OPTIONS}{ONE} {MAIN}\n\nerror {MAIN}\n\n", ("no reason given", None)),
    ],
)
def test_what_the_helper_says_of_the_ref(out, answer):
    assert webpush.answer(out, MAIN) == Answer(True, *answer)


@pytest.mark.parametrize(
    "out",
    [
        "",
        "ok\n",
        OPTIONS,
        f"{OPTIONS}{ONE} {MAIN}\n\n",
        f"{OPTIONS}\nok refs/heads/other\n\n",
        f"{OPTIONS}\nerror {MAIN} expecting report\n\n",
    ],
)
def test_no_word_about_the_ref_is_no_answer(out):
    assert webpush.answer(out, MAIN) == Answer(False, None, None)


@pytest.fixture
def lab(tmp_path):
    made = Lab(tmp_path / "flows")
    made.create()
    git(tmp_path, "init", "-q", "--bare", tmp_path / "served" / "flows.git")
    yield made
    made.repo.close()


@pytest.fixture
def bare(tmp_path):
    return tmp_path / "served" / "flows.git"


@pytest.fixture
def server(lab, bare):
    found = GitHttp(bare.parent, password=PASSWORD)
    yield found
    found.stop()


@pytest.fixture
def way(lab, server):
    """Return the way to the server, with the right token."""
    url = server.url("flows.git")
    transport.attach(lab.gitdir, url)
    environ = {**os.environ, "GFS_GIT_TOKEN": PASSWORD}
    return Transport(lab.gitdir, url, environ, timeout_s=20)


@pytest.mark.req("F10")
def test_a_push_and_its_reading_back_are_three_requests(lab, bare, server, way):
    assert way.push(MAIN, None, lab.head) is None
    assert way.refs(MAIN) == {MAIN: lab.head}
    asked = [request for request in server.requests if "Authorization" in request.headers]
    assert [request.method for request in asked] == ["GET", "POST", "GET"]
    assert git(bare, "rev-parse", MAIN) == lab.head
    fsck(bare)


def test_what_was_read_back_answers_one_question_and_no_other(lab, bare, way):
    first = lab.head
    assert way.push(MAIN, None, first) is None
    git(bare, "update-ref", "refs/heads/other", first)
    assert way.refs("refs/heads/other") == {"refs/heads/other": first}
    lab.update("more")
    git(bare, "fetch", "-q", lab.gitdir, f"{MAIN}:{MAIN}")
    assert way.refs(MAIN) == {MAIN: lab.head}
    assert way.push(MAIN, lab.head, lab.head) == IS_THERE
    lab.update("still more")
    git(bare, "fetch", "-q", lab.gitdir, f"{MAIN}:{MAIN}")
    way.track(MAIN, "refs/gfs/remote/main")
    assert way.refs(MAIN) == {MAIN: lab.head}


@pytest.mark.req("C8", "F10")
def test_a_race_and_a_rule_are_told_apart(lab, bare, way):
    first = lab.head
    assert way.push(MAIN, None, first) is None
    lab.update("more")
    assert way.push(MAIN, None, lab.head) == "stale info"
    assert way.push(MAIN, lab.head, lab.head) == "stale info"
    refuse(bare)
    assert way.push(MAIN, first, lab.head) == "pre-receive hook declined: not today"
    assert way.refs(MAIN) == {MAIN: first}


def test_without_the_right_token_it_is_denied(lab, server, way):
    wrong = Transport(lab.gitdir, way.url, {**os.environ, "GFS_GIT_TOKEN": "no"}, timeout_s=20)
    with pytest.raises(Denied) as error:
        wrong.push(MAIN, None, lab.head)
    assert "GFS_GIT_TOKEN" in error.value.hint


@pytest.mark.parametrize(
    ("mode", "error", "there"), [("cut", Unknown, True), ("late", Unknown, False),
                                 ("drop", NotSent, False), ("reset", NotSent, False)],
)  # fmt: skip
def test_a_connection_that_breaks(lab, bare, mode, error, there):
    git(bare, "config", "http.receivepack", "true")
    server = GitHttp(bare.parent)
    proxy = Proxy(server.port, mode)
    try:
        url = f"http://127.0.0.1:{proxy.port}/flows.git"
        transport.attach(lab.gitdir, url)
        with pytest.raises(error):
            Transport(lab.gitdir, url, dict(os.environ), timeout_s=20).push(MAIN, None, lab.head)
    finally:
        proxy.stop()
        server.stop()
    assert bool(git(bare, "rev-parse", "-q", "--verify", MAIN, check=False)) is there


def test_a_url_that_settings_lead_elsewhere_is_followed(lab, bare, tmp_path, monkeypatch):
    url = "https://example.invalid/flows.git"
    home = tmp_path / "other-home"
    home.mkdir()
    (home / ".gitconfig").write_text(f'[url "{bare}"]\n\tinsteadOf = {url}\n')
    transport.attach(lab.gitdir, url)
    there = Transport(lab.gitdir, url, {**os.environ, "HOME": str(home)}, timeout_s=20)
    assert there.push(MAIN, None, lab.head) is None
    assert there.refs(MAIN) == {MAIN: lab.head}
