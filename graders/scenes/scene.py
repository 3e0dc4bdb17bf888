"""The scene of an exercise: its stories, run one after another.

It runs twice from the same seed: in the box with the learner's function as `call`, and outside with the reference.
What the stories yield is compared, and each promise is a check. The scene never knows what is right.
"""

from __future__ import annotations

import inspect
import linecache
import re
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace, TracebackType
from typing import Any

import torch

from graders.probing.asking import NotAttempted, ask, describe_exception, note_place
from graders.probing.known_state import seed_torch
from graders.scenes.results import copy_value
from graders.scenes.story import Call, Change, Draw, Story, Value
from graders.wire.data import encode

Stories = Story | Sequence[Story]
Promises = Mapping[str, Stories]
"""In the words of the learner what must hold, and the stories that show it. The first is the task itself."""
Sections = dict[str, dict[str, Any]]
"""What shows, by promise: each observation with its value."""
Ran = tuple[dict[str, Any], Exception | None]
"""What a story yielded, and the learner's exception that ended it, if any."""
EXAMPLE = "the example of the contract comes out"
"""The section for the example in the contract. It runs once, along with the first case."""
NOT_THE_SAME_AGAIN = "the first story shows something else once more"
"""A section that is there when something outlives the calls of a function. It decides no verdict, only what is said."""
STOPPED = "the line of the caller that failed"
"""The observation in place of those that are missing because a line of the story itself raised an exception."""
ELSEWHERE = 100_000
"""Is added to the number of a line that is not in the file of its story, but in that of a helper."""
ADDRESS = re.compile(r"<[^<>]* at 0x[0-9a-f]+>|\b\d{9,}\b")
"""What differs from run to run in the message of an exception: an object that has no text of its own, or an `id`."""
OURS = ("graders.scenes.", "graders.probing.", "torch")
"""The modules whose code is in the way of every exception."""


