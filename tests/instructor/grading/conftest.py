"""Every test of this folder has a runner of its own, and an empty folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.instructor.grading.classes import ClassRunner, machines


@pytest.fixture(autouse=True)
def runner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ClassRunner:
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.chdir(tmp_path)
    machines.append(made := ClassRunner())
    return made
