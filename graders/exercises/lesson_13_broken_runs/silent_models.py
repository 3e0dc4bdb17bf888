"""The models of 13-dead-channels, with ReLUs that get channels which are positive never, once, or once faintly."""

from collections.abc import Mapping
from typing import Any

from graders.exercises.authoring import Planted, Rng

RECTIFIER = "class Rectifier(nn.ReLU):\n    pass\n"
OTHER = "x.roll(1, 1)"
SMALL = "x.reshape(*x.shape[:2], -1).amax(2)"
CHAINS = {
    "one call": "model = nn.Sequential(nn.ReLU())",
    "in place": f"{RECTIFIER}model = nn.Sequential(nn.LeakyReLU(), Rectifier(inplace=True))",
    "nested": "model = nn.Sequential(nn.Sequential(nn.Sequential(nn.ReLU())))",
    "replaced by a hook": "model = nn.Sequential(nn.ReLU())\n"
    "model[0].register_forward_hook(lambda module, args, out: out.roll(1, 1))",
    "two names": "act = nn.ReLU()\nmodel = nn.Sequential(act, nn.LeakyReLU(), act)",
    "and a ReLU6": "model = nn.Sequential(nn.ReLU6(), nn.ReLU())",
}
"""By kind: a model of layers one after the other, which makes the shortest program."""
NETS: dict[str, tuple[str, ...]] = {
    "two calls": (f"return self.act(x) + self.act({OTHER})",),
    "calls of two sizes": (f"h = self.act({SMALL})", f"return h.sum() + self.act({OTHER})"),
    "overwritten": ("return self.act(x).add_(1)",),
    "two ReLUs": (f"return self.act(x) + self.other({OTHER})",),
    "by mode": (f"return self.act(x if self.training else {OTHER})",),
    "of a product": (f"return self.act(x) * self.act({OTHER})",),
    "all alive": ("return self.act(x.abs() + 1) + nn.functional.relu(x)",),
}
"""By kind: what a model computes with its ReLUs, `act` and `other`; it has another one, which is never called."""


def silent_channels(rng: Rng, case: Mapping[str, Any]) -> dict[str, Any]:
    """The text of a model with such a ReLU."""
    if case["relus"] in CHAINS:
        return {"model": CHAINS[case["relus"]]}
    lines = ["class Net(nn.ModuleDict):", "    def forward(self, x):"]
    lines += [f"        {line}" for line in NETS[case["relus"]]]
    names = rng.shuffled(["act", "idle", *(["other"] if case["relus"] == "two ReLUs" else [])])
    made = ", ".join(f"{name!r}: nn.ReLU()" for name in names)
    return {"model": "\n".join([*lines, f"model = Net({{{made}}})"])}


SILENT = Planted(axes={"relus": (*CHAINS, *NETS)}, plant=silent_channels)
