"""Lesson 10. Explaining predictions."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from graders.box.probing import Boom, expecting_boom, module_hooks, snapshot
from graders.core.conditions import no_hook_left
from graders.core.exercise import Mistake, exercise
from graders.core.expect import Seen, close, expect
from graders.nets import draw_shapes, shapes_net

# The net of this lesson: convolutions and activations at several levels, global average pooling, a linear classifier.


class Block(nn.Module):
    """Modules in a ModuleList, one after the other."""

    def __init__(self, parts: list[nn.Module]) -> None:
        """A block of `parts`."""
        super().__init__()
        self.parts = nn.ModuleList(parts)

    def forward(self, x: Tensor) -> Tensor:
        """In the order of the list."""
        for part in self.parts:
            x = part(x)
        return x


class TinyNet(nn.Module):
    """Steps 0 and 1 are children, 2 and 3 are in a custom block, the others in a Sequential.

    With `net["skip"]`, what enters step 1 is also added to what leaves it.
    """

    def __init__(self, net: dict[str, Any]) -> None:
        """`net` as `draw_net` makes it."""
        super().__init__()
        made = [step_module(net, index) for index in range(len(net["steps"]))]
        head = nn.Linear(net["head"].shape[1], net["head"].shape[0], bias=False)
        head.load_state_dict({"weight": net["head"]})
        groups = {"first": made[0], "second": made[1], "block": Block(made[2:4]), "head": head}
        if made[4:]:
            groups["rest"] = nn.Sequential(*made[4:])
        for group in net["order"]:
            if group in groups:
                self.add_module(net["names"][group], groups[group])
        self.names, self.fails, self.steps, self.skip = net["names"], False, made, net["skip"]

    def forward(self, x: Tensor) -> Tensor:
        """[B, 2, H, W] to logits [B, classes]."""
        for group in ("first", "second", "block", "rest"):
            if hasattr(self, self.names[group]):
                given, x = x, self.get_submodule(self.names[group])(x)
                if self.skip and group == "second":
                    x = x + given
        logits = self.get_submodule(self.names["head"])(x.mean((2, 3)))
        if self.fails:
            raise Boom
        return logits


def step_module(net: dict[str, Any], index: int) -> nn.Module:
    """The module of one step."""
    weight = net["weights"][index]
    if weight is None:
        return nn.Tanh() if net["steps"][index] == "tanh" else nn.ReLU(inplace=net["inplace"])
    stride = net["strides"][index]
    made = nn.Conv2d(weight.shape[1], weight.shape[0], 3, stride=stride, padding=1, bias=False)
    made.load_state_dict({"weight": weight})
    return made


def draw_net(
    rng: Any, steps: str, classes: int, width: int, stride: int, inplace: bool = False, skip: bool = False
) -> dict[str, Any]:
    """The data of a TinyNet: `steps` such as "conv relu conv relu"; the first convolution takes 2 channels."""
    names = steps.split()
    convolutions = [index for index, name in enumerate(names) if name == "conv"]
    groups = ["first", "second", "block", "rest", "head"]
    return {
        "steps": names,
        "inplace": inplace,
        "skip": skip,
        "weights": [
            rng.tensor(width, width if index else 2, 3, 3, low=-0.5, high=0.625, away=0.125) if name == "conv" else None
            for index, name in enumerate(names)
        ],
        "strides": [stride if index == convolutions[0] else 1 for index in range(len(names))],
        "head": rng.tensor(classes, width, low=-2, high=2),
        "names": dict(zip(groups, rng.names(len(groups)))),
        "order": rng.shuffled(groups),
    }


# What a probe notes beside the result.


def same(first: Tensor | None, second: Tensor | None) -> bool:
    """Whether both are None, or equal tensors."""
    if first is None or second is None:
        return first is second
    return torch.equal(first, second)


def prepare(net: dict[str, Any], x: Tensor, train: bool, held: bool, frozen: bool = False) -> tuple[TinyNet, Tensor]:
    """A model with hooks of its caller, and an input; with `held`, both already have gradients.

    One module is in the other mode than the rest. With `frozen`, one parameter does not require grad.
    """
    model = TinyNet(net).train(train)
    model.steps[1].train(not train)
    if frozen:
        model.steps[2].requires_grad_(False)
    model.register_forward_hook(lambda module, args, output: None)
    model.steps[0].register_forward_hook(lambda module, args, output: None)
    x = x.clone()
    if held:
        x.requires_grad_().grad = torch.full_like(x, 7)
        for parameter in list(model.parameters())[::2]:
            parameter.grad = torch.full_like(parameter, 7)
    return model, x


def observe(model: TinyNet, x: Tensor, call: Callable[[], Any]) -> dict[str, Any]:
    """The result of `call()`, and what it did to the model and to x."""
    hooks, plain, x_before, x_grad = module_hooks(model), plain_gradient(model, x), snapshot(x), snapshot(x.grad)
    wanted, grads = x.requires_grad, [snapshot(p.grad) for p in model.parameters()]
    parameters = [(snapshot(p), p.requires_grad) for p in model.parameters()]
    modes = [module.training for module in model.modules()]
    result = call()
    return {
        "result": result,
        "hooks": module_hooks(model) - hooks,
        "grads_kept": all(same(p.grad, old) for p, old in zip(model.parameters(), grads)),
        "parameters_kept": all(
            p.requires_grad is needed and same(p, old) for p, (old, needed) in zip(model.parameters(), parameters)
        ),
        "x_kept": torch.equal(x.detach(), x_before) and x.requires_grad is wanted and same(x.grad, x_grad),
        "modes_kept": [module.training for module in model.modules()] == modes,
        "works_as_before": torch.equal(plain_gradient(model, x), plain),
    }


def plain_gradient(model: nn.Module, x: Tensor) -> Tensor:
    """The gradient of the model's output with respect to x; it changes nothing."""
    x = x.detach().clone().requires_grad_()
    return torch.autograd.grad(model(x).square().sum(), x)[0]


def observe_failure(model: TinyNet, x: Tensor, call: Callable[[], Any]) -> dict[str, Any]:
    """What is left when the model raises at the end of forward."""
    hooks, plain, seen = module_hooks(model), plain_gradient(model, x), {}
    model.fails = True
    with expecting_boom(seen):
        call()
    model.fails = False
    return {
        **seen,
        "hooks_after_exception": module_hooks(model) - hooks,
        "works_after_exception": torch.equal(plain_gradient(model, x), plain),
    }


# Expected values: the same net as functions, in float64, with autograd.grad.


class ClampGrad(torch.autograd.Function):
    """The identity, whose backward pass replaces negative gradients by 0."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:  # type: ignore[override]
        return grad.clamp(min=0)


class DeconvReLU(torch.autograd.Function):
    """ReLU, whose backward pass clamps the gradient and forgets where the input was negative."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.clamp(min=0)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:  # type: ignore[override]
        return grad.clamp(min=0)


clamp_grad = ClampGrad.apply
deconv_relu = DeconvReLU.apply


def run(
    net: dict[str, Any],
    x: Tensor,
    guided: Iterable[int] = (),
    whole: bool = False,
    relu: Callable[[Tensor], Tensor] = torch.relu,
) -> tuple[list[Tensor], Tensor]:
    """The outputs of all steps and the logits. Negative gradients that leave one of the steps `guided` become 0.

    With `whole`, also the part of the gradient that comes over the skip connection is clamped there.
    """
    outputs = []
    for index, name in enumerate(net["steps"]):
        given = x
        if index in guided:
            x = clamp_grad(x)
            given = x if whole else given
        if name == "conv":
            x = F.conv2d(x, net["weights"][index].double(), stride=net["strides"][index], padding=1)
        else:
            x = x.tanh() if name == "tanh" else relu(x)
        outputs.append(x)
        if net["skip"] and index == 1:
            x = x + given
    return outputs, x.mean((2, 3)) @ net["head"].double().T


