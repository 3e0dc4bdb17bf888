"""The scene of 13-diagnose: a function of the caller makes models in which something may be wrong."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from graders.scenes.chains import SIZE, Chain, even_linear
from graders.scenes.instruments.failures import Failure
from graders.scenes.instruments.tensors import prepare_tensor
from graders.scenes.instruments.witness import Witness
from graders.scenes.planted import defined_in
from graders.scenes.scene import Call, Sections, family
from graders.scenes.small_modules import Fn, linear
from graders.wire.draws import Rng

LAYERS = 7
"""The linear layers that a model is made of."""


@family(
    sections=(
        "the label and the module are found",
        "each call begins anew",
        "nothing of the caller changes",
        "it holds when the loss raises",
    ),
    axes={
        "dtype": ("float32", "float64"),
        "x_is": ("data", "leaves"),
        "failure": ("own", "RuntimeError", "KeyError", "KeyboardInterrupt"),
    },
)
def diagnoses_models(call: Call, rng: Rng, case: Any, seen: Sections) -> None:
    """For `function(make, x, y, loss_fn, lr)`.

    Planted are `model` and `sound`, the texts of models, and the numbers `lr`, `factor` (of the loss) and `shift` (of
    `y`).
    """
    found, anew, same, failing = seen.values()
    x, y = (rng.tensor(3, SIZE, low=-2, high=2, dtype=case.dtype, values="full") for _ in range(2))
    y = y + case.shift
    if case.x_is == "leaves":
        x, y = prepare_tensor(x, grad="filled"), prepare_tensor(y, grad="filled")
    drawn = [even_linear(rng, case.dtype) for _ in range(LAYERS)]

    def make_of(text: str) -> Callable[[], nn.Module]:
        def layer(number: int) -> nn.Module:
            return linear(drawn[number].weight, drawn[number].bias)

        make: Callable[[], nn.Module] = defined_in(text, Chain=Chain, Fn=Fn, layer=layer)["make"]
        return make

    def loss_fn(output: Tensor, y: Tensor) -> Tensor:
        loss: Tensor = (output - y).square().mean() * case.factor
        return loss

    make, before, random = make_of(case.model), Witness(x=x, y=y), torch.get_rng_state()
    found["the result"] = call(make, x, y, loss_fn, case.lr)
    same["changed"] = before.changes()
    same["the state of the random number generator is as before"] = torch.equal(random, torch.get_rng_state())
    if case.dtype == "float32":  # only here, because each call takes time
        torch.rand(3)
        sound, small = make_of(case.sound), 1e-6 / case.factor
        anew["the result for a sound model"] = call(sound, x, y, lambda *pair: small * loss_fn(*pair), case.lr)
        anew["the result again"] = call(make, x, y, loss_fn, case.lr)

    failure, random = Failure(case.failure), torch.get_rng_state()

    def broken_loss(output: Tensor, y: Tensor) -> Tensor:
        failure.raise_if_due()
        return loss_fn(output, y)

    failing["the exception"] = failure.outcome_during(lambda: call(make, x, y, broken_loss, case.lr))
    failing["changed after an exception"] = before.changes()
    failing["the state of the random number generator is as before"] = torch.equal(random, torch.get_rng_state())
