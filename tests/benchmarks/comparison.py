"""From measurements to a table, ratios and targets. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

HOOKWORK, KEPT = "hookwork", "hookwork, kept runs"
LIMIT, NOT_DRAWN = "the limit", "the limit, not drawn"
NBGRADER, OTTER, NBCLIENT = "nbgrader autograde", "otter run", "nbclient"

Key = tuple[str, int, int]
"""A method, how many submissions, how many workers."""


@dataclass(frozen=True)
class Measured:
    """One class of so many submissions, marked once: wall and processor seconds for all of it, start included."""

    method: str
    submissions: int
    workers: int
    seconds: float
    cpu: float
    round: int = 0


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
        return self.value >= self.bound if self.at_least else self.value <= self.bound

    def __str__(self) -> str:
        verdict = "met" if self.met else "MISSED"
        return f"{verdict:6}  {self.what}: {self.value:.3g} (at {'least' if self.at_least else 'most'} {self.bound:g})"


class Table:
    """The rows, and what follows from them. A ratio is the median of those within the rounds that have both sides."""

    def __init__(self, measured: Iterable[Measured]) -> None:
        """Rows are in the order in which their first measurement came."""
        groups: dict[Key, dict[int, Measured]] = {}
        for run in measured:
            groups.setdefault((run.method, run.submissions, run.workers), {})[run.round] = run
        self._rounds = groups
        self.rows = {key: _row(list(group.values())) for key, group in groups.items()}

    def ratio(self, over: Key, under: Key) -> float | None:
        """How many times the seconds of `under` the seconds of `over` are, for one notebook; None without a round."""
        return _median_ratio(self._each(over), self._each(under))

    def _each(self, key: Key) -> dict[int, float]:
        """Seconds for one notebook, by round."""
        return {number: run.seconds / run.submissions for number, run in self._rounds.get(key, {}).items()}

    def further(self, method: str, workers: int, few: int, many: int, *, what: str = "seconds") -> dict[int, float]:
        """Seconds for each submission by which a larger class differs from a smaller one, by round.

        The start cancels out. `what` is "seconds" or "cpu".
        """
        small, large = self._rounds.get((method, few, workers), {}), self._rounds.get((method, many, workers), {})
        return {
            number: (getattr(large[number], what) - getattr(small[number], what)) / (many - few)
            for number in small.keys() & large.keys()
            if few < many
        }

    def targets(self) -> list[Target]:
        """The targets that these measurements speak of, at the largest class that all were measured with."""
        found = []

        def add(what: str, value: float | None, bound: float, *, at_least: bool = False) -> None:
            if value is not None:
                found.append(Target(what, value, bound, at_least))

        for workers in sorted({workers for _, _, workers in self.rows}):
            sizes = sorted({size for method, size, w in self.rows if method == HOOKWORK and w == workers})
            if not sizes:
                continue
            with_them = f"with {workers} worker{'s' * (workers > 1)}"
            for peer, name, bound in ((NBGRADER, "nbgrader", 10), (OTTER, "otter", 15)) if workers == 2 else ():
                # nbgrader runs one notebook at a time, whatever it is given. Otter may lack the largest class.
                theirs = {size: at for (method, size, at) in sorted(self.rows) if method == peer and at <= workers}
                largest = max(theirs.keys() & set(sizes), default=0)
                ratio = self.ratio((peer, largest, theirs.get(largest, 1)), (HOOKWORK, largest, workers))
                add(f"times {name}'s throughput, {largest} submissions, {with_them}", ratio, bound, at_least=True)
            few, many = sizes[0], sizes[-1]
            for limit, bound in ((LIMIT, 1.5), (NOT_DRAWN, 2)):
                most = max((size for size in sizes if (limit, size, workers) in self.rows), default=0)
                ratio = self.ratio((HOOKWORK, most, workers), (limit, most, workers))
                add(f"of {limit}, {most} submissions, {with_them}", ratio, bound)
            own = self.further(HOOKWORK, workers, few, many, what="cpu")
            add(
                f"processor seconds of a further submission from {few} to {many}, {with_them}",
                statistics.median(own.values()) if own else None,
                0.75,
            )
            again = self.rows.get((KEPT, many, workers))
            add(f"seconds to mark {many} again, {with_them}", again and again.seconds * many, 2.5 * max(1, many / 40))
            if len(sizes) > 2:
                ratio = _median_ratio(
                    self.further(HOOKWORK, workers, sizes[-2], many), self.further(HOOKWORK, workers, few, sizes[-2])
                )
                what = f"cost of a further submission from {sizes[-2]} to {many}, of that from {few} to {sizes[-2]}"
                add(f"{what}, {with_them}", ratio, 1.2)
        return found

    def lines(self, peaks: dict[tuple[str, int], float]) -> list[str]:
        """The table as text; `peaks` are megabytes by method and workers."""
        head = f"{'method':20} {'N':>4} {'W':>2} {'R':>2} {'s a notebook':>13} {'range':>13}"
        head += f" {'CPU s':>6} {'limit':>6} {'MB':>6}"
        found = [head, "-" * len(head)]
        for row in sorted(self.rows.values(), key=lambda row: (row.submissions, row.workers, row.seconds)):
            ratio = self.ratio((row.method, row.submissions, row.workers), (LIMIT, row.submissions, row.workers))
            peak = peaks.get((row.method, row.workers))
            found.append(
                f"{row.method:20} {row.submissions:4} {row.workers:2} {row.rounds:2} {row.seconds:13.3f} "
                f"{f'{row.fastest:.2f}–{row.slowest:.2f}':>13} {row.cpu:6.2f} {f'{ratio:.2f}' if ratio else '–':>6} "
                f"{'–' if peak is None else f'{peak:.0f}':>6}"
            )
        return found


def _median_ratio(over: Mapping[int, float], under: Mapping[int, float]) -> float | None:
    ratios = [over[number] / under[number] for number in over.keys() & under.keys() if under[number] > 0]
    return statistics.median(ratios) if ratios else None


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
        len(group),
    )
