"""The rows of the speed table: what is measured, against what, and how both are said.

Rules: a row is judged by its ratio (or by memory), never by an absolute time of this machine, but
for the one that says so; the two sides of a ratio come from the same rounds. Standard library
alone: this is imported by the interpreter under test, too.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping
from statistics import median
from typing import NamedTuple

SCALE = float(os.environ.get("GFS_TEST_SCALE", "1"))
WARM_UP = 3  # rounds whose figures are dropped
_HEAD = ("what", "median", "against", "median", "ratio", "10-90 %", "bound", "")


def rounds(count: int) -> int:
    """Return a number of rounds times GFS_TEST_SCALE, at least five."""
    return max(5, round(count * SCALE))


class Row(NamedTuple):
    """One line of the table; without `base` the bound is one on `measured` itself.

    `judged_from` is the median of the base below which the ratio says nothing.
    """

    what: str
    against: str
    bound: float
    measured: list[float]
    base: list[float]
    unit: str = "ms"
    judged_from: float = 0.0

    @property
    def ratio(self) -> float:
        """Return the ratio of the medians; without a base, the median."""
        return median(self.measured) / (median(self.base) if self.base else 1.0)

    @property
    def verdict(self) -> str:
        """Say whether the bound holds, in a word."""
        if self.base and median(self.base) < self.judged_from:
            return "not judged"
        return "ok" if self.ratio <= self.bound else "OVER"

    def cells(self) -> tuple[str, ...]:
        """Return the line as text; the reach is that of the rounds' own ratios."""
        own = [one / base for one, base in zip(self.measured, self.base, strict=bool(self.base))]
        own = own or self.measured
        low, high = (sorted(own)[round(part * (len(own) - 1))] for part in (0.1, 0.9))
        said = f"{median(self.base):.2f} {self.unit}" if self.base else ""
        return (
            self.what,
            f"{median(self.measured):.2f} {self.unit}",
            self.against,
            said,
            f"{self.ratio:.2f}" if self.base else "",
            f"{low:.2f}-{high:.2f}",
            f"{self.bound:g}" + ("" if self.base else f" {self.unit}"),
            self.verdict,
        )


def interleaved(
    cases: Mapping[str, Callable[[], float]],
    count: int,
    before: Callable[[int], None] | None = None,
) -> dict[str, list[float]]:
    """Run the cases in turn, round by round; return what each call measured."""
    found: dict[str, list[float]] = {name: [] for name in cases}
    for number in range(-WARM_UP, count):
        if before:
            before(number + WARM_UP)
        for name, case in cases.items():
            value = case()
            if number >= 0:
                found[name].append(value)
    return found


def wall(act: Callable[[], object]) -> float:
    """Return the milliseconds that a call took."""
    start = time.perf_counter()
    act()
    return (time.perf_counter() - start) * 1e3


def cpu(act: Callable[[], object]) -> float:
    """Return the milliseconds of CPU that a call took."""
    start = time.process_time()
    act()
    return (time.process_time() - start) * 1e3


def send(rows: list[Row]) -> None:
    """Hand the rows to the process that prints the table."""
    print(json.dumps(rows))


def received(text: str) -> list[Row]:
    """Return the rows that another process sent."""
    return [Row(*fields) for fields in json.loads(text)]


def shown(rows: list[Row]) -> str:
    """Return the table as text."""
    cells = [_HEAD, *(row.cells() for row in rows)]
    widths = [max(len(line[column]) for line in cells) for column in range(len(_HEAD))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in cells
    )
