"""Stories: short functions that do what a caller of the learner's function would do, and yield what shows.

    def scaled(call, draw, case, arguments):
        '''The gradient of a pass is scaled.'''
        w = draw.tensor().requires_grad_()
        call(w, *arguments(draw, case))
        (3 * w).sum().backward()
        yield "w.grad", w.grad

    stories(promises={"the gradient is scaled": scaled}, axes={"dtype": ("float32", "float64")}, arguments=a_number)

A story runs twice from the same seed: in the box with the learner's function as `call`, and outside with the reference.
What it yields is compared, and each promise is a check. When something differs, the lines of the same story are printed
as a program that a learner can run: `graders.verdict.telling` says what a story may contain for that.
"""

from __future__ import annotations

import builtins
import inspect
import linecache
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace, TracebackType
from typing import Any

import torch

from graders.probing.asking import NotAttempted, ask, describe_exception, note_place
from graders.probing.known_state import seed_torch
from graders.scenes.instruments.witness import Witness
from graders.scenes.results import copy_value
from graders.scenes.scene import EXAMPLE, Call, Scene, Sections, Value, run_example
from graders.wire.data import Changes
from graders.wire.draws import Rng

Seen = Iterator[tuple[str, Any]]
"""What a story yields: the name of each observation, and its value."""
Story = Callable[..., Seen]
Stories = Story | Sequence[Story]
Promises = Mapping[str, Stories]
"""In the words of the learner what must hold, and the stories that show it. The first is the task itself."""
Change = Callable[[torch.Tensor], torch.Tensor]
STOPPED = "the line of the caller that failed"
"""The observation in place of those that are missing because a line of the story itself raised an exception."""
ELSEWHERE = 100_000
"""Is added to the number of a line that is not in the file of its story, but in that of a helper."""
ADDRESS = re.compile(r"<[^<>]* at 0x[0-9a-f]+>|\b\d{9,}\b")
"""What differs from run to run in the message of an exception: an object that has no text of its own, or an `id`."""
OURS = ("graders.scenes.", "graders.probing.", "torch")
"""The modules whose code is in the way of every exception."""


class Watch(Witness):
    """Watches things of the caller, under the names that they have in the story: `Watch(w=w, model=model)`."""

    def differences(self, *but: str) -> Changes:
        """What has changed by now, except for kinds that begin with one of `but`, such as "grad"."""
        return Changes(tuple((kind, place) for kind, place in self.changes() if not kind.startswith(but or ("-",))))


