"""What pytest looks for in a folder of tests. All of it is in `graders.pytest_plugin`."""

from graders.pytest_plugin.preparing import pytest_configure, pytest_unconfigure

__all__ = ["pytest_configure", "pytest_unconfigure"]
