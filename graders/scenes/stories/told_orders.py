"""Stories for functions that return labels in the order in which hooks fire, whether written down or measured."""

from typing import Any

import torch
from torch import nn

from graders.scenes.story import Call, Draw, Seen, told
from graders.scenes.watch import Watch

MODULE = {
    "hook": ("none", "pre", "fwd", "bpre", "bwd"),
    "failure": ("KeyError", "ValueError", "RuntimeError", "StopIteration", "KeyboardInterrupt"),
    "raises_at": ("bwd", "bpre", "fwd", "pre"),
}
AUTOGRAD = {
    "kind": ("non-leaf", "leaf"),
    "word": ("another", "", "Leaf", "leaf ", "leafs", "nonleaf", "non_leaf", "NON-LEAF"),
}


def a_label(draw: Draw) -> str:
    """A drawn word that is neither kind of tensor."""
    return str(draw.choice(("branch", "middle", "root", "scalar", "mine")))


@told
def with_a_hook(call: Call, case: Any) -> Any:
    """What a call returns while a hook of the caller for all modules replaces values or gradients."""
    if case.hook == "none":
        order = call()
    if case.hook == "pre":
        with nn.modules.module.register_module_forward_pre_hook(lambda module, args: (2 * args[0],)):  # type: ignore[arg-type]
            order = call()
    if case.hook == "fwd":
        with nn.modules.module.register_module_forward_hook(lambda module, args, out: 2 * out):
            order = call()
    if case.hook == "bpre":
        with nn.modules.module.register_module_full_backward_pre_hook(lambda module, go: (2 * go[0],)):  # type: ignore[index]
            order = call()
    if case.hook == "bwd":
        with nn.modules.module.register_module_full_backward_hook(lambda module, gi, go: (2 * gi[0],)):  # type: ignore[index]
            order = call()
    return order


def in_order(call: Call, draw: Draw, case: Any) -> Seen:
    """The labels are in the order in which the hooks fire."""
    order = with_a_hook(call, case)
    yield "the list", order


def a_new_list(call: Call, draw: Draw, case: Any) -> Seen:
    """Each call returns a new list."""
    first = call()
    first.append(a_label(draw))
    yield "the list to which the caller added a label", first
    yield "the list of a later call", call()
    first.pop()


def nothing_else(call: Call, draw: Draw, case: Any) -> Seen:
    """Everything else stays as it was."""
    before = Watch()
    seed = torch.initial_seed()
    order = with_a_hook(call, case)
    yield "by the call", before.differences()
    yield "whether the seed is that of before", torch.initial_seed() == seed
    yield "the list of that call", order


@told
def a_raising_hook(draw: Draw, case: Any) -> Any:
    """An error, a list that tells whether it was raised, and the handle of a hook for all modules that raises it."""
    error = draw.error(case.failure)
    raised = []

    def fails(*args: Any) -> None:
        raised.append(True)
        raise error

    if case.raises_at == "pre":
        handle = nn.modules.module.register_module_forward_pre_hook(fails)
    elif case.raises_at == "fwd":
        handle = nn.modules.module.register_module_forward_hook(fails)
    elif case.raises_at == "bpre":
        handle = nn.modules.module.register_module_full_backward_pre_hook(fails)
    else:
        handle = nn.modules.module.register_module_full_backward_hook(fails)
    return error, raised, handle


def a_hook_raises(call: Call, draw: Draw, case: Any) -> Seen:
    """An exception of a hook of the caller comes through, and nothing is left."""
    error, raised, handle = a_raising_hook(draw, case)
    before = Watch()
    came = None
    try:
        call()
    except (Exception, type(error)) as caught:
        came = repr(caught)
    yield "by a call that raised", before.differences()
    handle.remove()
    yield "the exception", came
    yield "whether the exception of the hook is swallowed", bool(raised) and came is None
    yield "the list of a later call", call()


def a_word(draw: Draw, case: Any) -> str:
    """A text that is no kind of tensor: the one of the case, or a drawn one."""
    return a_label(draw) if case.word == "another" else str(case.word)


def in_order_for_a_kind(call: Call, draw: Draw, case: Any) -> Seen:
    """The labels are in the order in which the events happen."""
    order = call(case.kind)
    yield "the list", order


def in_order_again(call: Call, draw: Draw, case: Any) -> Seen:
    """Later calls are right, too."""
    call(case.kind)
    yield "the lists of later calls", [call("leaf"), call("non-leaf"), call(case.kind)]


def a_new_list_for_a_kind(call: Call, draw: Draw, case: Any) -> Seen:
    """Each call returns a new list."""
    first = call(case.kind)
    first.append(a_label(draw))
    yield "the list to which the caller added a label", first
    yield "the list of a later call", call(case.kind)
    first.pop()


def nothing_else_for_a_kind(call: Call, draw: Draw, case: Any) -> Seen:
    """Everything else stays as it was."""
    before = Watch()
    order = call(case.kind)
    yield "by the call", before.differences()
    yield "the list of that call", order


def another_text(call: Call, draw: Draw, case: Any) -> Seen:
    """Any other text raises a `ValueError`."""
    word = a_word(draw, case)
    before = Watch()
    try:
        came = call(word)
    except ValueError:
        came = "raised: ValueError"
    except Exception as error:
        came = f"raised: {type(error).__name__}"
    yield "what comes for another text", came
    yield "by a call for another text", before.differences()
