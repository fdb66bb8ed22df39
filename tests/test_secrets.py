"""A secret is refused before anything is written; words, digests and addresses are not.

Whatever looks like a secret is put together when the test runs, so that no scanner that reads
these files finds one.
"""

from __future__ import annotations

import base64
import hashlib
import random
import string
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitflowstate import secrets
from gitflowstate.errors import Rejected

_dice = random.Random(20)
BASE62 = string.ascii_letters + string.digits
UPPER = string.ascii_uppercase + "234567"
HEX = "0123456789abcdef"
BASE64 = BASE62 + "+/"
URL = BASE62 + "-_"


def roll(alphabet: str, length: int) -> str:
    return "".join(_dice.choices(alphabet, k=length))


def _jwt() -> str:
    def part(text: str) -> str:
        return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")

    return ".".join((part('{"alg":"HS256"}'), part('{"sub":"1234567890"}'), roll(URL, 43)))


SHAPES = {
    "GitHub token": [
        *("gh" + letter + "_" + roll(BASE62, 36) for letter in "pousr"),
        "gh" + "s_12345_" + _jwt(),
        "github" + "_pat_" + roll(BASE62, 22) + "_" + roll(BASE62, 59),
    ],
    "GitLab token": ["gl" + kind + "-" + roll(URL, 20) for kind in ("pat", "dt", "rt", "ptt")],
    "AWS access key": [start + "IA" + roll(UPPER, 16) for start in ("AK", "AS")],
    "AWS secret key": [
        "aws_secret" + "_access_key=" + roll(BASE64, 40),
        "AWS_SECRET" + '_ACCESS_KEY = "' + roll(BASE64, 40) + '"',
    ],
    "Slack token": [
        "xox" + letter + "-" + roll(string.digits, 12) + "-" + roll(BASE62, 24)
        for letter in "abpors"
    ]
    + ["xa" + "pp-1-" + roll(UPPER, 11) + "-" + roll(string.digits, 13)],
    "Slack webhook": [
        "https://hooks.slack" + ".com/services/T" + roll(UPPER, 8) + "/B" + roll(UPPER, 8) + "/x"
    ],
    "Discord webhook": [
        "https://discord" + ".com/api/webhooks/" + roll(string.digits, 18) + "/" + roll(URL, 68)
    ],
    "npm token": ["np" + "m_" + roll(BASE62, 36)],
    "PyPI token": ["py" + "pi-AgEIcHlwaS5vcmc" + roll(URL, 120)],
    "OpenAI key": ["s" + "k-proj-" + roll(URL, 80)],
    "Anthropic key": ["s" + "k-ant-api03-" + roll(URL, 93)],
    "OpenRouter key": ["s" + "k-or-v1-" + roll(HEX, 64)],
    "AI provider's key": ["s" + "k-" + roll(BASE62, 48), "s" + "k-" + roll(HEX, 32)],
    "Google key": ["AI" + "za" + roll(URL, 35)],
    "Hugging Face token": ["h" + "f_" + roll(string.ascii_letters, 34)],
    "Groq key": ["gs" + "k_" + roll(BASE62, 52)],
    "xAI key": ["xa" + "i-" + roll(BASE62, 80)],
    "Replicate token": ["r" + "8_" + roll(BASE62, 37)],
    "Perplexity key": ["ppl" + "x-" + roll(BASE62, 48)],
    "Stripe key": ["s" + "k_live_" + roll(BASE62, 24), "rk_" + "test_" + roll(BASE62, 24)],
    "SendGrid key": ["S" + "G." + roll(URL, 22) + "." + roll(URL, 43)],
    "Vault token": ["hv" + "s." + roll(URL, 90)],
    "private key": [
        "-----BEGIN " + kind + "PRIVATE" + " KEY-----\nMIIE"
        for kind in ("", "RSA ", "EC ", "OPENSSH ")
    ]
    + ["-----BEGIN PGP PRIVATE" + " KEY BLOCK-----"],
    "JSON web token": [_jwt()],
    "bearer token": ["Authorization: Bearer " + roll(BASE62, 32), "bearer\t" + roll(HEX, 40)],
    "HTTP credential": ["Authorization: Basic " + base64.b64encode(b"somebody:something").decode()],
    "credential in an address": [
        "https://u" + ":p@h/",
        "x://u" + ":p@h",
        "postgres://app" + ":hunter2@db.example.com:5432/app",
        "redis://" + ":hunter2@[::1]:6379",
        "https://" + roll(HEX, 40) + "@example.com/x.git",
        "git clone https://x-access" + "-token:" + roll(BASE62, 30) + "@github.com/o/r",
    ],
    "Telegram token": ["12345" + "67890:AA" + roll(URL, 33)],
    "Azure key": ["AccountName=x;Account" + "Key=" + roll(BASE64, 86) + "=="],
    "password or key": [
        "token=" + roll(BASE62, 40),
        "password=" + roll(BASE62, 24),
        "api" + "_key: '" + roll(HEX, 32) + "'",
        '"secret": "' + roll(BASE62, 32) + '"',
        "MY_SERVICE_TOKEN=" + roll(HEX, 40),
        "client-secret => " + roll(URL, 40),
        "//registry.example.com/:_auth" + "Token=" + roll(BASE62, 36),
        "curl --api-key " + roll(BASE62, 32) + " x",
        "accessKey:" + roll(BASE62, 28),
    ],
}


