"""Runs the program that shows why an answer was refused, with the learner's function as it is now, in this process.

It runs in a namespace of its own and in a known state, and the learner's names are the same afterwards.
"""

from __future__ import annotations

import bdb
import linecache
import pdb
import re
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import CodeType, FrameType
from typing import Any

import torch
from torch import nn

from graders.core.expect import Seen
from graders.probing.known_state import known_state
from graders.scenes.results import copy_value
from graders.verdict.comparing import find_differences
from graders.verdict.scene_exercise import find_scene_exercise
from graders.wire.data import DataError, Refused, decode, encode

_VARYING = re.compile(r"\bat 0x[0-9a-f]+|grad_fn=<\w+>")
"""What a printed value says that differs between two right answers."""


class NoInput(Exception):
    """Raised when the front end of a notebook has nowhere to type."""


@dataclass(frozen=True)
class Replayed:
    """How a program ended.

    `expected` is what it prints with a right answer, and `as_expected` whether that is what it printed. `error` is the
    exception that ended it, with the lines that led to it; empty if there was none. `stopped` is true if the learner
    ended it in the debugger.
    """

    expected: str = ""
    as_expected: bool = False
    error: str = ""
    stopped: bool = False


def replay_program(program: str, key: str, namespace: dict[str, Any], *, stop: bool = False) -> Replayed:
    """Run a program with the function in `namespace`, and then with a reference; what it prints is shown.

    With `stop`, a debugger stops where the learner's function and their hooks begin. Raises `SyntaxError` if the
    program is none, `KeyError` if the learner's function is not defined, `NoInput` if a debugger cannot ask what to do,
    and `KeyboardInterrupt`.
    """
    exercise, file = find_scene_exercise(key), f"<replay {key}>"
    code = compile(program, file, "exec")
    linecache.cache[file] = (len(program), None, program.splitlines(keepends=True), file)
    seen, wanted = list[Any](), list[Any]()
    error = ""
    with _unchanged(namespace):
        function = namespace[exercise.name]
        try:
            with known_state(0, quiet=False):
                names = _names_of_program(exercise.name, function, seen, print)
                (_run_with_stops(code, names, namespace) if stop else exec(code, names))
        except bdb.BdbQuit:
            return Replayed(stopped=True)
        except KeyboardInterrupt:
            raise
        except BaseException as raised:
            if stop and type(raised).__name__ == "StdinNotImplementedError":  # of IPython
                raise NoInput from None
            error = _lines_of_error(raised, file)
    reference = exercise.comparison.stage.programs[0].fresh_copy().function
    with known_state(0):
        exec(code, _names_of_program(exercise.name, reference, wanted))
    as_expected = not error and len(seen) == len(wanted) and all(map(_agrees, seen, wanted))
    return Replayed("\n".join(" ".join(map(str, values)) for values in wanted), as_expected, error)


def _names_of_program(name: str, function: Any, shown: list[Any], show: Callable[..., None] | None = None) -> Any:
    """The names that a program may use. The values of each `print` are added to `shown`, and printed with `show`."""

    def print_value(*values: Any) -> None:
        shown.append(tuple(map(copy_value, values)))
        if show is not None:
            show(*values)

    return {"__name__": "__main__", "torch": torch, "nn": nn, name: function, "print": print_value}


@contextmanager
def _unchanged(namespace: dict[str, Any]) -> Iterator[None]:
    """Give all names back the values that they had, whatever a function or a debugger did to them."""
    before = dict(namespace)
    try:
        yield
    finally:
        for name in set(namespace) - set(before):
            del namespace[name]
        namespace.update(before)


def _agrees(seen: Any, wanted: Any) -> bool:
    """Whether two lines are the same: data within the tolerance of a check, anything else by its text."""
    try:
        observed, expected = (decode(*encode(value)) for value in (seen, wanted))
        if _is_data(expected):
            return not any(find_differences(Seen(observed), expected))
    except DataError:
        pass
    return _VARYING.sub("", str(seen)) == _VARYING.sub("", str(wanted))


def _is_data(value: Any) -> bool:
    if isinstance(value, dict):
        return all(map(_is_data, value.values()))
    return all(map(_is_data, value)) if isinstance(value, list | tuple) else not isinstance(value, Refused)


def _lines_of_error(error: BaseException, file: str) -> str:
    """An exception as Python shows it, from the program's line on and without the lines of torch."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename != file:
        trace = trace.tb_next
    found = traceback.TracebackException(type(error), error, trace)
    modules = [str(frame.f_globals.get("__name__")) for frame, _ in traceback.walk_tb(trace)]
    theirs = [line for line, module in zip(found.stack, modules) if module.partition(".")[0] != "torch"]
    found.stack = traceback.StackSummary.from_list(theirs)
    return "".join(found.format(chain=False)).rstrip()


class _StopsInLearnersCode(pdb.Pdb):
    """A debugger that stops where a function of the learner begins, each the first time that it is called.

    It follows the learner's functions and the program; of all else, only where the learner sets a breakpoint. In a
    notebook, `pdb.Pdb` is IPython's debugger, which asks at a prompt below the cell.
    """

    def __init__(self, namespace: dict[str, Any], file: str) -> None:
        super().__init__(nosigint=True)
        self._namespace, self._file, self._met = namespace, file, set[CodeType]()

    def dispatch_call(self, frame: FrameType, arg: Any) -> Any:
        """Return what follows the lines of a frame that was entered; None for frames that are not followed."""
        code = frame.f_code
        if frame.f_globals is self._namespace and code not in self._met:
            self._met.add(code)
            if code.co_name == "<lambda>" or not code.co_name.startswith("<"):  # no comprehension
                self.set_step()
        followed = frame.f_globals is self._namespace or code.co_filename == self._file
        return self.trace_dispatch if followed or self.break_anywhere(frame) else None

    def set_continue(self) -> None:
        """Go on to the next function of the learner. Without breakpoints, pdb itself would follow nothing any more."""
        if self.botframe is not None:
            self.set_until(self.botframe, 1)


def _run_with_stops(code: CodeType, names: dict[str, Any], namespace: dict[str, Any]) -> None:
    debugger, before = _StopsInLearnersCode(namespace, code.co_filename), sys.gettrace()
    debugger.reset()
    debugger.botframe = sys._getframe()
    debugger.set_continue()
    sys.settrace(debugger.trace_dispatch)
    try:
        exec(code, names)
    finally:
        sys.settrace(before)
