"""`gfs.toml`: what is right in it is used, and everything that is wrong is told at once."""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from gitflowstate import checking, schemata, settingforms, settings
from gitflowstate.errors import Invalid, NotFound
from gitflowstate.settings import ChannelSettings, Policy

WHOLE = """\
[channels.hook]
kind = "webhook"
target = "https://hooks.example.org/gfs?team=a"
min_interval = "2m"
every = 60
labels = ["urgent", "ops"]
owners = ["ann"]
statuses = ["waiting", "done", "failed"]
fallback = "board"
secret_env = "GFS_HOOK_KEY"

[channels.board]
kind = "console"
file = "out/STATUS.md"

[channels.ops]
kind = "slack"
target = "C0123456789"

[channels.phone]
kind = "chat"

[channels.inside]
kind = "webhook"
url_env = "GFS_INSIDE_URL"
allow_addresses = ["10.1.0.0/16", "::1"]

[policy]
stale_after = "2h"
skew = 0
"""


def parse(text):
    return settings.parse(text.encode())


def found(text):
    return {v["path"]: v["message"] for v in settings.check(text.encode())}


def channel(*lines, name="ops"):
    return "\n".join([f"[channels.{name}]", *lines, ""])


# ── what is right ───────────────────────────────────────────────────────────────────────────────


@pytest.mark.req("R-TF-43", "R-TF-50")
def test_a_whole_file_says_what_each_channel_and_the_policy_are():
    known = parse(WHOLE)
    assert (known.violations, known.broken) == ([], {})
    assert known.channel("hook") == ChannelSettings(
        kind="webhook",
        target="https://hooks.example.org/gfs?team=a",
        min_interval=120,
        every=60,
        labels=("urgent", "ops"),
        owners=("ann",),
        statuses=("waiting", "done", "failed"),
        fallback="board",
        secret_env="GFS_HOOK_KEY",
    )
    assert known.channel("board").file == "out/STATUS.md"
    assert known.channel("inside").allow_addresses == ("10.1.0.0/16", "::1/128")
    assert known.policy == Policy(stale_after=7200, skew=0)


@pytest.mark.req("R-TF-43")
def test_what_is_not_said_has_its_default():
    known = parse(WHOLE)
    ops = known.channel("ops")
    assert (ops.min_interval, ops.every, ops.labels) == (110, 120, ())
    assert ops.token_env == "GFS_SLACK_TOKEN"
    phone = known.channel("phone")
    assert (phone.url_env, phone.statuses) == ("GFS_CHAT_URL", ("waiting", "done", "failed"))
    assert known.channel("inside").secret_env == "GFS_WEBHOOK_SECRET"
    assert parse("").policy == Policy(3600, None)


@pytest.mark.parametrize("text", ["", "[channels]", WHOLE], ids=["empty", "no channel", "others"])
def test_there_is_always_a_console(text):
    assert settings.Settings().channel("console") == ChannelSettings("console")
    assert parse(text).channel("console") == ChannelSettings("console")


def test_a_console_of_the_file_is_used_in_its_place_and_is_not_replaced_when_it_is_wrong():
    own = parse(channel('kind = "console"', "every = 5", name="console"))
    assert own.channel("console").every == 5
    wrong = parse(channel('kind = "console"', "every = 0", name="console"))
    with pytest.raises(Invalid):
        wrong.channel("console")


@pytest.mark.req("R-TF-43")
@pytest.mark.parametrize(
    ("said", "meant"),
    [("0", 0), ("110", 110), ('"110s"', 110), ('"2m"', 120), ('"1h"', 3600), ('"1d"', 86_400)],
)
def test_a_length_of_time_is_seconds_or_has_a_unit(said, meant):
    assert parse(channel('kind = "console"', f"min_interval = {said}")).channel("ops")[2] == meant


@pytest.mark.parametrize(
    "said",
    [
        *("-1", "2.0", "true", "1000000000", "[2]", "2026-01-01"),
        *('"2 m"', '"m"', '"2w"', '"-2m"', '"99999999d"', '""', '"2m\\n"', '"\\u0662m"'),
    ],
)
def test_anything_else_is_no_length_of_time(said):
    text = channel('kind = "console"', f"min_interval = {said}")
    assert "must be a length of time" in found(text)["channels.ops.min_interval"]


