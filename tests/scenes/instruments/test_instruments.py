"""The instruments of probes: models, hooks and failures as a caller may have them."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator

import pytest
import torch
from torch import Tensor, nn

from graders.scenes.instruments.callers_hooks import CallersHooks
from graders.scenes.instruments.failures import KINDS, Failure
from graders.scenes.instruments.models import fill_grads, freeze_part, in_mode, tie_parameters
from graders.scenes.instruments.witness import Witness


def test_modes_frozen_parts_ties_and_gradients() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2), nn.Linear(2, 2))
    assert [module.training for module in in_mode(model, "mixed").modules()] == [True, False, True, False]
    assert [module.training for module in in_mode(model, "eval").modules()] == [False] * 4
    assert [parameter.requires_grad for parameter in freeze_part(model).parameters()] == [
        False,
        False,
        True,
        True,
        True,
        True,
    ]
    assert [parameter.grad is None for parameter in fill_grads(model).parameters()] == [
        True,
        True,
        False,
        False,
        False,
        False,
    ]
    assert tie_parameters(model, "0.weight", "2.weight")[0].weight is model[2].weight


def test_watching_hooks_change_nothing_and_are_counted() -> None:
    model = nn.Linear(1, 1)
    x = torch.ones(1, 1, requires_grad=True)
    plain = model(x)
    hooks = CallersHooks("watching").on_module(model, "model", backward=True).on_parameter(model.weight, "weight")
    assert torch.equal(model(x), plain)
    model(x).sum().backward()
    assert hooks.log[:4] == ["pre model", "pre with kwargs model", "forward model", "watching forward model"]
    order_is_torchs_own = sorted(hooks.log[-5:])
    assert order_is_torchs_own == ["accumulated weight", "backward model", "backward pre model", "grad weight",
                                   "watching grad weight"]  # fmt: skip


def test_replacing_hooks_double_outputs_and_gradients_and_go_away_again() -> None:
    model, x = nn.ReLU(), torch.tensor([3.0], requires_grad=True)
    witness = Witness(model=model, x=x)
    hooks = CallersHooks("replacing").on_module(model, "model").on_tensor(x, "x")
    assert model(x).item() == 6.0
    model(x).sum().backward()
    assert x.grad is not None
    assert x.grad.item() == 4.0  # twice by the output, twice by the tensor hook
    assert witness.changes() == [["hook-left", "model"], ["grad-filled", "x"], ["hook-left", "x"]]
    hooks.remove()
    assert witness.changes() == [["grad-filled", "x"]]


def calls_twice(raise_if_due: Callable[[], None]) -> None:
    raise_if_due()
    raise_if_due()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("run", ["first", "second"])
def test_an_exception_that_comes_through(kind: str, run: str) -> None:
    failure = Failure(kind, run)
    assert failure.outcome_during(lambda: calls_twice(failure.raise_if_due)) == "came through"


def test_through_the_autograd_engine_it_is_the_same() -> None:
    failure = Failure("KeyboardInterrupt")
    x = torch.ones(1, requires_grad=True)
    x.register_hook(failure.raise_if_due)
    assert failure.outcome_during(lambda: x.sum().backward()) == "came through"


def test_a_copy_of_a_model_counts_the_same_runs() -> None:
    failure, model = Failure("own", "second"), nn.Identity()
    model.register_forward_pre_hook(failure.raise_if_due)
    copied = copy.deepcopy(model)
    assert failure.outcome_during(lambda: (model(1), copied(1))) == "came through"


def test_what_was_interrupted_is_not_kept_alive() -> None:
    failure, left = Failure("KeyError"), []

    def unfinished() -> Iterator[None]:
        try:
            yield
        finally:
            left.append("ended")

    def interrupted() -> None:
        going_on = unfinished()
        next(going_on)
        failure.raise_if_due()

    assert failure.outcome_during(interrupted) == "came through"
    assert left == ["ended"]


def test_exceptions_that_do_not_come_through() -> None:
    def swallow() -> None:
        try:
            swallowed.raise_if_due()
        except RuntimeError:
            return

    def wrap() -> None:
        try:
            wrapped.raise_if_due()
        except KeyError:
            raise ValueError("no") from None

    swallowed, wrapped, never = Failure("RuntimeError"), Failure("KeyError"), Failure("own", "second")
    assert swallowed.outcome_during(swallow) == "swallowed"
    assert wrapped.outcome_during(wrap) == "ValueError: no"
    assert never.outcome_during(never.raise_if_due) == "never raised"


@pytest.mark.parametrize("kind", KINDS)
def test_an_interrupt_of_a_person_and_a_stub_are_passed_on(kind: str) -> None:
    def interrupted() -> Tensor:
        raise KeyboardInterrupt

    def stub() -> Tensor:
        raise NotImplementedError

    with pytest.raises(KeyboardInterrupt):
        Failure(kind).outcome_during(interrupted)
    with pytest.raises(NotImplementedError):
        Failure(kind).outcome_during(stub)
