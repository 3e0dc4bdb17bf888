"""Results as other programs read them. Each format is a function from a batch to files: path and text."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from graders.core.results import Batch
from graders.core.roster import Roster
from graders.report.exports import canvas, gradescope, junit, moodle
from graders.report.titles import Titles

Export = Callable[[Batch, Titles, "Roster | None"], Mapping[str, str]]

EXPORTS: dict[str, Export] = {
    "canvas": canvas.files,
    "gradescope": gradescope.files,
    "junit": junit.files,
    "moodle": moodle.files,
}
