"""What the author of a grader imports, besides scenes and torch."""

from __future__ import annotations

from graders.verdict.freedoms import a_hook_for_all, no_graph_for_zeros
from graders.verdict.planting import Planted
from graders.verdict.scene_exercise import exercise
from graders.verdict.ways import wrong_ways
from graders.wire.draws import Rng
