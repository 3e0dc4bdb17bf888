"""Lesson 4. After accumulation: post-accumulate-grad hooks."""

from __future__ import annotations

from collections.abc import Callable
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.sgd import sgd

from graders.box.probing import removed, snapshot, tensor_hooks
from graders.core.exercise import Mistake, exercise
from graders.core.expect import Seen, close, expect


def copied(log: Any) -> Any:
    """A copy of a list, so that what is appended later does not show; any other value as it is."""
    return list(log)[:60] if isinstance(log, list) else log


@exercise(
    "04-pass-and-total-norms",
    points=1,
    title="This pass and the total",
    hints=(
        "You need two kinds of hook on `p`: one that sees the gradient of this pass, and one that runs when `.grad` "
        "holds the new total.",
        "`register_hook` gives you the gradient of this pass; `.grad` is still the old one then. A hook that was "
        "registered with `register_post_accumulate_grad_hook` receives `p` itself, and `p.grad` is the new total.",
        "The order comes by itself: in every backward pass the tensor hook runs first. Both hooks append to the same "
        "list. `.item()` makes a Python float of a norm.",
    ),
    cases=(
        {"shape": (3,), "dtype": torch.float32, "old": False},
        {"shape": (2, 3), "dtype": torch.float64, "old": False},
        {"shape": (2, 2), "dtype": torch.float32, "old": True},
    ),
)
class TestPassAndTotalNorms:
    """Write `pass_and_total_norms(p)`. `p` is a leaf that requires grad, of any shape.

    Return a new, empty list at once. From then on each `backward()` that reaches `p` appends two entries to this same
    list:

    1. the tuple `("pass", norm)` with the norm of the gradient of this pass alone,
    2. the tuple `("total", norm)` with the norm of `p.grad` as it is after this pass.

    Here `norm` is the L2 norm over all elements, as a Python float. Between two passes the caller may set `p.grad` to
    `None`, or to another tensor. No gradient and no value is changed by your function.

    **Example.** After `p = torch.zeros(2, requires_grad=True)` and `log = pass_and_total_norms(p)`, run
    `(torch.tensor([3., 4.]) * p).sum().backward()` twice. Now `log` is
    `[("pass", 5.0), ("total", 5.0), ("pass", 5.0), ("total", 10.0)]`.
    """

    def draw(rng, shape, dtype, old):
        draw = {name: rng.tensor(*shape, dtype=dtype) for name in ("p", "x", "q", "k", "m")}
        return {**draw, "old": rng.tensor(*shape, dtype=dtype) if old else None}

    def alive(p, k, m, old):
        entries = norms_over((k, k, m), old)
        passes, totals = entries[::2], entries[1::2]
        return all(abs(a - b) > 0.05 for a, b in zip(passes[1:], totals[1:])) and len({*totals, 0.0}) == 4

    def probe(student, p, x, q, k, m, old):
        p.requires_grad_()
        x.requires_grad_()
        q.requires_grad_()
        p.grad = None if old is None else old.clone()
        before = snapshot(p)
        log = student.pass_and_total_norms(p)
        other = student.pass_and_total_norms(q)
        seen = {"start": copied(log)}
        for factor in (k, k, m):
            (factor * (p + x)).sum().backward()
        seen |= {"log": copied(log), "p.grad": snapshot(p.grad)}
        p.grad = None
        for factor in (m, -m):
            (factor * (p + x)).sum().backward()
        (m * q).sum().backward()
        return {**seen, "whole": copied(log), "other": copied(other), "x.grad": snapshot(x.grad),
                "q.grad": snapshot(q.grad), "kept": torch.equal(p.detach(), before)}  # fmt: skip

    mistakes = (
        Mistake(
            "reads-dot-grad-too-early",
            lambda seen, k, m, old: any(close_norms(labelled(seen, "total"), late) for late in lagging(k, m, old)),
            "Your total lags one pass behind. In a tensor hook, `.grad` is still the old one: it is written after "
            "all tensor hooks have run. Read it in a post-accumulate-grad hook.",
            raises="'NoneType' object has no attribute",
        ),
        Mistake(
            "pass-is-not-total",
            lambda seen, k, m: close_norms(labelled(seen, "total"), norms_over((k, k, m), None)[::2]),
            "Your total is the norm of this pass once more. The total is what `p.grad` holds after the pass: the sum "
            "over all passes since it was last cleared.",
        ),
        Mistake(
            "accumulated-grad",
            lambda seen, k, m, old: close_norms(labelled(seen, "pass"), norms_over((k, k, m), old)[1::2]),
            'Your "pass" is the norm of `p.grad`, and `.grad` adds up over passes. The gradient of this pass alone is '
            "what a tensor hook receives (`register_hook`).",
        ),
    )

    def test_each_pass_appends_its_own_norm_and_that_of_the_total(seen, k, m, old):
        expect(seen["start"]).has_length(0, "entries before the first pass")
        same_log(seen["log"], norms_over((k, k, m), old))

    def test_the_total_follows_when_the_caller_clears_it(seen, k, m, old):
        same_log(seen["whole"], norms_over((k, k, m), old) + norms_over((m, -m), None))

    def test_each_call_has_a_list_of_its_own(seen, m):
        same_log(seen["other"], norms_over((m,), None))

    def test_the_flow_is_unchanged(seen, k, m, old):
        expect(seen["p.grad"]).close_to(2 * k + m + (0 if old is None else old))
        expect(seen["x.grad"]).close_to(2 * k + m)
        expect(seen["q.grad"]).close_to(m)
        expect(seen["kept"]).is_true("the values of p changed; the task is only to watch")


