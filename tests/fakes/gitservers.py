"""Real Git servers on loopback: `git daemon` and `sshd`, each started for every connection.

Nothing of this machine's configuration is used: sshd gets a host key and a user key that live as
long as the test.
"""

import os
import pwd
import shutil
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest
from fakes.listening import Inetd

_PRIVILEGE_SEPARATION = Path("/run/sshd")  # where sshd of root puts itself; made by its service


class GitDaemon(Inetd):
    """`git daemon` of every repository below a folder, which takes pushes from anybody."""

    def __init__(self, root: Path) -> None:
        options = ["--inetd", "--export-all", "--enable=receive-pack", "--informative-errors"]
        super().__init__(["git", "daemon", *options, f"--base-path={root}"], root / "daemon.log")

    def url(self, name: str) -> str:
        """Return the URL of a repository."""
        return f"git://127.0.0.1:{self.port}/{name}"


class Sshd(Inetd):
    """`sshd` for the user of this process, with a throw-away key; `command` is the ssh for it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        for name in ("host", "user", "stranger"):
            kind = ["-q", "-t", "ed25519", "-N", "", "-C", "test", "-f"]
            subprocess.run(["ssh-keygen", *kind, folder / name], check=True)
        (folder / "authorized").write_bytes((folder / "user.pub").read_bytes())
        (folder / "config").write_text(self._configuration())
        sshd = shutil.which("sshd", path=_path())
        assert sshd
        command: list[str | Path] = [sshd, "-i", "-e", "-f", folder / "config"]
        super().__init__(command, folder / "log")
        key = (folder / "host.pub").read_text()
        (folder / "known").write_text(f"[127.0.0.1]:{self.port} {key}")
        self.command = self.client("user")

    def client(self, key: str) -> str:
        """Return the ssh command that shows one of the keys."""
        options = {
            "UserKnownHostsFile": self.folder / "known",
            "GlobalKnownHostsFile": "/dev/null",
            "StrictHostKeyChecking": "yes",
            "IdentitiesOnly": "yes",
            "BatchMode": "yes",
        }
        words = [f"-o {name}={value}" for name, value in options.items()]
        return " ".join(["ssh -F /dev/null -i", str(self.folder / key), *words])

    def url(self, path: Path) -> str:
        """Return the URL of a repository."""
        return f"ssh://{pwd.getpwuid(os.getuid()).pw_name}@127.0.0.1:{self.port}{path}"

    def _configuration(self) -> str:
        lines = {
            "HostKey": self.folder / "host",
            "AuthorizedKeysFile": self.folder / "authorized",
            "StrictModes": "no",
            "UsePAM": "no",
            "PasswordAuthentication": "no",
            "KbdInteractiveAuthentication": "no",
            "PermitRootLogin": "prohibit-password",
            "PidFile": "none",
            "PrintMotd": "no",
            "AcceptEnv": "GIT_PROTOCOL",
            "MaxStartups": "200",
            "SetEnv": f"HOME={self.folder} GIT_CONFIG_NOSYSTEM=1",
        }
        return "".join(f"{name} {value}\n" for name, value in lines.items())


def need_sshd() -> None:
    """Skip the test, with its reason, where no sshd can be started."""
    if shutil.which("sshd", path=_path()) is None or shutil.which("ssh-keygen") is None:
        pytest.skip("sshd is not installed")
    if os.getuid() == 0 and not _PRIVILEGE_SEPARATION.is_dir():
        with suppress(OSError):
            _PRIVILEGE_SEPARATION.mkdir(mode=0o755, exist_ok=True)
        if not _PRIVILEGE_SEPARATION.is_dir():
            pytest.skip(f"sshd needs {_PRIVILEGE_SEPARATION}, which cannot be made")


def hook(gitdir: Path, name: str, script: str) -> Path:
    """Put a shell script into a repository as one of its hooks."""
    path = gitdir / "hooks" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def refuse(gitdir: Path, reason: str = "not today") -> Path:
    """Let a repository take no push."""
    return hook(gitdir, "pre-receive", f"echo '{reason}' >&2; exit 1")


def _path() -> str:
    return f"{os.environ['PATH']}:/usr/sbin:/usr/local/sbin:/sbin"
