"""Finds the program that shows why an answer was refused.

It is about the first promise that does not hold, in the plainest cases in which it fails, and of these programs the
shortest. If the answer makes a known mistake, it is about the first promise whose program shows something wrong after
that mistake: what an earlier call has left in the box is not there in a new interpreter. What the answer showed comes
out of the box; nothing that a learner wrote runs here.
"""

from __future__ import annotations

import ast
import dataclasses
import math
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from graders.core.difference import Difference
from graders.core.exercise import Inputs
from graders.core.shown import MISSING
from graders.core.text import shorten_text
from graders.core.transcript import Outcome
from graders.scenes.scene import EXAMPLE, STOPPED, Scene
from graders.verdict.comparison import Comparison, Differences
from graders.verdict.contract import Step
from graders.verdict.implementations import reference_sections
from graders.verdict.printed import NUMBERS, are_long_timelines, printed, short_texts, where_they_part
from graders.verdict.telling import Until, observations_of
from graders.verdict.telling_in_child import ToldProgram, Wanted, tell_shortest
from graders.wire.data import Array, Changes

CASES = 3
"""Of so many cases the program is told, the plainest ones in which the promise fails."""
WIDTH = 100
"""A comment stands in its line up to this many characters, otherwise below it."""


@dataclass(frozen=True)
class Refusal:
    """A program for the learner, the promise and the case that it is about, and what its last line shows.

    `expected` is what it prints with the reference, and `seen` what the answer showed. Either is `MISSING` where there
    is nothing to print. `error` is how it ends with the answer instead. `shows_cause` says whether it is known to show
    something wrong even where no other call came before.
    """

    promise: str
    observation: str
    program: str
    expected: Any = MISSING
    seen: Any = MISSING
    error: str = ""
    case: int = 0
    shows_cause: bool = False


def find_refusal(
    comparison: Comparison,
    example: Sequence[Step],
    draws: Sequence[Inputs],
    outcomes: Sequence[Outcome],
    causes: Collection[str] = (),
) -> Refusal | None:
    """The program that shows what is wrong with an answer; None if there is none, or if the answer is right.

    `causes` are the ids of the mistakes that it makes, if they are known.
    """
    scene = comparison.stage.scene
    causes = {program.id for program in comparison.stage.programs}.intersection(causes)
    ended = next((index for index, outcome in enumerate(outcomes) if outcome.seen is None), None)
    if ended is not None:
        found = tell_shortest(comparison, list(_of_exception(scene, draws[ended], outcomes[ended])), ())
        return _refusal(found) if found else None
    first: Refusal | None = None
    for promise in comparison.sections:
        pairs = enumerate(zip(draws, outcomes))
        failing = [case for case, pair in pairs if _differences(comparison, *pair, promise)]
        if failing and promise == EXAMPLE:
            return first or _of_example(comparison, example, draws[failing[0]], outcomes[failing[0]])
        if failing:
            plainest = sorted(failing, key=lambda case: _oddity(scene, draws[case]))[:CASES]
            wanted = [
                (case, _of_difference(comparison, scene, draws[case], outcomes[case], promise)) for case in plainest
            ]
            told = [dataclasses.replace(one, case=case) for case, one in wanted if one]
            if found := tell_shortest(comparison, told, causes):
                if found.shows_cause or not causes:
                    return _refusal(found)
                first = first or _refusal(found)
    return first


def _differences(comparison: Comparison, draw: Inputs, outcome: Outcome, promise: str) -> Differences:
    assert outcome.seen is not None
    return comparison.differences(outcome.seen, draw, promise)


def _oddity(scene: Scene, draw: Inputs) -> int:
    """How many circumstances of a case are not the plainest."""
    return sum(draw["case"][axis] != values[0] for axis, values in scene.axes.items())


def _of_exception(scene: Scene, draw: Inputs, outcome: Outcome) -> Iterator[Wanted]:
    if outcome.stopped_at is not None and outcome.stopped_at[0] < len(scene.stories):
        number, line, from_line = outcome.stopped_at
        error = ": ".join(filter(None, (outcome.error, outcome.message)))
        plain = {axis: scene.axes[axis][0] for axis in outcome.plainest if axis in scene.axes}
        plainer = {**draw, "case": {**draw["case"], **plain}}
        plainer = draw if scene.is_impossible(plainer["case"]) else plainer
        yield Wanted(scene.stories[number][0], plainer, number, Until(line=line, from_line=from_line), error=error)


