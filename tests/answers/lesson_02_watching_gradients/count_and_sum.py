"""Answers to 02-count-and-sum."""

from graders.author.answers import Wrong

RIGHT = [
    """
def count_and_sum(t):
    d = {"n": 0, "sum": None}
    def hook(grad):
        d["n"] += 1
        g = grad.detach().clone()
        d["sum"] = g if d["sum"] is None else d["sum"] + g
    t.register_hook(hook)
    return d
""",
    """
class Tally(object):
    def __init__(self):
        self.d = dict(n=0, sum=None)
    def __call__(self, grad):
        self.d["n"] = self.d["n"] + 1
        if self.d["sum"] is None:
            self.d["sum"] = grad.new_zeros(grad.shape)
        self.d["sum"].add_(grad.detach())

def count_and_sum(t):
    tally = Tally()
    t.register_hook(tally)
    return tally.d
""",
    """
class Tally(dict):
    def __init__(self):
        super().__init__(n=0, sum=None)
    def __call__(self, grad):
        before = 0 if self["sum"] is None else self["sum"]
        self.update(n=self["n"] + 1, sum=before + grad.detach())

def count_and_sum(t):
    tally = Tally()
    t.register_hook(tally)
    return tally
""",
    """
import torch

def count_and_sum(t):
    d, received = {"n": 0, "sum": None}, []
    def hook(grad):
        received.append(grad.detach().clone())
        d.update(n=len(received), sum=torch.stack(received).sum(0))
    torch.autograd.graph.register_multi_grad_hook((t,), hook, mode="any")
    return d
""",
    """
import weakref

class Tally(dict):
    pass

def count_and_sum(t):
    tally = Tally(n=0, sum=None)
    known = weakref.ref(tally)
    def hook(grad):
        if (d := known()) is not None:
            d["n"] += 1
            d["sum"] = sum((one for one in [d["sum"]] if one is not None), grad.detach().clone())
        return grad
    t.register_hook(hook)
    return tally
""",
]

