"""Scenes for functions that change what a transformer computes, in a context or until a handle is removed.

`graders.scenes.low_rank` has one that also adds parameters.
"""

from typing import Any

import torch
from torch import Tensor, nn

from graders.probing.asking import detached_copy, remove_handle
from graders.probing.known_state import seed_torch
from graders.scenes.instruments.failures import Failure
from graders.scenes.instruments.witness import Witness
from graders.scenes.scene import Call, Sections, family
from graders.scenes.transformers import Transformer, add_callers_hooks, some_tokens
from graders.wire.draws import Rng, beyond_float32

AXES = {
    "dtype": ("float32", "float64"),
    "heads": (2, 3, 1),
    "blocks": (2, 3, 1),
    "output": ("tuple", "tensor", "tuple of one"),
    "mode": ("eval", "train", "mixed"),
    "grad": ("empty", "filled"),
    "hooks": ("none", "watching", "replacing"),
}


class OutputKeeper:
    """A hook of the caller that keeps a module's output tensor itself, and remembers its values."""

    def __init__(self, module: nn.Module) -> None:
        """Register the hook on a module."""
        self.kept: list[tuple[Tensor, Tensor]] = []
        module.register_forward_hook(self)

    def __call__(self, module: nn.Module, args: Any, output: Any) -> None:
        """Keep the output, or the first entry if it is a tuple."""
        given = output[0] if isinstance(output, tuple) else output
        self.kept.append((given, detached_copy(given)))

    def was_overwritten(self) -> bool:
        """Whether one of the kept tensors has changed since."""
        return any(not torch.equal(given, then) for given, then in self.kept)


def compute_logits(model: nn.Module, tokens: Tensor) -> Any:
    """The output of the model, computed without a graph and with a fixed random state."""
    seed_torch(0)
    return detached_copy(model(tokens))


def logit_gradients(model: nn.Module, tokens: Tensor, up: Tensor, *parameters: Tensor) -> list[Tensor | None]:
    """The gradients of these parameters when the logits receive `up`; None for a parameter without one."""
    seed_torch(0)
    with torch.enable_grad():
        given = model(tokens)
    asked = [p for p in parameters if p.requires_grad] if given.requires_grad else []
    found = dict(zip(asked, torch.autograd.grad(given, asked, up, allow_unused=True) if asked else []))
    return [found.get(p) for p in parameters]


def without_kinds(changes: list[list[str]], *expected: str) -> list[list[str]]:
    """The changes that a witness reported, without these expected kinds."""
    return [change for change in changes if change[0] not in expected]


@family(
    sections=(
        "the head adds nothing",
        "everything else is as before",
        "one within another works",
        "after it the model is as it was",
        "an exception comes through and nothing is left",
    ),
    axes={**AXES, "failure": ("own", "RuntimeError", "KeyError", "KeyboardInterrupt")},
)
def silences_a_head(call: Call, rng: Rng, case: Any, seen: Sections) -> None:
    """For `with function(model, layer, head):`."""
    silent, rest, nested, after, failing = seen.values()
    model, other = Transformer(rng, case), Transformer(rng, case)
    callers = add_callers_hooks(model, case.hooks)
    layers, heads = rng.shuffled(range(case.blocks)), rng.shuffled(range(case.heads))
    block: Any = model.blocks[layers[0]]
    keeper = OutputKeeper(block.attention)
    tokens, more, others = (some_tokens(rng, m, case, n) for m, n in ((model, 5), (model, 3), (other, 4)))
    up = rng.tensor(2, 5, model.unembed.out_features, dtype=case.dtype)
    before = Witness(model=model, other=other)
    with call(model, layers[0], heads[0]):
        silent["the logits"], silent["the logits of other tokens"] = (
            compute_logits(model, tokens),
            compute_logits(model, more),
        )
        with torch.no_grad():
            silent["the logits under no_grad"] = compute_logits(model, tokens)
        rest["changed within it"] = without_kinds(before.changes(), "hook-left")
        rest["the output of attention was written into"] = keeper.was_overwritten()
        rest["gradients"] = logit_gradients(model, tokens, up, model.embed.weight, block.mix.weight)
        rest["the logits of another model"] = compute_logits(other, others)
        for where, (layer, one) in {
            "of its block": (layers[0], heads[-1]),
            "elsewhere": (layers[-1], heads[0]),
        }.items():
            if (layer, one) != (layers[0], heads[0]):
                with call(model, layer, one):
                    nested[f"the logits without another head {where}"] = compute_logits(model, tokens)
        with call(other, layers[-1], heads[-1]):
            nested["the logits of two models"] = [compute_logits(model, tokens), compute_logits(other, others)]
        nested["the logits without the first head again"] = compute_logits(model, tokens)
    after["changed"] = before.changes()
    after["the logits"], after["the logits of another model"] = (
        compute_logits(model, tokens),
        compute_logits(other, others),
    )
    with torch.no_grad(), call(model, layers[-1], heads[0]):
        nested["the logits without a head some time later"] = compute_logits(model, tokens)
        rest["grad mode is on"] = torch.is_grad_enabled()
    after["changed the second time"] = before.changes()
    rest["what hooks of the caller saw"] = callers.log[:200]

    failure = Failure(case.failure)

    def broken() -> None:
        with call(model, layers[0], heads[0]), model.norm.register_forward_pre_hook(failure.raise_if_due):
            model(tokens)

    failing["the exception"] = failure.outcome_during(broken)
    failing["changed after an exception"] = before.changes()
    failing["the logits"] = compute_logits(model, tokens)


