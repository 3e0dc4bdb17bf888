"""Hooks of pytest-xdist (`-n`), ignored where it is not installed.

Each worker runs the submissions whose checks it was given, and sends the results home.
"""

from __future__ import annotations

from typing import Any

import pytest

from graders.pytest_plugin.state import FROM_WORKERS, MARKING, PREPARED
from graders.report import results_json
from graders.run.runner import BoxRunner


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Every worker gets the same seed and tier, and folders that are removed even when the worker is killed."""
    marking, prepared = node.config.stash[MARKING], node.config.stash[PREPARED]
    tier, forked = marking.runner.tier, False
    if tier:
        forked = prepared.boxes.runner(prepared.run_options).warm is not None
    node.workerinput["hookwork_seed"] = marking.seed
    node.workerinput["hookwork_repeated"] = [[*file, seed] for file, seed in marking.questions.repeated.items()]
    node.workerinput["hookwork_tier"] = tier
    node.workerinput["hookwork_forked"] = forked
    node.workerinput["hookwork_kit"] = str(prepared.boxes.warm.box_modules)
    node.workerinput["hookwork_scratch"] = str(prepared.scratch)


def is_worker(config: pytest.Config) -> bool:
    """Whether this process is a worker."""
    return hasattr(config, "workerinput")


def worker_seeds(config: pytest.Config) -> tuple[int, dict[tuple[str, str, str], int]]:
    """The seeds that this worker was given: of what is new, and of what was marked before."""
    given = config.workerinput  # type: ignore[attr-defined]  # it is a worker's
    repeated = {(student, lesson, sha256): seed for student, lesson, sha256, seed in given["hookwork_repeated"]}
    return int(given["hookwork_seed"]), repeated


def worker_runner(config: pytest.Config) -> BoxRunner | None:
    """What runs notebooks in this worker: in the tier that was tested where it was started."""
    given = config.workerinput  # type: ignore[attr-defined]  # it is a worker's
    if not given["hookwork_tier"]:
        return None
    warm, run_options = config.stash[PREPARED].boxes.warm, config.stash[PREPARED].run_options
    return BoxRunner(
        box_modules=warm.box_modules,
        tier=given["hookwork_tier"],
        limits=run_options.limits,
        warm=warm if given["hookwork_forked"] else None,
        keep_outputs=run_options.keep_outputs,
        private=run_options.private,
    )


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """All checks of one submission go to one worker, so that its notebook runs once."""
    from xdist.scheduler import LoadScopeScheduling

    class BySubmission(LoadScopeScheduling):  # type: ignore[misc]  # xdist ships no types
        """Tests of one student in one lesson's folder belong together."""

        def _split_scope(self, nodeid: str) -> str:
            file, _, student, *_ = nodeid.split("::")
            return f"{file.rpartition('/')[0]}::{student}"  # of a lesson's folder

    return BySubmission(config, log)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take over the results of a worker that has finished."""
    for data in getattr(node, "workeroutput", {}).get("hookwork_results", []):
        node.config.stash.setdefault(FROM_WORKERS, []).append(results_json.submission_from_data(data))