# ── what is wrong ───────────────────────────────────────────────────────────────────────────────


def test_every_violation_is_told_at_once_by_its_path():
    text = """\
        colour = "red"
        [policy]
        skew = "soon"
        stale_afer = 5
        [channels.one]
        kind = "slak"
        [channels.two]
        min_intervall = 5
        labels = []
        [channels.three]
        kind = "chat"
        target = "x"
        every = 0
        [channels.inbox]
        kind = "console"
        [channels."../x"]
        kind = "console"
        [channels.four]
        kind = "slack"
        target = "#general"
        fallback = "four"
        [channels.five]
        kind = "console"
        fallback = "seven"
        file = "/etc/x.md"
    """
    told = found(text)
    assert {path: message.split(";")[0] for path, message in told.items()} == {
        "colour": "is no table",
        "policy.skew": f"must be {settingforms.SPAN.rule}",
        "policy.stale_afer": "is no key",
        "channels.one.kind": "must be one of console, webhook, chat, slack, github",
        "channels.two.min_intervall": "is no key",
        "channels.two.labels": "must be a list of 1 to 100 different names",
        "channels.two.kind": "is missing",
        "channels.three.target": "does not belong to kind chat, but to webhook, slack, github",
        "channels.three.every": f"must be {settingforms.SOME_SPAN.rule}",
        "channels.inbox": "is a reserved name",
        "channels.../x": told["channels.../x"].split(";")[0],
        "channels.four.target": "must be the id of a Slack channel, such as C0123456789",
        "channels.four.fallback": "must be the name of another channel",
        "channels.five.fallback": "must be the name of another channel",
        "channels.five.file": f"must be {settingforms.FILE.rule}",
    }
    assert "must have a name of 1 to 64" in told["channels.../x"]


@pytest.mark.parametrize(
    ("wrong", "right"),
    [("min_intervall", "min_interval"), ("Kind", "kind"), ("token-env", "token_env")],
)
def test_an_unknown_key_names_the_nearest_right_one(wrong, right):
    message = found(channel('kind = "console"', f"{wrong} = 1"))[f"channels.ops.{wrong}"]
    assert message == f"is no key; did you mean {right}?"


def test_an_unknown_key_that_is_near_to_none_is_told_which_there_are():
    message = found("[policy]\nzzz = 1")["policy.zzz"]
    assert message == "is no key; there are stale_after, skew"


def test_a_channel_that_is_wrong_costs_that_channel_alone():
    known = parse(WHOLE + channel('kind = "console"', "every = 0", "x = 1", name="bad"))
    assert known.channel("hook").every == 60
    assert known.policy.skew == 0
    assert list(known.broken) == ["bad"]
    assert known.broken["bad"].startswith("channels.bad.every must be")
    assert known.broken["bad"].endswith("(and 1 more)")
    with pytest.raises(Invalid) as refused:
        known.channel("bad")
    paths = [violation["path"] for violation in refused.value.details["violations"]]
    assert paths == ["channels.bad.every", "channels.bad.x"]
    assert refused.value.code == 3


@pytest.mark.parametrize("text", ["[policy]\nskew = -1\n", "[polcy]\nskew = 1\n", "skew = 1\n"])
def test_a_policy_that_may_be_meant_otherwise_is_not_guessed_and_channels_go_on(text):
    known = parse(text + WHOLE.partition("[policy]")[0])
    assert known.channel("hook").every == 60
    with pytest.raises(Invalid, match=r"gfs\.toml: "):
        _ = known.policy


def test_an_unknown_channel_is_not_found_and_the_known_ones_are_named():
    with pytest.raises(NotFound) as refused:
        parse(WHOLE).channel("opps")
    assert "board, console, hook, inside, ops, phone" in refused.value.hint


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("channels = 5", "channels"),
        ("policy = []", "policy"),
        ("[channels]\nops = 5", "channels.ops"),
        ("[[channels.ops]]\nkind = 'console'", "channels.ops"),
    ],
)
def test_what_must_be_a_table_is_one(text, path):
    assert found(text)[path] == "must be a table"


