"""The second step: chooses where notebooks run, and runs those that the selected checks need, in parallel."""

from __future__ import annotations

import pytest
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from graders.core import course
from graders.core.seeds import new_seed
from graders.core.terminal import Terminal
from graders.instructor.pytest_plugin import xdist
from graders.instructor.pytest_plugin.collection import CheckItem
from graders.instructor.pytest_plugin.errors import shown_by_pytest
from graders.instructor.pytest_plugin.state import MARKING, PREPARED
from graders.marking.cache import RunCache
from graders.marking.questions import Questions, SeedsByFile
from graders.marking.setup import assemble_marking, set_up_marking


def pytest_configure(config: pytest.Config) -> None:
    """Choose the seed, and where the notebooks run."""
    if config.option.tbstyle == "auto":
        # Our summary explains each exercise once; with `--tb=short` pytest prints a section for each check as well.
        config.option.tbstyle = "no"
        config.option.reportchars = config.option.reportchars.removeprefix("fE")
    prepared = config.stash[PREPARED]
    run_options = prepared.run_options
    if xdist.is_worker(config):
        questions, runner = Questions(*xdist.worker_seeds(config)), xdist.worker_runner(config)
        config.stash[MARKING] = assemble_marking(questions, run_options, runner, cache=prepared.cache, jobs=1)
        return
    submissions = [] if config.option.collectonly else prepared.submissions
    for submission in submissions:
        course.lesson_exercises(submission.lesson)  # imported while the warm process starts, on another core
    seed, repeated = _choose_seeds(config, prepared.cache)
    with shown_by_pytest():
        config.stash[MARKING] = set_up_marking(
            seed,
            run_options,
            prepared.boxes,
            submissions,
            cache=prepared.cache,
            jobs=config.getoption("--jobs"),
            repeated=repeated,
        )


def _choose_seeds(config: pytest.Config, cache: RunCache | None) -> tuple[int, SeedsByFile]:
    """The seed for new notebooks, and those of notebooks that already have results in `--out`."""
    given, out = config.getoption("--seed"), config.getoption("--out")
    if cache is None:
        return new_seed() if given is None else given, {}
    from graders.instructor.regrade import choose_seeds

    return choose_seeds(out, cache, new_seed, given=given, fresh=config.getoption("--fresh"))


def pytest_unconfigure(config: pytest.Config) -> None:
    """Start no more notebooks. After Ctrl+C, or with `-x`, some may still be running, and are soon ended."""
    if MARKING in config.stash:
        config.stash[MARKING].stop()


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> None:
    """Run all notebooks that the selected checks need, in parallel.

    With `-x`, and in a worker of pytest-xdist, which does not know its checks in advance, a notebook runs when its
    first check is due.
    """
    config = session.config
    if config.option.collectonly or config.getoption("maxfail") or hasattr(config, "workerinput"):
        return
    needed = {item.submission: None for item in session.items if isinstance(item, CheckItem)}
    if not needed:
        return
    writer = config.get_terminal_writer()
    console = Terminal(writer._file)
    columns = (TextColumn("running notebooks"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("notebooks", total=len(needed))
        config.stash[MARKING].start(needed, lambda _: bar.advance(task))
