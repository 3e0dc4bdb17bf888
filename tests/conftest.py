"""Fixtures of the project's own tests."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from graders.run.kit import kit_folder
from graders.run.warm import WarmProcess

# Programs that the tests start may keep their bytecode, whatever is usual here: compiling anew costs seconds each.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


@pytest.fixture(scope="session")
def kit() -> Iterator[Path]:
    """The folder of modules that exist inside a box."""
    with kit_folder() as folder:
        yield folder


@pytest.fixture(scope="session")
def warm(kit: Path) -> Iterator[WarmProcess]:
    """The process from which boxes are forked, as the commands do it."""
    with WarmProcess(kit) as process:
        yield process
