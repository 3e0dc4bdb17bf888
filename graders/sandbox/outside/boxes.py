"""The boxes of this process: the modules that exist in them, and the warm process that forks them.

This module does not import torch, so that the warm process can do so on another core while this one goes on.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from graders.sandbox.outside.box_modules import empty_modules_folder, write_box_modules, write_font_list, write_modules
from graders.sandbox.outside.run_options import RunOptions
from graders.sandbox.outside.warm_process import WarmProcess
from graders.submissions.intake import Unreadable, read_bytes
from graders.wire.launch import late_modules

if TYPE_CHECKING:  # it imports torch
    from graders.sandbox.outside.runner import BoxRunner


class Boxes:
    """The modules of boxes and the warm process. Neither is set up before something has to run."""

    def __init__(self, warm: WarmProcess) -> None:
        """Boxes are forked from `warm` if its boxes pass the self-test, and otherwise started with its modules."""
        self.warm = warm
        self._runners: dict[RunOptions, BoxRunner] = {}

    def runner(self, run_options: RunOptions) -> BoxRunner:
        """A runner with these options, in a tier that was tested from inside, once. Raises `NoIsolation`."""
        from graders.sandbox.outside.tier_choice import choose_runner

        if run_options not in self._runners:
            self._runners[run_options] = choose_runner(run_options, write_box_modules(self.warm.box_modules), self.warm)
        return self._runners[run_options]


@contextlib.contextmanager
def prestarted_boxes(*, now: bool, files: Iterable[Path] = ()) -> Iterator[Boxes]:
    """Boxes for these notebooks. Their modules are removed afterwards.

    With `now` the warm process starts at once and imports torch on another core, and then what else `files` seem to
    need. Otherwise nothing is started or written yet.
    """
    modules = late_modules(_text_of(file) for file in files) if now else ()
    with empty_modules_folder() as box_modules, WarmProcess(box_modules, modules=modules) as warm:
        if os.path.lexists("matplotlibrc"):  # it may be somebody else's, a pipe, or no text
            _import_matplotlib_in(box_modules)
        if now:
            write_modules(box_modules)
            warm.start()
            write_font_list(box_modules)  # done long before the warm process reads it
        yield Boxes(warm)


def _text_of(file: Path) -> str:
    """The text of a notebook's file; empty if it cannot be read, which is reported later."""
    try:
        return read_bytes(file).decode("utf-8", "replace")
    except Unreadable:
        return ""


def _import_matplotlib_in(folder: Path) -> None:
    """Import matplotlib, which takes its settings from the first place where it finds them: the current folder."""
    here = os.getcwd()
    os.chdir(folder)
    try:
        import matplotlib  # noqa: F401 - it is imported for later
    finally:
        os.chdir(here)
