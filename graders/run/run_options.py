"""How notebooks are run: limits, isolation, what is kept."""

from __future__ import annotations

from dataclasses import dataclass, field

from graders.run.tiers import TIERS
from graders.wire.limits import Limits


@dataclass(frozen=True)
class RunOptions:
    """Limits and isolation, the same for all notebooks of a batch. They can be sent to another machine.

    `isolation` is a tier, or "auto" for the best that holds. Somebody's `own_work` needs none and has no control marked
    along; for that of others it has to be allowed (`allow_unisolated`). With `keep_outputs` what cells show is drawn
    and kept with the run. `private` are the files and folders that no notebook may read, wherever they lie: what was
    handed in, the results, the roster.
    """

    limits: Limits = field(default_factory=Limits)
    isolation: str = "auto"
    own_work: bool = False
    allow_unisolated: bool = False
    keep_outputs: bool = False
    private: tuple[str, ...] = ()

    @property
    def accepted_tiers(self) -> tuple[str, ...]:
        """The tiers whose cached runs will do."""
        if self.isolation != "auto":
            return (self.isolation,)
        return TIERS if self.own_work or self.allow_unisolated else TIERS[:-1]
