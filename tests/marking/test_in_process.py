"""What `check` finds for the definitions of this process, whatever a notebook has left switched on in it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from graders.core.results import Status
from graders.marking.in_process import check_namespace
from tests.sample import SCALE_SUM


def test_each_check_draws_other_inputs_and_a_seed_repeats_them() -> None:
    asked = []

    def scale_sum(x: Any, k: float) -> Any:
        asked.append(tuple(x.tolist()))
        return (k * x).sum()

    namespace = {"scale_sum": scale_sum}
    results = [check_namespace(SCALE_SUM, namespace, seed) for seed in (None, None, 7, 7)]
    assert [result.status for result in results] == [Status.PASSED] * 4
    assert asked[4:6] == asked[6:8]
    assert len(set(asked)) == 6


def test_an_answer_that_changes_its_input_does_not_change_the_judges_copy() -> None:
    namespace: dict[str, Any] = {}
    exec("def scale_sum(x, k):\n    total = (k * x).sum()\n    x.data.zero_()\n    return total", namespace)
    assert check_namespace(SCALE_SUM, namespace, 1).status is Status.PASSED


def test_after_an_exception_the_other_draws_are_not_tried() -> None:
    calls = []

    def scale_sum(x: Any, k: float) -> None:
        calls.append(k)
        raise ValueError

    assert check_namespace(SCALE_SUM, {"scale_sum": scale_sum}, 1).status is Status.RAISED
    assert calls == [2.0]


def test_a_result_that_is_too_large_is_over_the_limit() -> None:
    result = check_namespace(SCALE_SUM, {"scale_sum": lambda x, k: [0] * 5000}, 1)
    assert result.status is Status.OVER_LIMIT
    assert "the result is too large: more than 4000 values" in result.message


LEFT_BEHIND = {
    "no grad mode": "torch.set_grad_enabled(False)",
    "inference mode": "mode = torch.inference_mode(); mode.__enter__()",
    "another default dtype": "torch.set_default_dtype(torch.float64)",
    "another default device": "torch.set_default_device('meta')",
    "a global forward hook": "nn.modules.module.register_module_forward_hook(lambda module, args, output: output * 0)",
    "a global backward hook": "nn.modules.module.register_module_full_backward_hook(lambda *_: 1 / 0)",
    "anomaly detection": "torch.autograd.set_detect_anomaly(True)",
    "autocast": "mode = torch.autocast('cpu', dtype=torch.bfloat16); mode.__enter__()",
    "hooks on saved tensors": "from torch.autograd.graph import saved_tensors_hooks\n"
    "mode = saved_tensors_hooks(lambda t: t * 0, lambda t: t)\nmode.__enter__()",
    "a function mode": """
class Zeros(torch.overrides.TorchFunctionMode):
    def __torch_function__(self, function, types, args=(), kwargs=None):
        found = function(*args, **(kwargs or {}))
        return found * 0 if isinstance(found, torch.Tensor) and found.is_floating_point() else found
mode = Zeros()
mode.__enter__()""",
    "warnings as errors": "import warnings\nwarnings.simplefilter('error')",
}
if not hasattr(torch._C._autograd, "_top_saved_tensors_default_hooks"):  # before torch 2.8 they stay active
    del LEFT_BEHIND["hooks on saved tensors"]
CHECK_EACH = """
import json, os, sys
from dataclasses import replace
import torch
from torch import nn
from graders.core import course
from graders.marking.in_process import check_namespace
from tests.answers import answers_of
names, exercises = {}, []
for lesson in ("01", "04", "11"):
    key, answers = next(iter(answers_of(lesson).right.items()))
    exec(answers[0], names)
    exercise = course.find_exercise(key)
    exercises.append(replace(exercise, cases=exercise.cases[:2]))

def check_all(left):
    exec(left, globals())
    grad, dtype = torch.is_grad_enabled(), torch.get_default_dtype()
    found = [check_namespace(exercise, names).status.value for exercise in exercises]
    assert (torch.is_grad_enabled(), torch.get_default_dtype()) == (grad, dtype)
    print(what, *found, sep=": ", flush=True)

for what, left in json.loads(sys.argv[1]).items():
    if (child := os.fork()) == 0:
        check_all(left)
        os._exit(0)
    os.waitpid(child, 0)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="one process that has imported torch is forked for each")
def test_what_a_notebook_left_switched_on_decides_over_no_check() -> None:
    """An exercise of each of three lessons, in a process of its own: some of these cannot be switched off again."""
    done = subprocess.run(
        [sys.executable, "-c", CHECK_EACH, json.dumps(LEFT_BEHIND)],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[2],
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    assert done.stdout == "".join(f"{what}: passed: passed: passed\n" for what in LEFT_BEHIND), done.stderr
