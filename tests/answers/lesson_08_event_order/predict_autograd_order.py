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
        "the order of the documentation",
        violates="`retain_grad`: `y.grad` is written",
        check="test_both_orders_are_right",
        mistake="documented-order",
        source="""
def predict_autograd_order(kind):
    if kind == "non-leaf":
        return ["tensor", "node_pre", "retain_grad", "node_post"]
    if kind == "leaf":
        return ["tensor", "node_pre", "post_acc", "node_post"]
    raise ValueError(kind)
""",
    ),
    Wrong(
        "the order of registration",
        violates="in the order in which these events happen in a backward pass",
        check="test_both_orders_are_right",
        mistake="registration-order",
        source="""
def predict_autograd_order(kind):
    if kind == "non-leaf":
        return ["node_post", "node_pre", "retain_grad", "tensor"]
    if kind == "leaf":
        return ["node_post", "node_pre", "post_acc", "tensor"]
    raise ValueError(kind)
""",
    ),
    Wrong(
        "the post-accumulate-grad hook after the node's own",
        violates="`post_acc`: a hook on `x` runs",
        check="test_both_orders_are_right",
        mistake="post-acc-last",
        source="""
def predict_autograd_order(kind):
    if kind == "non-leaf":
        return ["tensor", "retain_grad", "node_pre", "node_post"]
    if kind == "leaf":
        return ["tensor", "node_pre", "node_post", "post_acc"]
    raise ValueError(kind)
""",
    ),
    Wrong(
        "every other kind is a leaf",
        violates="For any other text it raises a `ValueError`.",
        check="test_an_unknown_kind_raises_a_value_error",
        mistake="unknown-kind-accepted",
        source="""
def predict_autograd_order(kind):
    if kind == "non-leaf":
        return ["tensor", "retain_grad", "node_pre", "node_post"]
    return ["tensor", "node_pre", "post_acc", "node_post"]
""",
    ),
    Wrong(
        "nothing at all",
        violates="in the order in which these events happen in a backward pass",
        check="test_both_orders_are_right",
        source="""
def predict_autograd_order(kind):
    return []
""",
    ),
    Wrong(
        "a tuple",
        violates="rule 6: A tuple is a tuple",
        check="test_both_orders_are_right",
        source="""
def predict_autograd_order(kind):
    if kind == "non-leaf":
        return "tensor", "retain_grad", "node_pre", "node_post"
    if kind == "leaf":
        return "tensor", "node_pre", "post_acc", "node_post"
    raise ValueError(kind)
""",
    ),
    Wrong(
        "a KeyError",
        violates="For any other text it raises a `ValueError`.",
        check="test_an_unknown_kind_raises_a_value_error",
        source="""
def predict_autograd_order(kind):
    return {
        "non-leaf": ["tensor", "retain_grad", "node_pre", "node_post"],
        "leaf": ["tensor", "node_pre", "post_acc", "node_post"],
    }[kind]
""",
    ),
    Wrong(
        "the retained gradient before everything",
        violates="`tensor`: a hook on the tensor runs",
        check="test_both_orders_are_right",
        source="""
def predict_autograd_order(kind):
    if kind not in ("leaf", "non-leaf"):
        raise ValueError(kind)
    if kind == "leaf":
        return ["tensor", "node_pre", "post_acc", "node_post"]
    return ["retain_grad", "tensor", "node_pre", "node_post"]
""",
    ),
    Wrong(
        "one order for both",
        violates='for `"leaf"` (`x` itself)',
        check="test_both_orders_are_right",
        source="""
def predict_autograd_order(kind):
    if kind not in ("leaf", "non-leaf"):
        raise ValueError(kind)
    return ["tensor", "retain_grad", "node_pre", "node_post"]
""",
    ),
    Wrong(
        "the places of the leaf, with the label of the non-leaf",
        violates='For `"non-leaf"` (a tensor `y = 3 * x`)',
        check="test_both_orders_are_right",
        source="""
def predict_autograd_order(kind):
    if kind not in ("leaf", "non-leaf"):
        raise ValueError(kind)
    return ["tensor", "node_pre", "retain_grad" if kind == "non-leaf" else "post_acc", "node_post"]
""",
    ),
    Wrong(
        "the pre-hook of the node after its hook",
        violates="`node_pre`, `node_post`: a pre-hook and a hook of its node run",
        check="test_both_orders_are_right",
        source="""
def predict_autograd_order(kind):
    orders = {
        "leaf": ["tensor", "post_acc", "node_post", "node_pre"],
        "non-leaf": ["tensor", "retain_grad", "node_post", "node_pre"],
    }
    if kind not in orders:
        raise ValueError(kind)
    return orders[kind]
""",
    ),
    Wrong(
        "the hook of the node before the tensor's",
        violates="`node_pre`, `node_post`: a pre-hook and a hook of its node run",
        check="test_both_orders_are_right",
        source="""
def predict_autograd_order(kind):
    orders = {
        "leaf": ["node_pre", "node_post", "tensor", "post_acc"],
        "non-leaf": ["node_pre", "node_post", "tensor", "retain_grad"],
    }
    if kind not in orders:
        raise ValueError(kind)
    return orders[kind]
""",
    ),
    Wrong(
        "measures, on a list that grows from call to call",
        violates="rule 1: It works however often it is called",
        check="test_both_orders_are_right",
        source="""
import torch
from torch.autograd.graph import get_gradient_edge

events = []

def predict_autograd_order(kind):
    if kind not in ("leaf", "non-leaf"):
        raise ValueError(kind)
    x = torch.tensor([1.0], requires_grad=True)
    y = 3 * x
    t = x if kind == "leaf" else y
    node = get_gradient_edge(t).node
    def note(label):
        if kind == "non-leaf" and y.grad is not None and "retain_grad" not in events:
            events.append("retain_grad")
        events.append(label)
    node.register_hook(lambda *_: note("node_post"))
    node.register_prehook(lambda *_: note("node_pre"))
    if kind == "leaf":
        x.register_post_accumulate_grad_hook(lambda p: note("post_acc"))
    else:
        y.retain_grad()
    t.register_hook(lambda grad: note("tensor"))
    y.backward()
    return events
""",
    ),
    Wrong(
        "the order is right for the kind that came first alone",
        violates="rule 1: It works however often it is called",
        check="test_both_orders_are_right",
        source="""
known = []

def predict_autograd_order(kind):
    if kind not in ("leaf", "non-leaf"):
        raise ValueError(kind)
    if not known:
        leaf = ["tensor", "node_pre", "post_acc", "node_post"]
        known.extend(leaf if kind == "leaf" else ["tensor", "retain_grad", "node_pre", "node_post"])
    return list(known)
""",
    ),
    Wrong(
        "switches anomaly detection on",
        violates="rule 2: Settings of PyTorch are afterwards as they were",
        check="test_nothing_else_changes",
        source="""
import torch

def predict_autograd_order(kind):
    torch.autograd.set_detect_anomaly(True)
    if kind == "non-leaf":
        return ["tensor", "retain_grad", "node_pre", "node_post"]
    if kind == "leaf":
        return ["tensor", "node_pre", "post_acc", "node_post"]
    raise ValueError(kind)
""",
    ),
    *(
        Wrong(
            f"takes a kind that only looks like one of the two: {normal}",
            violates="For any other text it raises a `ValueError`.",
            check="test_an_unknown_kind_raises_a_value_error",
            mistake="unknown-kind-accepted",
            source=f"""
ORDERS = {{
    "leaf": ["tensor", "node_pre", "post_acc", "node_post"],
    "non-leaf": ["tensor", "retain_grad", "node_pre", "node_post"],
}}

def predict_autograd_order(kind):
    kind = {normal}
    if kind not in ORDERS:
        raise ValueError(kind)
    return list(ORDERS[kind])
""",
        )
        for normal in (
            "kind.lower()",
            "kind.lower() if kind.isupper() else kind",
            "kind.strip()",
            "kind.removesuffix(chr(10))",
            "kind.replace('nonleaf', 'non-leaf')",
            "'leaf' if kind.endswith('leaf') and not kind.startswith('non') else kind",
            "next((known for known in ORDERS if known.startswith(kind)), kind)",
        )
    ),
    Wrong(
        "measures at a node of the leaf that nobody holds",
        violates="in the order in which these events happen in a backward pass",
        check="test_both_orders_are_right",
        mistake="node-not-held",
        source="""
import torch
from torch.autograd.graph import get_gradient_edge

def predict_autograd_order(kind):
    if kind == "non-leaf":
        return ["tensor", "retain_grad", "node_pre", "node_post"]
    if kind != "leaf":
        raise ValueError(kind)
    x, events = torch.ones(1, requires_grad=True), []
    get_gradient_edge(x).node.register_hook(lambda *args: events.append("node_post"))
    get_gradient_edge(x).node.register_prehook(lambda *args: events.append("node_pre"))
    x.register_post_accumulate_grad_hook(lambda *args: events.append("post_acc"))
    x.register_hook(lambda *args: events.append("tensor"))
    (3 * x).sum().backward()
    return events
""",
    ),
    Wrong(
        "leaf and non-leaf are exchanged",
        violates='for `"leaf"` (`x` itself)',
        check="test_both_orders_are_right",
        mistake="kinds-exchanged",
        source="""
def predict_autograd_order(kind):
    if kind == "leaf":
        return ["tensor", "retain_grad", "node_pre", "node_post"]
    if kind == "non-leaf":
        return ["tensor", "node_pre", "post_acc", "node_post"]
    raise ValueError(kind)
""",
    ),
]

