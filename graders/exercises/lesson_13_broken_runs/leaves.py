"""The models of 13-signal-report, each with a part in which something may happen to a signal."""

from collections.abc import Mapping
from typing import Any

from graders.exercises.authoring import Planted, Rng
from graders.exercises.lesson_13_broken_runs.ways import text_of_net

LINEAR = "nn.Linear(3, 3)"
PAIR = """class Pair(nn.PReLU):
    def forward(self, x):
        return """
PARTS = {
    "one": "x[:, :1] * self.weight[0]",
    "steps": "torch.tensor([30, 40])",
    "two": "x.double() * self.weight",
    "unused": "5 * x",
}
"""What a part returns: tensors of different sizes and dtypes, not all of which are used."""
TUPLE = f"({', '.join(PARTS.values())})"
DICT = f"{{{', '.join(f'{key!r}: {part}' for key, part in PARTS.items())}}}"
JOINED = "h = h + {0} + {1}.to(h.dtype)"
KINDS: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "a layer": ("", "nn.Tanh()", ("h = self.part(h)",)),
    "called twice": ("", LINEAR, ("h = self.part(h) + self.part(2 * h)",)),
    "in place behind it": ("", LINEAR, ("h = self.part(h).mul_(1.5)",)),
    "in place": ("", "nn.LeakyReLU(0.1, inplace=True)", ("h = self.part(h)",)),
    "detached": ("", LINEAR, ("h = h + self.part(h).detach()",)),
    "of what is detached": ("", LINEAR, ("h = h + self.part(h.detach())",)),
    "under no_grad": ("", LINEAR, ("h = h + torch.no_grad()(lambda: self.part(h))()",)),
    "unused": ("", LINEAR, ("self.part(h)",)),
    "its own parameter": (PAIR + "self.weight", "Pair(3)", ("h = h + self.part(h)",)),
    "a tuple": (PAIR + TUPLE, "Pair(3)", ("parts = self.part(h)", JOINED.format("parts[0]", "parts[2]"))),
    "a dict": (PAIR + DICT, "Pair(3)", ("parts = self.part(h)", JOINED.format("parts['one']", "parts['two']"))),
    "frozen before": ("", LINEAR, ("h = self.part(h)",)),
    "replaced by a hook": ("", LINEAR, ("h = self.part(h)",)),
    "dropout": ("", "nn.Dropout(0.5)", ("h = self.part(h)",)),
    "two names": ("", "", ("h = self.part(h)",)),
    "in a list": ("", f"nn.ModuleList([{LINEAR}, nn.Tanh()])", ("h = self.part[1](self.part[0](h))",)),
    "nested": ("", f"nn.Sequential({LINEAR}, nn.Tanh())", ("h = self.part(h)",)),
    "cut": ("", LINEAR, ("h = self.part(h).detach()",)),
    "tiny": ("", LINEAR, ("h = h + 1e-12 * self.part(h)",)),
    "of three dimensions": ("", LINEAR, ("h = self.part(h.unsqueeze(0)).sum(0)",)),
}
"""By kind: classes, a part of the model, and what the model computes with it."""
ALSO = {
    "frozen before": "model.first.requires_grad_(False)",
    "two names": "model.part = model.first",
    "replaced by a hook": "model.part.register_forward_hook(lambda module, args, out: 3 * out)",
}
OTHER = "other = nn.Sequential(nn.BatchNorm1d(3), nn.Linear(3, 3))"


def parts_with_signals(rng: Rng, case: Mapping[str, Any]) -> dict[str, Any]:
    """The text of a model with such a part, and of another one."""
    classes, part, steps = KINDS[case["part"]]
    parts = {"first": LINEAR, "part": part, "second": LINEAR}
    if not part:
        del parts["part"]
    text = text_of_net(
        parts,
        ["h = self.first(x)", *steps, "return self.second(h)"],
        [ALSO[case["part"]]] if case["part"] in ALSO else [],
        rng.integer(0, 99),
    )
    return {"model": f"{classes}\n{text}" if classes else text, "other": OTHER}


SIGNALS = Planted(axes={"part": tuple(KINDS)}, plant=parts_with_signals)
