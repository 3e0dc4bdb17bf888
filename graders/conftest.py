"""What pytest looks for in a folder of tests. All of it is in `graders.instructor.pytest_plugin`."""

from graders.instructor.pytest_plugin.preparing import pytest_configure, pytest_unconfigure

__all__ = ["pytest_configure", "pytest_unconfigure"]
