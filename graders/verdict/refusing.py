"""Finds the program that shows why an answer was refused.

It is about the first promise that does not hold, in the plainest cases in which it fails, and of these programs the
shortest. What the answer showed comes out of the box; nothing that a learner wrote runs here.
"""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from graders.core.difference import Difference
from graders.core.exercise import Inputs
from graders.core.shown import MISSING, describe_pair, describe_type
from graders.core.text import shorten_text
from graders.core.transcript import Outcome
from graders.probing.asking import Answer
from graders.probing.known_state import known_state, seed_torch
from graders.scenes.scene import EXAMPLE, STOPPED, Scene
from graders.verdict.comparison import Comparison, Differences
from graders.verdict.contract import Step
from graders.verdict.implementations import reference_sections
from graders.verdict.program_lines import Untold
from graders.verdict.telling import Program, Until, observations_of, tell
from graders.wire import forking
from graders.wire.data import Array, Changes, Refused, decode, encode
from graders.wire.frames import Frame

CASES = 3
"""Of so many cases the program is told, the plainest ones in which the promise fails."""
WIDTH = 100
"""A comment stands in its line up to this many characters, otherwise below it."""
NUMBERS = 12
"""The most entries of a tensor that a comment shows."""
EVENTS = 6
"""The most entries of a list of events that a comment shows whole."""
SECONDS = 20.0


@dataclass(frozen=True)
class Refusal:
    """A program for the learner, the promise and the case that it is about, and what its last line shows.

    `expected` is what it prints with the reference, and `seen` what the answer showed. Either is `MISSING` where there
    is nothing to print. `error` is how it ends with the answer instead.
    """

    promise: str
    observation: str
    program: str
    expected: Any = MISSING
    seen: Any = MISSING
    error: str = ""
    case: int = 0


@dataclass(frozen=True)
class _Wanted:
    """What has to be told."""

    promise: str
    draw: Inputs
    story: int
    until: Until
    seen: Any = MISSING
    note: str = ""
    error: str = ""
    case: int = 0


def find_refusal(
    comparison: Comparison, example: Sequence[Step], draws: Sequence[Inputs], outcomes: Sequence[Outcome]
) -> Refusal | None:
    """The program that shows what is wrong with an answer; None if there is none, or if the answer is right."""
    scene = comparison.stage.scene
    ended = next((index for index, outcome in enumerate(outcomes) if outcome.seen is None), None)
    if ended is not None:
        return _shortest(comparison, list(_of_exception(scene, draws[ended], outcomes[ended])))
    for promise in comparison.sections:
        pairs = enumerate(zip(draws, outcomes))
        failing = [case for case, pair in pairs if _differences(comparison, *pair, promise)]
        if failing and promise == EXAMPLE:
            return _of_example(comparison, example, draws[failing[0]], outcomes[failing[0]])
        if failing:
            plainest = sorted(failing, key=lambda case: _oddity(scene, draws[case]))[:CASES]
            found = [
                (case, _of_difference(comparison, scene, draws[case], outcomes[case], promise)) for case in plainest
            ]
            return _shortest(comparison, [dataclasses.replace(one, case=case) for case, one in found if one])
    return None


def _differences(comparison: Comparison, draw: Inputs, outcome: Outcome, promise: str) -> Differences:
    assert outcome.seen is not None
    return comparison.differences(outcome.seen, draw, promise)


def _oddity(scene: Scene, draw: Inputs) -> int:
    """How many circumstances of a case are not the plainest."""
    return sum(draw["case"][axis] != values[0] for axis, values in scene.axes.items())


def _of_exception(scene: Scene, draw: Inputs, outcome: Outcome) -> Iterator[_Wanted]:
    if outcome.stopped_at is not None and outcome.stopped_at[0] < len(scene.stories):
        number, line = outcome.stopped_at
        error = ": ".join(filter(None, (outcome.error, outcome.message)))
        plain = {axis: scene.axes[axis][0] for axis in outcome.plainest if axis in scene.axes}
        plainer = {**draw, "case": {**draw["case"], **plain}}
        plainer = draw if scene.is_impossible(plainer["case"]) else plainer
        yield _Wanted(scene.stories[number][0], plainer, number, Until(line=line), error=error)


def _of_difference(
    comparison: Comparison, scene: Scene, draw: Inputs, outcome: Outcome, promise: str
) -> _Wanted | None:
    """What to tell of a case in which a promise does not hold: the first observation that differs."""
    assert outcome.seen is not None
    differences, seen = _differences(comparison, draw, outcome, promise), outcome.seen[promise]
    wanted = reference_sections(comparison.outcome(None, 0, draw), comparison.key)[promise]
    for number, (of, story) in enumerate(scene.stories):
        if of != promise:
            continue
        for name in observations_of(story):
            start = f"{promise}: {name}"
            whole = (start, f"{start}[", f"{start}: ")  # the value itself, a part of it, or what a watch says of it
            at = next((at for at in differences if at == start or at.startswith(whole[1:])), None)
            if at is not None and name in wanted and name in seen.keys:
                path, why = at.removeprefix(start), differences[at]
                return _wanted_value(promise, draw, number, name, seen[name].value, wanted[name], path, why)
        stop = seen[STOPPED]
        if stop["story"].value == number and type(line := stop["line"].value) is int:
            return _Wanted(promise, draw, number, Until(line=line), error=str(stop["error"].value))
    return None


