"""Exercise 08-predict-autograd-order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from graders.authoring import (
    Circumstances,
    Mistake,
    Seen,
    Witness,
    exercise,
    expect,
    nothing_changed,
    paired,
    refuse,
)
from graders.lesson_08_event_order.shared import now, one_list

AUTOGRAD_ORDER = {
    "non-leaf": ["tensor", "retain_grad", "node_pre", "node_post"],
    "leaf": ["tensor", "node_pre", "post_acc", "node_post"],
}

ALMOST_KINDS = [
    *("", "Leaf", "LEAF", "NON-LEAF", "leaf ", "leaf\n", "nonleaf", "a non-leaf", "lea", "f", "non"),
    *("leafs", "non-leafs", "non_leaf"),
]


def error_of(call: Callable[[], Any]) -> str:
    """Which exception a call raises: "ValueError" also for its subclasses, "none" when it returns."""
    try:
        call()
    except ValueError:
        return "ValueError"
    except Exception as error:
        return type(error).__name__
    return "none"


@exercise(
    "08-predict-autograd-order",
    points=2,
    minutes=15,
    difficulty=2,
    title="Tensor, node, and the moment of .grad",
    hints=(
        "Hooks on the tensor come first, for a leaf and for a non-leaf.",
        "When is `.grad` written? For a non-leaf, let the pre-hook of the node return 100 times the gradient, and see "
        "which of the two arrives in `y.grad`.",
        "The post hook of the node ends it. For a leaf, the work of the node is to write `.grad`, and the "
        "post-accumulate-grad hook belongs to that work.",
    ),
    why=(
        "The `.grad` of a non-leaf is written right after its tensor hooks, before its node comes in at all; that of "
        "a leaf is written by the node itself, and its post-accumulate-grad hooks belong to that. A function that "
        "sets the four events up and notes them would do as well; `retain_grad` has been at work as soon as `.grad` "
        "is no longer `None`."
    ),
    circumstances=Circumstances(
        covers={"call": ("again", "in turn")},
        excludes={
            "tensor": "the function gets no tensor",
            "number": "it gets no number",
            "collection": "it gets no collection",
            "model": "it gets no model",
            "hooks": "a function that measures makes its own tensors, and no hook of a caller sits on these",
            "grad_mode": "a list that is written down needs none, and one that measures runs a backward pass",
            "backward": "the contract says which pass it is",
            "failure": "it calls nothing of the caller's",
        },
        at_least=2,
    ),
)
class TestPredictAutogradOrder:
    """Write `predict_autograd_order(kind)`. It returns the order of four events of one backward pass, as a new list of
    four labels.

    For `kind == "non-leaf"` there is a tensor `y = 3 * x`, where `x` is a leaf that requires grad:

    - `"tensor"`: a hook on `y` runs (`y.register_hook`).
    - `"retain_grad"`: `y.grad` is written, as `y.retain_grad()` asked for.
    - `"node_pre"`: a pre-hook of the node `y.grad_fn` runs (`register_prehook`).
    - `"node_post"`: a hook of this node runs (`register_hook`).

    For `kind == "leaf"` it is about the leaf `x` and its node `get_gradient_edge(x).node`: `"tensor"`, `"node_pre"` and
    `"node_post"` as above, and

    - `"post_acc"`: a hook on `x` runs (`x.register_post_accumulate_grad_hook`).

    All is set up before the pass, in the order `node_post`, `node_pre`, `retain_grad` or `post_acc`, `tensor`. For any
    other text, raise a `ValueError`. You may write the lists down, or let the function measure them.

    **Example.** If a leaf had only the hooks `tensor` and `post_acc`, the answer would be `["tensor", "post_acc"]`:
    you know that from lesson 4. `predict_autograd_order("tree")` raises a `ValueError`.
    """

    def draw(rng, call):
        first, second = rng.shuffled(["leaf", "non-leaf"])
        kinds = [first, first, second, second] if call == "again" else [first, second, first, second]
        return {"kinds": kinds, "unknown": [*rng.names(2), *ALMOST_KINDS]}

    def probe(student, kinds, unknown):
        witness = Witness()
        orders, results = {}, []
        for kind in kinds:
            results.append(student.predict_autograd_order(kind))
            orders.setdefault(kind, []).append(now(results[-1]))
        errors = [error_of(lambda kind=kind: student.predict_autograd_order(kind)) for kind in unknown]
        return {
            "orders": {kind: first for kind, (first, _) in orders.items()},
            "second": {kind: second for kind, (_, second) in orders.items()},
            "one list": one_list(results),
            "errors": errors,
            "changed": witness.changes(),
        }

    mistakes = (
        Mistake(
            "documented-order",
            lambda seen: seen["orders"]["non-leaf"].value == ["tensor", "node_pre", "retain_grad", "node_post"],
            "For a non-leaf you follow the list in PyTorch's notes, and there the note and the engine disagree. Run "
            "it: let the pre-hook of the node return a multiple, and see what `y.grad` holds.",
        ),
        Mistake(
            "registration-order",
            lambda seen: (
                seen["orders"]["non-leaf"].value == ["node_post", "node_pre", "retain_grad", "tensor"]
                or seen["orders"]["leaf"].value == ["node_post", "node_pre", "post_acc", "tensor"]
            ),
            "This is the order of registration. It decides between hooks of one kind; between kinds, the moment "
            "decides: the tensor, then its node, and the node's own work before its post hook.",
        ),
        Mistake(
            "post-acc-last",
            lambda seen: seen["orders"]["leaf"].value == ["tensor", "node_pre", "node_post", "post_acc"],
            "You put the post-accumulate-grad hook last. It runs inside the node of the leaf, right after `.grad` is "
            "written, and the post hook of the node waits until that work is done.",
        ),
        Mistake(
            "node-not-held",
            lambda seen: seen["orders"]["leaf"].value == ["tensor", "post_acc"],
            "The hooks of the node of the leaf were never called. If no variable refers to this node and no graph uses "
            "it yet, it is thrown away, and its hooks with it: hold on to it.",
        ),
        Mistake(
            "kinds-exchanged",
            lambda seen: all(
                seen["orders"][kind].value == AUTOGRAD_ORDER[other]
                for kind, other in (("leaf", "non-leaf"), ("non-leaf", "leaf"))
            ),
            "You exchanged the two: this is the list of a leaf for a non-leaf, and that of a non-leaf for a leaf.",
        ),
        Mistake(
            "unknown-kind-accepted",
            lambda seen: (
                all(seen["orders"][kind].value == order for kind, order in AUTOGRAD_ORDER.items())
                and any(error.value != "ValueError" for error in seen["errors"])
            ),
            'Both lists are right. Any `kind` other than "leaf" and "non-leaf" has to end in `raise ValueError(...)`: '
            "not in a result, and not in another exception.",
        ),
        Mistake(
            "the-same-list",
            lambda seen: (
                all(
                    seen[which][kind].value == order
                    for kind, order in AUTOGRAD_ORDER.items()
                    for which in ("orders", "second")
                )
                and seen["one list"].value is True
                and all(error.value == "ValueError" for error in seen["errors"])
            ),
            "You return the same list object in every call. A caller who changes it changes what the next call "
            "returns. Make the lists inside the function.",
        ),
    )

    def test_both_orders_are_right(seen):
        for kind, order in AUTOGRAD_ORDER.items():
            expect(Seen(seen["orders"][kind].value, f"the list for {kind!r}")).timeline(order)

    def test_a_second_call_returns_the_same(seen):
        for kind, order in AUTOGRAD_ORDER.items():
            expect(Seen(seen["second"][kind].value, f"the list of a second call for {kind!r}")).timeline(order)
        nothing_changed(seen["changed"])

    def test_each_call_returns_a_new_list(seen):
        if seen["one list"].value:
            refuse("two calls returned the same list object")

    def test_an_unknown_kind_raises_a_value_error(seen, unknown):
        for error, text in paired(seen["errors"], unknown):
            if error.value != "ValueError":
                became = "it returned" if error.value == "none" else f"it raised {error.value}"
                refuse(f"for the text {text!r} the function is to raise a ValueError, and {became}")
