"""The options of `pytest graders`.

They are a plugin of their own, named in pyproject.toml, and not part of conftest.py: pytest looks at the
command line for folders with a conftest.py before it loads ours, and the DIR of `--submissions DIR` must
not be one of them.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from graders.core.errors import HookworkError
from graders.pytest_plugin.errors import option
from graders.run.tiers import TIERS
from graders.wire.limits import Limits


class BadOption(HookworkError):
    """The value of an option; the message says how to write one."""


_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMG]?)i?B?", re.IGNORECASE)
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def size(text: str) -> int:
    """Bytes of a size such as `512M` or `2GiB`."""
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise BadOption(f"{text!r} is no size; write it like 512M or 2G")
    return int(float(match[1]) * _UNITS[match[2].upper()])


def seconds(text: str) -> float:
    """A positive number of seconds."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < 1e6:
        raise BadOption(f"{text!r} is no number of seconds above 0")
    return value


def natural(text: str) -> int:
    """A whole number from 0 up, below the bound that JSON readers keep exact."""
    if not text.isascii() or not text.isdigit() or int(text) >= 2**53:
        raise BadOption(f"{text!r} is no whole number between 0 and 2**53")
    return int(text)


def jobs(text: str) -> int:
    """How many notebooks run at once: 1 or more."""
    value = natural(text)
    if value < 1:
        raise BadOption("at least 1 notebook has to run at a time")
    return value


def pytest_addoption(parser: pytest.Parser) -> None:
    """Options of the graders, in a group of their own."""
    group = parser.getgroup("hookwork", "marking notebooks (pytest graders)")
    group.addoption(
        "--submissions",
        type=Path,
        metavar="PATH",
        help="a class (a folder per student, or an archive from Canvas or Moodle), one student's folder, or one "
        "notebook; default: lessons/",
    )
    group.addoption("--out", type=Path, metavar="DIR", help="write results.json, gradebook.csv and runs/ here")
    group.addoption("--fresh", action="store_true", help="run every notebook, also those whose run is kept in DIR/runs")
    group.addoption("--seed", type=option(natural), metavar="N", help="repeat a run: the seed of every input")
    group.addoption(
        "--jobs",
        type=option(jobs),
        metavar="N",
        help="notebooks that run at once; default: as many as there are cores and memory for",
    )
    group.addoption(
        "--isolation",
        choices=("auto", *TIERS),
        default="auto",
        help="tier in which notebooks run; default: the best that holds here",
    )
    group.addoption(
        "--allow-unisolated", action="store_true", help="mark a class even where nothing isolates its notebooks"
    )
    group.addoption(
        "--cell-timeout",
        type=option(seconds),
        metavar="S",
        default=Limits.cell_seconds,
        help="seconds for one cell (default %(default)s)",
    )
    group.addoption(
        "--notebook-timeout",
        type=option(seconds),
        metavar="S",
        default=Limits.notebook_seconds,
        help="seconds for all cells of a notebook (default %(default)s)",
    )
    group.addoption(
        "--probe-timeout",
        type=option(seconds),
        metavar="S",
        default=Limits.probe_seconds,
        help="seconds for one call of a learner's function by a probe (default %(default)s)",
    )
    group.addoption(
        "--memory-limit",
        type=option(size),
        metavar="SIZE",
        default=Limits.memory,
        help="memory of a notebook's process, such as 2G (default 2G)",
    )
    group.addoption("--output-limit", type=option(size), metavar="SIZE", default=Limits.output,
                    help="text that a notebook may write, such as 8M (default 8M)")  # fmt: skip


def limits_from(config: pytest.Config) -> Limits:
    """The limits that the options ask for."""
    return Limits(
        cell_seconds=config.getoption("--cell-timeout"),
        notebook_seconds=config.getoption("--notebook-timeout"),
        probe_seconds=config.getoption("--probe-timeout"),
        memory=config.getoption("--memory-limit"),
        output=config.getoption("--output-limit"),
    )
