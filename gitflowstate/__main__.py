"""The entry point: how a command begins and how it leaves, around what it does.

Rule: a verb that stays turns the collector on, and is then left to end as any program does.
"""

from __future__ import annotations

import gc
import sys
from os import _exit


def main() -> None:
    """Run the command line without the cyclic collector, which a short command never repays.

    Most of its work would be done while modules are imported, so this comes before them.
    """
    gc.disable()
    from gitflowstate.cli.app import main as run  # noqa: PLC0415  after the switch

    try:
        run()
    except SystemExit as leaving:
        if isinstance(leaving.code, int) and not gc.isenabled() and not _is_watched():
            _leave(leaving.code)
        raise


def _is_watched() -> bool:
    """Tell whether a debugger or a profiler waits for the end."""
    return sys.gettrace() is not None or sys.getprofile() is not None


def _leave(code: int) -> None:
    """End now, without taking the interpreter apart: a fortieth of a command.

    Nothing is lost: what was written is synced, what was said is flushed here, no thread or child
    is left, and all that is registered for the exit are logging, which has no handler, and the
    locks of filelock, which the kernel frees. Return if a stream fails: it is reported as usual.
    """
    try:
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
    except (OSError, ValueError):
        return
    _exit(code)


if __name__ == "__main__":
    main()
