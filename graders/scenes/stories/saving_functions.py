"""Stories for functions that run one of the caller's functions while hooks for saved tensors are active."""

from typing import Any

import torch
from torch import nn

from graders.scenes.story import Call, Draw, Seen, told
from graders.scenes.watch import Watch

AXES = {
    "saves": (
        "a product",
        "a result",
        "a view",
        "an expanded tensor",
        "places",
        "a mask",
        "data",
        "another dtype",
        "matrices",
        "temporaries",
        "in a pass of its own",
    ),
    "dtype": ("float32", "float64"),
    "result_is": ("tensor", "tuple", "list", "nothing"),
    "failure": ("ValueError", "RuntimeError", "KeyError", "KeyboardInterrupt"),
}


@told
def a_function(draw: Draw, case: Any) -> Any:
    """Two leaves, a function that saves tensors, and the list into which it writes a loss."""
    if case.saves == "places":
        w = torch.linspace(-2.3, 1e5, 3001).requires_grad_()  # float16 has no 2049, and nothing as large as the end
    elif case.saves == "another dtype":
        w = draw.tensor(2, 2).to(torch.float64 if case.dtype == "float32" else torch.float32).requires_grad_()
    else:
        w = draw.tensor(2, 2).requires_grad_()
    x = draw.tensor(2, 2).requires_grad_()
    k = draw.tensor(2, 2)
    losses: list[Any] = []

    def fn() -> Any:
        if case.saves == "a result":
            out = torch.relu(w) + torch.sigmoid(x)
        elif case.saves == "a view":
            out = w.mT[:1] * x[:, 1:]
        elif case.saves == "an expanded tensor":
            out = w.expand(3, 2, 2) * x
        elif case.saves == "places":
            out = w[[1, 2049, 2999]].square()
        elif case.saves == "a mask":
            out = torch.where(k > 0, w * x, x)
        elif case.saves == "data":
            out = k * w
        elif case.saves == "matrices":
            out = w @ x + (w.double() @ x.double()).to(w.dtype)  # a product of matrices promotes no dtype
        elif case.saves == "temporaries":
            out = (2 * w).square() + (4 * w).square() + (w / 2).square()
        elif case.saves == "in a pass of its own":
            out = w * torch.autograd.grad((x * x).sum(), x, create_graph=True)[0]
        else:
            out = w * x
        losses.append(out.sum())
        if case.result_is == "tuple":
            return out, 1
        elif case.result_is == "list":
            return [out]
        elif case.result_is == "nothing":
            return None
        else:
            return out

    return w, x, k, fn, losses


def counted(call: Call, draw: Draw, case: Any) -> Seen:
    """All bytes are counted."""
    w, x, k, fn, losses = a_function(draw, case)
    yield "the result", call(fn)
    yield "the result of a second call", call(fn)
    with torch.no_grad():
        found = call(lambda: w * w)
    yield "the result under no_grad", found


def of_a_parameter(call: Call, draw: Draw) -> Seen:
    """A parameter that is saved counts, too."""
    p = nn.Parameter(draw.tensor(2))
    found = call(lambda: p * p)
    yield "the result for a parameter", found


def passes(call: Call, draw: Draw, case: Any) -> Seen:
    """The caller runs backward later."""
    w, x, k, fn, losses = a_function(draw, case)
    call(fn)
    losses[0].backward(retain_graph=True)
    yield "w.grad after the first pass", w.grad
    yield "x.grad after the first pass", x.grad


def later_passes(call: Call, draw: Draw, case: Any) -> Seen:
    """A second backward pass gives the same gradients again."""
    w, x, k, fn, losses = a_function(draw, case)
    call(fn)
    losses[0].backward(retain_graph=True)
    losses[0].backward(retain_graph=True)
    yield "the gradients after two passes", (w.grad, x.grad)


def afresh(call: Call, draw: Draw, case: Any) -> Seen:
    """What another call saves is its own."""
    w, x, k, fn, losses = a_function(draw, case)
    u = draw.tensor(3).requires_grad_()
    cubes: list[Any] = []
    call(fn)
    call(lambda: cubes.append((u * u * u).sum()))
    losses[0].backward()
    yield "the gradients of the first function", (w.grad, x.grad)
    cubes[0].backward()
    yield "the gradient of the second one", u.grad


def numbers_of_two(call: Call, draw: Draw, case: Any) -> Seen:
    """The number of another call is its own."""
    w, x, k, fn, losses = a_function(draw, case)
    u = draw.tensor(3).requires_grad_()
    call(fn)
    yield "the result of a call for another function", call(lambda: u * u * u)


def runs_as_it_is(call: Call, draw: Draw, case: Any) -> Seen:
    """The function computes what it does without you, in the caller's grad mode."""
    w, x, k, fn, losses = a_function(draw, case)
    call(fn)
    modes: list[bool] = []
    call(fn)
    call(lambda: [modes.append(torch.is_grad_enabled()), fn()])
    yield "what fn computed, run by run", [loss.detach() for loss in losses]
    with torch.no_grad():
        call(lambda: modes.append(torch.is_grad_enabled()))
    yield "grad mode, run by run", modes


def returned_itself(call: Call, draw: Draw, case: Any) -> Seen:
    """The very object that fn returned is returned."""
    w, x, k, fn, losses = a_function(draw, case)
    returned: list[Any] = []

    def noted() -> Any:
        returned.append(fn())
        return returned[0]

    found = call(noted)
    yield "the result is what fn returned", found is returned[0]


def kept_in_full(call: Call, draw: Draw, case: Any) -> Seen:
    """After the call no tensor of the old dtype is left of what was saved."""
    import gc

    gc.freeze()  # so that only newer objects are looked at
    w = draw.tensor(1)[0].requires_grad_()
    k = torch.ones(1009, dtype=w.dtype)
    sums: list[Any] = []
    call(lambda: sums.append((w * k).square().sum()))
    torch.autograd.grad(sums[0], w, retain_graph=True)
    gc.collect()
    kept = [t for t in gc.get_objects() if type(t) is torch.Tensor and t is not k]
    gc.unfreeze()
    alive = sum(t.numel() == 1009 and t.dtype == w.dtype for t in kept)
    yield "how many tensors of the old dtype are still alive", alive


def nothing_else(call: Call, draw: Draw, case: Any) -> Seen:
    """Nothing of the caller changes, and no hook is left."""
    w, x, k, fn, losses = a_function(draw, case)
    w.grad = torch.ones_like(w)
    before = Watch(w=w, x=x, k=k)
    call(fn)
    yield "by the call", before.differences()
    yield "whether graphs save w itself after that", (w * w).grad_fn._saved_self is w


def fn_raises(call: Call, draw: Draw, case: Any) -> Seen:
    """An exception comes through, and no hook is left."""
    w = draw.tensor(2).requires_grad_()
    sums: list[Any] = []
    found = call(lambda: sums.append((w * w).sum()))
    sums[0].backward()
    yield "the result of a call in which nothing fails, and w.grad", (found, w.grad)
    error = draw.error(case.failure)

    def fails() -> None:
        w * w
        raise error

    before = Watch(w=w)
    came = None
    try:
        call(fails)
    except (Exception, type(error)) as caught:
        came = repr(caught)
    yield "the exception", came
    yield "by a call that raised", before.differences()
    yield "whether graphs save w itself after that", (w * w).grad_fn._saved_self is w
