"""From measurements to a table, ratios and targets. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

HOOKWORK, KEPT, LIMIT = "hookwork", "hookwork, kept runs", "the limit"
NBGRADER, OTTER, NBCLIENT = "nbgrader autograde", "otter run", "nbclient"


@dataclass(frozen=True)
class Measured:
    """One class of so many submissions, marked once: wall and processor seconds for all of it, start included."""

    method: str
    submissions: int
    workers: int
    seconds: float
    cpu: float


@dataclass(frozen=True)
class Row:
    """All rounds of one method, size and number of workers: medians, for one notebook, start included."""

    method: str
    submissions: int
    workers: int
    seconds: float
    fastest: float
    slowest: float
    cpu: float
    total: float
    rounds: int


@dataclass(frozen=True)
class Target:
    """A figure that is to be at most, or at least, a bound."""

    what: str
    value: float
    bound: float
    at_least: bool = False

    @property
    def met(self) -> bool:
        """Whether it is."""
        return self.value >= self.bound if self.at_least else self.value <= self.bound

    def __str__(self) -> str:
        """One line."""
        verdict = "met" if self.met else "MISSED"
        return f"{verdict:6}  {self.what}: {self.value:.3g} (at {'least' if self.at_least else 'most'} {self.bound:g})"


class Table:
    """The rows, and what follows from them."""

    def __init__(self, measured: Iterable[Measured]) -> None:
        """Rows are in the order in which their first measurement came."""
        groups: dict[tuple[str, int, int], list[Measured]] = {}
        for run in measured:
            groups.setdefault((run.method, run.submissions, run.workers), []).append(run)
        self.rows = {key: _row(group) for key, group in groups.items()}

    def seconds(self, method: str, submissions: int, workers: int) -> float | None:
        """The median for one notebook; None when it was not measured."""
        row = self.rows.get((method, submissions, workers))
        return None if row is None else row.seconds

    def further(self, method: str, workers: int, few: int, many: int) -> float | None:
        """Seconds for each submission by which a larger class differs from a smaller one: the start cancels out."""
        first, second = self.rows.get((method, few, workers)), self.rows.get((method, many, workers))
        if first is None or second is None or few == many:
            return None
        return (second.total - first.total) / (many - few)

    def targets(self) -> list[Target]:
        """The targets that these measurements speak of, at the largest class that all were measured with."""
        found = []

        def add(what: str, part: float | None, whole: float | None, bound: float, *, at_least: bool = False) -> None:
            if part is not None and whole is not None and whole > 0:
                found.append(Target(what, part / whole, bound, at_least))

        for workers in sorted({workers for _, _, workers in self.rows}):
            sizes = sorted({size for method, size, w in self.rows if method == HOOKWORK and w == workers})
            compared = [size for size in sizes if any((peer, size, workers) in self.rows for peer in (LIMIT, OTTER))]
            if not sizes:
                continue
            with_them, most = f"with {workers} worker{'s' * (workers > 1)}", (compared or sizes)[-1]
            own, class_of = self.seconds(HOOKWORK, most, workers), f"{most} submissions, {with_them}"
            for peer, name, bound in ((NBGRADER, "nbgrader", 8), (OTTER, "otter", 10)) if workers == 2 else ():
                # Of the peers, one runs one notebook at a time, and the other a file. Otter may lack the largest class.
                largest = max((size for size in sizes if (peer, size, 1) in self.rows), default=most)
                add(
                    f"times {name}'s throughput, {largest} submissions, {with_them}",
                    self.seconds(peer, largest, 1),
                    self.seconds(HOOKWORK, largest, 2),
                    bound,
                    at_least=True,
                )
            add(f"of the limit, {class_of}", own, self.seconds(LIMIT, most, workers), 1.2)
            few, many = sizes[0], compared[-1] if compared else sizes[-1]
            add(
                f"of the limit, each further submission from {few} to {many}, {with_them}",
                self.further(HOOKWORK, workers, few, many),
                self.further(LIMIT, workers, few, many),
                1.2,
            )
            add(
                f"times as fast from kept runs, the whole command, {sizes[-1]} submissions, {with_them}",
                self.seconds(HOOKWORK, sizes[-1], workers),
                self.seconds(KEPT, sizes[-1], workers),
                50,
                at_least=True,
            )
            add(
                f"times as fast from kept runs, each further submission from {few} to {sizes[-1]}, {with_them}",
                self.further(HOOKWORK, workers, few, sizes[-1]),
                self.further(KEPT, workers, few, sizes[-1]),
                50,
                at_least=True,
            )
            if len(sizes) > 2:
                add(
                    f"cost of a further submission from {sizes[-2]} to {sizes[-1]}, of that from {few} to {sizes[-2]}, "
                    f"{with_them}",
                    self.further(HOOKWORK, workers, sizes[-2], sizes[-1]),
                    self.further(HOOKWORK, workers, few, sizes[-2]),
                    1.2,
                )
        return found

    def lines(self, peaks: dict[tuple[str, int], float]) -> list[str]:
        """The table as text; `peaks` are megabytes by method and workers."""
        head = f"{'method':20} {'N':>4} {'W':>2} {'R':>2} {'s a notebook':>13} {'range':>13}"
        head += f" {'CPU s':>6} {'limit':>6} {'MB':>6}"
        found = [head, "-" * len(head)]
        for row in sorted(self.rows.values(), key=lambda row: (row.submissions, row.workers, row.seconds)):
            limit = self.seconds(LIMIT, row.submissions, row.workers)
            ratio = f"{row.seconds / limit:.2f}" if limit else "–"
            peak = peaks.get((row.method, row.workers))
            found.append(
                f"{row.method:20} {row.submissions:4} {row.workers:2} {row.rounds:2} {row.seconds:13.3f} "
                f"{f'{row.fastest:.2f}–{row.slowest:.2f}':>13} {row.cpu:6.2f} {ratio:>6} "
                f"{'–' if peak is None else f'{peak:.0f}':>6}"
            )
        return found

    def to_data(self) -> list[dict[str, Any]]:
        """The rows as JSON takes them."""
        return [asdict(row) for row in self.rows.values()]


def _row(group: Sequence[Measured]) -> Row:
    size = group[0].submissions
    each = [run.seconds / size for run in group]
    return Row(
        group[0].method,
        size,
        group[0].workers,
        statistics.median(each),
        min(each),
        max(each),
        statistics.median(run.cpu / size for run in group),
        statistics.median(run.seconds for run in group),
        len(group),
    )