def indices(net: dict[str, Any], *names: str) -> list[int]:
    """Which steps are of these kinds."""
    return [index for index, name in enumerate(net["steps"]) if name in names]


def score(logits: Tensor, target: int | str | Tensor) -> Tensor:
    """The number whose gradient is taken: of a class, of a class for each sample, or of the winners."""
    if isinstance(target, Tensor):
        return logits.gather(1, target[:, None]).sum()
    return logits.amax(1).sum() if target == "winner" else logits[:, target].sum()


def input_gradient(
    net: dict[str, Any],
    x: Tensor,
    target: Any,
    of: Callable[[Tensor], Tensor] = lambda logits: logits,
    **rules: Any,
) -> Tensor:
    """The gradient of the score with respect to x, float64; `of` may make probabilities of the logits."""
    x = x.detach().double().requires_grad_()
    _, logits = run(net, x, **rules)
    return torch.autograd.grad(score(of(logits), target), x)[0]


def apart(right: Tensor, others: Iterable[Tensor]) -> bool:
    """Whether `right` is alive in every sample, and clearly differs from all others of its shape."""
    scale = right.abs().max()
    alive = right.abs().flatten(1).amax(1).min() > 0.02 * scale > 1e-3
    return bool(alive) and all(
        other.shape != right.shape or bool((right - other).abs().max() > 0.01 * scale) for other in others
    )


def matches(seen: Seen, expected: Iterator[Tensor]) -> bool:
    """Whether the results, one for each class, equal these tensors; the first that does not ends the comparison."""
    return all(close(seen["results"][index], value.float(), 1e-4, 1e-5) for index, value in enumerate(expected))


GRADS_TOUCHED = (
    "Your result is right, but the `.grad` of a parameter is not what it was before the call. `backward()` writes it, "
    "and `zero_grad()` erases what the caller had. `torch.autograd.grad` returns gradients and writes nothing."
)
INPUT_TOUCHED = (
    "Your result is right, but the caller's `x` is not as it was: its values, its `requires_grad` or its `.grad`. "
    "Work with a tensor of your own: `x.detach().clone().requires_grad_()`."
)
LEFT_AFTER_EXCEPTION = (
    "The model raised an exception, and your `remove()` was skipped. Put it into `finally`, or let a "
    "`contextlib.ExitStack` hold the handles."
)


def nothing_touched(seen: Seen) -> None:
    """The caller's gradients, input and modes are as they were."""
    expect(seen["grads_kept"]).is_true("the `.grad` of a parameter is not what it was before the call")
    expect(seen["parameters_kept"]).is_true("a parameter is not as it was: its values or its requires_grad")
    expect(seen["x_kept"]).is_true("the caller's x is not as it was: its values, its requires_grad or its .grad")
    expect(seen["modes_kept"]).is_true("a module is not in the mode (training or eval) in which it was before")


def nothing_left_after_exception(seen: Seen) -> None:
    """The exception came through, no hook is left, and the model computes what it did before."""
    expect(seen["exception"]).equals("propagated")
    no_hook_left(seen["hooks_after_exception"])
    expect(seen["works_after_exception"]).is_true(
        "after an exception in the model, its gradients are not what they were before"
    )


# 10-saliency-map


def saliencies(net: dict[str, Any], x: Tensor, classes: Tensor) -> dict[str, Tensor]:
    """What the contract asks for, and what its known misreadings give."""
    gradient = input_gradient(net, x, classes)
    sample = x.detach().double().requires_grad_()
    pairs = torch.autograd.grad(run(net, sample)[1][:, classes].sum(), sample)[0]
    return {
        "right": gradient.abs().amax(1),
        "mean-over-channels": gradient.abs().mean(1),
        "sum-over-channels": gradient.abs().sum(1),
        "forgot-abs": gradient.amax(1),
        "abs-after-max": gradient.amax(1).abs(),
        "indexed-all-pairs": pairs.abs().amax(1),
        "same-class-for-all": input_gradient(net, x, int(classes[0])).abs().amax(1),
        "last-class-for-all": input_gradient(net, x, int(classes[-1])).abs().amax(1),
        "wrong-target": input_gradient(net, x, "winner").abs().amax(1),
        "softmax-target": input_gradient(net, x, classes, lambda logits: logits.softmax(1)).abs().amax(1),
        "log-softmax-target": input_gradient(net, x, classes, lambda logits: logits.log_softmax(1)).abs().amax(1),
    }


def saliency_is(*names: str) -> Callable[..., bool]:
    """A recogniser of these misreadings; the right map is none, though a single sample's class may be the winner."""

    def recognised(seen: Seen, net: dict[str, Any], x: Tensor, classes: Tensor) -> bool:
        found = saliencies(net, x, classes)
        fits = {name for name, expected in found.items() if matches(seen, iter([expected]))}
        return "right" in names if "right" in fits else bool(fits & {*names})

    return recognised


