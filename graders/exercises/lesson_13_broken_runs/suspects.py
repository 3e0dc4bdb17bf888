"""The models of 13-wrong-mode, with modules whose mode may matter.

They are written here as text, for an answer can read everything that is beside it in the box.
"""

from collections.abc import Mapping
from typing import Any

from graders.exercises.authoring import Planted, Rng

PART = "class Part(nn.Module):\n"
FORWARD = f"{PART}    def forward(self, x):\n        return "
COUNTING = f"""{PART}    def __init__(self):
        super().__init__()
        self.register_buffer("still", torch.ones(()))
        self.register_buffer("seen", torch.zeros(()))
    def forward(self, x):
        self.seen += """
NET = """class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.part, self.spare = nn.Linear(3, 3), Part(), nn.Dropout(0.5)
    def forward(self, x):
        return """
IN_NET = ("model.part", "model.spare")
ROW = "nn.Sequential(nn.Linear(3, 3), Part(), nn.ReLU())"
PAIR = "nn.Sequential(nn.Linear(3, 3), Part(), Part())"
TWICE = "nn.Sequential(nn.Linear(3, 3), part, nn.Tanh(), part)"
SUSPECTS: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "scale": (f"{FORWARD}3 * x if self.training else x", ROW, ("model[1]", "model[2]")),
    "same sum": (f"{FORWARD}x.flip(1) if self.training else x", ROW, ("model[1]", "model[2]")),
    "one entry": (f"{FORWARD}x + 0.05 * self.training * (x == x.max())", ROW, ("model[1]",)),
    "positive entries": (
        f"{FORWARD}x.relu() if self.training else x",
        PAIR,
        ("model[1]", "model[2]"),
    ),
    "dropout": ("", "nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.5), nn.Dropout(0.0))", ("model[1]", "model[2]")),
    "norms": (
        "",
        "nn.Sequential(nn.BatchNorm1d(3), nn.BatchNorm1d(3, track_running_stats=False))",
        ("model[0]", "model[1]"),
    ),
    "noise": (f"{FORWARD}x + torch.rand(x.shape)", ROW, ("model[1]",)),
    "in place": (f"{FORWARD}x.mul_(2) if self.training else x.mul_(2).relu_()", ROW, ("model[1]",)),
    "in place, and twice": (
        f"{FORWARD}x.relu_() if self.training else x",
        PAIR,
        ("model[1]", "model[2]"),
    ),
    "container": (
        f"{FORWARD}3 * x if self.training else x",
        "nn.Sequential(nn.Sequential(Part()), nn.Sequential(nn.Linear(3, 3), Part()))",
        ("model[0]", "model[1]", "model[1][0]", "model[1][1]"),
    ),
    "container that looks": (
        "class Turning(nn.Sequential):\n    def forward(self, x):\n"
        "        return super().forward(-x if self.training else x)",
        "nn.Sequential(nn.Linear(3, 3), Turning(nn.Dropout(0.5)))",
        ("model[1]",),
    ),
    "called in training": (
        "class Turning(nn.Sequential):\n    def forward(self, x):\n"
        "        return super().forward(x) if self.training else x",
        "nn.Sequential(nn.Linear(3, 3), Turning(nn.Dropout(0.5)))",
        ("model[1]", "model[1][0]"),
    ),
    "second call": (
        f"{COUNTING}1\n        return x + (self.seen - 1) * self.training\npart = Part()",
        TWICE,
        ("part", "model[2]"),
    ),
    "first call": (
        f"{COUNTING}1\n        return x + (2 - self.seen) * self.training\npart = Part()",
        TWICE,
        ("part", "model[2]"),
    ),
    "counts in training": (
        f"{COUNTING}self.training\n        return x + (self.seen - 1 * self.training)",
        ROW,
        ("model[1]",),
    ),
    "counts": (f"{COUNTING}1\n        return x + self.seen\npart = Part()", TWICE, ("part", "model[0]")),
    "counts there": (
        f"{FORWARD}x + self.there[0].running_mean.add_(1)[0]",
        "nn.Sequential(nn.BatchNorm1d(3), Part())\nmodel[1].there = [model[0]]",
        ("model[1]",),
    ),
    "a dict": (
        f"{FORWARD}{{'one': 2 * x if self.training else x, 'two': x}}",
        "nn.Sequential(nn.Linear(3, 3), Part())",
        ("model[1]",),
    ),
    "a tuple": (
        f"{FORWARD}(x, x.argmax() if self.training else x.argmin())",
        "nn.Sequential(nn.Linear(3, 3), Part())",
        ("model[1]",),
    ),
    "by keyword": (f"{FORWARD}x.mul_(3) if self.training else x\n{NET}self.part(x=self.first(x))", "Net()", IN_NET),
    "asked by another": (
        f"{FORWARD}3 * x\n{NET}self.part(self.first(x)) * (2 if self.part.training else 1)",
        "Net()",
        IN_NET,
    ),
    "hidden": (
        f"{FORWARD}3 * x if self.training else x\n{NET}0 * self.part(self.first(x))",
        "Net()",
        ("model.part", "model.first"),
    ),
}
"""By kind: classes, a model, and the parts of it that are in the other mode than the model.

The learner's function has to find out whether that matters.
"""
OTHER = """
other = nn.Sequential(nn.BatchNorm1d(3), nn.Dropout(0.5), nn.BatchNorm1d(3)).eval()
other[0].train()
other[2].train().running_mean += 2
"""


def suspicious_modules(rng: Rng, case: Mapping[str, Any]) -> dict[str, Any]:
    """The text of a model of a kind, and of another one."""
    classes, model, astray = SUSPECTS[case["suspects"]]
    lines = [classes, f"torch.manual_seed({rng.integer(0, 99)})", f"model = {model}"]
    lines += ["model.eval()"] if case["root"] == "in evaluation" else []
    lines += [f"{part}.training = {case['root'] == 'in evaluation'}" for part in rng.shuffled(astray)]
    return {"model": "\n".join(lines), "other": OTHER}


IN_WRONG_MODE = Planted(
    axes={"suspects": tuple(SUSPECTS), "root": ("in training", "in evaluation")}, plant=suspicious_modules
)
