from __future__ import annotations

import inspect
import random
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, redirect_stderr
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.modules import module
from torch.overrides import TorchFunctionMode

from graders.probing.known_state import known_state
from graders.wire.limits import PRINTED_CHARACTERS

needs_readable_hooks = pytest.mark.skipif(
    not hasattr(torch._C._autograd, "_top_saved_tensors_default_hooks"),
    reason="before torch 2.8 nothing tells which hooks on saved tensors are active: those of the notebook stay active",
)


@contextmanager
def other_default_dtype() -> Iterator[None]:
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(torch.float32)


class _CountingMode(TorchFunctionMode):
    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {})) * 2 if func is torch.ones else func(*args, **(kwargs or {}))


def what_torch_makes() -> tuple[torch.dtype, str, bool, float]:
    """Dtype, device and graph of a computation, and its value."""
    made = torch.ones(1)
    if made.is_meta:  # no arithmetic there: it takes seconds to import
        return made.dtype, "meta", True, 0.0
    made = made * torch.tensor([1.5]).requires_grad_()
    return made.dtype, made.device.type, made.requires_grad, made.item()


def product_and_gradient() -> tuple[torch.dtype, float]:
    """The dtype of a matrix product, and the gradient of a square at 3."""
    x = torch.tensor([3.0], requires_grad=True)
    (x * x).sum().backward()
    assert x.grad is not None
    return (torch.ones(2, 2) @ torch.ones(2, 2)).dtype, x.grad.item()


@pytest.mark.parametrize(
    ("left_behind", "look", "outside"),
    [
        (other_default_dtype, what_torch_makes, (torch.float64, "cpu", True, 1.5)),
        (lambda: torch.device("meta"), what_torch_makes, (torch.float32, "meta", True, 0.0)),
        (torch.no_grad, what_torch_makes, (torch.float32, "cpu", False, 1.5)),
        (torch.inference_mode, what_torch_makes, (torch.float32, "cpu", False, 1.5)),
        (_CountingMode, what_torch_makes, (torch.float32, "cpu", True, 3.0)),
        (lambda: torch.autocast("cpu"), product_and_gradient, (torch.bfloat16, 6.0)),
        pytest.param(
            lambda: torch.autograd.graph.saved_tensors_hooks(lambda t: t + 1, lambda t: t * 2),
            product_and_gradient,
            (torch.float32, 16.0),
            marks=needs_readable_hooks,
        ),
    ],
)
def test_what_a_notebook_left_on_is_off_inside_and_on_again_outside(
    left_behind: Callable[[], AbstractContextManager[object]], look: Callable[[], object], outside: object
) -> None:
    usual = look()
    with left_behind():
        with known_state(1):
            inside = look()
        again = look()
    assert inside == look() == usual
    assert again == outside


def test_hooks_on_saved_tensors_come_back_in_their_order() -> None:
    outer = torch.autograd.graph.saved_tensors_hooks(lambda t: t * 0, lambda t: t)
    inner = torch.autograd.graph.saved_tensors_hooks(lambda t: t + 1, lambda t: t)
    with outer:
        with inner:
            with known_state(1):
                pass
            assert product_and_gradient() == (torch.float32, 8.0)
        assert product_and_gradient() == (torch.float32, 0.0)


def enter_hooks_on_saved_tensors(pack: Callable[[torch.Tensor], torch.Tensor]) -> None:
    """Enter a context that nobody leaves."""
    torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t).__enter__()


def test_hooks_on_saved_tensors_that_are_left_inside_are_off_outside() -> None:
    for raises in (False, True):
        with pytest.raises(ZeroDivisionError) if raises else nullcontext(), known_state(1):
            for _ in range(2):
                enter_hooks_on_saved_tensors(lambda t: t * 0)
            assert product_and_gradient() == (torch.float32, 0.0)
            if raises:
                raise ZeroDivisionError
        assert product_and_gradient() == (torch.float32, 6.0)


BEFORE_TORCH_2_8 = """
import torch

vars(torch._C._autograd).pop("_top_saved_tensors_default_hooks", None)
from tests.probing.test_known_state import enter_hooks_on_saved_tensors, known_state, product_and_gradient

with known_state(1):
    enter_hooks_on_saved_tensors(lambda t: t * 0)
print(product_and_gradient())
with torch.autograd.graph.saved_tensors_hooks(lambda t: t + 1, lambda t: t):
    with known_state(1):
        pass
    print(product_and_gradient())
"""


def test_hooks_on_saved_tensors_that_are_left_inside_are_off_outside_where_torch_cannot_read_them() -> None:
    done = subprocess.run([sys.executable, "-c", BEFORE_TORCH_2_8], check=True, capture_output=True, text=True)
    assert done.stdout == "(torch.float32, 6.0)\n(torch.float32, 8.0)\n"


@needs_readable_hooks
def test_hooks_on_saved_tensors_that_are_left_inside_do_not_cover_the_old_ones() -> None:
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t + 1, lambda t: t):
        with known_state(1):
            enter_hooks_on_saved_tensors(lambda t: t * 0)
        assert product_and_gradient() == (torch.float32, 8.0)
    assert product_and_gradient() == (torch.float32, 6.0)


@needs_readable_hooks
def test_an_answer_that_leaves_a_context_of_the_caller_does_no_harm() -> None:
    caller = torch.autograd.graph.saved_tensors_hooks(lambda t: t + 1, lambda t: t)
    with caller:
        with known_state(1), pytest.raises(RuntimeError):
            caller.__exit__(None, None, None)
        assert product_and_gradient() == (torch.float32, 8.0)


