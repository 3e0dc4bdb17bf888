"""Exercise 02-record-grad."""

from __future__ import annotations

import torch

from graders.authoring import (
    ALL,
    NO_GRADIENT_TO_HOOK,
    CallersHooks,
    Circumstances,
    Mistake,
    Witness,
    apart,
    changes,
    close,
    exercise,
    expect,
    nothing_changed,
    paired,
    prepared,
    removed,
)
from graders.lesson_02_watching_gradients.judging import (
    NONE_HAS_NO_GRADIENT,
    OLD,
    SWITCHED_OFF,
    arriving,
    factor,
    flowing,
    without_zeros,
)
from graders.lesson_02_watching_gradients.shared import graph_beneath, leaf_and_tensor, run_passes


@exercise(
    "02-record-grad",
    points=1,
    minutes=5,
    difficulty=1,
    core=True,
    title="Record every gradient that arrives",
    hints=(
        "Register a hook on `t` with `t.register_hook(fn)`. The hook receives the gradient and may simply append it.",
        "A hook that returns `None` changes nothing, and `list.append` returns `None`.",
        "Store a copy without a graph, `grad.detach().clone()`, and return the handle that `register_hook` gave you.",
    ),
    why=(
        "`append` returns `None`, so the hook changes nothing, and the copy stays as it is when somebody writes "
        "into the gradient later. A named function or an object with `__call__` would do as well, as long as it "
        "returns `None` or the same gradient."
    ),
    circumstances=Circumstances(
        covers={
            "dtype": ALL,
            "rank": ALL,
            "layout": ALL,
            "values": ALL,
            "place": ALL,
            "grad": ALL,
            "collection": ("empty", "many"),
            "hooks": ALL,
            "call": ALL,
            "grad_mode": ALL,
            "backward": ALL,
        },
        excludes={
            "number": "there is no number among the arguments",
            "model": "there is no model",
            "hooked": "there is no model; the hooks sit on the tensor",
            "failure": "nothing of the caller's is called",
        },
    ),
)
class TestRecordGrad:
    """Write `record_grad(t, store)`. `t` is a tensor that requires grad, leaf or not. `store` is a list. From now on,
    each backward pass appends the gradient that arrives at `t` to `store`, as the hooks that were on `t` before have
    left it. Return a handle: after `handle.remove()` nothing is appended any more.

    Each entry is a copy with the dtype of the gradient and without a graph. The gradients that flow through `t` stay as
    they are.

    **Example.** For `y = tensor([2.], requires_grad=True)` and `record_grad(y, store)`, the call
    `(y * y).sum().backward()` leaves `store == [tensor([4.])]`.
    """

    def draw(rng, dtype, rank, layout, values):
        shape = rng.shape(rank)
        like = {"dtype": dtype, "layout": layout, "values": values, "low": -2.0, "high": 2.0}
        return {"x": rng.tensor(*shape, **like), "up": rng.tensor(*shape, **like)}

    def oracle(x, up, grad, hooks, backward):
        return [*arriving(x, up, hooks, backward), flowing(x, up, grad, hooks)]

    def alive(x, up):
        return apart(x, up, (3 + 2 * x) * up)

    def probe(student, x, up, layout, place, grad, collection, hooks, call, grad_mode, backward):
        leaf, t = leaf_and_tensor(x, layout, place, grad)
        CallersHooks(hooks).on_tensor(t, "t")
        before = ["an entry", 2.0] * 50 if collection == "many" else []
        store, more = list(before), []
        always = Witness(t=t)
        with torch.set_grad_enabled(grad_mode == "on"):
            witness = Witness(t=t, store=store)
            handle = student.record_grad(t, store)
            seen = {"changed": witness.changes()}
        u = prepared(-x, layout=layout) if call == "in turn" else t
        other = None if call == "once" else student.record_grad(u, more)
        seen |= run_passes(leaf, t, up, layout, backward)
        if call == "in turn":
            (u * u).sum().backward()
        kept = len(store) >= len(before) and all(now is then for now, then in zip(store, before))
        seen |= {"kept": kept, "has_remove": removed(handle)}
        count = len(store)
        for end in (t, u):
            (end * end).sum().backward()
        seen |= {"store": store[len(before) : count][:30], "after_remove": len(store) - count, "more": more[:30]}
        if other is not None:
            removed(other)
            (u * u).sum().backward()
            seen["more_after_remove"] = len(more) - len(seen["more"])
        infinite, empty, recorded = prepared(x, layout=layout), torch.zeros(0, 3, dtype=x.dtype, requires_grad=True), []
        for each in (infinite, empty):
            student.record_grad(each, recorded)
        infinite.backward(torch.full_like(infinite, torch.inf))
        empty.sum().backward()
        seen |= {"of two tensors in one list": recorded[:4], "infinite.grad": infinite.grad}
        seen["graph_flows_on"] = graph_beneath(lambda t: student.record_grad(t, []), x)
        y, example = torch.tensor([2.0], requires_grad=True), []
        student.record_grad(y, example)
        (y * y).sum().backward()
        return {**seen, "changed_at_the_end": always.changes(), "example": example[:3]}

    mistakes = (
        Mistake("values-not-gradients", lambda seen, x: close(seen["store"][0], x) and close(seen["store"][1], x)),
        Mistake(
            "stored-alias",
            lambda seen, x, up, hooks, backward: (
                seen["graph_flows"].value is True
                and len(seen["store"]) == len(arriving(x, up, hooks, backward))
                and close(seen["store"][1], arriving(x, up, hooks, backward)[1])
                and close(seen["store"][len(seen["store"]) - 1], 0.0)
            ),
        ),
        Mistake(
            "returned-the-copy",
            lambda seen, x, up, hooks, backward: (
                seen["graph_flows"].value is False and close(seen["store"][1], arriving(x, up, hooks, backward)[1])
            ),
            "Your hook returned its copy, and what a hook returns flows on instead of the gradient: without its graph, "
            "and in memory that others may overwrite. Return nothing.",
        ),
        Mistake(
            "no-handle",
            lambda seen: seen["has_remove"].value is False,
            "Your function has to return the handle, so that the caller can remove the hook. It is what "
            "`register_hook` gives you.",
        ),
        Mistake(
            "hooked-a-copy",
            lambda seen: (
                seen["has_remove"].value is True
                and seen["store"].value == []
                and not changes(seen["changed"], "hook-left *")
            ),
            raises=NO_GRADIENT_TO_HOOK,
        ),
        Mistake(
            "zeros-left-out",
            lambda seen, x, up, hooks, backward: close(seen["store"], without_zeros(arriving(x, up, hooks, backward))),
        ),
        Mistake(
            "reads-dot-grad",
            lambda seen, x, up, grad, hooks: (
                seen["store"][0].value is None
                or (grad == "filled" and close(seen["store"][0], OLD))
                or close(seen["store"][1], OLD + factor(hooks) * up if grad == "filled" else factor(hooks) * up)
            ),
            raises=NONE_HAS_NO_GRADIENT,
        ),
    )

    def test_every_gradient_is_recorded(seen, x, up, hooks, backward):
        expect(seen["kept"]).is_true("store belongs to the caller, and the entries that it had are not there any more")
        expected = arriving(x, up, hooks, backward)
        expect(seen["store"]).has_length(len(expected), "recorded gradients")
        expect(seen["store"][1]).close_to(expected[1], detached=False)

    def test_entries_are_copies_without_a_graph(seen, x, up, hooks, backward):
        for entry, gradient in paired(seen["store"], arriving(x, up, hooks, backward)):
            expect(entry).close_to(gradient)
        both = seen["of two tensors in one list"]
        expect(both).has_length(2, "recorded gradients")
        expect(both[0]).close_to(torch.full_like(x, torch.inf))
        expect(both[1]).close_to(torch.zeros(0, 3, dtype=x.dtype))

    def test_the_flow_is_unchanged(seen, x, up, grad, hooks):
        expect(seen["leaf.grad"]).close_to(flowing(x, up, grad, hooks))
        expect(seen["cube"]).close_to(factor(hooks) * 0.75 * x * x)
        expect(seen["infinite.grad"]).close_to(torch.full_like(x, torch.inf))
        expect(seen["graph_flows"]).is_true(
            "with create_graph=True the gradient that flowed on had lost its graph: the hook returned a detached one"
        )
        expect(seen["graph_flows_on"]).is_true(SWITCHED_OFF)

    def test_the_handle_removes_its_hook_and_no_other(seen, x, up, hooks, call, backward):
        expect(seen["has_remove"]).is_true("the function returned nothing that has a remove() method")
        expect(seen["after_remove"]).equals(0)
        if call == "once":
            return
        again = [*arriving(x, up, hooks, backward), *[factor(hooks) * 2 * x] * 2]
        own = again if call == "again" else [-2 * x] * 2
        expect(seen["more"]).has_length(len(own), "gradients recorded by the second of two calls")
        for entry, gradient in paired(seen["more"], own):
            expect(entry).close_to(gradient)
        expect(seen["more_after_remove"]).equals(0)

    def test_nothing_else_changes(seen):
        nothing_changed(seen["changed"], but=["hook-left t"])
        nothing_changed(seen["changed_at_the_end"], but=["grad-* t"], when="after `remove()`")

    def test_the_example_of_the_contract_comes_out(seen):
        expect(seen["example"]).has_length(1, "recorded gradients")
        expect(seen["example"][0]).close_to(torch.tensor([4.0]))
