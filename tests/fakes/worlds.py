"""Each kind of channel with what it talks to, so that one contract can be put to all of them.

A world makes channels (a second one is what a restarted watcher has), tells what people see and
what left this machine byte for byte, and brings about the faults that its kind knows.
"""

from pathlib import Path
from typing import ClassVar

from fakes.github import BOT, FakeClock, GitHub, said
from fakes.loopback import REMOTE_WORDS
from fakes.slacks import CHANNEL, Slack
from fakes.webhooks import Phone, Receiver

from gitflowstate.adapters.board import Board
from gitflowstate.adapters.chat import ChatChannel
from gitflowstate.adapters.console import ConsoleChannel
from gitflowstate.adapters.github import GitHubChannel
from gitflowstate.adapters.githubwire import Wire
from gitflowstate.adapters.memory import MemoryChannel
from gitflowstate.adapters.slack import SlackChannel
from gitflowstate.adapters.webhook import WebhookChannel
from gitflowstate.addresses import network, place
from gitflowstate.delivery import HoldOff, NotSent, Refused, Unauthorised, Unknown

NOW = "2026-09-06T10:00:00Z"
SECRET = "s3cret-webhook-key-0123456789"
TOKEN = "token-for-tests-0123456789"
DROPPED, LOST, SILENT = "dropped", "lost", "silent"
TALKING = ("dripping", "endless", "garbled", "truncated")  # it is done, and so is the answering


class Clock:
    """A clock that stands still."""

    def now(self):
        return NOW

    def later(self, seconds):
        raise AssertionError(f"no channel plans ahead by itself: {seconds}")


class World:
    """What all worlds have; `faults` names what this one can do."""

    faults: ClassVar[dict[str, type]] = {}
    exact = False  # what people get is the text byte for byte
    tells_gone = True
    rewrites = False  # people can edit a message of ours, and the channel can look

    def close(self):
        """End what the world runs."""


class Memory(World):
    faults: ClassVar = {
        "refused": Refused,
        "wait": HoldOff,
        "unauthorised": Unauthorised,
        "unreachable": NotSent,
        DROPPED: Unknown,
        LOST: Unknown,
    }
    exact = True

    def __init__(self, folder, **given):
        del folder
        self._given = given
        self._memory = self.channel()
        self.rewrites = given.get("searches", True)

    def rewrite(self, message, text):
        kept = self._memory.messages
        kept[:] = [m._replace(text=text) if m.id == message else m for m in kept]

    def channel(self):
        made = MemoryChannel(**self._given)
        if hasattr(self, "_memory"):
            made.messages = self._memory.messages
            made.before, made.after = self._memory.before, self._memory.after
        return made

    def seen(self):
        return [each.text for each in self._memory.messages]

    def sent(self):
        return [(each.title.encode(), each.text.encode()) for each in self._memory.messages]

    def fail(self, fault):
        made = {
            "refused": Refused("no"),
            "wait": HoldOff("2026-09-06T10:02:00Z", "later"),
            "unauthorised": Unauthorised("GFS_TEST"),
            "unreachable": NotSent("down"),
        }.get(fault, Unknown("no answer"))
        (self._memory.after if fault == LOST else self._memory.before).append(made)

    def remove(self, message):
        self._memory.messages[:] = [m for m in self._memory.messages if m.id != message]


class Console(World):
    faults: ClassVar = {"unreachable": NotSent}
    tells_gone = False

    def __init__(self, folder):
        del folder
        self._printed = []
        self._down = 0

    def channel(self):
        return ConsoleChannel("console", self.board(), self._show)

    def board(self):
        return None

    def _show(self, text):
        if self._down:
            self._down -= 1
            raise BrokenPipeError(REMOTE_WORDS)
        self._printed.append(text)

    def seen(self):
        return list(self._printed)

    def sent(self):
        return [text.encode() for text in self._printed]

    def fail(self, fault):
        assert fault == "unreachable"
        self._down += 1


class File(Console):
    tells_gone = True
    rewrites = True
    faults: ClassVar = {"refused": Refused}

    def __init__(self, folder):
        super().__init__(folder)
        self._folder = folder
        self.path = folder / "out" / "STATUS.md"
        self._foreign = False

    def board(self):
        return Board("console", self._folder, "out/STATUS.md")

    def _show(self, text):
        super()._show(text)
        self._heal()

    def _heal(self):
        if self._foreign:
            self.path.unlink()
            self._foreign = False

    def seen(self):
        self._heal()
        if not self.path.exists():
            return []
        parts = self.path.read_text("utf-8").split("<!-- gfs:1 message=")[1:]
        return [part.partition("\n")[2].partition("\n<!-- gfs:1 end -->")[0] for part in parts]

    exact = True

    def sent(self):
        return [self.path.read_bytes()]

    def fail(self, fault):
        assert fault == "refused"
        self.path.parent.mkdir(exist_ok=True)
        self.path.write_text(f"# A page of mine, with {REMOTE_WORDS}\n")
        self._foreign = True

    def remove(self, message):
        before, _, after = self._parts(message)
        self.path.write_text(before + after.partition("\n")[2].partition("\n")[2], "utf-8")

    def rewrite(self, message, text):
        before, line, after = self._parts(message)
        self.path.write_text(f"{before}{line}\n{text}{after}", "utf-8")

    def _parts(self, message):
        """Return what is before a message, its first line, and what follows its text."""
        text = self.path.read_text("utf-8")
        start = text.index(f"<!-- gfs:1 message={message.partition('/')[2]} ")
        end = text.index("\n<!-- gfs:1 end -->\n", start)
        return text[:start], text[start:end].partition("\n")[0], text[end:]


