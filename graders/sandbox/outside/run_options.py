"""The options for running notebooks: limits, isolation, and what is kept."""

from __future__ import annotations

from dataclasses import dataclass, field

from graders.sandbox.outside.tiers import TIERS
from graders.wire.limits import Limits


@dataclass(frozen=True)
class RunOptions:
    """Options for all notebooks of a batch. They can be sent to another machine.

    `isolation` is a tier, or "auto" for the best that works here. The user's `own_work` needs neither isolation nor a
    control; `allow_unisolated` says that other people's work may run without isolation. With `keep_outputs` the outputs
    of cells are kept with the run. `private` are files and folders that no notebook may read, such as what was handed
    in, the results and the roster.
    """

    limits: Limits = field(default_factory=Limits)
    isolation: str = "auto"
    own_work: bool = False
    allow_unisolated: bool = False
    keep_outputs: bool = False
    private: tuple[str, ...] = ()

    @property
    def accepted_tiers(self) -> tuple[str, ...]:
        """The tiers whose cached runs may be used."""
        if self.isolation != "auto":
            return (self.isolation,)
        return TIERS if self.own_work or self.allow_unisolated else TIERS[:-1]
