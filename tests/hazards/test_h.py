"""H: what GitHub answers, and what it must make of the next run; comments are counted each time."""

from __future__ import annotations

import json
import random
import re

import cmarkgfm
import pytest
from cmarkgfm.cmark import Options
from fakes.github import ANN, BOT, STRANGER, said
from fakes.loopback import REMOTE_WORDS, Answer, Loopback
from hubbench import Hub
from scaling import scale

from gitflowstate import marker
from gitflowstate.delivery import HoldOff, NotSent, Refused, Unauthorised, Unknown
from gitflowstate.model import Link
from gitflowstate.ops import Wait
from gitflowstate.ports import Notice

pytestmark = pytest.mark.usefixtures("on_paper")

SECONDARY = "You have exceeded a secondary rate limit. Please wait a few minutes."


@pytest.fixture
def hub(tmp_path):
    made = Hub(tmp_path)
    yield made
    made.sound()
    made.close()


@pytest.fixture
def began(hub):
    """A hub with one flow whose status comment is there."""
    hub.began()
    return hub


def told(report):
    return [(each.kind, each.revision) for each in report.told]


def linked(issue):
    return {"links": (Link(rel="issue", href=issue),)}


def notice(words="hello", revision=4, kind="status", flow="f-1", target=None):
    text = f"{marker.line(flow, kind, revision)}\n{words}"
    return Notice(flow, kind, revision, target, "", text)


# ── a process that ends, an answer that is lost ─────────────────────────────────────────────────


@pytest.mark.req("H1", "H2", "H4", "R-TF-52", "R-TF-53", "L13")
def test_h1_h2_h4_killed_at_each_effect_of_a_pass_every_comment_is_there_once(tmp_path):
    """Before the intent, after it, after the request, before the cursor is saved."""
    hub = Hub(tmp_path)
    try:
        hub.watch()
        died, steps = True, 0
        while died:
            name = f"f-{steps}"
            hub.began(name)
            hub.lab.done(name)
            died = hub.killed(steps)
            assert hub.settle(3).owed == ()
            assert hub.kinds(name) == [("status", 2), ("final", 2)]
            steps += 1
        assert steps > 10
        hub.sound()
    finally:
        hub.close()


@pytest.mark.req("H3", "L16")
@pytest.mark.parametrize(
    ("step", "arrives"),
    [
        ("lost", True),
        ("truncated", True),
        ("silent", True),
        ("garbled", True),
        ("dropped", False),
        (500, False),
        (502, False),
        (503, False),
        (408, False),
    ],
)
def test_h3_an_answer_that_is_lost_is_looked_for_and_never_sent_blindly(began, step, arrives):
    began.lab.done()
    began.server.fail("POST", step)
    report = began.watch()
    posts = len(began.asked("POST"))
    assert began.kinds().count(("final", 2)) == arrives
    assert report.uncertain == (not arrives)
    began.clock.move(5)
    began.watch()  # not 30 s later: a listing may be behind
    assert len(began.asked("POST")) == posts
    began.clock.move(30)
    began.watch()
    assert began.settle().owed == ()
    assert began.kinds() == [("status", 2), ("final", 2)]


@pytest.mark.req("H3")
def test_h3_a_listing_that_is_behind_makes_no_second_comment(tmp_path):
    hub = Hub(tmp_path, lag=1)
    try:
        hub.began()
        hub.lab.done()
        hub.server.fail("POST", "lost")
        assert hub.watch().uncertain == 1
        hub.clock.move(40)
        hub.watch()
        assert hub.settle().owed == ()
        assert hub.kinds() == [("status", 2), ("final", 2)]
        hub.sound()
    finally:
        hub.close()


@pytest.mark.req("H6", "L14", "R-TF-46")
def test_h6_a_second_watcher_stops_while_the_first_one_sends(began):
    began.lab.done()
    began.server.fail("POST", "lost")
    began.killed(3)  # it holds the cursor, and has begun to send
    report = began.watch()
    assert report.held_by == f"w{began.passes - 1}"
    assert report.told == ()
    assert began.settle().owed == ()
    assert began.kinds() == [("status", 2), ("final", 2)]


