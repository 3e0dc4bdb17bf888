"""Starts a Python of our own that imports nothing from the current folder, where files of strangers may lie.

`python -m` looks for every module in the current folder first: a `types.py` that somebody handed in would run.
"""

from __future__ import annotations

import sys


def isolated_command(program: str, *arguments: str) -> list[str]:
    """The command that runs `program`, the text of one in Python, in a process that finds the modules that we find.

    The current folder is searched only if its path is among our own places.
    """
    first = f"import sys; sys.path[:] = {[place for place in sys.path if place]!r}"
    return [sys.executable, "-I", *(["-B"] if sys.dont_write_bytecode else []), "-c", f"{first}\n{program}", *arguments]


def module_command(module: str, *arguments: str) -> list[str]:
    """The command that does what `python -m` does with this module and these arguments, and is isolated."""
    program = f"import runpy; runpy.run_module({module!r}, run_name='__main__', alter_sys=True)"
    return isolated_command(program, *arguments)