def norms_over(factors: tuple[Tensor, ...], start: Tensor | None) -> list[float]:
    """The norms of the log in order: pass, total, pass, total, … when `.grad` holds `start` at the beginning."""
    totals = list(accumulate(factors, initial=torch.zeros_like(factors[0]) if start is None else start))[1:]
    return [part.norm().item() for pair in zip(factors, totals) for part in pair]


def same_log(log: Seen, norms: list[float]) -> None:
    """Expect a log with these norms, labelled "pass" and "total" in turn."""
    expect(log).has_length(len(norms), "entries")
    for index, (entry, norm) in enumerate(zip(log, norms)):
        expect(entry[0]).equals("total" if index % 2 else "pass")
        expect(entry[1]).close_to(norm)
        if type(entry[1].value) is not float:
            expect(entry[1]).fail("expected a Python float; `.item()` makes one of a tensor")


def labelled(seen: Seen, label: str) -> list[Seen]:
    """The norms of the first three passes that carry a label."""
    return [entry[1] for entry in seen["log"] if entry[0].value == label]


def close_norms(norms: list[Seen], expected: list[float]) -> bool:
    """Whether these are the expected norms."""
    return len(norms) == len(expected) and all(close(one, norm) for one, norm in zip(norms, expected))


def lagging(k: Tensor, m: Tensor, old: Tensor | None) -> list[list[float]]:
    """The totals of somebody who reads `.grad` before it is written, with or without an entry for the first."""
    totals = norms_over((k, k, m), old)[1:-1:2]
    return [[0.0 if old is None else old.norm().item(), *totals], totals]


class Net(nn.Module):
    """Linear layers with tanh between them, some nested, called in another order than they are defined.

    A scale for the input is a parameter of the net itself. With `tied`, the first two layers that are called
    share their weight.
    """

    def __init__(self, layers: dict[str, list[Tensor]], calls: list[str], scale: Tensor, tied: bool) -> None:
        """Copy the weights and biases of `layers`, in the order of their names."""
        super().__init__()
        self.inner = nn.ModuleDict()
        self.calls = [("inner." if list(layers).index(name) % 2 else "") + name for name in calls]
        for index, (name, (weight, bias)) in enumerate(layers.items()):
            layer = nn.Linear(3, 3, dtype=weight.dtype)
            layer.weight, layer.bias = nn.Parameter(weight.clone()), nn.Parameter(bias.clone())
            (self.inner if index % 2 else self).add_module(name, layer)
        if tied:
            self.get_submodule(self.calls[1]).weight = self.get_submodule(self.calls[0]).weight
        self.scale = nn.Parameter(scale.clone())

    def forward(self, x: Tensor) -> Tensor:
        """Run `x` of shape [B, 3] through the layers in the order of the calls."""
        h = x * self.scale
        for name in self.calls:
            h = torch.tanh(self.get_submodule(name)(h))
        return h


def net_data(rng: Any, dtype: torch.dtype) -> dict[str, Any]:
    """The data of a `Net`: its layers in the order of definition, the order of the calls, the scale."""
    names = rng.names(3)
    layers = {
        name: [rng.tensor(3, 3, dtype=dtype, low=-1, high=1), rng.tensor(3, dtype=dtype, low=-0.5, high=0.5)]
        for name in names
    }
    calls = rng.shuffled(names)
    return {"layers": layers, "calls": [*calls, calls[0]], "scale": rng.tensor(3, dtype=dtype, low=0.5, high=1)}


def loss_of(net: nn.Module, batch: list[Tensor]) -> Tensor:
    """The squared error on a batch of inputs and targets."""
    inputs, targets = batch
    return (net(inputs) - targets).square().sum()


def part_loss(net: Any, batch: list[Tensor]) -> Tensor:
    """The squared error of the layer that is called first, taken alone: backward reaches its parameters only."""
    return loss_of(net.get_submodule(net.calls[0]), batch)


def values_of(net: nn.Module) -> dict[str, Tensor]:
    """A copy of every parameter by name."""
    return {name: snapshot(p) for name, p in net.named_parameters()}


def grads_of(net: nn.Module) -> dict[str, Tensor | None]:
    """A copy of every `.grad` by name."""
    return {name: snapshot(p.grad) for name, p in net.named_parameters()}


def none_error(run: Callable[[], Any]) -> str:
    """Run, and answer with the error of a hook that met a `.grad` of None; empty when there was none.

    Two different mistakes end in this error, and where it came up tells them apart. Other errors go on.
    """
    try:
        run()
    except (TypeError, AttributeError) as error:
        if "NoneType" not in str(error):
            raise
        return f"{type(error).__name__}: {error}"[:200]
    return ""


RETURNED = Mistake(
    "returned-a-value",
    message="Your hook returned a value, and PyTorch refuses it. A post-accumulate-grad hook has to return `None`, but "
    "a lambda returns the value of its expression. Write a function with `def` that returns nothing.",
    raises=(
        "post accumulate grad hooks should return None",
        "expected Variable, but hook returned",
        "has changed the size of value",
        "has changed the type of value",
    ),
)
OTHERS_GRAD = (
    "Your hook looked at a parameter whose gradient has not arrived. Functions that are made in a loop read the loop "
    "variable when they run, at its last value. Use the parameter that the hook receives as its argument."
)


