"""The boxes of this process: the kit that they are made of, and the warm process that forks them.

It imports no torch, so that the warm process can import it on another core while this one goes on.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from graders.run.kit import empty_kit_folder, make_kit, write_font_list, write_modules
from graders.run.terms import Terms
from graders.run.warm import WarmProcess

if TYPE_CHECKING:  # they bring torch along
    from graders.run.runner import BoxRunner


class Boxes:
    """A kit, and the process that forks boxes with it. Both are made when something has to run, and not before."""

    def __init__(self, warm: WarmProcess) -> None:
        """Boxes are forked from `warm` where that holds, and otherwise started with its kit."""
        self.warm = warm
        self._runners: dict[Terms, BoxRunner] = {}

    def runner(self, terms: Terms) -> BoxRunner:
        """What runs notebooks on these terms, in a tier that was tested from inside once. Raises `NoIsolation`."""
        from graders.run.selftest import choose_runner

        if terms not in self._runners:
            self._runners[terms] = choose_runner(terms, make_kit(self.warm.kit), self.warm)
        return self._runners[terms]


@contextlib.contextmanager
def head_start(*, now: bool, files: Iterable[Path] = ()) -> Iterator[Boxes]:
    """Boxes with a kit of their own for notebooks such as these `files`. It is removed afterwards.

    With `now` the warm process starts, and imports torch on another core meanwhile. Otherwise the kit is a folder yet
    to be filled.
    """
    optimizes = now and any(_optimizes(file) for file in files)
    with empty_kit_folder() as kit, WarmProcess(kit, optimizes=optimizes) as warm:
        if now:
            write_modules(kit)
            warm.begin()
            write_font_list(kit)  # long before the process asks for fonts
        yield Boxes(warm)


def _optimizes(file: Path) -> bool:
    """Whether a notebook seems to make an optimizer. One that cannot be read is spoken of later."""
    try:
        return b"optim" in file.read_bytes()
    except OSError:
        return False