@family(
    sections=(
        "every token from start on is moved",
        "the rest of what the block returns stays",
        "what the block computed is not overwritten",
        "gradients flow through it",
        "each handle removes its own hook",
        "nothing else changes",
    ),
    axes={**AXES, "start": ("left out", "inside", "behind"), "number": ("negative", "fraction", "large", "zero")},
)
def steers_blocks(call: Call, rng: Rng, case: Any, seen: Sections) -> None:
    """For `handle = function(model, layer, direction, scale, start=0)`."""
    moved, rest, kept, grads, handles, same = seen.values()
    model, other = Transformer(rng, case), Transformer(rng, case)
    add_callers_hooks(model, case.hooks)
    layer = rng.integer(0, case.blocks - 1)
    block, width = model.blocks[layer], model.unembed.in_features
    keeper = OutputKeeper(block)
    tokens, longer, one, others = (
        some_tokens(rng, m, case, n) for m, n in ((model, 5), (model, 7), (model, 1), (other, 5))
    )
    direction, second = (rng.tensor(width, low=-1, high=1, dtype=case.dtype, values="full") for _ in range(2))
    scale = beyond_float32(rng.number(case.number) * 9 / 7)
    start = {"left out": (), "inside": (rng.integer(1, 4),), "behind": (rng.integer(5, 6),)}[case.start]
    hidden = rng.tensor(2, 5, width, dtype=case.dtype, values="full")
    cache = rng.tensor(2, 2, width, dtype=case.dtype, values="full")
    up = rng.tensor(2, 5, model.unembed.out_features, dtype=case.dtype)
    of_other = rng.tensor(other.unembed.in_features, low=-1, high=1, dtype=case.dtype, values="full")
    before = Witness(model=model, other=other, direction=direction, hidden=hidden, cache=cache)
    handle = call(model, layer, direction, scale, *start)
    same["changed"] = without_kinds(before.changes(), "hook-left")
    for name, some in (("", tokens), (" of more tokens", longer), (" of a single token", one)):
        moved[f"the logits{name}"] = compute_logits(model, some)
    with torch.no_grad():
        moved["the logits under no_grad"] = compute_logits(model, tokens)
    seed_torch(0)
    given = block(hidden, cache=cache)
    rest["a block with a cache returns"] = (
        tuple(map(detached_copy, given)) if isinstance(given, tuple) else detached_copy(given)
    )
    kept["the output of the block was written into"] = keeper.was_overwritten()
    kept["changed in a call of the block"] = without_kinds(before.changes(), "hook-left")
    grads["gradients"] = logit_gradients(model, tokens, up, model.embed.weight, model.position.weight)
    same["the logits of another model"] = compute_logits(other, others)

    with torch.no_grad():
        again = call(model, layer, second, 0.75, 1)
        elsewhere = call(other, layer, of_other, 0.5)
        same["grad mode is on"] = torch.is_grad_enabled()
    handles["the logits with two of them"] = compute_logits(model, tokens)
    for name, one_handle in (("the first", handle), ("the second", again), ("that of another model", elsewhere)):
        handles[f"{name} has remove()"] = remove_handle(one_handle)
        handles[f"the logits without {name}"] = compute_logits(model, tokens)
        handles[f"the logits of another model without {name}"] = compute_logits(other, others)
    handles["changed after remove()"] = before.changes()
