"""Scenes for functions that remove the hooks of a model, or copy a model without them."""

from collections import Counter
from typing import Any

import torch
from torch import nn
from torch.nn.modules.module import register_module_forward_hook

from graders.probing.asking import shares_storage
from graders.scenes.hooked_models import (
    AXES,
    ROOT,
    HookedModel,
    a_hooked_model,
    another_flag,
    count_module_hooks,
    flags_of,
    output_of,
    register_everywhere,
    state_hooks,
)
from graders.scenes.instruments.models import fill_grads, tie_parameters
from graders.scenes.instruments.witness import Witness
from graders.scenes.scene import Sections
from graders.scenes.story import Call, family
from graders.wire.draws import Rng


@family(
    sections=(
        "all module hooks are removed",
        "the number of hooks is returned",
        "hooks of other kinds stay",
        "new hooks can be registered",
        "old handles are harmless",
        "nothing else changes",
    ),
    axes=AXES,
)
def removes_hooks(call: Call, rng: Rng, case: Any, seen: Sections) -> None:
    """For `function(model)`, which removes all module hooks of a model and returns how many there were."""
    gone, number, others, new, harmless, same = seen.values()
    hooked = a_hooked_model(rng, case)
    model, x, flags = hooked.model, hooked.draw(), flags_of(hooked.model)
    with register_module_forward_hook(lambda *args: None):
        before = Witness(model=model)
        parameters = Witness(parameters=dict(model.named_parameters()))
        number["the result"] = call(model)
        gone.update(count_module_hooks(model, hooked.names))
        others["changed"], same["changed"] = parameters.changes(), before.changes()
        others["how many hooks of state_dict and load_state_dict there are"] = state_hooks(model)
        number["the result of another call"] = call(model)
    gone["the output of the model"] = output_of(model, x)
    gone["how often old hooks are called"] = len(hooked.log)

    hooked.log.clear()
    new["how many modules have another flag `_is_full_backward_hook`"] = another_flag(flags, model)
    register_everywhere(hooked, new)
    harmless["remove() of old handles"] = "works"
    try:
        for handle in hooked.handles:
            handle.remove()
    except Exception as error:
        harmless["remove() of old handles"] = f"raises {type(error).__name__}: {error}"
    output_of(model, x)
    harmless["how often new hooks are called"] = dict(Counter(hooked.log))


@family(
    sections=(
        "the copy has no hooks and computes the same",
        "the copy has everything else",
        "what is shared inside the model is shared inside the copy",
        "copy and original share nothing",
        "the original stays as it was",
        "new hooks can be registered on the copy",
        "it holds when a part cannot be copied",
    ),
    axes=AXES,
)
def copies_models(call: Call, rng: Rng, case: Any, seen: Sections) -> None:
    """For `function(model)`, which returns a copy without module hooks."""
    bare, rest, inside, apart, same, new, failing = seen.values()
    hooked = a_hooked_model(rng, case)
    model, x, flags = hooked.model, hooked.draw(), flags_of(hooked.model)
    tie_parameters(model, f"{hooked.names['first']}.weight", f"{hooked.names['nested']}.layer.weight")
    model.register_buffer("kept", rng.tensor(2, dtype=case.dtype), persistent=False)
    before = Witness(model=model)
    copied = call(model)
    same["changed"] = before.changes()
    same["how often hooks are called meanwhile"] = len(hooked.log)
    bare["the result is a module"] = isinstance(copied, nn.Module)
    if not isinstance(copied, nn.Module):
        return
    bare.update(count_module_hooks(copied, hooked.names))
    rest.update(describe_model(copied))
    inside["names, and the first name of the same thing"] = names_of_things(copied)
    apart["the copy has in common with the original"] = find_shared_part(model, copied)
    bare["the output of the copy"] = output_of(copied, x)

    of_copy = HookedModel(copied, hooked.names, hooked.draw, case.legacy)  # type: ignore[arg-type]  # a right answer returns a Container
    new["how many modules have another flag `_is_full_backward_hook`"] = another_flag(flags, copied)
    register_everywhere(of_copy, new)

    broken = a_hooked_model(rng, case).model
    broken.output_kept = fill_grads(nn.Linear(2, 2))(torch.ones(2))
    before = Witness(model=broken)
    try:
        call(broken)
        failing["the exception of `copy.deepcopy`"] = "swallowed"
    except RuntimeError as error:
        own = "created explicitly by the user" in str(error)
        failing["the exception of `copy.deepcopy`"] = "came through" if own else str(error)
    failing["changed after an exception"] = before.changes()


def describe_model(model: nn.Module) -> dict[str, Any]:
    """Everything that a copy must have in common with its model; hooks do not count."""
    modules = list(model.named_modules(remove_duplicate=False))
    tensors = dict([*model.named_parameters(), *model.named_buffers()])
    return {
        "the modules": [f"{name or ROOT}: {type(module).__name__}" for name, module in modules],
        "the modes": [f"{name or ROOT}: {'train' if module.training else 'eval'}" for name, module in modules],
        "requires_grad": {name: tensor.requires_grad for name, tensor in tensors.items()},
        "parameters and buffers": {name: tensor.detach().clone() for name, tensor in tensors.items()},
        "how many hooks of state_dict and load_state_dict there are": state_hooks(model),
        "how many parameters have hooks": sum(bool(p._backward_hooks) for p in model.parameters()),
        "how many parameters have a .grad": sum(p.grad is not None for p in model.parameters()),
    }


def names_of_things(model: nn.Module) -> dict[str, str]:
    """For each name of a module, parameter or buffer, the first name of the same object."""
    things = [
        *model.named_modules(remove_duplicate=False),
        *model.named_parameters(remove_duplicate=False),
        *model.named_buffers(remove_duplicate=False),
    ]
    first: dict[int, str] = {}
    return {name: first.setdefault(id(thing), name) for name, thing in things}


def find_shared_part(model: nn.Module, other: nn.Module) -> str:
    """The name of the first module or tensor that is part of both; "nothing" if there is none."""
    own = {id(module) for module in model.modules()}
    tensors = [*model.parameters(), *model.buffers()]
    for name, module in other.named_modules():
        if id(module) in own:
            return f"the module `{name}`" if name else "all of it"
    for name, tensor in (*other.named_parameters(), *other.named_buffers()):
        if any(shares_storage(tensor, mine) for mine in tensors):
            return f"the memory of `{name}`"
    return "nothing"
