"""Exercise 08-predict-module-order."""

import contextlib

import torch
from torch import nn
from torch.nn.modules import module as for_all

from graders.exercises.authoring import exercise
from graders.scenes.scene import stories
from graders.scenes.stories import told_orders as orders


def twelve(forward, backward, after_forward="", after_backward="", kinds=("pre", "fwd", "bpre", "bwd")):
    """The twelve labels when the hooks of each kind fire in the order of these letters."""
    letters = dict(zip(kinds, (forward, after_forward or forward, backward, after_backward or backward)))
    return [f"{letter}.{kind}" for kind in letters for letter in letters[kind]]


RIGHT = twelve("GPA", "GPA")


def measured(events, stack):
    """Registers the twelve hooks, of which `stack` removes the global ones, and runs the pass. Returns `events`."""
    layer = nn.Linear(1, 1)
    for kind, name, everywhere in (
        ("pre", "forward_pre", for_all.register_module_forward_pre_hook),
        ("fwd", "forward", for_all.register_module_forward_hook),
        ("bpre", "full_backward_pre", for_all.register_module_full_backward_pre_hook),
        ("bwd", "full_backward", for_all.register_module_full_backward_hook),
    ):
        register = getattr(layer, f"register_{name}_hook")
        register(lambda *_, kind=kind: events.append(f"A.{kind}"))
        register(lambda *_, kind=kind: events.append(f"P.{kind}"), prepend=True)
        stack.enter_context(everywhere(lambda *_, kind=kind: events.append(f"G.{kind}")))
    layer(torch.ones(1, 1, requires_grad=True)).sum().backward()
    return events


@exercise(
    "08-predict-module-order",
    points=1,
    minutes=10,
    difficulty=1,
    core=True,
    title="Three hooks of each kind on one module",
    hints=(
        "Who is first? The global hook was registered last, and yet it does not have to wait for the hooks of the "
        "layer.",
        "`prepend=True` puts a hook before the other hooks of the same layer. It does not put it before global hooks.",
        "The rule is the same in backward: nothing is reversed among the hooks of one module.",
    ),
    why=(
        "Global hooks come first, then those that were prepended, then the others; this holds for each kind, and in "
        "backward, too, so two loops make the list. A function that registers the twelve hooks, runs one pass and "
        "returns what they noted would do as well, if it removes the global ones afterwards."
    ),
    scene=stories(
        promises={
            "the twelve hooks are in the order in which they fire": orders.in_order,
            "each call returns a new list": orders.a_new_list,
            "nothing else changes": orders.nothing_else,
            "all is in order when a hook of the caller raises": orders.a_hook_raises,
        },
        axes=orders.MODULE,
    ),
)
class TestPredictModuleOrder:
    """Write `predict_module_order()`. For each of four kinds of hook, `A`, then `P` (`prepend=True`) are
    registered on one `nn.Linear`, then `G` for all modules. Return, as a new list, the twelve labels in the order in
    which they fire in one forward and backward pass.

    **Example.**

    >>> sorted(predict_module_order())[:4]
    ['A.bpre', 'A.bwd', 'A.fwd', 'A.pre']
    >>> len(predict_module_order())
    12

    **Fine print.** The kinds are forward pre-hook (`pre`), forward hook (`fwd`), full backward pre-hook (`bpre`) and
    full backward hook (`bwd`). The input requires grad. Write the list down, or let the function measure it. Grad mode
    is on when it is called. Other people's global hooks may be there: if you measure, they fire for your layer, too.
    They may replace values, and what they raise comes through.
    """

    def reference():
        with contextlib.ExitStack() as stack:
            return measured([], stack)

    def reference_written_down():
        return twelve("GPA", "GPA")

    class Mistakes:
        def local_before_global():
            """You let hooks of the layer run before the global hook. Global hooks run first, even before a hook that
            was registered with `prepend=True`, no matter when they were registered.
            """
            return twelve("PAG", "PAG")

        def local_before_global__2():
            return twelve("PGA", "PGA")

        def registration_order():
            """You kept the order of registration. Hooks of one module do run in that order, but `prepend=True` puts a
            hook at the front of them, and global hooks come before all of them.
            """
            return twelve("APG", "APG")

        def backward_reversed():
            """Your forward half is right. In backward the modules are visited in reverse, but the hooks of one module
            are not: global, prepended, appended, as in forward.
            """
            return twelve("GPA", "APG")

        def backward_reversed__2():
            return twelve("GPA", "AGP")

        def local_first_in_backward():
            """Your forward half is right. In backward, too, the global hook comes before all hooks of the layer."""
            return twelve("GPA", "PAG")

        def local_first_in_backward__2():
            return twelve("GPA", "PGA")

        def like_an_onion():
            """You let the hooks that come after `forward` run in reverse, like the layers of an onion. Nothing is
            reversed among the hooks of one module: each kind runs in the order global, prepended, appended.
            """
            return twelve("GPA", "GPA", "APG", "APG")

        def like_an_onion__2():
            return twelve("GPA", "GPA", "APG", "GPA")

        def like_an_onion__3():
            return twelve("GPA", "GPA", "GPA", "APG")

        def local_first_in_forward():
            """Your backward half is right. In forward, too, the global hook comes before all hooks of the layer."""
            return twelve("PAG", "GPA")

        def local_first_in_forward__2():
            return twelve("PGA", "GPA")

        def prepend_ignored():
            """Global hooks do come first. But `prepend=True` puts `P` before `A`, although `A` was registered first."""
            return twelve("GAP", "GAP")

        def prepend_ignored__2():
            return twelve("GPA", "GAP")

        def bwd_before_bpre():
            """Your backward half has the kinds in the wrong order. A full backward pre-hook runs before the gradient of
            the input is computed, and a full backward hook afterwards: first `bpre`, then `bwd`.
            """
            return twelve("GPA", "GPA", kinds=("pre", "fwd", "bwd", "bpre"))

        def backward_between():
            """You put the hooks of the backward pass between those of the forward pass. The forward pass ends first:
            `pre`, `fwd`, then `bpre`, `bwd`.
            """
            return twelve("GPA", "GPA", kinds=("pre", "bpre", "fwd", "bwd"))

        def only_the_forward_half():
            """The backward half is missing: there are twelve labels, and those of `bpre` and `bwd` come last."""
            return RIGHT[:6]

        def kind_before_letter():
            """Your order is right, but not your labels: the letter comes before the kind, as in `"G.pre"`."""
            return [".".join(reversed(label.split("."))) for label in RIGHT]

        def another_label():
            """Your order is right, but not the label of a forward pre-hook: the lesson's `watch` writes `fpre`, and
            here it is `pre`, as in `"G.pre"`.
            """
            return twelve("GPA", "GPA", kinds=("fpre", "fwd", "bpre", "bwd"))

        def grouped_by_hook():
            """You list everything about one hook before the next. What counts is time: first all three forward
            pre-hooks, then the three forward hooks, then those of the backward pass.
            """
            return sorted(RIGHT, key=lambda label: "GPA".index(label[0]))

        def set_a_seed():
            """You set a seed. Random numbers are the caller's, too, and the order depends on none: leave it out."""
            torch.manual_seed(1)
            return RIGHT[:]

        def the_same_list(labels=RIGHT):
            return labels
