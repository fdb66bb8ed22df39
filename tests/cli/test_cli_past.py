"""The verbs that read the past: log, diff, changes."""

from __future__ import annotations

import json
import re
import time

import pytest
from clirun import FOUNDING
from gitrepo import git


@pytest.fixture
def past(flow):
    """Return the command line on a repository where `plan` has four revisions."""
    flow("update", "plan", "--progress", "one")
    flow("note", "plan", "hello", "--as", "ann")
    flow("create", "Other", "--id", "other")
    flow("done", "plan", "--result", "r.md")
    return flow


LINES = [
    "r4 done by local: r.md",
    "r3 note by ann: hello",
    "r2 update by local: one",
    "r1 create by local: Compare options",
]


@pytest.mark.req("R-TF-29")
def test_a_log_is_the_flows_own_newest_first(past):
    lines = past("log", "plan").splitlines()
    start = r"[0-9a-f]{10} \d{4}-\d\d-\d\d \d\d:\d\d:\d\d\+00:00 "
    assert [re.sub(f"^{start}", "", line) for line in lines] == LINES
    short = past.git("rev-parse", "--short=10", "main")
    assert lines[0].startswith(f"{short} ")


def test_a_log_as_json(past):
    data = past.json("log", "plan", "-n", "1")
    (entry,) = data["log"]
    assert data["id"] == "plan"
    assert entry == {
        "commit": past.head[:10],
        "time": past.flow("plan")["updated_at"],
        "actor": "local",
        "revision": 4,
        "op": "done",
        "headline": "r.md",
        "unmanaged": False,
    }


def test_a_log_may_be_short(past):
    assert len(past("log", "plan", "-n", "2").splitlines()) == 2
    for number in ("0", "-1"):
        assert past.refuses(2, "log", "plan", "-n", number)["message"] == "-n counts from 1"


def test_a_diff_is_the_last_change_or_between_revisions(past):
    assert past("diff", "plan").splitlines()[:2] == ["plan r3 -> r4", "status: running -> done"]
    assert past("diff", "plan", "1", "2").splitlines()[0] == "plan r1 -> r2"
    assert 'progress: "" -> one' in past("diff", "plan", "1")
    assert past("diff", "plan", "2", "1").splitlines()[0] == "plan r2 -> r1"
    data = past.json("diff", "plan", "3")
    assert (data["id"], data["from"], data["to"]) == ("plan", 3, 4)
    assert past("diff", "plan", "4") == "plan r4: no difference\n"
    assert past("diff", "other").splitlines()[0] == "other (none) -> r1"


@pytest.mark.req("D1")
def test_a_diff_goes_back_over_revisions_that_were_left_out(flow, tmp_path):
    flow("update", "plan", "--progress", "one")
    git(tmp_path, "clone", "-q", flow.gitdir, tmp_path / "clone")
    (file,) = (tmp_path / "clone").glob("flows/*/plan.json")
    document = json.loads(file.read_text()) | {"revision": 7, "progress": "by hand"}
    file.write_text(json.dumps(document))
    git(tmp_path / "clone", "commit", "-q", "-a", "-m", "by hand")
    git(tmp_path / "clone", "push", "-q", "origin", "HEAD:main")
    said = ["plan r2 -> r7", "progress: one -> by hand"]
    assert flow("diff", "plan").splitlines() == said
    data = flow.json("diff", "plan")
    assert (data["from"], data["to"]) == (2, 7)
    flow.refuses(5, "diff", "plan", "6")
    flow("note", "plan", "x")
    assert flow("diff", "plan").splitlines()[0] == "plan r7 -> r8"
    flow("import", FOUNDING)
    assert flow("diff", "flow-example-001").startswith("flow-example-001 (none) -> r4\n")
    assert flow.json("diff", "flow-example-001")["from"] == 0


@pytest.mark.parametrize("span", [("9",), ("1", "9"), ("9", "2")])
def test_a_diff_of_a_revision_that_is_not(past, span):
    assert past.refuses(5, "diff", "plan", *span)["message"] == "plan has no revision 9"


def test_changes_are_the_operations_since_oldest_first(past):
    lines = past("changes", "plan", "--since", "2").splitlines()
    assert [line.split(" ", 3)[3] for line in lines] == LINES[1::-1]
    data = past.json("changes", "plan", "--since", "2")
    assert [entry["revision"] for entry in data["changes"]] == [3, 4]
    assert data["revision"] == 4
    assert past("changes", "plan", "--since", "4") == "nothing since r4\n"
    past.refuses(2, "changes", "plan")


@pytest.mark.req("L20")
@pytest.mark.parametrize(
    ("zone", "offset"),
    [("Asia/Kathmandu", r"\+05:45"), ("America/St_Johns", "-0[23]:30"), ("UTC", r"\+00:00")],
)
def test_people_see_their_zone_with_its_offset(past, zone, offset):
    env = {"TZ": zone}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", zone)
        time.tzset()
        said = past("log", "plan", env=env) + past("show", "plan", env=env)
        stored = past.json("log", "plan", "-n", "1", env=env)["log"][0]["time"]
    time.tzset()
    stamps = re.findall(r"\d\d:\d\d:\d\d(\S{6})", said)
    assert len(stamps) >= 7
    assert all(re.fullmatch(offset, stamp) for stamp in stamps)
    assert stored.endswith("Z")
    assert past.flow("plan")["updated_at"] == stored