@pytest.mark.parametrize(
    ("data", "line"),
    [
        (b"[channels", 1),
        (b"a = 1\na = 2", 2),
        (b"\n\nx", 3),
        (b"x = \xff", 1),
        (b"x = 'a\0b'", 1),
        (b'x = """', 1),
        (b"\xef\xbb\xbfx = 1", 1),
        (b"a = " + b"[" * 30_000, None),
        (b"#" * 65_537, None),
    ],
    ids=range(9),
)
def test_what_is_no_toml_is_one_violation_with_its_line(data, line):
    ((violation),) = settings.check(data)
    assert (violation["path"], violation.get("line")) == ("", line)
    with pytest.raises(Invalid, match=r"^gfs\.toml "):
        settings.parse(data)


def test_two_channels_never_share_what_one_budget_is_kept_for():
    slack = ('kind = "slack"', 'target = "C0123456789"')
    text = channel(*slack, name="one") + channel(*slack, name="two")
    assert list(found(text)) == ["channels.two.token_env"]
    assert found(text + 'token_env = "GFS_OTHER"\n') == {}
    chats = channel('kind = "chat"', name="one") + channel('kind = "chat"', name="two")
    assert list(found(chats)) == ["channels.two.url_env"]


@pytest.mark.parametrize("own", ["", 'token_env = "GFS_GITHUB_TOKEN"'])
def test_a_github_channel_shares_a_token_by_its_default_too(own):
    one = channel('kind = "github"', name="one")
    named = channel('kind = "github"', 'token_env = "GFS_GITHUB_TOKEN"', name="two")
    both = (one + named, named.replace("two", "one") + channel('kind = "github"', own, name="two"))
    for text in both:
        assert list(found(text)) == ["channels.two.token_env"]
    assert found(one + named.replace("GFS_GITHUB_TOKEN", "GFS_OTHER")) == {}


# ── secrets and foreign places ──────────────────────────────────────────────────────────────────


@pytest.mark.req("G1", "G2")
@pytest.mark.parametrize(
    "value",
    [
        '"https://hooks.slack.com/services/T00000000/B00000000/a1B2c3D4e5F6g7H8i9J0k1L2"',
        '"https://ann:pass-word@hooks.example.org/x"',
        '"https://hooks.example.org/x?token=ghp_a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"',
    ],
)
def test_a_secret_in_the_file_is_refused_and_not_repeated(value):
    told = settings.check(channel('kind = "webhook"', f"target = {value}").encode())
    assert "seems to hold a secret" in told[0]["message"]
    secret = re.search(r"[\w-]{9,}(?=\"|@|$)", value)[0]
    assert secret not in json.dumps(told)


@pytest.mark.req("G2", "G3")
@pytest.mark.parametrize(
    "name", ["AWS_SECRET_ACCESS_KEY", "GITHUB_TOKEN", "gfs_x", "GFS_", "GFS_A B"]
)
def test_only_a_variable_of_ours_can_be_asked_for(name):
    text = channel('kind = "webhook"', f'url_env = "{name}"')
    assert "begins with GFS_" in found(text)["channels.ops.url_env"]


@pytest.mark.req("K1")
@pytest.mark.parametrize(
    ("allowed", "wrong"), [("", True), ('"127.0.0.0/8"', False), ('"10.0.0.0/8"', True)]
)
def test_k1_an_address_that_is_not_public_is_told_before_anything_is_sent(allowed, wrong):
    listed = [f"allow_addresses = [{allowed}]"] if allowed else []
    text = channel('kind = "webhook"', 'target = "http://127.0.0.1:8080/x"', *listed)
    assert ("channels.ops.target" in found(text)) is wrong


@pytest.mark.parametrize(
    "file",
    [
        *("/a.md", "../a.md", "a/../b.md", ".git/a.md", "a//b.md", "a.txt", "a.md/", "a\\n.md"),
        *("~/a.md", "a" * 198 + ".md"),
    ],
)
def test_a_file_stays_below_the_folder_and_is_markdown(file):
    assert list(found(channel('kind = "console"', f'file = "{file}"'))) == ["channels.ops.file"]


