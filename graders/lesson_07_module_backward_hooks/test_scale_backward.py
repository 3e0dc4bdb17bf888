"""Exercise 07-scale-backward."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from graders.authoring import (
    ALL,
    Circumstances,
    Mistake,
    Seen,
    Witness,
    beyond_float32,
    changes,
    close,
    exactly,
    exercise,
    expect,
    fill_grads,
    freeze_part,
    gradients,
    in_mode,
    laid_out,
    nothing_changed,
    paired,
    prepared,
    removed,
    snapshot,
)
from graders.lesson_07_module_backward_hooks.judging import (
    GAVE_OUT,
    ON_ALL_MODULES,
    ONE_NUMBER,
    SWITCHED_OFF,
    TOOK_BOTH,
    Scene,
    differ,
    differentiated_as,
    drawn_scene,
    near,
    others_work,
    sent,
    stretch,
    through_gate,
    times,
)
from graders.lesson_07_module_backward_hooks.shared import (
    Gate,
    callers_hooks,
    linear,
    listed,
    made,
    outputs,
    works_in_place,
)

INF, NAN = float("inf"), float("nan")
SIZES = (2.0**-60, 2.0**20)
INSIDE = {"chain": (3, 4), "fork": (2,)}
"""How often a gradient is scaled on its way back where each module inside scales it, too."""
MORE_PASSES = (0.0, -1.0, 0.25, 2.0, 2.0**14)
"""By what the gradients of the caller are multiplied in some more passes."""


class Copy(nn.Module):
    """A module that returns a tensor of its own with the values of its input."""

    def forward(self, x: Tensor) -> Tensor:
        """The input; the gradient goes back as it is."""
        return x + 0


class Lone(nn.Module):
    """A module whose output is a tuple of one tensor."""

    def forward(self, x: Tensor) -> tuple[Tensor]:
        """Once the input."""
        return (1 * x,)


@exercise(
    "07-scale-backward",
    points=2,
    minutes=15,
    difficulty=2,
    title="Scale the backward pass from a module on",
    hints=(
        "The gradient has to be scaled before the module's own backward pass uses it. Which of the two kinds of hook "
        "runs at that moment?",
        "`register_full_backward_pre_hook(hook)`: the hook is called as `hook(module, grad_output)` and returns a "
        "tuple with one entry for each output.",
        "An output that the loss does not use has `None` in `grad_output`. Keep it as `None`.",
    ),
    why=(
        "The pre-hook changes `grad_output` before the module's own backward pass uses it, so its parameters get "
        "the scaled gradient, too. A forward hook that registers a tensor hook on each output would do as well."
    ),
    circumstances=Circumstances(
        covers={
            "dtype": ALL, "rank": ALL, "layout": ALL, "values": ALL, "place": ALL, "grad": ALL, "number": ALL,
            "mode": ("train", "eval"), "frozen": ALL, "output": ("tensor", "tuple"), "hooks": ALL,
            "call": ("in turn",), "grad_mode": ALL, "backward": ALL,
        },
        excludes={
            "collection": "there is no collection",
            "tied": "the shares of several modules in the gradient of one parameter are not told apart",
            "named": "the function gets the module itself",
            "follower": "the contract says that nothing works in place there",
            "passing": "it is about what arrives at the outputs, however the inputs came",
            "registered": "the function gets the module itself",
            "layers": "the hook is the same for all; four modules of our own are an axis",
            "hooked": "hooks sit on the module and on its parameters at once",
            "failure": "the function calls nothing of the caller",
        },
        own={"kind": ("linear", "chain", "blend", "fork")},
        impossible=[
            lambda kind, rank: kind != "blend" and rank == 0,
            lambda kind, frozen: kind == "blend" and frozen == "part",
            lambda kind, output: (kind == "fork") != (output == "tuple"),
            # Beside a full backward hook, PyTorch calls tensor hooks of an unused output with None.
            lambda kind, hooks: kind == "fork" and hooks != "none",
        ],
    ),
)  # fmt: skip
class TestScaleBackward:
    """Write `scale_backward(module, s)`. `s` is a number. From now on, in every backward pass, the gradients that
    arrive at the outputs of `module` count `s` times: the gradients of its own parameters (and of the modules inside
    it) and all gradients that it sends further back are `s` times what they would be without your function (zeros when
    `s` is 0). Two calls of `scale_backward` multiply.

    Everything else stays as it is: the values of the forward pass (a -0.0 may become 0.0) and the gradients of the
    layers after the module.

    The module has one output or a plain tuple of outputs, and the loss may leave some of them unused. Each is a new
    tensor, not computed from another one, and nothing works in place on it. The inputs of the module may need no
    gradient. In one pass it may be called several times.

    Return a handle; `handle.remove()` restores the old behaviour, for calls of `module` that come later.

    **Example.** For `module = Linear(1, 1)` with weight 5 and bias 0, `scale_backward(module, 10.0)` and
    `x = tensor([[3.]], requires_grad=True)`, the call `module(x).sum().backward()` leaves `x.grad == tensor([[50.]])`
    and `module.weight.grad == tensor([[30.]])`, instead of 5 and 3.
    """

    def draw(rng, kind, dtype, rank, layout, values, number):
        # A number that float32 does not hold, so that a detour through float32 shows; never 1.
        return {
            "scene": drawn_scene(rng, kind, dtype, rank, layout, values),
            "s": beyond_float32(rng.number(number) * 1.287),
        }

    def alive(scene, kind, hooks, frozen, s):
        shares, params = sent(scene, kind, hooks, frozen)
        return all(differ(gradient, s * gradient) and differ(gradient, -gradient) for gradient in (*shares, *params))

    tolerance = (1e-4, 1e-4)

    def oracle(scene, kind, hooks, frozen, place, s):
        value = {**scene, "x": stretch(place) * scene["x"]}  # what the module gets in the passes from the leaf
        found = [sent(given, kind, hooks, frozen, *ups) for given in (scene, value) for ups in ((), scene["ups"])]
        scaled = [max(1.0, abs(s)) * gradient for found in found for gradients in found for gradient in gradients]
        at_x = [at_leaf(scene, kind, hooks, place, factor) for factor in (1, s, s / 2)]
        more = [
            at_leaf(scene, kind, hooks, place, s, scale * scene["ups"][0]) / max(1.0, scale) for scale in MORE_PASSES
        ]
        return at_x, more, scaled

    def probe(student, scene, kind, s, layout, place, grad, mode, frozen, hooks, grad_mode, backward):
        weights, x, b, k, side = (scene[name] for name in ("weights", "x", "b", "k", "side"))
        module = freeze_part(in_mode(made(kind, weights), mode), "nothing" if kind == "blend" else frozen)
        if grad == "filled":
            fill_grads(module)
        callers_hooks(module, hooks)
        leaf = prepared(x, layout=layout, place="parameter" if place == "parameter" else "leaf", grad=grad)
        ups, other, data = [laid_out(up, layout) for up in scene["ups"]], prepared(b), laid_out(x, layout)
        params = [p for p in module.parameters() if p.requires_grad]
        things = {"module": module, "x": leaf, "b": other, "gradients": ups}
        before = Witness(**things)
        with torch.set_grad_enabled(grad_mode == "on"):
            witness = Witness(**things)
            handle = student.scale_backward(module, s)
            seen: dict[str, Any] = {"changed": witness.changes(), "in place elsewhere": works_in_place()}

        def outs(x, b=other):
            return outputs(module, kind, x, b, k)

        def loss(up):
            t = 2 * leaf if place == "non-leaf" else leaf
            return (up * outs(t)[0]).sum() + (side * t).sum()

        inputs = [leaf, *([other] if kind == "blend" else [])]
        found = gradients(lambda: loss(ups[0]), [*inputs, *params], backward, at=params[-1] if params else None)
        seen |= {"inputs": found[: len(inputs)], "params": found[len(inputs) :], "out": snapshot(outs(leaf)[0])}
        seen["more"] = [gradients(lambda up=scale * ups[0]: loss(up), [leaf])[0] for scale in MORE_PASSES]

        # A neighbour that gets the same buffer as the output of the module, and a later layer.
        neighbour, later = torch.zeros_like(ups[0]).requires_grad_(), torch.ones_like(ups[0]).requires_grad_()
        apart = -neighbour
        torch.autograd.backward(outs(leaf)[0] + apart, grad_tensors=ups[0], inputs=[leaf, neighbour])
        seen["neighbour"] = neighbour.grad
        seen["later"], _ = gradients(lambda: (ups[0] * later * outs(leaf)[0]).sum(), [later, leaf])
        if kind == "fork":
            seen["both outputs"] = gradients(lambda: sum((u * o).sum() for u, o in zip(ups, outs(leaf))), [leaf])[0]
            seen["second output"] = gradients(lambda: (ups[1] * outs(leaf)[1]).sum(), [leaf])[0]
            seen["a tuple"] = isinstance(module(leaf), tuple)
        seen["params of data"] = gradients(lambda: (ups[0] * outs(data, b)[0]).sum(), params) if params else []
        with torch.no_grad():
            seen["out without grad mode"] = outs(data, b)[0]
        up = ups[0].clone().requires_grad_()
        (again,) = torch.autograd.grad(outs(leaf)[0], leaf, grad_outputs=up, create_graph=True)
        if again.requires_grad:
            seen["differentiated"] = torch.autograd.grad(again.sum(), up, allow_unused=True)[0]
        gate = Gate(weights[2])
        handles = [student.scale_backward(gate, s)]
        seen["gate"] = gradients(lambda: (3 * gate(leaf)).sum(), [gate.weight])[0]

        mixed = in_mode(made("chain", weights), "mixed")
        witness = Witness(mixed=mixed)
        handles.append(student.scale_backward(mixed, s))
        seen["changed in mixed modes"] = witness.changes()

        # Two modules of a class at a time, two hooks on one module, and the handles.
        twin = made(kind, weights)
        handles.append(student.scale_backward(twin, s - 1))
        (seen["beside another"],) = gradients(
            lambda: (ups[0] * (outs(leaf)[0] + outputs(twin, kind, leaf, other, k)[0])).sum(), [leaf]
        )
        more = student.scale_backward(module, 0.5)
        seen["scaled twice"] = gradients(lambda: loss(ups[0]), [leaf])[0]
        went = [removed(more)]
        seen["one removed"] = gradients(lambda: loss(ups[0]), [leaf])[0]
        went += [removed(each) for each in (handle, *handles)]
        seen["all removed"], *seen["params of all removed"] = gradients(lambda: loss(ups[0]), [leaf, *params])
        seen["in the end"] = before.changes()

        single, x = linear(torch.tensor([[5.0]]), torch.tensor([0.0])), torch.tensor([[3.0]], requires_grad=True)
        student.scale_backward(single, 10.0)  # nobody has to keep the handle
        seen |= {"example": [], "example again": []}
        for when in ("example", "example again"):
            single(x).sum().backward()
            seen[when] = [snapshot(x.grad), snapshot(single.weight.grad)]
        seen["two calls"] = gradients(lambda: (single(x) + single(2 * x)).sum(), [x, single.weight])
        seen["no limit"] = [
            listed(gradients(lambda up=up: (up * single(x)).sum(), [x, single.weight])) for up in (INF, NAN)
        ]
        seen["of other sizes"] = [gradients(lambda up=up: (up * single(x)).sum(), [x, single.weight]) for up in SIZES]
        (seen["example of data"],) = gradients(lambda: single(x.detach()).sum(), [single.weight])
        # One graph used twice; gradients that somebody keeps; a tuple of one; s = 1.
        once, copy, lone = single(x).sum(), Copy(), Lone()
        seen["one graph twice"] = [torch.autograd.grad(once, x, retain_graph=True)[0] for _ in range(2)]
        _kept_too = student.scale_backward(copy, 10.0), student.scale_backward(lone, 10.0)
        given = torch.ones(2, requires_grad=True)
        (kept,) = torch.autograd.grad(copy(given).sum(), given)
        torch.autograd.grad((2 * copy(given)).sum(), given)
        out = lone(given)
        seen |= {
            "kept": kept,
            "a tuple of one": isinstance(out, tuple) and len(out) == 1,
            "1 has remove()": removed(student.scale_backward(nn.Identity(), 1.0)),
        }
        strong = linear(torch.tensor([[5.0]]), torch.tensor([0.0]))
        _kept = student.scale_backward(strong, 1e6)
        seen["far from s"] = snapshot(strong(x / 9))
        late, x = linear(torch.tensor([[5.0]]), torch.tensor([0.0])), x.detach().requires_grad_()
        handle = student.scale_backward(late, 10.0)
        called_before = late(x).sum()
        seen["has_remove"] = all([*went, removed(handle)])
        (seen["called before remove"],) = gradients(lambda: called_before, [x])
        return seen

    mistakes = (
        ON_ALL_MODULES,
        Mistake(
            "too-late-for-weights",
            lambda seen, scene, kind, hooks, frozen, place, s: (
                below_is(seen, scene, kind, hooks, place, s) and params_are(seen, scene, kind, hooks, frozen, place, 1)
            ),
            "What flows further back is scaled, but the module's own weights are not: a full backward hook changes "
            "`grad_input`, and the weights do not use that. Scale `grad_output`, in a full backward pre-hook.",
        ),
        Mistake(
            "not-like-grad-output",
            raises=("invalid number of grad_", "changed the size of value", "len() of a 0-d tensor"),
            message="What a full backward pre-hook returns takes the place of `grad_output`: a tuple with one entry "
            "for each output, of the same shape, and `None` where it had `None`. A bare tensor is taken for a tuple of "
            "its rows.",
        ),
        Mistake(
            "changed-forward",
            lambda seen, scene, kind, hooks, s: close(seen["out"], s * plain_output(scene, kind, hooks)),
            "You scaled the output of the module itself. The values of the forward pass have to stay; only the "
            "gradients are scaled.",
        ),
        Mistake(
            "forgot-return",
            lambda seen, scene, kind, hooks, frozen, place: (
                below_is(seen, scene, kind, hooks, place, 1)
                and (params_are(seen, scene, kind, hooks, frozen, place, 1) or not len(seen["params"]))
                and changes(seen["changed"], "hook-left *")
                and not changes(seen["changed"], "hook-left module.*")
                and close(seen["beside another"], sent(scene, kind, hooks)[0][0] + sent(scene, kind, "none")[0][0])
                and close(seen["example"][0], 5.0)
                and (kind != "fork" or close(seen["second output"], two_outputs(scene, kind, hooks, 0, 1)))
            ),
            "Nothing was scaled. A hook that returns `None` keeps the gradients as they are: return a tuple with the "
            "scaled ones.",
        ),
        Mistake(
            "parameter-grads",
            lambda seen, scene, kind, hooks, frozen, place, s: (
                below_is(seen, scene, kind, hooks, place, 1)
                and (
                    params_are(seen, scene, kind, hooks, frozen, place, s)
                    or (not len(seen["params"]) and not changes(seen["changed"], "hook-left module"))
                )
            ),
            "You scaled the gradients of the module's own parameters only. What the module sends further back has to "
            "be scaled, too.",
        ),
        Mistake(
            "scaled-twice",
            lambda seen, scene, kind, hooks, place, s: (
                s != 0
                and below_is(seen, scene, kind, hooks, place, s * s)
                and close(seen["more"][3], at_leaf(scene, kind, hooks, place, s * s, MORE_PASSES[3] * scene["ups"][0]))
            ),
            "The gradient behind the module is scaled twice. What you return from the pre-hook is what the module "
            "computes `grad_input` from; the pre-hook alone is enough.",
        ),
        Mistake(
            "scaled-inside",
            lambda seen, scene, kind, hooks, place, s: (
                kind in INSIDE and any(below_is(seen, scene, kind, hooks, place, s**n) for n in INSIDE[kind])
            ),
            "The gradient behind a module with others inside is scaled several times: you scale at each of these, too. "
            "Scale once, where the gradient arrives at `module` itself.",
        ),
        Mistake(
            "in-place-leak",
            lambda seen, scene, s: close(seen["neighbour"], -s * scene["ups"][0]),
            raises=("refers to a single memory location", "a leaf Variable that requires grad is being used in an in-"),
        ),
        Mistake(
            "scaled-none",
            raises="NoneType",
            message="`None` stands where there is no gradient: in `grad_output` for an output that the loss does not "
            "use, in `grad_input` for an input that needs none, and in a tensor hook when its tensor took no part in "
            "the pass. `None` cannot be multiplied: leave it as it is.",
        ),
        Mistake(
            "only-with-input-gradients",
            lambda seen: (
                close(seen["example of data"], torch.tensor([[3.0]]))
                and close(seen["example again"], [torch.tensor([[100.0]]), torch.tensor([[60.0]])])
            ),
            "When no input of the module requires grad, nothing is scaled, and the parameters get gradients all the "
            "same. Ask each output whether it requires grad, not the inputs.",
        ),
        Mistake(
            "first-output-only",
            lambda seen, scene, kind, hooks, frozen, place, s: (
                kind == "fork"
                and below_is(seen, scene, kind, hooks, place, s)
                and close(seen["both outputs"], two_outputs(scene, kind, hooks, s, 1))
            ),
            "You scaled the gradient of the first output only. `grad_output` has one entry for each output: scale all "
            "that are tensors.",
        ),
        Mistake(
            "tuple-left-alone",
            lambda seen, scene, kind, hooks, place: (
                kind == "fork"
                and below_is(seen, scene, kind, hooks, place, 1)
                and close(seen["second output"], two_outputs(scene, kind, hooks, 0, 1))
                and close(seen["both outputs"], two_outputs(scene, kind, hooks, 1, 1))
                and close(seen["example"][0], 50.0)
            ),
            "Where the module returns a tuple, nothing is scaled. Scale what arrives at each output in it.",
        ),
        Mistake(
            "only-the-first-pass",
            lambda seen: close(seen["example"][0], 50.0) and close(seen["example again"][0], 55.0),
            GAVE_OUT.format(done="scaled"),
        ),
        Mistake(
            "took-both-hooks",
            lambda seen, scene, kind, hooks, place, s: (
                below_is(seen, scene, kind, hooks, place, s)
                and close(seen["one removed"], at_leaf(scene, kind, hooks, place, 1))
                and close(seen["example again"][0], 100.0)
            ),
            TOOK_BOTH.format(done="scaled"),
        ),
        Mistake(
            "one-number-for-all",
            lambda seen, scene, kind, hooks, place, s: (
                below_is(seen, scene, kind, hooks, place, s)
                and close(
                    seen["beside another"],
                    (s - 1) * (sent(scene, kind, hooks)[0][0] + sent(scene, kind, "none")[0][0]),
                )
            ),
            ONE_NUMBER.format(done="scaled"),
        ),
        Mistake(
            "switched-off",
            lambda seen: close(seen["called before remove"], 5.0) and close(seen["example again"][0], 100.0),
            SWITCHED_OFF.format(done="scaled"),
        ),
        Mistake(
            "gave-up-at-none",
            lambda seen, scene, kind, hooks, s: (
                kind == "fork"
                and close(seen["both outputs"], two_outputs(scene, kind, hooks, s, s))
                and close(seen["second output"], two_outputs(scene, kind, hooks, 0, 1))
            ),
            "Where the loss does not use the first output, the gradient of the second one is not scaled. `None` in "
            "`grad_output` stays as it is, and the others are scaled all the same.",
        ),
        Mistake(
            "hook-without-grad",
            raises="cannot register a hook on a tensor that doesn't require gradient",
            message="An output requires no grad under `torch.no_grad()`, or when neither the inputs nor the parameters "
            "of the module do. Such a tensor takes no hook, and nothing arrives at it: leave it alone.",
        ),
        Mistake(
            "none-for-zero",
            lambda seen, s: s == 0 and any(gradient.value is None for gradient in seen["params"]),
            "Where `s` is 0, the parameters get no gradient at all. They are to get zeros: `None` says that nothing "
            "arrives.",
        ),
    )

    def test_its_own_parameters_and_what_flows_further_back_are_scaled(seen, scene, kind, hooks, frozen, place, s):
        near(seen["inputs"][0], "x.grad", at_leaf(scene, kind, hooks, place, s))
        if kind == "blend":
            near(seen["inputs"][1], "b.grad", s * sent(scene, kind, hooks)[0][1])
        value = {**scene, "x": stretch(place) * scene["x"]}
        for mine, gradient in paired(seen["params"], sent(value, kind, hooks, frozen)[1]):
            near(mine, "the gradient of a parameter", s * gradient)

    def test_every_pass_is_scaled(seen, scene, kind, hooks, place, s):
        for entry, scale in paired(seen["more"], MORE_PASSES):
            expected = at_leaf(scene, kind, hooks, place, s, scale * scene["ups"][0])
            near(entry, f"x.grad, with {scale} times the gradient", expected, max(1.0, scale))

    def test_a_first_layer_learns_from_the_scaled_gradient(seen, scene, kind, hooks, frozen, s):
        for mine, gradient in paired(seen["params of data"], sent(scene, kind, hooks, frozen)[1]):
            near(mine, "the gradient of a parameter, when no input needs one", s * gradient)
        path = "module.weight.grad of the example, when `x` needs no gradient"
        expect(Seen(seen["example of data"].value, path)).close_to(torch.tensor([[30.0]]))
        near(seen["gate"], "the gradient of a weight beside `x > 0`", s * through_gate(scene))

    def test_several_outputs_used_or_not(seen, scene, kind, hooks, s):
        if kind == "fork":
            expect(seen["a tuple"]).is_true("the module returned a tuple of two outputs before, and now it does not")
            for when, path, first in (
                ("both outputs", "x.grad, when the loss uses two outputs", s),
                ("second output", "x.grad, when the loss uses the second output only", 0),
            ):
                near(seen[when], path, two_outputs(scene, kind, hooks, first, s))

    def test_the_gradient_keeps_its_graph(seen, scene, kind, hooks, s):
        up = scene["ups"][0].clone().requires_grad_()
        (share, *_), _ = sent(scene, kind, hooks, "nothing", up, create_graph=True)
        differentiated_as(seen["differentiated"], s * torch.autograd.grad(share.sum(), up)[0])

    def test_several_modules_and_several_calls(seen, scene, kind, hooks, place, s):
        below_two = s * sent(scene, kind, hooks)[0][0] + (s - 1) * sent(scene, kind, "none")[0][0]
        near(seen["beside another"], "x.grad, below two modules", below_two)
        twice = at_leaf(scene, kind, hooks, place, s / 2)
        near(seen["scaled twice"], "x.grad, after a second call with 0.5", twice)

    def test_forward_and_later_layers_are_untouched(seen, scene, kind, hooks, s):
        out = plain_output(scene, kind, hooks)
        for when in ("out", "out without grad mode"):
            near(seen[when], "the output", out)
        far = Seen(seen["far from s"].value, "the output 5 / 3, with s = 1e6")
        expect(far).close_to(torch.tensor([[5 / 3]]), detached=False)
        expect(Seen(seen["neighbour"].value, "the gradient of a neighbour")).close_to(-scene["ups"][0])
        near(seen["later"], "the gradient of a later layer", scene["ups"][0] * out)
        for when in ("changed", "changed in mixed modes"):
            nothing_changed(seen[when], but=["hook-left *"])
        others_work(seen["in place elsewhere"])

    def test_the_handle_restores_the_old_behaviour(seen, scene, kind, hooks, frozen, place, s):
        before = Seen(seen["called before remove"].value, "x.grad of a call before remove(), with s = 10")
        expect(before).close_to(torch.tensor([[50.0]]))
        expect(seen["has_remove"]).is_true("the function returned nothing that has a remove() method")
        for when, path, factor in (
            ("one removed", "x.grad, after remove() on the second of two handles", s),
            ("all removed", "x.grad, after remove()", 1),
        ):
            near(seen[when], path, at_leaf(scene, kind, hooks, place, factor))
        value = {**scene, "x": stretch(place) * scene["x"]}
        for mine, gradient in paired(seen["params of all removed"], sent(value, kind, hooks, frozen)[1]):
            near(mine, "the gradient of a parameter, after remove()", gradient)
        nothing_changed(seen["in the end"], but=["grad-* *"], when="after remove()")

    def test_the_example_of_the_contract(seen):
        for when, passes, rights in (
            ("example", "of the example", (50.0, 30.0)),
            ("example again", "of the example, after a second pass", (100.0, 60.0)),
            ("two calls", "of the example, with `module(x) + module(2 * x)`", (150.0, 90.0)),
        ):
            for mine, (what, right) in paired(seen[when], zip(("x.grad", "module.weight.grad"), rights)):
                expect(Seen(mine.value, f"{what} {passes}")).close_to(torch.tensor([[right]]))
        for found, limit in paired(seen["no limit"], (INF, NAN)):
            path = f"x.grad and module.weight.grad of the example, with a gradient of {limit}"
            expect(Seen(found.value, path)).equals(f"[[[{limit}]], [[{limit}]]]")
        for found in exactly(2, seen["one graph twice"]):
            expect(Seen(found.value, "x.grad of each of two passes through one graph")).close_to(torch.tensor([[50.0]]))
        tens = Seen(seen["kept"].value, "a gradient that the caller keeps, after another pass")
        expect(tens).close_to(torch.full((2,), 10.0))
        expect(seen["a tuple of one"]).is_true("a tuple of one output is no tuple of one any more")
        expect(seen["1 has remove()"]).is_true("for s = 1 the function returned nothing that has a remove() method")
        for found, size in paired(seen["of other sizes"], SIZES):
            for mine, (what, right) in paired(found, (("x.grad", 50.0), ("module.weight.grad", 30.0))):
                path = f"{what} of the example, with a gradient of {size}"
                expect(Seen(mine.value, path)).close_to(torch.tensor([[right * size]]), atol=0)


def at_leaf(scene: Scene, kind: str, hooks: str, place: str, s: float, up: Tensor | None = None) -> Tensor:
    """What arrives at the leaf: the module's share, `s` times, and that of the other use."""
    ups = () if up is None else (up,)
    (share, *_), _ = sent({**scene, "x": stretch(place) * scene["x"]}, kind, hooks, "nothing", *ups)
    return stretch(place) * (s * share + scene["side"])


def two_outputs(scene: Scene, kind: str, hooks: str, first: float, second: float) -> Tensor:
    """What is sent to x when the gradients at both outputs are multiplied by these numbers."""
    ups = (factor * up for factor, up in zip((first, second), scene["ups"]))
    return sent(scene, kind, hooks, "nothing", *ups)[0][0]


def plain_output(scene: Scene, kind: str, hooks: str) -> Tensor:
    """The first output; a hook of the caller may double it."""
    out = outputs(made(kind, scene["weights"]), kind, scene["x"], scene["b"], scene["k"])[0]
    return times(hooks) * out.detach()


def below_is(seen: Seen, scene: Scene, kind: str, hooks: str, place: str, s: float) -> bool:
    """Whether the module's share arrived at the leaf `s` times."""
    return close(seen["inputs"][0], at_leaf(scene, kind, hooks, place, s))


def params_are(seen: Seen, scene: Scene, kind: str, hooks: str, frozen: str, place: str, s: float) -> bool:
    """Whether there are parameters, and each has its gradient `s` times."""
    _, expected = sent({**scene, "x": stretch(place) * scene["x"]}, kind, hooks, frozen)
    return bool(expected) and close(seen["params"], [s * gradient for gradient in expected])
