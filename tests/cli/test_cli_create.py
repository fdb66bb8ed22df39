"""`gfs create`: what it records, what it prints, what it refuses."""

from __future__ import annotations

import json
import re

import pytest


@pytest.mark.req("R-TF-01", "R-TF-16")
def test_a_goal_is_recorded_before_any_work(cli):
    said = cli("create", "Compare options", "--id", "plan")
    assert said == (
        "plan r1 pending\nnext: gfs update plan --progress 'WHAT IS DONE' --next 'WHAT IS NEXT'\n"
    )
    flow = cli.flow("plan")
    assert flow["updated_at"] == flow["created_at"]
    assert flow | {"created_at": 0, "updated_at": 0} == {
        "schema_version": 1,
        "id": "plan",
        "goal": "Compare options",
        "status": "pending",
        "revision": 1,
        "owner": "local",
        "created_at": 0,
        "updated_at": 0,
        "progress": "",
        "next_action": "Plan the work",
        "children": [],
    }
    assert cli.message().splitlines()[0] == "plan r1 create: Compare options"


def test_everything_that_can_be_given_is_kept(cli, tmp_path):
    data = tmp_path / "data.json"
    data.write_text('{"b": 1, "a": [true, null, "ü"]}')
    cli(
        *("create", "Goal", "--id", "all", "--owner", "ann", "--next", "Begin", "--type", "study"),
        *("--issue", "octo/plans#12", "--link", "doc=https://x.example/?a=b", "--link", "notes.md"),
        *("--label", "red", "--label", "ä", "--data", data),
    )
    flow = cli.flow("all")
    assert flow["owner"] == "ann"
    assert flow["next_action"] == "Begin"
    assert flow["links"] == [
        {"rel": "issue", "href": "octo/plans#12"},
        {"rel": "doc", "href": "https://x.example/?a=b"},
        {"rel": "related", "href": "notes.md"},
    ]
    assert flow["labels"] == ["red", "ä"]
    assert flow["type"] == "study"
    assert json.dumps(flow["data"]) == json.dumps({"b": 1, "a": [True, None, "ü"]})


def test_the_answer_as_json(cli):
    data = cli.json("create", "Goal", "--id", "plan")
    assert data == {
        "id": "plan",
        "revision": 1,
        "status": "pending",
        "changed": True,
        "commit": cli.head,
        "next": [
            *("gfs", "update", "plan"),
            *("--progress", "WHAT IS DONE", "--next", "WHAT IS NEXT"),
        ],
    }


def test_an_id_is_minted(cli):
    ids = {cli.json("create", "Goal")["id"] for _ in range(3)}
    assert len(ids) == 3
    assert all(re.fullmatch("f-[0-9a-hjkmnp-tv-z]{6}", name) for name in ids)


def test_the_next_command_reaches_the_same_flow_as_the_same_actor(cli, tmp_path):
    folder = tmp_path / "with space"
    cli("init", folder)
    data = cli.json("create", "Goal", "--id", "x", "--repo", folder, "--as", "ann")
    following = data["next"]
    assert cli(*following[1:], env={"GFS_REPO": "/nowhere"}) == "x r2 running\n"
    said = cli("create", "Goal", "--id", "x", "--repo", folder, "--as", "ann")
    assert said.endswith(f" --repo '{folder}' --as ann\n")


@pytest.mark.req("R-TF-27")
@pytest.mark.parametrize("more", [(), ("--next", "Read the docs"), ("--owner", "local")])
def test_the_same_create_again_is_harmless(flow, more):
    before = flow.state()
    said = flow("create", "Compare options", "--id", "plan", *more)
    assert said.startswith("plan r1 pending (unchanged)\n")
    assert flow.state() == before


@pytest.mark.req("R-TF-27")
def test_only_what_is_given_is_compared(flow):
    flow("update", "plan", "--next", "Something else", "--label", "late")
    flow("handoff", "plan", "--to", "ann", "--reason", "hers")
    said = flow("create", "Compare options", "--id", "plan", "--as", "somebody")
    assert said.startswith("plan r3 pending (unchanged)\n")


@pytest.mark.req("R-TF-27")
@pytest.mark.parametrize(
    "other",
    [
        ("Another goal",),
        ("Compare options", "--next", "Another step"),
        ("Compare options", "--owner", "ann"),
        ("Compare options", "--label", "new"),
        ("Compare options", "--type", "study"),
        ("Compare options", "--link", "a=b"),
    ],
)
def test_an_id_with_other_content_is_a_conflict(flow, other):
    error = flow.refuses(4, "create", *other, "--id", "plan")
    assert error["name"] == "stale"
    assert "plan is taken by a flow that is pending at r1" in error["message"]
    assert error["details"]["next"] == ["gfs", "show", "plan"]


@pytest.mark.req("R-TF-27", "L19")
def test_an_id_that_has_ended_stays_taken(flow):
    flow("done", "plan", "--result", "r.md")
    error = flow.refuses(4, "create", "Compare options", "--id", "plan")
    assert "archived" in error["message"]
    assert "gfs retry plan" in error["hint"]


@pytest.mark.req("R-TF-16")
@pytest.mark.parametrize("goal", ["", "   ", "\n\t"])
def test_a_goal_is_needed(cli, goal):
    error = cli.refuses(3, "create", goal)
    assert error["name"] == "invalid"
    assert error["details"]["violations"][0]["path"] == "goal"


@pytest.mark.parametrize(
    ("options", "field"),
    [
        (("--id", ""), "--id"),
        (("--id", "Upper"), "--id"),
        (("--owner", ""), "owner"),
        (("--owner", "a\nb"), "owner"),
        (("--next", " "), "next"),
        (("--label", ""), "labels.0"),
        (("--label", "a", "--label", "a"), "labels"),
        (("--type", "../x"), "type"),
        (("--link", "a="), "links.0.href"),
        (("--issue", "plans#12"), "--issue"),
        (("--issue", "octo/plans#0"), "--issue"),
        (("--issue", "octo/../plans#1"), "--issue"),
        (("--issue", "octo/plans#1/../../2"), "--issue"),
        (("--expect", "0"), "expect"),
        (("--allow-secret", ""), "allow_secret"),
    ],
)
def test_a_bad_value_is_refused_by_name(cli, options, field):
    error = cli.refuses(3, "create", "Goal", *options)
    assert error["details"]["violations"][0]["path"] == field
    assert error["message"].startswith(f"{field}: ")


def test_data_must_be_a_plain_object(cli):
    for text in ("[1]", '{"a": 1.5}', '{"a": 1, "a": 2}', "{", ""):
        error = cli.refuses(3, "create", "Goal", "--data", "-", stdin=text.encode())
        assert error["name"] == "invalid"
    error = cli.refuses(2, "create", "Goal", "--data", "/nowhere.json")
    assert "--data: cannot read '/nowhere.json'" in error["message"]


def test_arguments_that_are_missing_or_unknown_are_usage(cli):
    error = cli.refuses(2, "create")
    assert error["name"] == "usage"
    assert error["details"]["next"] == ["gfs", "create", "--help"]
    cli.refuses(2, "create", "Goal", "--nonsense")
    cli.refuses(2, "create", "Goal", "another word")
