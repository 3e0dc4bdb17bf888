"""Exercise 13-changed-by-hooks."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn

from graders.authoring import (
    ALL,
    SILENT,
    Circumstances,
    Failure,
    Kind,
    Mistake,
    Rng,
    Seen,
    Witness,
    came_through,
    exercise,
    expect,
    fill_grads,
    laid_out,
    module_hooks,
    nothing_changed,
    paired,
    refuse,
    snapshot,
)
from graders.lesson_13_broken_runs.shared import Linear

# Nets of stages on a stream, and hooks as data: [module or parameter, kind, options, effect, factor].


class Growing(nn.Module):
    """Its output depends on a buffer, which each pass in training mode changes."""

    def __init__(self, like: Tensor) -> None:
        """The buffer starts with 0; another one is `None`, as a norm without statistics has it."""
        super().__init__()
        self.register_buffer("unset", None)
        self.register_buffer("count", torch.zeros((), dtype=like.dtype), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        """A new tensor."""
        self.count += self.training
        return (1 + self.count / 2) * x


class Scaled(nn.Module):
    """A parameter of its own times what the layer inside makes."""

    def __init__(self, name: str, scale: Tensor, inner: nn.Module) -> None:
        """`name` is that of the layer."""
        super().__init__()
        self.inside, self.scale = name, nn.Parameter(scale.clone())
        self.add_module(name, inner)

    def forward(self, h: Tensor) -> Tensor:
        """A new tensor."""
        return self.scale * self.get_submodule(self.inside)(h)


class Doubled(nn.Module):
    """Doubles the gradient that goes through, by a hook on a tensor: that is code of the model."""

    def forward(self, h: Tensor) -> Tensor:
        """A new tensor."""
        out = 1 * h
        if out.requires_grad:
            out.register_hook(lambda grad: 2 * grad)
        return out


class Hooked(nn.Module):
    """Stages on a stream, which are called in an order that is not that of definition."""

    def __init__(self, net: dict[str, Any], strike: Callable[..., None] | None = None, where: str = "") -> None:
        """`strike` is called in `where`, the "model" or "backward"; it is a function, which a deep copy keeps."""
        super().__init__()
        self.given = {key: net[key] for key in ("names", "order", "small", "head", "training")}
        self.strike, self.where = strike, where
        gain = net["gain"]
        self.register_parameter(net["names"]["gain"], nn.Parameter(gain.clone()))
        self.norm, self.growing, self.doubled = nn.BatchNorm1d(len(gain), dtype=gain.dtype), Growing(gain), Doubled()
        stages = {path: Linear(*net["stages"][path]) for path in net["defined"]}
        block, inner = net["block"]
        made: dict[str, nn.Module] = {**stages, block: Scaled(inner, gain, stages[block])}
        for path, module in made.items():
            group, name = path.split(".")
            if group not in self._modules:
                self.add_module(group, nn.ModuleDict())
            self.get_submodule(group).add_module(name, module)
        one, other = net["tied"]
        stages[other].weight = stages[one].weight

    def forward(self, x: Tensor) -> Tensor:
        """One pass."""
        h = self.growing(self.norm(x)) * getattr(self, self.given["names"]["gain"])
        if self.strike is not None and self.where == "backward":
            h.register_hook(self.strike)  # most of the pass is over when a gradient comes here
        for path in (
            self.given["order"] if self.training == self.given["training"] else ()
        ):  # each mode has its own code
            h = h + self.given["small"].get(path, 1.0) * torch.tanh(self.get_submodule(path)(h))
        if self.strike is not None and self.where == "model":
            self.strike()
        out: Tensor = self.get_submodule(self.given["head"])(input=self.doubled(h))
        return out


REGISTER = {
    "pre": "register_forward_pre_hook", "forward": "register_forward_hook",
    "backward pre": "register_full_backward_pre_hook", "backward": "register_full_backward_hook",
    "tensor": "register_hook", "accumulated": "register_post_accumulate_grad_hook",
}  # fmt: skip
ON_PARAMETERS = ("tensor", "accumulated")


def registered(model: nn.Module, hooks: list[Any]) -> list[Any]:
    """Register hooks that are described as data; returns their handles."""
    handles = []
    for place, kind, options, effect, factor in hooks:
        owner: Any = model.get_parameter(place) if kind in ON_PARAMETERS else model.get_submodule(place)
        with_kwargs = options.get("with_kwargs", False)
        handles.append(getattr(owner, REGISTER[kind])(hook_of(kind, effect, factor, with_kwargs), **options))
    return handles


def hook_of(kind: str, effect: str, factor: float, with_kwargs: bool) -> Callable[..., Any]:
    """A hook that watches, or that changes what it gets."""
    change = EFFECTS[effect]

    def parameter_hook(grad: Tensor) -> Any:
        return change(grad, factor)

    def accumulated_hook(parameter: Tensor) -> None:
        if effect == "times" and parameter.grad is not None:
            parameter.grad.mul_(factor)
        if effect == "drop":
            parameter.grad = None

    def pre_hook(module: nn.Module, args: Any, kwargs: Any = None) -> Any:
        if effect == "watch":
            return None
        args = tuple(change(arg, factor) for arg in args)
        return (args, {key: change(arg, factor) for key, arg in kwargs.items()}) if with_kwargs else args

    def forward_hook(module: nn.Module, args: Any, *rest: Any) -> Any:
        return change(rest[-1], factor)

    def backward_hook(module: nn.Module, grads: Any, *rest: Any) -> Any:
        if effect == "watch":
            return None
        return tuple(None if grad is None else change(grad, factor) for grad in grads)

    return {
        "tensor": parameter_hook, "accumulated": accumulated_hook, "pre": pre_hook, "forward": forward_hook,
        "backward pre": backward_hook, "backward": backward_hook,
    }[kind]  # fmt: skip


def planted(value: Tensor, factor: float) -> None:
    """A hook of a module puts a hook on the output."""
    if value.requires_grad:
        value.register_hook(lambda grad: factor * grad)


EFFECTS: dict[str, Callable[[Tensor, float], Any]] = {
    "watch": lambda value, factor: None,
    "times": lambda value, factor: factor * value,
    "add": lambda value, factor: value + factor,
    "detach": lambda value, factor: value.detach(),
    "plant": planted,
    "drop": lambda value, factor: None,
}

SIZES = (1e-60, 1e9)
LOSSES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "linear": lambda out, up: (up * out).sum(),
    "square": lambda out, up: (up * out * out).mean(),
}


def prepared_model(
    net: dict[str, Any], mode: str, hooks: list[Any], strike: Callable[..., None] | None = None, where: str = ""
) -> tuple[Hooked, list[Any]]:
    """The model of a draw with these hooks, and their handles. What is frozen has been hooked before."""
    model = Hooked(net, strike, where).train(mode != "eval")
    if mode == "mixed":
        model.norm.eval()
    handles = registered(model, hooks)
    for path in net["frozen"]:
        model.get_submodule(path).requires_grad_(False)
    return model, handles


def gradients_of(model: nn.Module, loss: str, x: Tensor, up: Tensor) -> dict[str, Tensor | None]:
    """What one pass leaves in `.grad`, by name."""
    for parameter in model.parameters():
        parameter.grad = None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that a backward hook of the first layer sees no input is meant
        result = LOSSES[loss](model(x), up)
        if result.requires_grad:
            result.backward()
    return {name: snapshot(parameter.grad) for name, parameter in model.named_parameters()}


def last_module(net: dict[str, Any]) -> str:
    """The module that is defined last: neither one that is frozen nor the one whose output is small."""
    group = next(path for path in net["defined"] if path.split(".")[0] != net["defined"][0].split(".")[0]).split(".")[0]
    last = [path for path in net["defined"] if path.split(".")[0] == group][-1]
    return ".".join(net["block"]) if last == net["block"][0] else last


def clear_cut(plain: Tensor | None, hooked: Tensor | None, same: bool) -> bool:
    """Whether nobody can doubt that two gradients are the same, or that they are not."""
    if plain is None or hooked is None:
        return (plain is hooked) == same
    difference, size = (plain - hooked).double().abs(), torch.maximum(plain.abs(), hooked.abs()).double()
    if same:
        return bool((difference <= 1e-6 * size).all())
    clear = bool((difference >= 0.05 * size)[size > 0].any()) and float(difference.max() / size.max()) > 0.02
    return clear and float(difference.norm() / plain.double().norm()) > 0.02


def changed(
    net: dict[str, Any], mode: str, loss: str, x: Tensor, up: Tensor, *,
    left: Callable[[list[Any]], bool] = lambda hook: False, passes: tuple[int, int] = (1, 1),
    rtol: float = 1e-3, atol: float = 0.0, none_as_zero: bool = False, old: float = 0.0,
) -> list[str]:  # fmt: skip
    """The right list; or a wrong one.

    Hooks that are `left` are there in the pass without hooks, too. The pass without hooks and that with them are the
    first of their models, or the second, as `passes` says. Gradients, plus what is `old`, are compared with these
    tolerances.
    """
    plain, hooked = (
        [gradients_of(model, loss, x, up) for _ in range(count)][-1]
        for count, hooks in zip(passes, ([hook for hook in net["hooks"] if left(hook)], net["hooks"]))
        for model, _ in [prepared_model(net, mode, hooks)]
    )
    return [name for name, g in hooked.items() if not same(plain[name], g, rtol, atol, none_as_zero, old)]


def same(plain: Tensor | None, hooked: Tensor | None, rtol: float, atol: float, none_as_zero: bool, old: float) -> bool:
    """Whether two gradients are equal, up to this tolerance."""
    if plain is None or hooked is None:
        return plain is hooked or none_as_zero
    return torch.allclose(hooked + old, plain + old, rtol=rtol, atol=atol)


def of_kinds(*kinds: str) -> Callable[[list[Any]], bool]:
    """Whether a hook is of one of these kinds."""
    return lambda hook: hook[1] in kinds


def on_modules(holds: Callable[[str], bool]) -> Callable[[list[Any]], bool]:
    """Whether a hook is on a module, and this holds for its name."""
    return lambda hook: hook[1] not in ON_PARAMETERS and holds(hook[0])


def told_by(**how: Any) -> Callable[..., Any]:
    """A recogniser: the list is the one that `changed` makes this way; silent where that is right."""

    def recognise(seen, net, mode, loss, x, up, expected):
        told = changed(net, mode, loss, x, up, **how)
        return SILENT if told == expected else seen["names"].value == told

    return recognise


def any_of(answers: Iterable[Any]) -> Any:
    """True when one of the answers of recognisers is; silent when all are."""
    found = list(answers)
    return SILENT if all(answer is SILENT for answer in found) else any(found)


def trained(net: dict[str, Any], mode: str) -> list[str]:
    """The names of the parameters that require grad."""
    model, _ = prepared_model(net, mode, [])
    return [name for name, parameter in model.named_parameters() if parameter.requires_grad]


def adds_to_old_gradients(
    seen: Seen,
    net: dict[str, Any],
    mode: str,
    loss: str,
    x: Tensor,
    up: Tensor,
    expected: list[str],
    plan: str,
    grad: str,
) -> Any:
    """A recogniser: either all parameters are in the list, or only those that differ clearly from what was there."""
    if seen["names"].value == expected:  # one who misses small gradients does so on a new model, too
        return False if plan == "none" and seen["slight"][0].value == [] else SILENT
    clearly = changed(net, mode, loss, x, up, rtol=0.02, old=0.7)
    return grad == "filled" and seen["names"].value in (trained(net, mode), clearly)


PLANS = (
    "none", "watching", "tensor", "tied", "accumulated", "dropped", "pre", "keyword", "forward", "backward pre",
    "backward", "root", "cancelling", "adding", "detaching", "detaching at the root", "planting",
)  # fmt: skip


ASKED_AGAIN = ("tensor", "dropped", "keyword", "backward", "root", "planting")
"""Where a second call is made: each costs as much as the first, and what it may find left over is the same for all."""


@exercise(
    "13-changed-by-hooks",
    points=3,
    minutes=35,
    difficulty=3,
    title="Which gradients the hooks change",
    hints=(
        "Two passes answer it: one as the model is, one without its hooks. Then compare the gradients, name by name.",
        "A copy without hooks: `deepcopy` drops the hooks on parameters and keeps those of modules, which you clear on "
        "the copy (lesson 11). Or take the hooks off the model for one pass: a module has four dicts of hooks (lesson "
        "11), and a parameter has `_backward_hooks` and `_post_accumulate_grad_hooks`. Put the same dicts back, in "
        "`finally`.",
        "A post-accumulate-grad hook changes `.grad` itself (lesson 4), which `torch.autograd.grad` does not show. Set "
        "`.grad` to `None`, call `backward()`, read it, and put the old tensor back.",
        "A layer in training mode may change its buffers, and the second pass would begin with others (lesson 9). "
        "Clone them before, and `copy_` them back under `no_grad`.",
    ),
    why=(
        "A deep copy has no hooks on parameters, and those of its modules can be cleared without touching the model's. "
        "Emptying the dicts of the model itself for one pass would do as well, if all entries go back into them, in "
        "the same order, in `finally`."
    ),
    circumstances=Circumstances(
        covers={
            "dtype": ALL, "layout": ("contiguous", "transposed", "slice"), "grad": ALL, "mode": ALL, "frozen": ALL,
            "call": ALL, "failure": ALL, "failing_run": ALL,
        },
        excludes={
            "rank": "the shapes are those of layers",
            "place": "the contract says that `x` is a leaf; whether it requires grad is an axis of its own",
            "values": "the result holds no numbers",
            "number": "no number is an argument",
            "collection": "there is no collection",
            "tied": "two layers share a weight in each net",
            "named": "no module is named",
            "output": "only the loss gets the output",
            "follower": "full backward hooks forbid layers that work in place",
            "passing": "the last layer is called by keyword, the others are not",
            "registered": "hooks of modules that are not in the model are not looked at",
            "layers": "each net has a norm, linear layers and a block",
            "hooks": "what they do is an axis of its own",
            "hooked": "hooks that watch are everywhere; where the others sit is drawn",
            "grad_mode": "the backward pass needs it switched on",
            "backward": "the function runs the passes itself",
        },
        own={
            "plan": PLANS,
            "x_is": ("data", "leaf"),
            "raised_in": ("model", "loss", "backward"),
        },
        pairs=[("raised_in", "failing_run")],
        impossible=[lambda call, plan: call != "once" and plan not in ASKED_AGAIN],
    ),
)  # fmt: skip
class TestChangedByHooks:
    """Write `changed_by_hooks(model, loss_fn, x)`. Return a list, in the order of `model.named_parameters()`: the names
    of the parameters whose gradient would be another one without the hooks of the model.

    - *The hooks of the model* are all hooks on its modules (itself included) and its parameters: forward pre-hooks,
      forward hooks, full backward pre-hooks, full backward hooks, tensor hooks, post-accumulate-grad hooks. What such a
      hook registers on an output is part of its effect; what `forward` itself registers is not, and hooks for all
      modules (`register_module_forward_hook`) are not.
    - *The gradient* is what `.grad` holds after `loss_fn(model(x)).backward()`, when it was `None` before. If the loss
      does not require grad, there is no backward pass. `None` is not a tensor of zeros.
    - Differences in the last digits do not count. Where hooks change a gradient, an entry differs by 5 percent or more,
      and by 2 percent of the largest entry or more, however small the gradient is.
    - Each pass starts with the buffers and modes that you find; a hook may change a mode. The model draws no random
      numbers and leaves `x` alone, `copy.deepcopy` can copy it, and `loss_fn` uses nothing of it but the output. `x` is
      a leaf. No parameter is empty, no gradient NaN.

    Afterwards all buffers, and `.grad` of each parameter and of `x`, are as they were. Each hook is there again, in its
    place, with its options, and its handle removes it.

    **Example.** Let `model = Sequential(Linear(1, 1), Linear(1, 1))` with all weights 1 and biases 0. After
    `model[0].weight.register_hook(lambda grad: 2 * grad)` and
    `model[1].register_forward_hook(lambda module, args, output: None)`, the result is `["0.weight"]` for
    `loss_fn = lambda out: out.sum()` and `x = ones(1, 1)`.
    """

    def draw(rng, dtype, plan, mode, frozen):
        gain, *words = rng.names(10)
        groups = words[:2]
        like = {"dtype": dtype}
        paths = [f"{group}.{word}" for group, word in zip([*groups, *groups, *groups], words[2:8])]
        order = rng.shuffled(paths)
        head, block, still, *plain = rng.shuffled(paths)
        order = [*(path for path in order if path != head), plain[0]]  # one is called twice
        small = plain[1]
        net = {
            "names": {"gain": gain},
            "gain": rng.tensor(3, low=0.5, high=1.5, **like),
            "stages": {
                path: [
                    rng.tensor(3, 3, low=-0.5, high=0.5, away=0.125, **like),
                    rng.tensor(3, low=-0.5, high=0.5, away=0.125, **like),
                ]
                for path in paths
            },
            "defined": [small, still, *rng.shuffled([path for path in paths if path not in (small, still)])],
            "order": order,
            "head": head,
            "block": [block, words[8]],
            "small": {small: 2.0**-40},
            "tied": rng.shuffled([plain[0], plain[2]]),
            "frozen": [still] if frozen == "part" else [],
            "training": mode != "eval",
        }
        hooks = [] if plan == "none" else [*watchers(rng, net), *changers(rng, net, plan)]
        net["hooks"] = rng.shuffled(hooks) if plan != "cancelling" else hooks
        x, up = rng.tensor(4, 3, **like), rng.tensor(4, 3, **like)
        loss = "linear" if plan == "adding" else rng.choice(list(LOSSES))
        return {
            "net": net,
            "x": x,
            "up": up,
            "loss": loss,
            "expected": changed(net, mode, loss, x, up),
        }

    def alive(net, mode, loss, x, up, plan):
        plain, hooked = (gradients_of(prepared_model(net, mode, hooks)[0], loss, x, up) for hooks in ([], net["hooks"]))
        some = plan not in ("none", "watching", "cancelling", "adding")
        differing = [name for name in plain if not clear_cut(plain[name], hooked[name], same=True)]
        if plan == "cancelling" and not changed(net, mode, loss, x, up, rtol=0.0):
            return False  # not even in the last digits
        return bool(differing) == some and all(clear_cut(plain[name], hooked[name], same=False) for name in differing)

    def probe(
        student, net, mode, loss, x, up, layout, grad, call, failure, failing_run, x_is, raised_in, plan,
    ):  # fmt: skip
        def loss_fn(out):
            return LOSSES[loss](out, up)

        def filled(model):
            return fill_grads(model) if grad == "filled" else model

        model, handles = prepared_model(net, mode, net["hooks"])
        given = laid_out(x, layout).requires_grad_(x_is == "leaf")
        if x_is == "leaf" and grad == "filled":
            given.grad = torch.full_like(given, 0.7)
        buffers = {name: buffer.clone() for name, buffer in model.named_buffers()}
        witness = Witness(model=filled(model), x=given)
        seen = {"names": student.changed_by_hooks(model, loss_fn, given), "changed": witness.changes()}
        if call != "once":
            other, more = (model, []) if call == "again" else prepared_model(net, mode, net["hooks"])
            witness = Witness(model=model, other=filled(other) if call == "in turn" else other, x=given)
            seen["second"] = student.changed_by_hooks(other, loss_fn, given)
            seen["changed by the second call"] = witness.changes()
            handles = [*handles, *more]

        boom = Failure(failure, failing_run)

        def strike(*args):
            boom.strike()

        def failing(out):
            if raised_in == "loss":
                boom.strike()
            return loss_fn(out)

        there = net["hooks"] or [["", "forward", {}, "watch", 1.0]]  # without any, no pass is needed
        watching = [[place, kind, options, "watch", 1.0] for place, kind, options, _, _ in there]
        broken, more = prepared_model(net, mode, watching, strike, raised_in)
        handles += more
        witness = Witness(model=filled(broken), x=given)
        seen["failure"] = boom.during(lambda: student.changed_by_hooks(broken, failing, given))
        seen["changed by failure"] = witness.changes()

        if call != "once":
            model.load_state_dict(buffers, strict=False)  # what became of them is told, and not again by gradients
            seen["acts"] = gradients_of(model, loss, given.detach(), up)
        for handle in handles:
            handle.remove()
        seen["left after remove"] = module_hooks(model) + module_hooks(broken)
        gone = seen["left after remove"] == 0  # else a hook is called without the options that went with its handle
        if call == "again":
            seen["without hooks"] = student.changed_by_hooks(model, loss_fn, given) if gone else "not asked"
        if plan != "none":
            return seen

        example = nn.Sequential(*(Linear(torch.ones(1, 1), torch.zeros(1)) for _ in range(2)))
        example[0].weight.register_hook(lambda grad: 2 * grad)
        example[1].register_forward_hook(lambda module, args, output: None)
        seen["example"] = student.changed_by_hooks(example, lambda out: out.sum(), torch.ones(1, 1))
        cut = nn.Sequential(*(Linear(torch.ones(1, 1), torch.zeros(1)) for _ in range(2)))
        cut[0].register_forward_hook(lambda module, args, output: output.detach())
        seen["cut"] = student.changed_by_hooks(cut, lambda out: 0 * out.sum(), torch.ones(1, 1))
        root = Linear(torch.ones(1, 1), torch.zeros(1))
        root.register_forward_pre_hook(lambda module, args: (3 * args[0],))
        seen["before the root"] = student.changed_by_hooks(root, lambda out: out.sum(), torch.ones(1, 1, 1))
        slope = nn.PReLU()
        slope.weight.register_hook(lambda grad: 2 * grad)
        seen["of a number"] = student.changed_by_hooks(slope, lambda out: out, torch.tensor(-2.0))
        more = Linear(torch.ones(1, 1), torch.zeros(1))
        more.extra = nn.Parameter(torch.ones(1))
        more.register_forward_hook(lambda module, args, output: output + module.extra)
        seen["more"] = student.changed_by_hooks(more, lambda out: out.sum(), torch.ones(1, 1))
        norms = [nn.BatchNorm1d(1), nn.BatchNorm1d(1)]
        for norm in norms:
            norm.register_forward_pre_hook(lambda module, args: (module.eval(), None)[1])
        deep = nn.Sequential(nn.Identity(), nn.Identity(), nn.Sequential(norms[1]))
        seen["of a mode"] = [
            student.changed_by_hooks(model, lambda out: (out**2).sum(), torch.tensor([[1.0], [3.0]]))
            for model in (norms[0], deep)
        ]
        watched = Linear(torch.ones(1, 1), torch.zeros(1))
        watched.register_forward_hook(lambda module, args, output: None)
        of_all = nn.modules.module.register_module_forward_hook(lambda module, args, output: 3 * output)
        try:
            seen["of all modules"] = student.changed_by_hooks(watched, lambda out: out.sum(), torch.ones(1, 1))
        finally:
            of_all.remove()
        third, row = torch.full((2, 2), 1 / 3), torch.tensor([[2.0, 1.0]])  # a third needs all its digits
        slight = Linear(third.double(), torch.zeros(2).double())
        slight.weight.register_hook(lambda grad: grad * grad.new_tensor([[1.0, 1.0], [1.0, 1.06]]))
        witness = Witness(model=slight)
        seen["slight"] = [
            student.changed_by_hooks(slight, lambda out, size=size: (size * out).sum(), row.double()) for size in SIZES
        ]
        seen["changed where it is slight"] = witness.changes()
        return seen

    mistakes = (
        Mistake(
            "module-hooks-left",
            told_by(left=of_kinds("pre", "forward", "backward pre", "backward")),
            "You miss what the hooks of modules change: they were still there in the pass without hooks. A deep copy "
            "of a model has them, too.",
            everywhere=True,
        ),
        Mistake(
            "parameter-hooks-missed",
            told_by(left=of_kinds("tensor", "accumulated")),
            "You miss what the hooks on parameters change. Either they were still there in the pass without hooks, or "
            "they were not there in the other one: a deep copy of a model does not have them.",
            everywhere=True,
        ),
        Mistake(
            "accumulated-missed",
            told_by(left=of_kinds("accumulated")),
            "You miss what post-accumulate-grad hooks change. Either they were still there in the pass without hooks "
            "(they sit in `_post_accumulate_grad_hooks`), or they never ran: `torch.autograd.grad` does not call them.",
            everywhere=True,
        ),
        Mistake(
            "backward-left",
            told_by(left=of_kinds("backward pre", "backward")),
            "You miss what backward hooks of modules change: they were still there in the pass without hooks. They sit "
            "in `_backward_pre_hooks` and `_backward_hooks`.",
            everywhere=True,
        ),
        Mistake(
            "pre-left",
            told_by(left=of_kinds("pre", "backward pre")),
            "You miss what pre-hooks of modules change: they were still there in the pass without hooks. They sit in "
            "`_forward_pre_hooks` and `_backward_pre_hooks`.",
            everywhere=True,
        ),
        Mistake(
            "model-itself-left",
            told_by(left=on_modules(lambda name: name == "")),
            "You miss what hooks on the model itself change: they were still there in the pass without hooks. "
            "`model.modules()` has the model, too; `model.children()` has it not.",
            everywhere=True,
        ),
        Mistake(
            "inner-modules-left",
            told_by(left=on_modules(lambda name: "." in name)),
            "You miss what hooks on modules inside of other modules change: they were still there in the pass without "
            "hooks. `model.modules()` has modules of every depth; `model.children()` has not.",
            everywhere=True,
        ),
        Mistake(
            "other-buffers",
            lambda seen, net, mode, loss, x, up, expected: any_of(
                told_by(passes=passes)(seen, net, mode, loss, x, up, expected) for passes in ((1, 2), (2, 1))
            ),
            "You name parameters that no hook changes. Your second pass began with other buffers or modes than you "
            "found: a layer in training mode changes buffers, and `train()` sets the mode of every part. Put them back "
            "in between.",
        ),
        Mistake(
            "last-digits",
            told_by(rtol=0.0),
            "You name a parameter whose gradient differs in the last digits only: two hooks cancel each other, up to "
            "rounding. Compare with a tolerance.",
        ),
        Mistake(
            "small-gradients",
            lambda seen, net, mode, loss, x, up, expected, plan: (
                seen["slight"][0].value == []  # there is one of about 1e-60
                if plan == "none"
                else told_by(rtol=1e-5, atol=1e-8)(seen, net, mode, loss, x, up, expected)
            ),
            "You miss a gradient that a hook multiplies, because it is small (about 1e-12). `torch.allclose` has an "
            "`atol` of 1e-8: give it one that goes by the largest entry of the gradient.",
            everywhere=True,
        ),
        Mistake(
            "none-is-not-zero",
            told_by(none_as_zero=True),
            "You miss parameters that get a gradient in one of the passes and none in the other: that is a difference.",
        ),
        Mistake(
            "old-grad",
            adds_to_old_gradients,
            "The list is wrong where `.grad` held something before: `backward()` adds to that. Set `.grad` to `None` "
            "before each pass, and put the old tensor back in the end.",
            everywhere=True,
        ),
    )

    def test_the_parameters_that_hooks_change_are_named(seen, expected):
        expect(seen["names"]).equals(expected)

    def test_a_second_call_says_the_same(seen, expected, call):
        if call != "once":
            expect(seen["second"]).equals(expected)

    def test_it_looks_anew_when_the_hooks_are_gone(seen, call):
        if call == "again" and seen["left after remove"].value == 0:  # else another check says so
            expect(Seen(seen["without hooks"].value, "the list when all hooks are removed")).equals([])

    def test_nothing_changes(seen, call):
        nothing_changed(seen["changed"])
        if call != "once":
            nothing_changed(seen["changed by the second call"], when="after a second call")

    def test_an_exception_comes_through_and_nothing_changes(seen, raised_in):
        came_through(seen["failure"], {"backward": "`backward()`"}.get(raised_in, f"the {raised_in}"))
        nothing_changed(seen["changed by failure"], when="after an exception")

    def test_the_hooks_act_as_before_and_their_handles_remove_them(seen, net, mode, loss, x, up, call):
        expected = {} if call == "once" else gradients_of(prepared_model(net, mode, net["hooks"])[0], loss, x, up)
        for name, gradient in expected.items():
            mine = Seen(seen["acts"][name].value, f"{name}.grad of a pass afterwards")
            if gradient is None:
                expect(mine).equals(None)
            else:
                expect(mine).close_to(gradient, rtol=1e-3, atol=1e-4)
        if seen["left after remove"].value != 0:
            refuse("a handle of the caller no longer removes its hook", Kind.HOOK_GONE)

    def test_a_change_of_some_percent_counts(seen, plan):
        if plan != "none":
            return
        for names, size in paired(seen["slight"], SIZES):
            path = f"the list for a hook that makes a smaller entry of four larger by 6 percent (the loss times {size})"
            expect(Seen(names.value, path)).equals(["weight"])
        nothing_changed(seen["changed where it is slight"])

    def test_no_gradient_is_not_one_of_zeros(seen, plan):
        if plan != "none":
            return
        path = "the list for a hook that detaches, where all gradients are 0 without it"
        expect(Seen(seen["cut"].value, path)).equals(["0.weight", "0.bias"])
        path = "the list for a hook without which a parameter has no gradient"
        expect(Seen(seen["more"].value, path)).equals(["extra"])

    def test_any_input_and_a_hook_before_the_model(seen, plan):
        if plan != "none":
            return
        path = "the list for a forward pre-hook on a model that is one layer, and an input of three dimensions"
        expect(Seen(seen["before the root"].value, path)).equals(["weight"])
        expect(Seen(seen["of a number"].value, "the list for an input without dimensions")).equals(["weight"])

    def test_each_pass_starts_in_the_modes_that_you_find(seen, plan):
        if plan == "none":
            path = "the lists for a BatchNorm in training mode with a forward pre-hook that calls `module.eval()`"
            expected = [["weight", "bias"], ["2.0.weight", "2.0.bias"]]
            expect(Seen(seen["of a mode"].value, path)).equals(expected)

    def test_hooks_for_all_modules_are_not_of_the_model(seen, plan):
        if plan == "none":
            path = "the list for a layer with a hook that watches, beside one for all modules that triples outputs"
            expect(Seen(seen["of all modules"].value, path)).equals([])

    def test_the_example_of_the_contract(seen, plan):
        if plan == "none":
            expect(Seen(seen["example"].value, "the list of the example")).equals(["0.weight"])


def watchers(rng: Rng, net: dict[str, Any]) -> list[Any]:
    """Hooks of each kind that only watch: on the model, on a block, on a layer, and on parameters."""
    plain = [path for path in net["order"] if path != net["block"][0]]
    hooks = []
    for place in ("", net["block"][0], rng.choice(plain)):
        for kind in ("pre", "forward", "backward pre", "backward"):
            hooks.append([place, kind, options_for(rng, kind), "watch", 1.0])
    for name in (net["names"]["gain"], f"{rng.choice(plain)}.weight", f"{rng.choice(plain)}.bias"):
        hooks += [[name, kind, {}, "watch", 1.0] for kind in ON_PARAMETERS]
    return hooks


def options_for(rng: Rng, kind: str) -> dict[str, bool]:
    """Options of a registration, as a kind of hook has them."""
    fit = {"pre": ["with_kwargs", "prepend"], "forward": ["with_kwargs", "always_call", "prepend"]}
    return {option: True for option in fit.get(kind, ["prepend"]) if rng.choice((True, False))}


def changers(rng: Rng, net: dict[str, Any], plan: str) -> list[Any]:
    """The hooks that change something, or would, were there no second one."""
    factor = rng.choice((-1.5, 2.0, 3.0))
    (small,) = net["small"]
    whole = [path for path in net["order"][1:] if path != small and path not in net["frozen"]]
    stage, pair = rng.choice(whole), rng.choice([path for path in whole if path != net["block"][0]])
    hooks: dict[str, list[Any]] = {
        "tensor": [
            [f"{small}.{rng.choice(('weight', 'bias'))}", "tensor", {}, "times", factor],
            [f"{pair}.bias", "tensor", {}, "times", 3.0],
        ],
        "tied": [[f"{rng.choice(net['tied'])}.weight", "tensor", {}, "times", factor]],
        "accumulated": [[f"{last_module(net)}.bias", "accumulated", {}, "times", -1.0]],
        "dropped": [[name, "accumulated", {}, "drop", 1.0] for name in (net["names"]["gain"], f"{pair}.bias")],
        "pre": [[stage, "pre", options_for(rng, "pre"), "times", factor]],
        "keyword": [[net["head"], "pre", {"with_kwargs": True}, "times", factor]],
        "forward": [[last_module(net), "forward", options_for(rng, "forward"), "times", factor]],
        "backward pre": [[stage, "backward pre", options_for(rng, "backward"), "times", factor]],
        "backward": [[stage, "backward", options_for(rng, "backward"), "times", factor]],
        "root": [["", "forward", options_for(rng, "forward"), "times", factor]],
        "cancelling": [
            [stage, "forward", {}, "times", 2.0], [stage, "forward", {}, "times", 0.5],
            [f"{pair}.weight", "tensor", {}, "times", 7.0], [f"{pair}.weight", "tensor", {}, "times", 1 / 7],
        ],
        "adding": [["", "forward", {}, "add", factor], [net["head"], "forward", {}, "add", factor]],
        "detaching": [[stage, "forward", {}, "detach", 1.0]],
        "detaching at the root": [["", "forward", {}, "detach", 1.0]],
        "planting": [[net["block"][0], "forward", {}, "plant", factor]],
    }  # fmt: skip
    asleep = [[f"{path}.bias", "tensor", {}, "times", factor] for path in net["frozen"]]
    return [*hooks.get(plan, ()), *asleep]
