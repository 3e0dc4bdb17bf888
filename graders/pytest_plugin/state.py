"""Where the modules of this room find the batch that is being marked: keys of pytest's stash."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from graders.core.results import SubmissionResult
from graders.run.boxes import Boxes
from graders.run.cache import RunCache
from graders.run.run_options import RunOptions
from graders.run.submissions import FoundSubmissions, Submission

if TYPE_CHECKING:  # it brings torch along, and the first step comes before that
    from graders.marking.batch import Marking


@dataclass(frozen=True)
class Prepared:
    """What there is to mark, a private folder for what is unpacked, where notebooks run and how.

    `cache` holds the runs in `--out`.
    """

    found: FoundSubmissions
    scratch: Path
    boxes: Boxes
    run_options: RunOptions
    cache: RunCache | None

    @property
    def submissions(self) -> list[Submission]:
        """The submissions alone."""
        return self.found.submissions


PREPARED = pytest.StashKey[Prepared]()
MARKING: pytest.StashKey[Marking] = pytest.StashKey()
FROM_WORKERS = pytest.StashKey[list[SubmissionResult]]()
"""What workers of pytest-xdist have marked."""