class Served(World):
    """A world behind a server; statuses are what differ."""

    statuses: ClassVar[dict] = {"refused": 404, "wait": 429}
    server = None

    def fail(self, fault):
        self.server.headers = (("Retry-After", "120"),) if fault == "wait" else ()
        if fault == "unreachable":
            self.server.stop()
        else:
            self.server.script.append(self.statuses.get(fault, fault))

    def close(self):
        self.server.stop()


class Webhook(Served):
    faults: ClassVar = {
        "refused": Refused,
        "wait": HoldOff,
        "unauthorised": Unauthorised,
        "unreachable": NotSent,
        "broken": Unknown,
        DROPPED: Unknown,
        LOST: Unknown,
        SILENT: Unknown,
        "dripping": Unknown,
        "garbled": Unknown,
    }
    statuses: ClassVar = {"refused": 404, "wait": 429, "unauthorised": 401, "broken": 502}
    exact = True
    tells_gone = False

    def __init__(self, folder):
        del folder
        self.server = Receiver(SECRET)

    def channel(self):
        return WebhookChannel(
            "hook",
            place(f"http://127.0.0.1:{self.server.port}/gfs?team=a"),
            SECRET,
            Clock(),
            allowed=[network("127.0.0.1")],
            timeout_s=1.0,
        )

    def seen(self):
        return [each["text"] for each in self.server.messages.values()]

    def sent(self):
        return [(each.body, each.headers["Gfs-Delivery"]) for each in self.server.requests]


class SlackWorld(Served):
    faults: ClassVar = {
        "refused": Refused,
        "wait": HoldOff,
        "unauthorised": Unauthorised,
        "unreachable": NotSent,
        "broken": Unknown,
        DROPPED: Unknown,
        LOST: Unknown,
        SILENT: Unknown,
        "dripping": Unknown,
        "endless": Unknown,
        "garbled": Unknown,
    }
    statuses: ClassVar = {
        "refused": "is_archived",
        "wait": 429,
        "unauthorised": "token_revoked",
        "broken": "fatal_error",
    }

    def __init__(self, folder):
        del folder
        self.server = Slack(TOKEN)

    def channel(self, target=CHANNEL):
        url = f"http://127.0.0.1:{self.server.port}/api/"
        how = {"base_url": url, "timeout_s": 1.0, "deadline_s": 2.0}
        return SlackChannel("slack", target, TOKEN, Clock(), **how)

    def seen(self):
        return self.server.shown()

    def sent(self):
        return [each.body for each in self.server.requests]

    def remove(self, message):
        self.server.messages = [m for m in self.server.messages if m["ts"] not in message]


class Chat(Served):
    faults: ClassVar = dict.fromkeys(
        ("refused", "wait", "broken", DROPPED, LOST, SILENT, "garbled"), Unknown
    )
    statuses: ClassVar = {"refused": 404, "wait": 429, "broken": 500}

    def __init__(self, folder):
        del folder
        self.server = Phone()

    def channel(self):
        url = f"json://user:{TOKEN}@127.0.0.1:{self.server.port}/x?rto=1.0&cto=1.0"
        return ChatChannel("phone", url)

    def seen(self):
        return [each["message"] for each in self.server.messages]

    def sent(self):
        return [each.body for each in self.server.requests]

    def remove(self, message):
        assert message
        self.server.messages.clear()


class GitHubWorld(Served):
    faults: ClassVar = {
        "refused": Refused,
        "locked": Refused,
        "too long": Refused,
        "wait": HoldOff,
        "limited": HoldOff,
        "unauthorised": Unauthorised,
        "unreachable": NotSent,
        "broken": Unknown,
        "odd": Unknown,
        DROPPED: Unknown,
        LOST: Unknown,
        SILENT: Unknown,
        "dripping": Unknown,
        "endless": Unknown,
        "truncated": Unknown,
        "garbled": Unknown,
    }
    statuses: ClassVar = {
        "refused": 404,
        "locked": said(403, "Unable to create comment because issue is locked."),
        "too long": said(422, "Validation Failed"),
        "wait": 429,
        "limited": said(403, "You have exceeded a secondary rate limit.", Retry_After="120"),
        "unauthorised": 401,
        "broken": 502,
        "odd": 202,
    }
    exact = True

    def __init__(self, folder):
        del folder
        self.clock = FakeClock()
        self.server = GitHub({TOKEN: BOT}, self.clock)
        self._made = []

    def channel(self, target="octo/hello#12", token=TOKEN, **given):
        pace = {"pause": self.clock.pause, "ticks": self.clock.ticks}
        wire = Wire(token, self.server.url, timeout_s=1.0, deadline_s=2.0, **pace)
        self._made.append(wire)
        return GitHubChannel("github", target, wire, self.clock, **given)

    def seen(self):
        return self.server.bodies(BOT)

    rewrites = True

    def rewrite(self, message, text):
        for each in self.server.comments:
            if message.endswith(f"/{each['id']}"):
                each["body"] = text

    def sent(self):
        return [each.body for each in self.server.requests]

    def remove(self, message):
        kept = [each for each in self.server.comments if not message.endswith(f"/{each['id']}")]
        self.server.comments[:] = kept

    def close(self):
        for wire in self._made:
            wire.close()
        super().close()
        assert self.server.violations == []


def _flat_memory(folder):
    return Memory(folder, edits=False, searches=False)


WORLDS = {
    "console": Console,
    "file": File,
    "memory": Memory,
    "memory that only posts": _flat_memory,
    "webhook": Webhook,
    "slack": SlackWorld,
    "github": GitHubWorld,
    "chat": Chat,
}


def opened(kind: str, folder: Path) -> World:
    """Return a new world of a kind."""
    return WORLDS[kind](folder)