@exercise(
    "04-sgd-in-backward",
    points=2,
    title="Step during backward",
    hints=(
        "When is the gradient of a parameter complete? A post-accumulate-grad hook runs at exactly this moment.",
        "Register the same function on every parameter. It receives the parameter: subtract `lr * p.grad` from it in "
        "place, under `torch.no_grad()`.",
        "Set `p.grad = None` at the end of the hook. A gradient of zeros still takes memory, and one that stays would "
        "be added to the next.",
    ),
    cases=({"dtype": torch.float32}, {"dtype": torch.float32}, {"dtype": torch.float64}),
)
class TestSgdInBackward:
    """Write `sgd_in_backward(model, lr)`. Every parameter of `model`, at any depth, requires grad and has no
    `.grad` yet. From now on, whenever `backward()` returns, each parameter that it reached has taken one step of plain
    gradient descent, `p = p - lr * gradient`, in place, and its `.grad` is `None`.

    A parameter that is used in several places (shared, or *tied*) takes one step for each pass, with the sum of its
    gradients. `torch.autograd.grad` changes nothing: no step, no `.grad`.

    Return a list of all handles. After `remove()` on each of them, `backward()` takes no step and stores `.grad` again.

    **Example.** For `model = nn.Linear(1, 1, bias=False)` with the weight 2 and `lr = 0.1`, the call
    `model(torch.tensor([[3.]])).sum().backward()` leaves the weight at 1.7 (the gradient is 3), and `.grad` is `None`.
    """

    def draw(rng, dtype):
        return {
            **net_data(rng, dtype),
            "batches": [[rng.tensor(2, 3, dtype=dtype), rng.tensor(2, 3, dtype=dtype)] for _ in range(3)],
            "lr": rng.choice((0.0625, 0.125, 0.25)),
        }

    def alive(layers, calls, scale, batches, lr):
        start = values_of(Net(layers, calls, scale, False))
        right = sgd_steps(layers, calls, scale, batches, lr)
        uncleared = sgd_steps(layers, calls, scale, batches, lr, clear=False)
        moved = all((right[0][name] - start[name]).abs().max() > 1e-3 for name in start)
        return moved and all((right[1][name] - uncleared[1][name]).abs().max() > 1e-3 for name in start)

    def probe(student, layers, calls, scale, batches, lr):
        net = Net(layers, calls, scale, False)
        before = values_of(net)
        handles = student.sgd_in_backward(net, lr)
        grads = []

        def ask_autograd():
            grads.extend(torch.autograd.grad(loss_of(net, batches[0]), list(net.parameters())))

        error = none_error(ask_autograd)
        seen = {"asked": {
            "error": error, "values": values_of(net), "stored": grads_of(net),
            "grads": dict(zip(before, map(snapshot, grads))),
        }}  # fmt: skip
        steps, stored, error = [], [], ""
        for batch in batches:
            error = error or none_error(loss_of(net, batch).backward)
            steps.append(values_of(net))
            stored.append(grads_of(net))
        seen |= {"start": before, "steps": steps, "stored": stored, "error": error}
        tied = Net(layers, calls, scale, True)
        _kept = student.sgd_in_backward(tied, lr / 2)
        steps, error = [], ""
        for batch in batches[:2]:
            error = error or none_error(loss_of(tied, batch).backward)
            steps.append(values_of(tied))
        seen["tied"] = {"steps": steps, "error": error}
        error = none_error(part_loss(net, batches[0]).backward)
        seen["part"] = {"error": error, "values": values_of(net), "stored": grads_of(net)}
        seen["has_remove"] = removed(handles)
        last = values_of(net)
        net.zero_grad()
        loss_of(net, batches[0]).backward()
        return seen | {
            "removed": {"kept": all(torch.equal(last[name], p) for name, p in net.named_parameters()),
                        "stored": all(p.grad is not None for p in net.parameters()),
                        "hooks": tensor_hooks(*net.parameters())},
        }  # fmt: skip

    mistakes = (
        Mistake(
            "wrong-hook-kind",
            lambda seen, layers, calls, scale, batches, lr: (
                ran_when_asked(seen)
                or (
                    all_stored(seen["stored"][0])
                    and not all_zero(seen["stored"][0])
                    and close_steps(seen["steps"], sgd_steps(layers, calls, scale, batches, lr))
                )
            ),
            "A tensor hook runs before `.grad` is written, so it cannot free it, and it also runs under "
            "`torch.autograd.grad`. Use `register_post_accumulate_grad_hook`.",
            raises="_will_engine_execute_node",
        ),
        Mistake(
            "grad-not-freed",
            lambda seen, layers, calls, scale, batches, lr: (
                not ran_when_asked(seen)
                and close_steps(seen["steps"], sgd_steps(layers, calls, scale, batches, lr, clear=False))
            ),
            "The first step is right, the second is not: the gradient of the first pass is still in `.grad`, and the "
            "second was added to it. Set `p.grad = None` after the step.",
        ),
        Mistake(
            "zeroed-not-freed",
            lambda seen: all_zero(seen["stored"][0]) and not ran_when_asked(seen),
            "`.grad` is a tensor of zeros, which takes as much memory as the gradient did. Set it to `None`.",
        ),
        Mistake(
            "late-binding",
            lambda seen: (
                not ran_when_asked(seen)
                and (seen["error"].value != "" or number_moved(seen["start"], seen["steps"][0]) == 1)
            ),
            OTHERS_GRAD,
            raises=("doesn't match the broadcast shape", "must match the size of tensor"),
        ),
        Mistake(
            "wrong-sign",
            lambda seen, layers, calls, scale, batches, lr: (
                not ran_when_asked(seen)
                and close_steps(list(seen["steps"])[:1], sgd_steps(layers, calls, scale, batches[:1], -lr))
            ),
            "Your step goes uphill: you added `lr * p.grad`. To make the loss smaller, subtract it.",
        ),
        Mistake(
            "missed-parameters",
            lambda seen: (
                not ran_when_asked(seen) and 1 < number_moved(seen["start"], seen["steps"][0]) < len(seen["start"])
            ),
            "Some parameters took no step. `model.parameters()` visits all of them: those of nested modules, and those "
            "that belong to the model itself.",
        ),
        Mistake(
            "hooked-twice",
            lambda seen: (
                seen["error"].value == ""
                and number_moved(seen["start"], seen["steps"][0]) == len(seen["start"])
                and seen["tied"]["error"].value != ""
            ),
            "A tied parameter carries your hook twice, and the second call finds `.grad` already `None`. "
            "`model.parameters()` visits each parameter once, however many names it has.",
        ),
        RETURNED,
    )

    def test_every_backward_takes_one_step(seen, layers, calls, scale, batches, lr):
        no_error(seen["error"])
        for step, values in zip(seen["steps"], sgd_steps(layers, calls, scale, batches, lr)):
            same_tensors(step, values)

    def test_no_gradient_is_left(seen):
        for number, stored in enumerate(seen["stored"], 1):
            nothing_stored(stored, f"after pass {number}")

    def test_a_tied_parameter_steps_once_with_the_sum(seen, layers, calls, scale, batches, lr):
        no_error(seen["tied"]["error"])
        for step, values in zip(seen["tied"]["steps"], sgd_steps(layers, calls, scale, batches[:2], lr / 2, tied=True)):
            same_tensors(step, values)

    def test_a_pass_through_one_layer_moves_that_layer(seen, layers, calls, scale, batches, lr):
        no_error(seen["part"]["error"])
        same_tensors(seen["part"]["values"], part_step(layers, calls, scale, batches, lr))
        nothing_stored(seen["part"]["stored"], "after a pass that reached one layer only")

    def test_autograd_grad_takes_no_step(seen, layers, calls, scale, batches):
        no_error(seen["asked"]["error"], "under torch.autograd.grad, ")
        same_tensors(seen["asked"]["values"], values_of(Net(layers, calls, scale, False)))
        same_tensors(seen["asked"]["grads"], plain_grads(layers, calls, scale, batches[0]))
        nothing_stored(seen["asked"]["stored"], "after torch.autograd.grad")

    def test_the_handles_remove_the_hooks(seen):
        expect(seen["has_remove"]).is_true("the function did not return a list of handles, each with a remove() method")
        expect(seen["removed"]["kept"]).is_true("after remove(), backward() still moved a parameter")
        expect(seen["removed"]["stored"]).is_true("after remove(), backward() left a parameter without `.grad`")
        expect(seen["removed"]["hooks"]).equals(0)