@exercise(
    "10-saliency-map",
    points=1,
    title="Which pixels move the logit?",
    hints=(
        "`logits.gather(1, classes[:, None])` picks one logit from each row. The sum of the picked logits is a single "
        "number, and its gradient with respect to x holds the gradients of all samples: no sample depends on another.",
        "First the absolute value, then the maximum over the channels: `gradient.abs().amax(1)`.",
        "`torch.autograd.grad(total, x)` returns the gradient and writes no `.grad`. Make an input of your own with "
        "`x.detach().clone().requires_grad_()`, so that the caller's x stays as it is.",
    ),
    cases=(
        {"batch": 4, "held": False, "train": False},
        {"batch": 3, "held": True, "train": True},
        {"batch": 1, "held": False, "train": False},
    ),
)
class TestSaliencyMap:
    """Write `saliency_map(model, x, classes)`. `model(x)` turns images `x` of shape [B, C, H, W] into logits of shape
    [B, number of classes]; it treats each sample on its own. `classes` is an int64 tensor of shape [B]: one class for
    each sample. Return a detached tensor of shape [B, H, W]. Its entry at [b, i, j] is the largest absolute value, over
    the channels c, of the derivative of the logit [b, classes[b]] with respect to x[b, c, i, j].

    Nothing of the caller's is touched: the values, `requires_grad` and `.grad` of `x` and of the parameters, the mode
    (training or eval) of each module, and the hooks. `x` may or may not require grad, and so may each parameter.

    **Example.** Let `model` flatten its input and apply a linear layer without bias, with the weight
    `tensor([[1., -3., 2.], [0., 5., 0.]])`. For one image with three channels of one pixel and `classes = tensor([0])`
    the result is `tensor([[[3.]]])`, whatever the image.
    """

    def draw(rng, batch, held, train):
        net = draw_net(rng, "conv relu conv relu", classes=4, width=4, stride=1)
        classes = rng.shuffled([0, 1, 2, 3])[:batch]
        return {
            "net": net, "x": rng.tensor(batch, 2, 5, 6), "classes": torch.tensor(classes), "held": held, "train": train
        }  # fmt: skip

    def alive(net, x, classes):
        found = saliencies(net, x, classes)
        if len(classes) == 1:
            return apart(found["right"], [found["mean-over-channels"], found["softmax-target"]])
        others = [found["same-class-for-all"], found["last-class-for-all"]]
        return apart(found.pop("right"), found.values()) and apart(found["wrong-target"], others)

    def probe(student, net, x, classes, held, train):
        model, x = prepare(net, x, train, held, frozen=held)
        given = classes.clone()
        seen = observe(model, x, lambda: student.saliency_map(model, x, given))
        return {**seen, "results": [seen.pop("result")], "classes_kept": torch.equal(given, classes)}

    mistakes = (
        Mistake(
            "mean-over-channels",
            saliency_is("mean-over-channels", "sum-over-channels"),
            "You took the mean or the sum over the channels. The saliency of a pixel is the largest of its channels: "
            "`gradient.abs().amax(1)`.",
        ),
        Mistake(
            "forgot-abs",
            saliency_is("forgot-abs"),
            "You took the maximum of the signed gradient. A pixel with a large negative derivative matters as much as "
            "one with a large positive derivative: take `abs()` first.",
        ),
        Mistake(
            "abs-after-max",
            saliency_is("abs-after-max"),
            "You took the maximum first and the absolute value afterwards, so a large negative derivative lost against "
            "a small positive one. Take `abs()` first, then the maximum.",
        ),
        Mistake(
            "indexed-all-pairs",
            lambda seen, net, x, classes: len(classes) > 1 and saliency_is("indexed-all-pairs")(seen, net, x, classes),
            "`logits[:, classes]` takes every listed class for every sample. Pair rows with classes: "
            "`logits[torch.arange(B), classes]`, or `logits.gather(1, classes[:, None])`.",
        ),
        Mistake(
            "same-class-for-all",
            lambda seen, net, x, classes: (
                len(classes) > 1 and saliency_is("same-class-for-all", "last-class-for-all")(seen, net, x, classes)
            ),
            "You explained the same class for all samples. `classes` holds one class for each sample: the logit of "
            "sample b is `logits[b, classes[b]]`.",
        ),
        Mistake(
            "wrong-target",
            saliency_is("wrong-target"),
            "You explained the class with the largest logit. The task is to explain the classes in `classes`, which "
            "need not be the winners.",
        ),
        Mistake(
            "softmax-target",
            saliency_is("softmax-target", "log-softmax-target"),
            "You took the gradient of the probability, or of its logarithm. The softmax mixes all logits; the task "
            "asks for the logit.",
        ),
        Mistake(
            "polluted-grads",
            lambda seen, net, x, classes: (
                seen["grads_kept"].value is False and saliency_is("right")(seen, net, x, classes)
            ),
            GRADS_TOUCHED,
        ),
        Mistake(
            "input-touched",
            lambda seen, net, x, classes: (
                seen["grads_kept"].value is True
                and seen["x_kept"].value is False
                and saliency_is("right")(seen, net, x, classes)
            ),
            INPUT_TOUCHED,
        ),
    )

    def test_each_pixel_has_its_largest_absolute_derivative(seen, net, x, classes):
        expect(Seen(seen["results"][0].value, "the map")).close_to(
            saliencies(net, x, classes)["right"].float(), rtol=1e-4, atol=1e-5
        )

    def test_nothing_of_the_caller_is_touched(seen):
        nothing_touched(seen)
        expect(seen["classes_kept"]).is_true("the caller's classes are not what they were before the call")
        no_hook_left(seen["hooks"])


# 10-guided-backprop


