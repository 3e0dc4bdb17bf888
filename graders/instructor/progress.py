"""How far the marking of a class is, as a terminal or a log shows it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from graders.core.results import SubmissionResult
from graders.core.terminal import Terminal, output_terminal

TELL_EVERY = 30.0
"""Seconds between two lines of progress where there is no terminal to draw a bar on."""

Done = Callable[[SubmissionResult], None]


@contextmanager
def marking_progress(total: int, out: Terminal) -> Iterator[Done]:
    """Something to call after each notebook: a bar on a terminal, elsewhere a line now and then.

    What it counts has a result. The time that is left is the mean of what was measured, and none is shown before that.
    """
    if not out.is_terminal:
        count, told = 0, time.monotonic()

        def tell(result: SubmissionResult) -> None:
            nonlocal count, told
            count += 1
            if time.monotonic() - told > TELL_EVERY or count == total:
                told = time.monotonic()
                output_terminal(stderr=True).say(f"{count} of {total} notebooks marked")

        yield tell
        return
    columns = (TextColumn("marked"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("left:"),
               TimeRemainingColumn(), TextColumn("{task.fields[odd]}"))  # fmt: skip
    with Progress(*columns, console=out, transient=True) as bar:
        task = bar.add_task("notebooks", total=total, odd="")
        odd = 0

        def advance(result: SubmissionResult) -> None:
            nonlocal odd
            odd += not result.graded
            bar.update(task, advance=1, odd=f"{odd} not graded" if odd else "")

        yield advance
