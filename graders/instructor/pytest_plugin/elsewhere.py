"""Says how `pytest graders` is called outside a clone, where no pyproject.toml names its options.

Every pytest loads this where Hookwork is installed, so it imports nothing of ours, and adds no options: another plugin
may have some of the same names.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import pytest

OPTIONS = "graders.instructor.pytest_plugin.options"


def pytest_addoption(pluginmanager: pytest.PytestPluginManager) -> None:
    """Stop pytest before it takes the DIR of `--submissions DIR` for a folder of tests and runs a conftest.py there."""
    if not pluginmanager.has_plugin(OPTIONS):
        refuse_submissions(sys.argv)


def refuse_submissions(arguments: Sequence[str]) -> None:
    """Raises `pytest.UsageError` if a command line has `--submissions`."""
    if any(argument.partition("=")[0] == "--submissions" for argument in arguments):
        raise pytest.UsageError(
            "`pytest graders --submissions DIR` works in a clone of Hookwork. Elsewhere it is "
            f"`pytest -p {OPTIONS} --pyargs graders --submissions DIR`."
        )