@dataclass(frozen=True, eq=False)
class Scene:
    """The stories of an exercise, and the circumstances in which they run."""

    promises: Promises
    axes: Mapping[str, tuple[Value, ...]]
    """The values of each circumstance, by its name; the first is the plainest. Every marking covers every value.

    Of the exceptions on the axis "failure", a `KeyboardInterrupt` comes at each of the places on the axis "raised_in".
    """
    pairs: Sequence[tuple[str, str]] = ()
    """Pairs of axes whose values all occur together, each combination in some case."""
    impossible: Sequence[Callable[..., bool]] = ()
    """Functions that return True for impossible combinations; their parameters have the names of axes."""
    given: Mapping[str, Any] = field(default_factory=dict)
    """Further arguments of the stories, by name: plain values, and functions of scene files."""

    @property
    def stories(self) -> tuple[tuple[str, Story], ...]:
        """Each story with its promise, in order."""
        return tuple((promise, story) for promise, some in self.promises.items() for story in _as_sequence(some))

    def shown(
        self,
        call: Call,
        name: str,
        seed: int,
        case: Mapping[str, Any],
        example: Sequence[Sequence[Any]] = (),
        to: Change | None = None,
        only: Collection[str] = (),
    ) -> Sections:
        """What shows, by promise, when the function `call`, which learners know as `name`, is used in a case.

        `seed` determines all inputs. `example` holds pairs of a line of code and whether its value shows. `to` is
        applied to each float32 tensor that is drawn. If there are promises in `only`, the stories of others are left
        out. An exception of `call` passes. It knows the line of the story, and which circumstances it does without.
        """
        parts: dict[int, dict[str, Any]] = {}
        raised: dict[int, Exception] = {}

        def run(number: int, case: Mapping[str, Any] = case) -> Ran:
            return self._run_story(number, call, seed, case, to)

        numbers = [number for number, (promise, _) in enumerate(self.stories) if promise in only or not only]
        for number in (*numbers[-1:], *numbers[:-1]):
            # The last one is first: it asks the most of what an answer leaves, and what goes wrong in the first call
            # of all must not stay without consequences.
            parts[number], error = run(number)
            if error:
                raised[number] = error
        first = min((number for number in parts if STOPPED in parts[number]), default=-1)
        if first in raised:  # otherwise a line of a story failed before: that is what is shown
            raise self._in_plainest_case(raised[first], parts[first][STOPPED], case, run)
        seen: Sections = {promise: {} for promise in self.promises if promise in only or not only}
        for number in numbers:
            promise = self.stories[number][0]
            # What shows first is told, so they keep the order of the stories; of lines that failed, the first counts.
            seen[promise] |= {what: shown for what, shown in parts[number].items() if what not in seen[promise]}
        if example:
            seed_torch(seed)
            seen[EXAMPLE] = _run_example(call, name, example)
            # At the end, when what an answer keeps has piled up: a list that was still empty at first shows, too. (If
            # only the example is asked for, no story has run before.)
            if 0 in parts and encode(run(0)[0]) != encode(parts[0]):
                seen[NOT_THE_SAME_AGAIN] = {}
        return seen

    def _run_story(self, number: int, call: Call, seed: int, case: Mapping[str, Any], to: Change | None) -> Ran:
        """What a story yields, and the exception that did not come from a line of its own, if it ended with one."""
        seed_torch(seed)
        torch.set_grad_enabled(True)
        torch.set_default_dtype(torch.float32)  # the dtypes of a story are those of its case
        story, part = self.stories[number][1], dict[str, Any]()
        try:
            for what, value in story(call, **self.arguments(story, seed, case, to)):
                part[what] = copy_value(value)
        except (NotAttempted, MemoryError):
            raise
        except Exception as caught:
            # A story is a generator: Python turns a StopIteration of the answer into a RuntimeError there.
            error = caught.__cause__ if isinstance(caught.__cause__, StopIteration) else caught
            _name_as_in_the_program(error)
            text = ADDRESS.sub("…", ": ".join(describe_exception(error)))[:200]
            line, from_line = _lines_of_story(error.__traceback__, story)
            part[STOPPED] = {"story": number, "line": line, "from_line": from_line, "error": text}
            return part, error if _came_from_elsewhere(error) else None
        return part, None

    def _in_plainest_case(
        self, error: Exception, stopped: Mapping[str, Any], case: Mapping[str, Any], run: Callable[..., Ran]
    ) -> Exception:
        """The exception in the plainest case in which it comes; circumstances are made plain one after the other."""
        number, line, from_line = (stopped[what] for what in ("story", "line", "from_line"))
        plainest: dict[str, Value] = {}
        for axis, values in self.axes.items():
            if case[axis] != values[0]:
                part, again = run(number, {**case, **plainest, axis: values[0]})
                if type(again) is type(error) and part[STOPPED]["line"] == line:
                    plainest[axis] = values[0]
        # Once more, so that the call in its message is the last one that was made.
        if again := run(number, {**case, **plainest})[1]:
            note_place(again, number, line, from_line, list(plainest))
            return again
        note_place(error, number, line, from_line, [])
        return error

    def arguments(self, story: Story, seed: int, case: Mapping[str, Any], to: Change | None = None) -> dict[str, Any]:
        """The arguments of a story besides `call`: of `draw`, `case` and what the exercise gives, those it names."""
        circumstances = SimpleNamespace(**case)
        have = {"draw": Draw(seed, circumstances, to), "case": circumstances, **self.given}
        return {name: have[name] for name in _arguments_of(story)}

    def is_impossible(self, case: Mapping[str, Any]) -> bool:
        """Whether a rule forbids this combination of circumstances."""
        rules = [(list(inspect.signature(rule).parameters), rule) for rule in self.impossible]
        return any(rule(*(case[axis] for axis in axes)) for axes, rule in rules if set(axes) <= case.keys())

    def line_of_story(self, number: Any, line: Any) -> str:
        """The text of a line of the file of a story; "" if there is none. Both numbers may be anything."""
        if type(number) is not int or type(line) is not int:
            return ""
        if not 0 <= number < len(self.stories) or not 0 < line < ELSEWHERE:
            return ""
        return linecache.getline(inspect.getsourcefile(self.stories[number][1]) or "", line).strip()


