from __future__ import annotations

import ast
import dataclasses
from pathlib import Path
from typing import Any

import pytest
import torch

from graders.core import course
from graders.core.exercise import Exercise
from graders.run.probe_source import ProbeNeedsMore, probe_source
from tests.sample import TestScaleSum as SCALE_SUM
from tests.sample import TestWrap as WRAP


def defined(source: str) -> list[str]:
    """The names that the statements of a text define or import, in order."""
    names = []
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.append(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names += [alias.asname or alias.name for alias in node.names]
        elif isinstance(node, ast.Assign):
            names += [target.id for target in node.targets if isinstance(target, ast.Name)]
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names.append(node.target.id)
    return names


def run(exercise: Exercise, student: Any, *draw: Any) -> Any:
    """What the probe sees when nothing but its own source is there."""
    scope: dict[str, Any] = {"__name__": "probe"}
    exec(compile(probe_source(exercise), "<probe>", "exec"), scope)
    return scope["probe"](student, *draw)


class _Student:
    @staticmethod
    def scale_sum(x: torch.Tensor, k: float) -> torch.Tensor:
        return (k * x).sum()

    @staticmethod
    def wrapped_layer(layer: torch.nn.Module) -> torch.nn.Module:
        return torch.nn.Sequential(layer)


@pytest.mark.parametrize(
    ("exercise", "names"),
    [
        (SCALE_SUM, ["annotations", "snapshot", "tensor_hooks", "Tensor", "FACTORS", "factor", "probe"]),
        (WRAP, ["annotations", "nn", "probe"]),
    ],
)
def test_the_probe_goes_in_with_all_that_it_uses_and_nothing_else(exercise: Exercise, names: list[str]) -> None:
    assert defined(probe_source(exercise)) == names


@pytest.mark.parametrize("word", ["ANSWERS", "expected_gradient", "mistake", "expect", "test_", "draw", "exercise"])
def test_no_expected_value_goes_in(word: str) -> None:
    assert word not in probe_source(SCALE_SUM)


def test_the_source_is_complete_on_its_own() -> None:
    seen = run(SCALE_SUM, _Student, torch.tensor([1.0, 2.0]), "negate")
    assert seen["total"].item() == -3.0
    assert seen["x.grad"].tolist() == [-1.0, -1.0]
    assert seen["hooks"] == 0
    assert run(WRAP, _Student, 2) == "Sequential"


NESTED = """\
import math as m, os.path
import json
from graders.core.exercise import exercise

A: int = 2
B = 3
D = E = 5
(F, G), *H = (1, 7), 9


class Helper:
    value = A


def unused():
    return B


@exercise("90-nested", title="Nested", points=1, hints=())
class TestNested:
    def probe(student):
        def inner():
            return lambda: Helper.value + E + G + m.floor(1.5)

        return inner()()
"""


def placed(folder: Path, class_name: str = "TestNested", **files: str) -> Exercise:
    """An exercise of a lesson's folder with these files; its own is `test_nested`."""
    for name, text in files.items():
        (folder / f"{name}.py").write_text(text)
    return dataclasses.replace(SCALE_SUM, file=folder / "test_nested.py", class_name=class_name)


def test_what_nested_functions_and_helpers_use_goes_in_too(tmp_path: Path) -> None:
    nested = placed(tmp_path, test_nested=NESTED)
    assert defined(probe_source(nested)) == ["annotations", "m", "A", "D", "E", "Helper", "probe"]
    assert run(nested, _Student) == 2 + 5 + 7 + 1


USES = """\
from math import pi
from graders.authoring import Boom, close, exercise, snapshot
from graders.lesson_90_small.shared import area
from graders.lesson_90_small.judging import expected_area


@exercise("90-uses", title="Uses", points=1, hints=())
class TestUses:
    def probe(student, r):
        return PROBE
"""
SHARED = """\
from math import pi

from graders.lesson_90_small.judging import expected_area
from graders.authoring import Rng, snapshot

FACTOR = 1
UNUSED = 2


def area(r):
    return snapshot(square(r) * pi * FACTOR)


def square(r):
    return r * r


def in_a_draw(rng: Rng):
    return expected_area(rng)
"""


@pytest.fixture
def lesson(tmp_path: Path) -> Path:
    """The folder of a lesson whose exercises share something."""
    folder = tmp_path / "lesson_90_small"
    folder.mkdir()
    return folder


def using(lesson: Path, probe: str, shared: str = SHARED) -> Exercise:
    """An exercise whose probe returns this."""
    return placed(lesson, "TestUses", test_nested=USES.replace("PROBE", probe), shared=shared, judging="")


def test_what_comes_from_the_shared_file_is_cut_out_of_it(lesson: Path) -> None:
    exercise = using(lesson, "area(r) + pi")
    assert defined(probe_source(exercise)) == ["annotations", "snapshot", "pi", "FACTOR", "area", "square", "probe"]
    assert run(exercise, _Student, 2) == pytest.approx(5 * 3.14159265)


def test_an_instrument_is_imported_from_where_it_is_in_the_box(lesson: Path) -> None:
    source = probe_source(using(lesson, "snapshot(r)"))
    assert "from graders.box.probing import snapshot" in source
    assert "authoring" not in source


@pytest.mark.parametrize(
    ("probe", "message"),
    [
        ("expected_area(r)", "uses 'expected_area' of judging.py, which stays outside the box"),
        ("close(r, 1)", "uses 'close' of graders.core.expect, which is not in the box"),
    ],
)
def test_a_probe_that_reaches_for_what_judges_is_refused(lesson: Path, probe: str, message: str) -> None:
    with pytest.raises(ProbeNeedsMore, match=message):
        probe_source(using(lesson, probe))


def test_a_shared_helper_that_reaches_for_what_judges_is_refused(lesson: Path) -> None:
    with pytest.raises(ProbeNeedsMore, match=r"uses 'expected_area' of judging\.py"):
        probe_source(using(lesson, "area(r)", SHARED.replace("FACTOR = 1", "FACTOR = expected_area(1)")))


def test_one_name_for_two_things_is_refused(lesson: Path) -> None:
    with pytest.raises(ProbeNeedsMore, match=r"its file and shared.py both define 'pi'"):
        probe_source(using(lesson, "area(r) + pi", SHARED.replace("from math import pi", "pi = 3")))


BUILD_OR_RUN_WHAT_IS_GIVEN = {
    "07-activation-grad": {"linear", "model_of", "names_of", "packed", "unpacked"},
    "11-remove-all-hooks": {"all_counts"},
    "13-dead-channels": {"along_channels", "pooled", "swapped"},
    "13-signal-report": {"along_channels", "loss_of", "pooled"},
    "13-changed-by-hooks": {"gradients_of", "hook_of", "linear", "prepared_model", "registered"},
    "13-why-no-gradient": {"in_its_mode", "linear", "without_graph"},
    "13-diagnose": {"built", "hooked", "looped", "monitored", "produced", "under_no_grad", "used_by_hand"},
    "13-wrong-mode": {"build", "made", "packed", "unpacked"},
}
"""Functions that a probe and what judges both use: they make, run or read what the learner is given."""


@pytest.mark.parametrize("exercise", course.every_exercise(), ids=lambda exercise: exercise.key)
def test_nothing_that_judges_goes_in_but_what_makes_or_runs_the_learners_model(exercise: Exercise) -> None:
    inside = {node.name for node in ast.parse(probe_source(exercise)).body if isinstance(node, ast.FunctionDef)}
    assert (inside - {"probe"}) & used_for_judging(exercise) <= BUILD_OR_RUN_WHAT_IS_GIVEN.get(exercise.key, set())


def used_for_judging(exercise: Exercise) -> set[str]:
    """Names that the checks, mistakes and `alive` of an exercise use, directly or through other functions."""
    files = {file.stem: ast.parse(file.read_text()) for file in exercise.file.parent.glob("*.py")}
    own = files[exercise.file.stem]
    modules = [own, *(module for name, module in files.items() if name in ("shared", "judging"))]
    functions = {name: node for module in reversed(modules) for node in module.body for name in named(node)}
    (body,) = (node for node in own.body if isinstance(node, ast.ClassDef) and node.name == exercise.class_name)
    queue: list[ast.AST] = [node for node in body.body if getattr(node, "name", "") not in ("probe", "draw")]
    found: set[str] = set()
    while queue:
        names = {part.id for part in ast.walk(queue.pop()) if isinstance(part, ast.Name)} & set(functions) - found
        found |= names
        queue += [functions[name] for name in names]
    return found


def named(node: ast.stmt) -> list[str]:
    """The names that a function, a class or an assignment defines."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return [node.name]
    return [target.id for target in getattr(node, "targets", ()) if isinstance(target, ast.Name)]
