"""A learner in a notebook: an empty folder, cells, and what is printed below them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest


@pytest.fixture(autouse=True)
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def cell(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Runs the text of a cell in a main program of its own; what it defines there is what `check` finds."""
    program = ModuleType("__main__")
    monkeypatch.setitem(sys.modules, "__main__", program)
    return lambda source: exec(compile(source, "<cell>", "exec"), vars(program))


@pytest.fixture
def said(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """What a command prints: `said(check, "01-chain-grads")`."""

    def run(command: Callable[..., Any], *arguments: Any, **options: Any) -> str:
        capsys.readouterr()
        command(*arguments, **options)
        return capsys.readouterr().out

    return run
