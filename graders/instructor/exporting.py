"""Writes the files for other programs, after all of them have been made and checked."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from graders.core.file_notes import FileNotes
from graders.core.files import write_atomically
from graders.core.results import Batch
from graders.instructor.request import Request
from graders.report.exports import EXPORTS
from graders.report.exports.exported import ExportRequest, ExportResult
from graders.report.titles import Titles


@dataclass
class Exports:
    """What was written, and what the instructor should know: `refused` has a sentence for each file not written."""

    written: list[Path] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)


def write_exports(
    request: Request, batch: Batch, titles: Titles, lessons: Iterable[str], file_notes: FileNotes
) -> Exports:
    """Write the files that were asked for. `lessons` are the stems of those that were marked just now.

    What cannot be made or written is noted in `file_notes`, and the rest is written.
    """
    wanted = ExportRequest(
        batch, titles, request.roster, request.scale, frozenset(lessons), below=request.comments_below
    )
    made: list[ExportResult] = []
    for name in request.exports:
        with file_notes.noting_failure(f"The export for {name}"):
            made.append(EXPORTS[name](wanted))
    done = Exports()
    for exported in made:
        done.notes += exported.notes
        for path, why in exported.refused.items():
            old = " The file there is from an earlier command." if (request.out / path).exists() else ""
            done.refused.append(f"{path} is not written, as it would give one person two rows: {why}.{old}")
    for exported in made:
        for path, content in exported.files.items():
            with file_notes.noting_failure(request.out / path):
                write_atomically(request.out / path, content, below=request.out)
            top = request.out / path.partition("/")[0]
            done.written += [top] if top not in done.written else []
    return done
