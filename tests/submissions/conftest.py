"""A private folder for archives."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    """The private folder; nothing else may appear in `tmp_path` (see `unchanged`)."""
    folder = tmp_path / "deep" / "scratch"
    folder.mkdir(parents=True)
    return folder
