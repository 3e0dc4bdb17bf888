"""The options of `pytest graders`.

They are a plugin of their own, named in pyproject.toml, and not part of conftest.py: before pytest loads ours, it looks
for a conftest.py in every folder on the command line, and must not take the DIR of `--submissions DIR` for one.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from graders.core import course
from graders.core.quantities import parse_jobs, parse_seconds, parse_size, parse_whole_number
from graders.instructor.pytest_plugin.errors import option_type
from graders.sandbox.outside.tiers import TIERS
from graders.wire.limits import Limits

LIMITS: tuple[tuple[str, str, Callable[[str], float], str, str], ...] = (
    ("--cell-timeout", "cell_seconds", parse_seconds, "S", "seconds for one cell (default %(default)s)"),
    ("--notebook-timeout", "notebook_seconds", parse_seconds, "S",
     "seconds for a whole notebook: its cells, including those run again, and its exercises (default %(default)s)"),
    ("--probe-timeout", "probe_seconds", parse_seconds, "S",
     "seconds for one call of a learner's function by a probe (default %(default)s)"),
    ("--memory-limit", "memory", parse_size, "SIZE", "memory for a notebook's process, such as 2G (default 2G)"),
    ("--output-limit", "output", parse_size, "SIZE", "text that a notebook may write, such as 8M (default 8M)"),
)  # fmt: skip
"""The options that limit a notebook: each with the field of `Limits` that it sets, how it is read, and its help."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of the graders, in a group of their own."""
    group = parser.getgroup("hookwork", "marking notebooks (pytest graders)")
    group.addoption(
        "--submissions",
        type=Path,
        metavar="PATH",
        help="a class (a folder per student, or an archive from Canvas or Moodle), one student's folder, or one "
        "notebook; default: lessons/",
    )
    group.addoption("--out", type=Path, metavar="DIR", help="write results.json, gradebook.csv and runs/ here")
    group.addoption(
        "--lessons",
        type=option_type(_parse_lessons),
        metavar="NAMES",
        default=(),
        help="lessons that are due, such as 01,02; default: those that several students handed in",
    )
    group.addoption(
        "--names",
        metavar="PATTERN",
        help="pattern of file names, as in '{student}_{id}_{lesson}' or '{any}/{student}/{file}', or a platform",
    )
    group.addoption("--one-student", action="store_true", help="everything in the folder is one student's work")
    group.addoption(
        "--confirm-files",
        action="store_true",
        help="confirm how files were read: doubts no longer affect the exit code",
    )
    group.addoption(
        "--fresh", action="store_true", help="run every notebook, even if an earlier run is kept in DIR/runs"
    )
    group.addoption("--keep-outputs", action="store_true", help="also write the executed notebooks, to DIR/executed")
    group.addoption(
        "--seed", type=option_type(parse_whole_number), metavar="N", help="repeat a run: the seed of every input"
    )
    group.addoption(
        "--jobs",
        type=option_type(parse_jobs),
        metavar="N",
        help="notebooks that run at once; default: as many as cores and memory allow",
    )
    group.addoption(
        "--isolation",
        choices=("auto", *TIERS),
        default="auto",
        help="tier in which notebooks run; default: the best that works here",
    )
    group.addoption("--allow-unisolated", action="store_true", help="mark a class even without isolation")
    for name, limit, parse, metavar, text in LIMITS:
        group.addoption(name, type=option_type(parse), metavar=metavar, default=getattr(Limits, limit), help=text)


def _parse_lessons(text: str) -> tuple[str, ...]:
    """The stems of lessons named in a list with commas. Raises `course.UnknownLesson`."""
    return tuple(course.find_lesson(name.strip()) for name in text.split(",") if name.strip())


def limits_from(config: pytest.Config) -> Limits:
    """The limits given by the options, in seconds and bytes."""
    return Limits(**{limit: config.getoption(name) for name, limit, *_ in LIMITS})
