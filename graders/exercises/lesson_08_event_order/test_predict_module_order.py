"""Exercise 08-predict-module-order."""

import contextlib

import torch
from torch import nn
from torch.nn.modules import module as for_all

from graders.exercises.authoring import exercise
from graders.scenes.scene import stories
from graders.scenes.stories import told_orders as orders


def twelve(forward, backward):
    """The twelve labels when the hooks of each kind fire in the order of these letters."""
    kinds = {"pre": forward, "fwd": forward, "bpre": backward, "bwd": backward}
    return [f"{letter}.{kind}" for kind, letters in kinds.items() for letter in letters]


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
    """Write `predict_module_order()`. For each of four kinds of hook, `A`, then `P` (`prepend=True`), then `G` (a
    global hook) are registered on one `nn.Linear`. Return, as a new list, the twelve labels in the order in which they
    fire in one forward and backward pass.

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

        def grouped_by_hook():
            """You list everything about one hook before the next. What counts is time: first all three forward
            pre-hooks, then the three forward hooks, then those of the backward pass.
            """
            return sorted(RIGHT, key=lambda label: "GPA".index(label[0]))

        def the_same_list(labels=RIGHT):
            return labels