def sgd_steps(layers, calls, scale, batches, lr, *, clear=True, tied=False) -> list[dict[str, Tensor]]:
    """The parameters after each batch, by steps of `torch.optim.SGD` on a net of its own; a negative `lr` climbs."""
    net = Net(layers, calls, scale, tied)
    steps = []
    for batch in batches:
        loss_of(net, batch).backward()
        sgd_step(net, lr)
        if clear:
            net.zero_grad()
        steps.append(values_of(net))
    return steps


def part_step(layers, calls, scale, batches, lr) -> dict[str, Tensor]:
    """The parameters after all batches and one more pass, through one layer only, by the steps of `torch.optim.SGD`."""
    net = Net(layers, calls, scale, False)
    for loss, batch in [*((loss_of, batch) for batch in batches), (part_loss, batches[0])]:
        loss(net, batch).backward()
        sgd_step(net, lr)
        net.zero_grad()
    return values_of(net)


@torch.no_grad()
def sgd_step(net, lr) -> None:
    """One step of `torch.optim.SGD` by its functional form. To make the optimizer would import torch's compiler."""
    params = [param for param in net.parameters() if param.grad is not None]
    sgd(params, [param.grad for param in params], [None] * len(params), lr=abs(lr), maximize=lr < 0,
        weight_decay=0.0, momentum=0.0, dampening=0.0, nesterov=False)  # fmt: skip


def plain_grads(layers, calls, scale, batch) -> dict[str, Tensor]:
    """The gradients of one batch at the start, by `torch.autograd.grad`."""
    net = Net(layers, calls, scale, False)
    grads = torch.autograd.grad(loss_of(net, batch), list(net.parameters()))
    return dict(zip(values_of(net), grads))


def same_tensors(seen: Seen, expected: dict[str, Tensor]) -> None:
    """Expect a tensor for each name, within the tolerance of several steps."""
    for name, tensor in expected.items():
        limit = 1e-10 if tensor.dtype == torch.float64 else 1e-4
        expect(seen[name]).close_to(tensor, rtol=limit, atol=limit)


def no_error(error: Seen, where: str = "") -> None:
    """Expect that no hook met a `.grad` of None."""
    if error.value != "":
        expect(error).fail(f"{where}your hook raised {error.value}")


def nothing_stored(stored: Seen, when: str) -> None:
    """Expect that every `.grad` is None."""
    for name in stored.keys:
        if stored[name].value is not None:
            expect(stored[name]).fail(f"{when}, the `.grad` of {name} is not None")


def close_steps(seen: Any, expected: list[dict[str, Tensor]]) -> bool:
    """Whether these are the expected tensors after each step."""
    entries = list(seen)
    return len(entries) == len(expected) and all(
        close(step, values, rtol=1e-4, atol=1e-4) for step, values in zip(entries, expected)
    )


def number_moved(start: Seen, step: Seen) -> int:
    """How many parameters differ from the start."""
    return sum(not close(step[name], start[name].tensor, rtol=0, atol=0) for name in start.keys)


def ran_when_asked(seen: Seen) -> bool:
    """Whether a hook did something under `torch.autograd.grad`."""
    asked = seen["asked"]
    return asked["error"].value != "" or number_moved(seen["start"], asked["values"]) > 0


def all_stored(stored: Seen) -> bool:
    """Whether every parameter has a `.grad`."""
    return all(stored[name].tensor is not None for name in stored.keys)


def all_zero(stored: Seen) -> bool:
    """Whether every parameter has a `.grad` of zeros."""
    return all(close(stored[name], 0.0) for name in stored.keys)


