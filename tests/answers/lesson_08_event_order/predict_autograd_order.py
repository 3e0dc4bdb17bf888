"""Answers to 08-predict-autograd-order."""

from graders.author.answers import Wrong

RIGHT = [
    """
def predict_autograd_order(kind):
    if kind == "non-leaf":
        return ["tensor", "retain_grad", "node_pre", "node_post"]
    if kind == "leaf":
        return ["tensor", "node_pre", "post_acc", "node_post"]
    raise ValueError(f"kind must be 'leaf' or 'non-leaf', not {kind!r}")
""",
    """
class UnknownKind(ValueError):
    pass

ORDERS = {
    "leaf": ("tensor", "node_pre", "post_acc", "node_post"),
    "non-leaf": ("tensor", "retain_grad", "node_pre", "node_post"),
}

def predict_autograd_order(kind):
    try:
        return list(ORDERS[kind])
    except KeyError:
        raise UnknownKind(kind) from None
""",
    """
import torch
from torch.autograd.graph import get_gradient_edge

def predict_autograd_order(kind):
    if kind not in ("leaf", "non-leaf"):
        raise ValueError(kind)
    x = torch.tensor([1.0], requires_grad=True)
    y = 3 * x
    watched = x if kind == "leaf" else y
    node = get_gradient_edge(watched).node
    events = []
    def note(label):
        if kind == "non-leaf" and watched.grad is not None and "retain_grad" not in events:
            events.append("retain_grad")
        events.append(label)
    node.register_hook(lambda grad_inputs, grad_outputs: note("node_post"))
    node.register_prehook(lambda grad_outputs: note("node_pre"))
    if kind == "leaf":
        x.register_post_accumulate_grad_hook(lambda p: note("post_acc"))
    else:
        y.retain_grad()
    watched.register_hook(lambda grad: note("tensor"))
    (5 * y).backward()
    return events
""",
]

WRONG = [
    Wrong(
        "takes a kind that only looks like one of the two",
        violates="For any other text it raises a `ValueError`.",
        check="test_an_unknown_kind_raises_a_value_error",
        source="""
ORDERS = {
    "leaf": ["tensor", "node_pre", "post_acc", "node_post"],
    "non-leaf": ["tensor", "retain_grad", "node_pre", "node_post"],
}

def predict_autograd_order(kind):
    kind = kind.replace("nonleaf", "non-leaf")
    if kind not in ORDERS:
        raise ValueError(kind)
    return list(ORDERS[kind])
""",
    ),
]

SURVIVORS = {
    "almost: y = ": "the order is the same for another product",
    "almost: x = ": "the order is the same for another value",
    "almost: (6 * y)": "the order is the same for another gradient",
}
