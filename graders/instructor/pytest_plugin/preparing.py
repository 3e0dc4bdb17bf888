"""The first of two steps, before anything imports torch: finds the submissions and starts the warm process.

That process imports torch on another core while this one imports the second step, which are the other modules here.
"""

from __future__ import annotations

import contextlib
import gc
from pathlib import Path
from typing import Any

import pytest

from graders.core import course
from graders.instructor.pytest_plugin.errors import shown_by_pytest
from graders.instructor.pytest_plugin.options import limits_from
from graders.instructor.pytest_plugin.state import PREPARED, Prepared
from graders.marking.cache import RunCache
from graders.sandbox.outside.boxes import Boxes, prestarted_boxes
from graders.sandbox.outside.leftovers import temporary_folder
from graders.sandbox.outside.run_options import RunOptions
from graders.sandbox.outside.warm_process import WarmProcess
from graders.submissions.finding import FoundSubmissions, find_submissions
from graders.submissions.lms import parse_name_pattern

_resources = pytest.StashKey[contextlib.ExitStack]()


def pytest_configure(config: pytest.Config) -> None:
    """Prepare the run, then register the plugins of the second step."""
    worker: dict[str, Any] = getattr(config, "workerinput", {})
    resources = config.stash[_resources] = contextlib.ExitStack()
    scratch = _scratch_folder(worker, resources)
    given: Path | None = config.getoption("--submissions")
    with shown_by_pytest():
        where, due = given or course.lessons_folder(), config.getoption("--lessons")
        names = config.getoption("--names")
        found = find_submissions(
            where,
            course.lesson_stems(),
            scratch,
            due=due,
            names=parse_name_pattern(names) if names else None,
            # Without --submissions it is the user's own folder.
            single=config.getoption("--one-student") or given is None,
            besides=config.getoption("--out"),
        )
        submissions = found.submissions
        out: Path | None = config.getoption("--out")
        cache = RunCache(out / "runs", fresh=config.getoption("--fresh")) if out else None
        if cache is not None:
            cache.check_folder()
    if config.getoption("--keep-outputs") and out is None:
        raise pytest.UsageError("--keep-outputs writes the executed notebooks below --out DIR: name a folder")
    if worker:
        boxes = Boxes(resources.enter_context(WarmProcess(Path(worker["hookwork_box_modules"]))))
    else:
        files = [submission.file for submission in submissions if submission.file is not None]
        all_run = not config.option.collectonly and (cache is None or cache.is_empty)
        boxes = resources.enter_context(prestarted_boxes(now=all_run, files=files))
    config.stash[PREPARED] = Prepared(
        found=found, scratch=scratch, boxes=boxes, run_options=_run_options_from(config, found, scratch), cache=cache
    )

    # torch stays loaded until the end, so the garbage collector need not search it: importing it and ending Python
    # then take 1.5 s of processor time instead of 2.0.
    gc.disable()
    from graders.instructor.pytest_plugin import collection, running, summary, xdist

    gc.freeze()
    gc.enable()
    for module in (running, collection, summary, xdist):
        config.pluginmanager.register(module, module.__name__)


def _run_options_from(config: pytest.Config, found: FoundSubmissions, scratch: Path) -> RunOptions:
    given, out = config.getoption("--submissions"), config.getoption("--out")
    return RunOptions(
        limits=limits_from(config),
        isolation=config.getoption("--isolation"),
        own_work=given is None or not found.is_class,
        allow_unisolated=config.getoption("--allow-unisolated"),
        keep_outputs=config.getoption("--keep-outputs"),
        private=tuple(str(path.absolute()) for path in (given, out, scratch) if path),
    )


def _scratch_folder(worker: dict[str, Any], resources: contextlib.ExitStack) -> Path:
    """A private folder for what is unpacked. A worker's lies in that of the main process, which always cleans up."""
    if not worker:
        return resources.enter_context(temporary_folder("unpacked"))
    folder = Path(worker["hookwork_scratch"]) / str(worker["workerid"])
    folder.mkdir()
    return folder


def pytest_unconfigure(config: pytest.Config) -> None:
    """Remove temporary folders, and stop the warm process."""
    if _resources in config.stash:
        config.stash[_resources].close()