@pytest.mark.req("H7", "R-TF-44")
def test_h7_a_flow_that_lives_and_ends_between_two_runs_is_announced(began):
    began.lab.create("f-2")
    began.lab.done("f-2")
    assert told(began.watch()) == [("final", 2)]
    assert began.kinds("f-2") == [("final", 2)]


@pytest.mark.req("L13", "R-TF-44")
@pytest.mark.parametrize("seed", range(2))
def test_killed_at_random_there_is_exactly_one_final(tmp_path, seed):
    chance = random.Random(seed)
    hub = Hub(tmp_path)
    try:
        deaths = 0
        for number in range(scale(16)):
            name = f"f-{number}"
            hub.lab.create(name)
            if chance.random() < 0.3:
                hub.server.fail("POST", chance.choice(["lost", "truncated", 502, "dropped"]))
            deaths += hub.killed(chance.randint(0, 14))
            hub.lab.done(name)
            deaths += hub.killed(chance.randint(0, 14))
            hub.clock.move(chance.choice([5, 40, 120, 400]))
        hub.server.faults.clear()
        assert hub.settle(6).owed == ()
        assert deaths
        for number in range(scale(16)):
            kinds = hub.kinds(f"f-{number}")
            assert kinds.count(("final", 2)) == 1
            assert len(kinds) <= 2
        hub.sound()
    finally:
        hub.close()


# ── what people do ──────────────────────────────────────────────────────────────────────────────


@pytest.mark.req("H8", "L15")
def test_h8_a_comment_that_people_delete_comes_back_once_and_ends_are_told_all_the_same(began):
    for number in range(3):
        began.server.comments[:] = [c for c in began.server.comments if "kind=final" in c["body"]]
        began.lab.update(f"step {number}")
        began.clock.move(200)
        began.watch()
        assert len(began.kinds()) == (1 if number == 0 else 0)
    began.lab.done()
    began.watch()
    assert began.kinds() == [("final", 5)]


@pytest.mark.req("H9")
def test_h9_what_people_write_into_a_comment_of_ours_is_written_over(began):
    began.server.comments[0]["body"] += "\n\n@everyone look here"
    began.lab.update("on")
    report = began.watch()
    (body,) = began.server.bodies(BOT)
    assert "look here" not in body
    assert began.kinds() == [("status", 2)]
    assert report.warnings == ("f-1: its status message was edited by hand; rewritten",)
    began.clock.move(600)
    began.lab.update("further")
    assert began.watch().warnings == ()


@pytest.mark.req("H9")
def test_h9_what_people_cut_out_of_a_comment_with_its_marker_is_written_over_and_said(began):
    began.server.comments[0]["body"] = "my own words"
    began.lab.update("on")
    report = began.watch()
    assert began.kinds() == [("status", 2)]
    assert ["edited by hand" in warning for warning in report.warnings] == [True]


@pytest.mark.req("H10", "L15")
def test_h10_a_locked_issue_is_parked_by_its_reason_and_the_final_follows_the_unlocking(began):
    began.server.issues[1001, 12].locked = True
    began.lab.done()
    report = began.watch()
    assert list(report.parked) == ["f-1"]
    assert report.parked["f-1"].startswith("the issue is locked (GitHub answered 403, request A1")
    requests = len(began.server.requests)
    began.watch()
    assert len(began.server.requests) == requests  # no storm
    began.server.issues[1001, 12].locked = False
    assert began.settle().parked == {}
    assert began.kinds() == [("status", 2), ("final", 2)]


@pytest.mark.req("H11", "L15")
@pytest.mark.parametrize(("what", "words"), [("gone", "410"), ("absent", "404")])
def test_h11_an_issue_that_is_not_there_is_parked_and_others_go_on(began, what, words):
    if what == "gone":
        began.server.issues[1001, 13].gone = True
    else:
        del began.server.issues[1001, 13]
    began.lab.create("f-2", **linked("octo/hello#13"))
    began.lab.done()
    report = began.watch()
    assert list(report.parked) == ["f-2"]
    assert f"GitHub answered {words}" in report.parked["f-2"]
    assert began.kinds() == [("status", 2), ("final", 2)]
    asked = len(began.asked())
    for _ in range(20):  # within a day: 5 min, 10, 20, ... between two tries
        began.clock.move(3600)
        began.watch()
    assert len(began.asked()) - asked < 12
    assert REMOTE_WORDS not in str(began.watch().parked)


