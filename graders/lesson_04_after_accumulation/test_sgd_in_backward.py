"""Exercise 04-sgd-in-backward."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from graders.authoring import (
    ALL,
    FACTOR,
    SILENT,
    CallersHooks,
    Circumstances,
    Mistake,
    Seen,
    Witness,
    abort,
    all_removed,
    close,
    exercise,
    expect,
    nothing_changed,
    paired,
    refuse,
    removed,
    snapshot,
)
from graders.lesson_04_after_accumulation.judging import (
    OTHERS_GRAD,
    RETURNED,
    all_stored,
    all_zero,
    autograd_on,
    close_steps,
    gradients_at,
    net_data,
    no_error,
    nothing_stored,
    same_tensors,
)
from graders.lesson_04_after_accumulation.shared import (
    UNUSUAL,
    Net,
    grads_of,
    lay_out,
    loss_of,
    modes_behind,
    none_error,
    values_of,
)

STOPPED = "after a pass that an exception stopped"


def first_weight(net: Any) -> str:
    """The name of the parameter that carries the hooks of the caller: the weight of the layer that is called first."""
    return f"{net.calls[0]}.weight"


@torch.no_grad()
def put_back(net: nn.Module, values: dict[str, Tensor]) -> None:
    """The caller writes these values into the parameters, and clears what is in `.grad`."""
    for name, p in net.named_parameters():
        p.copy_(values[name])
        p.grad = None


def large_loss(net: nn.Module) -> Tensor:
    """A loss whose gradient is 200 for each entry of each parameter."""
    return sum((200 * p).sum() for p in net.parameters())


def part_loss(net: Any, batch: list[Tensor]) -> Tensor:
    """The squared error of the layer that is called first, taken alone: backward reaches its parameters only."""
    return loss_of(net.get_submodule(net.calls[0]), batch)


def one_step(student: Any, lr: float, x: float) -> dict[str, Any]:
    """One pass as in the example of the contract: a layer with the weight 2, whose gradient is `x`."""
    model = nn.Linear(1, 1, bias=False)
    model.weight.data.fill_(2.0)
    handles = student.sgd_in_backward(model, lr)
    none_error(model(torch.tensor([[x]])).sum().backward)
    return {"weight": snapshot(model.weight), "stored": grads_of(model), "a list": type(handles) is list}


@exercise(
    "04-sgd-in-backward",
    points=2,
    minutes=15,
    difficulty=2,
    core=True,
    title="Step during backward",
    hints=(
        "When is the gradient of a parameter complete? A post-accumulate-grad hook runs at exactly this moment.",
        "Register the same function on every parameter. It receives the parameter: subtract `lr * p.grad` from it in "
        "place, under `torch.no_grad()`.",
        "Set `p.grad = None` at the end of the hook. A gradient of zeros still takes memory, and one that stays would "
        "be added to the next.",
    ),
    why=(
        "When a post-accumulate-grad hook runs, the gradient of this parameter is complete, so the step can be "
        "taken and the memory freed at once. An optimizer for each parameter does the same, and lets you use Adam "
        "instead of plain descent: call its `step()` and `zero_grad()` in the hook."
    ),
    circumstances=Circumstances(
        covers={
            "dtype": ALL, "layout": ("contiguous", "transposed", "slice"), "values": ALL,
            "number": ("fraction",), "tied": ALL,
            "hooks": ALL, "hooked": ("parameter",), "call": ("in turn",), "grad_mode": ALL, "backward": ALL,
        },
        excludes={
            "rank": "the shapes are those of layers",
            "place": "parameters are parameters",
            "grad": "the contract says that there is no `.grad` yet",
            "collection": "there is no collection",
            "model": "the function does not run the model, and the contract says that every parameter requires grad",
            "failure": "the function calls nothing of the caller",
        },
        pairs=[("dtype", "hooks")],
    ),
)  # fmt: skip
class TestSgdInBackward:
    """Write `sgd_in_backward(model, lr)`. Every parameter of `model`, at any depth, requires grad and has no `.grad`
    yet. `lr` is a number, 0 or more. Your function is called once for a model. From now on, whenever `backward()`
    returns, each parameter that it reached has taken one step of plain gradient descent, `p = p - lr * gradient`, in
    place, and its `.grad` is `None`.

    A parameter that is used in several places takes one step for each pass, with the sum of its gradients.
    `torch.autograd.grad` changes nothing.

    Return a list of all handles. After `remove()` on each of them, `backward()` takes no step and stores `.grad` again.

    **Example.** For `model = nn.Linear(1, 1, bias=False)` with the weight 2 and `lr = 0.1`, the call
    `model(torch.tensor([[3.]])).sum().backward()` leaves the weight at 1.7, and `.grad` is `None`.
    """

    tolerance = (1e-4, 1e-4)

    def draw(rng, dtype, values):
        def batch():
            return [rng.tensor(2, 3, dtype=dtype, values=values), rng.tensor(2, 3, dtype=dtype, values=values)]

        return {
            **net_data(rng, dtype, values),
            "batches": [batch() for _ in range(3)],
            "lr": rng.choice((0.07, 0.1, 0.15, 0.3)),  # none of which float32 holds
        }

    def alive(layers, calls, scale, batches, lr, hooks):
        start = values_of(Net(layers, calls, scale, False))
        right = sgd_steps(layers, calls, scale, batches[:2], lr, hooks=hooks)
        uncleared = sgd_steps(layers, calls, scale, batches[:2], lr, hooks=hooks, clear=False)
        moved = all((right[0][name] - start[name]).abs().max() > 1e-3 for name in start)
        apart = all((right[1][name] - uncleared[1][name]).abs().max() > 1e-3 for name in start)
        return moved and apart

    def oracle(layers, calls, scale, batches, lr, hooks):
        return [
            sgd_steps(layers, calls, scale, batches, lr, hooks=hooks, part=lr),
            sgd_steps(layers, calls, scale, batches[:2], lr / 2, tied=True),
        ]

    def probe(student, layers, calls, scale, batches, lr, layout, hooks, grad_mode, backward):
        net = lay_out(Net(layers, calls, scale, False), layout)
        views = {name: p.detach() for name, p in net.named_parameters()}
        before = values_of(net)
        CallersHooks(hooks).on_parameter(net.get_parameter(first_weight(net)), "p")
        with torch.set_grad_enabled(grad_mode == "on"):
            witness = Witness(model=net)
            handles = student.sgd_in_backward(net, lr)
            changed = witness.changes()
        grads = []

        def ask_autograd():
            grads.extend(torch.autograd.grad(loss_of(net, batches[0]), list(net.parameters())))

        error = none_error(ask_autograd)
        seen = {"changed": changed, "asked": {
            "error": error, "values": values_of(net), "stored": grads_of(net),
            "grads": dict(zip(before, map(snapshot, grads))),
        }}  # fmt: skip
        if backward == "after an aborted one":
            none_error(lambda: abort(lambda: loss_of(net, batches[0]), net.scale))
            put_back(net, before)
        steps, stored, error = [], [], ""
        for batch in batches:
            whole_pass = partial(loss_of(net, batch).backward, create_graph=backward == "create_graph")
            error = error or none_error(whole_pass)
            steps.append(values_of(net))
            stored.append(grads_of(net))
        seen |= {"start": before, "steps": steps, "stored": stored, "error": error,
                 "in_place": all(torch.equal(views[name], p) for name, p in net.named_parameters())}  # fmt: skip
        tied = lay_out(Net(layers, calls, scale, True), layout).eval()
        _kept = student.sgd_in_backward(tied, lr / 2)
        steps, error = [], ""
        for batch in batches[:2]:
            error = error or none_error(loss_of(tied, batch).backward)
            steps.append(values_of(tied))
        seen["with a tied parameter"] = {"steps": steps, "error": error}
        error = none_error(part_loss(net, batches[0]).backward)
        seen["after a pass through one layer"] = {"error": error, "values": values_of(net), "stored": grads_of(net)}
        put_back(net, before)
        none_error(large_loss(net).backward)
        seen["after a large gradient"] = values_of(net)
        none_error(sum((0 * p).sum() for p in net.parameters()).backward)
        seen["after zeros"] = grads_of(net)
        seen["a list"], stored_again = type(handles) is list, []
        if seen["a list"] and len(handles) > 1 and removed(handles[0]):
            for params in (list(net.parameters()), list(net.parameters())[::-1]):  # they arrive from the last on
                net.zero_grad()
                none_error(sum((2 * p).sum() for p in params).backward)
                stored = sum(p.grad is not None for p in params)
                seen["others go on"] = stored < len(params)
                if len(handles) == len(params):
                    stored_again.append(stored)
            seen["stored again"] = stored_again
        seen["has_remove"] = all_removed(handles)
        last = values_of(net)
        net.zero_grad()
        seen["hooks afterwards"] = [change for change in witness.changes() if change[0].startswith("hook-")]
        loss_of(net, batches[0]).backward()
        one, other = (nn.Linear(1, 1, bias=False) for _ in range(2))
        _its = student.sgd_in_backward(one, lr)
        all_removed(student.sgd_in_backward(other, lr))
        none_error(one(torch.ones(1, 1)).sum().backward)
        seen["another model steps on"] = one.weight.grad is None
        seen["removed"] = {"kept": all(torch.equal(last[name], p) for name, p in net.named_parameters()),
                           "stored": all(p.grad is not None for p in net.parameters())}  # fmt: skip
        deep = inner = nn.Linear(1, 1, bias=False)
        for _ in range(5):
            deep = nn.Sequential(deep)
        inner.weight.data.fill_(2.0)
        witness = Witness(model=deep.eval())
        _its = student.sgd_in_backward(deep, 2)
        seen["changed in a deep model"] = witness.changes()
        none_error(deep(torch.tensor([[3.0]])).sum().backward)
        seen["deep"] = snapshot(inner.weight)
        odd = nn.ParameterDict({"number": torch.tensor(2.0), "unusual": torch.zeros(5), "empty": torch.zeros(0)})
        _its = student.sgd_in_backward(odd, 0.1)
        modes = modes_behind(odd["number"])
        losses = 3 * odd["number"], (torch.tensor(UNUSUAL) * odd["unusual"]).sum(), odd["empty"].sum()
        none_error(partial(sum(losses).backward, create_graph=True))
        seen |= {"odd": values_of(odd), "odd, stored": grads_of(odd), "modes": modes}
        return {**seen, "example": one_step(student, 0.1, 3.0), "lr = 0": one_step(student, 0, 3.0)}

    mistakes = (
        Mistake(
            "wrong-hook-kind",
            lambda seen, layers, calls, scale, batches, lr, hooks: (
                ran_when_asked(seen)
                or (
                    all_stored(seen["stored"][0])
                    and not all_zero(seen["stored"][0])
                    and close_steps(seen["steps"], sgd_steps(layers, calls, scale, batches, lr, hooks=hooks))
                )
            ),
            "A tensor hook runs before `.grad` is written, so it cannot free it, and it also runs under "
            "`torch.autograd.grad`. Use `register_post_accumulate_grad_hook`.",
            raises="_will_engine_execute_node",
        ),
        Mistake(
            "grad-not-freed",
            lambda seen, layers, calls, scale, batches, lr, hooks: (
                not ran_when_asked(seen)
                and all_stored(seen["stored"][0])
                and close_steps(seen["steps"], sgd_steps(layers, calls, scale, batches, lr, hooks=hooks, clear=False))
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
            lambda seen, backward: (
                SILENT  # an arrival of the stopped pass may be the reason as well
                if backward == "after an aborted one"
                else not ran_when_asked(seen)
                and (seen["error"].value != "" or moved(seen["start"], seen["steps"][0]) == seen["start"].keys[-1:])
            ),
            OTHERS_GRAD,
            raises=("doesn't match the broadcast shape", "must match the size of tensor"),
        ),
        Mistake(
            "those-of-the-root-alone",
            lambda seen, backward: (
                SILENT
                if backward == "after an aborted one"
                else moved(seen["start"], seen["steps"][0]) == [name for name in seen["start"].keys if "." not in name]
            ),
            "Only the parameters that belong to `model` itself took a step, and those of the modules in it did not. "
            "`model.parameters()` gives all, at any depth.",
        ),
        Mistake(
            "wrong-sign",
            lambda seen, layers, calls, scale, batches, lr, hooks: (
                not ran_when_asked(seen)
                and close_steps(list(seen["steps"])[:1], sgd_steps(layers, calls, scale, batches[:1], -lr, hooks=hooks))
            ),
            "Your step goes uphill: you added `lr * p.grad`. To make the loss smaller, subtract it.",
        ),
        Mistake(
            "missed-parameters",
            lambda seen: (
                not ran_when_asked(seen)
                and seen["error"].value == ""
                and 0 < number_stored(seen["stored"][0]) < LEFT_ALONE
            ),
            "Some parameters took no step. `model.parameters()` visits all of them: those of nested modules, and those "
            "that belong to the model itself.",
        ),
        Mistake(
            "hooked-twice",
            lambda seen: (
                seen["error"].value == ""
                and number_stored(seen["stored"][0]) == 0
                and seen["with a tied parameter"]["error"].value != ""
            ),
            "A tied parameter carries your hook twice, and the second call finds `.grad` already `None`. "
            "`model.parameters()` visits each parameter once, however many names it has.",
        ),
        RETURNED,
        Mistake(
            "one-slot-for-all",
            lambda seen, layers, calls, scale, batches, lr, hooks: close_steps(
                [seen["after a pass through one layer"]["values"]],
                sgd_steps(layers, calls, scale, batches, lr, hooks=hooks, part=lr / 2)[-1:],
            ),
        ),
    )

    def test_every_backward_takes_one_step(seen, layers, calls, scale, batches, lr, hooks, backward):
        no_error(seen["error"], f"{STOPPED}, " if backward == "after an aborted one" else "")
        steps = Seen(seen["steps"].value, f"{STOPPED}, steps") if backward == "after an aborted one" else seen["steps"]
        for step, values in paired(steps, sgd_steps(layers, calls, scale, batches, lr, hooks=hooks)):
            same_tensors(step, values)
        expect(seen["in_place"]).is_true("a view of a parameter does not follow: the step was not taken in place")
        expect(seen["example"]["weight"]).close_to(torch.tensor([[1.7]]))
        deep = Seen(seen["deep"].value, "with lr = 2, and a gradient of 3, the weight 2 of a layer five levels deep")
        expect(deep).close_to(torch.tensor([[-4.0]]))
        number = Seen(seen["odd"]["number"].value, "a parameter of shape () with the value 2, whose gradient is 3")
        expect(number).close_to(torch.tensor(1.7))
        unusual = Seen(seen["odd"]["unusual"].value, f"zeros after a step with the gradient {UNUSUAL}")
        expect(unusual).close_to(-0.1 * torch.tensor(UNUSUAL), atol=0)
        expect(seen["odd"]["empty"]).close_to(torch.zeros(0))
        expect(seen["lr = 0"]["weight"]).close_to(torch.tensor([[2.0]]), rtol=0, atol=0)

    def test_no_gradient_is_left(seen, batches):
        for stored, number in paired(seen["stored"], range(1, len(batches) + 1)):
            nothing_stored(stored, f"after pass {number}")
        nothing_stored(seen["example"]["stored"], "after the pass of the example")
        nothing_stored(seen["lr = 0"]["stored"], "after a pass with `lr = 0`")
        nothing_stored(seen["odd, stored"], "after a step of parameters of other shapes")
        nothing_stored(seen["after zeros"], "after a pass with a gradient of zeros")

    def test_a_tied_parameter_steps_once_with_the_sum(seen, layers, calls, scale, batches, lr):
        no_error(seen["with a tied parameter"]["error"])
        for step, values in paired(
            seen["with a tied parameter"]["steps"], sgd_steps(layers, calls, scale, batches[:2], lr / 2, tied=True)
        ):
            same_tensors(step, values)

    def test_a_pass_through_one_layer_moves_that_layer(seen, layers, calls, scale, batches, lr, hooks):
        no_error(seen["after a pass through one layer"]["error"])
        *_, after = sgd_steps(layers, calls, scale, batches, lr, hooks=hooks, part=lr)
        same_tensors(seen["after a pass through one layer"]["values"], after)
        nothing_stored(seen["after a pass through one layer"]["stored"], "after a pass that reached one layer only")

    def test_a_large_gradient_is_a_gradient(seen, layers, calls, scale, lr, hooks):
        net = Net(layers, calls, scale, False)
        replaced = first_weight(net) if hooks == "replacing" else ""
        factors = {name: 200 * (FACTOR if name == replaced else 1.0) for name in values_of(net)}
        same_tensors(
            seen["after a large gradient"], {name: p - lr * factors[name] for name, p in values_of(net).items()}
        )

    def test_autograd_grad_takes_no_step(seen, layers, calls, scale, batches, hooks):
        no_error(seen["asked"]["error"], "under torch.autograd.grad, ")
        same_tensors(seen["asked"]["values"], values_of(Net(layers, calls, scale, False)))
        same_tensors(seen["asked"]["grads"], plain_grads(layers, calls, scale, batches[0], hooks))
        nothing_stored(seen["asked"]["stored"], "after torch.autograd.grad")
        nothing_changed(seen["changed"], but=["hook-left model*"])
        nothing_changed(seen["changed in a deep model"], but=["hook-left model*"])
        autograd_on(seen["modes"])

    def test_the_handles_remove_the_hooks(seen):
        for model in (seen, seen["example"]):
            expect(model["a list"]).is_true("the function did not return a list of handles")
        if any(count.value == 0 for count in seen["stored again"]):
            refuse("after remove() on one handle, its parameter still has no `.grad`: the hook of another one freed it")
        if "others go on" in seen.keys:
            expect(seen["others go on"]).is_true("after remove() on one handle, no parameter takes a step any more")
        expect(seen["has_remove"]).is_true("the function did not return a list of handles, each with a remove() method")
        expect(seen["removed"]["kept"]).is_true("after remove(), backward() still moved a parameter")
        expect(seen["removed"]["stored"]).is_true("after remove(), backward() left a parameter without `.grad`")
        nothing_changed(seen["hooks afterwards"], when="after remove()")
        expect(seen["another model steps on"]).is_true(
            "after remove() on the handles of one model, another one takes no step any more"
        )


def sgd_steps(
    layers, calls, scale, batches, lr, *, hooks="none", clear=True, tied=False, part=None
) -> list[dict[str, Tensor]]:
    """The parameters of a `Net` after one step for each batch, by the formula of the contract; a negative `lr` climbs.

    Without `clear` the gradients add up. With `part`, a learning rate, one more step follows, through one layer only.
    """
    net = Net(layers, calls, scale, tied)
    values, held = values_of(net), dict[str, Tensor]()
    replaced = first_weight(net) if hooks == "replacing" else ""
    steps = []
    for batch in batches:
        grads = gradients_at(values, net.calls, batch, replaced=replaced)
        held = grads if clear else {name: held.get(name, 0) + grad for name, grad in grads.items()}
        values = {name: value - lr * held[name] for name, value in values.items()}
        steps.append(values)
    if part is not None:
        layer = {name: value for name, value in values.items() if name.startswith(f"{net.calls[0]}.")}
        grads = gradients_at(layer, net.calls[:1], batches[0], replaced=replaced, last="")
        steps.append({name: value - part * grads[name] if name in grads else value for name, value in values.items()})
    return steps


def plain_grads(layers, calls, scale, batch, hooks) -> dict[str, Tensor]:
    """The gradients of one batch at the start."""
    net = Net(layers, calls, scale, False)
    return gradients_at(values_of(net), net.calls, batch, replaced=first_weight(net) if hooks == "replacing" else "")


LEFT_ALONE = 6
"""Of the seven parameters of a `Net`, this many keep their gradient when only the last of a loop is served."""


def number_stored(stored: Seen) -> int:
    """How many parameters have a `.grad`."""
    return sum(stored[name].tensor is not None for name in stored.keys)


def moved(start: Seen, step: Seen) -> list[str]:
    """The names of the parameters that differ from the start."""
    return [name for name in start.keys if not close(step[name], start[name].tensor, rtol=0, atol=0)]


def ran_when_asked(seen: Seen) -> bool:
    """Whether a hook did something under `torch.autograd.grad`."""
    asked = seen["asked"]
    return asked["error"].value != "" or moved(seen["start"], asked["values"]) != []
