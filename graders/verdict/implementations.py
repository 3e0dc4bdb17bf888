"""Runs references and wrong programs in a scene, in place of the learner's function.

All of them are ours, but like learners' functions they may change the state of torch. So they run in a child of this
process where it can be forked, and otherwise in a known state, which is restored afterwards.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import FunctionType
from typing import Any

import torch
from torch import Tensor

from graders.core.errors import ExerciseDefect
from graders.core.exercise import Inputs
from graders.core.expect import Seen
from graders.core.transcript import Outcome, raised_outcome
from graders.probing.asking import Answer, answer_probe
from graders.scenes.scene import EXAMPLE, STOPPED, Scene
from graders.verdict.conditioning import disturb_last_digits
from graders.wire import forking
from graders.wire.data import Array, arrays_to_tensors, decode, encode
from graders.wire.frames import Frame

SECONDS = 20.0
"""The seconds that one of our own programs may take for one draw."""
EXACT, DISTURBED = "exact", "disturbed"
"""Two other ways to run a draw: in float64, and in float64 with changed last digits (see `conditioning`)."""


@dataclass(frozen=True)
class Implementation:
    """A function in place of the learner's. A wrong one has a mistake's id, and a message that says what is wrong."""

    id: str
    function: Callable[..., Any]
    message: str = ""

    def fresh_copy(self) -> Implementation:
        """A copy with fresh defaults, so that it keeps nothing from earlier calls in a mutable default."""
        old = self.function
        if not isinstance(old, FunctionType):
            return self
        defaults = copy.deepcopy(old.__defaults__)
        return replace(
            self, function=FunctionType(old.__code__, old.__globals__, old.__name__, defaults, old.__closure__)
        )


@dataclass(frozen=True)
class Stage:
    """A scene with the implementations that may play the learner's part in it."""

    key: str
    name: str
    """The name of the function that the learner defines."""
    scene: Scene
    programs: Sequence[Implementation]

    @contextlib.contextmanager
    def open(self) -> Iterator[Play]:
        """Yields a `Play`, which is valid in the block."""
        stage = replace(self, programs=[program.fresh_copy() for program in self.programs])
        if not forking.can_fork:
            yield lambda program_index, draw, **options: _outcome_from(
                stage._run_request(_play_request(program_index, draw, **options))
            )
            return
        from graders.probing.forked import ForkedProbes  # it needs os.fork

        children = ForkedProbes(stage._run_request)
        try:
            yield lambda program_index, draw, **options: _outcome_from(
                children.answer(self.key, _play_request(program_index, draw, **options), SECONDS)
            )
        finally:
            children.end()

    def _run_request(self, request: Frame) -> Answer:
        """Run the scene as a request of `_play_request` asks, in the child if there is one."""
        draw = arrays_to_tensors(decode(request.head["draw"], request.body))
        program, way, only = self.programs[request.head["program"]], request.head["way"], draw["only"]
        example = draw["example"] if EXAMPLE in only or not only else []
        case, to = draw["case"], None
        if way:
            case = {axis: "float64" if value == "float32" else value for axis, value in case.items()}
            to = torch.Tensor.double if way == EXACT else disturb_last_digits

        def probe(student: Any) -> Any:
            if way:
                torch.set_default_dtype(torch.float64)  # known_state restores it
            call = getattr(student, self.name)
            return self.scene.shown(call, self.name, draw["seed"], case, example, to, only)

        return answer_probe(probe, {self.name: program.function}, {}, 0)


Play = Callable[..., Outcome]
"""`play(program_index, draw, way="", only=())`: the outcome of a draw with that program, an index into
`Stage.programs`. If there are sections in `only`, the others are left out.
"""


def _play_request(program_index: int, draw: Inputs, way: str = "", only: Sequence[str] = ()) -> Frame:
    tree, body = encode({**draw, "only": list(only)})
    return Frame({"type": "play", "program": program_index, "draw": tree, "way": way}, body)


def _outcome_from(found: Answer) -> Outcome:
    if found.head["type"] != "seen":
        return raised_outcome(found.head)
    return Outcome(seen=Seen(decode(found.head["tree"], found.body)))


class ReferenceFailed(ExerciseDefect):
    """Raised when the reference of an exercise raises or takes too long."""


def reference_sections(outcome: Outcome, key: str) -> Mapping[str, Any]:
    """The observations of a reference, by section. Raises `ReferenceFailed` when it did not run through."""
    if outcome.seen is None:
        raise ReferenceFailed(f"the reference of {key} ended with {outcome.error or outcome.status}: {outcome.message}")
    value: Mapping[str, Any] = outcome.seen.value
    for section, shown in value.items():
        if STOPPED in shown:
            raise ReferenceFailed(f"with the reference of {key}, {section!r} ends early: {shown[STOPPED]}")
    return value


def tensors_and_floats(value: Any) -> Iterator[Tensor]:
    """All tensors and floats in what was seen, in order. A float becomes a float32 tensor without dimensions."""
    if isinstance(value, Array):
        yield value.tensor
    elif type(value) is float:
        yield torch.tensor(value)
    elif isinstance(value, Mapping):
        for part in value.values():
            yield from tensors_and_floats(part)
    elif isinstance(value, list | tuple):
        for part in value:
            yield from tensors_and_floats(part)