def stories(
    *,
    promises: Promises | Sequence[Story],
    axes: Mapping[str, Sequence[Value]],
    impossible: Sequence[Callable[..., bool]] = (),
    pairs: Sequence[tuple[str, str]] = (),
    **given: Any,
) -> Scene:
    """The scene of an exercise.

    `promises` maps what must hold, in the words of the learner, to a story or several; of stories in a list, the
    docstrings say it. The first promise is the task itself. The first value of each axis is the plainest. `impossible`
    and `pairs` are as in a `Scene`, and `given` holds further arguments of the stories, by name. Raises `TypeError` if
    no story has such an argument.
    """
    if not isinstance(promises, Mapping):
        promises = {_promise_of(story): story for story in promises}
    known = {name for some in promises.values() for story in _as_sequence(some) for name in _arguments_of(story)}
    if strange := sorted(given.keys() - known):
        raise TypeError(f"no story has an argument {' or '.join(strange)}")
    return Scene(promises, {axis: tuple(values) for axis, values in axes.items()}, pairs, impossible, given)


def _arguments_of(story: Story) -> list[str]:
    """The names of a story's arguments besides `call`."""
    return list(inspect.signature(story).parameters)[1:]


def _promise_of(story: Story) -> str:
    """The docstring of a story as a promise: "The gradient is scaled." is "the gradient is scaled"."""
    text = " ".join((story.__doc__ or story.__name__.replace("_", " ")).split()).rstrip(".")
    return text[:1].lower() + text[1:]


def _as_sequence(some: Stories) -> Sequence[Story]:
    return some if isinstance(some, list | tuple) else (some,)


def _came_from_elsewhere(error: BaseException) -> bool:
    """Whether an exception came out of the learner's function or went through code of others, such as a hook.

    Then it is the learner's, and not that of a story's line. A function in C, or one with other parameters, leaves no
    trace of its own: its call does.
    """
    trace = error.__traceback__
    while trace is not None:
        frame = trace.tb_frame
        if frame.f_code is ask.__code__ or not str(frame.f_globals.get("__name__")).startswith(OURS):
            return True
        trace = trace.tb_next
    return False


def _name_as_in_the_program(error: Exception) -> None:
    """Have Python say `Net.forward()` in a message, and not `a_model.<locals>.Net.forward()` for a story's class."""
    if type(error) is TypeError and len(error.args) == 1 and type(error.args[0]) is str:
        modules = [module for name, module in sys.modules.items() if name.startswith("graders.scenes.stories.")]
        ours = {name for module in modules for name in vars(module)}
        error.args = (re.sub(r"\b(\w+)\.<locals>\.", lambda found: found[0] * (found[1] not in ours), error.args[0]),)


def _lines_of_story(trace: TracebackType | None, story: Story) -> tuple[int, int]:
    """The line of a story, or of a helper that it called, at which an exception came out, and the story's own."""
    line = own = 0
    while trace is not None:
        code, home = trace.tb_frame.f_code, str(trace.tb_frame.f_globals.get("__name__"))
        is_helper = home.startswith("graders.scenes.") and not code.co_flags & inspect.CO_NESTED
        if code is story.__code__ or (line and is_helper):
            line = trace.tb_lineno + (0 if home == story.__module__ else ELSEWHERE)
            own = own or line
        elif line:
            break
        trace = trace.tb_next
    return line, own


def _run_example(call: Call, name: str, lines: Sequence[Sequence[Any]]) -> dict[str, Any]:
    """What the lines of an example show, by their code. The code is ours and calls the learner's function.

    If a line raises, this and all later ones show the error. A function that always raises has done so in a story
    already, so this is a failure in the example alone.
    """
    space: dict[str, Any] = {"torch": torch, "nn": torch.nn, "F": torch.nn.functional, name: call}
    seen: dict[str, Any] = {}
    for index, (code, shows) in enumerate(lines):
        try:
            value = (eval if shows else exec)(code, space)
        except Exception as error:
            return {**seen, **{code: f"{type(error).__name__}: {error}" for code, shows in lines[index:] if shows}}
        if shows:
            seen[code] = value.detach().clone() if isinstance(value, torch.Tensor) else value
    return seen
