"""Exercise 12-count-calls-by-type."""

from __future__ import annotations

from collections import Counter
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

from graders.authoring import Boom, Mistake, exercise, expect, expecting_boom, module_hooks, no_hook_left


class Workshop(nn.Module):
    """A model that calls registered modules, modules in a plain list, and modules that it makes on the way."""

    def __init__(self, spec: dict[str, Any]) -> None:
        super().__init__()
        own_linear, own_block = (
            type(name, (base,), {"__qualname__": f"Workshop.{name}"})  # as if defined inside another class
            for name, base in zip(spec["names"], (nn.Linear, nn.Sequential))
        )
        self.steps = spec["steps"]
        self.block = own_block(own_linear(3, 3), nn.Tanh())
        self.inner = nn.Sequential(nn.Linear(3, 3), nn.ReLU())
        self.stack = nn.ModuleList([nn.Linear(3, 3), nn.ELU()])
        self.never = nn.Hardtanh()
        self.direct = nn.Softsign()
        self.hidden = [nn.Sequential(nn.Softplus()), own_linear(3, 3)]

    def forward(self, x: Tensor) -> Tensor:
        for step in self.steps:
            if step == "stack":
                for module in self.stack:
                    x = module(x)
            elif step == "direct":
                x = self.direct.forward(x)
            else:
                modules = {"block": self.block, "inner": self.inner, "fresh": nn.Sigmoid(),
                           "hidden 0": self.hidden[0], "hidden 1": self.hidden[1]}  # fmt: skip
                x = modules[step](x)
        return x


def make_workshop(spec: dict[str, Any]) -> nn.Module:
    """The model, of a class with a drawn name."""
    return type(spec["names"][2], (Workshop,), {})(spec)


def known_calls(spec: dict[str, Any], *, hidden: bool = True, containers: bool = True) -> dict[str, int]:
    """The calls by class name; without `hidden` those of modules outside `modules()` are missing."""
    own_linear, own_block, own_model = spec["names"]
    counts = Counter([own_model] if containers else [])
    for step in spec["steps"]:
        if step in ("hidden 0", "hidden 1", "fresh") and not hidden:
            continue
        leaves = {"block": [own_linear, "Tanh"], "inner": ["Linear", "ReLU"], "stack": ["Linear", "ELU"],
                  "direct": [], "fresh": ["Sigmoid"], "hidden 0": ["Softplus"], "hidden 1": [own_linear]}  # fmt: skip
        outer = {"block": [own_block], "inner": ["Sequential"], "hidden 0": ["Sequential"]}
        counts.update(leaves[step])
        counts.update(outer.get(step, []) if containers else [])
    return dict(counts)


