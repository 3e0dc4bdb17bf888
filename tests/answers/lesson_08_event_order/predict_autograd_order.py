"""Answers to 08-predict-autograd-order."""

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

WRONG = {
    "documented-order": """
def predict_autograd_order(kind):
    if kind == "non-leaf":
        return ["tensor", "node_pre", "retain_grad", "node_post"]
    if kind == "leaf":
        return ["tensor", "node_pre", "post_acc", "node_post"]
    raise ValueError(kind)
""",
    "registration-order": """
def predict_autograd_order(kind):
    if kind == "non-leaf":
        return ["node_post", "node_pre", "retain_grad", "tensor"]
    if kind == "leaf":
        return ["node_post", "node_pre", "post_acc", "tensor"]
    raise ValueError(kind)
""",
    "post-acc-last": """
def predict_autograd_order(kind):
    if kind == "non-leaf":
        return ["tensor", "retain_grad", "node_pre", "node_post"]
    if kind == "leaf":
        return ["tensor", "node_pre", "node_post", "post_acc"]
    raise ValueError(kind)
""",
    "unknown-kind-accepted": """
def predict_autograd_order(kind):
    if kind == "non-leaf":
        return ["tensor", "retain_grad", "node_pre", "node_post"]
    return ["tensor", "node_pre", "post_acc", "node_post"]
""",
}

ALSO_WRONG = [
    "def predict_autograd_order(kind):\n    return []",
    # KeyError is no ValueError.
    """
def predict_autograd_order(kind):
    return {
        "non-leaf": ["tensor", "retain_grad", "node_pre", "node_post"],
        "leaf": ["tensor", "node_pre", "post_acc", "node_post"],
    }[kind]
""",
    # retain_grad first.
    """
def predict_autograd_order(kind):
    if kind not in ("leaf", "non-leaf"):
        raise ValueError(kind)
    if kind == "leaf":
        return ["tensor", "node_pre", "post_acc", "node_post"]
    return ["retain_grad", "tensor", "node_pre", "node_post"]
""",
    # One order for both.
    """
def predict_autograd_order(kind):
    if kind not in ("leaf", "non-leaf"):
        raise ValueError(kind)
    return ["tensor", "retain_grad", "node_pre", "node_post"]
""",
    # The labels of the other kind.
    """
def predict_autograd_order(kind):
    if kind not in ("leaf", "non-leaf"):
        raise ValueError(kind)
    return ["tensor", "node_pre", "retain_grad" if kind == "non-leaf" else "post_acc", "node_post"]
""",
    # Takes a kind that only looks like one of the two.
    *(
        f"""
ORDERS = {{
    "leaf": ["tensor", "node_pre", "post_acc", "node_post"],
    "non-leaf": ["tensor", "retain_grad", "node_pre", "node_post"],
}}

def predict_autograd_order(kind):
    kind = {normal}
    if kind not in ORDERS:
        raise ValueError(kind)
    return ORDERS[kind]
"""
        for normal in (
            "kind.lower()",
            "kind.strip()",
            "kind.replace('nonleaf', 'non-leaf')",
            "'leaf' if kind.endswith('leaf') and not kind.startswith('non') else kind",
        )
    ),
]
