"""Shows the progress of marking a class, on a terminal or in a log."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from graders.core.results import SubmissionResult, SubmissionStatus
from graders.core.terminal import Terminal, output_terminal

TELL_EVERY = 30.0
"""Seconds between two lines of progress when there is no terminal for a bar."""

Done = Callable[[SubmissionResult], None]


@contextmanager
def marking_progress(total: int, out: Terminal) -> Iterator[Done]:
    """Show progress in the block; yields a function to call with the result of each of `total` notebooks.

    Results of files that are missing are not counted. On a terminal it is a bar with the estimated time left, elsewhere
    a line on standard error every `TELL_EVERY` seconds.
    """
    if not out.is_terminal:
        count, last_line = 0, time.monotonic()

        def tell(result: SubmissionResult) -> None:
            nonlocal count, last_line
            if result.status is SubmissionStatus.MISSING:
                return
            count += 1
            if time.monotonic() - last_line > TELL_EVERY or count == total:
                last_line = time.monotonic()
                output_terminal(stderr=True).say(f"{count} of {total} notebooks done")

        yield tell
        return
    columns = (TextColumn("marked"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("left:"),
               TimeRemainingColumn(), TextColumn("{task.fields[odd]}"))  # fmt: skip
    with Progress(*columns, console=out, transient=True) as bar:
        task = bar.add_task("notebooks", total=total, odd="")
        odd = 0

        def advance(result: SubmissionResult) -> None:
            nonlocal odd
            if result.status is SubmissionStatus.MISSING:
                return
            odd += not result.graded
            bar.update(task, advance=1, odd=f"{odd} not graded" if odd else "")

        yield advance
