"""Exercise 04-offload-grads."""

from __future__ import annotations

from functools import partial
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor, nn

from graders.authoring import (
    ALL,
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
    prepared,
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

BIG = 2.0**25
"""In float32 this number swallows everything below 2 that is added to it."""


def sum_of(sums: Any, p: Tensor) -> Any:
    """What a dict with whatever keys holds for this parameter."""
    return next((total for key, total in sums.items() if key is p), None) if isinstance(sums, dict) else None


@exercise(
    "04-offload-grads",
    points=2,
    minutes=15,
    difficulty=2,
    title="Move gradients out of the way",
    hints=(
        "A post-accumulate-grad hook again: it receives the parameter, with its gradient in `p.grad`.",
        'Convert first, `p.grad.to("cpu", torch.float64)`; then add to the sum under the key `p`; then set '
        "`p.grad = None`.",
        "If `.grad` is not freed, the next pass adds to it, and your hook then adds the old gradient a second time.",
    ),
    why=(
        "The hook takes the finished gradient, moves it, and sets `p.grad` to `None`, so that the next pass has "
        "nothing to add to. Sums that start as zeros for each parameter would do as well; what matters is that "
        "they add up in float64."
    ),
    circumstances=Circumstances(
        covers={
            "dtype": ALL, "rank": ALL, "layout": ALL, "values": ALL, "collection": ("many", "one", "empty"),
            "hooks": ALL, "hooked": ("parameter",), "call": ("in turn",), "grad_mode": ALL, "backward": ALL,
        },
        excludes={
            "place": "parameters are parameters",
            "grad": "the contract says that there is no `.grad` yet",
            "number": "no number is an argument",
            "model": "the function gets parameters, and no model",
            "failure": "the function calls nothing of the caller",
        },
        pairs=[("dtype", "hooks")],
        # Without parameters, neither the caller's hooks nor the passes show anything.
        impossible=[
            lambda collection, hooks: collection == "empty" and hooks != "none",
            lambda collection, backward: collection == "empty" and backward != "plain",
        ],
    ),
)  # fmt: skip
class TestOffloadGrads:
    """Write `offload_grads(params)`. `params` is a list of different parameters, each of which requires grad and has no
    `.grad` yet. No parameter is in two lists at a time. Return a pair: a dict `sums` and a list of all handles.

    From now on, whenever `backward()` returns, each parameter `p` of the list that it reached has `p.grad` equal to
    `None`, and `sums[p]` is the sum of the gradients of `p` over all backward passes since your call. The key is the
    parameter itself. Before its first pass it may be missing, or its sum may be zeros. The sums are on the CPU, of
    dtype `float64`, and added up in `float64`. (After a pass with `create_graph=True` they may have a graph.)

    `torch.autograd.grad` is not counted. After `remove()` on each handle, `backward()` stores `.grad` again, and the
    sums stay as they are.

    **Example.** For `p = nn.Parameter(torch.zeros(2))` and `sums, handles = offload_grads([p])`, run
    `(3 * p).sum().backward()` twice. Now `sums[p]` is `tensor([6., 6.], dtype=torch.float64)`, and `p.grad` is `None`.
    """

    tolerance = (1e-4, 1e-4)

    def draw(rng, dtype, rank, values, collection):
        def batch():
            return [rng.tensor(2, 3, dtype=dtype, values=values), rng.tensor(2, 3, dtype=dtype, values=values)]

        data = net_data(rng, dtype, values)
        names = rng.shuffled(list(values_of(Net(**data, tied=False))))
        return {
            **data,
            "chosen": names[: {"empty": 0, "one": 1, "many": -2}[collection]],
            "batches": [batch() for _ in range(3)],
            "small": rng.tensor(*rng.shape(rank), low=-2, high=1.875),
        }

    def alive(layers, calls, scale, chosen, batches, hooks):
        first, second, third = sums_over(layers, calls, scale, chosen, batches, hooks)
        return all(
            min(entry.abs().max() for entry in (first[name], second[name] - first[name], third[name] - second[name]))
            > 0.01
            for name in chosen
        )

    def oracle(layers, calls, scale, chosen, batches, hooks):
        return all_sums(layers, calls, scale, chosen, batches, hooks, scale.dtype)

    def probe(student, layers, calls, scale, chosen, batches, small, layout, hooks, grad_mode, backward):
        net = lay_out(Net(layers, calls, scale, False), layout if layout != "expanded" else "transposed")
        by_name = dict(net.named_parameters())
        params = {name: by_name[name] for name in chosen}
        if chosen:
            CallersHooks(hooks).on_parameter(by_name[chosen[0]], "p")
        given = list(params.values())

        def pair(result):
            return result if isinstance(result, tuple | list) and len(result) == 2 else (result, None)

        def named(sums):
            if not isinstance(sums, dict):
                return sums
            # By identity: a tensor that is compared with a key of another kind may raise.
            return {name: snapshot(value) for key, value in sums.items() for name, p in params.items() if key is p}

        with torch.set_grad_enabled(grad_mode == "on"):
            witness = Witness(params=given, model=net)
            sums, handles = pair(student.offload_grads(given))
            seen = {"changed": witness.changes()}
        at_first, grads = named(sums), []

        def ask_autograd():
            if params:
                grads.extend(torch.autograd.grad(loss_of(net, batches[0]), list(params.values())))

        error = none_error(ask_autograd)
        asked = {"error": error, "before": at_first, "sums": named(sums), "stored": grads_of(net)}
        if backward == "after an aborted one":
            h = net(batches[0][0])
            abort(lambda: (h - batches[0][1]).square().sum(), h)
        after_each, stored, error = [], [], ""
        for batch in batches:
            whole_pass = partial(loss_of(net, batch).backward, create_graph=backward == "create_graph")
            error = error or none_error(whole_pass)
            after_each.append(named(sums))
            stored.append({name: snapshot(p.grad) for name, p in params.items()})
        seen["changed values"] = [change for change in witness.changes() if change[0] == "values"]
        exact, twin = (prepared(torch.ones_like(small), layout=layout, place="parameter") for _ in range(2))
        its_sums, its_handles = pair(student.offload_grads([exact, twin]))
        for factor in (torch.full_like(small, BIG), small, torch.full_like(small, -BIG), 0 * small):
            none_error((factor * exact).sum().backward)
            exact.data = exact.detach() + 1
        none_error((3 * small * twin).sum().backward)
        seen["after zeros"] = {"p": snapshot(exact.grad), "twin": snapshot(twin.grad)}
        params |= {"p": exact, "twin": twin}
        seen["exact"] = named(its_sums)
        if isinstance(its_handles, list) and len(its_handles) > 1 and removed(its_handles[0]):
            none_error((exact + twin).sum().backward)
            seen["others go on"] = exact.grad is None or twin.grad is None
            for first, second in ((exact, twin), (twin, exact)):  # the second one arrives first
                exact.grad = twin.grad = None
                none_error((first.sum() + second.sum()).backward)
                if len(its_handles) == 2 and exact.grad is None and twin.grad is None:
                    seen["freed by another"] = True
        seen |= {
            "beside the second": named(sums),
            "asked": asked, "sums": after_each, "stored": stored, "error": error,
            "foreign": isinstance(sums, dict) and any(all(key is not p for p in params.values()) for key in sums),
            "others": {name: grad for name, grad in grads_of(net).items() if name not in chosen},
            "has_remove": isinstance(handles, list) and all_removed(handles),
            "hooks afterwards": [change for change in witness.changes() if change[0].startswith("hook-")],
        }  # fmt: skip
        net.zero_grad()
        loss_of(net, batches[0]).backward()
        seen["removed"] = {"sums": named(sums), "stored": all(by_name[name].grad is not None for name in chosen)}
        early, late = (prepared(torch.ones_like(small), place="parameter") for _ in range(2))
        sums_of_both, _both = pair(student.offload_grads([early, late]))
        # autograd starts with what was computed last: `early` has arrived when `late` stops the pass
        none_error(lambda: abort(lambda: (small * late).sum() + (small * early).sum(), late))
        none_error(((small * late).sum() + (small * early).sum()).backward)
        params |= {"early": early, "late": late}
        seen["after a stopped pass"] = {
            "stored": {"early": snapshot(early.grad), "late": snapshot(late.grad)}, "sums": named(sums_of_both),
        }  # fmt: skip
        p = nn.Parameter(torch.zeros(2))
        sums, _ = pair(student.offload_grads([p]))
        for _ in range(2):
            none_error((3 * p).sum().backward)
        params = {"p": p}
        seen |= {"example": named(sums), "example, p.grad": p.grad}
        all_removed(pair(student.offload_grads([nn.Parameter(torch.zeros(2))]))[1])
        none_error((3 * p).sum().backward)
        seen["after remove() on the handles of another call"] = named(sums)
        unusual = nn.Parameter(torch.zeros(len(UNUSUAL)))
        sums, _still = pair(student.offload_grads([unusual]))
        none_error((torch.tensor(UNUSUAL) * unusual).sum().backward)
        seen["unusual"] = snapshot(sum_of(sums, unusual))

        one, other, nothing = (nn.Parameter(torch.zeros(size)) for size in (2, 2, 0))
        params = {"one": one, "other": other, "nothing": nothing}
        sums, handles = pair(student.offload_grads([one, other, nothing]))
        none_error(((one + other).sum() + nothing.sum()).backward)
        none_error((5 * one).sum().backward)
        one.register_hook(lambda grad: 2 * grad)
        none_error((3 * one).sum().backward)
        seen["of their own"] = named(sums)
        seen["of their own, stored"] = {name: snapshot(p.grad) for name, p in params.items()}
        all_removed(handles)
        none_error((one + other).sum().backward)
        all_removed(handles)
        seen["removed twice"] = one.grad is not None and other.grad is not None
        one.grad = other.grad = nothing.grad = None
        _again = student.offload_grads([one, other, nothing])
        seen["after a new call"] = named(sums)
        twice = nn.Parameter(torch.zeros(2))
        _first, handles = pair(student.offload_grads([twice]))
        none_error((7 * twice).sum().backward)
        all_removed(handles)
        sums, _anew = pair(student.offload_grads([twice]))
        modes = modes_behind(twice)
        none_error(partial((5 * twice).sum().backward, create_graph=True))
        return {**seen, "called twice": snapshot(sum_of(sums, twice)), "modes": modes}

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
            lambda seen, layers, calls, scale, chosen, batches, hooks: (
                not counted_when_asked(seen)
                and all_stored(seen["stored"][0])
                and not (chosen and all_zero(seen["stored"][0]))
                and close_steps(seen["sums"], sums_over(layers, calls, scale, chosen, batches, hooks))
            ),
            "Your sums are right, but the gradients still take their memory: `p.grad` has to be `None` when `backward` "
            "returns. Add `p.grad` to the sum in a post-accumulate-grad hook, then set `p.grad = None`.",
        ),
        Mistake(
            "counted-twice",
            lambda seen, layers, calls, scale, chosen, batches, hooks: (
                not counted_when_asked(seen)
                and close_steps(seen["sums"], running_sums(sums_over(layers, calls, scale, chosen, batches, hooks)))
            ),
            "From the second pass on your sums are too large: `.grad` still held the earlier gradients, and you added "
            "them again. Set `p.grad = None` once you have added it.",
        ),
        Mistake(
            "overwrote-total",
            lambda seen, layers, calls, scale, chosen, batches, hooks: close_steps(
                list(seen["sums"])[1:],
                [sums_over(layers, calls, scale, chosen, [batch], hooks)[0] for batch in batches[1:]],
            ),
            "Your dict holds the gradient of the last pass only. Add each new gradient to the sum that is there.",
        ),
        Mistake(
            "changed-dtype",
            lambda seen, layers, calls, scale, chosen, batches, small, hooks: (
                not counted_when_asked(seen)
                and nothing_kept(seen["stored"])
                and close_steps(seen["sums"], sums_over(layers, calls, scale, chosen, batches, hooks))
                and seen["exact"]["p"].tensor is not None
                and (seen["exact"]["p"].tensor.dtype != torch.float64 or close(seen["exact"]["p"], swallowed(small)))
            ),
            "The gradients were added up in the dtype of the parameter, and rounding lost small ones. Convert each "
            "gradient to `float64` before you add it, so that the sum is in `float64`, too.",
        ),
        Mistake(
            "zeroed-not-freed",
            lambda seen: (
                not counted_when_asked(seen) and all_zero(seen["stored"][0]) and close(seen["after zeros"]["twin"], 0.0)
            ),
            "`.grad` is a tensor of zeros, which takes as much memory as the gradient did. Set it to `None`.",
        ),
        Mistake(
            "late-binding",
            lambda seen, chosen: (
                not counted_when_asked(seen)
                and seen["foreign"].value is False
                and (seen["error"].value != "" or number_moved(seen["sums"][2]) == 1 < len(chosen))
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
        Mistake(
            "one-slot-for-all",
            lambda seen: any(name in seen["beside the second"].keys for name in ("p", "twin")),
        ),
    )

    def test_the_sums_grow_with_every_pass(seen, layers, calls, scale, chosen, batches, hooks, dtype):
        no_error(seen["error"])
        limit = 1e-10 if dtype == "float64" else 1e-4
        for sums, expected in paired(seen["sums"], sums_over(layers, calls, scale, chosen, batches, hooks)):
            if type(sums.value) is not dict:
                expect(sums).fail("the first part of the result is not a dict")
            for name, total in expected.items():
                if name not in sums.keys:
                    expect(sums).fail(f"the parameter {name} is not a key of the dict, though backward() reached it")
                expect(sums[name]).close_to(total, rtol=limit, atol=limit)

    def test_no_gradient_is_left(seen, batches):
        for stored, number in paired(seen["stored"], range(1, len(batches) + 1)):
            nothing_stored(stored, f"after pass {number}")
        nothing_stored(seen["after zeros"], "after a pass with a gradient of zeros")
        nothing_stored(seen["after a stopped pass"]["stored"], "after the pass that followed a stopped one")
        if seen["example, p.grad"].value is not None:
            expect(seen["example, p.grad"]).fail("after the passes of the example, `p.grad` is not None")

    def test_the_sums_are_made_in_float64(seen, small):
        part = Seen(seen["exact"].value, "after passes that reached one parameter of two, sums")
        expect(part["p"]).close_to(small.double())
        expect(part["twin"]).close_to(3 * small.double())
        expect(seen["example"]["p"]).close_to(torch.full((2,), 6.0, dtype=torch.float64))
        expect(seen["after a stopped pass"]["sums"]["late"]).close_to(small.double())
        unusual = Seen(seen["unusual"].value, f"the sum of one gradient, {UNUSUAL}")
        expect(unusual).close_to(torch.tensor(UNUSUAL).double(), atol=0)

    def test_each_parameter_has_a_sum_of_its_own(seen):
        twice = Seen(
            seen["called twice"].value, "the sum of a second call, after `remove()` on the handles of the first"
        )
        expect(twice).close_to(torch.full((2,), 5.0, dtype=torch.float64))
        for what in ("of their own", "after a new call"):
            sums = {"one": [12.0, 12.0], "other": [1.0, 1.0], "nothing": []}
            for name, total in sums.items():
                expect(seen[what][name]).close_to(torch.tensor(total, dtype=torch.float64))
        nothing_stored(seen["of their own, stored"], "after passes that reached it")

    def test_a_second_call_has_a_dict_of_its_own(seen):
        last = seen["sums"][2]
        expect(seen["beside the second"]).has_keys(*last.keys)
        same_tensors(seen["beside the second"], tensors_in(last))
        expect(seen["exact"]).has_keys("p", "twin")

    def test_autograd_grad_is_not_counted(seen):
        no_error(seen["asked"]["error"], "under torch.autograd.grad, ")
        nothing_stored(seen["asked"]["stored"], "after torch.autograd.grad")
        if counted_when_asked(seen):
            expect(seen["asked"]["sums"]).fail("torch.autograd.grad was counted; only backward() should be")

    def test_nothing_else_changes(seen, layers, calls, scale, chosen, batches):
        nothing_changed(seen["changed"], but=["hook-left *"])
        nothing_changed(seen["changed values"])
        autograd_on(seen["modes"])
        grads = all_sums(layers, calls, scale, chosen, batches, "none", scale.dtype)[-1]
        same_tensors(seen["others"], {name: grad for name, grad in grads.items() if name not in chosen})

    def test_the_handles_remove_the_hooks(seen):
        if "freed by another" in seen.keys:
            refuse("after remove() on one handle, its parameter still has no `.grad`: the hook of another one freed it")
        if "others go on" in seen.keys:
            expect(seen["others go on"]).is_true("after remove() on one handle, no gradient is moved any more")
        expect(seen["has_remove"]).is_true("the function did not return a list of handles, each with a remove() method")
        expect(seen["removed"]["stored"]).is_true("after remove(), backward() left a parameter without `.grad`")
        expect(seen["removed twice"]).is_true("a second remove() after a pass took `.grad` away again")
        same_tensors(seen["removed"]["sums"], tensors_in(seen["sums"][2]))
        nothing_changed(seen["hooks afterwards"], when="after remove()")
        nine = torch.full((2,), 9.0, dtype=torch.float64)
        expect(seen["after remove() on the handles of another call"]["p"]).close_to(nine)


def swallowed(small: Tensor) -> Tensor:
    """What is left of `small` when it is added to `BIG` in its own dtype."""
    return small + BIG - BIG


def tensors_in(sums: Seen) -> dict[str, Tensor]:
    """The entries that are tensors."""
    found = {name: sums[name].tensor for name in sums.keys}
    return {name: total for name, total in found.items() if total is not None}


def sums_over(layers, calls, scale, chosen, batches, hooks) -> list[dict[str, Tensor]]:
    """The accumulated `.grad` of those that were chosen after each batch, on a float64 copy of the net."""
    steps = all_sums(layers, calls, scale, chosen, batches, hooks, torch.float64)
    return [{name: step[name] for name in step if name in chosen} for step in steps]


def all_sums(layers, calls, scale, chosen, batches, hooks, dtype) -> list[dict[str, Tensor]]:
    """The accumulated `.grad` of every parameter after each batch, on a copy of the net in `dtype`."""
    net = Net(layers, calls, scale, False)
    values = {name: value.to(dtype) for name, value in values_of(net).items()}
    replaced = chosen[0] if chosen and hooks == "replacing" else ""
    grads = [gradients_at(values, net.calls, [t.to(dtype) for t in batch], replaced=replaced) for batch in batches]
    return list(accumulate(grads, lambda total, more: {name: total[name] + more[name] for name in more}))


def running_sums(steps: list[dict[str, Tensor]]) -> list[dict[str, Tensor]]:
    """Sums of sums: what somebody has who adds up `.grad` and never clears it."""
    return list(accumulate(steps, lambda total, step: {name: total[name] + step[name] for name in step}))


def number_moved(sums: Seen) -> int:
    """How many sums there are that are not zeros."""
    return sum(not close(sums[name], 0.0) for name in sums.keys)


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
