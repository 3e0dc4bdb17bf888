"""What the modules of this room know of the batch in common."""

from __future__ import annotations

import pytest

from graders.core.results import SubmissionResult
from graders.marking.batch import Marking

MARKING = pytest.StashKey[Marking]()
FROM_WORKERS = pytest.StashKey[list[SubmissionResult]]()
"""What workers of pytest-xdist have marked."""
