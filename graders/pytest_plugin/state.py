"""Where the modules of this room find the batch that is being marked: keys of pytest's stash."""

from __future__ import annotations

import pytest

from graders.core.results import SubmissionResult
from graders.marking.batch import Marking

MARKING = pytest.StashKey[Marking]()
FROM_WORKERS = pytest.StashKey[list[SubmissionResult]]()
"""What workers of pytest-xdist have marked."""
