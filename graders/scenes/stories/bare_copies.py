"""Stories for functions that copy a model without its hooks."""

from typing import Any

import torch

from graders.scenes.stories.failing import FAILURES, an_error
from graders.scenes.stories.hooks_everywhere import (
    HOOKED,
    a_full_model,
    a_hooked_model,
    a_model,
    hooked_anew,
    hooks_left,
    with_another_hook,
)
from graders.scenes.story import Call, Draw, Seen
from graders.scenes.watch import Watch

COPIED = {**HOOKED, **FAILURES}


def without_hooks(call: Call, draw: Draw, case: Any) -> Seen:
    """The copy has no hooks and computes the same."""
    model, handles = a_hooked_model(draw, case)
    copied = call(model)
    yield "the type of the result", type(copied).__name__
    x = draw.tensor(3, 2).requires_grad_()
    out = copied(x)
    out.sum().backward()
    yield "the output of the copy", out.detach()
    yield "what hooks of the original log", model.log
    left = hooks_left(copied)
    yield "the hooks that are left, module by module", left


def none_anywhere(call: Call, draw: Draw, case: Any) -> Seen:
    """There are no hooks of any kind on any module of the copy."""
    model = a_full_model(draw, case)
    copied = call(model)
    left = hooks_left(copied)
    yield "what is left of hooks of all four kinds on every module", left


def everything_else(call: Call, draw: Draw, case: Any) -> Seen:
    """The copy has everything else."""
    model = a_model(draw, case)
    model[1].register_buffer("kept", draw.tensor(2), persistent=False)
    model.note = "mine"
    copied = call(model)
    yield "the types of its modules", {name: type(m).__name__ for name, m in copied.named_modules()}
    yield "for each module, whether it is in training mode", {name: m.training for name, m in copied.named_modules()}
    yield "its parameters", {name: p.detach() for name, p in copied.named_parameters()}
    yield "its buffers", dict(copied.named_buffers())
    yield "its state_dict", dict(copied.state_dict())
    yield "for each parameter, whether it requires grad", [p.requires_grad for p in copied.parameters()]
    yield "for each parameter, its .grad", [p.grad for p in copied.parameters()]
    yield "an attribute of the caller", copied.note


def other_hooks_too(call: Call, draw: Draw, case: Any) -> Seen:
    """Hooks of `state_dict` and `load_state_dict` are copied, and those of parameters are not."""
    model = a_model(draw, case)
    model = with_another_hook(model, case)
    copied = call(model)
    copied.load_state_dict(copied.state_dict())
    x = draw.tensor(3, 2)
    copied(x).sum().backward()
    yield "the hooks that fire", model.log


def shared_inside(call: Call, draw: Draw, case: Any) -> Seen:
    """What is shared inside the model is shared inside the copy."""
    model = a_model(draw, case)
    copied = call(model)
    yield "whether the layer inside is the first one", copied[1][1] is copied[0]
    yield "whether the third one is the first", copied[2] is copied[0]
    yield "whether the last one has the weight of the first", copied[3].weight is copied[0].weight
    yield "how many modules there are", len(list(copied.modules()))
    k = draw.number(-1, 1)
    with torch.no_grad():
        copied[0].weight.fill_(k)
    yield "the weight of the last when that of the first is filled", copied[3].weight.detach()


def nothing_in_common(call: Call, draw: Draw, case: Any) -> Seen:
    """Copy and original share nothing."""
    model = a_model(draw, case)
    model[1].register_buffer("kept", draw.tensor(2), persistent=False)
    model.notes = [[1]]
    copied = call(model)
    for t in [*copied.parameters(), *copied.buffers()]:
        t.data.zero_()
    yield "parameters of the original when those of the copy are 0", [p.detach() for p in model.parameters()]
    yield "buffers of the original after that", dict(model.named_buffers())
    yield "the modules that both have", [name for name, m in copied.named_modules() if m in set(model.modules())]
    copied.notes[0].append(2)
    yield "a list of the original when that of the copy gets longer", model.notes


def original_stays(call: Call, draw: Draw, case: Any) -> Seen:
    """The original stays as it was."""
    model, handles = a_hooked_model(draw, case)
    model = with_another_hook(model, case)
    before = Watch(model=model)
    call(model)
    yield "by the call", before.differences()
    yield "the hooks that fire in the meantime", model.log
    x = draw.tensor(3, 2)
    model(x).sum().backward()
    yield "the hooks that fire after it", model.log


def all_hooks_stay(call: Call, draw: Draw, case: Any) -> Seen:
    """Hooks of all four kinds stay on the original."""
    model = a_full_model(draw, case)
    call(model)
    left = hooks_left(model)
    yield "the hooks of the original, module by module", left


def removed_hooks_stay_away(call: Call, draw: Draw, case: Any) -> Seen:
    """What the caller removes from the original does not come back."""
    model, handles = a_hooked_model(draw, case)
    call(model)
    for handle in handles:
        handle.remove()
        model.log.append("one is removed")
    call(model)
    left = hooks_left(model)
    yield "the hooks of the original when the caller has removed them, after another call", left


def new_on_the_copy(call: Call, draw: Draw, case: Any) -> Seen:
    """New hooks can be registered on the copy."""
    model, handles = a_hooked_model(draw, case)
    copied = call(model)
    new = hooked_anew(copied, case)
    x = draw.tensor(3, 2).requires_grad_()
    copied(x).sum().backward()
    yield "what new hooks log", copied.log
    for handle in new:
        handle.remove()
        copied.log.append("one is removed")
    copied(x).sum().backward()
    yield "the log when they are removed", copied.log


def cannot_be_copied(call: Call, draw: Draw, case: Any) -> Seen:
    """What copying raises comes through, and the original is unchanged."""
    model, handles = a_hooked_model(draw, case)
    error = an_error(draw, case)

    def fails(memo: Any) -> Any:
        raise error

    model[3].__deepcopy__ = fails
    before = Watch(model=model)
    came = None
    try:
        call(model)
    except (Exception, type(error)) as caught:
        came = repr(caught)
    yield "the exception", came
    yield "by a call that raised", before.differences()


ORIGINAL = (original_stays, all_hooks_stay, removed_hooks_stay_away)