WRONG = [
    Wrong(
        "NaN counts as 0",
        violates='`"sum"` is the sum of all gradients that it received',
        check="test_the_sum_is_a_copy_without_a_graph",
        source="""
import torch

def count_and_sum(t):
    d = {"n": 0, "sum": None}
    def hook(grad):
        grad = torch.where(grad.isnan(), 0, grad).detach()
        d.update(n=d["n"] + 1, sum=grad if d["sum"] is None else d["sum"] + grad)
    t.register_hook(hook)
    return d
""",
    ),
    Wrong(
        "a gradient without entries does not count",
        violates='`"n"` is the number of its calls',
        check="test_the_sum_is_a_copy_without_a_graph",
        source="""
def count_and_sum(t):
    d = {"n": 0, "sum": None}
    def hook(grad):
        if grad.numel():
            d["n"] += 1
            d["sum"] = grad.detach().clone() if d["sum"] is None else d["sum"] + grad.detach()
    t.register_hook(hook)
    return d
""",
    ),
    Wrong(
        "one dict for a tensor",
        violates="rule 1: It works however often it is called",
        check="test_another_call_keeps_a_dict_of_its_own",
        source="""
def count_and_sum(t):
    if hasattr(t, "tally"):
        return t.tally
    d = t.tally = {"n": 0, "sum": None}
    def hook(grad):
        d["n"] += 1
        d["sum"] = grad.detach().clone() if d["sum"] is None else d["sum"] + grad.detach()
    t.register_hook(hook)
    return d
""",
    ),
    Wrong(
        "a gradient of zeros does not count",
        violates="is the number of its calls",
        check="test_the_gradients_add_up_over_passes",
        mistake="zeros-left-out",
        source="""
def count_and_sum(t):
    d = {"n": 0, "sum": None}
    def hook(grad):
        d["n"] += 1 if grad.any() else 0
        g = grad.detach().clone()
        d["sum"] = g if d["sum"] is None else d["sum"] + g
    t.register_hook(hook)
    return d
""",
    ),
    Wrong(
        "infinity is replaced",
        violates="the sum of all gradients that it received",
        check="test_the_sum_is_a_copy_without_a_graph",
        mistake="numbers-for-infinities",
        source="""
def count_and_sum(t):
    d = {"n": 0, "sum": None}
    def hook(grad):
        d["n"] += 1
        g = grad.detach().nan_to_num()
        d["sum"] = g if d["sum"] is None else d["sum"] + g
    t.register_hook(hook)
    return d
""",
    ),
    Wrong(
        "replaces instead of adding",
        violates="the sum of all gradients that it received",
        check="test_the_gradients_add_up_over_passes",
        mistake="only-last-pass",
        source="""
def count_and_sum(t):
    d = {"n": 0, "sum": None}
    def hook(grad):
        d["n"] = 1
        d["sum"] = grad.clone()
    t.register_hook(hook)
    return d
""",
    ),
    Wrong(
        "reads .grad",
        violates="the sum of all gradients that it received",
        check="test_the_gradients_add_up_over_passes",
        mistake="reads-dot-grad",
        source="""
def count_and_sum(t):
    d = {"n": 0, "sum": None}
    def hook(grad):
        d["n"] += 1
        d["sum"] = None if t.grad is None else t.grad.clone()
    t.register_hook(hook)
    return d
""",
    ),
    Wrong(
        "a hook on a view",
        violates="keeps this same dict up to date",
        check="raised",
        mistake="hooked-a-copy",
        source="""
def count_and_sum(t):
    d = {"n": 0, "sum": None}
    def hook(grad):
        d["n"] += 1
        d["sum"] = grad.detach().clone() if d["sum"] is None else d["sum"] + grad.detach()
    t.view_as(t).register_hook(hook)
    return d
""",
    ),
    Wrong(
        "no hook",
        violates="keeps this same dict up to date",
        check="test_the_gradients_add_up_over_passes",
        source="def count_and_sum(t):\n    return {'n': 0, 'sum': None}",
    ),
    Wrong(
        "the first gradient itself",
        violates="nothing outside your hook changes it",
        check="test_the_sum_is_a_copy_without_a_graph",
        mistake="stored-alias",
        source="""
def count_and_sum(t):
    d = {"n": 0, "sum": None}
    def hook(grad):
        d["n"] += 1
        d["sum"] = grad.detach() if d["sum"] is None else d["sum"] + grad.detach()
    t.register_hook(hook)
    return d
""",
    ),
    Wrong(
        "starts with a number",
        violates='Return the dict `{"n": 0, "sum": None}` at once',
        check="test_an_unused_tensor_stays_at_the_start",
        source="""
def count_and_sum(t):
    d = {"n": 0, "sum": 0}
    def hook(grad):
        d["n"] += 1
        d["sum"] = d["sum"] + grad.detach()
    t.register_hook(hook)
    return d
""",
    ),
    Wrong(
        "a dict of n alone at first",
        violates='Return the dict `{"n": 0, "sum": None}` at once',
        check="test_an_unused_tensor_stays_at_the_start",
        source="""
def count_and_sum(t):
    d = {"n": 0}
    def hook(grad):
        d["n"] += 1
        d["sum"] = d["sum"] + grad.detach() if "sum" in d else grad.detach().clone()
    t.register_hook(hook)
    return d
""",
    ),
    Wrong(
        "graphs of later gradients",
        violates="no graph",
        check="test_the_sum_is_a_copy_without_a_graph",
        source="""
def count_and_sum(t):
    d = {"n": 0, "sum": None}
    def hook(grad):
        d["n"] += 1
        d["sum"] = grad.detach().clone() if d["sum"] is None else d["sum"] + grad
    t.register_hook(hook)
    return d
""",
    ),
    Wrong(
        "a new dict in each pass",
        violates="keeps this same dict up to date",
        check="test_the_gradients_add_up_over_passes",
        mistake="another-dict",
        source="""
def count_and_sum(t):
    d = {"n": 0, "sum": None}
    def hook(grad):
        nonlocal d
        d = {"n": d["n"] + 1, "sum": grad.detach().clone() if d["sum"] is None else d["sum"] + grad.detach()}
    t.register_hook(hook)
    return d
""",
    ),
    Wrong(
        "float32 for everybody",
        violates="has the dtype of the gradients",
        check="test_the_gradients_add_up_over_passes",
        source="""
def count_and_sum(t):
    d = {"n": 0, "sum": None}
    def hook(grad):
        d["n"] += 1
        g = grad.detach().clone().float()
        d["sum"] = g if d["sum"] is None else d["sum"] + g
    t.register_hook(hook)
    return d
""",
    ),
    Wrong(
        "counts the uses",
        violates='`"n"` is the number of its calls',
        check="test_the_gradients_add_up_over_passes",
        source="""
def count_and_sum(t):
    d = {"n": 0, "sum": None}
    def hook(grad):
        d["n"] += grad.numel()
        g = grad.detach().clone()
        d["sum"] = g if d["sum"] is None else d["sum"] + g
    t.register_hook(hook)
    return d
""",
    ),
    Wrong(
        "a detached gradient flows on",
        violates="The gradients that flow through `t` stay as they are",
        check="test_the_flow_is_unchanged",
        mistake="returned-the-gradient",
        source="""
def count_and_sum(t):
    d = {"n": 0, "sum": None}
    def hook(grad):
        d["n"] += 1
        g = grad.detach().clone()
        d["sum"] = g if d["sum"] is None else d["sum"] + g
        return g
    t.register_hook(hook)
    return d
""",
    ),
    Wrong(
        "adds into the first gradient",
        violates="The gradients that flow through `t` stay as they are",
        check="raised",
        source="""
def count_and_sum(t):
    d = {"n": 0, "sum": None}
    def hook(grad):
        d["n"] += 1
        if d["sum"] is None:
            d["sum"] = grad.detach()
        else:
            d["sum"] += grad.detach()
    t.register_hook(hook)
    return d
""",
    ),
    Wrong(
        "one dict for all tensors",
        violates="rule 1: on several at the same time",
        check="test_an_unused_tensor_stays_at_the_start",
        source="""
d = {}

def count_and_sum(t):
    d.update(n=0, sum=None)
    def hook(grad):
        d["n"] += 1
        g = grad.detach().clone()
        d["sum"] = g if d["sum"] is None else d["sum"] + g
    t.register_hook(hook)
    return d
""",
    ),
    Wrong(
        "one slot for all calls",
        violates="rule 1: It works however often it is called",
        check="test_the_gradients_add_up_over_passes",
        source="""
slot = []

def count_and_sum(t):
    while slot:
        slot.pop().remove()
    d = {"n": 0, "sum": None}
    def hook(grad):
        d["n"] += 1
        g = grad.detach().clone()
        d["sum"] = g if d["sum"] is None else d["sum"] + g
    slot.append(t.register_hook(hook))
    return d
""",
    ),
    Wrong(
        "one dimension at most",
        violates="rule 1: tensors of any shape",
        check="raised",
        source="""
def count_and_sum(t):
    d = {"n": 0, "sum": None}
    def hook(grad):
        d["n"] += 1
        g = grad.detach().clone()
        d["sum"] = g if d["sum"] is None else d["sum"] + g
    assert t.dim() < 2
    t.register_hook(hook)
    return d
""",
    ),
    Wrong(
        "the caller's hooks are cleared",
        violates="rule 3: Hooks that were there before are there afterwards",
        check="test_nothing_else_changes",
        source="""
def count_and_sum(t):
    if t._backward_hooks:
        t._backward_hooks.clear()
    d = {"n": 0, "sum": None}
    def hook(grad):
        d["n"] += 1
        g = grad.detach().clone()
        d["sum"] = g if d["sum"] is None else d["sum"] + g
    t.register_hook(hook)
    return d
""",
    ),
    Wrong(
        "fails in a pass of autograd.grad",
        violates="rule 5: `torch.autograd.grad`",
        check="raised",
        source="""
import torch

def count_and_sum(t):
    d = {"n": 0, "sum": None}
    def hook(grads):
        d["n"] += 1
        g = grads[0].detach().clone()
        d["sum"] = g if d["sum"] is None else d["sum"] + g
    torch.autograd.graph.register_multi_grad_hook((t,), hook)
    return d
""",
    ),
    Wrong(
        "the mean times the number",
        violates='`"sum"` is the sum of all gradients that it received',
        check="test_the_sum_is_a_copy_without_a_graph",
        source="""
def count_and_sum(t):
    tally, mean = {"n": 0, "sum": None}, [0.0]
    def hook(grad):
        tally["n"] += 1
        mean[0] = mean[0] + (grad.detach() - mean[0]) / tally["n"]
        tally["sum"] = mean[0] * tally["n"]
    t.register_hook(hook)
    return tally
""",
    ),
    Wrong(
        "one hook for all tensors in one memory",
        violates="rule 1: or on several at the same time",
        check="test_another_call_keeps_a_dict_of_its_own",
        source="""
known = {}

def count_and_sum(t):
    tally = {"n": 0, "sum": None}
    group = known.setdefault(t.data_ptr(), [])
    if not group:
        def hook(grad):
            for d in group:
                d.update(n=d["n"] + 1, sum=grad.detach() + (0 if d["sum"] is None else d["sum"]))
        t.register_hook(hook)
    group.append(tally)
    return tally
""",
    ),
]

GIVENS = [
    "Write `count_and_sum(t)`.",
    "`t` is a tensor that requires grad.",
]

SURVIVORS = {
    "a hook left on a tensor": "hooks stay, and this one does nothing",
    "under no_grad": "to register a hook makes no graph",
    "lost return: grad": "a hook that watches returns nothing",
    "truth for None: if (d := known())": "the dict has two entries",
}