def _cases():
    return [
        pytest.param(kind, text, id=f"{kind} {number}")
        for kind, texts in SHAPES.items()
        for number, text in enumerate(texts)
    ]


@pytest.mark.req("G1")
@pytest.mark.parametrize(("kind", "text"), _cases())
def test_a_secret_is_found_wherever_it_stands(kind, text):
    assert secrets.find(text) == kind
    assert secrets.find(f"It works now:\n{text}\nand the rest. \u00e9") == kind
    assert secrets.find(f'["curl", "{text}"]') == kind
    assert secrets.find("word " * 2_000 + text) == kind


@pytest.mark.req("G1")
@pytest.mark.parametrize(("kind", "text"), _cases())
def test_the_error_names_the_field_and_the_kind_and_not_the_text(kind, text):
    fields = [("goal", "harmless"), ("progress", f"done with {text}"), ("next_action", text)]
    with pytest.raises(Rejected) as caught:
        secrets.check(fields)
    said = f"{caught.value.message} {caught.value.hint} {caught.value.details} {caught.value!r}"
    assert "progress" in said
    assert kind in said
    assert "--allow-secret REASON" in caught.value.hint
    assert not [part for part in text.split() if len(part) > 11 and part in said]


@pytest.mark.req("G1")
@pytest.mark.parametrize(
    "name", ["data.api_key", "data.nested.dbPassword", "token", "data.0.SECRET"]
)
def test_a_field_can_be_named_like_a_secret(name):
    with pytest.raises(Rejected, match="password or key"):
        secrets.check([(name, roll(BASE62, 32))])
    secrets.check(
        [(name, "kept in the vault, ask the person on call"), (name, str(uuid.UUID(int=3)))]
    )
    secrets.check([("data.colour", roll(BASE62, 32)), ("key", roll(BASE62, 32))])


def test_no_field_is_no_secret():
    secrets.check([])
    secrets.check([("goal", ""), ("goal", "x")])


_SHA1 = hashlib.sha1(b"x").hexdigest()
_SHA256 = hashlib.sha256(b"x").hexdigest()

