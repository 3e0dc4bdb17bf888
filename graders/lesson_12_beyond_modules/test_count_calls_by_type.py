"""Exercise 12-count-calls-by-type."""

from __future__ import annotations

from collections import Counter
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

from graders.authoring import (
    ALL,
    SILENT,
    CallersHooks,
    Circumstances,
    Failure,
    Kind,
    Meanwhile,
    Mistake,
    Seen,
    Witness,
    came_through,
    changes,
    exercise,
    expect,
    fill_grads,
    freeze_part,
    in_mode,
    nothing_changed,
    packed,
    prepared,
    refuse,
)

STEPS = ("block", "inner", "inner", "stack", "fresh", "hidden 0", "hidden 1", "twin", "direct", "function")
MORE = ("block", "stack", "fresh", "hidden 0", "hidden 1")
INNER = ["Linear", "ReLU", "LeakyReLU"]
LEAVES = {
    "inner": INNER, "stack": ["Linear", "ELU"], "direct": [], "function": [], "fresh": ["Sigmoid"],
    "hidden 0": ["Softplus"], "twin": ["Tanh"],
}  # fmt: skip
"""The classes of the layers that a step calls; those of "block" and "hidden 1" have drawn names."""


class Workshop(nn.Module):
    """A model that calls registered modules, modules in a plain list, and modules that it makes on the way."""

    def __init__(self, spec: dict[str, Any]) -> None:
        super().__init__()
        own_linear, own_block = (
            # As if defined inside another class, and called otherwise where it is shown.
            type(name, (base,), {"__qualname__": f"Workshop.{name}", "_get_name": lambda self: "Shown"})
            for name, base in zip(spec["names"], (nn.Linear, nn.Sequential))
        )
        self.steps, self.output, self.passing, self.runs = spec["steps"], spec["output"], spec["passing"], 0
        self.block = own_block(own_linear(3, 3), nn.Tanh())
        self.inner = nn.Sequential(nn.Linear(3, 3), nn.ReLU(inplace=spec["follower"] == "in-place"), nn.LeakyReLU())
        self.stack = nn.ModuleList([nn.Linear(3, 3), nn.ELU()])
        self.twin = type("Tanh", (nn.Softsign,), {})()  # another class of the same name
        self.never = nn.Hardtanh()
        self.direct = nn.Softsign()
        self.training_only = nn.Softshrink()
        self.hidden = [nn.Sequential(nn.Softplus()), own_linear(3, 3)]
        self.given: list[Tensor] = []

    def forward(self, input: Tensor) -> Any:
        """All steps, and one more in training mode."""
        self.runs += 1
        self.given.append(input.detach().clone())
        x = input
        steps = {"block": self.block, "inner": self.inner, "fresh": nn.Sigmoid().to(x.dtype), "twin": self.twin,
                 "hidden 0": self.hidden[0], "hidden 1": self.hidden[1]}  # fmt: skip
        for step in self.steps:
            if step == "stack":
                for module in self.stack:
                    x = self._call(module, x)
            elif step == "direct":
                x = self.direct.forward(x)
            elif step == "function":
                x = torch.nn.functional.relu(x)
            else:
                x = self._call(steps[step], x)
        if self.training:
            x = self._call(self.training_only, x)
        return packed(x, self.output)

    def _call(self, module: nn.Module, x: Tensor) -> Tensor:
        result: Tensor = module(input=x) if self.passing == "keyword" else module(x)
        return result


def make_model(spec: dict[str, Any], dtype: torch.dtype, mode: str, frozen: str, grad: str) -> nn.Module:
    """The model, of a class with a drawn name; or a single layer of such a class."""
    name = spec["names"][2]
    base: type[nn.Module] = nn.Linear if spec["model"] == "a layer" else Workshop
    model: nn.Module = type(name, (base,), {})(*((3, 3) if spec["model"] == "a layer" else (spec,)))
    for module in getattr(model, "hidden", []):
        module.to(dtype)
    model = freeze_part(in_mode(model.to(dtype), mode), frozen)
    return fill_grads(model) if grad == "filled" else model