def _wanted_value(
    promise: str, draw: Inputs, story: int, name: str, seen: Any, wanted: Any, path: str, why: Callable[[], Difference]
) -> _Wanted:
    """`path` leads from the observation to the part that differs, as in "['a'][0]"."""
    if not isinstance(wanted, Changes):
        entry: tuple[Any, ...] = ()
        for key in () if _short_texts(wanted, seen) else _keys(path):
            wanted, seen, entry = wanted[key], seen[key], (*entry, key)
        if place := _worst_entry(wanted, seen):
            wanted, seen, entry = _at(wanted, place), _at(seen, place), (*entry, place)
        return _Wanted(promise, draw, story, Until(name, entry=entry), seen, _values_in_words(wanted, seen, why))
    more = [change for change in seen.found if change not in wanted.found] if isinstance(seen, Changes) else []
    return _Wanted(promise, draw, story, Until(name, more[0] if more else None), note=why().note)


def _worst_entry(wanted: Any, seen: Any) -> tuple[int, ...]:
    """The index at which two large tensors differ most; () for others, and where all of a tensor is in question."""
    if not (isinstance(wanted, Array) and isinstance(seen, Array)) or wanted.tensor.numel() <= NUMBERS:
        return ()
    one, other = wanted.tensor, seen.tensor
    alike = [(value.kind, value.requires_grad, value.tensor.dtype, value.tensor.shape) for value in (wanted, seen)]
    if alike[0] != alike[1]:
        return ()
    apart = (one.double() - other.double()).abs()
    apart[one == other] = 0.0  # inf - inf would be NaN
    place = int(apart.nan_to_num(math.inf).argmax())
    return tuple(int(index) for index in np.unravel_index(place, one.shape))


def _keys(path: str) -> list[Any]:
    """The keys and indexes of a path; none if it has others than texts and numbers."""
    if not re.fullmatch(r"(\[('[^'\\]*'|\d+)\])*", path):
        return []
    return [ast.literal_eval(key) for key in re.findall(r"\[(.*?)\]", path)]


def _at(value: Array, entry: tuple[int, ...]) -> Any:
    """An entry, of a numpy array as a number."""
    part = value.tensor[entry]
    return part.item() if value.kind == "array" else dataclasses.replace(value, tensor=part)


def _of_example(comparison: Comparison, example: Sequence[Step], draw: Inputs, outcome: Outcome) -> Refusal:
    """The example of the contract, which is a program already."""
    path, describe = next(iter(_differences(comparison, draw, outcome, EXAMPLE).items()))
    code, lines, why = path.partition(": ")[2], list[str](), describe()
    for step in example:
        if step.shows and code.startswith(step.code.strip()):
            expected = " ".join(step.shows.split())
            said = f"expected {expected}; yours: {why.seen}" if why.seen else f"expected {expected}: {why.note}"
            lines += _with_comment([f"print({_without_comment(step.code.strip())})"], said)
            break
        if not step.shows:
            lines += step.code.strip().splitlines()
    return Refusal(EXAMPLE, code, "\n".join(lines) + "\n")


def _without_comment(code: str) -> str:
    """The code of an expression, without a comment behind it."""
    return ast.get_source_segment(code, ast.parse(code).body[0]) or code


def _shortest(comparison: Comparison, wanted: Sequence[_Wanted]) -> Refusal | None:
    """The shortest of the programs that can be told."""
    found = []
    for one, program in zip(wanted, tell_in_child(comparison, [(one.draw, one.story, one.until) for one in wanted])):
        if program is None:
            continue
        lines = list(program.lines)
        if one.error:
            said = f"expected no exception; yours: {shorten_text(one.error, 160)}"
        elif one.until.change or not one.note.startswith("expected"):
            shown = "" if program.expected is MISSING else f"expected {_in_words(program.expected)}; "
            said = f"{shown}yours: {one.note}"
        else:
            said = one.note
        text = "\n".join(_with_comment(lines, said)) + "\n"
        found.append(Refusal(one.promise, one.until.name, text, program.expected, one.seen, one.error, one.case))
    return min(found, key=lambda one: (one.program.count("\n"), len(one.program)), default=None)


def _with_comment(lines: list[str], said: str) -> list[str]:
    """The lines with a comment on the last; below it if there is no room."""
    said = " ".join(said.split())
    last = f"{lines[-1]}  # {said}"
    if len(last) <= WIDTH and not lines[-1].startswith(" "):
        return [*lines[:-1], last]
    return [*lines, *(f"# {part}" for part in said.replace("; yours:", ";\nyours:").splitlines())]


