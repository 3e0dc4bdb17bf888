from __future__ import annotations

import ast
import dataclasses
from pathlib import Path
from typing import Any

import pytest
import torch

from graders.core.exercise import Exercise
from graders.run.probe_source import probe_source
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
        (SCALE_SUM, ["annotations", "Tensor", "snapshot", "tensor_hooks", "FACTORS", "factor", "probe"]),
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


class Helper:
    value = A


def unused():
    return B


@exercise("90-nested", title="Nested", points=1, hints=())
class TestNested:
    def probe(student):
        def inner():
            return lambda: Helper.value + E + m.floor(1.5)

        return inner()()
"""


def test_what_nested_functions_and_helpers_use_goes_in_too(tmp_path: Path) -> None:
    file = tmp_path / "test_90_nested.py"
    file.write_text(NESTED)
    nested = dataclasses.replace(SCALE_SUM, file=file, class_name="TestNested")
    assert defined(probe_source(nested)) == ["annotations", "m", "A", "D", "E", "Helper", "probe"]
    assert run(nested, _Student) == 2 + 5 + 1
