"""Finds the program that shows why an answer was refused.

It is about the first promise that does not hold, in the plainest cases in which it fails, and of these programs the
shortest. If the answer makes a known mistake, it is about the first promise whose program shows something wrong after
that mistake: what an earlier call has left in the box is not there in a new interpreter. Where the example of the
contract fails as well and shows that mistake, it is told unless it is longer: learners know it. What the answer showed
comes out of the box; nothing that a learner wrote runs here.
"""

from __future__ import annotations

import ast
import dataclasses
import math
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from graders.core.difference import Difference
from graders.core.exercise import Ask, Inputs
from graders.core.shown import MISSING
from graders.core.text import shorten_text
from graders.core.transcript import Outcome
from graders.scenes.scene import EXAMPLE, STOPPED, Scene
from graders.verdict.comparison import RAISED, Comparison, Differences
from graders.verdict.contract import Step
from graders.verdict.implementations import reference_sections
from graders.verdict.plainer import oddity, plainer_failure
from graders.verdict.printed import NUMBERS, are_long_timelines, printed, short_texts, where_they_part
from graders.verdict.telling import Until, observations_of
from graders.verdict.telling_in_child import ToldProgram, Wanted, shows_cause, tell_shortest
from graders.wire.data import Array, Changes

CASES = 3
"""Of so many cases the program is told, the plainest ones in which the promise fails."""
DTYPE = ".dtype.name"
"""Behind a numpy array: its dtype as text."""
WIDTH = 100
"""A comment stands in its line up to this many characters, otherwise below it."""


@dataclass(frozen=True)
class Refusal:
    """A program for the learner, the promise and the case that it is about, and what its last line shows.

    `expected` is what it prints with the reference, and `seen` what the answer showed. Either is `MISSING` where there
    is nothing to print. `error` is how it ends with the answer instead. `difference` is what the promise says of it,
    and `shows_cause` says whether it is known to show something wrong even where no other call came before. `draw` is
    that of its case.
    """

    promise: str
    observation: str
    program: str
    expected: Any = MISSING
    seen: Any = MISSING
    error: str = ""
    difference: Difference | None = None
    shows_cause: bool = False
    draw: Inputs = field(default_factory=dict)


def find_refusal(
    comparison: Comparison,
    example: Sequence[Step],
    draws: Sequence[Inputs],
    outcomes: Sequence[Outcome],
    causes: Collection[str] = (),
    ask: Ask | None = None,
) -> Refusal | None:
    """The program that shows what is wrong with an answer; None if there is none, or if the answer is right.

    `causes` are the ids of the mistakes that it makes, if they are known. `ask` asks it on one more draw, where that
    can be done: then the case is made plain.
    """
    scene = comparison.stage.scene
    causes = {program.id for program in comparison.stage.programs}.intersection(causes)
    ended = next((index for index, outcome in enumerate(outcomes) if outcome.seen is None), None)
    if ended is not None:
        raised = tell_shortest(comparison, list(_of_exception(scene, draws[ended], outcomes[ended])), ())
        shown = _without_exception(comparison, draws, outcomes, causes, ask) if causes else None
        if shown and (not raised or oddity(scene, shown.draw) <= oddity(scene, raised.wanted.draw)):
            return shown
        return _refusal(raised) if raised else None
    told = _of_promises(comparison, [*zip(draws, outcomes)], causes)
    shown = _of_example(comparison, example, draws[0], outcomes[0], causes)
    if shown and (not told or (shown.shows_cause and _length(shown) <= _length(told))):
        return shown
    if told and ask and oddity(scene, told.draw):
        start = told.draw, outcomes[draws.index(told.draw)]
        case = plainer_failure(comparison, told.promise, start, ask)
        plainer = _of_promises(comparison, [case], causes) if case else None
        if plainer and (plainer.promise, plainer.shows_cause) == (told.promise, told.shows_cause):
            return min(plainer, told, key=_length)
    return told


def _length(refusal: Refusal) -> int:
    return refusal.program.count("\n")


def _without_exception(
    comparison: Comparison,
    draws: Sequence[Inputs],
    outcomes: Sequence[Outcome],
    causes: Collection[str],
    ask: Ask | None,
) -> Refusal | None:
    """What shows a known mistake of an answer that ended with an exception, in a case that it went through.

    If there is none, it is asked for what is promised before that, in the plainest case.
    """
    cases = [(draw, outcome) for draw, outcome in zip(draws, outcomes) if outcome.seen is not None]
    promises = [*comparison.stage.scene.promises]
    stopped = next(outcome.stopped_at for outcome in outcomes if outcome.seen is None)
    if not cases and ask and stopped and stopped[0] < len(comparison.stage.scene.stories):
        promises = promises[: promises.index(comparison.stage.scene.stories[stopped[0]][0])]
        plain = {**draws[0], "example": []}
        asked = ask({**plain, "only": promises}) if promises else None
        cases = [(plain, asked)] if asked and asked.seen is not None else []
    shown = _of_promises(comparison, cases, causes, promises)
    return shown if shown and shown.shows_cause else None