# ── repositories and issues that move ───────────────────────────────────────────────────────────


@pytest.mark.req("H12", "F11", "L15")
def test_h12_a_repository_that_moved_is_looked_up_by_its_number(hub):
    hub.server.moved["octo/old"] = 1001
    hub.lab.create(**linked("octo/old#12"))
    assert told(hub.watch()) == [("status", 1)]
    assert hub.kinds() == [("status", 1)]
    assert hub.receipt().message.startswith("octo/hello#12/")
    assert ("GET", "/repositories/1001") in hub.asked()
    posts = hub.asked("POST")
    assert [path for _, path in posts] == ["/repos/octo/hello/issues/12/comments"]


@pytest.mark.req("H12", "F11")
def test_h12_an_issue_that_moved_to_another_repository_is_followed_there(began):
    began.server.repos["octo/other"] = 1002
    began.server.issues[1002, 7] = began.server.issues.pop((1001, 12))
    began.server.moved["octo/hello", 12] = (1002, 7)
    began.lab.update("on")
    began.clock.move(200)
    assert told(began.watch()) == [("status", 2)]
    assert began.receipt().message.startswith("octo/other#7/")
    (comment,) = began.server.issues[1002, 7].comments
    assert marker.read(comment["body"]) == ("f-1", "status", 2)
    assert began.receipt().gone == 0  # nobody removed anything


@pytest.mark.req("H12", "F11", "G3")
@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_h12_a_redirect_of_a_post_is_never_a_success_and_the_token_does_not_follow(hub, status):
    elsewhere = Loopback()
    try:
        for place in (f"http://127.0.0.1:{elsewhere.port}/repositories/1001/issues/12", "", "/x"):
            hub.server.script.append(Answer(status, b"[]", (("Location", place),)))
            channel = hub.channel()
            with pytest.raises(Refused, match="does not say where to"):
                channel.post(notice())
            channel.close()
        assert elsewhere.requests == []
        assert hub.server.comments == []
    finally:
        elsewhere.stop()


@pytest.mark.req("H12")
@pytest.mark.parametrize("status", [300, 303, 304, 202, 204, 203])
def test_h12_an_odd_answer_may_be_a_success(hub, status):
    hub.server.script.append(status)
    channel = hub.channel()
    with pytest.raises(Unknown):
        channel.post(notice())
    channel.close()


# ── credentials and limits ──────────────────────────────────────────────────────────────────────


@pytest.mark.req("H13", "G2")
def test_h13_a_bad_token_stops_the_run_and_leaves_the_cursor(began):
    began.lab.done()
    before, began.server.tokens = began.cursor, {}
    with pytest.raises(Unauthorised, match="GFS_GITHUB_TOKEN") as refused:
        began.watch()
    assert refused.value.code == 77
    assert (began.cursor.head, began.cursor.owed) == (before.head, before.owed)
    assert len(began.asked("POST", "PATCH")) <= 2  # the first one, and none after the refusal


LIMITS = [
    (403, SECONDARY, {"Retry_After": 90}, 90),
    (429, "Too many requests", {"Retry_After": 90}, 90),
    (429, "Too many requests", {}, 60),
    (403, SECONDARY, {}, 60),
    (403, "API rate limit exceeded", {"X_RateLimit_Remaining": 0}, 60),
]


