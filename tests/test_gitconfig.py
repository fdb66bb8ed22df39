"""The configuration of a repository: read as Git reads it, and the modes it asks for."""

from __future__ import annotations

import pytest
from gitrepo import git, publish

from gitflowstate.errors import Corrupt
from gitflowstate.git import Repository
from gitflowstate.gitconfig import read_config


@pytest.mark.parametrize(
    "text",
    [
        "[core]\n\tbare = true\n",
        '\ufeff[core]\r\n\tbare = true # yes\r\n\tname = "a ; b" c ; d\r\n',
        '[remote "Or\\"ig]in"] url = x\\\n y\n[REMOTE.Low]\n KEY\n',
        '[a]\n x = "  in  " out  \n y = a\\tb\\\\c\\"d\n z =\n # no\n ; no\n[b] # c\n k = 1 2  3\n',
        "[a]\nk = 1\nk = 2\n",
    ],
)
def test_a_config_reads_as_git_reads_it(tmp_path, text):
    path = tmp_path / "config"
    path.write_text(text, newline="")
    out = git(tmp_path, "config", "--file", path, "--null", "--list")
    pairs = [pair.partition("\n") for pair in out.split("\0") if pair]
    expected = {key: value if newline else "true" for key, newline, value in pairs}
    assert read_config(str(path)) == expected


@pytest.mark.parametrize("text", ["[core\nbare = true", '[a "b" x\n', '[a "b\n'])
def test_a_config_that_does_not_parse_is_corrupt(tmp_path, text):
    path = tmp_path / "config"
    path.write_text(text)
    with pytest.raises(Corrupt, match="does not parse"):
        read_config(str(path))


@pytest.mark.parametrize("word", ["group", "all", "0640", "umask", "false"])
def test_a_shared_repository_gets_the_modes_that_git_gives(tmp_path, word):
    modes = {}
    for who in ("git", "gfs"):
        path = tmp_path / who
        git(tmp_path, "init", "-q", "--bare", f"--shared={word}", "-b", "main", path)
        if who == "git":
            blob = git(path, "hash-object", "-w", "--stdin", data=b"1")
            tree = git(path, "mktree", data=f"100644 blob {blob}\ta\n".encode())
            oid = git(path, "commit-tree", "-m", "m", tree)
            git(path, "update-ref", "refs/heads/x/main", oid)
        else:
            with Repository.open(path) as repo:
                oid = publish(repo, {"a": b"1"}, ref="refs/heads/x/main")
        objects = path / "objects" / oid[:2]
        places = [objects, objects / oid[2:], path / "refs/heads/x", path / "refs/heads/x/main"]
        modes[who] = [oct(place.stat().st_mode) for place in places]
    assert modes["gfs"] == modes["git"]