class Draw:
    """Draws what a story needs. Its numbers are short, so that a printed program can be read."""

    def __init__(self, seed: int, case: Any, to: Change | None = None) -> None:
        """Two with equal arguments draw equal values. `to` is applied to each float32 tensor."""
        self._rng, self._case, self._to = Rng("story", seed), case, to
        self._shape: tuple[int, ...] | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of all tensors of this story, with `case.rank` dimensions.

        Their sizes are all different, or with `case.sizes == "equal"` all equal.
        """
        if self._shape is None:
            rank = self._case.rank
            if getattr(self._case, "sizes", "different") == "equal":
                self._shape = (3, 3)[:rank] if rank < 3 else (2,) * rank
            else:
                self._shape = tuple(self._rng.shuffled((2, 3, 1)[: max(2, rank)])[:rank])
        return self._shape

    @property
    def is_double(self) -> bool:
        """Whether the tensors of this story are float64, so that its models have to be, too."""
        return self._case.dtype == "float64" or self._to is not None

    def tensor(self, *shape: int, low: float = -3.0, high: float = 3.0) -> torch.Tensor:
        """A tensor of the shape of this story, or of `shape`, in the dtype of the case."""
        shape = shape or self.shape
        numbers = [self.number(low, high) for _ in range(torch.Size(shape).numel())]
        t = torch.tensor(numbers, dtype=torch.float64).reshape(shape).to(getattr(torch, self._case.dtype)).clone()
        return t if self._to is None or t.dtype != torch.float32 else self._to(t)

    def number(self, low: float, high: float, away: float = 0.25) -> float:
        """A number with one decimal that float32 cannot hold, and that is not closer to 0 than `away`."""
        while True:
            tenths = self._rng.integer(round(low * 10), round(high * 10))
            if tenths % 5 and abs(tenths) >= away * 10:
                return tenths / 10

    def choice(self, options: Sequence[Any]) -> Any:
        """One of these."""
        return self._rng.choice(options)

    def error(self, kind: str) -> BaseException:
        """An exception of a built-in kind, such as "KeyError"."""
        error: BaseException = getattr(builtins, kind)("on purpose")
        return error

    def shuffled(self, items: Sequence[Any]) -> list[Any]:
        """The same items in a random order."""
        return self._rng.shuffled(items)


def told(helper: Callable[..., Any]) -> Callable[..., Any]:
    """Mark a helper of stories whose lines are printed in place of its call, as if they stood in the story."""
    helper.is_told = True  # type: ignore[attr-defined]
    return helper


@dataclass(frozen=True, eq=False)
class StoryScene(Scene):
    """The stories of an exercise."""

    begins_plainly = True

    @property
    def stories(self) -> tuple[tuple[str, Story], ...]:
        """Each story with its promise, in order."""
        promises: Promises = self.options["promises"]
        return tuple((promise, story) for promise, some in promises.items() for story in _as_sequence(some))

    def shown(
        self,
        call: Call,
        name: str,
        seed: int,
        case: Mapping[str, Any],
        example: Sequence[Sequence[Any]] = (),
        to: Change | None = None,
    ) -> Sections:
        """What shows, by promise. See `Scene.shown`. An exception of `call` passes, and knows the line of the story."""
        parts: dict[int, dict[str, Any]] = {}
        raised: dict[int, Exception] = {}
        count = len(self.stories)
        for number in (count - 1, *range(count - 1)):
            # The last one is first: it asks the most of what an answer leaves, and what goes wrong in the first call
            # of all must not stay without consequences.
            seed_torch(seed)
            torch.set_grad_enabled(True)
            torch.set_default_dtype(torch.float32)  # the dtypes of a story are those of its case
            story, parts[number] = self.stories[number][1], {}
            try:
                for what, value in story(call, **self.arguments(story, seed, case, to)):
                    parts[number][what] = copy_value(value)
            except (NotAttempted, MemoryError):
                raise
            except Exception as caught:
                # A story is a generator: Python turns a StopIteration of the answer into a RuntimeError there.
                error = caught.__cause__ if isinstance(caught.__cause__, StopIteration) else caught
                line = _line_of_story(error.__traceback__, story)
                if _came_from_elsewhere(error):
                    note_place(error, number, line)
                    raised[number] = error
                text = ADDRESS.sub("…", ": ".join(describe_exception(error)))[:200]
                parts[number][STOPPED] = {"story": number, "line": line, "error": text}
        first = min((number for number in parts if STOPPED in parts[number]), default=-1)
        if first in raised:  # otherwise a line of a story failed before: that is what is shown
            raise raised[first]
        seen: Sections = {promise: {} for promise in self.sections}
        for number, (promise, _) in enumerate(self.stories):
            seen[promise] = {**parts[number], **seen[promise]}  # the first line that failed is the one that counts
        if example:
            seed_torch(seed)
            seen[EXAMPLE] = run_example(call, name, example)
        return seen

    def arguments(self, story: Story, seed: int, case: Mapping[str, Any], to: Change | None = None) -> dict[str, Any]:
        """The arguments of a story besides `call`: of `draw`, `case` and what the exercise gives, those it names."""
        circumstances = SimpleNamespace(**case)
        have = {"draw": Draw(seed, circumstances, to), "case": circumstances, **self.options["given"]}
        return {name: have[name] for name in _arguments_of(story)}


def stories(
    *,
    promises: Promises | Sequence[Story],
    axes: Mapping[str, Sequence[Value]],
    impossible: Sequence[Callable[..., bool]] = (),
    pairs: Sequence[tuple[str, str]] = (),
    **given: Any,
) -> Scene:
    """The scene of an exercise that consists of stories.

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
    chosen = {axis: tuple(values) for axis, values in axes.items()}
    return StoryScene(
        family=stories,  # type: ignore[arg-type]
        names={promise: promise for promise in promises},
        axes=chosen,
        impossible=impossible,
        pairs=pairs,
        options={"promises": promises, "given": given},
        given={"promises": promises, "axes": chosen, **given},
    )


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


def line_of_story(scene: Scene, number: Any, line: Any) -> str:
    """The text of a line of the file of a story; "" if there is none. Both numbers may be anything."""
    if not isinstance(scene, StoryScene) or type(number) is not int or type(line) is not int:
        return ""
    if not 0 <= number < len(scene.stories) or not 0 < line < ELSEWHERE:
        return ""
    return linecache.getline(inspect.getsourcefile(scene.stories[number][1]) or "", line).strip()


def _line_of_story(trace: TracebackType | None, story: Story) -> int:
    """The line of a story, or of a helper that it called, at which an exception came out."""
    line = 0
    while trace is not None:
        code, home = trace.tb_frame.f_code, str(trace.tb_frame.f_globals.get("__name__"))
        is_helper = home.startswith("graders.scenes.") and not code.co_flags & inspect.CO_NESTED
        if code is story.__code__ or (line and is_helper):
            line = trace.tb_lineno + (0 if home == story.__module__ else ELSEWHERE)
        elif line:
            break
        trace = trace.tb_next
    return line
