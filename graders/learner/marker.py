"""Marking one's own notebooks: each in a box, as a course would, one at a time."""

from __future__ import annotations

from pathlib import Path

from graders.core.draws import new_seed
from graders.core.results import SubmissionResult, SubmissionStatus
from graders.marking.batch import Marking
from graders.notebook import record
from graders.notebook.record import Record
from graders.run.kit import make_kit
from graders.run.selftest import Choice, choose_tier
from graders.run.submissions import OWN, Submission
from graders.run.warm import WarmProcess
from graders.wire.limits import Limits


class Marker:
    """Marks notebooks and writes down what passed; `marker()` makes one."""

    def __init__(self, kit: Path, choice: Choice, limits: Limits) -> None:
        """A kit and a tier serve for many notebooks."""
        self.kit, self.choice, self.limits = kit, choice, limits

    def mark(self, lesson: str, file: Path, seed: int | None = None) -> tuple[SubmissionResult, int, Record]:
        """The result of a notebook, the seed that was used, and the learner's record, which now knows of it.

        It runs in this thread: Ctrl-C ends the box at once.
        """
        seed = new_seed() if seed is None else seed
        marking = Marking(seed, self.limits, 1, self.kit, tier=self.choice.tier, warm=self.choice.warm)
        result = marking.mark(Submission(OWN, lesson, file))
        with record.editing(file.parent) as kept:
            if result.status is SubmissionStatus.GRADED:
                for one in result.exercises:
                    kept.note(one.key, one.status)
        return result, seed, kept


def marker(warm: WarmProcess, isolation: str = "auto", limits: Limits | None = None) -> Marker:
    """A marker in the best tier that holds here; for one's own work, any will do. Raises `NoIsolation`."""
    kit, limits = make_kit(warm.kit), limits or Limits()
    return Marker(kit, choose_tier(isolation, kit, limits, own_work=True, allow_unisolated=False, warm=warm), limits)