def known_calls(
    spec: dict[str, Any], mode: str, *, hidden: bool = True, containers: bool = True, once: bool = False
) -> dict[str, int]:
    """The calls by class name. Without `hidden` those of modules outside `modules()` are missing; with `once`, each
    module counts once.
    """
    own_linear, own_block, own_model = spec["names"]
    if spec["model"] == "a layer":
        return {own_model: 1}
    counts = Counter([own_model] if containers else [])
    counts.update(["Softshrink"] if mode != "eval" else [])
    for step in dict.fromkeys(spec["steps"]) if once else spec["steps"]:
        if step in ("hidden 0", "hidden 1", "fresh") and not hidden:
            continue
        counts.update({"block": [own_linear, "Tanh"], "hidden 1": [own_linear]}.get(step, LEAVES.get(step, [])))
        outer = {"block": [own_block], "inner": ["Sequential"], "hidden 0": ["Sequential"]}
        counts.update(outer.get(step, []) if containers else [])
    return dict(counts)


class Shrinking(nn.Module):
    """Calls itself on all entries but the first, until one is left."""

    def forward(self, input: Tensor) -> Tensor:
        """The last entry."""
        out: Tensor = self(input[1:]) if len(input) > 1 else input.clone()
        return out


@exercise(
    "12-count-calls-by-type",
    points=2,
    minutes=15,
    difficulty=1,
    title="Count every module call, by class",
    hints=(
        "A module in a plain Python list is not in `model.modules()`, and a module that `forward` makes on the way is "
        "not there before the call. A global hook, `register_module_forward_hook` from `torch.nn.modules.module`, "
        "fires for every module of the process.",
        "The hook gets the module first; its class name is `type(module).__name__`.",
        "Global hooks outlive your function: remove yours in `finally`, or use the handle in a `with` statement.",
    ),
    why=(
        "A global hook needs no list of modules, so it also sees those in a plain Python list and those made inside "
        "`forward`. A global forward pre-hook would do as well, and a `collections.Counter` saves the line with `get`."
    ),
    circumstances=Circumstances(
        covers={
            "dtype": ALL, "rank": (1, 2, 3), "layout": ALL, "place": ALL, "grad": ALL, "mode": ALL, "frozen": ALL,
            "output": ALL, "follower": ALL, "passing": ALL, "registered": ALL, "hooks": ALL,
            "hooked": ("root", "named"), "call": ALL, "grad_mode": ALL, "failure": ALL, "failing_run": ALL,
        },
        excludes={
            "values": "calls do not depend on them",
            "number": "no number is an argument",
            "collection": "no collection is an argument",
            "tied": "parameters do not matter",
            "named": "no module is named",
            "layers": "layers of many types are in the model, and a layer alone is a circumstance of its own",
            "backward": "it runs no backward pass",
        },
        own={"model": ("large", "a layer")},
        impossible=[
            lambda model, output: model == "a layer" and output != "tensor",
            lambda model, hooked: model == "a layer" and hooked != "root",
            lambda model, passing: model == "a layer" and passing != "position",
            lambda model, registered: model == "a layer" and registered != "yes",
            lambda hooks, hooked: hooks == "none" and hooked != "root",
        ],
        pairs=[("hooks", "hooked"), ("registered", "call")],
    ),
)  # fmt: skip
class TestCountCallsByType:
    """Write `count_calls_by_type(model, x)`. Run the model. Return a dict that says for each class name how many calls
    of modules of this class took place.

    - Every call `module(...)` counts, also with keyword arguments: the call of `model` itself, of the containers in it,
      and of modules that are used several times.
    - Calls of modules count that are not in `model.modules()`, because they are in a plain Python list or are made
      inside `forward`.
    - Running `module.forward(...)` directly is not a call, and neither is a function such as `F.relu`.
    - The class name is `type(module).__name__`; a subclass has its own. Classes of the same name count together, and
      classes without a call are not in the dict.

    **Example.** For `model = nn.Sequential(nn.Linear(2, 2), nn.Tanh(), nn.Linear(2, 1))` the result is
    `{"Sequential": 1, "Linear": 2, "Tanh": 1}`.
    """

    def draw(rng, dtype, rank, layout, output, follower, passing, registered, model):
        steps = [*STEPS, *(rng.choice(MORE) for _ in range(3))]
        if registered == "yes":
            steps = [step for step in steps if step not in ("hidden 0", "hidden 1", "fresh")]
        names = [first + name.capitalize() for first, name in zip(("", "_", ""), rng.names(3))]
        spec = {"names": names, "steps": rng.shuffled(steps),
                "output": output, "follower": follower, "passing": passing, "model": model}  # fmt: skip
        return {"spec": spec, "x": rng.tensor(*(2, 4, 3)[-rank:], dtype=dtype, layout=layout)}

    def probe(
        student, spec, x, layout, place, grad, mode, frozen, model, hooks, hooked, call, grad_mode, failure,
        failing_run,
    ):  # fmt: skip
        def made():
            return make_model(spec, x.dtype, mode, frozen, grad)

        def ask(model):
            counts = student.count_calls_by_type(model, t)
            return dict(counts) if isinstance(counts, dict) else counts

        t = prepared(x, layout=layout, place=place, grad="empty" if place == "non-leaf" else grad)
        the_model, other, broken = made(), made(), made()
        calls: list[int] = []
        the_model.register_forward_hook(lambda *_: calls.append(1))
        CallersHooks(hooks).on_module(the_model if hooked == "root" else the_model.inner, "the model")
        for register in (register_module_forward_pre_hook, register_module_forward_hook):
            register(lambda module, *_: None)
        hidden = getattr(the_model, "hidden", [])
        with torch.set_grad_enabled(grad_mode == "on"):
            witness = Witness(model=the_model, x=t, hidden=hidden)
            seen = {"counts": ask(the_model), "calls": len(calls), "runs": getattr(the_model, "runs", 1),
                    "ran on x": all(torch.equal(given, t) for given in getattr(the_model, "given", [])),
                    "changed": witness.changes()}  # fmt: skip
            if call != "once":
                seen["second"] = ask(other if call == "in turn" else the_model)
            strike = Failure(failure, failing_run)
            inside = broken if model == "a layer" else broken.inner[1]
            inside.register_forward_hook(strike.strike)
            broken.steps = ["inner"]  # the hook is called once in each run
            witness = Witness(model=broken, x=t, hidden=getattr(broken, "hidden", []))
            seen["failure"] = strike.during(lambda: [ask(broken), ask(broken)])
            seen["changed by failure"] = witness.changes()
            seen["afterwards"] = ask(other)
        meanwhile = Meanwhile(lambda: None, nn.ELU(), nn.ELU())
        registered: list[Any] = []

        def other() -> None:
            seen["inner"] = student.count_calls_by_type(nn.Softsign(), t)
            for register in (register_module_forward_pre_hook, register_module_forward_hook):
                registered.append(register(lambda module, *_: None))

        meanwhile.other = other
        seen["outer"] = student.count_calls_by_type(meanwhile, t)
        seen["kept"] = all(handle.id in handle.hooks_dict_ref() for handle in registered)
        seen["calls itself"] = student.count_calls_by_type(Shrinking(), torch.ones(3))
        example = nn.Sequential(nn.Linear(2, 2), nn.Tanh(), nn.Linear(2, 1))
        return {**seen, "example": student.count_calls_by_type(example, torch.ones(1, 2))}

    mistakes = (
        Mistake(
            "counted-modules",
            lambda seen, spec, mode, model: (
                SILENT
                if model == "a layer"
                else seen["counts"].value
                in [*modules_by_type(spec), *(known_calls(spec, mode, hidden=hidden, once=True) for hidden in (0, 1))]
            ),
            "You counted modules. The task counts calls: a module that is used twice counts twice, and one that is "
            "never called does not count. Count in a hook while the model runs.",
        ),
        Mistake(
            "leaves-only",
            lambda seen, spec, mode, model: (
                SILENT
                if model == "a layer"
                else seen["counts"].value
                in [known_calls(spec, mode, hidden=hidden, containers=False) for hidden in (True, False)]
            ),
            "The calls of containers are missing. The model itself and the containers in it are modules, too, and "
            "their calls count here.",
        ),
        Mistake(
            "registered-modules-only",
            lambda seen, spec, mode: (
                seen["counts"].value == known_calls(spec, mode, hidden=False) != known_calls(spec, mode)
            ),
            "You hooked the modules of `model.modules()`. Modules in a plain list, or made inside `forward`, are not "
            "among them. A global hook fires for every module: `register_module_forward_hook`.",
        ),
        Mistake(
            "one-class-of-a-name",
            lambda seen, spec, mode: is_without(seen["counts"], known_calls(spec, mode), "Tanh"),
            "Two classes of the same name have to count together, and your dict keeps only one of them. Count by the "
            "name, and not by the class.",
        ),
        Mistake(
            "model-left-out",
            lambda seen, spec, mode: {**seen["counts"].value} == without(known_calls(spec, mode), spec["names"][2]),
            "The call of the model itself is missing. It is a module, too, and you call it.",
        ),
        Mistake(
            "another-name",
            lambda seen, spec, mode: renamed(seen["counts"].value, known_calls(spec, mode)),
            "Every call is counted, and some under another name than `type(module).__name__`. Neither "
            "`type(module).__qualname__` nor the name that is shown or the class that it derives from is meant.",
        ),
        Mistake(
            "another-mode",
            lambda seen, spec, mode: (
                seen["counts"].value
                == known_calls(spec, "train" if mode == "eval" else "eval")
                != known_calls(spec, mode)
            ),
            "You switched the model to another mode, with `eval()` or `train()`, in which it calls other modules. Run "
            "it in the mode in which you got it.",
        ),
        Mistake(
            "hook-left-behind",
            lambda seen: (
                bool(changes(seen["changed"], "hook-left *")) and not changes(seen["changed"], "hook-removed *")
            ),
            "Your hook is still registered, and a global one fires from now on for every module of this process. Keep "
            "the handle and call `remove()`.",
        ),
        Mistake(
            "hook-left-after-exception",
            lambda seen: (
                not changes(seen["changed"], "hook-*") and bool(changes(seen["changed by failure"], "hook-left *"))
            ),
            "The model raised an exception, and your `remove()` was skipped. Put it into `finally`, or use the handle "
            "in a `with` statement.",
        ),
    )

    def test_every_call_is_counted(seen, spec, mode):
        same_counts(seen["counts"], known_calls(spec, mode))

    def test_another_call_counts_afresh(seen, spec, mode, call):
        if call != "once":
            same_counts(seen["second"], known_calls(spec, mode))

    def test_a_model_that_calls_itself_is_counted_each_time(seen):
        same_counts(seen["calls itself"], {"Shrinking": 3})

    def test_a_call_inside_a_call_counts_for_itself(seen):
        same_counts(seen["inner"], {"Softsign": 1})
        same_counts(seen["outer"], {"Meanwhile": 1, "ELU": 2, "Softsign": 1})

    def test_a_hook_that_the_model_registered_meanwhile_stays(seen):
        expect(seen["kept"]).is_true("a global hook that the model registered while it ran is gone", Kind.HOOK_GONE)

    def test_the_model_ran_once_on_x(seen):
        for count in (seen["calls"], seen["runs"]):
            if count.value != 1:
                refuse(f"the model itself ran {count.value} times in one call of your function")
        expect(seen["ran on x"]).is_true("the model ran on other numbers than those of `x`")

    def test_nothing_changes_and_no_hook_is_left(seen):
        nothing_changed(seen["changed"])

    def test_an_exception_comes_through_and_leaves_no_hook(seen, spec, mode):
        came_through(seen["failure"], "the model")
        nothing_changed(seen["changed by failure"], when="after an exception")
        same_counts(seen["afterwards"], known_calls(spec, mode))

    def test_the_example_of_the_contract_comes_out(seen):
        same_counts(seen["example"], {"Sequential": 1, "Linear": 2, "Tanh": 1})


