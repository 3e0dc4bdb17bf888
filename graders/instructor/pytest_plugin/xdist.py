"""Hooks of pytest-xdist (`-n`), which do nothing when it is not installed.

Each worker runs the submissions whose checks it was given, and sends their results to the main process.
"""

from __future__ import annotations

import shlex
import sys
from typing import Any

import pytest

from graders.instructor.pytest_plugin.state import FROM_WORKERS, MARKING, PREPARED
from graders.report import results_json
from graders.sandbox.outside.runner import BoxRunner


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes(specs: list[Any]) -> None:
    """Start workers on this machine isolated: otherwise they look for every module in the current folder first."""
    for spec in specs:
        if spec.popen and not spec.python:
            spec.python = shlex.join([sys.executable, "-I"])  # they get our places to search from pytest-xdist


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Give every worker the same seeds and tier, and folders that are removed even if the worker is killed."""
    marking, prepared = node.config.stash[MARKING], node.config.stash[PREPARED]
    tier, forked = marking.runner.tier, False
    if tier:
        forked = prepared.boxes.runner(prepared.run_options).warm is not None
    node.workerinput["hookwork_seed"] = marking.seed
    node.workerinput["hookwork_repeated"] = [[*file, seed] for file, seed in marking.questions.repeated.items()]
    node.workerinput["hookwork_tier"] = tier
    node.workerinput["hookwork_forked"] = forked
    node.workerinput["hookwork_box_modules"] = str(prepared.boxes.warm.box_modules)
    node.workerinput["hookwork_scratch"] = str(prepared.scratch)


def is_worker(config: pytest.Config) -> bool:
    """Whether this process is a worker."""
    return hasattr(config, "workerinput")


def worker_seeds(config: pytest.Config) -> tuple[int, dict[tuple[str, str, str], int]]:
    """The seeds that this worker was given: for new notebooks, and for those that were marked before."""
    given = config.workerinput  # type: ignore[attr-defined]  # only a worker's config has it
    repeated = {(student, lesson, sha256): seed for student, lesson, sha256, seed in given["hookwork_repeated"]}
    return int(given["hookwork_seed"]), repeated


def worker_runner(config: pytest.Config) -> BoxRunner | None:
    """The runner for this worker, in the tier that the main process tested; None when nothing has to run."""
    given = config.workerinput  # type: ignore[attr-defined]  # only a worker's config has it
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
    """Send all checks of one submission to the same worker, so that its notebook runs only once."""
    from xdist.scheduler import LoadScopeScheduling

    class BySubmission(LoadScopeScheduling):  # type: ignore[misc]  # xdist ships no types
        """Keeps the tests of one student in one lesson's folder together."""

        def _split_scope(self, nodeid: str) -> str:
            file, _, student, *_ = nodeid.split("::")
            return f"{file.rpartition('/')[0]}::{student}"  # the folder of a lesson, and the student

    return BySubmission(config, log)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take the results from a worker that has finished."""
    for data in getattr(node, "workeroutput", {}).get("hookwork_results", []):
        node.config.stash.setdefault(FROM_WORKERS, []).append(results_json.submission_from_data(data))