@pytest.mark.req("H14", "L16")
@pytest.mark.parametrize(("status", "words", "headers", "wait_s"), LIMITS)
def test_h14_a_limit_silences_all_that_is_owed_until_its_time_across_runs(
    hub, status, words, headers, wait_s
):
    for name in ("f-1", "f-2", "f-3", "f-4"):
        hub.lab.create(name)
    hub.watch()
    hub.clock.move(600)
    for name in ("f-1", "f-2"):
        hub.lab.update("on", name)
    hub.lab.done("f-3")
    hub.lab.done("f-4")
    writes = len(hub.server.writes)
    hub.server.fail("POST", None, said(status, words, **headers))
    report = hub.watch()
    assert told(report) == [("final", 2)]
    assert report.silent_until == hub.clock.later(wait_s - 1)
    hub.server.blocked_until = hub.clock.ticks() + wait_s - 1
    requests = len(hub.server.requests)
    for _ in range(3):
        hub.clock.move(wait_s // 4)
        assert hub.watch().told == ()
    assert len(hub.server.requests) == requests
    hub.clock.move(wait_s)
    after = hub.watch()
    assert after.told[0].kind == "final"
    assert after.owed == ()
    assert len(hub.server.writes) - writes == 6
    for name in ("f-3", "f-4"):
        assert hub.kinds(name) == [("status", 2), ("final", 2)]


@pytest.mark.req("H14", "L16")
def test_h14_silence_doubles_while_github_does_not_say_how_long(began):
    began.lab.done()
    waits = []
    for _ in range(4):
        began.server.fail("POST", said(403, SECONDARY))
        before = began.clock.ticks()
        until = began.watch().silent_until
        while began.clock.now() < until:
            began.clock.move(1)
        waits.append(began.clock.ticks() - before)
    assert waits == [60, 120, 240, 480]
    began.watch()
    assert began.kinds() == [("status", 2), ("final", 2)]


@pytest.mark.req("H14")
@pytest.mark.parametrize("ahead_s", [0, 600, -600])
def test_h14_the_reset_is_read_beside_the_clock_of_github(hub, ahead_s):
    hub.ahead_s = ahead_s
    reset = int(hub.clock.ticks()) + 120
    limited = said(403, "limit", X_RateLimit_Remaining=0, X_RateLimit_Reset=reset)
    for answer, wait_s in [
        (limited, 121),
        (said(429, "x", Retry_After="Sun, 06 Sep 2026 10:02:00 GMT"), 120),
        (said(429, "x", Retry_After="10", X_RateLimit_Remaining=0, X_RateLimit_Reset=reset), 10),
        (said(403, "x", X_RateLimit_Remaining=0, X_RateLimit_Reset="soon"), 60),
        (said(403, "x", X_RateLimit_Remaining=0, X_RateLimit_Reset=reset - 500), 60),
    ]:
        hub.server.script.append(answer)
        channel = hub.channel()
        with pytest.raises(HoldOff) as wait:
            channel.post(notice())
        channel.close()
        assert wait.value.until == hub.clock.later(wait_s + ahead_s)


@pytest.mark.req("H14")
def test_a_clock_that_is_ten_minutes_fast_makes_no_second_comment(began):
    began.ahead_s = 600
    began.lab.done()
    began.server.fail("POST", "lost")
    began.watch()
    assert began.settle().owed == ()
    assert began.kinds() == [("status", 2), ("final", 2)]


@pytest.mark.req("H15", "F11")
@pytest.mark.parametrize(
    "body",
    [
        *(b"", b"<html>", b"[]", b"{}", b'{"id": "9"}', b'{"id": true, "body": "x"}'),
        *(b'{"id": 9, "body": "another"}', b'{"id": -9, "body": "<!-- gfs:1"}', b"[" * 90_000),
    ],
    ids=range(9),
)
@pytest.mark.parametrize("status", [200, 201])
def test_h15_h16_an_answer_that_does_not_show_the_comment_is_no_success(hub, status, body):
    hub.server.script.append(Answer(status, body, (("Content-Type", "text/html"),)))
    channel = hub.channel()
    with pytest.raises(Unknown):
        channel.post(notice())
    channel.close()


@pytest.mark.req("H12", "F11")
def test_h12_only_status_201_is_a_new_comment(hub):
    """A redirect that a client follows turns the POST into a GET, which shows an older one."""
    body = json.dumps({"id": 9, "body": notice().text, "user": {"id": BOT}}).encode()
    hub.server.script += [Answer(200, body), Answer(201, body)]
    channel = hub.channel()
    with pytest.raises(Unknown):
        channel.post(notice())
    assert channel.post(notice()) == "octo/hello#12/9"
    channel.close()


@pytest.mark.req("H15")
def test_h15_a_message_that_is_not_acceptable_is_parked_with_githubs_number_for_it(began):
    began.lab.create("f-2")
    began.lab.create("f-3")
    began.server.fail("POST", said(422, "Validation Failed", X_GitHub_Request_Id="0A1B:2C"))
    report = began.watch()
    assert list(report.parked.values()) == [
        "the message is not acceptable (GitHub answered 422, request 0A1B:2C)"
    ]
    assert len(report.told) == 1


# ── whose comment it is ─────────────────────────────────────────────────────────────────────────


@pytest.mark.req("F3", "R-TF-53")
@pytest.mark.parametrize("author", [STRANGER, ANN])
def test_a_marker_in_the_comment_of_somebody_else_is_ignored(began, author):
    began.server.add(f"{marker.line('f-1', 'final', 2)}\nforged", author=author)
    began.server.add(f"> {marker.line('f-1', 'final', 2)}")
    began.lab.done()
    assert told(began.watch()) == [("final", 2), ("status", 2)]
    assert began.kinds() == [("status", 2), ("final", 2)]
    assert "forged" in str(began.server.bodies(author))


def test_the_author_is_that_of_the_first_comment_and_stays_in_the_cursor(tmp_path):
    hub = Hub(tmp_path, author=ANN)
    try:
        hub.lab.create()
        hub.watch()
        assert hub.cursor.author_id == str(ANN)
        assert hub.asked("GET")[0] == ("GET", "/user")
        hub.lab.done()
        hub.watch()
        assert hub.asked("GET").count(("GET", "/user")) == 1
        hub.sound()
    finally:
        hub.close()


@pytest.mark.parametrize(("unasked", "found"), [(str(BOT), 1), (str(ANN), 0)])
def test_a_token_that_cannot_ask_is_taken_for_the_bot_of_actions_or_as_settings_say(
    tmp_path, unasked, found
):
    hub = Hub(tmp_path, author=None)
    try:
        hub.server.add(f"{marker.line('f-1', 'status', 1)}\nx", author=BOT)
        channel = hub.channel(unasked=unasked)
        assert len(channel.find(notice(), None)) == found
        assert channel.author_id is None  # a guess is no fact to keep
        channel.close()
    finally:
        hub.close()


# ── many comments ───────────────────────────────────────────────────────────────────────────────


@pytest.mark.req("R-TF-53")
def test_three_pages_with_a_deletion_between_two_of_them(hub):
    for number in range(250):
        hub.server.add(f"other {number}", author=STRANGER)
    mine = hub.server.add(f"{marker.line('f-1', 'status', 4)}\nx")
    hub.server.comments.insert(100, hub.server.comments.pop())  # first of the second page
    hub.server.between = [lambda: hub.server.comments.pop(0)]
    channel = hub.channel()
    assert [each.id for each in channel.find(notice(), None)] == [f"octo/hello#12/{mine['id']}"]
    channel.close()


@pytest.mark.req("G3")
def test_g3_a_next_page_of_another_host_is_not_asked_for(hub):
    elsewhere = Loopback()
    try:
        link = f'<http://127.0.0.1:{elsewhere.port}/x>; rel="next"'
        hub.server.fail("GET", None, Answer(200, b"[]", (("Link", link),)))
        channel = hub.channel()
        with pytest.raises(NotSent, match="another host"):
            channel.find(notice(), None)
        channel.close()
        assert elsewhere.requests == []
    finally:
        elsewhere.stop()


@pytest.mark.req("F11", "R-TF-43")
@pytest.mark.parametrize(
    "target",
    [
        *("octo/hello#1/../..", "a/b/c#1", "octo/..#1", "octo/.#1", "octo/hello#0", "octo/hello"),
        *("octo/hello#1?x=", "https://github.com/octo/hello/issues/1", "#12", "o cto/hello#1"),
        *("../x#1", "-/a#1", "octo/hello#1%2f", "octo/hello#12345678901"),
    ],
)
def test_a_target_that_is_no_issue_costs_no_request(hub, target):
    hub.lab.create(**linked(target))
    report = hub.watch()
    assert "not an issue" in report.parked["f-1"]
    assert hub.asked() == []


def test_a_malformed_link_is_named_and_other_flows_go_on(hub):
    hub.lab.create(**linked("octo/hello/12"))
    hub.lab.create("f-2")
    report = hub.watch()
    assert list(report.parked) == ["f-1"]
    assert hub.kinds("f-2") == [("status", 1)]


@pytest.mark.req("R-TF-53")
def test_two_flows_on_one_issue_keep_a_comment_each(began):
    began.lab.create("f-2")
    began.settle()
    began.lab.update("later", "f-2")
    began.lab.done()
    began.settle()
    assert began.kinds("f-1") == [("status", 2), ("final", 2)]
    assert began.kinds("f-2") == [("status", 2)]
    assert len(began.server.issues[1001, 12].comments) == 3


def test_a_hundred_revisions_in_a_minute_are_one_comment_and_one_end(hub):
    hub.lab.create()
    hub.watch()
    for number in range(100):
        hub.lab.update(f"step {number}")
        if number % 20 == 19:
            hub.watch()
        hub.clock.move(0.6)
    hub.lab.done()
    hub.watch()
    assert hub.settle().owed == ()
    assert hub.kinds() == [("status", 102), ("final", 102)]
    assert len(hub.asked("POST")) == 2
    assert 1 <= len(hub.asked("PATCH")) <= 2


@pytest.mark.req("L16")
@pytest.mark.parametrize(
    ("flows", "per_hour"), [(24, 10), pytest.param(500, 400, marks=pytest.mark.long)]
)
def test_more_ends_than_an_hour_takes_are_all_told_in_the_hours_that_follow(hub, flows, per_hour):
    hub.watch()
    for number in range(flows):
        hub.lab.create(f"f-{number}")
        hub.lab.done(f"f-{number}")
    begin, hours = hub.clock.ticks(), -(-flows // per_hour)
    while hub.watch(per_hour=per_hour).owed:
        hub.clock.move(120)
        assert hub.clock.ticks() - begin < hours * 3600 + 600
    for number in range(flows):
        assert hub.kinds(f"f-{number}") == [("final", 2)]
    for start in hub.server.writes:
        within = [each - start for each in hub.server.writes if each >= start]
        assert sum(each < 60 for each in within) <= 60
        assert sum(each < 3600 for each in within) <= 2 * per_hour
    assert len(hub.asked("GET")) < 2 * hours * (2 + flows / 100)  # of the 1,000 of an hour


# ── what the text may do ────────────────────────────────────────────────────────────────────────

HOSTILE = (
    "@everyone @org/team <!channel> #12 fixes #12 GH-12 o/r#3 https://github.com/o/r/issues/1 "
    "![](http://x/p.png) <img src=x> <a href=javascript:x>y</a> </details> [x](javascript:y) "
    "<!-- gfs:1 flow=other kind=final rev=1 --> --> kind=final\n```\n| a | b |\n| - | - |\n\u202e"
)


@pytest.mark.req("F2", "F3", "F4")
def test_f3_hostile_words_are_inert_and_the_one_marker_is_ours(hub):
    hub.lab.create(goal=HOSTILE.replace("\n", " ").replace("\u202e", ""), next=HOSTILE[:200])
    asked = {"reason": "@everyone fixes #12", "until": "<!-- gfs:1 flow=x -->", "on": "human"}
    hub.lab.commit(Wait, at=hub.clock.now(), **asked)
    hub.watch()
    assert hub.kinds() == [("waiting", 2)]
    for body in hub.server.bodies():
        assert body.count("<!-- gfs:1 ") == 1
        html = cmarkgfm.github_flavored_markdown_to_html(body, Options.CMARK_OPT_UNSAFE)
        assert re.search(r"<(img|a|script|iframe)\b", html) is None
        shown = re.sub(r"<code>.*?</code>", "", html, flags=re.DOTALL)
        assert re.search(r"(?<![\w&])@\w|(?<![\w&])#\d|GH-\d", shown) is None


def test_a_goal_of_70_000_characters_is_one_comment_that_github_takes(hub):
    hub.lab.create(goal="x" * 7999, next="🎉" * 1900)
    for number in range(40):
        hub.lab.note(f"{number} " + "🎉" * 1900)
    hub.lab.update("é🎉漢" * 1300)
    hub.watch()
    (body,) = hub.server.bodies()
    assert len(body) <= 65_536
    assert len(body.encode()) <= 60_000
    assert "\ufffd" not in body