HARMLESS = [
    "Requirements captured; comparison in progress. Review child findings, draft an answer",
    "The token budget is 128000 tokens; the password policy: at least 20 characters long.",
    "task-force sk-learn risk-averse disk-space desk-bound ask-a-question-about-it-please-now",
    "bearer of responsibilities, Bearer authentication-and-authorization-over-http is used",
    f"commit {_SHA1} fixes it; parent={_SHA1}; disk-{_SHA1}",
    f"sha256:{_SHA256} and digest={_SHA256}",
    f"docker://alpine:3.19@sha256:{_SHA256}",
    "sha512-" + base64.b64encode(hashlib.sha512(b"x").digest()).decode(),
    f"flow {uuid.UUID(int=2**126 + 98765)} took the token: {uuid.UUID(int=2**127 + 12345)}",
    "/home/user/projects/gitflowstate/tests/test_secrets.py:120 C:\\Users\\me\\token.txt",
    "see https://github.com/o/r/blob/main/src/auth/token.py#L10-L20 and https://a.b:8443/x?y=1@z",
    "ssh://git@github.com/o/r.git git@github.com:o/r.git https://user@example.com/o/r",
    "postgres://app:$PGPASSWORD@db/app https://x:${TOKEN}@github.com https://<user>:<token>@h/",
    "token=${{ secrets.GITHUB_TOKEN_FOR_CI }} token=$GITHUB_TOKEN_FOR_CI_V2 api_key=%API_KEY%",
    "secret: projects/my-app-1/secrets/db-password-prod-v2/versions/3",
    "password: op://vault/database-prod-2024/password token: env:MY_SERVICE_TOKEN_2024_V2",
    "secret=arn:aws:secretsmanager:us-east-1:123456789012:secret:prod-AbCdEf",
    "token_count: 1234567890123456789012, max_tokens=4096, tokenizer: bert-base-finetuned-v2",
    "secret: my-service-prod-2024-01-15-v2, key: flow-example-001-2026-09-06, --token-file /run/x1",
    "password=correct-horse-battery-staple-and-more api_key=YOUR_API_KEY_GOES_RIGHT_HERE",
    "set sk-" + "ant-your-key-goes-here-now",
    "set gh" + "p_your_personal_access_token_goes_right_here",
    "AKIA and ASIA are prefixes; ghp_ is one, glpat- too, xoxb- as well, hf_hub_download_count",
    "getUserAccessTokenFromRequest(token: getUserAccessTokenFromRequest)",
    "the public key: ssh-ed25519 " + roll(BASE64, 68),
    "-----BEGIN CERTIFICATE----- -----BEGIN PUBLIC KEY-----",
    "data:image/png;base64," + roll(BASE64, 400),
    roll(BASE62, 64),
    "| token | meaning |\n| --- | --- |\n|-----------------------------|",
]


@pytest.mark.parametrize("text", HARMLESS)
def test_ordinary_text_raises_no_alarm(text):
    assert secrets.find(text) is None


def test_ten_thousand_ids_and_digests_raise_no_alarm():
    dice = random.Random(7)
    for number in range(10_000):
        digest = f"{dice.getrandbits(256):064x}"
        some_id = uuid.UUID(int=dice.getrandbits(128))
        text = f"f-{digest[:6]} r{number} {digest} {some_id} {digest[:40]}"
        assert secrets.find(text) is None, text


def test_nearly_every_random_value_is_found():
    dice = random.Random(8)
    for alphabet, length in ((BASE62, 20), (HEX, 32), (BASE62, 40), (BASE64, 40), (URL, 43)):
        values = ["".join(dice.choices(alphabet, k=length)) for _ in range(500)]
        missed = [value for value in values if not secrets.find(f"password={value}")]
        assert len(missed) <= 50, (alphabet, length, len(missed))


@given(st.text(alphabet=string.ascii_lowercase + " .,;:-'\n", max_size=200))
def test_lower_case_prose_raises_no_alarm(text):
    assert secrets.find(text) is None


@given(st.text(max_size=60), st.text(max_size=60))
def test_what_stands_around_a_secret_does_not_hide_it(before, after):
    secret = "gh" + "p_" + "R8k2" * 9
    assert secrets.find(f"{before} {secret} {after}") is not None


_UNITS = [
    *(
        "a",
        " ",
        "-",
        "A",
        "1",
        "eyJ",
        "eyJaaaaaaaaa.",
        "eyJ" + "a" * 5_000,
        "://",
        "://a:",
        "https://",
        "token=",
        "token ",
    ),
    *(
        "token" * 4 + "=",
        "secret:",
        "--",
        "--a",
        "--token ",
        "bearer ",
        "Bearer a1B2",
        "authorization:",
    ),
    *(
        "gh" + "p_",
        "github_" + "pat_",
        "xox" + "b-",
        "s" + "k-",
        "SG.",
        "SG.aaaaaaaaaaaaaaaa",
        "AKIA",
    ),
    *(
        "-----BEGIN ",
        "aws",
        "awssecret",
        "aws_secret=",
        "accountkey=",
        "1234567890:AA",
        "hooks.slack.com/",
    ),
    *("password=" + "a" * 30 + " ", "api_key=" + "a1" * 60 + "\n", "key=" + "/a" * 50),
]


@pytest.mark.timeout(60)  # what is quadratic takes many minutes
@pytest.mark.parametrize("unit", _UNITS)
def test_a_mebibyte_of_anything_is_finished(unit):
    assert secrets.find(unit * (2**20 // len(unit)) + "!") in {
        None,
        "AWS access key",
        "password or key",
    }
