"""The models of 13-dead-channels, with ReLUs whose channels are positive never, once, faintly, or often."""

from collections.abc import Mapping
from typing import Any

from graders.exercises.authoring import Planted, Rng
from graders.exercises.lesson_13_broken_runs.ways import text_of_net

LEVEL = """class Level(nn.Module):
    def __init__(self, levels, units):
        super().__init__()
        self.levels, self.units = torch.tensor(levels), torch.tensor(units)
    def forward(self, x):
        return ((x.movedim(1, -1) - self.levels) * self.units).movedim(-1, 1)
"""
RECTIFIER = "class Rectifier(nn.ReLU):\n    pass\n"
REACHED = {"never": (9.0, 1.0), "once": (7.0, 1.0), "faintly": (7.0, 1e-15), "often": (-8.0, 1.0)}
"""What a level subtracts from a channel whose largest number is 8, and what it multiplies by."""
PLAIN = "self.act(self.first(x))"
SMALL = "x.reshape(*x.shape[:2], -1).amax(2)"
MODELS: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "one call": ("", "nn.ReLU()", (f"return {PLAIN}",)),
    "two calls": ("", "nn.ReLU()", (f"return {PLAIN} + self.act(self.second(x))",)),
    "calls of two sizes": (
        "",
        "nn.ReLU()",
        (f"h = self.act(self.first({SMALL}))", "return h.sum() + self.act(self.second(x))"),
    ),
    "overwritten": ("", "nn.ReLU()", (f"return {PLAIN}.add_(1)",)),
    "in place": (RECTIFIER, "Rectifier(inplace=True)", (f"return {PLAIN}",)),
    "nested": (RECTIFIER, "nn.Sequential(nn.Sequential(Rectifier()))", (f"return {PLAIN}",)),
    "replaced by a hook": ("", "nn.ReLU()", (f"return {PLAIN}",)),
    "and a ReLU6": ("", "nn.ReLU()", (f"return {PLAIN} + self.six(self.second(x))",)),
    "two ReLUs": (
        "",
        "nn.ModuleList([nn.ReLU(), nn.ReLU()])",
        ("return self.act[0](self.first(x)) + self.act[1](self.second(x))",),
    ),
    "by mode": ("", "nn.ReLU()", ("return self.act(self.first(x) if self.training else self.second(x))",)),
    "of a product": ("", "nn.ReLU()", (f"return {PLAIN} * self.act(self.second(x))",)),
    "all alive": ("", "nn.ReLU()", (f"return {PLAIN} + nn.functional.relu(self.second(x))",)),
}
"""By kind: classes, a ReLU, and what the model computes with it."""


def silent_channels(rng: Rng, case: Mapping[str, Any]) -> dict[str, Any]:
    """The text of a model with such a ReLU."""
    classes, relu, body = MODELS[case["relus"]]

    def level(*reached: str) -> str:
        pairs = [REACHED[how] for how in reached]
        return f"Level({[pair[0] for pair in pairs]}, {[pair[1] for pair in pairs]})"

    order = rng.shuffled(range(4))
    first, second = ("never", "faintly", "once", "never"), ("never", "once", "never", "often")
    if case["relus"] == "all alive":
        first = ("once", "faintly", "often", "once")
    parts = [
        f"self.first = {level(*(first[channel] for channel in order))}",
        f"self.second = {level(*(second[channel] for channel in order))}",
        f"self.act, self.six, self.idle = {relu}, nn.ReLU6(), nn.ReLU()",
    ]
    hook = "model.act.register_forward_hook(lambda module, args, out: out.roll(1, 1))"
    lines = [hook] if case["relus"] == "replaced by a hook" else []
    return {"model": LEVEL + classes + text_of_net(parts, body, lines, rng.integer(0, 99))}


SILENT = Planted(axes={"relus": tuple(MODELS)}, plant=silent_channels)
