"""Hooks of pytest-xdist (`-n`), ignored where it is not installed.

Each worker runs the submissions whose checks it was given, and sends the results home.
"""

from __future__ import annotations

from typing import Any

import pytest

from graders.pytest_plugin.preparing import PREPARED
from graders.pytest_plugin.state import FROM_WORKERS, MARKING
from graders.report import results_json


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Every worker gets the same seed, and folders that are removed even when the worker is killed."""
    node.workerinput["hookwork_seed"] = node.config.stash[MARKING].seed
    node.workerinput["hookwork_tier"] = node.config.stash[MARKING].tier
    node.workerinput["hookwork_warm"] = node.config.stash[MARKING].warm is not None
    node.workerinput["hookwork_kit"] = str(node.config.stash[MARKING].kit)
    node.workerinput["hookwork_scratch"] = str(node.config.stash[PREPARED].scratch)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """All checks of one submission go to one worker, so that its notebook runs once."""
    from xdist.scheduler import LoadScopeScheduling

    class BySubmission(LoadScopeScheduling):  # type: ignore[misc]  # xdist ships no types
        def _split_scope(self, nodeid: str) -> str:
            file, _, student, *_ = nodeid.split("::")
            return f"{file.rpartition('/')[0]}::{student}"  # of a lesson's folder

    return BySubmission(config, log)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take over the results of a worker that has finished."""
    for data in getattr(node, "workeroutput", {}).get("hookwork_results", []):
        node.config.stash.setdefault(FROM_WORKERS, []).append(results_json.submission_from_data(data))
