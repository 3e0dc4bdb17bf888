"""Exercise 11-clean-copy."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from graders.authoring import Mistake, apart, exercise, expect, no_hook_left, shares_storage, tensor_hooks
from graders.lesson_11_hygiene.judging import (
    all_new_hooks_fire,
    chain,
    counts_seen,
    left_on,
    linear,
    some_hooks,
    some_kinds_cleared,
    trace,
)
from graders.lesson_11_hygiene.shared import (
    KINDS,
    build,
    change_values,
    copies_of_grads,
    forward_backward,
    hooks_by_kind,
    new_hooks,
    register,
    same_grads,
)


def hook_numbers(model: nn.Module) -> list[list[int]]:
    """The numbers by which torch knows the hooks of each module, kind by kind, in the order in which they fire."""
    return [list(getattr(module, kind, None) or ()) for module in model.modules() for kind in KINDS]


@exercise(
    "11-clean-copy",
    points=2,
    title="A copy without hooks",
    hints=(
        "`copy.deepcopy(model)` copies everything that counts: types, parameters, buffers, modes, and what is shared "
        "stays shared. It also copies the module hooks.",
        "So strip the copy afterwards. You wrote the function for that in the last exercise.",
        "Strip the copy, not the original: the original keeps its hooks. Never run either of them.",
    ),
    cases=({"mode": "train", "legacy": False}, {"mode": "eval", "legacy": True}, {"mode": "train", "legacy": False}),
)
class TestCleanCopy:
    """Write `clean_copy(model)`. Return a deep copy of `model`, as `copy.deepcopy` makes it, but without any module
    hooks: no forward pre-hooks, forward hooks, full backward pre-hooks and backward hooks, on the model and on any
    module in it.

    The copy has the same types of modules under the same names, equal parameters and buffers, and the same modes. It
    shares no memory with the original. Parameters that do not require grad still do not. What is shared inside the
    model (a weight that two layers use, a module under two names, a buffer) is shared in the same way inside the copy.
    New hooks can be registered on the copy; the flag that a legacy hook leaves may stay as it is.

    The original stays as it was, with its modes, its parameters and their `.grad`. It keeps all its hooks, with their
    options and in their order, also those on its parameters. None of its hooks fires during the call. Running the copy
    later fires none of them either.

    **Example.** Let `model = nn.Linear(2, 1)` have a forward hook that returns `2 * output`. For
    `copied = clean_copy(model)`, `model(x)` is then twice `copied(x)`.
    """

    def draw(rng, mode, legacy):
        child, block, inside, tied, act, again, norm, bag, deep, cut = rng.names(10)
        weighted, by = linear(rng), rng.tensor(3, low=0.5)
        children = {
            child: weighted,
            block: chain({act: ["layer", "tanh"], inside: linear(rng), again: ["same", act]}, [act, inside, again]),
            tied: ["linear", weighted[1], rng.tensor(3, low=-1, high=1)],
            norm: ["norm", rng.tensor(3, low=0.5), rng.tensor(3, low=-1, high=1)],
            bag: [
                "list",
                [["layer", "divide", by], chain({deep: linear(rng), cut: ["layer", "divide", by]}, [deep, cut])],
            ],
        }
        order = [child, block, norm, f"{bag}.0", tied, f"{bag}.1"]
        places = {"child": child, "container": block, "inside": f"{block}.{inside}", "shared": f"{block}.{act}"}
        places |= {"never": bag, "entry": f"{bag}.0", "deep": f"{bag}.1.{deep}"}
        return {
            "spec": chain({key: children[key] for key in rng.shuffled(list(children))}, order),
            "ties": [[child, tied, "weight"], [f"{bag}.0", f"{bag}.1.{cut}", "by"]],
            "hooks": some_hooks(rng, places, legacy),
            "places": places,
            "mode": mode,
            "x": rng.tensor(4, 3),
            "shift": rng.uniform(1, 2),
            "factor": rng.uniform(2, 4),
        }

    def alive(spec, x, mode, shift, factor):
        plain, hooked = plain_output(spec, x, mode), factor * plain_output(spec, x + shift, mode)
        other = plain_output(spec, x, "eval" if mode == "train" else "train")
        return apart(plain, hooked, other, plain_output(spec, x + shift, mode), factor * plain)

    def oracle(spec, x, mode, shift, factor):
        return plain_output(spec, x, mode), factor * plain_output(spec, x + shift, mode)

    def probe(student, spec, ties, hooks, places, mode, x, shift, factor):
        model, log = build(spec).train(mode == "train"), []
        for first, second, name in ties:
            setattr(model.get_submodule(second), name, getattr(model.get_submodule(first), name))
        child, inside = model.get_submodule(places["child"]), model.get_submodule(places["inside"])
        inside.train(mode != "train")
        inside.bias.requires_grad_(False)
        old = register(model, hooks, log) + change_values(model, shift, factor)
        child.weight.register_hook(lambda grad: None)
        child.weight.grad = torch.ones_like(child.weight)
        grads = copies_of_grads(model)
        before, described, order = hooks_by_kind(model), description(model), hook_numbers(model)

        copied = student.clean_copy(model)
        seen = {"module": isinstance(copied, nn.Module), "hooks": {"before": before, "left": hooks_by_kind(model)}}
        seen |= {"fired_during_the_call": list(log), "original_kept": description(model) == described}
        seen["order_kept"] = hook_numbers(model) == order
        seen["original_grads_kept"] = same_grads(copies_of_grads(model), grads)
        grads = copies_of_grads(model)
        seen["parameter_hooks"] = tensor_hooks(*model.parameters())
        if not isinstance(copied, nn.Module):
            return seen
        seen |= {f"{part}_copied": same for part, same in compared(description(copied), described).items()}
        seen["hooks"]["copied"] = hooks_by_kind(copied)
        seen["shares"] = shares_anything(model, copied)
        log.clear()
        seen["output"], seen["fired_by_the_copy"] = forward_backward(copied, x), list(log)
        seen["grads_kept"] = same_grads(copies_of_grads(model), grads)
        seen["new"] = new_hooks(copied, [], [places["entry"]], x)["new"]
        log.clear()
        seen["original_output"], seen["fired_by_the_original"] = forward_backward(model, x), sorted(set(log))
        for handle in old:
            handle.remove()
        seen["left_after_remove"] = sum(map(sum, hooks_by_kind(model).values()))
        return seen

    mistakes = (
        Mistake(
            "hooks-copied",
            lambda seen: (
                not seen["shares"].value
                and seen["hooks"]["copied"].value == seen["hooks"]["before"].value == seen["hooks"]["left"].value
            ),
            "The copy still has the hooks. `deepcopy` copies module hooks along, and a copied function is the same "
            "function: the copy writes into the log of the original. Strip the copy.",
        ),
        Mistake(
            "cleared-original",
            lambda seen: (
                not seen["shares"].value
                and sum(counts_seen(seen["hooks"]["left"])) < sum(counts_seen(seen["hooks"]["before"]))
            ),
            "The original has lost its hooks. Make the deep copy first, then strip the copy, and leave the original "
            "alone.",
        ),
        Mistake(
            "shared-parameters",
            lambda seen: seen["shares"].value is True,
            "The copy and the original share tensors or other state, so what changes one changes the other. "
            "`copy.copy` and `load_state_dict(..., assign=True)` share; `copy.deepcopy` does not.",
        ),
        Mistake(
            "one-kind-only",
            lambda seen: (
                not seen["shares"].value
                and some_kinds_cleared(seen["hooks"]["before"].value, seen["hooks"]["copied"].value)
            ),
            "Some kinds of hooks are still on the copy. There are four: forward pre-hooks, forward hooks, backward "
            "pre-hooks and backward hooks.",
        ),
        Mistake(
            "children-only",
            lambda seen, spec: (
                not seen["shares"].value
                and bool(left_on(seen["hooks"]["before"].value, seen["hooks"]["copied"].value, spec))
            ),
            "Some modules of the copy still have their hooks. `modules()` yields the copy itself and everything in it, "
            "at any depth; `children()` only the next level.",
        ),
        Mistake(
            "broken-ties",
            lambda seen: (
                seen["shares"].value is False
                and seen["ties_copied"].value is False
                and seen["names_copied"].value is True
            ),
            "What is shared inside the model is no longer shared inside the copy: two layers that used one weight now "
            "have a weight each. Copy the whole model with a single `deepcopy`.",
        ),
        Mistake(
            "changed-the-mode",
            lambda seen: seen["modes_copied"].value is False and seen["names_copied"].value is True,
            "A module of the copy is in another mode than its original. A copy is to be the same: leave out `eval()` "
            "and `train()`.",
        ),
    )

    def test_the_copy_has_no_hooks_and_computes_the_same(seen, spec, x, mode):
        expect(seen["module"]).is_true("your function did not return a module")
        if left := sum(counts_seen(seen["hooks"]["copied"])):
            expect(seen["hooks"]["copied"]).fail(f"the copy still has {left} module hooks")
        expect(seen["output"]).close_to(plain_output(spec, x, mode))
        expect(seen["fired_by_the_copy"]).equals([])

    def test_the_copy_has_everything_else(seen):
        expect(seen["names_copied"]).is_true("the copy has other modules, or other types, names or settings of modules")
        expect(seen["values_copied"]).is_true("a parameter or buffer of the copy has another name, value or dtype")
        expect(seen["modes_copied"]).is_true("a module of the copy is in another mode (training or eval)")
        expect(seen["requires_grad_copied"]).is_true("a parameter of the copy has another `requires_grad`")

    def test_what_is_shared_stays_shared_inside_the_copy(seen):
        expect(seen["ties_copied"]).is_true(
            "a weight, buffer or module that the model has under two names is no longer one in the copy"
        )

    def test_copy_and_original_share_nothing(seen):
        expect(seen["shares"]).is_false("the copy and the original share memory")
        expect(seen["grads_kept"]).is_true("a backward pass through the copy wrote `.grad` on the original")

    def test_the_original_keeps_its_hooks(seen, spec, hooks, places, x, mode, shift, factor):
        expect(seen["original_kept"]).is_true("the original has changed")
        expect(seen["original_grads_kept"]).is_true("the `.grad` of a parameter of the original has changed")
        if seen["hooks"]["left"].value != seen["hooks"]["before"].value:
            expect(seen["hooks"]["left"]).fail("the hooks on the original are not those that were there before")
        expect(seen["order_kept"]).is_true("the hooks on the original are others, or in another order")
        no_hook_left(seen["parameter_hooks"], before=1)
        expect(seen["original_output"]).close_to(factor * plain_output(spec, x + shift, mode))
        fired = sorted({label for name, _, _, label in hooks if name != places["never"]})
        expect(seen["fired_by_the_original"]).equals(fired)
        expect(seen["left_after_remove"]).equals(0)

    def test_no_hook_fires_during_the_call(seen):
        expect(seen["fired_during_the_call"]).equals([])

    def test_new_hooks_can_be_registered_on_the_copy(seen, spec, places, x):
        all_new_hooks_fire(seen, spec, [places["entry"]], x)


def plain_output(spec: list[Any], x: Tensor, mode: str) -> Tensor:
    """What the model computes without hooks."""
    return trace(spec, x, batch_statistics=mode == "train")[-1].output


def description(model: nn.Module) -> dict[str, Any]:
    """All that a copy must have, part by part."""
    modules = list(model.named_modules(remove_duplicate=False))
    tensors = [*model.named_parameters(remove_duplicate=False), *model.named_buffers(remove_duplicate=False)]
    first: dict[int, str] = {}
    return {
        "names": [
            (name, type(module), getattr(module, "order", None), getattr(module, "operation", None))
            for name, module in modules
        ],
        "values": [(name, tensor.dtype, tensor.tolist()) for name, tensor in tensors],
        "modes": [module.training for _, module in modules],
        "requires_grad": [tensor.requires_grad for _, tensor in tensors],
        "ties": [first.setdefault(id(part), name) for name, part in [*modules, *tensors]],
    }


def compared(first: dict[str, Any], other: dict[str, Any]) -> dict[str, bool]:
    """For each part of two descriptions, whether they agree."""
    return {part: first[part] == other[part] for part in other}


def shares_anything(first: nn.Module, other: nn.Module) -> bool:
    """Whether two models have a module, the memory of a tensor, or a list of settings in common."""
    pairs = [(a, b) for a in [*first.parameters(), *first.buffers()] for b in [*other.parameters(), *other.buffers()]]
    own = {id(part) for module in first.modules() for part in (module, getattr(module, "order", module))}
    common = any(id(part) in own for module in other.modules() for part in (module, getattr(module, "order", module)))
    return common or any(shares_storage(a, b) for a, b in pairs)
