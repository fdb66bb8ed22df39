"""From `gfs.toml` to a channel: by its kind, and with what the environment holds."""

import subprocess
import sys
from contextlib import closing

import pytest
from fakes.github import BOT, GitHub
from fakes.webhooks import Phone, Receiver
from fakes.worlds import SECRET, Clock

from gitflowstate import settings
from gitflowstate.adapters import registry
from gitflowstate.delivery import Unauthorised
from gitflowstate.errors import Invalid, Usage
from gitflowstate.ports import Notice
from gitflowstate.settings import ChannelSettings

MARKED = Notice("f-1", "final", 4, None, "", "<!-- gfs:1 flow=f-1 kind=final rev=4 -->\n**Done**")
NOTICE = Notice("f-1", "final", 4, None, "f-1 is done", "**Done**")
ENVIRON = {
    "GFS_WEBHOOK_SECRET": SECRET,
    "GFS_SLACK_TOKEN": "token-for-tests",
    "GFS_CHAT_URL": "json://127.0.0.1:9/",
    "GFS_GITHUB_TOKEN": "token-for-tests",
    "GFS_HOOK_URL": "https://hooks.example.org/secret-path",
}


def made(text, environ=None, name="ops", **given):
    known = settings.parse(f"[channels.{name}]\n{text}\n".encode())
    given = {"clock": Clock(), **given}
    return registry.make(
        name, known.channel(name), ENVIRON if environ is None else environ, **given
    )


KINDS = [
    ('kind = "console"', "ConsoleChannel"),
    ('kind = "webhook"\ntarget = "https://hooks.example.org/x"', "WebhookChannel"),
    ('kind = "webhook"\nurl_env = "GFS_HOOK_URL"', "WebhookChannel"),
    ('kind = "chat"', "ChatChannel"),
    ('kind = "slack"\ntarget = "C0123456789"', "SlackChannel"),
]


@pytest.mark.req("R-TF-50")
@pytest.mark.parametrize(("text", "kind"), KINDS)
def test_the_kind_chooses_the_adapter(text, kind):
    channel = made(text)
    assert (type(channel).__name__, channel.name) == (kind, "ops")
    channel.close()


@pytest.mark.parametrize(("text", "kind"), KINDS)
def test_the_length_of_a_message_is_known_beforehand(text, kind):
    channel = made(text)
    asked = settings.parse(f"[channels.ops]\n{text}\n".encode()).channel("ops").kind
    assert registry.LIMITS[asked] == channel.capabilities.limit, kind
    channel.close()


def test_every_kind_of_the_settings_is_made_or_named_as_missing():
    assert set(registry.KINDS) == set(settings.settingrules.CHANNEL["kind"].form.schema["enum"])
    with pytest.raises(Usage, match="kind pigeon") as refused:
        registry.make("ops", ChannelSettings("pigeon"), {}, clock=Clock())
    assert "console, webhook, chat, slack, github" in refused.value.hint


@pytest.mark.req("G2")
@pytest.mark.parametrize(
    ("text", "variable"),
    [
        ('kind = "webhook"\ntarget = "https://hooks.example.org/x"', "GFS_WEBHOOK_SECRET"),
        ('kind = "webhook"\ntarget = "https://a.example/"\nsecret_env = "GFS_A"', "GFS_A"),
        ('kind = "webhook"\nurl_env = "GFS_B"', "GFS_B"),
        ('kind = "chat"', "GFS_CHAT_URL"),
        ('kind = "chat"\nurl_env = "GFS_C"', "GFS_C"),
        ('kind = "slack"\ntarget = "C0123456789"', "GFS_SLACK_TOKEN"),
        ('kind = "slack"\ntarget = "C0123456789"\ntoken_env = "GFS_D"', "GFS_D"),
        ('kind = "github"', "GFS_GITHUB_TOKEN"),
        ('kind = "github"\ntoken_env = "GFS_E"', "GFS_E"),
    ],
)
@pytest.mark.parametrize("value", [None, "", "  \n", "two\nlines", "n\u00f6", "a\x1bb"])
def test_a_variable_that_holds_no_secret_is_named(text, variable, value):
    environ = {**ENVIRON, variable: value}
    if value is None:
        del environ[variable]
    with pytest.raises(Unauthorised, match=variable) as refused:
        made(text, environ)
    assert refused.value.code == 77
    assert ("is not set" in refused.value.message) == (value is None or not value.strip())
    assert value is None or not value.strip() or value not in str(refused.value)


def posted(text, environ):
    with closing(made(text, environ)) as channel:
        channel.post(MARKED)


@pytest.mark.req("G2")
def test_the_first_variable_that_holds_a_token_is_the_one_that_is_used_and_named():
    server = GitHub({"right": BOT})
    try:
        environ = {"GITHUB_API_URL": server.url, "GITHUB_TOKEN": "right"}
        text = 'kind = "github"\ntarget = "octo/hello#12"'
        posted(text, environ)
        with pytest.raises(Unauthorised, match="GH_TOKEN"):
            posted(text, {**environ, "GH_TOKEN": "wrong"})
        posted(text, {**environ, "GH_TOKEN": "wrong", "GFS_GITHUB_TOKEN": "right\n"})
        posted(f'{text}\nbase_url = "{server.url}"', environ)
        assert (len(server.comments), server.violations) == (3, [])
    finally:
        server.stop()


