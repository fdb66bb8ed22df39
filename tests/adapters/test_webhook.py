"""The webhook: what arrives can be trusted, and where it goes is judged (hazards K1, K2, K3)."""

import hashlib
import hmac
import json
import re
import shutil
import ssl
import subprocess
from pathlib import Path

import httpx2
import pytest
from fakes.loopback import Answer, Loopback
from fakes.webhooks import Receiver
from fakes.worlds import SECRET, Clock
from hypothesis import given
from hypothesis import strategies as st

from gitflowstate import marker
from gitflowstate.adapters.webhook import WebhookChannel, delivery_id, document
from gitflowstate.addresses import network, place
from gitflowstate.delivery import HoldOff, NotSent, Refused, Unauthorised, Unknown
from gitflowstate.ports import Notice

NOTICE = Notice(
    "f-1", "final", 4, None, "f-1 is done", f"{marker.line('f-1', 'final', 4)}\n**Done** ü"
)
LOOPBACK = [network("127.0.0.0/8")]


@pytest.fixture
def receiver():
    made = Receiver(SECRET)
    yield made
    made.stop()


def channel(url, **given):
    given = {"allowed": LOOPBACK, "timeout_s": 5, **given}
    return WebhookChannel("hook", place(url), SECRET, Clock(), **given)


def to(receiver, host="127.0.0.1", **given):
    return channel(f"http://{host}:{receiver.port}/gfs", **given)


# ── what arrives ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.req("K3", "R-TF-49")
def test_a_delivery_is_signed_over_its_time_and_its_bytes(receiver):
    message = to(receiver).post(NOTICE)
    (request,) = receiver.requests
    assert (request.method, request.path) == ("POST", "/gfs")
    assert request.headers["Content-Type"] == "application/json"
    assert request.headers["Gfs-Timestamp"] == "1788688800"
    signed = hmac.new(SECRET.encode(), b"1788688800." + request.body, hashlib.sha256).hexdigest()
    assert request.headers["Gfs-Signature"] == f"v1={signed}"
    assert json.loads(request.body) == {
        "schema_version": 1,
        "delivery": request.headers["Gfs-Delivery"],
        "message": message,
        "channel": "hook",
        "flow": "f-1",
        "kind": "final",
        "revision": 4,
        "title": "f-1 is done",
        "text": NOTICE.text,
    }
    assert "ü".encode() in request.body


def test_an_edit_is_a_new_delivery_about_the_same_message(receiver):
    hook = to(receiver)
    message = hook.post(NOTICE)
    hook.edit(message, NOTICE._replace(revision=5))
    first, second = (json.loads(each.body) for each in receiver.requests)
    assert first["message"] == second["message"] == first["delivery"] != second["delivery"]
    assert [each["revision"] for each in receiver.messages.values()] == [5]


@pytest.mark.req("R-TF-52", "R-TF-53")
def test_a_delivery_id_is_what_it_is_about_and_nothing_else():
    same = NOTICE._replace(title="other", target="x")
    assert delivery_id("hook", NOTICE) == delivery_id("hook", same)
    others = [
        NOTICE._replace(flow="f-2"),
        NOTICE._replace(kind="status"),
        NOTICE._replace(revision=5),
        NOTICE._replace(text="what a rewritten history says"),
    ]
    ids = {delivery_id("hook", each) for each in others} | {delivery_id("other", NOTICE)}
    assert len(ids | {delivery_id("hook", NOTICE)}) == 6
    assert document("hook", NOTICE, "m") == document("hook", NOTICE, "m")


@pytest.mark.req("R-TF-52")
def test_what_was_lost_on_the_way_back_is_sent_again_and_shown_once(receiver):
    receiver.script.append("lost")
    with pytest.raises(Unknown):
        to(receiver).post(NOTICE)
    to(receiver).post(NOTICE)
    assert (len(receiver.requests), len(receiver.messages), receiver.repeats) == (2, 1, 1)


@pytest.mark.req("G2")
def test_a_wrong_secret_names_its_variable_and_not_itself(receiver):
    receiver.secret = b"another"
    with pytest.raises(Unauthorised, match="GFS_OTHER") as failed:
        to(receiver, variable="GFS_OTHER").post(NOTICE)
    assert failed.value.code == 77
    assert SECRET not in str(failed.value)


# ── answers ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.req("L16")
@pytest.mark.parametrize(
    ("status", "error"),
    [
        *((status, Refused) for status in (400, 403, 404, 405, 410, 413, 415, 418, 422)),
        *((status, Unknown) for status in (408, 500, 502, 503, 504, 507, 599)),
        (429, HoldOff),
        *((status, Refused) for status in (300, 301, 302, 303, 304, 307, 308)),
    ],
)
def test_a_status_is_the_decision_it_calls_for(receiver, status, error):
    receiver.script.append(status)
    with pytest.raises(error) as failed:
        to(receiver).post(NOTICE)
    assert type(failed.value) is error
    assert str(status) in str(failed.value)
    assert receiver.messages == {}