@given(st.binary(max_size=300) | st.text(max_size=300).map(lambda t: f"[channels.a]\n{t}".encode()))
def test_whatever_the_file_holds_it_is_judged(data):
    for violation in settings.check(data):
        assert set(violation) <= {"path", "message", "line"}


# ── what uses it ────────────────────────────────────────────────────────────────────────────────


def test_gfs_check_knows_the_file_by_its_name():
    bad = b"[policy]\nskw = 1\n"
    assert checking.check_file("somewhere/gfs.toml", bad) == settings.check(bad) != []
    assert checking.check_file("gfs.toml", WHOLE.encode()) == []
    assert "is not JSON" in checking.check_file("other.toml", bad)[0]["message"]


def test_reading_it_costs_a_short_command_no_pydantic():
    code = (
        "import sys; from gitflowstate import settings; settings.parse(sys.stdin.buffer.read());"
        "print({'pydantic', 'pydantic_core', 'jsonschema', 'difflib'} & set(sys.modules))"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], input=WHOLE.encode(), capture_output=True, check=True
    )
    assert run.stdout.strip() == b"set()"


@pytest.mark.parametrize(
    ("text", "valid"),
    [
        ("", True),
        (WHOLE, True),
        (
            channel('kind = "github"', "author_id = 41898282", 'base_url = "https://x.example"'),
            True,
        ),
        (channel("every = 5"), False),
        (channel('kind = "console"', "every = 0"), False),
        (channel('kind = "console"', 'every = "2 m"'), False),
        (channel('kind = "console"', "colour = 1"), False),
        (channel('kind = "console"', "statuses = ['open']"), False),
        (channel('kind = "console"', "file = '/x.md'"), False),
        (channel('kind = "webhook"', "url_env = 'HOME'"), False),
        (channel('kind = "console"', name="inbox"), False),
        (channel('kind = "console"', name="'A b'"), False),
        ("[polcy]", False),
        ("[policy]\nskew = -1", False),
    ],
)
def test_the_published_schema_accepts_and_refuses_the_same(text, valid):
    judge = Draft202012Validator(schemata.json_schema("settings"))
    assert judge.is_valid(tomllib.loads(text)) is valid
    assert (settings.check(text.encode()) == []) is valid


def test_every_example_of_the_pages_is_right():
    folder = Path(__file__).parents[1] / "docs"
    pages = [page.read_text("utf-8") for page in folder.rglob("*.md")]
    blocks = [block for page in pages for block in re.findall(r"```toml\n([\s\S]*?)```", page)]
    assert len(blocks) >= 5
    assert [settings.check(block.encode()) for block in blocks] == [[]] * len(blocks)


def test_every_key_has_a_place_in_the_settings():
    assert tuple(settingforms.CHANNEL) == ChannelSettings._fields
    assert tuple(settingforms.POLICY) == Policy._fields


@pytest.mark.parametrize("table", ["CHANNEL", "POLICY"])
def test_the_reference_page_has_every_key_with_its_default_and_kinds(table):
    page = Path(__file__).parents[1].joinpath("docs/reference/settings.md").read_text("utf-8")
    title = {"CHANNEL": "## Channels", "POLICY": "## Policy"}[table]
    section = page.partition(f"\n{title}\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `(\w+)` \|([^|]*)\|([^|]*)\|", section, re.MULTILINE)
    defaults = {"CHANNEL": ChannelSettings, "POLICY": Policy}[table]._field_defaults
    keys = getattr(settingforms, table)
    assert [row[0] for row in rows] == list(keys)
    for name, kinds, default in rows:
        told = re.findall(r"`([^`]+)`", kinds)
        assert told == list(keys[name].kinds), name
        own = [each[name] for each in settingforms.DEFAULTS.values() if name in each]
        value = defaults.get(name)
        if own:
            wanted = list(own[0]) if isinstance(own[0], tuple) else own
        else:
            wanted = [str(value)] if value not in (None, ()) else []
        assert re.findall(r"`([^`]+)`", default) == wanted, name
