"""Keep what a learner has done in a small, readable file next to their notebooks.

    {"exercises": {"01-branch-grads": "passed"}, "hints": {"01-chain-grads": 2}, "solutions": ["01-chain-grads"],
     "predictions": {"01-four-gradients": true}, "way": "core path"}

Notebooks and the command line write the same file. It is always replaced as a whole, so that a crash leaves no half of
it; two writers wait for each other; and a file that cannot be understood is renamed, never lost.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from graders.core.files import open_regular_file, write_atomically
from graders.core.results import Status
from graders.core.ways import WAYS, find_way

try:
    import fcntl
except ImportError:  # Windows: of two writers at the same moment, the last one wins
    fcntl = None  # type: ignore[assignment]

FILE_NAME = "hookwork-progress.json"
MAX_BYTES = 1 << 20
"""The largest file that is read. For the whole course, it has about 6,000 bytes."""
HERE = Path()
"""The folder of the notebook that is running, which is its working directory."""


@dataclass
class Record:
    """What one learner has done, all by key.

    `exercises` has the best status of each exercise, `hints` how many were given, `solutions` the exercises whose
    worked answers were asked for, and `predictions` whether the first guess was right. `way` is the way through the
    course that was chosen, if one was. `trouble` is a sentence for the learner if the file could not be read or
    written.
    """

    exercises: dict[str, str] = field(default_factory=dict)
    hints: dict[str, int] = field(default_factory=dict)
    solutions: list[str] = field(default_factory=list)
    predictions: dict[str, bool] = field(default_factory=dict)
    way: str = ""
    trouble: str = ""

    def passed(self, key: str) -> bool:
        """Whether a check of this exercise has passed."""
        return self.exercises.get(key) == Status.PASSED.value

    def note(self, key: str, status: Status) -> None:
        """Keep the status of a check. What has passed stays passed; an untouched stub or our own failure is ignored."""
        if not self.passed(key) and status not in (Status.NOT_ATTEMPTED, Status.NOT_GRADED):
            self.exercises[key] = status.value

    def next_hint(self, key: str) -> int:
        """Count one more hint, and return how many were given before it."""
        before = self.hints.get(key, 0)
        self.hints[key] = before + 1
        return before

    def ask_for_solution(self, key: str) -> bool:
        """Ask for the worked answer. It may be shown (True) if the exercise has passed, or from the second time on."""
        open_now = self.passed(key) or key in self.solutions
        if key not in self.solutions:
            self.solutions.append(key)
        return open_now

    def keep_prediction(self, key: str, right: bool) -> bool:
        """Keep whether the first guess was right, and return it; later guesses change nothing."""
        return self.predictions.setdefault(key, right)


_unwritten: dict[Path, Record] = {}
"""Records of folders that cannot be written; they last as long as this process."""


def load_record(folder: Path = HERE) -> Record:
    """The record of a folder; empty if there is no file yet. A broken file is renamed, and `trouble` says so."""
    with _folder_lock(folder):
        return _load_unlocked(folder)


@contextlib.contextmanager
def edit_record(folder: Path = HERE) -> Iterator[Record]:
    """The record of a folder, to change inside the context and then written, or kept in memory if that fails."""
    with _folder_lock(folder):
        record = _load_unlocked(folder)
        before = _record_to_json(record)
        yield record
        if _record_to_json(record) == before:
            return
        try:
            write_atomically(folder / FILE_NAME, _record_to_json(record))
            _unwritten.pop(folder.absolute(), None)
        except OSError as error:
            why = (error.strerror or "it cannot be written").lower()
            record.trouble = record.trouble or f"Your progress could not be kept in {folder / FILE_NAME}: {why}."
            _unwritten[folder.absolute()] = record


def choose_way(way: str | None, folder: Path = HERE) -> Record:
    """The record of a folder, in which this way was written if one is named. Raises `UnknownWay`."""
    if way is None:
        return load_record(folder)
    chosen = find_way(way)
    with edit_record(folder) as record:
        record.way = chosen
    return record


def _record_to_json(record: Record) -> str:
    content = {
        "exercises": dict(sorted(record.exercises.items())),
        "hints": dict(sorted(record.hints.items())),
        "solutions": sorted(record.solutions),
        "predictions": dict(sorted(record.predictions.items())),
        "way": record.way,
    }
    return json.dumps({name: part for name, part in content.items() if part}, indent=1) + "\n"


def _load_unlocked(folder: Path) -> Record:
    file = folder / FILE_NAME
    if folder.absolute() in _unwritten:
        return _unwritten[folder.absolute()]
    try:
        with open_regular_file(file) as opened:
            raw = opened.read(MAX_BYTES + 1)
        if len(raw) > MAX_BYTES:
            return Record(trouble=_set_aside(file, f"it has more than {MAX_BYTES >> 20} MB"))
        content = json.loads(raw.decode())
    except FileNotFoundError:
        return Record()
    except (OSError, ValueError, RecursionError) as error:
        return Record(trouble=_set_aside(file, _failure_reason(error)))
    record, strange = _record_from_json(content)
    if strange:
        record.trouble = _set_aside(file, strange, copy=_record_to_json(record))
    return record


def _failure_reason(error: Exception) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"line {error.lineno} is not JSON"
    if isinstance(error, RecursionError):
        return "its lists and objects are nested too deeply"
    return (error.strerror or "").lower() if isinstance(error, OSError) else "it is not text in UTF-8"


def _record_from_json(content: Any) -> tuple[Record, str]:
    """The parts of a file's content that can be understood, and in words what is wrong with it; empty if nothing is."""
    record = Record()
    if not isinstance(content, dict):
        return record, "it is not a JSON object"
    statuses = {status.value for status in Status}
    parts = {"exercises": dict, "hints": dict, "solutions": list, "predictions": dict, "way": str}
    strange = [name for name in content if name not in parts]
    exercises, hints, solutions, predictions, way = (content.get(name, kind()) for name, kind in parts.items())
    if isinstance(exercises, dict):
        record.exercises = {
            key: status for key, status in exercises.items() if isinstance(status, str) and status in statuses
        }
    if isinstance(hints, dict):
        record.hints = {key: count for key, count in hints.items() if type(count) is int and count >= 0}
    if isinstance(solutions, list):
        record.solutions = [key for key in solutions if isinstance(key, str)]
    if isinstance(predictions, dict):
        record.predictions = {key: right for key, right in predictions.items() if isinstance(right, bool)}
    record.way = way if way in WAYS else ""
    strange += [name for name, kind in parts.items() if content.get(name, kind()) != getattr(record, name)]
    return record, f"its part {strange[0]!r} cannot be understood" if strange else ""


def _set_aside(file: Path, why: str, copy: str = "") -> str:
    """Rename a broken file, write `copy`, the part that was understood, in its place, and say so in one sentence."""
    number = 1
    while os.path.lexists(backup := file.with_name(f"{file.stem}.broken-{number}.json")):
        number += 1
    try:
        os.replace(file, backup)
        if copy:
            write_atomically(file, copy)
    except OSError:
        return f"{file} cannot be read ({why}), and could not be set aside. Move it away."
    rest = "What could be understood was kept." if copy else "A new one was started."
    return f"{file} could not be read ({why}). It is now {backup.name}; nothing in it was lost. {rest}"


@contextlib.contextmanager
def _folder_lock(folder: Path) -> Iterator[None]:
    """Hold a lock, so that no other process reads or writes the record of this folder meanwhile.

    The folder itself is locked. The library filelock, which also works on Windows, would leave a file of its own there,
    and takes 70 ms to import.
    """
    if fcntl is None:
        yield
        return
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError:  # no such folder: there is nothing to lock
        yield
        return
    try:
        with contextlib.suppress(OSError):  # some network drives do not support locks
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
