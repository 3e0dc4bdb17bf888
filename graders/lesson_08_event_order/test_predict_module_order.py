"""Exercise 08-predict-module-order."""

from __future__ import annotations

from torch import nn

from graders.authoring import (
    ALL,
    FACTOR,
    SILENT,
    Circumstances,
    Failure,
    Mistake,
    Seen,
    Witness,
    came_through,
    changes,
    exercise,
    expect,
    nothing_changed,
    refuse,
    snapshot,
)
from graders.lesson_08_event_order.judging import KEPT
from graders.lesson_08_event_order.shared import GlobalHooks, now, one_list

MODULE_ORDER = [
    "G.pre", "P.pre", "A.pre",
    "G.fwd", "P.fwd", "A.fwd",
    "G.bpre", "P.bpre", "A.bpre",
    "G.bwd", "P.bwd", "A.bwd",
]  # fmt: skip


def twelve(forward: str, backward: str) -> list[str]:
    """The twelve labels when the hooks of each kind fire in the order of these letters."""
    kinds = {"pre": forward, "fwd": forward, "bpre": backward, "bwd": backward}
    return [f"{letter}.{kind}" for kind, letters in kinds.items() for letter in letters]


@exercise(
    "08-predict-module-order",
    points=1,
    minutes=10,
    difficulty=1,
    core=True,
    title="Three hooks of each kind on one module",
    hints=(
        "Who is first? A global hook was registered last, and yet it does not have to wait for the hooks of the layer.",
        "`prepend=True` puts a hook before the other hooks of the same layer. It does not put it before global hooks.",
        "The rule is the same in backward: nothing is reversed among the hooks of one module.",
    ),
    why=(
        "Global hooks come first, then those that were prepended, then the others; this holds for each kind and in "
        "backward, too, so two loops make the list. A function that registers the twelve hooks, runs one pass and "
        "returns what they noted would do as well, if it removes the global ones afterwards."
    ),
    circumstances=Circumstances(
        covers={"hooks": ALL, "call": ("again",), "failure": ALL},
        excludes={
            "tensor": "the function gets no tensor",
            "number": "it gets no number",
            "collection": "it gets no collection",
            "model": "it gets no model",
            "hooked": "only global hooks of the caller can reach a layer that the function makes",
            "grad_mode": "a list that is written down needs none, and one that measures runs a backward pass",
            "backward": "the contract says which pass it is",
            "failing_run": "one run is enough to measure",
        },
        own={"raises_at": ("bwd", "bpre", "fwd", "pre")},  # in this order: an answer keeps what its first pass came to
    ),
)
class TestPredictModuleOrder:
    """Write `predict_module_order()`. It answers this question: in which order do twelve hooks fire?

    There is one `nn.Linear` and an input that requires grad. There are four kinds of hooks: forward pre-hook (`pre`),
    forward hook (`fwd`), full backward pre-hook (`bpre`) and full backward hook (`bwd`). Of each kind, three hooks are
    registered, in this order: `A` on the layer, then `P` on the layer with `prepend=True`, then `G` as a global hook.
    Then `layer(x).sum().backward()` runs once.

    Return a new list of all twelve labels, such as `"A.fwd"`, in the order in which the hooks fire. You may write the
    list down, or let the function measure it. In that case global hooks of others may be there: they fire as well, and
    may change values.

    **Example.** If there were only the hooks `A`, the answer would be `["A.pre", "A.fwd", "A.bpre", "A.bwd"]`.
    """

    def draw(rng):
        return {"x": rng.tensor(2, 3), "weight": rng.tensor(4, 3)}

    def probe(student, x, weight, hooks, failure, raises_at):
        callers = GlobalHooks(hooks)
        failing = Failure(failure)  # first: what is kept from the call that is broken off shows in all that follow
        handle = GlobalHooks.register(raises_at, failing.strike)
        witness = Witness()
        seen = {"failure": failing.during(student.predict_module_order), "changed by failure": witness.changes()}
        handle.remove()
        seen["after a failure"] = now(student.predict_module_order())
        witness = Witness()
        results, orders = [], []
        for _ in range(2):
            results.append(student.predict_module_order())
            orders.append(now(results[-1]))
        seen |= {"order": orders[0], "second_call": orders[1], "changed": witness.changes()}
        seen["one list"] = one_list(results)
        callers.log.clear()
        layer = nn.Linear(3, 4, bias=False)
        layer.weight = nn.Parameter(weight)
        output = layer(x.requires_grad_())
        output.sum().backward()
        seen |= {"callers_calls": list(callers.log), "later output": snapshot(output), "later grad": snapshot(x.grad)}
        return seen

    mistakes = (
        Mistake(
            "local-before-global",
            lambda seen: seen["order"].value in (twelve("PAG", "PAG"), twelve("PGA", "PGA")),
            "You let hooks of the layer run before the global hook. Global hooks run first, even before a hook that "
            "was registered with `prepend=True`, and no matter when they were registered.",
        ),
        Mistake(
            "registration-order",
            lambda seen: seen["order"].value in (twelve("APG", "APG"), twelve("GAP", "GAP")),
            "You kept the order of registration. Hooks of one module do run in that order, but `prepend=True` puts a "
            "hook at the front of them, and global hooks come before all of them.",
        ),
        Mistake(
            "backward-reversed",
            lambda seen: seen["order"].value in (twelve("GPA", "APG"), twelve("GPA", "GAP")),
            "Your forward half is right. In backward the modules are visited in reverse, but the hooks of one module "
            "are not: global, prepended, appended, as in forward.",
        ),
        Mistake(
            "hook-left-behind",
            lambda seen: seen["order"].value == MODULE_ORDER and len(changes(seen["changed"], "hook-left *")) > 0,
            "Your list is right, but your global hooks are still registered, and now they fire for every module of "
            "this process. Keep their handles and call `remove()`.",
        ),
        Mistake(
            "the-same-list",
            lambda seen: (
                seen["order"].value == MODULE_ORDER
                and seen["second_call"].value == MODULE_ORDER
                and seen["one list"].value is True
            ),
            "You return the same list object in every call. A caller who changes it changes what the next call "
            "returns. Make the list inside the function.",
        ),
        Mistake(
            "kept-from-call-to-call",
            lambda seen: (
                len(seen["second_call"]) > len(MODULE_ORDER)
                and len(seen["order"]) >= len(MODULE_ORDER)
                and seen["second_call"].value[: len(seen["order"])] == seen["order"].value
            ),
            KEPT,
        ),
        Mistake(
            "kept-after-a-failure",
            lambda seen: (
                0 < len(seen["order"]) < len(MODULE_ORDER)
                and seen["order"].value == MODULE_ORDER[: len(seen["order"])]
                and seen["order"].value == seen["after a failure"].value
                and (SILENT if seen["failure"].value == "never raised" else True)  # as it is when nothing is measured
            ),
            "Your list breaks off. An earlier call ended in an exception, and what it had written down until then is "
            "still there: start anew in each call.",
        ),
    )

    def test_the_twelve_hooks_are_in_the_order_in_which_they_fire(seen):
        expect(Seen(seen["order"].value, "the list")).timeline(MODULE_ORDER)
        expect(Seen(seen["second_call"].value, "the list of a second call")).timeline(MODULE_ORDER)

    def test_each_call_returns_a_new_list(seen):
        if seen["one list"].value:
            refuse("two calls returned the same list object")

    def test_nothing_else_changes(seen, hooks, x, weight):
        nothing_changed(seen["changed"])
        calls = Seen(seen["callers_calls"].value, "the calls of the caller's global hooks in a later pass")
        expect(calls).timeline([] if hooks == "none" else ["pre", "fwd", "bpre", "bwd"])
        factor = FACTOR if hooks == "replacing" else 1.0  # a hook before the layer and one after it, in both directions
        for name, later, plain in (
            ("output", seen["later output"], x @ weight.T * factor**2),
            ("gradient", seen["later grad"], weight.sum(0).expand_as(x) * factor**4),
        ):
            expect(Seen(later.value, f"the {name} of a layer in a later pass")).close_to(plain)

    def test_all_is_in_order_when_a_hook_of_the_caller_raises(seen):
        if seen["failure"].value != "never raised":  # a list that is written down calls nobody's hooks
            came_through(seen["failure"], "a global hook of the caller")
        nothing_changed(seen["changed by failure"], when="after an exception")
        expect(Seen(seen["after a failure"].value, "the list of the call after an exception")).timeline(MODULE_ORDER)
