"""Hazard G1: a secret is refused before any object exists that holds it."""

from __future__ import annotations

import json
import random
import string
import zlib

import pytest
from clirun import FOUNDING


def chance(seed, length, letters=string.ascii_letters + string.digits):
    """Return letters that no rule takes for words; the same in each run."""
    return "".join(random.Random(seed).choices(letters, k=length))


HEX, UPPER = "0123456789abcdef", string.ascii_uppercase + string.digits
# Made up here, each in the form its issuer documents.
SECRETS = {
    "github": "ghp_" + chance(1, 36),
    "github-fine": "github_pat_" + chance(2, 22) + "_" + chance(3, 59),
    "aws": "AKIA" + chance(4, 16, UPPER),
    "key": "-----BEGIN PRIVATE KEY-----\n" + chance(5, 64) + "\n-----END PRIVATE KEY-----",
    "bearer": "Authorization: Bearer eyJ"
    + chance(6, 30)
    + "."
    + chance(7, 40)
    + "."
    + chance(8, 43),
    "address": "https://user:" + chance(9, 12) + "@host.example/path",
    "slack": "xoxb-" + chance(10, 12, string.digits) + "-" + chance(11, 24),
    "assigned": "token=" + chance(12, 40),
    "hex": "api_key: " + chance(13, 40, HEX),
}
ONE_LINE = {name: text for name, text in SECRETS.items() if "\n" not in text}


def holding(cli, secret):
    """Return the places below the folder whose bytes hold the secret, compressed or not."""
    wanted = secret.encode()
    found = [path for path in cli.folder.rglob("*") if path.is_file() and _holds(path, wanted)]
    return found + ([cli.gitdir] if wanted in cli.every_object() else [])


def _holds(path, wanted):
    data = path.read_bytes()
    if wanted in data:
        return True
    try:
        return wanted in zlib.decompressobj().decompress(data)
    except zlib.error:
        return False


def refused(cli, secret, *words, **given):
    """The command is refused, does not repeat the secret, and nothing of it is anywhere."""
    error = cli.refuses(3, *words, **given)
    assert error["name"] == "rejected"
    assert "seems to hold a secret" in error["message"]
    assert "--allow-secret" in error["hint"]
    core = max(secret.replace("\n", " ").split(), key=len)
    assert core not in json.dumps(error)
    assert holding(cli, core) == []


@pytest.mark.req("G1")
@pytest.mark.parametrize("name", SECRETS)
def test_g1_no_form_of_a_secret_gets_in(flow, name):
    secret = SECRETS[name]
    refused(flow, secret, "note", "plan", f"use {secret} for it")
    refused(flow, secret, "create", f"with {secret}")
    refused(flow, secret, "update", "plan", "--progress", "-", stdin=secret.encode())
    data = json.dumps({"deep": [{"x": secret}]}).encode()
    refused(flow, secret, "update", "plan", "--data", "-", stdin=data)


@pytest.mark.req("G1")
def test_g1_no_argument_lets_one_in(flow, tmp_path):
    secret = SECRETS["github"]
    flow("create", "Ended", "--id", "ended")
    flow("done", "ended", "--result", "r")
    named = json.dumps({secret: 1}).encode()
    document = json.loads(FOUNDING.read_text())
    document["children"][1]["goal"] = secret
    for words in (
        ("create", "G", "--next", secret),
        ("create", "G", "--owner", secret),
        ("create", "G", "--label", secret),
        ("create", "G", "--link", f"doc=https://x.example/{secret}"),
        ("create", "G", "--as", secret),
        ("update", "plan", "--next", secret),
        ("update", "plan", "--goal", secret),
        ("update", "plan", "--label", secret),
        ("update", "plan", "--link", secret),
        ("note", "plan", "x", "--as", secret),
        ("wait", "plan", "--reason", secret, "--until", "u"),
        ("wait", "plan", "--reason", "r", "--until", secret),
        ("resume", "plan", "--next", secret),
        ("done", "plan", "--result", secret),
        ("fail", "plan", "--reason", secret, "--recoverable", "none"),
        ("fail", "plan", "--reason", "r", "--recoverable", secret),
        ("reopen", "ended", "--reason", secret, "--next", "n"),
        ("reopen", "ended", "--reason", "r", "--next", secret),
        ("handoff", "plan", "--to", secret, "--reason", "r"),
        ("handoff", "plan", "--to", "ann", "--reason", secret),
        ("take", "plan", "--reason", secret, "--as", "ann"),
        ("adopt", "plan", "--reason", secret),
        ("update", "plan", "--progress", secret, "--dry-run"),
        ("note", "plan", "x", "--allow-secret", secret),
    ):
        refused(flow, secret, *words)
    refused(flow, secret, "update", "plan", "--data", "-", stdin=named)
    refused(flow, secret, "import", "-", stdin=json.dumps(document).encode())
    refused(flow, secret, "note", "plan", "x", env={"GFS_ACTOR": secret})


@pytest.mark.req("G1")
def test_g1_a_secret_as_a_key_is_kept_as_its_digest(flow):
    secret = SECRETS["github"]
    assert flow("note", "plan", "x", "--key", secret) == "plan r2 pending\n"
    assert holding(flow, secret) == []


@pytest.mark.req("G1")
@pytest.mark.parametrize(
    "text",
    [
        "read $GITHUB_TOKEN from the environment",
        "the commit 2ef7b4f47bc5b8c8e01fa51a3f0c42129c329756",
        "see https://host.example/a/b?c=d#e and user@host.example",
        "password: ask Ana",
        "token budget: 40000 per run",
    ],
)
def test_g1_plain_words_are_no_secret(flow, text):
    assert flow("note", "plan", text) == "plan r2 pending\n"