def _values_in_words(wanted: Any, seen: Any, why: Callable[[], Difference]) -> str:
    """What was expected and what was seen, as Python prints it; where that looks the same, what the difference is."""
    are_events = type(wanted) is type(seen) is list and all(type(part) is str for part in (*wanted, *seen))
    # Of many events, those around the first that differs: the rest is for the learner to find.
    if not (are_events and max(len(wanted), len(seen)) > EVENTS) and (texts := _short_texts(wanted, seen)):
        return f"expected {texts[0]}; yours: {texts[1]}"
    if are_events:
        return f"expected {_timeline(wanted, seen)}; yours: {_timeline(seen, wanted)}"
    found = why()
    if found.seen or found.expected:
        at = f" at {found.entry}" if found.entry else ""
        return f"expected {found.expected}{at}; yours: {found.seen}"
    return found.note or "something else"


def _short_texts(wanted: Any, seen: Any) -> tuple[str, str] | None:
    """Both as Python prints them, in as many digits as tell them apart; None if that takes too much room."""
    pairs = ((_in_words(wanted, digits), _in_words(seen, digits)) for digits in (4, 6, 9, 12))
    return next((texts for texts in pairs if texts[0] != texts[1] and max(map(len, texts)) < 200), None)


def _timeline(events: list[str], other: list[str]) -> str:
    """A few entries of a list, with a mark where it begins to differ from the other."""
    at = next(
        (index for index, pair in enumerate(zip(events, other)) if pair[0] != pair[1]), min(len(events), len(other))
    )
    near = [
        *map(repr, events[max(at - 2, 0) : at]),
        ">>",
        *(map(repr, events[at : at + 3]) if events[at:] else ["(end)"]),
    ]
    return f"[{'…, ' * (at > 2)}{', '.join(near)}{', …' * (at + 3 < len(events))}]".replace(">>, ", ">> ")


def _in_words(value: Any, digits: int = 4) -> str:
    """A value much as Python prints it, in one line."""
    tensor = value.tensor if isinstance(value, Array) else value
    if hasattr(tensor, "dtype") and hasattr(tensor, "tolist") and hasattr(tensor, "numel"):
        if tensor.numel() > NUMBERS:
            return describe_pair(value, MISSING)[0]
        graph = ", requires_grad=True" if getattr(value, "requires_grad", False) else ""
        dtype = "" if str(tensor.dtype) in ("torch.float32", "torch.int64", "torch.bool") else f", dtype={tensor.dtype}"
        return f"tensor({_rounded(tensor.tolist(), digits)}{dtype}{graph})"
    if type(value) in (list, tuple):
        inner = ", ".join(_in_words(part, digits) for part in value[:8]) + (", …" if len(value) > 8 else "")
        return f"[{inner}]" if type(value) is list else f"({inner}{',' * (len(value) == 1)})"
    if type(value) is dict:
        return "{" + ", ".join(f"{key!r}: {_in_words(part, digits)}" for key, part in list(value.items())[:8]) + "}"
    if type(value) in (bool, int, str, float, type(None)):
        return str(_rounded(value, digits)) if type(value) is not str else repr(value)
    return f"a {value.type}" if isinstance(value, Refused) else describe_type(value)


def _rounded(value: Any, digits: int) -> Any:
    if isinstance(value, list):
        return [_rounded(part, digits) for part in value]
    return float(f"{value:.{digits}g}") + 0.0 if type(value) is float else value


def tell_in_child(comparison: Comparison, wanted: Sequence[tuple[Inputs, int, Until]]) -> list[Program | None]:
    """The program of each story with the reference, told in a child of this process where it can be forked.

    The entries name a draw, the number of the story, and where the program ends. None stands for what cannot be told.
    """
    if not wanted:
        return []
    if not forking.can_fork:
        return _decoded(_tell_all(comparison, wanted))
    from graders.probing.forked import ForkedProbes  # it needs os.fork

    children = ForkedProbes(lambda request: _tell_all(comparison, wanted))
    try:
        return _decoded(children.answer(comparison.key, Frame({"type": "tell"}, b""), SECONDS)) or [None] * len(wanted)
    finally:
        children.end()


def _tell_all(comparison: Comparison, wanted: Sequence[tuple[Inputs, int, Until]]) -> Answer:
    scene: Any = comparison.stage.scene
    found: list[Any] = []
    for draw, number, until in wanted:
        _, story = scene.stories[number]
        reference = comparison.stage.programs[0].fresh_copy().function
        with known_state(draw["seed"]):
            seed_torch(draw["seed"])
            program = None
            with contextlib.suppress(Untold):
                program = tell(
                    story, comparison.stage.name, reference, scene.arguments(story, draw["seed"], draw["case"]), until
                )
        if program is not None:
            known, expected = program.expected is not MISSING, program.expected
            expected = expected.item() if isinstance(expected, np.generic) else expected  # an entry of a numpy array
            found.append([list(program.lines), known, expected if known else None])
        else:
            found.append(None)
    tree, body = encode(found)
    return Answer({"type": "seen", "tree": tree}, body)


def _decoded(answer: Answer) -> list[Program | None]:
    if answer.head["type"] != "seen":
        return []
    found = decode(answer.head["tree"], answer.body)
    return [one and Program(tuple(one[0]), one[2] if one[1] else MISSING) for one in found]
