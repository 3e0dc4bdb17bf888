"""Answers to 02-count-and-sum."""

from graders.author.answers import Wrong

RIGHT = [
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
        "one dict for a tensor",
        violates="Each call makes a dict of its own, also for the same tensor",
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

SURVIVORS = {
    "a hook left on a tensor": "hooks stay, and this one does nothing",
    "under no_grad": "to register a hook makes no graph",
    "lost return: grad": "a hook that watches returns nothing",
    "truth for None: if (d := known())": "the dict has two entries",
}
