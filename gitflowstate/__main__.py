"""The entry point: nothing but the switch that must be thrown before anything is imported."""

from __future__ import annotations

import gc


def main() -> None:
    """Run the command line without the cyclic collector, which a short command never repays.

    Most of its work would be done while modules are imported. A verb that stays turns it on.
    """
    gc.disable()
    from gitflowstate.cli.app import main as run  # noqa: PLC0415  after the switch

    run()


if __name__ == "__main__":
    main()