BIG = 2.0**25
"""In float32 this number swallows everything below 2 that is added to it."""


@exercise(
    "04-offload-grads",
    points=2,
    title="Move gradients out of the way",
    hints=(
        "A post-accumulate-grad hook again: it receives the parameter, with its gradient in `p.grad`.",
        'Convert first, `p.grad.to("cpu", torch.float64)`; then add to the sum under the key `p`; then set '
        "`p.grad = None`.",
        "If `.grad` is not freed, the next pass adds to it, and your hook then adds the old gradient a second time.",
    ),
    cases=({"dtype": torch.float32}, {"dtype": torch.float32}, {"dtype": torch.float64}),
)
class TestOffloadGrads:
    """Write `offload_grads(params)`. `params` is a list of different parameters, each of which requires grad and has
    no `.grad` yet. Return a pair: a dict `sums` and a list of all handles.

    From now on, whenever `backward()` returns, each parameter `p` of the list that it reached has `p.grad` equal to
    `None`, and `sums[p]` is the sum of the gradients of `p` over all backward passes since your call. The key is the
    parameter itself. Before its first pass it may be missing, or its sum may be zeros. The sums are on the CPU, of
    dtype `float64`, and added up in `float64`, whatever the dtype of the parameter.

    `torch.autograd.grad` is not counted. Parameters that are not in the list accumulate their `.grad` as usual, and no
    parameter changes its values. After `remove()` on each handle, `backward()` stores `.grad` again, and the sums stay
    as they are.

    **Example.** For `p = nn.Parameter(torch.zeros(2))` and `sums, handles = offload_grads([p])`, run
    `(3 * p).sum().backward()` twice. Now `sums[p]` is `tensor([6., 6.], dtype=torch.float64)`, and `p.grad` is `None`.
    """

    def draw(rng, dtype):
        data = net_data(rng, dtype)
        names = rng.shuffled(list(values_of(Net(**data, tied=False))))
        return {
            **data,
            "chosen": names[:-2],
            "batches": [[rng.tensor(2, 3, dtype=dtype), rng.tensor(2, 3, dtype=dtype)] for _ in range(3)],
            "small": rng.tensor(3, low=-2, high=1.875),
        }

    def alive(layers, calls, scale, chosen, batches):
        sums = sums_over(layers, calls, scale, chosen, batches)
        last = sums_over(layers, calls, scale, chosen, batches[2:])[0]
        return all(
            min(sums[0][name].abs().max(), (sums[1][name] - sums[0][name]).abs().max(), last[name].abs().max()) > 0.01
            for name in chosen
        )

    def probe(student, layers, calls, scale, chosen, batches, small):
        net = Net(layers, calls, scale, False)
        before = values_of(net)
        by_name = dict(net.named_parameters())
        params = {name: by_name[name] for name in chosen}

        def pair(result):
            return result if isinstance(result, tuple | list) and len(result) == 2 else (result, None)

        def named(sums):
            if not isinstance(sums, dict):
                return sums
            # By identity: a tensor that is compared with a key of another kind may raise.
            return {name: snapshot(value) for key, value in sums.items() for name, p in params.items() if key is p}

        sums, handles = pair(student.offload_grads(list(params.values())))
        at_first, grads = named(sums), []

        def ask_autograd():
            grads.extend(torch.autograd.grad(loss_of(net, batches[0]), list(params.values())))

        error = none_error(ask_autograd)
        asked = {"error": error, "before": at_first, "sums": named(sums), "stored": grads_of(net)}
        after_each, stored, error = [], [], ""
        for batch in batches:
            error = error or none_error(loss_of(net, batch).backward)
            after_each.append(named(sums))
            stored.append({name: snapshot(p.grad) for name, p in params.items()})
        exact = nn.Parameter(torch.ones(3))
        its_sums, _kept = pair(student.offload_grads([exact]))
        for factor in (torch.full((3,), BIG), small, torch.full((3,), -BIG)):
            none_error((factor * exact).sum().backward)
        params |= {"p": exact}
        seen = {
            "exact": named(its_sums), "beside the second": named(sums),
            "asked": asked, "sums": after_each, "stored": stored, "error": error,
            "foreign": isinstance(sums, dict) and any(all(key is not p for p in params.values()) for key in sums),
            "others": {name: grad for name, grad in grads_of(net).items() if name not in chosen},
            "values_kept": all(torch.equal(before[name], p) for name, p in by_name.items()),
            "has_remove": removed(handles),
        }  # fmt: skip
        net.zero_grad()
        loss_of(net, batches[0]).backward()
        seen["removed"] = {"sums": named(sums), "stored": all(by_name[name].grad is not None for name in chosen),
                           "hooks": tensor_hooks(*by_name.values())}  # fmt: skip
        return seen

    mistakes = (
        Mistake(
            "wrong-hook-kind",
            lambda seen: counted_when_asked(seen),
            "A tensor hook runs before `.grad` is written, so it cannot free it, and it also counts "
            "`torch.autograd.grad`. Use `register_post_accumulate_grad_hook`.",
            raises="_will_engine_execute_node",
        ),
        Mistake(
            "grad-not-freed",
            lambda seen, layers, calls, scale, chosen, batches: (
                not counted_when_asked(seen)
                and all_stored(seen["stored"][0])
                and not all_zero(seen["stored"][0])
                and close_steps(seen["sums"], sums_over(layers, calls, scale, chosen, batches))
            ),
            "Your sums are right, but the gradients still take their memory: `p.grad` has to be `None` when `backward` "
            "returns. Add `p.grad` to the sum in a post-accumulate-grad hook, then set `p.grad = None`.",
        ),
        Mistake(
            "counted-twice",
            lambda seen, layers, calls, scale, chosen, batches: (
                not counted_when_asked(seen)
                and close_steps(seen["sums"], running_sums(sums_over(layers, calls, scale, chosen, batches)))
            ),
            "From the second pass on your sums are too large: `.grad` still held the earlier gradients, and you added "
            "them again. Set `p.grad = None` once you have added it.",
        ),
        Mistake(
            "overwrote-total",
            lambda seen, layers, calls, scale, chosen, batches: close_steps(
                list(seen["sums"])[1:],
                [sums_over(layers, calls, scale, chosen, [batch])[0] for batch in batches[1:]],
            ),
            "Your dict holds the gradient of the last pass only. Add each new gradient to the sum that is there.",
        ),
        Mistake(
            "changed-dtype",
            lambda seen, layers, calls, scale, chosen, batches, small: (
                not counted_when_asked(seen)
                and nothing_kept(seen["stored"])
                and close_steps(seen["sums"], sums_over(layers, calls, scale, chosen, batches))
                and not (close(seen["exact"]["p"], small) and seen["exact"]["p"].tensor.dtype == torch.float64)
            ),
            "The gradients were added up in the dtype of the parameter, and rounding lost small ones. Convert each "
            "gradient to `float64` before you add it, so that the sum is in `float64`, too.",
        ),
        Mistake(
            "zeroed-not-freed",
            lambda seen: not counted_when_asked(seen) and all_zero(seen["stored"][0]),
            "`.grad` is a tensor of zeros, which takes as much memory as the gradient did. Set it to `None`.",
        ),
        Mistake(
            "late-binding",
            lambda seen, chosen: (
                not counted_when_asked(seen)
                and seen["foreign"].value is False
                and (seen["error"].value != "" or len(seen["sums"][2].keys) == 1)
            ),
            OTHERS_GRAD,
            raises=("doesn't match the broadcast shape", "must match the size of tensor"),
        ),
        Mistake(
            "keys-not-parameters",
            lambda seen: seen["foreign"].value is True and not counted_when_asked(seen),
            "The keys of your dict are not the parameters. Use the parameter itself as the key, `sums[p]`: it is the "
            "object that the hook receives.",
        ),
        RETURNED,
    )

    def test_the_sums_grow_with_every_pass(seen, layers, calls, scale, chosen, batches):
        no_error(seen["error"])
        for sums, expected in zip(seen["sums"], sums_over(layers, calls, scale, chosen, batches)):
            if type(sums.value) is not dict:
                expect(sums).fail("the first part of the result is not a dict")
            for name, total in expected.items():
                if name not in sums.keys:
                    expect(sums).fail(f"the parameter {name} is not a key of the dict, though backward() reached it")
                expect(sums[name]).close_to(total, rtol=1e-4, atol=1e-4)

    def test_no_gradient_is_left(seen):
        for number, stored in enumerate(seen["stored"], 1):
            nothing_stored(stored, f"after pass {number}")

    def test_the_sums_are_made_in_float64(seen, small):
        expect(seen["exact"]["p"]).close_to(small.double())

    def test_a_second_call_has_a_dict_of_its_own(seen):
        last = seen["sums"][2]
        expect(seen["beside the second"]).has_keys(*last.keys)
        same_tensors(seen["beside the second"], tensors_in(last))
        expect(seen["exact"]).has_keys("p")

    def test_autograd_grad_is_not_counted(seen):
        no_error(seen["asked"]["error"], "under torch.autograd.grad, ")
        nothing_stored(seen["asked"]["stored"], "after torch.autograd.grad")
        if counted_when_asked(seen):
            expect(seen["asked"]["sums"]).fail("torch.autograd.grad was counted; only backward() should be")

    def test_nothing_else_changes(seen, layers, calls, scale, chosen, batches):
        expect(seen["values_kept"]).is_true("the values of a parameter changed; only gradients were to be moved")
        same_tensors(seen["others"], others_grads(layers, calls, scale, chosen, batches))

    def test_the_handles_remove_the_hooks(seen):
        expect(seen["has_remove"]).is_true("the function did not return a list of handles, each with a remove() method")
        expect(seen["removed"]["stored"]).is_true("after remove(), backward() left a parameter without `.grad`")
        same_tensors(seen["removed"]["sums"], tensors_in(seen["sums"][2]))
        expect(seen["removed"]["hooks"]).equals(0)


