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
        "starts with a number",
        violates='Return the dict `{"n": 0, "sum": None}` at once',
        check="test_before_any_pass_the_dict_holds_0_and_None",
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
]

SURVIVORS = {
    "a hook left on a tensor": "hooks stay, and this one does nothing",
}
