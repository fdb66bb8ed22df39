"""A record of an end that was damaged: it is named, hides and holds nothing, and has a way out."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest
from clirun import Cli
from processbench import STAMP, ProcessLab

from gitflowstate import identity, processes, runfiles, runlocks
from gitflowstate.processes import Identity
from gitflowstate.runfiles import Exit

pytestmark = pytest.mark.usefixtures("on_paper")

S1 = {"GFS_SESSION": "s-1"}
ODD = Exit("completed", STAMP["at"], exit_code=0).text().replace("completed", "lost")
DAMAGES = {
    "fifo": os.mkfifo,
    "folder": os.mkdir,
    "garbage": lambda path: Path(path).write_bytes(b"\xff\x00garbage"),
    "lost": lambda path: Path(path).write_text(ODD),
}


def left(cli: Cli, lab: ProcessLab, call: str) -> str:
    """Leave a process whose supervisor has died before it recorded an end; return its id."""
    here = {"host": socket.gethostname(), "boot_id": identity.boot_id()}
    wanted = processes.Wanted("s-1", ["make"], "/", call_id=call)
    made = wanted.mint()
    holder = runlocks.hold(runlocks.lock_path(cli.gitdir, made))
    runlocks.write_holder(holder, b'{"session": "s-1"')
    process = processes.intend(lab.store, wanted, made, **here, **STAMP).process
    processes.started(lab.store, process, Identity(2**30, 9, STAMP["at"]), **STAMP)
    Path(runfiles.run_folder(cli.gitdir, made)).mkdir(parents=True)
    os.close(holder)
    return made


@pytest.mark.req("F1", "R-TJ-18")
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_record_is_named_hides_nothing_and_has_a_way_out(flow, lab, damage):
    process = left(flow, lab, "c-1")
    path = f"{runfiles.run_folder(flow.gitdir, process)}/exit"
    DAMAGES[damage](path)
    other = lab.start("c-2").id
    listed = flow.run("ps", "--json", env=S1)
    assert [row["id"] for row in listed.data["processes"]] == [process, other]
    assert f"warning: the record of how {process} ended cannot be read" in listed.err
    assert process in flow.run("inbox", env=S1).err
    assert flow.run("logs", process, "-f").code == 0
    error = flow.refuses(6, "cancel", process)
    assert (error["details"]["path"], error["details"]["next"][:3]) == (
        path, ["gfs", "recover", process],
    )  # fmt: skip
    assert flow.run("run", "--", "true", env=S1).code == 0
    assert flow.json("recover", process)["decisions"] == ["lost"]
    told = flow.json("recover", process, "--decide", "lost", "--reason", "its record is damaged")
    assert (told["state"], told["changed"]) == ("lost", True)
    assert flow.json("cancel", process)["repeated"]
    flow.sound()


@pytest.mark.req("R-TJ-04")
def test_a_record_that_is_damaged_by_its_own_command_does_not_end_it(flow):
    plant = 'echo junk > "$GFS_RUN/exit"; echo begun; exec sleep 60'
    words = ("run", "--call-id", "c", "--detach", "--", "sh", "-c", plant)
    process = flow.json(*words[:-4], *words[-4:], env=S1)["id"]
    path = Path(runfiles.run_folder(flow.gitdir, process)) / "exit"
    while not path.exists():
        pass
    done = flow.run("cancel", process)
    assert (done.code, done.out.split()[1]) == (0, "cancelled"), done
