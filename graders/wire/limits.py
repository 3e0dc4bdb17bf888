"""What one submission may use: asked for outside, set inside."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace

MIB = 1 << 20
STACK_MEMORY = 256 * MIB
"""Address space for the stacks of threads, 8 MiB each: it is reserved at once and hardly ever filled."""
PROBE_MEMORY = 256 * MIB
"""What a probe may use beyond the memory that the cells left it: a cell that filled it costs no exercise."""
PROBE_PROCESSES = 16
"""Likewise, processes and threads that a probe may start beyond those of the notebook."""
FILES_SLACK = 16 * MIB
"""What Jupyter and matplotlib may write beyond the files of the notebook."""
PRINTED_CHARACTERS = 2000
"""Characters of what an answer prints that are kept of each probe."""
NOTEBOOK_FOLDERS = ("work", "home", "tmp")
"""Those in the folder of a box into which the notebook writes."""


@dataclass(frozen=True)
class Limits:
    """What one submission may use. Seconds are wall-clock, sizes are bytes.

    `notebook_seconds` are for all of it: its cells, those that run again because one took the kernel with it, starting
    that kernel, and the probes of its exercises. An endless exercise gets no more of them than `probe_seconds`, and
    than its equal share of what is left, so that it costs no other.

    `memory` is what it may add to what its kernel holds before the first cell. That depends on the build of torch: the
    address space of one with CUDA is six times that of one without.
    """

    cell_seconds: float = 60.0
    notebook_seconds: float = 300.0
    probe_seconds: float = 10.0
    memory: int = 2048 * MIB
    files: int = 64 * MIB
    inodes: int = 4000
    processes: int = 64
    descriptors: int = 128
    output: int = 8 * MIB
    pace: float = 1.0
    """By how much the seconds were stretched for a slow machine. Messages leave it out, and so repeat exactly."""
    spent: float = 0.0
    """Seconds of the notebook that a try before this one took."""

    @property
    def notebook_allowed(self) -> float:
        """The seconds that a notebook has for all of it, as messages name them."""
        return round((self.notebook_seconds + self.spent) / self.pace, 3)

    @property
    def memory_together(self) -> int:
        """What all processes of a box may add to what they hold before the first cell, in any tier.

        The notebook's and a probe's until their own fuse stops them, and as much again for our own process, small files
        in memory, and pages of the warm process that are copied when they are written to.
        """
        return self.memory + STACK_MEMORY + 2 * PROBE_MEMORY

    def at_pace(self, factor: float) -> Limits:
        """The same limits with `factor` times the seconds."""
        return replace(
            self,
            cell_seconds=self.cell_seconds * factor,
            notebook_seconds=self.notebook_seconds * factor,
            probe_seconds=self.probe_seconds * factor,
            spent=self.spent * factor,
            pace=self.pace * factor,
        )

    def with_time_spent(self, seconds: float) -> Limits:
        """The same limits with what is left of the notebook's time when so many seconds of it are gone."""
        left = max(1.0, self.notebook_seconds - seconds)
        return replace(self, notebook_seconds=left, spent=self.spent + self.notebook_seconds - left)

    def to_json(self) -> str:
        """As text, to be handed to a child process."""
        return json.dumps(asdict(self))

    @staticmethod
    def from_json(text: str) -> Limits:
        """The limits that `to_json` wrote."""
        return Limits(**json.loads(text))
