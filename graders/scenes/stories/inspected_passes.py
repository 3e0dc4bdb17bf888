"""Stories for functions that run passes of a model, report what they saw, and change nothing.

They are called with `(model, loss_fn, x)`. The models are written outside, as text, and planted in the case: `model`,
and `other`, which is called in between.
"""

from typing import Any

import torch
from torch import nn

from graders.scenes.planted import written
from graders.scenes.stories.failing import FAILURES, a_failing_call
from graders.scenes.story import Call, Draw, Seen, told
from graders.scenes.watch import Watch

PASSES = {
    "dtype": ("float32", "float64"),
    "x_is": ("data", "leaf"),
    "grad": ("empty", "filled"),
    "modes": ("train", "eval", "mixed"),
    "hooks": ("none", "watching", "replacing"),
    **FAILURES,
    "raised_in": ("model", "loss", "backward"),
    "failing_run": (1,),
}
TWO_PASSES = PASSES | {"hooks": ("none", "watching"), "failing_run": (1, 2)}
"""For functions that run the model twice, and once without hooks."""
IMPOSSIBLE = (lambda raised_in, failing_run: raised_in == "model" and failing_run == 2,)  # by a hook of the model


@told
def a_model(draw: Draw, case: Any) -> Any:
    """A model in its state, and an input."""
    model = written("model", case.model)
    if draw.is_double:
        model.double()
    if case.modes == "eval":
        model.eval()
    if case.modes == "mixed":
        next(model.children()).eval()
    if case.hooks == "watching":
        model.register_full_backward_hook(lambda module, gi, go: None)
    if case.hooks == "replacing":
        model.register_forward_hook(lambda module, args, out: 2 * out)
    x = draw.tensor(4, 3)
    if case.x_is == "leaf":
        x.requires_grad_()
    return model, x


@told
def another_model(draw: Draw, case: Any) -> Any:
    """A model for a call in between."""
    torch.manual_seed(draw.choice(range(100)))
    other = written("other", case.other)
    if draw.is_double:
        other.double()
    return other


def reported(call: Call, draw: Draw, case: Any) -> Seen:
    """The result is right."""
    model, x = a_model(draw, case)
    found = call(model, lambda out: (out**3).sum(), x)
    yield "the result", found


def reported_anew(call: Call, draw: Draw, case: Any) -> Seen:
    """Neither of two calls affects the result of the other."""
    model, x = a_model(draw, case)
    found = call(model, lambda out: (out**3).sum(), x)
    for module in model.modules():
        module.training = not module.training
    later = call(model, lambda out: -(out * out).sum(), 2 * x.detach())
    yield "the result of a later call in the other mode", later
    other = another_model(draw, case)
    yield "the result for another model", call(other, lambda out: (out**3).sum(), x)
    yield "the result of the first call after that", found


def reported_inside(call: Call, draw: Draw, case: Any) -> Seen:
    """The loss may call the function for another model."""
    model, x = a_model(draw, case)
    other = another_model(draw, case)
    inner: list[Any] = []

    def loss_fn(out: Any) -> Any:
        if not inner:
            inner.append(call(other, lambda out: (out**3).sum(), x.detach()))
        return (out**3).sum()

    found = call(model, loss_fn, x)
    yield "the result around another call", found
    yield "the result of the call inside", inner


def one_run(call: Call, draw: Draw, case: Any) -> Seen:
    """The model and the loss run once."""
    model, x = a_model(draw, case)
    calls: list[str] = []
    model.register_forward_pre_hook(lambda module, args: calls.append("model"))
    call(model, lambda out: [calls.append("loss_fn"), (out**3).sum()][1], x)
    yield "the calls", calls


def nothing_else(call: Call, draw: Draw, case: Any) -> Seen:
    """Everything else stays as it was."""
    model, x = a_model(draw, case)
    if case.grad == "filled":
        for leaf in (*model.parameters(), x):
            leaf.grad = torch.full_like(leaf, 0.7)
    model.register_buffer("runs", torch.zeros(()), persistent=False)

    def counts(module: Any, args: Any, out: Any) -> None:
        module.runs += 1

    model.register_forward_hook(counts)
    before = Watch(model=model, x=x)
    found = call(model, lambda out: (out**3).sum(), x)
    yield "by the call", before.differences()
    yield "the result where there are gradients before", found
    yield "the next random number", torch.rand(1)


def something_raises(call: Call, draw: Draw, case: Any) -> Seen:
    """An exception of the model, the loss or the backward pass comes through, and nothing is left."""
    other, x = another_model(draw, case), draw.tensor(4, 3)
    if case.x_is == "leaf":
        x.requires_grad_()
    x.grad = torch.full_like(x, 0.7)
    yield "the result before that", call(other, lambda out: out.sum(), x)
    error, fails = a_failing_call(draw, case)
    if case.raised_in == "model":
        other[-1].register_forward_hook(fails)
    before = Watch(model=other, x=x)
    came = None
    try:
        if case.raised_in == "loss":
            call(other, lambda out: [fails(), out.sum()][1], x)
        else:
            call(other, lambda out: [out.register_hook(fails), out.sum()][1], x)
    except (Exception, type(error)) as caught:
        came = repr(caught)
    yield "the exception", came
    yield "by a call that raised", before.differences()


def hooks_stay(call: Call, draw: Draw, case: Any) -> Seen:
    """The hooks act as before, and their handles remove them."""
    x, k, model = draw.tensor(4, 3), draw.tensor(4, 3), nn.Sequential(nn.BatchNorm1d(3), nn.Tanh())
    if draw.is_double:
        model.double()
    norm: Any = model[0]
    handles = [
        norm.register_forward_pre_hook(lambda module, args: (args[0] * args[0],)),
        norm.register_full_backward_pre_hook(lambda module, go: (-go[0],)),
        norm.weight.register_hook(lambda grad: 3 * grad),
        norm.bias.register_post_accumulate_grad_hook(lambda p: setattr(p, "grad", p.grad / 2)),
    ]
    call(model, lambda out: (out * k).sum(), x)
    (model(x) * k).sum().backward()
    yield "what the hooks make of gradients", [norm.weight.grad, norm.bias.grad]
    for handle in handles:
        handle.remove()
    model.zero_grad()
    (model(x) * k).sum().backward()
    yield "the gradients after all handles are removed", [norm.weight.grad, norm.bias.grad]
    yield "how many hooks are left", len(norm._forward_pre_hooks) + len(norm._backward_pre_hooks)
