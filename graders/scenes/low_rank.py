"""The scene for a function that adds a product of two small matrices to a layer of a transformer."""

from typing import Any

import torch
from torch import Tensor, nn

from graders.probing.asking import detached_copy, remove_handle
from graders.scenes.instruments.witness import Witness
from graders.scenes.scene import Call, Sections, family
from graders.scenes.transformer_edits import AXES, OutputKeeper, compute_logits, logit_gradients, without_kinds
from graders.scenes.transformers import Transformer, add_callers_hooks, some_tokens
from graders.wire.draws import Rng, beyond_float32


@family(
    sections=(
        "there are two new parameters and nothing is added yet",
        "the layer adds alpha / rank times the product",
        "training moves only the two",
        "remove() gives all back",
        "merged weights give the same outputs",
        "nothing else changes",
    ),
    axes={**AXES, "layer": ("mix", "mlp.0", "mlp.2", "unembed"), "rank": (2, 1, 3)},
)
def adds_low_rank(call: Call, rng: Rng, case: Any, seen: Sections) -> None:
    """For `handle = function(model, name, rank, alpha)`."""
    begins, adds, trains, gone, merged, same = seen.values()
    model, other = Transformer(rng, case), Transformer(rng, case)
    add_callers_hooks(model, case.hooks)
    name = case.layer if case.layer == "unembed" else f"blocks.{rng.integer(0, case.blocks - 1)}.{case.layer}"
    layer: Any = model.get_submodule(name)
    alpha, keeper = beyond_float32(rng.uniform(1, 3) * 9 / 7), OutputKeeper(layer)
    tokens, others = some_tokens(rng, model, case, 5), some_tokens(rng, other, case, 4)
    up = rng.tensor(2, 5, model.unembed.out_features, dtype=case.dtype) / 4
    x = rng.tensor(layer.in_features, dtype=case.dtype, values="full")
    before, old = Witness(model=model, other=other), dict(model.named_parameters())
    plain = compute_logits(model, tokens)

    handle, of_other = call(model, name, case.rank, alpha), call(other, name, case.rank, 2)
    same["changed"] = without_kinds(before.changes(), "hook-left", "requires-grad", "parameters", "attribute-left")
    new = {key: p for key, p in model.named_parameters() if key not in old}
    begins["the new parameters"] = ", ".join(sorted(f"{key} {list(p.shape)} {p.dtype}" for key, p in new.items()))
    begins["the logits differ already"] = not torch.allclose(compute_logits(model, tokens), plain, 1e-3, 1e-3)
    a, b = (new.get(f"{name}.low_rank_{which}") for which in "ab")
    begins["low_rank_a has zeros"] = a is not None and bool((a == 0).any())
    begins["low_rank_b is zero"] = b is not None and not bool(b.any())
    if a is None or b is None or (a.shape[0], b.shape[-1]) != (case.rank, case.rank):
        return
    trains["what requires grad"] = ", ".join(sorted(key for key, p in model.named_parameters() if p.requires_grad))

    first = detached_copy(a)
    train_two_steps(model, tokens, up, [a, b])
    trains["low_rank_b is zero after two steps"] = not bool(b.any())
    fill_parameters(rng, new)
    adds["the logits"] = compute_logits(model, tokens)
    adds["the layer's outputs"] = [detached_copy(layer(some)) for some in (x, x[None])]
    fill_parameters(rng, new)
    with torch.no_grad():
        adds["the logits with other numbers"] = compute_logits(model, tokens)
    trains["gradients"] = logit_gradients(model, tokens, up, a, b)
    train_two_steps(model, tokens, up, list(model.parameters()))
    trains["low_rank_a after two steps"], trains["low_rank_b after two steps"] = detached_copy(a), detached_copy(b)
    product, trained = alpha / case.rank * detached_copy(b) @ detached_copy(a), compute_logits(model, tokens)
    trains["changed by training"] = without_kinds(
        before.changes(), "hook-left", "requires-grad", "parameters", "attribute-left"
    )
    same["the output of the layer was written into"] = keeper.was_overwritten()

    gone["the handle has remove()"] = remove_handle(handle)
    gone["changed after remove()"] = [change for change in before.changes() if change[1].startswith("model")]
    try:
        gone["the logits"] = compute_logits(model, tokens)
    except AttributeError as error:  # a hook that was left on needs the removed parameters
        gone["the logits"] = f"raise AttributeError: {error}"
        return
    fill_parameters(rng, {key: p for key, p in other.named_parameters() if "low_rank" in key})
    same["the logits of another model that has its own"] = compute_logits(other, others)
    third = call(model, name, case.rank, alpha)
    again = getattr(layer, "low_rank_a", None)
    same["low_rank_a is the same the next time"] = isinstance(again, Tensor) and torch.equal(again, first)
    gone["the handles have remove()"] = [remove_handle(third), remove_handle(of_other)]
    gone["changed at the end"] = before.changes()
    weight = layer.weight
    layer.weight = nn.Parameter(weight + product)  # the embedding keeps its weight, even if it was shared
    merged["the logits are those of the trained model"] = torch.allclose(
        compute_logits(model, tokens), trained, 1e-3, 1e-3
    )


def fill_parameters(rng: Rng, parameters: dict[str, nn.Parameter]) -> None:
    """Fill parameters with drawn numbers, in the order of their names."""
    with torch.no_grad():
        for _, p in sorted(parameters.items()):
            p.copy_(rng.tensor(*p.shape, low=-1, high=1, dtype=p.dtype, values="full"))


def train_two_steps(model: nn.Module, tokens: Tensor, up: Tensor, parameters: list[nn.Parameter]) -> None:
    """Take two steps of gradient descent, for the parameters that require grad."""
    for _ in range(2):
        for p, grad in zip(parameters, logit_gradients(model, tokens, up, *parameters)):
            p.data -= 0 if grad is None else grad / 64
