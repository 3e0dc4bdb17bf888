"""Exercise 08-predict-autograd-order."""

from graders.exercises.authoring import exercise
from graders.scenes.scene import stories
from graders.scenes.stories import told_orders as orders

LEAF = ("tensor", "node_pre", "post_acc", "node_post")
NON_LEAF = ("tensor", "retain_grad", "node_pre", "node_post")


def either(kind, leaf, non_leaf):
    """The list of that kind; any other kind is an error."""
    if kind not in ("leaf", "non-leaf"):
        raise ValueError(kind)
    return list(leaf if kind == "leaf" else non_leaf)


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
        "The post hook of the node comes last. For a leaf, the work of the node is to write `.grad`, and the "
        "post-accumulate-grad hook belongs to that work.",
    ),
    why=(
        "The `.grad` of a non-leaf is written right after its tensor hooks, before its node comes into play at all; "
        "that of a leaf is written by the node itself, and its post-accumulate-grad hooks belong to that. A function "
        "that sets the four events up and notes them would do as well; once `.grad` is no longer `None`, "
        "`retain_grad` has done its work."
    ),
    scene=stories(
        promises={
            "both orders are right": (orders.in_order_for_a_kind, orders.in_order_again),
            "each call returns a new list": orders.a_new_list_for_a_kind,
            "nothing else changes": orders.nothing_else_for_a_kind,
            "an unknown kind raises a value error": orders.another_text,
        },
        axes=orders.AUTOGRAD,
    ),
)
class TestPredictAutogradOrder:
    """Write `predict_autograd_order(kind)`. For `"non-leaf"` (a tensor `y = 3 * x`) and for `"leaf"` (`x` itself), it
    returns, as a new list, the four labels below, in the order in which these events happen in a backward pass. For any
    other text it raises a `ValueError`.

    **Example.**

    >>> sorted(predict_autograd_order("leaf"))
    ['node_post', 'node_pre', 'post_acc', 'tensor']
    >>> sorted(predict_autograd_order("non-leaf"))
    ['node_post', 'node_pre', 'retain_grad', 'tensor']

    **Fine print.** `tensor`: a hook on the tensor runs (`register_hook`). `node_pre`, `node_post`: a pre-hook and a
    hook of its node run (`y.grad_fn`, or `get_gradient_edge(x).node`). `retain_grad`: `y.grad` is written, as
    `y.retain_grad()` asked for. `post_acc`: a hook on `x` runs (`register_post_accumulate_grad_hook`). They are set up
    in the order `node_post`, `node_pre`, `retain_grad` or `post_acc`, `tensor`. Write the lists down, or let the
    function measure them.
    """

    def reference(kind):
        return either(kind, LEAF, NON_LEAF)

    class Mistakes:
        def documented_order(kind):
            """For a non-leaf you followed the list in PyTorch's notes, but there the notes and the engine disagree. Run
            it: let the pre-hook of the node return a multiple, and see what `y.grad` holds.
            """
            return either(kind, LEAF, ("tensor", "node_pre", "retain_grad", "node_post"))

        def registration_order(kind):
            """You wrote the order of registration. It decides between hooks of one kind; between kinds, the moment
            decides: the tensor, then its node, and the node's own work before its post hook.
            """
            return either(
                kind,
                ("node_post", "node_pre", "post_acc", "tensor"),
                ("node_post", "node_pre", "retain_grad", "tensor"),
            )

        def post_acc_last(kind):
            """You put the post-accumulate-grad hook last. It runs inside the node of the leaf, right after `.grad` is
            written, and the post hook of the node waits until that work is done.
            """
            return either(kind, ("tensor", "node_pre", "node_post", "post_acc"), NON_LEAF)

        def unknown_kind_accepted(kind):
            """Both lists are right. Any `kind` other than "leaf" and "non-leaf" has to end in `raise ValueError(...)`:
            not in a result, and not in a different exception.
            """
            return list(NON_LEAF if kind == "non-leaf" else LEAF)

        def unknown_kind_accepted__2(kind):
            return list({"leaf": LEAF, "non-leaf": NON_LEAF}[kind])

        def unknown_kind_accepted__3(kind):
            return {"leaf": list(LEAF), "non-leaf": list(NON_LEAF)}.get(kind)

        def unknown_kind_accepted__4(kind):
            return either(kind, LEAF, NON_LEAF) if kind in ("leaf", "non-leaf") else ValueError(kind)

        def unknown_kind_accepted__5(kind):
            assert kind in ("leaf", "non-leaf")
            return either(kind, LEAF, NON_LEAF)

        def unknown_kind_accepted__6(kind):
            return list(LEAF if kind == "leaf" else NON_LEAF)

        def unknown_kind_accepted__7(kind):
            return either(kind.strip().lower().replace("_", "-").replace(" ", "-"), LEAF, NON_LEAF)

        def unknown_kind_accepted__8(kind):
            return either(kind.strip().lower(), LEAF, NON_LEAF)

        def unknown_kind_accepted__9(kind):
            return either(kind.lower(), LEAF, NON_LEAF)

        def unknown_kind_accepted__10(kind):
            return either(kind.strip(), LEAF, NON_LEAF)

        def kinds_swapped(kind):
            """You swapped the two lists. `retain_grad` is for a non-leaf, and a post-accumulate-grad hook exists on a
            leaf only.
            """
            return either(kind, NON_LEAF, LEAF)

        def retain_grad_last(kind):
            """You put `retain_grad` last. The `.grad` of a non-leaf is written before its node runs, right after the
            hooks on the tensor: a pre-hook of the node finds it there.
            """
            return either(kind, LEAF, ("tensor", "node_pre", "node_post", "retain_grad"))

        def retain_grad_first(kind):
            """You put `retain_grad` first. `y.grad` is written after the hooks on the tensor, and holds what they
            returned, no matter which was set up first.
            """
            return either(kind, LEAF, ("retain_grad", "tensor", "node_pre", "node_post"))

        def post_acc_too_early(kind):
            """You put the post-accumulate-grad hook before the pre-hook of the node. It is part of the work of that
            node, which writes `.grad`: so the pre-hook comes first.
            """
            return either(kind, ("tensor", "post_acc", "node_pre", "node_post"), NON_LEAF)

        def grad_last(kind):
            """You put the writing of `.grad` last in both lists. For a non-leaf that happens before its node runs, and
            for a leaf inside the node, with the post-accumulate-grad hook; the post hook of the node comes after both.
            """
            return either(
                kind,
                ("tensor", "node_pre", "node_post", "post_acc"),
                ("tensor", "node_pre", "node_post", "retain_grad"),
            )

        def node_before_tensor(kind):
            """You put hooks of the node before those of the tensor. Hooks on the tensor come first, for a leaf and for
            a non-leaf.
            """
            node_first = ("node_pre", "tensor")
            return either(kind, (*node_first, "post_acc", "node_post"), (*node_first, "retain_grad", "node_post"))

        def node_before_tensor__2(kind):
            return either(kind, ("node_pre", "tensor", "post_acc", "node_post"), NON_LEAF)

        def node_before_tensor__3(kind):
            node_first = ("node_pre", "node_post", "tensor")
            return either(kind, (*node_first, "post_acc"), (*node_first, "retain_grad"))

        def node_before_tensor__4(kind):
            return either(kind, ("node_pre", "node_post", "tensor", "post_acc"), NON_LEAF)

        def the_same_list(kind, lists=(list(LEAF), list(NON_LEAF))):
            either(kind, LEAF, NON_LEAF)
            return lists[kind == "non-leaf"]