@pytest.mark.parametrize("status", [200, 201, 202, 204, 226])
def test_every_success_is_one(receiver, status):
    receiver.script.append(status)
    assert to(receiver).post(NOTICE)


@pytest.mark.req("L16", "C-21")
@pytest.mark.parametrize("status", [408, 429, 503])
@pytest.mark.parametrize(
    ("wait", "until"),
    [
        ("120", "2026-09-06T10:02:00Z"),
        ("0", "2026-09-06T10:00:01Z"),
        ("Sun, 06 Sep 2026 10:05:00 GMT", "2026-09-06T10:05:00Z"),
        ("Sun, 06 Sep 2026 09:00:00 GMT", "2026-09-06T10:00:01Z"),
        ("99999999999999999999", "2026-09-07T10:00:00Z"),
        ("Fri, 31 Dec 9999 23:59:59 GMT", "2026-09-07T10:00:00Z"),
        ("soon", "2026-09-06T10:01:00Z"),
        ("-5", "2026-09-06T10:01:00Z"),
        ("1.5", "2026-09-06T10:01:00Z"),
        ("\u0661", "2026-09-06T10:01:00Z"),
        ("Sun, 06 Sep 2026 10:05:00", "2026-09-06T10:01:00Z"),
    ],
)
def test_a_retry_after_is_obeyed_within_a_day(receiver, status, wait, until):
    receiver.headers = (("Retry-After", wait.encode().decode("latin-1")),)
    receiver.script.append(status)
    with pytest.raises(HoldOff) as failed:
        to(receiver).post(NOTICE)
    assert failed.value.until == until


def test_too_many_requests_without_a_time_waits_a_minute(receiver):
    receiver.script.append(429)
    with pytest.raises(HoldOff) as failed:
        to(receiver).post(NOTICE)
    assert failed.value.until == "2026-09-06T10:01:00Z"


@pytest.mark.req("K1", "G3")
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_not_followed_by_anything(receiver, status):
    elsewhere = Loopback()
    try:
        receiver.headers = (("Location", f"http://127.0.0.1:{elsewhere.port}/"),)
        receiver.script.append(status)
        with pytest.raises(Refused, match="redirects"):
            to(receiver).post(NOTICE)
        assert elsewhere.requests == []
        assert len(receiver.requests) == 1
    finally:
        elsewhere.stop()


@pytest.mark.req("K2")
def test_k2_an_answer_without_end_is_not_waited_for(receiver):
    receiver.script += ["endless", "dripping"]
    assert to(receiver).post(NOTICE)
    with pytest.raises(Unknown):
        to(receiver, timeout_s=0.3).post(NOTICE)


def test_an_answer_says_nothing_that_is_kept(receiver, caplog):
    caplog.set_level("DEBUG", "gitflowstate")
    receiver.serve = lambda _: Answer(404, b"remote words", (("X-Words", "remote words"),))
    with pytest.raises(Refused) as failed:
        to(receiver).post(NOTICE)
    told = repr((failed.value, failed.value.details, failed.value.hint)) + caplog.text
    assert "remote words" not in told
    assert str(receiver.port) not in told


# ── where it goes ───────────────────────────────────────────────────────────────────────────────


@pytest.mark.req("K1")
@pytest.mark.parametrize(
    "host",
    [
        *("127.0.0.1", "localhost", "0.0.0.0", "10.0.0.1", "169.254.169.254"),
        *(
            "[::1]",
            "[::]",
            "[::ffff:127.0.0.1]",
            "[64:ff9b::7f00:1]",
            "[fd00:ec2::254]",
            "[fe80::1]",
        ),
    ],
)
def test_k1_what_is_not_public_is_refused_before_a_connection(receiver, host):
    with pytest.raises(Refused, match="not public"):
        to(receiver, host, allowed=[]).post(NOTICE)
    assert receiver.requests == []


@pytest.mark.req("K1")
@pytest.mark.parametrize(
    "host", ["2130706433", "0x7f.1", "0x7f000001", "0177.0.0.1", "127.1", "a@127.0.0.1"]
)
def test_k1_another_form_of_an_address_is_no_place_at_all(host):
    with pytest.raises(ValueError, match="must"):
        channel(f"http://{host}:80/")


@pytest.mark.req("K1")
def test_k1_the_address_that_was_judged_is_the_one_that_is_used(receiver):
    """The name means nothing here, so the connection can only have gone to the address."""
    asked = []

    def resolve(host, port):
        asked.append((host, port))
        return ["127.0.0.1"] if len(asked) == 1 else ["203.0.113.1"]

    hook = to(receiver, "hooks.example.invalid", resolve=resolve)
    hook.post(NOTICE)
    assert asked == [("hooks.example.invalid", receiver.port)]
    assert receiver.requests[0].headers["Host"] == f"hooks.example.invalid:{receiver.port}"
    with pytest.raises(Refused, match="not public"):
        hook.post(NOTICE._replace(revision=5))
    assert len(receiver.requests) == 1


