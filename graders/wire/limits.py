"""What one submission may use: chosen outside the box, enforced inside."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace

MIB = 1 << 20
STACK_MEMORY = 256 * MIB
"""Bytes of address space for the stacks of threads, 8 MiB each: reserved at once and hardly ever filled."""
PROBE_MEMORY = 256 * MIB
"""Bytes that a probe may add when the cells have used up the memory: that alone must not cost an exercise."""
PROBE_PROCESSES = 16
"""Processes and threads that a probe may start beyond those of the notebook, for the same reason."""
FILES_SLACK = 16 * MIB
"""Bytes that Jupyter and matplotlib may write beyond the files of the notebook."""
PRINTED_CHARACTERS = 2000
"""Characters that are kept of what an answer prints, for each probe."""
NOTEBOOK_FOLDERS = ("work", "home", "tmp")
"""The folders, in the folder of a box, that the notebook writes to."""


@dataclass(frozen=True)
class Limits:
    """What one submission may use. Seconds are wall-clock time, sizes are in bytes.

    `notebook_seconds` cover everything: the cells, those that run again because one took the kernel with it, starting
    that kernel, and the probes. A probe gets at most `probe_seconds` of them, and an exercise its equal share of
    what is left, so that an endless one costs no other.

    `memory` is what the notebook may add to what its kernel holds before the first cell. That depends on the build of
    torch: with CUDA, its address space is six times as large. `inodes` is the number of files and folders.
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
    """By what factor the seconds were stretched for a slow machine. Messages leave it out, so they do not vary."""
    spent: float = 0.0
    """Seconds of the notebook's time that an earlier try used up."""

    @property
    def notebook_allowed(self) -> float:
        """The seconds that a notebook has for everything, as messages state them: with earlier tries, unstretched."""
        return round((self.notebook_seconds + self.spent) / self.pace, 3)

    @property
    def memory_together(self) -> int:
        """Bytes that all processes of a box together may add to what they hold before the first cell, in any tier.

        This is what the notebook and a probe can add before their own limits stop them, plus `PROBE_MEMORY` for our own
        process, small files in memory, and pages of the warm process that are copied when they are written to.
        """
        return self.memory + STACK_MEMORY + 2 * PROBE_MEMORY

    def at_pace(self, factor: float) -> Limits:
        """Return the same limits with all seconds multiplied by `factor`."""
        return replace(
            self,
            cell_seconds=self.cell_seconds * factor,
            notebook_seconds=self.notebook_seconds * factor,
            probe_seconds=self.probe_seconds * factor,
            spent=self.spent * factor,
            pace=self.pace * factor,
        )

    def with_time_spent(self, seconds: float) -> Limits:
        """Return the same limits after `seconds` of the notebook's time were used; at least one second is left."""
        left = max(1.0, self.notebook_seconds - seconds)
        return replace(self, notebook_seconds=left, spent=self.spent + self.notebook_seconds - left)

    def to_json(self) -> str:
        """Return the limits as text, to be passed to a child process."""
        return json.dumps(asdict(self))

    @staticmethod
    def from_json(text: str) -> Limits:
        """Return the limits that `to_json` wrote."""
        return Limits(**json.loads(text))
