"""Models full of hooks of every kind, and functions that show which hooks they have and call."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor, nn

from graders.scenes.instruments.callers_hooks import CallersHooks
from graders.scenes.models import Container, a_model
from graders.wire.draws import Rng

DICTS = {
    "forward pre-hooks": "_forward_pre_hooks",
    "forward hooks": "_forward_hooks",
    "backward pre-hooks": "_backward_pre_hooks",
    "backward hooks": "_backward_hooks",
}
STATE_DICTS = (
    "_state_dict_pre_hooks", "_state_dict_hooks", "_load_state_dict_pre_hooks", "_load_state_dict_post_hooks",
)  # fmt: skip
REGISTER = {
    "forward pre-hook": "register_forward_pre_hook",
    "forward hook": "register_forward_hook",
    "backward pre-hook": "register_full_backward_pre_hook",
    "backward hook": "register_full_backward_hook",
    "legacy hook": "register_backward_hook",
}
ROOT, UNUSED = "the model itself", "a module that is not called"
HOOKS: tuple[tuple[str, str, dict[str, bool]], ...] = (
    (ROOT, "forward pre-hook", {"with_kwargs": True}),
    (ROOT, "forward hook", {"prepend": True}),
    (ROOT, "backward hook", {}),
    ("first", "forward hook", {"with_kwargs": True}),
    ("first", "backward hook", {"prepend": True}),
    ("body", "forward pre-hook", {}),
    ("nested", "forward hook", {"always_call": True}),
    ("often", "forward pre-hook", {}),
    ("often", "forward hook", {}),
    ("flat", "backward pre-hook", {}),
    ("identity", "backward pre-hook", {"prepend": True}),
    ("last", "backward hook", {}),
    (UNUSED, "forward hook", {}),
)
"""Which module, by its role in `graders.scenes.models.DrawnModel`, has which kind of hook with which options."""
AXES: dict[str, tuple[Any, ...]] = {
    "legacy": (True, False),
    "dtype": ("float32", "float64"),
    "mode": ("mixed", "train", "eval"),
    "frozen": ("part", "nothing"),
    "grad": ("filled", "empty"),
}


@dataclass
class HookedModel:
    """A model full of hooks."""

    model: Container
    names: dict[str, str]
    """The names of its modules, by their roles."""
    draw: Callable[[], Tensor]
    legacy: bool
    """Whether the batch norm has a hook of the deprecated kind, so that it cannot have full backward hooks."""
    handles: list[Any] = field(default_factory=list)
    log: list[str] = field(default_factory=list)
    """The hooks that were called."""

    def add_listener(self, what: str, kind: str, **options: bool) -> Any:
        """Register a hook that only logs its calls; returns its handle."""

        def hook(*args: Any) -> None:
            self.log.append(f"{kind} of {what}")

        return self.register(what, kind, hook, **options)

    def register(self, what: str, kind: str, hook: Callable[..., Any], **options: bool) -> Any:
        """Register a hook; returns its handle."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # PyTorch warns of the deprecated kind of hook
            return getattr(self.model.get_submodule(self.names[what]), REGISTER[kind])(hook, **options)


def a_hooked_model(rng: Rng, case: Any) -> HookedModel:
    """A model with module hooks of every kind, and with other hooks that do not count as module hooks."""
    drawn = a_model(rng, case)
    model = drawn.model
    unused = next(name for name, child in model.named_children() if isinstance(child, nn.ModuleDict))
    names = {ROOT: "", **drawn.names, UNUSED: f"{unused}.{drawn.names['last']}"}
    del names["second name"]
    hooked = HookedModel(model, names, drawn.draw, case.legacy)
    hooks = [*HOOKS, ("norm", "legacy hook" if case.legacy else "backward hook", {})]
    hooks += [(rng.choice(list(names)), rng.choice(list(REGISTER)[:2]), {}) for _ in range(rng.integer(1, 6))]
    for what, kind, options in rng.shuffled(hooks):
        hooked.handles.append(hooked.add_listener(what, kind, **options))

    def twice(*args: Any) -> None:
        hooked.log.append("a hook that was registered twice")

    hooked.handles += [hooked.register("first", "forward hook", twice) for _ in range(2)]
    for module in model.modules():
        hook_state_dicts(module, hooked.log)
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            CallersHooks().on_parameter(parameter, name)
    return hooked


def hook_state_dicts(module: Any, log: list[str]) -> None:
    """Register hooks of each kind that `state_dict` and `load_state_dict` call."""
    module.register_state_dict_pre_hook(lambda *args: log.append("state_dict"))
    module._register_state_dict_hook(lambda *args: log.append("state_dict"))
    module._register_load_state_dict_pre_hook(lambda *args: log.append("load_state_dict"))
    module.register_load_state_dict_post_hook(lambda *args: log.append("load_state_dict"))


def count_module_hooks(model: nn.Module, names: dict[str, str]) -> dict[str, Any]:
    """How many module hooks of each kind each module has."""
    modules = dict(model.named_modules(remove_duplicate=False))
    return {
        f"the hooks that are left on {what}": {
            kind: len(getattr(modules.get(name), hooks, "?")) for kind, hooks in DICTS.items()
        }
        for what, name in names.items()
    }


def state_hooks(model: nn.Module) -> list[int]:
    """How many hooks of `state_dict` and `load_state_dict` a model has, a number for each kind."""
    return [sum(len(getattr(module, kind)) for module in model.modules()) for kind in STATE_DICTS]


def output_of(model: nn.Module, x: Tensor) -> Any:
    """The output, after a backward pass from it; or the exception that was raised."""
    try:
        output = model(x.clone().requires_grad_())
        output.sum().backward()
        return output.detach()
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def register_everywhere(hooked: HookedModel, seen: dict[str, Any]) -> None:
    """Register a new hook of each kind on each module; `seen` gets whether that worked."""
    seen["registering new hooks"] = "works"
    try:
        for what in hooked.names:
            for kind in list(REGISTER)[:4]:
                if not (kind == "backward hook" and what == "norm" and hooked.legacy):
                    hooked.add_listener(what, kind)
    except Exception as error:
        seen["registering new hooks"] = f"raises {type(error).__name__}: {error}"


def flags_of(model: nn.Module) -> list[bool | None]:
    """The flag of each module that says which kind of backward hook it takes."""
    return [module._is_full_backward_hook for module in model.modules()]


def another_flag(before: list[bool | None], model: nn.Module) -> int:
    """How many modules have another flag than before, unless it is None now."""
    return sum(new is not None and new is not old for old, new in zip(before, flags_of(model)))
