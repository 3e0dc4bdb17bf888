"""What a learner has done, kept in one small readable file beside their notebooks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from graders.core.results import Status
from graders.report.files import write_atomically

FILE = Path("hookwork-progress.json")

_hints: dict[str, int] = {}
_asked: set[str] = set()


def load() -> dict[str, str]:
    """Exercise key to its best status so far; empty when nothing was done, or the file cannot be read."""
    try:
        content: Any = json.loads(FILE.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    known = {status.value for status in Status}
    exercises = content.get("exercises") if isinstance(content, dict) else None
    if not isinstance(exercises, dict):
        return {}
    return {key: status for key, status in exercises.items() if status in known}


def note(key: str, status: Status) -> None:
    """Keep the status of a check; what once passed stays passed. A folder that cannot be written is no error."""
    found = load()
    if found.get(key) == Status.PASSED.value or status is Status.NOT_ATTEMPTED:
        return
    found[key] = status.value
    try:
        write_atomically(FILE, json.dumps({"exercises": dict(sorted(found.items()))}, indent=1) + "\n")
    except OSError:
        return


def passed(key: str) -> bool:
    """Whether a check of this exercise has passed."""
    return load().get(key) == Status.PASSED.value


def next_hint(key: str) -> int:
    """How many hints were given before this one, in this session."""
    _hints[key] = _hints.get(key, -1) + 1
    return _hints[key]


def asked_before(key: str) -> bool:
    """Whether the solution was asked for before, in this session."""
    before = key in _asked
    _asked.add(key)
    return before