def test_a_ban_of_hooks_on_saved_tensors_is_off_inside_and_on_again_outside() -> None:
    graph = torch.autograd.graph
    with graph.disable_saved_tensors_hooks("not here"):
        with known_state(1), graph.saved_tensors_hooks(lambda t: t * 0, lambda t: t):
            assert product_and_gradient() == (torch.float32, 0.0)
        with pytest.raises(RuntimeError, match="not here"), graph.save_on_cpu():
            pass
    with known_state(1):
        graph.disable_saved_tensors_hooks("left on").__enter__()
    with graph.saved_tensors_hooks(lambda t: t * 0, lambda t: t):
        assert product_and_gradient() == (torch.float32, 0.0)


def test_a_mode_that_is_left_inside_is_off_outside() -> None:
    with _CountingMode():
        with known_state(1):
            torch.device("meta").__enter__()
        assert what_torch_makes() == (torch.float32, "cpu", True, 3.0)
    assert what_torch_makes() == (torch.float32, "cpu", True, 1.5)


@pytest.mark.parametrize(
    "register",
    [
        module.register_module_forward_pre_hook,
        module.register_module_forward_hook,
        module.register_module_full_backward_pre_hook,
        module.register_module_full_backward_hook,
        module.register_module_parameter_registration_hook,
        module.register_module_buffer_registration_hook,
        module.register_module_module_registration_hook,
    ],
)
def test_global_hooks_do_not_run_inside_and_those_of_the_notebook_run_again_outside(
    register: Callable[[Any], Any],
) -> None:
    calls: list[str] = []

    def called() -> set[str]:
        calls.clear()
        nn.Sequential(nn.BatchNorm1d(1))(torch.ones(2, 1, requires_grad=True)).sum().backward()
        return set(calls)

    handle = register(lambda *args: calls.append("outer"))
    try:
        assert called() == {"outer"}
        with known_state(1):
            assert called() == set()
            register(lambda *args: calls.append("inner"))
            assert called() == {"inner"}
        assert called() == {"outer"}
    finally:
        handle.remove()
    assert called() == set()


@pytest.mark.skipif(
    "with_kwargs" not in inspect.signature(module.register_module_forward_hook).parameters,
    reason="in this version of torch a hook for all modules gets no keyword arguments",
)
def test_a_hook_called_always_and_one_with_kwargs_are_off_inside() -> None:
    calls = []
    handle = module.register_module_forward_hook(
        lambda layer, args, kwargs, output: calls.append(kwargs), with_kwargs=True, always_call=True
    )
    try:
        with known_state(1):
            nn.ReLU()(torch.ones(1))
        assert calls == []
        nn.ReLU()(torch.ones(1))
        assert calls == [{}]
    finally:
        handle.remove()


def test_all_generators_start_from_the_seed_and_go_on_outside_as_if_nothing_was() -> None:
    def drawn() -> tuple[float, float, float]:
        return random.random(), float(np.random.rand()), torch.rand(1).item()

    for seed_all in (random.seed, np.random.seed, torch.manual_seed):
        seed_all(5)
    undisturbed = [drawn(), drawn()]
    for seed_all in (random.seed, np.random.seed, torch.manual_seed):
        seed_all(5)
    before = drawn()
    with known_state(2**53 - 1):
        first = drawn()
    with known_state(2**53 - 1):
        again = drawn()
    with known_state(7):
        other = drawn()
    assert first == again
    assert len({first, other, undisturbed[0]}) == 3
    assert [before, drawn()] == undisturbed


def test_a_probe_that_seeds_torch_draws_what_it_draws_elsewhere_and_touches_no_other_device() -> None:
    before = torch.manual_seed
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        drawn = torch.rand(2)
    queued = len(torch.cuda._queued_calls)
    with known_state(1):
        assert torch.manual_seed(3) is torch.default_generator
        assert torch.equal(torch.rand(2), drawn)
    assert len(torch.cuda._queued_calls) == queued
    assert torch.manual_seed is before


def test_warnings_that_are_errors_outside_are_ignored_inside() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with known_state(1):
            warnings.warn("not heard", stacklevel=1)
        with pytest.raises(UserWarning, match="heard"):
            warnings.warn("heard", stacklevel=1)


def test_output_is_taken_inside(capsys: pytest.CaptureFixture[str]) -> None:
    with known_state(1) as printed:
        print("inside")
        print("inside", file=sys.stderr)
        assert not sys.stdout.isatty()
    print("outside")
    assert capsys.readouterr() == ("outside\n", "")
    assert printed.text == "inside\ninside\n"


def test_of_output_without_end_only_the_beginning_is_kept() -> None:
    with known_state(1) as printed:
        for _ in range(1000):
            print("x" * 10_000)
    assert printed.text == "x" * (PRINTED_CHARACTERS + 1)


def test_output_may_be_kept(capsys: pytest.CaptureFixture[str]) -> None:
    with known_state(1, quiet=False):
        print("inside")
    assert capsys.readouterr().out == "inside\n"


def test_a_missing_stderr_does_no_harm() -> None:
    with redirect_stderr(None):
        with known_state(1):
            print("text", file=sys.stderr)
            sys.stderr.flush()
        assert sys.stderr is None


def change_all_and_raise() -> None:
    torch.set_default_dtype(torch.float64)
    torch.set_grad_enabled(True)
    sys.stdout = None
    raise ZeroDivisionError


def test_everything_is_put_back_after_an_exception() -> None:
    out = sys.stdout
    with torch.no_grad():
        with pytest.raises(ZeroDivisionError), known_state(1):
            change_all_and_raise()
        assert (torch.get_default_dtype(), torch.is_grad_enabled()) == (torch.float32, False)
        assert sys.stdout is out


def test_it_does_not_import_what_takes_longer_than_a_probe() -> None:
    program = (
        "import sys\nfrom graders.probing.known_state import known_state\nwith known_state(1): pass\n"
        "assert 'torch._dynamo' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
