"""What is wrong with the models of 11-first-nonfinite.

It is written here as text, for an answer can read everything that is beside it in the box.
"""

from collections.abc import Mapping
from typing import Any

from graders.exercises.authoring import Planted, Rng

PARTS = ("code", "plain", "mix", "cleaned", "block", "in place", "log", "later", "large")


def a_model(rng: Rng, case: Mapping[str, Any], healthy: bool) -> tuple[str, str, str, str]:
    """A model as text, and the names of three of its modules, for the caller's hooks.

    Each part runs on finite numbers. The parts are not defined in the order of the run. A `healthy` model makes no
    number NaN or Inf.
    """
    culprit, minus = "" if healthy else case["culprit"], "-" if case["bad"] == "inf" else ""
    inner, other, again, *names = rng.names(len(PARTS) + 3)
    name = dict(zip(PARTS, names))

    def numbers(bad: bool) -> str:
        return "spoilt(numbers())" if bad and not healthy else "numbers()"

    nested, in_place = numbers(culprit == "nested"), numbers(culprit == "in place")
    parts = {
        "code": f"adding({numbers(case['before'] == 'in code')}, shift(numbers()))",
        "plain": "shift(numbers())",
        "mix": "Fn(lambda module, x, share, other: x + share * other)",
        "cleaned": f"shift({numbers(case['hooks'] == 'replacing')})",
        "block": f"nn.Sequential(OrderedDict({inner}=shift({nested}), {other}=nn.Tanh()))",
        "in place": f"Fn(lambda module, x: x.add_(module.by), by=nn.Parameter({in_place}))",
        "log": f"Fn(lambda module, x: {minus}x.log())",  # NaN for negative numbers, and Inf or -Inf for 0
        "later": f"shift({numbers(True)})",
        "large": "shift(large)",
    }
    order = ["later", *rng.shuffled([part for part in PARTS if part != "later"])]
    lines = [f"model.add_module({name[part]!r}, {parts[part]})" for part in order]
    lines.append(f"model.add_module({again!r}, model.{name['log']})")

    fine = "clean.abs() + 0.5"
    bad = f"spoilt({fine}, {-1 if case['bad'] == 'nan' else 0})"
    bad_already = f"spoilt({fine}, torch.nan)"
    logs = {"first call": (bad, fine), "second call": (bad_already, bad)}.get(culprit, (fine, fine))
    part = {what: f"model.{path}" for what, path in name.items()}
    outputs = [
        f"{part['mix']}(clean, 0.5, {part['plain']}({part['code']}(x)))",
        *(f"{part[what]}(clean)" for what in ("cleaned", "block")),
        f"{part['in place']}(clean.clone())",
        f"{part['log']}({logs[0]})",
        f"model.{again}({logs[1]})",
        f"{part['later']}(clean)",
    ]
    run = [f"found = [{', '.join(outputs)}]", f"{part['large']}(clean)", "return found"]
    program = "\n    ".join(["def define(model):", *lines]), "\n    ".join(["def outputs(model, x, clean):", *run])
    return "\n".join(program), f"{name['block']}.{inner}", name["cleaned"], name["later"]


def a_culprit(rng: Rng, case: Mapping[str, Any]) -> dict[str, Any]:
    """What the scene reads: two such models, a healthy one, and whether `x` is bad already."""
    return {"models": tuple(a_model(rng, case, healthy) for healthy in (False, False, True)),
            "bad_x": case["before"] == "in x"}  # fmt: skip


CULPRITS = Planted(
    axes={"culprit": ("nested", "in place", "first call", "second call"), "before": ("in x", "in code")},
    plant=a_culprit,
)