def tensors_in(sums: Seen) -> dict[str, Tensor]:
    """The entries that are tensors."""
    found = {name: sums[name].tensor for name in sums.keys}
    return {name: total for name, total in found.items() if total is not None}


def sums_over(layers, calls, scale, chosen, batches) -> list[dict[str, Tensor]]:
    """The accumulated `.grad` after each batch, on a float64 copy of the net."""
    net = Net(layers, calls, scale, False).double()
    sums = []
    for inputs, targets in batches:
        loss_of(net, [inputs.double(), targets.double()]).backward()
        sums.append({name: grad for name, grad in grads_of(net).items() if name in chosen})
    return sums


def others_grads(layers, calls, scale, chosen, batches) -> dict[str, Tensor]:
    """The accumulated `.grad` of the parameters that were not chosen."""
    net = Net(layers, calls, scale, False)
    for batch in batches:
        loss_of(net, batch).backward()
    return {name: grad for name, grad in grads_of(net).items() if name not in chosen}


def running_sums(steps: list[dict[str, Tensor]]) -> list[dict[str, Tensor]]:
    """Sums of sums: what somebody has who adds up `.grad` and never clears it."""
    return list(accumulate(steps, lambda total, step: {name: total[name] + step[name] for name in step}))


def counted_when_asked(seen: Seen) -> bool:
    """Whether a hook did something under `torch.autograd.grad`."""
    asked = seen["asked"]
    sums, before = asked["sums"], asked["before"]

    def unchanged(name: str) -> bool:
        old = before[name]
        if name not in before.keys:
            return close(sums[name], 0.0)
        return close(sums[name], old.value if old.tensor is None else old.tensor)

    return asked["error"].value != "" or any(not unchanged(name) for name in sums.keys)