def _of_difference(comparison: Comparison, scene: Scene, draw: Inputs, outcome: Outcome, promise: str) -> Wanted | None:
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
        line, from_line = stop["line"].value, stop["from_line"].value
        if stop["story"].value == number and type(line) is type(from_line) is int:
            until = Until(line=line, from_line=from_line)
            return Wanted(promise, draw, number, until, error=str(stop["error"].value))
    return None


def _wanted_value(
    promise: str, draw: Inputs, story: int, name: str, seen: Any, wanted: Any, path: str, why: Callable[[], Difference]
) -> Wanted:
    """`path` leads from the observation to the part that differs, as in "['a'][0]"."""
    if not isinstance(wanted, Changes):
        entry: tuple[Any, ...] = ()
        for key in () if short_texts(wanted, seen) else _keys(path):
            wanted, seen, entry = wanted[key], seen[key], (*entry, key)
        if place := _worst_entry(wanted, seen):
            wanted, seen, entry = _at(wanted, place), _at(seen, place), (*entry, place)
        listed = _are_tensors_printed_alike(wanted, seen)
        if listed:
            wanted, seen = wanted.tensor.tolist(), seen.tensor.tolist()
        return Wanted(
            promise, draw, story, Until(name, entry=entry, listed=listed), seen, _values_in_words(wanted, seen, why)
        )
    more = [change for change in seen.found if change not in wanted.found] if isinstance(seen, Changes) else []
    return Wanted(promise, draw, story, Until(name, more[0] if more else None), note=why().note)


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


def _are_tensors_printed_alike(wanted: Any, seen: Any) -> bool:
    """Whether two tensors differ in digits alone that `print` leaves out."""
    are_tensors = (
        isinstance(wanted, Array) and isinstance(seen, Array) and (wanted.kind, seen.kind) == ("tensor", "tensor")
    )
    return (
        are_tensors
        and wanted.requires_grad == seen.requires_grad
        and printed(wanted) == printed(seen)
        and wanted.tensor.tolist() != seen.tensor.tolist()
    )


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


def _refusal(found: ToldProgram) -> Refusal:
    """A program with its comment."""
    one, program = found.wanted, found.program
    if one.error:
        said = f"expected no exception; yours: {shorten_text(one.error, 160)}"
    elif one.until.change or not re.match("expected|from entry", one.note):
        said = _expected_and_note(program.expected, one.note)
    else:
        said = one.note
    text = "\n".join(_with_comment(list(program.lines), said)) + "\n"
    return Refusal(
        one.promise, one.until.name, text, program.expected, one.seen, one.error, one.case, found.shows_cause
    )


def _expected_and_note(expected: Any, note: str) -> str:
    """What is expected, and what has changed where the box told that in words alone."""
    if expected is MISSING:
        return f"yours: {note}"
    if type(expected) is bool:
        return f"expected {expected}; yours: {not expected} ({note})"
    return f"expected {printed(expected)};\n{note}"


def _with_comment(lines: list[str], said: str) -> list[str]:
    """The lines with a comment on the last; below it if there is no room."""
    parts = [" ".join(part.split()) for part in said.replace("; yours:", ";\nyours:").split("\n")]
    last = f"{lines[-1]}  # {' '.join(parts)}"
    if len(last) <= WIDTH and not lines[-1].startswith(" "):
        return [*lines[:-1], last]
    return [*lines, *(f"# {part}" for part in parts)]


def _values_in_words(wanted: Any, seen: Any, why: Callable[[], Difference]) -> str:
    """What was expected and what was seen, as Python prints it; where that looks the same, what the difference is."""
    if are_long_timelines(wanted, seen):
        at, of_wanted, of_seen = where_they_part(wanted, seen)
        return f"from entry {at} on, expected {of_wanted}; yours: {of_seen}"
    if texts := short_texts(wanted, seen):
        return f"expected {texts[0]}; yours: {texts[1]}"
    found = why()
    if found.seen or found.expected:
        place = f" at {found.entry}" if found.entry else ""
        return f"expected {found.expected}{place}; yours: {found.seen}"
    return found.note or "something else"
