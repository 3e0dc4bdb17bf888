"""Reads the results of an earlier command in the same folder, and the seeds that it used."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable
from pathlib import Path

from graders.core.file_notes import FileNotes
from graders.core.files import MAX_OWN_BYTES, read_own_file
from graders.core.results import Batch, SubmissionStatus
from graders.instructor.hand_marks import without_hand_marks
from graders.instructor.request import BadRequest
from graders.marking.cache import RunCache
from graders.marking.questions import SeedsByFile
from graders.report import results_json


class _UnusableResults(Exception):
    """Raised for a results.json that is not ours; the message says what is wrong with it."""


def load_results(out: Path) -> Batch | None:
    """The results in `out`, as they were computed; None if there are none. Raises `BadRequest` if it cannot be read."""
    try:
        return _read_results(out)
    except _UnusableResults as error:
        raise BadRequest(f"{out / 'results.json'} {error}. Choose another --out, or move it away.") from None


def _read_results(out: Path) -> Batch | None:
    file = out / "results.json"
    if not os.path.lexists(file):
        return None
    try:
        return without_hand_marks(results_json.parse(read_own_file(file)))
    except OSError as error:
        large = error.errno == errno.EFBIG
        why = f"has more than {MAX_OWN_BYTES >> 20} MiB" if large else "is not a file that only you can write"
        raise _UnusableResults(why) from None
    except ValueError:
        raise _UnusableResults("holds no results of this version") from None


def seeds_by_file(before: Batch | None) -> SeedsByFile:
    """The seed with which each graded file was marked, by student, lesson and SHA-256."""
    if before is None:
        return {}
    return {
        (one.student, one.lesson, one.sha256): before.seed if one.seed is None else one.seed
        for one in before.submissions
        if one.sha256 and one.status is SubmissionStatus.GRADED
    }


def choose_seeds(
    out: Path, cache: RunCache, new_seed: Callable[[], int], *, given: int | None, fresh: bool
) -> tuple[int, SeedsByFile]:
    """The seed for files that are new, and the seeds of those that were marked before.

    A `given` seed holds for all files. A `fresh` batch does not reuse earlier seeds.
    """
    if given is not None:
        return given, {}
    before = None
    with contextlib.suppress(_UnusableResults):  # then no earlier seed is reused
        before = _read_results(out)
    used = seeds_by_file(before)
    return cache.batch_seed(
        new_seed(), spent={*used.values(), *([before.seed] if before else [])}
    ), {} if fresh else used


def earlier_results(out: Path, file_notes: FileNotes) -> Batch | None:
    """The results in `out/results.json`, None if there are none.

    A file that cannot be read is set aside, and `file_notes` says under which name. Its marks are in no new file, so
    that counts as a failure. Raises `OSError` when it cannot be set aside.
    """
    try:
        return _read_results(out)
    except _UnusableResults as error:
        aside = _set_aside(out / "results.json").name
        file_notes.note(f"{out / 'results.json'} {error}: it is kept as {aside}. Marks in it are not in the new files.")
        file_notes.failed = True
        return None


def _set_aside(file: Path) -> Path:
    """Give a file a second, unused name, and return it. The first stays as well until a new file replaces it."""
    number = 1
    while os.path.lexists(aside := file.with_name(f"{file.stem}.set-aside-{number}{file.suffix}")):
        number += 1
    try:
        os.link(file, aside, follow_symlinks=False)
    except (OSError, NotImplementedError):  # it is a folder, or the drive has no links
        os.replace(file, aside)
    return aside