def nothing_kept(stored: Seen) -> bool:
    """Whether every `.grad` was None after every pass."""
    return all(grads[name].value is None for grads in stored for name in grads.keys)


@exercise(
    "04-clip-global-norm-in-backward",
    points=3,
    title="Clip the joint norm during backward",
    hints=(
        "The joint norm needs every gradient, so only the last parameter to arrive may clip. It is not always the "
        "same one.",
        "Count the arrivals in a post-accumulate-grad hook, or collect them in a set. When all have arrived, every "
        "`.grad` is written: clip them all, once.",
        "Reset the count after clipping, or the second pass never gets to clip. "
        "`torch.nn.utils.clip_grad_norm_(params, c)` may do the clipping itself.",
    ),
)
class TestClipGlobalNormInBackward:
    """Write `clip_global_norm_in_backward(params, c)`. `params` is a list of different parameters, each of which
    requires grad. Every `backward()` reaches all of them, in an order that can differ from pass to pass.

    From now on, whenever `backward()` returns, the `.grad` of all parameters in the list is what
    `torch.nn.utils.clip_grad_norm_(params, c)` would have made of it at this moment. That is: if the joint L2 norm over
    the `.grad` of all of them is greater than `c`, each is multiplied by the same factor, so that the joint norm is
    `c`; otherwise nothing changes. Gradients accumulate as usual: a second pass adds to what the first pass left, and
    the sum is clipped. The caller may set `.grad` to `None` between passes.

    Gradients of tensors that are not in the list, and the values of all parameters, stay as they are. Return a list of
    all handles. After `remove()` on each of them, nothing is clipped any more.

    **Example.** For `p = nn.Parameter(torch.zeros(1))`, `q = nn.Parameter(torch.zeros(1))` and
    `clip_global_norm_in_backward([p, q], 1.0)`, the call `(3 * p + 4 * q).sum().backward()` leaves `p.grad` at 0.6 and
    `q.grad` at 0.8: the joint norm was 5.
    """

    def draw(rng):
        shapes = rng.shuffled([(3,), (2, 2), (), (4,), (1, 3)])
        return {
            "params": [rng.tensor(*shape) for shape in shapes],
            "passes": [
                {
                    "order": rng.shuffled(range(len(shapes))),
                    "factors": [rng.tensor(*shape) / size for shape in shapes],
                    "fresh": size > 1,
                }
                for size in (1, 1, 128, 1)
            ],
            "outside": rng.tensor(3),
            "c": rng.choice((0.75, 1.0, 1.25, 1.5)),
        }

    def alive(params, passes, c):
        raw = [joint_norm(one["factors"]) for one in passes]
        left = clipped_runs(params, passes, c)
        second, last = (joint_norm(added(left[index - 1], passes[index]["factors"])) for index in (1, len(passes) - 1))
        return (
            min(raw[0], second, last) > 1.5 * c
            and raw[2] < 0.5 * c
            and sum(bool(factor.norm() > c) for factor in passes[0]["factors"]) > 2
        )

    def probe(student, params, passes, outside, c):
        params = [nn.Parameter(p) for p in params]
        values = [snapshot(p) for p in params]
        other = torch.ones(3, requires_grad=True)
        handles = student.clip_global_norm_in_backward(list(params), c)
        after_each = []
        for one in passes:
            run_pass(params, one, (outside * other).sum())
            after_each.append([snapshot(p.grad) for p in params])
        second = [nn.Parameter(p) for p in outside]
        _kept = student.clip_global_norm_in_backward(list(second), 2 * c)
        mixed = {
            "order": [len(params), *passes[0]["order"], len(params) + 1, len(params) + 2],
            "factors": [*passes[0]["factors"], *torch.full((3,), 4 * c)],
            "fresh": True,
        }
        run_pass([*params, *second], mixed, 0)
        seen = {
            "beside a second list": [snapshot(p.grad) for p in params],
            "second list": [snapshot(p.grad) for p in second],
            "grads": after_each,
            "outside": snapshot(other.grad),
            "values_kept": all(torch.equal(p.detach(), value) for p, value in zip(params, values)),
            "has_remove": removed(handles),
        }
        run_pass(params, {**passes[0], "fresh": True}, 0)
        return {**seen, "unclipped": [snapshot(p.grad) for p in params], "hooks": tensor_hooks(*params)}

    mistakes = (
        Mistake(
            "per-tensor-norm",
            lambda seen, passes, c: close(
                seen["grads"][0], [factor * clip_factor([factor], c) for factor in passes[0]["factors"]]
            ),
            "You clipped each gradient to the norm `c` by itself. The norm is joint: one number for all parameters "
            "together, and one factor for all.",
        ),
        Mistake(
            "elements-not-norm",
            lambda seen, passes, c: close(seen["grads"][0], [factor.clamp(-c, c) for factor in passes[0]["factors"]]),
            "You clamped the elements to [-c, c], which changes the direction of the gradient. Multiply all gradients "
            "by one factor, `c / norm`.",
        ),
        Mistake(
            "clipped-too-early",
            lambda seen, params, passes, c: (
                not close(seen["grads"][0], passes[0]["factors"])
                and any(close(seen["grads"][0], early) for early in early_clips(params, passes[0], c))
            ),
            "You clipped before the last gradient was in `.grad`: what had arrived was clipped without it. Clip once, "
            "in a post-accumulate-grad hook, when all parameters have arrived in this pass.",
            raises="NoneType",
        ),
        Mistake(
            "counter-not-reset",
            lambda seen, params, passes, c: (
                close(seen["grads"][0], clipped_runs(params, passes[:1], c)[0])
                and any(close(seen["grads"][1], wrong) for wrong in second_passes(params, passes, c))
            ),
            "The first pass is right, the second is not: what told your hook that all had arrived was not set back. "
            "Reset your counter as soon as you have clipped. (A `.grad` that is not `None` may stem from an earlier "
            "pass.)",
        ),
        Mistake(
            "scaled-up",
            lambda seen, passes, c: close(
                seen["grads"][2],
                [factor * (c / joint_norm(passes[2]["factors"])) for factor in passes[2]["factors"]],
                rtol=1e-4,
            ),
            "A joint norm below `c` was scaled up to `c`. Clipping only makes gradients smaller: the factor is "
            "`c / norm`, but never more than 1.",
        ),
        RETURNED,
    )

    def test_the_joint_norm_is_clipped_once_all_have_arrived(seen, params, passes, c):
        same_grads(seen["grads"][0], clipped_runs(params, passes, c)[0])

    def test_the_next_pass_accumulates_and_is_clipped_again(seen, params, passes, c):
        for index in (1, 3):
            same_grads(seen["grads"][index], clipped_runs(params, passes, c)[index])

    def test_a_small_gradient_stays_as_it_is(seen, passes):
        same_grads(seen["grads"][2], passes[2]["factors"])

    def test_a_second_list_is_clipped_by_itself(seen, params, passes, c):
        same_grads(seen["beside a second list"], clipped_runs(params, passes[:1], c)[0])
        same_grads(seen["second list"], [torch.tensor(2 * c / 3**0.5)] * 3)

    def test_nothing_else_changes(seen, passes, outside):
        expect(seen["outside"]).close_to(len(passes) * outside)
        expect(seen["values_kept"]).is_true("the values of a parameter changed; only gradients were to be clipped")

    def test_the_handles_remove_the_hooks(seen, passes):
        expect(seen["has_remove"]).is_true("the function did not return a list of handles, each with a remove() method")
        same_grads(seen["unclipped"], passes[0]["factors"])
        expect(seen["hooks"]).equals(0)


