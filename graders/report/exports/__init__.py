"""Export results in formats that other programs read. Each format is a function from a request to files."""

from __future__ import annotations

from collections.abc import Callable

from graders.report.exports import canvas, gradescope, moodle
from graders.report.exports.exported import ExportRequest, ExportResult

Export = Callable[[ExportRequest], ExportResult]

EXPORTS: dict[str, Export] = {"canvas": canvas.export, "gradescope": gradescope.export, "moodle": moodle.export}
