"""Stories for a function that runs a pass, and returns the gradient at what one module of a model returns."""

from typing import Any

import torch
from torch import nn

from graders.scenes.scene import Call
from graders.scenes.story import Draw, Seen, Watch, told

MODEL = {
    "dtype": ("float32", "float64"),
    "output": ("tensor", "tuple", "dict"),
    "follower": ("plain", "in place"),
    "named": ("inside", "nested", "last", "root"),
    "x_is": ("data", "leaf", "non-leaf"),
    "grad": ("empty", "filled"),
    "mode": ("train", "eval", "mixed"),
    "hooks": ("none", "watching", "replacing"),
    "failure": ("KeyError", "ValueError", "RuntimeError", "KeyboardInterrupt"),
    "raised_in": ("loss", "backward", "model"),
}
PAIRS = (("output", "follower"), ("named", "follower"))


def the_name(case: Any) -> str:
    """The name of the module in question."""
    return {"inside": "part", "nested": "part", "last": "part", "root": ""}[case.named]