@pytest.mark.req("K1")
def test_k1_one_address_that_is_not_public_spoils_a_name(receiver):
    for found in (["8.8.8.8", "127.0.0.1"], ["127.0.0.1", "8.8.8.8"], ["::ffff:127.0.0.1"], ["?"]):
        with pytest.raises(Refused, match="not public"):
            to(receiver, "a.example", allowed=[], resolve=lambda *_, f=found: f).post(NOTICE)
    assert receiver.requests == []


def test_an_address_that_does_not_answer_is_followed_by_the_next(receiver):
    to(receiver, "a.example", resolve=lambda *_: ["127.0.0.2", "127.0.0.1"]).post(NOTICE)
    assert len(receiver.requests) == 1


def test_a_name_that_is_unknown_means_that_nothing_was_sent():
    with pytest.raises(NotSent, match="cannot be resolved"):
        channel("http://no-such-host.invalid/").post(NOTICE)


def test_neither_a_proxy_nor_a_password_of_the_machine_is_used(receiver, home, monkeypatch):
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "HTTPS_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    home.joinpath(".netrc").write_text("machine 127.0.0.1 login ann password secret\n")
    to(receiver).post(NOTICE)
    assert "Authorization" not in receiver.requests[0].headers


# ── TLS ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    if shutil.which("openssl") is None:
        pytest.skip("openssl makes the certificate")
    folder = tmp_path_factory.mktemp("tls")
    command = (
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2"
        " -keyout key.pem -out cert.pem -subj /CN=hooks.example.test"
        " -addext subjectAltName=DNS:hooks.example.test"
    )
    subprocess.run(command.split(), cwd=folder, check=True, capture_output=True)
    return folder


@pytest.mark.req("K1")
@pytest.mark.parametrize(
    ("host", "error"), [("hooks.example.test", None), ("other.example.test", NotSent)]
)
def test_k1_over_tls_the_name_is_proved_although_the_address_is_pinned(certificate, host, error):
    files = certificate / "cert.pem", certificate / "key.pem"
    served = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    served.load_cert_chain(*files)
    named = []
    served.sni_callback = lambda _socket, name, _context: named.append(name)
    receiver = Receiver(SECRET, served)
    try:
        trusted = ssl.create_default_context(cafile=files[0])
        hook = channel(
            f"https://{host}:{receiver.port}/", tls=trusted, resolve=lambda *_: ["127.0.0.1"]
        )
        if error is None:
            hook.post(NOTICE)
        else:
            with pytest.raises(error):
                hook.post(NOTICE)
        assert named == [host]
        assert len(receiver.requests) == (0 if error else 1)
    finally:
        hook.close()
        receiver.stop()


def test_over_tls_an_unknown_authority_means_that_nothing_was_sent(certificate):
    served = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    served.load_cert_chain(certificate / "cert.pem", certificate / "key.pem")
    receiver = Receiver(SECRET, served)
    try:
        hook = channel(f"https://a.example:{receiver.port}/", resolve=lambda *_: ["127.0.0.1"])
        with pytest.raises(NotSent):
            hook.post(NOTICE)
        assert receiver.requests == []
    finally:
        receiver.stop()


# ── and ─────────────────────────────────────────────────────────────────────────────────────────


@given(st.text(alphabet="abc/?%&=.-_~!$'()*+,;:@[]{}|^`2 ", max_size=40))
def test_every_place_can_be_asked_for(path):
    try:
        found = place(f"http://a.example/{path}")
    except ValueError:
        return
    made = httpx2.Request("POST", found.at("2001:db8::1"), headers={"Host": found.authority})
    assert made.headers["Host"] == "a.example"
    assert made.url.host == "2001:db8::1"


def test_the_receiver_of_the_how_to_page_takes_what_is_sent_and_nothing_else(receiver):
    page = Path(__file__).parents[2].joinpath("docs/how-to/post-to-a-webhook.md").read_text("utf-8")
    (block,) = re.findall(r"```python\n([\s\S]*?)```", page)
    names: dict = {}
    exec(compile(block, "page", "exec"), names)
    verified = names["verified"]
    to(receiver).post(NOTICE)
    (request,) = receiver.requests
    secret, now = SECRET.encode(), 1788688800 + 60
    assert verified(secret, request.headers, request.body, now)["flow"] == "f-1"
    signed = request.headers["Gfs-Signature"]
    for wrong in ("", "v1=", signed[:-1], signed.upper(), "sha1=" + signed[3:], signed[3:]):
        assert (
            verified(secret, {**request.headers, "Gfs-Signature": wrong}, request.body, now) is None
        )
    assert verified(secret, {}, request.body, now) is None
    assert verified(secret, request.headers, request.body[:-1] + b" ", now) is None
    assert verified(b"other", request.headers, request.body, now) is None
    assert verified(secret, request.headers, request.body, now + 3600) is None
    later = {**request.headers, "Gfs-Timestamp": str(now + 3600)}
    assert verified(secret, later, request.body, now + 3600) is None
