"""What the author of a grader imports, besides scenes and torch."""

from __future__ import annotations

from graders.differential.exercise import exercise
from graders.differential.freedoms import a_hook_for_all, no_graph_for_zeros
from graders.differential.planting import Planted
from graders.differential.ways import wrong_ways
from graders.wire.draws import Rng
