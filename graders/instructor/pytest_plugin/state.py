"""The keys of pytest's stash under which the modules of this plugin share the batch that is being marked."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from graders.core.results import SubmissionResult
from graders.marking.cache import RunCache
from graders.sandbox.outside.boxes import Boxes
from graders.sandbox.outside.run_options import RunOptions
from graders.submissions.finding import FoundSubmissions, Submission

if TYPE_CHECKING:  # it imports torch, which the first step must not
    from graders.marking.batch import Marking


@dataclass(frozen=True)
class Prepared:
    """What the first step found and prepared: the submissions, where they run, and with which options.

    `scratch` is a private folder for what is unpacked. `cache` holds the runs kept in `--out`, or is None without that.
    """

    found: FoundSubmissions
    scratch: Path
    boxes: Boxes
    run_options: RunOptions
    cache: RunCache | None

    @property
    def submissions(self) -> list[Submission]:
        """The submissions that were found."""
        return self.found.submissions


PREPARED = pytest.StashKey[Prepared]()
MARKING: pytest.StashKey[Marking] = pytest.StashKey()
FROM_WORKERS = pytest.StashKey[list[SubmissionResult]]()
"""The results that workers of pytest-xdist have sent."""