@exercise(
    "12-count-calls-by-type",
    points=2,
    title="Count every module call, by class",
    hints=(
        "A module in a plain Python list is not in `model.modules()`, and a module that `forward` makes on the way is "
        "not there before the call. A global hook, `register_module_forward_hook` from `torch.nn.modules.module`, "
        "fires for every module of the process.",
        "The hook gets the module first; its class name is `type(module).__name__`.",
        "Global hooks outlive your function: remove yours in `finally`, or use the handle in a `with` statement.",
    ),
    cases=({}, {}, {}),
)
class TestCountCallsByType:
    """Write `count_calls_by_type(model, x)`. Run `model(x)` once. Return a dict that says for each class name how many
    calls of modules of this class took place, such as `{"Linear": 2, "ReLU": 1, "Sequential": 1}`.

    Every call `module(...)` counts: the call of `model` itself, of the containers in it, of modules that are used
    several times, and also of modules that are not in `model.modules()`, because they are in a plain Python list or are
    made inside `forward`. Running `module.forward(...)` directly is not a call. The class name is
    `type(module).__name__`; a subclass has its own. Classes without a call are not in the dict. The order of the keys
    does not matter.

    `x` stays as it was, the modules stay in their modes, no gradient is computed, and hooks of the caller stay. No hook
    of yours is left, even when the model raises; the exception comes through.

    **Example.** For `model = nn.Sequential(nn.Linear(2, 2), nn.Tanh(), nn.Linear(2, 1))` the result is
    `{"Sequential": 1, "Linear": 2, "Tanh": 1}`.
    """

    def draw(rng):
        always = ["block", "inner", "inner", "stack", "fresh", "hidden 0", "hidden 1", "direct"]
        more = [rng.choice(("block", "stack", "fresh", "hidden 0", "hidden 1")) for _ in range(3)]
        names = [name.capitalize() for name in rng.names(3)]
        return {"spec": {"names": names, "steps": rng.shuffled([*always, *more])}, "x": rng.tensor(2, 3)}

    def probe(student, spec, x):
        model = make_workshop(spec)
        model.inner.eval()
        modes = [module.training for module in model.modules()]
        before = x.clone()
        calls, everywhere = [], []
        model.register_forward_hook(lambda *_: calls.append(1))
        for register in (register_module_forward_pre_hook, register_module_forward_hook):
            register(lambda module, *_: everywhere.append(type(module).__name__))
        hooks = module_hooks(model) + sum(module_hooks(hidden) for hidden in model.hidden)
        counts = student.count_calls_by_type(model, x)
        seen = {
            "counts": dict(counts) if isinstance(counts, dict) else counts,
            "callers_calls": len(calls),
            "hooks_left": module_hooks(model) + sum(module_hooks(hidden) for hidden in model.hidden) - hooks,
            "modes_kept": modes == [module.training for module in model.modules()],
            "no_grads": all(parameter.grad is None for parameter in model.parameters()),
            "x_kept": torch.equal(x, before) and not x.requires_grad,
        }
        everywhere.clear()
        nn.Tanh()(x)
        seen["callers_calls_later"] = list(everywhere)
        failing = make_workshop(spec)

        def boom(*_):
            raise Boom

        failing.inner[1].register_forward_hook(boom)
        hooks = module_hooks(failing)
        with expecting_boom(seen):
            student.count_calls_by_type(failing, x)
        seen["hooks_left_by_exception"] = module_hooks(failing) - hooks
        return seen

    mistakes = (
        Mistake(
            "counted-modules",
            lambda seen, spec: seen["counts"].value in [*modules_by_type(spec), *modules_called_by_type(spec)],
            "You counted modules. The task counts calls: a module that is used twice counts twice, and one that is "
            "never called does not count. Count in a hook while the model runs.",
        ),
        Mistake(
            "leaves-only",
            lambda seen, spec: (
                seen["counts"].value
                in (known_calls(spec, containers=False), known_calls(spec, hidden=False, containers=False))
            ),
            "The calls of containers are missing. The model itself and the containers in it are modules, too, and "
            "their calls count here.",
        ),
        Mistake(
            "registered-modules-only",
            lambda seen, spec: seen["counts"].value == known_calls(spec, hidden=False),
            "You hooked the modules of `model.modules()`. Modules in a plain list, or made inside `forward`, are not "
            "among them. A global hook fires for every module: `register_module_forward_hook`.",
        ),
        Mistake(
            "hook-left-behind",
            lambda seen, spec: seen["counts"].value == known_calls(spec) and seen["hooks_left"].value > 0,
            "Your counts are right, but your global hook is still registered, and now it fires for every module of "
            "this process. Keep the handle and call `remove()`.",
        ),
        Mistake(
            "hook-left-after-exception",
            lambda seen: seen["hooks_left"].value == 0 and seen["hooks_left_by_exception"].value > 0,
            "The model raised an exception, and your `remove()` was skipped. Put it into `finally`, or use the handle "
            "in a `with` statement.",
        ),
    )

    def test_every_call_is_counted(seen, spec):
        expected = known_calls(spec)
        expect(seen["counts"]).has_keys(*expected)
        for name, count in expected.items():
            expect(seen["counts"][name]).equals(count)

    def test_the_model_ran_once_as_it_was(seen):
        expect(seen["callers_calls"]).equals(1)
        expect(seen["modes_kept"]).is_true("the modules are not in the modes in which the caller had set them")
        expect(seen["no_grads"]).is_true("a parameter has a `.grad`, and no gradient was asked for")
        expect(seen["x_kept"]).is_true("the values of `x`, or its `requires_grad`, changed")

    def test_no_hook_is_left(seen):
        no_hook_left(seen["hooks_left"])
        expect(seen["callers_calls_later"]).equals(["Tanh", "Tanh"])

    def test_no_hook_is_left_when_the_model_raises(seen):
        expect(seen["exception"]).equals("propagated")
        no_hook_left(seen["hooks_left_by_exception"])


def modules_by_type(spec: dict[str, Any]) -> list[dict[str, int]]:
    """How many modules of each class are in `modules()`, with and without containers."""
    modules = list(make_workshop(spec).modules())
    leaves = [module for module in modules if not list(module.children())]
    return [dict(Counter(type(module).__name__ for module in group)) for group in (modules, leaves)]


def modules_called_by_type(spec: dict[str, Any]) -> list[dict[str, int]]:
    """The counts when each module counts once that is called, among all modules and among those of `modules()`."""
    # The step "fresh" makes another module each time.
    steps = [*dict.fromkeys(spec["steps"]), *(["fresh"] * (spec["steps"].count("fresh") - 1))]
    return [known_calls(spec | {"steps": steps}, hidden=hidden) for hidden in (True, False)]