def run_pass(params: list[Tensor], one: dict[str, Any], rest: Any) -> None:
    """One backward pass in which the gradient of parameter i is `factors[i]`, in a given order of the graph.

    Each parameter is used twice, so that its gradient is a sum. "fresh" clears every `.grad` before.
    """
    if one["fresh"]:
        for p in params:
            p.grad = None
    loss = rest
    for index in one["order"]:
        p, factor = params[index], one["factors"][index]
        loss = loss + (factor * p).sum() / 2 + (factor * p).sum() / 2
    loss.backward()


def same_grads(seen: Seen, expected: list[Tensor]) -> None:
    """Expect these gradients, one for each parameter."""
    for entry, gradient in zip(seen, expected):
        expect(entry).close_to(gradient)


def joint_norm(grads: list[Tensor]) -> float:
    """The L2 norm over all elements of all tensors."""
    return torch.cat([grad.reshape(-1) for grad in grads]).norm().item()


def clip_factor(grads: list[Tensor], c: float) -> float:
    """What clipping multiplies each of these with, as `clip_grad_norm_` defines it."""
    return min(1.0, c / (joint_norm(grads) + 1e-6))


def added(before: list[Tensor], factors: list[Tensor]) -> list[Tensor]:
    """The sums of two lists of gradients."""
    return [left + factor for left, factor in zip(before, factors)]


def clipped_runs(params: list[Tensor], passes: list[dict[str, Any]], c: float) -> list[list[Tensor]]:
    """Every `.grad` after each pass, when torch's own `clip_grad_norm_` is called after backward."""
    params = [nn.Parameter(p.clone()) for p in params]
    after_each = []
    for one in passes:
        run_pass(params, one, 0)
        nn.utils.clip_grad_norm_(params, c)
        after_each.append([snapshot(p.grad) for p in params])
    return after_each


def arrivals(params: list[Tensor], one: dict[str, Any]) -> list[int]:
    """The order in which the parameters receive their gradient."""
    params, log = [nn.Parameter(p.clone()) for p in params], []
    for index, p in enumerate(params):
        p.register_post_accumulate_grad_hook(lambda _, index=index: log.append(index))
    run_pass(params, one, 0)
    return log


def clipped_at_each(
    before: list[Tensor | None], factors: list[Tensor], order: list[int], c: float
) -> list[Tensor | None]:
    """What is left when every arrival clips all gradients that are there."""
    grads = list(before)
    for index in order:
        here = grads[index]
        grads[index] = factors[index] if here is None else here + factors[index]
        factor = clip_factor([grad for grad in grads if grad is not None], c)
        grads = [None if grad is None else grad * factor for grad in grads]
    return grads


def early_clips(params: list[Tensor], one: dict[str, Any], c: float) -> list[list[Tensor]]:
    """What a first pass leaves when not only the last arrival clips, or an earlier one instead of it."""
    order, factors = arrivals(params, one), one["factors"]
    found = [clipped_at_each([None] * len(factors), factors, order, c)]
    for count in range(1, len(order)):
        arrived = order[:count]
        factor = clip_factor([factors[index] for index in arrived], c)
        found.append([grad * (factor if index in arrived else 1.0) for index, grad in enumerate(factors)])
    return found


def second_passes(params: list[Tensor], passes: list[dict[str, Any]], c: float) -> list[list[Tensor]]:
    """What a second pass leaves when it is not clipped at all, or at every arrival."""
    (left,), factors = clipped_runs(params, passes[:1], c), passes[1]["factors"]
    return [added(left, factors), clipped_at_each(left, factors, arrivals(params, passes[1]), c)]