def _of_promises(
    comparison: Comparison,
    cases: Sequence[tuple[Inputs, Outcome]],
    causes: Collection[str],
    promises: Sequence[str] | None = None,
) -> Refusal | None:
    """What is told of the first promise that fails; if there are causes, of the first that shows one of them."""
    scene, first = comparison.stage.scene, None
    for promise in scene.promises if promises is None else promises:
        failing = [case for case in cases if _differences(comparison, *case, promise)]
        plainest = sorted(failing, key=lambda case: oddity(scene, case[0]))[:CASES]
        wanted = [_of_difference(comparison, scene, *case, promise) for case in plainest]
        if found := tell_shortest(comparison, [one for one in wanted if one], causes):
            refusal = _refusal(found)
            if found.shows_cause or not causes:
                return refusal
            first = first or refusal
    return first


def _differences(comparison: Comparison, draw: Inputs, outcome: Outcome, promise: str) -> Differences:
    assert outcome.seen is not None
    return comparison.differences(outcome.seen, draw, promise)


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
                told = _wanted_value(promise, draw, number, name, seen[name].value, wanted[name], path, why)
                return dataclasses.replace(told, difference=why())
        stop = seen[STOPPED]
        line, from_line = stop["line"].value, stop["from_line"].value
        if stop["story"].value == number and type(line) is type(from_line) is int:
            until = Until(line=line, from_line=from_line)
            why = differences.get(f"{promise}: {STOPPED}", next(iter(differences.values())))
            return Wanted(promise, draw, number, until, difference=why(), error=str(stop["error"].value))
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
        of_it = ""
        if _are_tensors_printed_alike(wanted, seen):
            wanted, seen, of_it = wanted.tensor.tolist(), seen.tensor.tolist(), ".tolist()"
        elif dtypes := _different_dtypes(wanted, seen):
            (wanted, seen), of_it = dtypes, DTYPE
        return Wanted(
            promise, draw, story, Until(name, entry=entry, of_it=of_it), seen, _values_in_words(wanted, seen, why)
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


def _different_dtypes(wanted: Any, seen: Any) -> tuple[str, str] | None:
    """Numpy's names of the dtypes of two numpy arrays, which `print` leaves out, if they are not the same."""
    if not (isinstance(wanted, Array) and isinstance(seen, Array) and wanted.kind == seen.kind == "array"):
        return None
    names = str(wanted.tensor.numpy().dtype), str(seen.tensor.numpy().dtype)
    return names if names[0] != names[1] else None


def _keys(path: str) -> list[Any]:
    """The keys and indexes of a path; none if it has others than texts and numbers."""
    if not re.fullmatch(r"(\[('[^'\\]*'|\d+)\])*", path):
        return []
    return [ast.literal_eval(key) for key in re.findall(r"\[(.*?)\]", path)]


def _at(value: Array, entry: tuple[int, ...]) -> Any:
    """An entry, of a numpy array as a number."""
    part = value.tensor[entry]
    return part.item() if value.kind == "array" else dataclasses.replace(value, tensor=part)


def _of_example(
    comparison: Comparison, example: Sequence[Step], draw: Inputs, outcome: Outcome, causes: Collection[str]
) -> Refusal | None:
    """The example of the contract, which is a program already; None if it holds."""
    if EXAMPLE not in comparison.sections or not (found := _differences(comparison, draw, outcome, EXAMPLE)):
        return None
    path, describe = next(iter(found.items()))
    at, lines, why = path.partition(": ")[2], list[str](), describe()
    for step in example:
        code = step.code.strip()
        is_the_first = step.shows and at.startswith(code)
        if is_the_first:
            assert outcome.seen is not None
            wanted, seen = comparison.example[code], outcome.seen[EXAMPLE][code].value
            if dtypes := _different_dtypes(wanted, seen):
                lines += _with_comment([_printing(code, DTYPE)], f"expected {dtypes[0]}; yours: {dtypes[1]}")
            else:
                lines += _with_comment([_printing(code)], _example_in_words(step, wanted, seen, why))
            break
        lines += [_printing(code)] if step.shows else code.splitlines()
    program = "\n".join(lines) + "\n"
    is_shown = shows_cause(comparison, program, causes)
    error = why.note.removeprefix(RAISED) if why.note.startswith(RAISED) else ""
    return Refusal(EXAMPLE, code, program, error=error, difference=why, shows_cause=is_shown)


def _printing(code: str, of_it: str = "") -> str:
    """A line that prints the value of an expression, which may have a comment behind it, or something `of_it`."""
    return f"print({ast.get_source_segment(code, ast.parse(code).body[0]) or code}{of_it})"


def _example_in_words(step: Step, wanted: Any, seen: Any, why: Difference) -> str:
    expected = " ".join(step.shows.split())
    if why.note.startswith(RAISED):
        return f"expected {expected}; yours: {why.note.removeprefix(RAISED)}"
    is_pair = type(seen) is tuple and isinstance(ast.parse(step.code.strip(), mode="eval").body, ast.Tuple)
    if is_pair and type(wanted) is tuple:  # `print` gets several values
        return f"expected {' '.join(map(printed, wanted))}; yours: {' '.join(map(printed, seen))}"
    return f"expected {expected}; yours: {printed(seen)}"


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
        one.promise,
        one.until.name,
        text,
        program.expected,
        one.seen,
        one.error,
        one.difference,
        found.shows_cause,
        one.draw,
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