WRONG += [
    Wrong(
        "the same lists in every call",
        violates="returns as a new list the four labels",
        check="test_each_call_returns_a_new_list",
        mistake="the-same-list",
        source="""
ORDERS = {
    "leaf": ["tensor", "node_pre", "post_acc", "node_post"],
    "non-leaf": ["tensor", "retain_grad", "node_pre", "node_post"],
}

def predict_autograd_order(kind):
    if kind not in ORDERS:
        raise ValueError(kind)
    return ORDERS[kind]
""",
    ),
    Wrong(
        "a part of the word is enough",
        violates="For any other text it raises a `ValueError`.",
        check="test_an_unknown_kind_raises_a_value_error",
        mistake="unknown-kind-accepted",
        source="""
def predict_autograd_order(kind):
    if kind and kind in "leaf":
        return ["tensor", "node_pre", "post_acc", "node_post"]
    if kind == "non-leaf":
        return ["tensor", "retain_grad", "node_pre", "node_post"]
    raise ValueError(kind)
""",
    ),
]

SURVIVORS = {
    "under no_grad": "a list that is written down needs no graph",
    "almost: y = ": "the order is the same for another product",
    "almost: x = ": "the order is the same for another value",
    "almost: (6 * y)": "the order is the same for another gradient",
    "lost return": "a hook that watches returns nothing",
    "truth for None": "the gradient that is looked at is not zero",
}
