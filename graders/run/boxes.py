"""The boxes of this process: the modules that exist in them, and the warm process that forks them.

This module does not import torch, so that the warm process can do so on another core while this one goes on.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from graders.run.box_modules import empty_modules_folder, write_box_modules, write_font_list, write_modules
from graders.run.run_options import RunOptions
from graders.run.warm_process import WarmProcess

if TYPE_CHECKING:  # it imports torch
    from graders.run.runner import BoxRunner


class Boxes:
    """The modules of boxes and the warm process. Neither is set up before something has to run."""

    def __init__(self, warm: WarmProcess) -> None:
        """Boxes are forked from `warm` if its boxes pass the self-test, and otherwise started with its modules."""
        self.warm = warm
        self._runners: dict[RunOptions, BoxRunner] = {}

    def runner(self, run_options: RunOptions) -> BoxRunner:
        """A runner with these options, in a tier that was tested from inside, once. Raises `NoIsolation`."""
        from graders.run.tier_choice import choose_runner

        if run_options not in self._runners:
            self._runners[run_options] = choose_runner(run_options, write_box_modules(self.warm.box_modules), self.warm)
        return self._runners[run_options]


@contextlib.contextmanager
def prestarted_boxes(*, now: bool, files: Iterable[Path] = ()) -> Iterator[Boxes]:
    """Boxes for these notebooks. Their modules are removed afterwards.

    With `now` the warm process starts at once and imports torch on another core, and what optimizers need as well if
    one of `files` seems to use one. Otherwise nothing is started or written yet.
    """
    optimizes = now and any(_names_optimizer(file) for file in files)
    with empty_modules_folder() as box_modules, WarmProcess(box_modules, optimizes=optimizes) as warm:
        if now:
            write_modules(box_modules)
            warm.start()
            write_font_list(box_modules)  # done long before the warm process reads it
        yield Boxes(warm)


def _names_optimizer(file: Path) -> bool:
    """Whether a notebook seems to use an optimizer. A file that cannot be read is reported later."""
    try:
        return b"optim" in file.read_bytes()
    except OSError:
        return False