def same_counts(seen: Seen, expected: dict[str, int]) -> None:
    """A dict with exactly these numbers."""
    expect(seen).has_keys(*expected)
    for name, count in expected.items():
        expect(seen[name]).equals(count)


def renamed(found: dict[str, int], expected: dict[str, int]) -> bool:
    """Whether all calls are counted, and not all by their names."""
    return sum(found.values()) == sum(expected.values()) and 0 not in found.values() and {*found} != {*expected}


def without(counts: dict[str, int], name: str) -> dict[str, int]:
    """All entries but one."""
    return {key: count for key, count in counts.items() if key != name}


def is_without(seen: Seen, expected: dict[str, int], name: str) -> bool:
    """Whether all numbers are right but that of one name, which is smaller and not missing."""
    found = seen.value if type(seen.value) is dict else {}
    return without(found, name) == without(expected, name) and found.get(name, 0) < expected.get(name, 0)


def modules_by_type(spec: dict[str, Any]) -> list[dict[str, int]]:
    """How many modules of each class are in `modules()`, with and without containers."""
    modules = list(make_model(spec, torch.float32, "train", "nothing", "empty").modules())
    leaves = [module for module in modules if not list(module.children())]
    return [dict(Counter(type(module).__name__ for module in group)) for group in (modules, leaves)]
