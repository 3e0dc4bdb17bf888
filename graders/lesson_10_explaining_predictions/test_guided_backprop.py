"""Exercise 10-guided-backprop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from graders.authoring import (
    ALL,
    CallersHooks,
    Circumstances,
    Mistake,
    Seen,
    exercise,
    expect,
    module_hooks,
)
from graders.lesson_10_explaining_predictions.judging import (
    GRADS_TOUCHED,
    INPUT_TOUCHED,
    TOLERANCE,
    distinct,
    draw_net,
    expect_map,
    grads_touched,
    in_another_mode,
    indices,
    input_gradient,
    input_touched,
    matches,
    nothing_left_after_exception,
    nothing_touched,
)
from graders.lesson_10_explaining_predictions.shared import observe, observe_failures, prepare


class DeconvReLU(torch.autograd.Function):
    """ReLU, whose backward pass clamps the gradient and forgets where the input was negative."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.clamp(min=0)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:  # type: ignore[override]
        return grad.clamp(min=0)


deconv_relu = DeconvReLU.apply


def guided_rules(net: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """What the contract asks for, and its known misreadings, as arguments of `input_gradient`."""
    relus, others = (
        indices(net, "relu"),
        [i for i in range(len(net["steps"])) if net["steps"][i] not in ("conv", "relu")],
    )
    whole = {"whole-tensor": {"guided": relus, "whole": True}} if net["skip"] else {}
    return whole | {
        "right": {"guided": relus},
        "plain": {},
        "deconvnet": {"relu": deconv_relu},
        "convolutions": {"guided": indices(net, "conv")},
        "everywhere": {"guided": range(len(net["steps"]))},
        "activations": {"guided": [*indices(net, "relu"), *others]},
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


class TwiceNamed(nn.Module):
    """A ReLU under two names, of which the second is used, and a gradient of -3."""

    def __init__(self) -> None:
        """One ReLU."""
        super().__init__()
        self.one = self.two = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        """Of images of one pixel, one logit."""
        return -3 * self.two(x).flatten(1)


@exercise(
    "10-guided-backprop",
    points=2,
    minutes=20,
    difficulty=2,
    title="Only positive gradients leave a ReLU",
    hints=(
        "The gradient that leaves a module towards its input is `grad_input` of a full backward hook. It has already "
        "passed the ReLU's own backward rule, which is 0 where the input was negative.",
        "`grad_input` is a tuple, and so is what the hook returns: `(grad_input[0].clamp(min=0),)`. Put such a hook on "
        "every module of `model.modules()` that is an `nn.ReLU`.",
        "Let `torch.autograd.grad` compute the gradient with respect to an input of your own, and remove the hooks in "
        "a `finally` block.",
    ),
    why=(
        "`grad_input` has passed the ReLU's own rule already, so with the clamp both rules apply, and the tuple that "
        "the hook returns takes its place. A full backward pre-hook that clamps `grad_output` would do as well, "
        "because it does not matter which of the two rules comes first."
    ),
    circumstances=Circumstances(
        covers={
            "dtype": ALL, "layout": ("contiguous", "transposed", "slice"), "values": ALL, "grad": ALL, "mode": ALL,
            "frozen": ALL, "hooks": ALL, "hooked": ("root", "named"), "failure": ALL,
        },
        excludes={
            "rank": "images have four dimensions",
            "place": "an axis of its own says what x is to autograd",
            "number": "it gets no number",
            "collection": "it gets no collection",
            "tied": "every layer has its own weight",
            "named": "no layer is named",
            "output": "logits are a tensor",
            "follower": "no ReLU works in place",
            "passing": "layers are called by position",
            "registered": "every layer is a part of the model",
            "layers": "the net has several",
            "call": "every probe calls it for several classes",
            "grad_mode": "a rule says that grad mode is on",
            "backward": "the function runs the pass by itself",
            "failing_run": "there is one run",
        },
        own={"given": ("plain", "requires grad", "non-leaf"),
             "others": ("tanh leaky", "gelu relu6", "functional pool"),
             "skip": (False, True)},
    ),
)  # fmt: skip
class TestGuidedBackprop:
    """Write `guided_backprop(model, x, cls)`. `model(x)` turns images `x` of shape [B, C, H, W] into logits of shape
    [B, number of classes], and `cls` is an int. Return the gradient of the sum over b of the logits [b, cls] with
    respect to `x`, with one change in the backward pass: at every `nn.ReLU` in the model, negative values in the
    gradient that leaves it towards its input are replaced by 0.

    The ReLU's own rule, 0 where its input was not positive, stays in force. All other modules pass gradients as they
    always do, `nn.Tanh` and `nn.MaxPool2d` for example, and so do functions such as `F.relu` and skip connections. `x`
    and each parameter may require grad or not. You may run the model more than once.

    No `nn.ReLU` works in place, and nothing overwrites its input or its output. Each is called once, as `relu(t)` and
    not by keyword. Hooks of others on a ReLU only watch.

    **Example.** Let `model` be a ReLU followed by `nn.Flatten()` and a linear layer without bias, with the weight
    `tensor([[2., -3., 4.]])`. For one image with the pixels 1, 1 and -1 the ordinary gradient of logit 0 is 2, -3
    and 0. The result is 2, 0 and 0.
    """

    def draw(rng, others, skip, dtype, values, mode, hooks, hooked):
        kinds = {"dtype": dtype, "values": values}
        net = draw_net(
            rng,
            f"conv relu conv relu conv {others} conv relu",
            classes=3,
            width=4,
            stride=2 if skip else 1,
            skip=skip,
            last="" if skip else "rest",  # then a ReLU is the last of all modules
            mode=mode,
            hooks=hooks,
            hooked=hooked,
            **kinds,
        )
        return {"net": net, "x": rng.tensor(2, 2, *((7, 6) if skip else (6, 5)), **kinds), "classes": 3}

    tolerance = TOLERANCE

    def oracle(net, x, classes):
        calls = [*((x, target) for target in range(classes)), (x / 2, 1)]
        return [guided_gradient(net, images, target) for images, target in calls]

    def alive(net, x, classes):
        names = [*guided_rules(net), "clamped-the-result"]
        return distinct([{n: guided_gradient(net, x, target, n) for n in names} for target in range(classes)])

    def probe(student, net, x, classes, frozen, layout, given, grad, mode, hooks, hooked, failure):
        model, x = prepare(
            net, x, layout=layout, given=given, grad=grad, mode=mode, frozen=frozen, hooks=hooks, hooked=hooked
        )
        CallersHooks("watching").on_module(model.steps[1], "ReLU", backward=True)
        during = []
        model.register_forward_pre_hook(lambda module, args: during.append(module_hooks(model)))
        before = module_hooks(model)
        seen = observe(model, x, lambda: [student.guided_backprop(model, x, target) for target in range(classes)])
        weight = torch.tensor([[2.0, -3.0, 4.0]])
        small = torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(3, 1, bias=False))
        small[2].weight.data.copy_(weight)
        example = student.guided_backprop(small, torch.tensor([[[[1.0, 1.0, -1.0]]]]), 0)
        at_zero = student.guided_backprop(small, torch.tensor([[[[0.0, 1.0, -0.0]]]]), 0)
        small.requires_grad_(False)[2].weight.mul_(2.0**-30)
        frozen_and_tiny = student.guided_backprop(small, torch.tensor([[[[1.0, 1.0, -1.0]]]]), 0)
        failed = observe_failures(model, x, failure, lambda: student.guided_backprop(model, x, 0))
        model.add_module(net["names"]["second"], torch.nn.ReLU())  # instead of the one that was there
        twice = student.guided_backprop(TwiceNamed(), torch.ones(1, 1, 1, 1), 0)
        within: list[Any] = []  # a call within a call
        model.strike = lambda: within.append(student.guided_backprop(small, torch.tensor([[[[1.0, 1.0, -1.0]]]]), 0))
        again = student.guided_backprop(model, x.flip(0) / 2, 1)
        hooked = max(during) > before
        return {
            **seen, **failed, "results": seen.pop("result"), "hooked": hooked, "again": again, "example": example,
            "at zero": at_zero, "frozen": frozen_and_tiny, "within": within, "twice named": twice,
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
            "another-mode",
            lambda seen, net, x, classes: matches(
                seen, (guided_gradient(net, x, target) * in_another_mode(net) for target in range(classes))
            ),
        ),
        Mistake(
            "polluted-grads",
            lambda seen, net, x, classes: grads_touched(seen) and guided_is("right")(seen, net, x, classes),
            GRADS_TOUCHED,
        ),
        Mistake(
            "input-touched",
            lambda seen, net, x, classes: input_touched(seen) and guided_is("right")(seen, net, x, classes),
            INPUT_TOUCHED,
        ),
    )

    def test_negative_gradients_are_0_behind_every_relu(seen, net, x, classes):
        for target in range(classes):
            result = Seen(seen["results"][target].value, f"the gradient for class {target}")
            expect_map(result, guided_gradient(net, x, target), x)

    def test_another_call_and_the_example_come_out(seen, net, x):
        expect_map(seen["again"], guided_gradient(net, x.flip(0) / 2, 1), x)
        expect(seen["example"]).close_to(torch.tensor([[[[2.0, 0.0, 0.0]]]]))
        where = "the gradient of a model that has its ReLU under two names"
        expect(Seen(seen["twice named"].value, where)).close_to(torch.zeros(1, 1, 1, 1))
        where = "the gradient of the pixels 0, 1 and -0 in the example"
        expect(Seen(seen["at zero"].value, where)).close_to(torch.zeros(1, 1, 1, 3))
        where = "the gradient in the example, with a frozen weight that is 2**30 times smaller,"
        tiny = torch.tensor([[[[2.0, 0.0, 0.0]]]]) * 2.0**-30
        expect(Seen(seen["frozen"].value, where)).close_to(tiny, atol=0)
        where = "the same gradient, computed while the model of another call runs,"
        expect(Seen(seen["within"][0].value, where)).close_to(tiny, atol=0)

    def test_nothing_of_the_caller_is_touched_and_gradients_are_ordinary_afterwards(seen):
        nothing_touched(seen)

    def test_an_exception_comes_through_and_leaves_nothing_behind(seen):
        nothing_left_after_exception(seen)