def guided_rules(net: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """What the contract asks for, and its known misreadings, as arguments of `input_gradient`."""
    relus = indices(net, "relu")
    whole = {"whole-tensor": {"guided": relus, "whole": True}} if net["skip"] else {}
    return whole | {
        "right": {"guided": relus},
        "plain": {},
        "deconvnet": {"relu": deconv_relu},
        "convolutions": {"guided": indices(net, "conv")},
        "everywhere": {"guided": range(len(net["steps"]))},
        "activations": {"guided": indices(net, "relu", "tanh")},
        "children": {"guided": [index for index in relus if index < 2]},
        "sequentials": {"guided": [index for index in relus if index not in (2, 3)]},
        "last": {"guided": relus[-1:]},
    }


def guided_gradient(net: dict[str, Any], x: Tensor, target: int, name: str = "right") -> Tensor:
    """The gradient by one of `guided_rules`, or the ordinary one clamped at its very end."""
    if name == "clamped-the-result":
        return input_gradient(net, x, target).clamp(min=0)
    return input_gradient(net, x, target, **guided_rules(net)[name])


def guided_is(*names: str) -> Callable[..., bool]:
    """A recogniser of these misreadings, the same one for every class."""
    return lambda seen, net, x, classes: any(
        matches(seen, (guided_gradient(net, x, target, name) for target in range(classes)))
        for name in names
        if name != "whole-tensor" or net["skip"]
    )


def distinct(found: list[dict[str, Tensor]]) -> bool:
    """Whether the right result, for all classes together, is apart from every misreading and these from each other."""
    together = {name: torch.cat([one[name] for one in found], 1) for name in found[0]}
    right = together.pop("right")
    others = list(together.values())
    return apart(right, others) and all(
        bool((first - second).abs().max() > 1e-3)
        for index, first in enumerate(others)
        for second in others[:index]
        if first.shape == second.shape
    )


@exercise(
    "10-guided-backprop",
    points=2,
    title="Only positive gradients leave a ReLU",
    hints=(
        "The gradient that leaves a module towards its input is `grad_input` of a full backward hook. It has already "
        "passed the ReLU's own backward rule, which is 0 where the input was negative.",
        "`grad_input` is a tuple, and so is what the hook returns: `(grad_input[0].clamp(min=0),)`. Put such a hook on "
        "every module of `model.modules()` that is an `nn.ReLU`.",
        "Let `torch.autograd.grad` compute the gradient with respect to an input of your own, and remove the hooks in "
        "a `finally` block.",
    ),
    cases=(
        {"size": (6, 5), "stride": 1, "held": False, "train": False, "skip": False},
        {"size": (7, 6), "stride": 2, "held": True, "train": True, "skip": True},
    ),
)
class TestGuidedBackprop:
    """Write `guided_backprop(model, x, cls)`. `model(x)` turns images `x` of shape [B, C, H, W] into logits of shape
    [B, number of classes], and `cls` is an int. Return the gradient of the sum over b of the logits [b, cls] with
    respect to `x`, as a detached tensor of the shape of `x`, with one change in the backward pass: at every module of
    class `nn.ReLU`, wherever it is in the model, negative values in the gradient that leaves the module towards its
    input are replaced by 0. The ReLU's own rule, 0 where its input was not positive, stays in force. All other modules
    pass gradients as they always do, `nn.Tanh` for example, and so do skip connections.

    No ReLU works in place, and each is called once. Nothing of the caller's is touched: the values, `requires_grad`
    and `.grad` of `x` and of the parameters, the mode (training or eval) of each module. Afterwards the model computes
    ordinary gradients again, hooks that were there before stay, and none of yours is left. This holds even when the
    model raises; the exception comes through. `x` may or may not require grad, and so may each parameter.

    **Example.** Let `model` be a ReLU followed by `nn.Flatten()` and a linear layer without bias, with the weight
    `tensor([[2., -3., 4.]])`. For one image with the pixels 1, 1 and -1 the ordinary gradient of logit 0 is 2, -3
    and 0. The result is 2, 0 and 0.
    """

    def draw(rng, size, stride, held, train, skip):
        net = draw_net(rng, "conv relu conv relu conv tanh conv relu", classes=3, width=4, stride=stride, skip=skip)
        return {"net": net, "x": rng.tensor(2, 2, *size), "classes": 3, "held": held, "train": train}

    def alive(net, x, classes):
        names = [*guided_rules(net), "clamped-the-result"]
        return distinct([{n: guided_gradient(net, x, target, n) for n in names} for target in range(classes)])

    def probe(student, net, x, classes, held, train):
        model, x = prepare(net, x, train, held, frozen=held)
        model.steps[3].register_full_backward_hook(lambda module, grad_input, grad_output: None)
        during = []
        model.register_forward_pre_hook(lambda module, args: during.append(module_hooks(model)))
        before = module_hooks(model)
        seen = observe(model, x, lambda: [student.guided_backprop(model, x, target) for target in range(classes)])
        failure = observe_failure(model, x, lambda: student.guided_backprop(model, x, 0))
        return {
            **seen, **failure, "results": seen.pop("result"), "hooked": max(during) > before,
        }  # fmt: skip

    mistakes = (
        Mistake(
            "no-guidance",
            lambda seen, net, x, classes: seen["hooked"].value is False and guided_is("plain")(seen, net, x, classes),
            "This is the ordinary gradient: no clamp took effect. Register a full backward hook on every ReLU, and do "
            "so before the forward pass; a hook that comes later is not called.",
        ),
        Mistake(
            "forgot-return",
            lambda seen, net, x, classes: seen["hooked"].value is True and guided_is("plain")(seen, net, x, classes),
            "There were hooks in the forward pass, yet this is the ordinary gradient. A hook changes a gradient only "
            "by what it returns: `return (grad_input[0].clamp(min=0),)`.",
        ),
        Mistake(
            "deconvnet",
            guided_is("deconvnet"),
            "This is the rule of deconvnets: you clamped `grad_output` and ignored the ReLU's own mask, so gradient "
            "passes where the input was negative. Clamp `grad_input`, which has the mask in it.",
        ),
        Mistake(
            "wrong-layer",
            guided_is("convolutions", "everywhere", "activations"),
            "You clamped at other modules than the ReLUs. Choose the modules with `isinstance(module, nn.ReLU)`.",
        ),
        Mistake(
            "only-sequential-recursed",
            guided_is("children", "sequentials"),
            "Some ReLUs were not reached. They may be at any depth, also in custom blocks and in a `ModuleList`: "
            "`model.modules()` visits every level.",
        ),
        Mistake(
            "clamped-whole-tensor",
            guided_is("whole-tensor"),
            "You clamped the whole gradient of the tensor that enters a ReLU. Other modules may use that tensor, too, "
            "as in a skip connection, and their share stays as it is. Clamp `grad_input` of the ReLU.",
        ),
        Mistake(
            "clamped-the-result",
            guided_is("clamped-the-result"),
            "You clamped the finished gradient of x. The clamp belongs to every ReLU on the way, so that what is set "
            "to 0 there does not flow on.",
        ),
        Mistake(
            "bare-tensor",
            raises="invalid number of grad_input",
            message="A full backward hook returns a tuple with one entry for each input, not a bare tensor: "
            "`(grad_input[0].clamp(min=0),)`.",
        ),
        Mistake(
            "polluted-grads",
            lambda seen, net, x, classes: (
                seen["grads_kept"].value is False and guided_is("right")(seen, net, x, classes)
            ),
            GRADS_TOUCHED,
        ),
        Mistake(
            "input-touched",
            lambda seen, net, x, classes: (
                seen["grads_kept"].value is True
                and seen["x_kept"].value is False
                and guided_is("right")(seen, net, x, classes)
            ),
            INPUT_TOUCHED,
        ),
        Mistake("hook-left-behind", lambda seen: seen["hooks"].value > 0),
        Mistake(
            "hook-left-after-exception",
            lambda seen: seen["hooks"].value == 0 and seen["hooks_after_exception"].value > 0,
            LEFT_AFTER_EXCEPTION,
        ),
    )

    def test_negative_gradients_are_0_behind_every_relu(seen, net, x, classes):
        for target in range(classes):
            expect(Seen(seen["results"][target].value, f"the gradient for class {target}")).close_to(
                guided_gradient(net, x, target).float(), rtol=1e-4, atol=1e-5
            )

    def test_nothing_of_the_caller_is_touched(seen):
        nothing_touched(seen)

    def test_the_model_computes_ordinary_gradients_afterwards(seen):
        no_hook_left(seen["hooks"])
        expect(seen["works_as_before"]).is_true("after the call, the model's gradients are not what they were before")

    def test_nothing_is_left_when_the_model_raises(seen):
        nothing_left_after_exception(seen)


# 10-grad-cam


def cams(net: dict[str, Any], x: Tensor, target: int, layer: int, **rules: Any) -> dict[str, Tensor]:
    """What the contract asks for, and what its known misreadings give; float64 [B, h, w]."""
    outputs, logits = run(net, x.double().requires_grad_(), **rules)
    values, before = outputs[layer], outputs[layer - 1]

    def gradient(total: Tensor, tensor: Tensor) -> Tensor:
        return torch.autograd.grad(total, tensor, retain_graph=True)[0]

    grad = gradient(score(logits, target), values)
    values = values.detach()

    def weighted(weights: Tensor) -> Tensor:
        return (weights * values).sum(1)

    alpha = grad.mean((2, 3), keepdim=True)
    right = weighted(alpha).relu()
    spatial, count = grad.shape[2] * grad.shape[3], len(x)
    top = right.amax((1, 2), keepdim=True).clamp(min=1e-12)
    entering = gradient(score(logits, target), before)
    return {
        "right": right,
        "forgot-relu": weighted(alpha),
        "not-pooled": weighted(grad).relu(),
        "sum-instead-of-mean": right * spatial,
        "softmax-target": weighted(
            gradient(score(logits.softmax(1), target), outputs[layer]).mean((2, 3), keepdim=True)
        ).relu(),
        "log-softmax-target": weighted(
            gradient(score(logits.log_softmax(1), target), outputs[layer]).mean((2, 3), keepdim=True)
        ).relu(),
        "batch-mean": right / count,
        "mixed-batch": weighted(alpha.mean(0, keepdim=True)).relu(),
        "summed-batch": weighted(alpha.sum(0, keepdim=True)).relu(),
        "first-sample": weighted(alpha[:1]).relu(),
        "grad-input-not-output": weighted(entering.mean((2, 3), keepdim=True)).relu(),
        "wrong-target": weighted(
            gradient(score(logits, "winner"), outputs[layer]).mean((2, 3), keepdim=True)
        ).relu(),
        "relu-on-weights": weighted(alpha.relu()),
        "relu-on-weights-and-sum": weighted(alpha.relu()).relu(),
        "scaled": right / top,
        "scaled-together": right / right.max().clamp(min=1e-12),
    }  # fmt: skip


def cam_is(*names: str) -> Callable[..., bool]:
    """A recogniser of these misreadings, the same one for every class."""
    return lambda seen, net, x, classes, layer, kind: (
        kind != "drawings"
        and any(matches(seen, (cams(net, x, target, layer)[name] for target in range(classes))) for name in names)
    )


def gap_cam(net: dict[str, Any], x: Tensor, target: int) -> Tensor:
    """The closed form for a layer that is followed by global average pooling and a linear layer: W[c, k] / (hw)."""
    values = run(net, x.double())[0][-1]
    weights = net["head"][target].double() / (values.shape[2] * values.shape[3])
    return torch.einsum("k,bkhw->bhw", weights, values).relu()


DRAWINGS = 36
"""How many drawings of shapes one pointing game takes."""


@functools.lru_cache(maxsize=32)
def reference_hits(seed: int) -> tuple[int, int]:
    """Hits of a Grad-CAM by plain autograd.grad on the net of shapes, and the number of drawings."""
    model, (images, labels, boxes) = shapes_net(), draw_shapes(DRAWINGS, seed)
    values = model.features(images)
    logits = model.fc(values.mean((2, 3)))
    (grad,) = torch.autograd.grad(logits.gather(1, labels[:, None]).sum(), values)
    cam = (grad.mean((2, 3), keepdim=True) * values).sum(1).relu().detach()
    return sum(hits(cam, boxes, images.shape[2:])), len(images)


def peaks(cam: Tensor, size: Iterable[int], **options: Any) -> tuple[Tensor, Tensor, Tensor]:
    """Row and column of the first largest pixel of each upsampled map, and its value."""
    options = options or {"mode": "bilinear", "align_corners": False}
    large = F.interpolate(cam.double()[:, None], size=tuple(size), **options)[:, 0]
    top, place = large.flatten(1).max(1).values, large.flatten(1).argmax(1)
    return place // large.shape[2], place % large.shape[2], top


def hits(cam: Tensor, boxes: Tensor, size: Iterable[int]) -> list[bool]:
    """Which maps point into their box."""
    y, x, top = peaks(cam, size)
    x0, y0, x1, y1 = boxes.T
    found: list[bool] = ((x0 <= x) & (x < x1) & (y0 <= y) & (y < y1) & (top > 0)).tolist()
    return found


def learners_hits(seen: Seen, seed: int) -> int | None:
    """Hits of the learner's maps, which are listed by class; None when their shape is wrong."""
    images, labels, boxes = draw_shapes(DRAWINGS, seed)
    total = 0
    for target in range(3):
        cam, mine = seen["results"][target].tensor, labels == target
        if cam is None or cam.shape != (int(mine.sum()), 16, 16):
            return None
        total += sum(hits(cam, boxes[mine], images.shape[2:]))
    return total


@exercise(
    "10-grad-cam",
    points=3,
    title="Grad-CAM: where in the image?",
    hints=(
        "Catch the layer's output A in a forward hook and keep it as it is, with its graph. Then "
        "`torch.autograd.grad(logits[:, cls].sum(), A)` gives the gradient at A.",
        "The weight of a channel is the mean of its gradient over space only: `grad.mean((2, 3), keepdim=True)`. Every "
        "sample keeps weights of its own.",
        "Multiply the weights with A, sum over the channels, and take the ReLU last. Detach the result. No scaling.",
    ),
    cases=({"kind": "gap"}, {"kind": "inner"}, {"kind": "in-place"}, {"kind": "drawings"}),
)
class TestGradCam:
    """Write `grad_cam(model, layer, x, cls)`. `model(x)` turns images `x` of shape [B, C, H, W] into logits of shape
    [B, number of classes]; it treats each sample on its own. `layer` is a module somewhere in `model`, which calls it
    once; its output A has the shape [B, K, h, w]. `cls` is an int. The parameters require grad; `x` may or may not.

    For each sample b and channel k, the weight alpha[b, k] is the mean over the h · w positions of the derivative of
    the logit [b, cls] with respect to A[b, k]. Return the sum over the channels k of alpha[b, k] · A[b, k], with
    negative values replaced by 0: a detached tensor of shape [B, h, w], not scaled in any way.

    The layer itself may work in place, as `nn.ReLU(inplace=True)` does. Nothing after it overwrites its output.
    Nothing of the caller's is touched: the values, `requires_grad` and `.grad` of `x` and of the parameters, the mode
    (training or eval) of each module. Afterwards the model computes what it did before, hooks that were there before
    stay, and none of yours is left. This holds even when the model raises; the exception comes through.

    On drawings of circles, squares and triangles your maps have to point at the shape as often as those of a Grad-CAM
    by plain autograd do; a difference of one drawing is allowed.

    **Example.** Let the layer's output be two channels of 1 by 2 pixels, `[[1., 3.]]` and `[[2., 0.]]`. The model takes
    the mean of each channel, and logit 0 is 2 times the first mean minus 4 times the second. The derivatives are 1 and
    -2 everywhere. The sum is `[[-3., 3.]]`, and the result is `tensor([[[0., 3.]]])`.
    """

    def draw(rng, kind):
        if kind == "drawings":
            return {"kind": kind, "seed": rng.integer(0, 2**31), "net": None, "x": None, "classes": 3, "layer": -1,
                    "held": False, "train": False}  # fmt: skip
        steps = "conv relu conv relu" + ("" if kind == "gap" else " conv tanh")
        net = draw_net(rng, steps, classes=3, width=4, stride=2 if kind == "gap" else 1, inplace=kind == "in-place")
        size = {"gap": (3, 2, 8, 10), "inner": (3, 2, 6, 4), "in-place": (2, 2, 4, 5)}[kind]
        return {
            "kind": kind, "net": net, "x": rng.tensor(*size), "classes": 3, "layer": 2 if kind == "inner" else 3,
            "held": kind == "inner", "train": kind == "in-place", "seed": None,
        }  # fmt: skip

    def alive(kind, seed, net, x, classes, layer):
        if kind == "drawings":
            found, count = reference_hits(seed)
            return 2 * found > count  # chance is less than one in ten
        found = [cams(net, x, target, layer) for target in range(classes)]
        skipped = {"relu-on-weights-and-sum"}
        if kind == "gap":  # all pixels of a channel have the same gradient, and all samples the same weights
            skipped |= {"not-pooled", "mixed-batch", "first-sample"}
        return distinct([{name: value for name, value in one.items() if name not in skipped} for one in found])

    def probe(student, kind, seed, net, x, classes, layer, held, train):
        if kind == "drawings":
            model, (images, labels, _) = shapes_net(), draw_shapes(DRAWINGS, seed)
            layer = model.features[-1][-1]
            made = [student.grad_cam(model, layer, images[labels == target], target) for target in range(3)]
            # Maps of the wrong size are of no interest, and may be too large to hand over.
            return {"results": [one if getattr(one, "ndim", 0) == 3 and one.shape[-1] == 16 else None for one in made]}
        model, x = prepare(net, x, train, held)
        seen = observe(
            model, x, lambda: [student.grad_cam(model, model.steps[layer], x, cls) for cls in range(classes)]
        )
        failure = observe_failure(model, x, lambda: student.grad_cam(model, model.steps[layer], x, 0))
        return {**seen, **failure, "results": seen.pop("result")}

    mistakes = (
        Mistake(
            "forgot-relu",
            cam_is("forgot-relu"),
            "Your map has negative values: the last ReLU is missing. Negative values speak for other classes; replace "
            "them by 0 after the sum over the channels.",
        ),
        Mistake(
            "not-pooled",
            lambda seen, net, x, classes, layer, kind: (
                kind != "gap" and cam_is("not-pooled")(seen, net, x, classes, layer, kind)
            ),
            "You multiplied A with the gradient pixel by pixel. In Grad-CAM a channel has one weight: average the "
            "gradient over height and width first.",
        ),
        Mistake(
            "sum-instead-of-mean",
            cam_is("sum-instead-of-mean"),
            "Your map is h · w times too large: you summed the gradient over space. The weight of a channel is its "
            "mean.",
        ),
        Mistake(
            "softmax-target",
            cam_is("softmax-target", "log-softmax-target"),
            "You took the gradient of the probability, or of its logarithm. The softmax mixes all logits, and other "
            "classes enter the map: use the logit.",
        ),
        Mistake(
            "batch-mean",
            cam_is("batch-mean"),
            "Your map is B times too small: you took the mean of the logits over the batch. Sum over the samples; then "
            "each sample has the gradient of its own logit.",
        ),
        Mistake(
            "mixed-batch",
            lambda seen, net, x, classes, layer, kind: (
                cam_is("summed-batch")(seen, net, x, classes, layer, kind)
                or (kind != "gap" and cam_is("mixed-batch", "first-sample")(seen, net, x, classes, layer, kind))
            ),
            "All samples got the same weights: you reduced the gradient over the batch as well, or used those of one "
            "sample. Average over height and width only, `grad.mean((2, 3), keepdim=True)`.",
        ),
        Mistake(
            "grad-input-not-output",
            cam_is("grad-input-not-output"),
            "You used the gradient at the layer's input, `grad_input`. The weights come from the gradient at its "
            "output, A.",
        ),
        Mistake(
            "wrong-target",
            cam_is("wrong-target"),
            "You explained the class with the largest logit. The task is to explain `cls`, which need not be the "
            "winner.",
        ),
        Mistake(
            "relu-on-weights",
            cam_is("relu-on-weights", "relu-on-weights-and-sum"),
            "You applied the ReLU to the weights. Channels with a negative weight count, too: apply it to the sum over "
            "the channels.",
        ),
        Mistake(
            "scaled",
            cam_is("scaled", "scaled-together"),
            "You scaled the map to the range from 0 to 1. The contract asks for the values as they are; scale when you "
            "draw.",
        ),
        Mistake(
            "upsampled",
            lambda seen, net, x, kind: (
                kind == "gap" and (one := seen["results"][0].tensor) is not None and one.shape[-2:] == x.shape[-2:]
            ),
            "Your map has the size of the image. Return it in the size of the layer's output, [B, h, w].",
        ),
        Mistake(
            "full-hook-and-in-place",
            raises="being modified inplace",
            message="A full backward hook cannot stand on a layer that works in place. Catch the output in a forward "
            "hook instead, and take `torch.autograd.grad` with respect to it.",
        ),
        Mistake(
            "polluted-grads",
            lambda seen, net, x, classes, layer, kind: (
                seen["grads_kept"].value is False and cam_is("right")(seen, net, x, classes, layer, kind)
            ),
            GRADS_TOUCHED,
        ),
        Mistake(
            "input-touched",
            lambda seen, net, x, classes, layer, kind: (
                seen["grads_kept"].value is True
                and seen["x_kept"].value is False
                and cam_is("right")(seen, net, x, classes, layer, kind)
            ),
            INPUT_TOUCHED,
        ),
        Mistake("hook-left-behind", lambda seen: seen["hooks"].value > 0),
        Mistake(
            "hook-left-after-exception",
            lambda seen: seen["hooks"].value == 0 and seen["hooks_after_exception"].value > 0,
        ),
    )

    def test_the_map_is_the_weighted_sum_of_the_channels(seen, kind, net, x, classes, layer):
        if kind == "drawings":
            return
        for target in range(classes):
            expected = gap_cam(net, x, target) if kind == "gap" else cams(net, x, target, layer)["right"]
            expect(Seen(seen["results"][target].value, f"the map for class {target}")).close_to(
                expected.float(), rtol=1e-4, atol=1e-5
            )

    def test_on_drawings_it_points_at_the_shape_as_often_as_plain_autograd(seen, kind, seed):
        if kind != "drawings":
            return
        mine, (found, count) = learners_hits(seen, seed), reference_hits(seed)
        expect(Seen(mine is not None)).is_true("the map of a drawing should have 16 by 16 pixels")
        expect(Seen(abs((mine or 0) - found) <= 1)).is_true(
            f"on {count} drawings a Grad-CAM by plain autograd points at the shape {found} times, yours {mine} times"
        )

    def test_nothing_of_the_caller_is_touched(seen, kind):
        if kind != "drawings":
            nothing_touched(seen)
            expect(seen["works_as_before"]).is_true(
                "after the call, the model's gradients are not what they were before"
            )

    def test_no_hook_is_left(seen, kind):
        if kind != "drawings":
            no_hook_left(seen["hooks"])

    def test_nothing_is_left_when_the_model_raises(seen, kind):
        if kind != "drawings":
            nothing_left_after_exception(seen)


# 10-guided-grad-cam


def guided_cams(net: dict[str, Any], x: Tensor, target: int, layer: int) -> dict[str, Tensor]:
    """What the contract asks for, and what its known misreadings give."""
    relus = indices(net, "relu")
    guided, plain = input_gradient(net, x, target, guided=relus), input_gradient(net, x, target)
    found = cams(net, x, target, layer)
    cam, shared = found["right"], cams(net, x, target, layer, guided=relus)["right"]

    def enlarged(cam: Tensor, **options: Any) -> Tensor:
        options = options or {"mode": "bilinear", "align_corners": False}
        return F.interpolate(cam[:, None], size=x.shape[2:], **options)

    return {
        "right": guided * enlarged(cam),
        "shared-pass": guided * enlarged(shared),
        "guided-only": guided,
        "cam-only": enlarged(cam).expand(x.shape),
        "nearest-upsampling": guided * enlarged(cam, mode="nearest"),
        "align-corners": guided * enlarged(cam, mode="bilinear", align_corners=True),
        "no-guidance": plain * enlarged(cam),
        "forgot-relu": guided * enlarged(found["forgot-relu"]),
        "scaled": guided * enlarged(found["scaled"]),
    }


def guided_cam_is(*names: str, reshape: Callable[[Tensor], Tensor] = lambda tensor: tensor) -> Callable[..., bool]:
    """A recogniser of these misreadings, the same one for every class."""
    return lambda seen, net, x, classes, layer: any(
        matches(seen, (reshape(guided_cams(net, x, target, layer)[name]) for target in range(classes)))
        for name in names
    )


@exercise(
    "10-guided-grad-cam",
    points=3,
    title="Guided backprop times Grad-CAM",
    hints=(
        "Two forward and backward passes: one without any guided hook for the Grad-CAM, and one with them for guided "
        "backprop. Both are the functions that you have already written.",
        "`F.interpolate` wants four dimensions: `cam[:, None]` has the shape [B, 1, h, w]. Use "
        "`size=x.shape[2:], mode='bilinear', align_corners=False`.",
        "A tensor of shape [B, 1, H, W] times one of shape [B, C, H, W] broadcasts over the channels.",
    ),
    cases=(
        {"size": (8, 10), "layer": 2, "held": False, "train": False},
        {"size": (7, 9), "layer": 3, "held": True, "train": True},
    ),
)
class TestGuidedGradCam:
    """Write `guided_grad_cam(model, layer, x, cls)`. The arguments are those of `grad_cam`. No `nn.ReLU` works in
    place, and each is called once, as in `guided_backprop`.

    Return a detached tensor of the shape of `x`, [B, C, H, W]. It is the product of two things:

    - guided backprop for class `cls`, as in `guided_backprop(model, x, cls)`,
    - the Grad-CAM of `layer` for class `cls`, as in `grad_cam(model, layer, x, cls)`, not scaled, from an ordinary
      backward pass without the guided rule. It is upsampled to H by W with bilinear interpolation
      (`align_corners=False`) and multiplied with every channel.

    The ReLUs may come before and after `layer`. Nothing of the caller's is touched: the values, `requires_grad` and
    `.grad` of `x` and of the parameters, the mode (training or eval) of each module. Afterwards the model computes
    ordinary gradients again, hooks that were there before stay, and none of yours is left. This holds even when the
    model raises; the exception comes through.

    You may call functions that you wrote for earlier exercises.

    **Example.** For one image of one channel and 1 by 2 pixels let guided backprop be `[[2., 5.]]`, and let the
    Grad-CAM have a single pixel with the value 3. Upsampled it is 3 everywhere, and the result is
    `tensor([[[[6., 15.]]]])`.
    """

    def draw(rng, size, layer, held, train):
        net = draw_net(rng, "conv relu conv relu conv tanh conv relu", classes=3, width=4, stride=2)
        return {"net": net, "x": rng.tensor(2, 2, *size), "classes": 3, "layer": layer, "held": held, "train": train}

    def alive(net, x, classes, layer):
        return distinct([guided_cams(net, x, target, layer) for target in range(classes)])

    def probe(student, net, x, classes, layer, held, train):
        model, x = prepare(net, x, train, held)
        module = model.steps[layer]
        seen = observe(model, x, lambda: [student.guided_grad_cam(model, module, x, cls) for cls in range(classes)])
        failure = observe_failure(model, x, lambda: student.guided_grad_cam(model, module, x, 0))
        return {**seen, **failure, "results": seen.pop("result")}

    mistakes = (
        Mistake(
            "shared-pass",
            lambda seen, net, x, classes, layer: (
                seen["hooks"].value == 0 and guided_cam_is("shared-pass")(seen, net, x, classes, layer)
            ),
            "Your Grad-CAM comes from a backward pass in which the guided hooks were active. Compute it in a pass of "
            "its own, without them.",
        ),
        Mistake(
            "one-factor-missing",
            lambda seen, net, x, classes, layer: (
                guided_cam_is("guided-only", "cam-only")(seen, net, x, classes, layer)
                or guided_cam_is("cam-only", reshape=lambda tensor: tensor[:, 0])(seen, net, x, classes, layer)
                or guided_cam_is("cam-only", reshape=lambda tensor: tensor[:, :1])(seen, net, x, classes, layer)
            ),
            "This is only one of the two factors. Multiply the result of guided backprop with the upsampled Grad-CAM.",
        ),
        Mistake(
            "nearest-upsampling",
            guided_cam_is("nearest-upsampling"),
            "Your Grad-CAM was upsampled to blocks: `F.interpolate` uses the nearest pixel unless you say "
            "`mode='bilinear'`.",
        ),
        Mistake(
            "align-corners",
            guided_cam_is("align-corners"),
            "You upsampled with `align_corners=True`, which stretches the map to the centres of the corner pixels. The "
            "contract asks for `align_corners=False`.",
        ),
        Mistake(
            "no-guidance",
            guided_cam_is("no-guidance"),
            "You multiplied the Grad-CAM with the ordinary gradient. At every ReLU, negative gradients that leave it "
            "have to become 0, as in guided backprop.",
        ),
        Mistake(
            "forgot-relu",
            guided_cam_is("forgot-relu"),
            "Your Grad-CAM has negative values, and they turn the sign of guided backprop around. Apply the ReLU to "
            "the sum over the channels before you upsample.",
        ),
        Mistake(
            "scaled",
            guided_cam_is("scaled"),
            "You scaled the Grad-CAM to the range from 0 to 1. The contract asks for the product of the values as they "
            "are.",
        ),
        Mistake(
            "polluted-grads",
            lambda seen, net, x, classes, layer: (
                seen["grads_kept"].value is False and guided_cam_is("right")(seen, net, x, classes, layer)
            ),
            GRADS_TOUCHED,
        ),
        Mistake(
            "input-touched",
            lambda seen, net, x, classes, layer: (
                seen["grads_kept"].value is True
                and seen["x_kept"].value is False
                and guided_cam_is("right")(seen, net, x, classes, layer)
            ),
            INPUT_TOUCHED,
        ),
        Mistake("hook-left-behind", lambda seen: seen["hooks"].value > 0),
        Mistake(
            "hook-left-after-exception",
            lambda seen: seen["hooks"].value == 0 and seen["hooks_after_exception"].value > 0,
            LEFT_AFTER_EXCEPTION,
        ),
    )

    def test_the_result_is_guided_backprop_times_the_upsampled_cam(seen, net, x, classes, layer):
        for target in range(classes):
            expect(Seen(seen["results"][target].value, f"the result for class {target}")).close_to(
                guided_cams(net, x, target, layer)["right"].float(), rtol=1e-4, atol=1e-5
            )

    def test_nothing_of_the_caller_is_touched(seen):
        nothing_touched(seen)

    def test_the_model_computes_ordinary_gradients_afterwards(seen):
        no_hook_left(seen["hooks"])
        expect(seen["works_as_before"]).is_true("after the call, the model's gradients are not what they were before")

    def test_nothing_is_left_when_the_model_raises(seen):
        nothing_left_after_exception(seen)


# 10-pointing-game

PLACES = ("only", "first", "last", "right-of", "below", "zero", "far", "faint")
"""Where the box of a map is, seen from its peak. Other boxes are where a misreading finds the peak.

The map "zero" is 0 everywhere, "faint" has small values.
"""

MISREADINGS = (
    "swapped-axes",
    "swapped-axes, size",
    "swapped-axes, height",
    "swapped-axes, size and width",
    "no-upsampling",
    "nearest-upsampling",
    "align-corners",
)

EQUALS = ("tie", "other-tie", "plateau", "even")
"""Maps with equal peaks; the last is the same everywhere.

They are equal in any precision only where the size is a power of 2 times that of the map.
"""


def misread_peaks(cam: Tensor, size: tuple[int, int]) -> dict[str, tuple[Tensor, Tensor]]:
    """Row and column of each map's peak by each of `MISREADINGS`."""
    (y, x, _), (rows, columns, _) = peaks(cam, size), peaks(cam, cam.shape[1:])
    turned_y, turned_x, _ = peaks(cam, size[::-1])
    place, turned = y * size[1] + x, turned_y * size[0] + turned_x
    down, across = size[0] / cam.shape[1], size[1] / cam.shape[2]
    found = (
        (x, y),
        (turned_y, turned_x),
        (place // size[0], place % size[0]),
        (turned // size[1], turned % size[1]),
        (rows, columns),
        ((rows * down).long(), (columns * across).long()),
        peaks(cam, size, mode="bilinear", align_corners=True)[:2],
    )
    return dict(zip(MISREADINGS, found))


def placed_box(place: str, peak: tuple[int, int], size: tuple[int, int]) -> list[int]:
    """A box (x0, y0, x1, y1) around or beside the pixel `peak` = (y, x) of an image of `size` = (H, W)."""
    (y, x), (height, width) = peak, size
    left, top, right, bottom = max(x - 3, 0), max(y - 2, 0), min(x + 4, width), min(y + 3, height)
    boxes = {
        "first": (x, y, right, bottom),
        "last": (left, top, x + 1, y + 1),
        "right-of": (left, top, x, bottom),  # the peak is in the column x1, which is outside
        "below": (left, top, right, y),  # the peak is in the row y1, which is outside
        "zero": (0, 0, right, bottom),
        "far": (0, 0, 1, 1),
    }
    return list(boxes.get(place, (x, y, x + 1, y + 1)))


def variants_of_hits(cam: Tensor, boxes: Tensor, size: tuple[int, int]) -> dict[str, list[bool]]:
    """Which maps hit by the contract, and by its known misreadings. Behind a comma stands a variant of a misreading."""
    y, x, top = peaks(cam, size)
    x0, y0, x1, y1 = boxes.T
    lit = top > 0

    def inside(y: Tensor, x: Tensor) -> Tensor:
        return (x0 <= x) & (x < x1) & (y0 <= y) & (y < y1)

    found = {name: inside(*place) for name, place in misread_peaks(cam, size).items()} | {
        "closed-box": (x0 <= x) & (x <= x1) & (y0 <= y) & (y <= y1),
        "closed-box, x": (x0 <= x) & (x <= x1) & (y0 <= y) & (y < y1),
        "closed-box, y": (x0 <= x) & (x < x1) & (y0 <= y) & (y <= y1),
        "open-box": (x0 < x) & (x < x1) & (y0 < y) & (y < y1),
        "open-box, x": (x0 < x) & (x < x1) & (y0 <= y) & (y < y1),
        "open-box, y": (x0 <= x) & (x < x1) & (y0 < y) & (y < y1),
    }
    # Each also by somebody who does not look for zero maps. The pixel (0, 0) is outside of an open box anyway.
    unlit = {f"{name}, zeros": hit for name, hit in found.items() if (hit & ~lit).any()}
    found = {name: hit & lit for name, hit in found.items()}
    found |= unlit | {"right": inside(y, x) & lit, "zero-map-hit": inside(y, x)}
    return {name: value.tolist() for name, value in found.items()}


def hits_are(family: str) -> Callable[..., bool]:
    """A recogniser of a misreading in all its variants."""
    return lambda seen, cam, boxes, size: any(
        close(seen["alone"], [float(hit) for hit in hits])
        for name, hits in variants_of_hits(cam, boxes, size).items()
        if name.split(",")[0] == family
    )


@exercise(
    "10-pointing-game",
    points=2,
    title="A score for heat maps",
    hints=(
        "`F.interpolate(cam[:, None], size=size, mode='bilinear', align_corners=False)[:, 0]` has the shape [B, H, W]. "
        "`flatten(1).argmax(1)` gives one place for each map: its row y is `place // W`, its column x is `place % W`.",
        "The box is half open: x0 and y0 belong to it, x1 and y1 do not. x counts columns, y counts rows.",
        "`argmax` of a map that is 0 everywhere is 0, the pixel in the upper left corner. Such a map points nowhere: "
        "check that its maximum is larger than 0.",
    ),
    cases=(
        {"cells": (6, 4), "size": (24, 32)},
        {"cells": (5, 6), "size": (23, 16)},
        {"cells": (6, 8), "size": (24, 32)},
    ),
)
class TestPointingGame:
    """Write `pointing_game(cam, boxes, size)`. `cam` is a float32 tensor of shape [B, h, w] without negative values:
    one heat map for each of B images. `boxes` is an int64 tensor of shape [B, 4], whose rows are (x0, y0, x1, y1) in
    pixels of the image. `size` is the tuple (H, W): the size of all images in pixels, height first.

    Upsample each map to H by W pixels with bilinear interpolation, `align_corners=False`. Find its largest pixel: row
    y and column x. If several pixels are equally large, take the first one, reading row by row from the top and each
    row from the left, as `argmax` does. The map is a hit if `x0 <= x < x1` and `y0 <= y < y1`. A map that is 0
    everywhere is never a hit. Return the share of hits among the B maps, a Python float from 0 to 1. The arguments do
    not change.

    **Example.** For `cam = tensor([[[0., 8.]]])` and `size = (1, 4)` the upsampled map is `[[0., 2., 6., 8.]]`. Its
    largest pixel is y = 0, x = 3. With `boxes = tensor([[3, 0, 4, 1]])` the result is 1.0, and with
    `boxes = tensor([[0, 0, 3, 1]])` it is 0.0.
    """

    def draw(rng, cells, size):
        exact = size[0] % (2 * cells[0]) == 0
        maps, boxes = [], []
        for place in rng.shuffled(PLACES + MISREADINGS + (EQUALS if exact else ())):
            cell = (rng.integer(1, cells[0] - 2), rng.integer(1, cells[1] - 2))
            one = torch.zeros(*cells) if place in ("zero", *EQUALS) else rng.tensor(*cells, low=0, high=2, away=0)
            # Two equal peaks: the upper one is first in reading order, and further to the right.
            upper, lower = (1, rng.integer(2, cells[1] - 2)), (3, 1)
            if place in ("tie", "other-tie"):
                cell = upper if place == "tie" else lower
            if place == "even":
                one += 1
            elif place != "zero":
                one[cell] = 5
            if place == "plateau":
                one[cell[0], cell[1] + 1] = 5
            y, x = misread_peaks(one[None], size).get(place, peaks(one[None], size)[:2])
            boxes.append(placed_box(place, (int(y), int(x)), size))
            if place in ("tie", "other-tie"):
                one[upper] = one[lower] = 5
            maps.append(one * 2**-20 if place == "faint" else one)  # a power of 2 changes no digit
        return {"cam": torch.stack(maps), "boxes": torch.tensor(boxes), "size": size}

    def alive(cam, boxes, size):
        found = variants_of_hits(cam, boxes, size)
        right = found["right"]
        families: dict[tuple[bool, ...], set[str]] = {}
        for name, value in found.items():
            families.setdefault(tuple(value), set()).add(name.split(",")[0])
        large = F.interpolate(cam[:, None], size=size, mode="bilinear", align_corners=False).flatten(1)
        first, second = large.topk(2).values.T
        sharp = (first - second > 2e-4 * first) | (first == second)  # no peak is decided by rounding
        told_apart = all(len(names) == 1 for names in families.values())
        return 0 < sum(right) < len(right) and told_apart and bool(sharp.all())

    def probe(student, cam, boxes, size):
        given = (cam.clone(), boxes.clone())
        together = student.pointing_game(*given, size)
        alone = [student.pointing_game(cam[i : i + 1].clone(), boxes[i : i + 1].clone(), size) for i in range(len(cam))]
        return {
            "share": together, "alone": alone, "kept": torch.equal(given[0], cam) and torch.equal(given[1], boxes)
        }  # fmt: skip

    mistakes = (
        Mistake(
            "swapped-axes",
            hits_are("swapped-axes"),
            "You exchanged x and y, or H and W. `place // W` is the row, which is y, and `place % W` is the column, "
            "which is x. A box is (x0, y0, x1, y1); `size` is (H, W).",
        ),
        Mistake(
            "zero-map-hit",
            hits_are("zero-map-hit"),
            "A map that is 0 everywhere was counted as a hit. Zero heat points nowhere: `argmax` of such a map is just "
            "the first pixel. Check that the maximum is larger than 0.",
        ),
        Mistake(
            "no-upsampling",
            hits_are("no-upsampling"),
            "You looked for the peak in the small map. Boxes are in pixels of the image: upsample the map to `size` "
            "first.",
        ),
        Mistake(
            "nearest-upsampling",
            hits_are("nearest-upsampling"),
            "You upsampled to blocks, or multiplied the place in the small map by a factor. That gives the upper left "
            "corner of a block; the peak of the bilinear map is somewhere else. Say `mode='bilinear'`.",
        ),
        Mistake(
            "align-corners",
            hits_are("align-corners"),
            "You upsampled with `align_corners=True`, which shifts the peaks. The contract asks for "
            "`align_corners=False`.",
        ),
        Mistake(
            "closed-box",
            hits_are("closed-box"),
            "You counted x1 and y1 as part of the box. It is half open: `x0 <= x < x1` and `y0 <= y < y1`.",
        ),
        Mistake(
            "open-box",
            hits_are("open-box"),
            "You did not count x0 and y0 as part of the box. It is half open: `x0 <= x < x1` and `y0 <= y < y1`.",
        ),
        Mistake(
            "counted-hits",
            lambda seen, cam, boxes, size: (
                close(seen["share"], float(sum(variants_of_hits(cam, boxes, size)["right"])))
                and hits_are("right")(seen, cam, boxes, size)
            ),
            "You returned the number of hits. The task asks for their share: divide by the number of maps.",
        ),
        Mistake(
            "no-python-float",
            lambda seen, cam, boxes, size: (
                seen["share"].tensor is not None and hits_are("right")(seen, cam, boxes, size)
            ),
            "The value is right, but it is a tensor. Return a Python float: call `.item()`.",
        ),
    )

    def test_the_score_is_the_share_of_maps_whose_peak_is_in_the_box(seen, cam, boxes, size):
        right = variants_of_hits(cam, boxes, size)["right"]
        for index, hit in enumerate(right):
            expect(Seen(seen["alone"][index].value, f"the score of map {index} alone")).close_to(float(hit))
        expect(seen["share"]).close_to(sum(right) / len(right))

    def test_the_arguments_are_unchanged(seen):
        expect(seen["kept"]).is_true("the caller's maps or boxes are not what they were before the call")
