"""The first of two steps, before anything imports torch: submissions are found, and the warm process starts.

It imports torch on another core while this process does so for the second step, the other modules of this room.
"""

from __future__ import annotations

import contextlib
import gc
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from graders.core import course
from graders.pytest_plugin.errors import shown_by_pytest
from graders.run.kept import KeptRuns
from graders.run.leftovers import temporary_folder
from graders.run.submissions import Submission, find_submissions
from graders.run.warm import WarmProcess, head_start


@dataclass(frozen=True)
class Prepared:
    """What there is to mark, a private folder for what is unpacked, what forks boxes, and the runs kept in `--out`."""

    submissions: list[Submission]
    scratch: Path
    warm: WarmProcess
    kept: KeptRuns | None


PREPARED = pytest.StashKey[Prepared]()
_resources = pytest.StashKey[contextlib.ExitStack]()


def pytest_configure(config: pytest.Config) -> None:
    """Prepare, then load the second step."""
    worker: dict[str, Any] = getattr(config, "workerinput", {})
    resources = config.stash[_resources] = contextlib.ExitStack()
    scratch = _scratch_folder(worker, resources)
    given: Path | None = config.getoption("--submissions")
    with shown_by_pytest():
        submissions = find_submissions(given or course.lessons_folder(), course.lessons(), scratch)
    out: Path | None = config.getoption("--out")
    kept = KeptRuns(out / "runs", fresh=config.getoption("--fresh")) if out else None
    if worker:
        warm = resources.enter_context(WarmProcess(Path(worker["hookwork_kit"])))
    else:
        all_run = not config.option.collectonly and (kept is None or kept.empty)
        warm = resources.enter_context(head_start(now=all_run))
    config.stash[PREPARED] = Prepared(submissions, scratch, warm, kept)

    # torch stays to the end. The garbage collector need not search it, neither now nor when Python ends: each would
    # take half a second.
    gc.disable()
    from graders.pytest_plugin import collection, running, summary, xdist

    gc.freeze()
    gc.enable()
    for module in (running, collection, summary, xdist):
        config.pluginmanager.register(module, module.__name__)


def _scratch_folder(worker: dict[str, Any], resources: contextlib.ExitStack) -> Path:
    """A private folder for what is unpacked. A worker's lies in that of the process which outlives it and cleans up."""
    if not worker:
        return resources.enter_context(temporary_folder("unpacked"))
    folder = Path(worker["hookwork_scratch"]) / str(worker["workerid"])
    folder.mkdir()
    return folder


def pytest_unconfigure(config: pytest.Config) -> None:
    """Remove what was made for the run."""
    if _resources in config.stash:
        config.stash[_resources].close()