@pytest.mark.req("G3")
@pytest.mark.parametrize(
    ("key", "url", "words"),
    [
        ("https://ghe.example/api/v3", None, "base_url is not where the environment"),
        ("https://api.github.com", "https://ghe.example/api/v3", "base_url is not where"),
        (None, "http://ghe.example/api/v3", "must begin with https"),
        (None, "http://10.0.0.1/", "must begin with https"),
        (None, "ftp://ghe.example/", "GITHUB_API_URL must be a URL"),
        (None, "https://ann:secret@ghe.example/", "GITHUB_API_URL must not hold a user"),
    ],
)
def test_no_file_of_the_repository_says_where_the_token_goes(key, url, words):
    """Whoever may change gfs.toml could otherwise have the token sent anywhere."""
    text = 'kind = "github"' + (f'\nbase_url = "{key}"' if key else "")
    environ = {**ENVIRON, **({"GITHUB_API_URL": url} if url else {})}
    with pytest.raises(Invalid, match=words) as refused:
        made(text, environ)
    assert "secret" not in str(refused.value)
    made('kind = "github"\nbase_url = "https://api.github.com/"').close()


@pytest.mark.req("G2")
def test_a_url_of_the_environment_is_judged_and_not_repeated():
    environ = {**ENVIRON, "GFS_HOOK_URL": "https://ann:secret@hooks.example.org/"}
    with pytest.raises(Invalid, match="GFS_HOOK_URL must not hold a user") as refused:
        made('kind = "webhook"\nurl_env = "GFS_HOOK_URL"', environ)
    assert "secret" not in repr((refused.value, refused.value.details))


def test_a_secret_may_end_in_a_newline_and_reaches_what_uses_it():
    receiver = Receiver(SECRET)
    try:
        text = (
            f'kind = "webhook"\ntarget = "http://127.0.0.1:{receiver.port}/"\n'
            'allow_addresses = ["127.0.0.1"]\nsecret_env = "GFS_A"'
        )
        made(text, {"GFS_A": f"{SECRET}\n"}).post(NOTICE)
        assert len(receiver.messages) == 1
        receiver.secret = b"other"
        with pytest.raises(Unauthorised, match="GFS_A"):
            made(text, {"GFS_A": SECRET}).post(NOTICE)
    finally:
        receiver.stop()


def test_a_chat_posts_to_what_its_variable_names():
    phone = Phone()
    try:
        channel = made('kind = "chat"', {"GFS_CHAT_URL": f"json://127.0.0.1:{phone.port}/"})
        channel.post(NOTICE)
        assert [each["message"] for each in phone.messages] == ["Done"]
    finally:
        phone.stop()


@pytest.mark.parametrize(
    "url",
    ["nonsense", "json://", "json://a, json://b", "no-such-service://x", "https://a.example/"],
)
@pytest.mark.req("G2")
def test_a_url_that_names_no_service_or_many_is_refused_by_its_variable(url):
    with pytest.raises(Unauthorised, match="GFS_CHAT_URL") as refused:
        made('kind = "chat"', {"GFS_CHAT_URL": url})
    assert url not in str(refused.value)


def test_a_console_keeps_its_file_below_the_folder_and_shows_where_it_is_told(tmp_path):
    shown = []
    channel = made('kind = "console"\nfile = "out/S.md"', folder=tmp_path, show=shown.append)
    channel.post(NOTICE)
    assert shown == ["f-1 is done\n  Done"]
    assert (tmp_path / "out" / "S.md").exists()
    assert channel.capabilities.searches


@pytest.mark.parametrize(
    ("text", "library"),
    [('kind = "chat"', "apprise"), ('kind = "slack"\ntarget = "C0123456789"', "slack_sdk")],
)
def test_a_missing_extra_is_one_line_and_how_to_have_it(text, library):
    code = (
        f"import sys; sys.modules[{library!r}] = None\n"
        "from gitflowstate import settings\nfrom gitflowstate.adapters import registry\n"
        "from gitflowstate.errors import Usage\n"
        "known = settings.parse(sys.stdin.buffer.read()).channel('ops')\n"
        "try: registry.make('ops', known, {}, clock=None)\n"
        "except Usage as refused: print(refused.message, refused.hint, sep='\\n')"
    )
    run = subprocess.run(
        [sys.executable, "-c", code],
        input=f"[channels.ops]\n{text}\n".encode(),
        capture_output=True,
        check=True,
    )
    message, hint = run.stdout.decode().splitlines()
    assert message == "channel 'ops' needs the chat extra"
    assert hint.endswith("pip install '.[chat]' in a checkout")


def test_a_channel_imports_its_own_library_and_no_other():
    code = (
        "import sys; from gitflowstate.adapters import registry;"
        "from gitflowstate.settings import ChannelSettings;"
        "registry.make('console', ChannelSettings('console'), {}, clock=None);"
        "libraries = {'httpx2', 'ghapi', 'apprise', 'slack_sdk', 'pydantic'};"
        "libraries |= {'requests', 'asyncio'};"
        "print(libraries & set(sys.modules), file=sys.stderr)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert run.stderr.decode().strip() == "set()"
