"""Hookwork beside its peers: `python -m tests.benchmarks.bench_peers [--quick] [--submissions 5,20,40] ...`.

One class of N copies of a solved lesson, which differ in comments, is marked by Hookwork (the default tier, nothing
switched off), by Hookwork again from its kept runs, by nbgrader's autograde, by `otter run` on each file, by plain
nbclient with fresh kernels, and by the limit: the same cells and probes in forked processes, and nothing else, with and
without drawing the figures, which Hookwork leaves out. The peers' test cells call Hookwork's own checks with the same
seed, so all judge the same answers on the same inputs.

The methods take turns, in an order of its own in each round, and ratios are taken within a round. Before, each marks a
small class once, which is not timed: files come into memory, and the memory that its processes take is looked at. All
figures include the start of the command. The peers are installed into an environment of their own, which borrows torch
and Jupyter from the running one.

All of it takes two to three hours. `--quick` is one round with 20 submissions and without the slowest two, otter and
nbclient: less than ten minutes.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import random
import shutil
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

from graders.core import course
from graders.marking.in_process import check_namespace
from tests.benchmarks.comparison import HOOKWORK, KEPT, LIMIT, NOT_DRAWN, OTTER, Measured, Table, Target
from tests.benchmarks.measuring import Usage, run
from tests.benchmarks.peers import METHODS, REPOSITORY, Class, class_notebook, environment, variables

CACHE = Path("~/.cache/hookwork-benchmark").expanduser()
MEMORY_CLASS = 4
"""Submissions of the class with which memory is looked at."""
SHORT = {name.split()[0]: name for name in METHODS if name not in (KEPT, LIMIT, NOT_DRAWN)}
SHORT |= {"kept": KEPT, "limit": LIMIT, "not-drawn": NOT_DRAWN}
QUICK = {"submissions": [1, 20], "rounds": 1, "only": "hookwork,kept,nbgrader,limit,not-drawn"}


def mark(method: str, group: Class, python: Path, workers: int, *, memory: bool = False) -> Usage:
    """Mark a class that lies ready, and make sure that everybody got full marks."""
    command = METHODS[method].command(group, python, workers)
    usage = run(command, group.folder, variables(python), group.folder / "log", memory=memory)
    if not METHODS[method].full_marks(group):
        raise SystemExit(f"{method} did not give everybody full marks; see {_saved_log(group)}")
    return usage


def _saved_log(group: Class) -> Path:
    return Path(shutil.copy(group.folder / "log", tempfile.gettempdir()))


def take_turn(
    methods: Sequence[str], lesson: str, size: int, workers: int, python: Path, *, memory: bool = False
) -> dict[str, Usage]:
    """Every method once, in random order; the second marking follows the first."""
    found = {}
    for method in random.sample(methods, len(methods)):
        if method == KEPT or (workers > 1 and not METHODS[method].parallel):
            continue
        with tempfile.TemporaryDirectory(prefix="hookwork-benchmark-") as folder:
            group = Class(Path(folder), lesson, size)
            METHODS[method].prepare(group, python)
            found[method] = mark(method, group, python, workers, memory=memory)
            if method == HOOKWORK and KEPT in methods:
                found[KEPT] = mark(KEPT, group, python, workers, memory=memory)
    for method, usage in found.items():
        print(f"{time.strftime('%H:%M:%S')}  {method:20} {size:4} {workers:2} {usage.seconds:8.1f} s", flush=True)
    return found


def check_seconds() -> float:
    """What a learner's check takes with the worked answers, in seconds: the median over all exercises."""
    found = []
    for lesson in course.lesson_stems():
        module = sys.modules[lesson] = ModuleType(
            lesson
        )  # torch.compile looks up the globals of a function by its module
        namespace = vars(module)
        with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for cell in class_notebook(lesson, "a student").cells:
                if cell.cell_type == "code":
                    exec(compile(cell.source, "<cell>", "exec"), namespace)
        for exercise in course.lesson_exercises(lesson):
            started = time.perf_counter()
            result = check_namespace(exercise, namespace)
            found.append(time.perf_counter() - started)
            assert result.score == exercise.points, result
    return statistics.median(found)


def collect_seconds(python: Path, rounds: int) -> float:
    """What `pytest graders --collect-only` takes, in seconds: the median, after a first time that does not count."""
    command = [sys.executable, "-m", "pytest", "graders", "--collect-only", "-q"]
    with tempfile.TemporaryDirectory() as folder:
        times = [run(command, REPOSITORY, variables(python), Path(folder) / "log").seconds for _ in range(rounds + 1)]
    return statistics.median(times[1:])


def _numbers(text: str) -> list[int]:
    return [int(word) for word in text.split(",")]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="less than ten minutes: so figures are checked")
    parser.add_argument("--submissions", type=_numbers, default=[1, 5, 20, 40], help="sizes of the class")
    parser.add_argument("--flat", type=int, default=0, help="a large class, such as 200, for Hookwork and the limit")
    parser.add_argument("--otter-up-to", type=int, default=40, help="otter, the slowest, is left out of larger classes")
    parser.add_argument("--workers", type=_numbers, default=[1, 2], help="notebooks at a time")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--lesson",
        type=course.find_lesson,
        default="02_watching_gradients",
        help="default: 2, which makes an optimizer and draws, as most lessons do",
    )
    parser.add_argument("--only", default=",".join(SHORT), help=f"some of {','.join(SHORT)}")
    parser.add_argument("--environment", type=Path, default=CACHE, help="where the peers are installed")
    if parser.parse_known_args()[0].quick:
        parser.set_defaults(**QUICK)
    options = parser.parse_args()
    os.environ["MPLBACKEND"] = "agg"
    methods = [SHORT[name] for name in options.only.split(",")]
    python = environment(options.environment)

    extra = []
    if HOOKWORK in methods:
        extra.append(Target("seconds for a check in a notebook, median over all exercises", check_seconds(), 0.3))
        extra.append(Target("seconds for pytest graders --collect-only", collect_seconds(python, options.rounds), 2))
    peaks: dict[tuple[str, int], float] = {}
    for workers in options.workers:
        for method, usage in take_turn(methods, options.lesson, MEMORY_CLASS, workers, python, memory=True).items():
            peaks[method, workers] = usage.peak or 0.0
    few, many = min(options.workers), max(options.workers)
    if HOOKWORK in methods and many > few:
        each = (peaks[HOOKWORK, many] - peaks[HOOKWORK, few]) / (many - few)
        extra.append(Target("MB that another worker takes", each, 100))

    measured: list[Measured] = []
    for number in range(options.rounds):
        for size in [*options.submissions, *([options.flat] if options.flat else [])]:
            some = [name for name in methods if size not in (1, options.flat) or name in (HOOKWORK, KEPT, LIMIT)]
            if size > options.otter_up_to:
                some = [name for name in some if name != OTTER]
            for workers in options.workers:
                for method, usage in take_turn(some, options.lesson, size, workers, python).items():
                    measured.append(Measured(method, size, workers, usage.seconds, usage.cpu, number))
    print(
        f"\n{options.lesson}: medians of R rounds with W workers, start of the command included. MB: the most that "
        f"{MEMORY_CLASS} notebooks took at once\n"
    )
    table = Table(measured)
    one = table.rows.get((HOOKWORK, 1, few))
    extra += [Target("seconds from the command to the result of one notebook", one.seconds, 4)] if one else []
    print("\n".join([*table.lines(peaks), "", *map(str, [*table.targets(), *extra])]))


if __name__ == "__main__":
    sys.exit(main())
