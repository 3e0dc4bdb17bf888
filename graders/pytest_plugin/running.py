"""The second step: where notebooks run is settled, and those that the selected checks need are run, in parallel."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from graders.core.draws import new_seed
from graders.marking.batch import Marking
from graders.marking.jobs import default_jobs
from graders.pytest_plugin.collection import CheckItem
from graders.pytest_plugin.errors import shown_by_pytest
from graders.pytest_plugin.options import limits_from
from graders.pytest_plugin.preparing import PREPARED
from graders.pytest_plugin.state import MARKING
from graders.run.kept import KeptRuns
from graders.run.kit import make_kit
from graders.run.selftest import Choice, choose_tier
from graders.run.tiers import accepted_tiers
from graders.run.warm import WarmProcess


def pytest_configure(config: pytest.Config) -> None:
    """Fix the seed, and settle where the notebooks run."""
    if config.option.tbstyle == "auto":
        # The summary explains each exercise once. `--tb=short` brings back a section for each check.
        config.option.tbstyle = "no"
        config.option.reportchars = config.option.reportchars.removeprefix("fE")
    worker: dict[str, Any] = getattr(config, "workerinput", {})
    prepared = config.stash[PREPARED]
    warm, kept = prepared.warm, prepared.kept
    marking = config.stash[MARKING] = Marking(
        worker["hookwork_seed"] if worker else _seed(config, kept),
        limits_from(config),
        1 if worker else config.getoption("--jobs") or default_jobs(),
        warm.kit,
        kept,
        tier=None,
        accepted=accepted_tiers(
            config.getoption("--isolation"),
            unisolated=config.getoption("--allow-unisolated") or not _is_class(config),
        ),
        controlled=_is_class(config),
    )
    if worker:
        marking.run_in(Choice(worker["hookwork_tier"], warm if worker["hookwork_warm"] else None))
    elif not config.option.collectonly and marking.has_to_run(prepared.submissions):
        marking.run_in(_choose_tier(config, make_kit(warm.kit), warm))


def _seed(config: pytest.Config, kept: KeptRuns | None) -> int:
    """The seed that was asked for, that of the batch which `--out` goes on with, or a new one."""
    given: int | None = config.getoption("--seed")
    if given is not None:
        return given
    return kept.seed(new_seed()) if kept else new_seed()


def _choose_tier(config: pytest.Config, kit: Path, warm: WarmProcess) -> Choice:
    """The tier of isolation, tested from inside."""
    with shown_by_pytest():
        return choose_tier(
            config.getoption("--isolation"),
            kit,
            limits_from(config),
            own_work=not _is_class(config),
            allow_unisolated=config.getoption("--allow-unisolated"),
            warm=warm,
        )


def _is_class(config: pytest.Config) -> bool:
    return len({submission.student for submission in config.stash[PREPARED].submissions}) > 1


def pytest_unconfigure(config: pytest.Config) -> None:
    """Let what runs end."""
    if MARKING in config.stash:
        config.stash[MARKING].close()


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> None:
    """Run all notebooks that the selected checks need, in parallel.

    With `-x` each runs only when its first check is due; a worker of pytest-xdist learns only then which
    checks are its own.
    """
    config = session.config
    if config.option.collectonly or config.getoption("maxfail") or hasattr(config, "workerinput"):
        return
    needed = {item.submission: None for item in session.items if isinstance(item, CheckItem)}
    if not needed:
        return
    writer = config.get_terminal_writer()
    console = Console(file=writer._file)
    columns = (TextColumn("running notebooks"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("notebooks", total=len(needed))
        config.stash[MARKING].start(needed, lambda _: bar.advance(task))
