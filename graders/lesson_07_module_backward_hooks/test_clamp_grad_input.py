"""Exercise 07-clamp-grad-input."""

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
from graders.lesson_07_module_backward_hooks.shared import Gate, callers_hooks, linear, made, outputs, works_in_place

TINY, INF = 2.0**-40, float("inf")
INPUTS = (0.0, 1e6, INF)
MORE_PASSES = (0.0, -1.0, 0.25, 2.0, 512.0)
"""By what the gradients of the caller are multiplied in some more passes."""


class Multiple(nn.Module):
    """A module whose first input is no tensor, and which remembers what it was."""

    got = "nothing"

    def forward(self, k: float, x: Tensor) -> Tensor:
        """`k` times the second one."""
        self.got = type(k).__name__
        return k * x


@exercise(
    "07-clamp-grad-input",
    points=2,
    minutes=15,
    difficulty=2,
    title="Clamp what a module sends back",
    hints=(
        "What a full backward hook returns replaces `grad_input`: a tuple with one entry for each input, "
        "in the same order.",
        "An entry may be `None`. It has to stay `None` in the tuple that you return: "
        "`tuple(g if g is None else ... for g in grad_input)`.",
        "A full backward pre-hook would be too early: it changes `grad_output`, from which the module's own parameters "
        "learn.",
    ),
    why=(
        "What a full backward hook returns takes the place of `grad_input`, and the module's own parameters have "
        "learned from the unclamped gradient by then. A forward pre-hook that passes each input through a "
        "`torch.autograd.Function` with a clamp in its `backward` would do as well."
    ),
    circumstances=Circumstances(
        covers={
            "dtype": ALL, "rank": ALL, "layout": ALL, "values": ALL, "place": ALL, "grad": ALL,
            "number": ("fraction", "large"), "mode": ALL, "frozen": ALL, "output": ("tensor", "tuple"),
            "hooks": ALL, "call": ("in turn",), "grad_mode": ALL, "backward": ALL,
        },
        excludes={
            "collection": "there is no collection",
            "tied": "the function looks at no parameter",
            "named": "the function gets the module itself",
            "follower": "the contract says that nothing works in place there",
            "passing": "the contract is about inputs that are passed by position; one more is passed by keyword",
            "registered": "the function gets the module itself",
            "layers": "the hook is the same for all; four modules of our own are an axis",
            "hooked": "hooks sit on the module and on its parameters at once",
            "failure": "the function calls nothing of the caller",
        },
        own={"kind": ("linear", "chain", "blend", "fork")},
        impossible=[
            lambda kind, rank: kind != "blend" and rank == 0,
            lambda kind, frozen: kind == "blend" and frozen == "part",
            lambda kind, mode: kind != "chain" and mode == "mixed",  # the others have one part, or none
            lambda kind, output: (kind == "fork") != (output == "tuple"),
        ],
    ),
)  # fmt: skip
class TestClampGradInput:
    """Write `clamp_grad_input(module, c)`. `c` is a number greater than 0. From now on, in every backward pass, each
    gradient that `module`, with the hooks that it has, sends to an input that is passed by position is clamped
    elementwise to [-c, c]; `nan` stays `nan`. What is sent to an input that is passed by keyword is up to you.

    Everything else stays as it is: the gradients of the module's own parameters (and of the modules inside it), the
    values of the forward pass (a -0.0 may become 0.0), and what comes to an input tensor from a use outside the module.
    Inputs may be numbers, and a pass in which no input needs a gradient works as before.

    Return a handle; `handle.remove()` restores the old behaviour, for calls of `module` that come later. The output of
    `module` is a tensor or a tuple of tensors, and nothing works in place on it or on the inputs.

    **Example.** For `module = Linear(1, 1)` with weight 5 and bias 0, `clamp_grad_input(module, 2.0)` and
    `x = tensor([[3.]], requires_grad=True)`, the call `module(x).sum().backward()` leaves `x.grad == tensor([[2.]])`
    (instead of 5) and `module.weight.grad == tensor([[3.]])` (as before).
    """

    def draw(rng, kind, dtype, rank, layout, values, number):
        return {
            "scene": drawn_scene(rng, kind, dtype, rank, layout, values),
            # A number that float32 does not hold, so that a detour through float32 shows.
            "c": beyond_float32((rng.uniform(0.5, 0.75) if number == "fraction" else rng.uniform(1.5, 2)) * 1.143),
        }

    def alive(scene, kind, c, hooks, frozen, place):
        shares, params = sent(scene, kind, hooks, frozen)
        up = scene["ups"][0]
        early, learned = sent(scene, kind, hooks, frozen, up.clamp(-c, c))
        both, _ = sent(scene, kind, hooks, frozen, *scene["ups"])
        below = at_leaf(scene, kind, hooks, place, None), at_leaf(scene, kind, hooks, place, c)
        return (
            all(bool((share.abs() > 1.1 * c).any()) for share in (*shares, *both))
            and (shares[0].numel() < 3 or bool((shares[0].abs() < 0.9 * c).any()))
            and (kind == "blend" or differ(early[0].clamp(-c, c), shares[0].clamp(-c, c)))
            and differ(*below)
            and differ(below[1], whole_clamped(scene, kind, hooks, place, c))
            and (not params or any(map(differ, params, learned)))
        )

    tolerance = (1e-4, 1e-4)

    def oracle(scene, kind, c, hooks, frozen, place):
        up = scene["ups"][0]
        passes = [at_leaf(scene, kind, hooks, place, bound, up) for bound in (c, c / 2, None)]
        shares, params = sent(scene, kind, hooks, frozen)
        both, _ = sent(scene, kind, hooks, frozen, *scene["ups"])
        _, of_leaf = sent({**scene, "x": stretch(place) * scene["x"]}, kind, hooks, frozen)
        more = [at_leaf(scene, kind, hooks, place, c, scale * up) / max(1.0, scale) for scale in MORE_PASSES]
        return [passes, more, [share.clamp(-c, c) for share in (*shares, *both)], params, of_leaf]

    def probe(student, scene, kind, c, layout, place, grad, mode, frozen, hooks, grad_mode, backward):
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
            handle = student.clamp_grad_input(module, c)
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

        # A neighbour gets the same buffer as the output of the module.
        neighbour = torch.zeros_like(ups[0]).requires_grad_()
        apart = -neighbour
        torch.autograd.backward(outs(leaf)[0] + apart, grad_tensors=ups[0], inputs=[leaf, neighbour])
        seen["neighbour"] = neighbour.grad
        if kind == "blend":
            seen["twice"] = gradients(lambda: (ups[0] * outs(leaf, leaf)[0]).sum(), [leaf])[0]
            seen["b alone"] = gradients(lambda: (ups[0] * outs(data)[0]).sum(), [other])[0]
        if kind == "fork":
            seen["both outputs"] = gradients(lambda: sum((u * o).sum() for u, o in zip(ups, outs(leaf))), [leaf])[0]
            seen["second output"] = gradients(lambda: (ups[1] * outs(leaf)[1]).sum(), [leaf])[0]
        seen["params of data"] = gradients(lambda: (ups[0] * outs(data, b)[0]).sum(), params) if params else []
        with torch.no_grad():
            seen["out without grad mode"] = outs(data, b)[0]
            seen["out of a leaf without grad mode"] = outs(leaf)[0]
        up = ups[0].clone().requires_grad_()
        (again,) = torch.autograd.grad(outs(leaf)[0], leaf, grad_outputs=up, create_graph=True)
        if again.requires_grad:
            seen["differentiated"] = torch.autograd.grad(again.sum(), up, allow_unused=True)[0]
        gate = Gate(weights[2])
        handles = [student.clamp_grad_input(gate, c)]
        seen["gate"] = gradients(lambda: (3 * gate(leaf)).sum(), [gate.weight])[0]
        seen["gate by keyword"] = gradients(lambda: (3 * gate(x=leaf)).sum(), [gate.weight])[0]

        # Two modules at a time, two hooks on one module, and the handles.
        tanh, z = nn.Tanh(), prepared(x / 4)
        handles.append(student.clamp_grad_input(tanh, 2 * c))
        seen["of another"], seen["beside another"] = gradients(
            lambda: (3 * c * tanh(z)).sum() + (ups[0] * outs(leaf)[0]).sum(), [z, leaf]
        )
        closer = student.clamp_grad_input(module, c / 2)
        seen["clamped twice"] = gradients(lambda: loss(ups[0]), [leaf])[0]
        went = [removed(closer)]
        seen["one removed"] = gradients(lambda: loss(ups[0]), [leaf])[0]
        went += [removed(each) for each in (handle, *handles)]
        seen["all removed"] = gradients(lambda: loss(ups[0]), [leaf])[0]
        seen["in the end"] = before.changes()

        single, x = linear(torch.tensor([[5.0]]), torch.tensor([0.0])), torch.tensor([[3.0]], requires_grad=True)
        student.clamp_grad_input(single, 2.0)  # nobody has to keep the handle
        seen |= {"example": [], "example again": []}
        for when in ("example", "example again"):
            single(x).sum().backward()
            seen[when] = [snapshot(x.grad), snapshot(single.weight.grad)]
        seen["two calls"] = gradients(lambda: (single(x) + single(2 * x)).sum(), [x, single.weight])
        (unknown,) = gradients(lambda: (float("nan") * single(x)).sum(), [x])
        seen["nan"] = None if unknown is None else unknown.isnan()
        out = single(x).sum()  # one graph for two passes
        seen["infinite"] = [torch.autograd.grad(up * out, x, retain_graph=True)[0] for up in (INF, -INF)]
        identity, multiple = nn.Identity(), Multiple()
        _kept = student.clamp_grad_input(identity, TINY), student.clamp_grad_input(multiple, 2.0)
        (seen["behind a number"],) = gradients(lambda: multiple(5, x).sum(), [x])
        seen["the number"] = multiple.got
        empty = torch.zeros(0, 3, requires_grad=True)
        (seen["empty"],) = gradients(lambda: identity(1 * empty).sum(), [empty])
        precise = x.detach().double().requires_grad_()
        (seen["tiny in float64"],) = gradients(lambda: identity(1 * precise).sum(), [precise])
        (seen["tiny"],) = gradients(lambda: identity(1 * x).sum(), [x])
        seen["by input"] = []
        for size in INPUTS:
            given = torch.tensor([size], requires_grad=True)
            seen["by input"] += gradients(lambda given=given: (2.0**-20 * identity(1 * given)).sum(), [given])
        limit = torch.tensor([INF], requires_grad=True)
        seen |= {"out of inf": snapshot(identity(1 * limit)), "needs grad": identity(torch.ones(1)).requires_grad}
        late, x = linear(torch.tensor([[5.0]]), torch.tensor([0.0])), torch.tensor([[3.0]], requires_grad=True)
        handle = student.clamp_grad_input(late, 2.0)
        called_before = late(x).sum()
        seen["has_remove"] = all([*went, removed(handle)])
        (seen["called before remove"],) = gradients(lambda: called_before, [x])
        return seen

    mistakes = (
        ON_ALL_MODULES,
        Mistake(
            "not-like-grad-input",
            raises=("invalid number of grad_", "changed the size of value", "len() of a 0-d tensor"),
            message="What a full backward hook returns takes the place of `grad_input`: a tuple with one entry for "
            "each entry of `grad_input`, of the same shape. A bare tensor is taken for a tuple of its rows.",
        ),
        Mistake(
            "made-up-gradient",
            raises="should always return None or None for all gradients",
            message="Where no input needs a gradient, `grad_input` has `None` everywhere, and the module cannot send "
            "anything. Where you got `None`, return `None`.",
        ),
        Mistake(
            "empty-gradient",
            raises="Expected reduction dim to be specified for input.numel() == 0",
            message="A gradient may have no entries, and among none there is no largest one. `clamp` needs no such "
            "question.",
        ),
        Mistake(
            "no-first-input",
            raises="tuple index out of range",
            message="`grad_input` has one entry for each input that is passed by position. When all are passed by "
            "keyword, it is empty, and has no first entry.",
        ),
        Mistake(
            "hook-without-grad-mode",
            raises="cannot register a hook on a tensor that doesn't require gradient",
            message="Under `torch.no_grad()` what you compute from an input requires no grad, although the input does, "
            "and takes no hook. Do nothing there.",
        ),
        Mistake("changed-dtype", raises="has changed the type of value"),
        Mistake(
            "forgot-return",
            lambda seen, scene, kind, c, hooks, frozen, place: (
                below_is(seen, at_leaf(scene, kind, hooks, place, None))
                and changes(seen["changed"], "hook-left *")
                and close(seen["of another"], 3 * c * (1 - torch.tanh(scene["x"] / 4) ** 2))
                and close(seen["example"][0], 5.0)
                and params_are_right(seen, scene, kind, hooks, frozen, place)
            ),
            "The gradient below the module is not clamped. A hook that returns `None` keeps `grad_input` as it is: "
            "return a tuple with the clamped gradients.",
        ),
        Mistake(
            "clamped-too-early",
            lambda seen, scene, kind, c, hooks, place: (
                not below_is(seen, at_leaf(scene, kind, hooks, place, c))
                and below_is(seen, at_leaf(scene, kind, hooks, place, None, scene["ups"][0].clamp(-c, c)))
            ),
            "You clamped `grad_output`, before the module used it: its own weights learn from that, and what it sends "
            "back can still be larger than `c`. Clamp `grad_input`, in a full backward hook.",
        ),
        Mistake(
            "parameter-grads",
            lambda seen, scene, kind, hooks, frozen, place: (
                below_is(seen, at_leaf(scene, kind, hooks, place, None))
                and (
                    not params_are_right(seen, scene, kind, hooks, frozen, place)
                    or changes(seen["changed"], "hook-left module.*weight")
                    or not len(seen["params"])
                )
                and not changes(seen["changed"], "hook-left module")
            ),
            "You clamped the gradients of the module's own parameters. The task is about the gradients of its inputs.",
        ),
        Mistake(
            "clamped-none",
            raises="NoneType",
            message="An input that needs no gradient, or is no tensor, has `None` in `grad_input`, and `None` has no "
            "`clamp`. Leave such an entry as it is.",
        ),
        Mistake(
            "first-input-only",
            lambda seen, scene, kind, c, hooks, place: (
                kind == "blend"
                and close(seen["inputs"][0], at_leaf(scene, kind, hooks, place, c))
                and close(seen["inputs"][1], sent(scene, kind, hooks)[0][1])
            ),
            "You clamped the gradient of the first input only. `grad_input` has one entry for each input: clamp all "
            "that are tensors.",
        ),
        Mistake(
            "in-place-leak",
            lambda seen, scene, c: (
                differ(scene["ups"][0].clamp(-c, c), scene["ups"][0])
                and close(seen["neighbour"], -scene["ups"][0].clamp(-c, c))
            ),
            raises=("refers to a single memory location", "a leaf Variable that requires grad is being used in an in-"),
        ),
        Mistake(
            "hooked-the-input",
            lambda seen, scene, kind, c, hooks, place: below_is(seen, whole_clamped(scene, kind, hooks, place, c)),
            "You clamped the whole gradient of the input tensor, together with what comes from its other uses. Only "
            "the share that this module sends is to be clamped.",
        ),
        Mistake(
            "clamped-before-the-callers-hooks",
            lambda seen, scene, kind, c, hooks, place: (
                hooks == "replacing"
                and seen["in place elsewhere"].value is True  # hooks on all modules come before those of the module
                and below_is(seen, at_leaf(scene, kind, hooks, place, c, late=times(hooks)))
            ),
            "You clamped before a full backward hook that the module has already, and that one multiplied the gradient "
            "again. Hooks of one kind run in the order of registration: register yours on the module, without "
            "`prepend`.",
        ),
        Mistake(
            "only-the-first-pass",
            lambda seen: close(seen["example"][0], 2.0) and close(seen["example again"][0], 7.0),
            GAVE_OUT.format(done="clamped"),
        ),
        Mistake(
            "took-both-hooks",
            lambda seen, scene, kind, c, hooks, place: (
                close(seen["clamped twice"], at_leaf(scene, kind, hooks, place, c / 2))
                and close(seen["one removed"], at_leaf(scene, kind, hooks, place, None))
                and close(seen["example again"][0], 4.0)
            ),
            TOOK_BOTH.format(done="clamped"),
        ),
        Mistake(
            "one-number-for-all",
            lambda seen, scene, kind, c, hooks, place: (
                below_is(seen, at_leaf(scene, kind, hooks, place, c))
                and close(seen["beside another"], sent(scene, kind, hooks)[0][0].clamp(-2 * c, 2 * c))
                and differ(*(sent(scene, kind, hooks)[0][0].clamp(-bound, bound) for bound in (c, 2 * c)))
            ),
            ONE_NUMBER.format(done="clamped"),
        ),
        Mistake(
            "switched-off",
            lambda seen: close(seen["called before remove"], 5.0) and close(seen["example again"][0], 4.0),
            SWITCHED_OFF.format(done="clamped"),
        ),
        Mistake(
            "one-side-only",
            lambda seen, scene, kind, c, hooks, place: (
                close(seen["infinite"][0], 2.0)
                and not close(seen["infinite"][1], -2.0)
                and not all(
                    close(entry, at_leaf(scene, kind, hooks, place, c, scale * scene["ups"][0]))
                    for entry, scale in zip(seen["more"], MORE_PASSES)
                )
            ),
            "Positive gradients are clamped as they should be, and negative ones are not: the range is [-c, c].",
        ),
    )

    def test_what_the_module_sends_back_is_clamped(seen, scene, kind, c, hooks, place):
        near(seen["inputs"][0], "x.grad", at_leaf(scene, kind, hooks, place, c))
        for entry, scale in paired(seen["more"], MORE_PASSES):
            expected = at_leaf(scene, kind, hooks, place, c, scale * scene["ups"][0])
            near(entry, f"x.grad, with {scale} times the gradient", expected, max(1.0, scale))

    def test_its_own_parameters_learn_from_the_unclamped_one(seen, scene, kind, hooks, frozen, place):
        for when, value, path in (
            ("params", stretch(place) * scene["x"], "the gradient of a parameter"),
            ("params of data", scene["x"], "the gradient of a parameter, when no input needs one"),
        ):
            for mine, gradient in paired(seen[when], sent({**scene, "x": value}, kind, hooks, frozen)[1]):
                near(mine, path, gradient)
        for when, path in (("gate", ""), ("gate by keyword", ", and the input is passed by keyword")):
            near(seen[when], f"the gradient of a weight beside `x > 0`{path}", through_gate(scene))

    def test_every_tensor_input_is_clamped(seen, scene, kind, c, hooks):
        def clamped(*ups):
            return [share.clamp(-c, c) for share in sent(scene, kind, hooks, "nothing", *ups)[0]]

        if kind == "blend":
            a_share, b_share = clamped()
            near(seen["inputs"][1], "b.grad", b_share)
            near(seen["b alone"], "b.grad, when the input before it needs none", b_share)
            near(seen["twice"], "the gradient of a tensor that is passed twice", a_share + b_share)
        if kind == "fork":
            first, second = scene["ups"]
            both, late = (clamped(*ups)[0] for ups in ((first, second), (0 * first, second)))
            near(seen["both outputs"], "x.grad, when the loss uses two outputs", both)
            near(seen["second output"], "x.grad, when the loss uses the second output only", late)

    def test_the_gradient_keeps_its_graph(seen, scene, kind, c, hooks):
        up = scene["ups"][0].clone().requires_grad_()
        (share, *_), _ = sent(scene, kind, hooks, "nothing", up, create_graph=True)
        differentiated_as(seen["differentiated"], torch.autograd.grad(share.clamp(-c, c).sum(), up)[0])

    def test_several_modules_and_several_calls(seen, scene, kind, c, hooks, place):
        expect(Seen(seen["of another"].value, "the gradient below another module")).close_to(
            (3 * c * (1 - torch.tanh(scene["x"] / 4) ** 2)).clamp(-2 * c, 2 * c)
        )
        near(seen["beside another"], "x.grad, beside another module", sent(scene, kind, hooks)[0][0].clamp(-c, c))
        twice = at_leaf(scene, kind, hooks, place, c / 2)
        near(seen["clamped twice"], "x.grad, after a second call with c / 2", twice)

    def test_nothing_else_changes(seen, scene, kind, hooks):
        out = times(hooks) * outputs(made(kind, scene["weights"]), kind, scene["x"], scene["b"], scene["k"])[0].detach()
        for when, path in (
            ("out", "the output"),
            ("out without grad mode", "the output under `torch.no_grad()`"),
            ("out of a leaf without grad mode", "the output under `torch.no_grad()`, for an input that requires grad"),
        ):
            near(seen[when], path, out)
        expect(Seen(seen["out of inf"].value, "the output of Identity for inf")).close_to(torch.tensor([INF]))
        expect(Seen(seen["the number"].value, "the type of an input that is the number 5")).equals("int")
        expect(seen["needs grad"]).is_false("the output of Identity for data requires grad, and did not without you")
        expect(Seen(seen["neighbour"].value, "the gradient of a neighbour")).close_to(-scene["ups"][0])
        nothing_changed(seen["changed"], but=["hook-left *"])
        others_work(seen["in place elsewhere"])

    def test_the_handle_restores_the_old_behaviour(seen, scene, kind, c, hooks, place):
        before = Seen(seen["called before remove"].value, "x.grad of a call before remove(), with c = 2")
        expect(before).close_to(torch.tensor([[2.0]]))
        expect(seen["has_remove"]).is_true("the function returned nothing that has a remove() method")
        for when, path, bound in (
            ("one removed", "x.grad, after remove() on the second of two handles", c),
            ("all removed", "x.grad, after remove()", None),
        ):
            near(seen[when], path, at_leaf(scene, kind, hooks, place, bound))
        nothing_changed(seen["in the end"], but=["grad-* *"], when="after remove()")

    def test_the_example_of_the_contract(seen):
        for when, passes, rights in (
            ("example", "of the example", (2.0, 3.0)),
            ("example again", "of the example, after a second pass", (4.0, 6.0)),
            ("two calls", "of the example, with `module(x) + module(2 * x)`", (6.0, 9.0)),
        ):
            for mine, (what, right) in paired(seen[when], zip(("x.grad", "module.weight.grad"), rights)):
                expect(Seen(mine.value, f"{what} {passes}")).close_to(torch.tensor([[right]]))

    def test_any_bound_and_any_gradient(seen):
        expect(Seen(seen["nan"].value, "whether a gradient that is nan is nan afterwards")).close_to(
            torch.tensor([[True]])
        )
        for entry, up in paired(seen["infinite"], (INF, -INF)):
            right = torch.tensor([[2.0 if up > 0 else -2.0]])
            expect(
                Seen(entry.value, f"a gradient of {up} with c = 2, in one of two passes through one graph")
            ).close_to(right)
        expect(Seen(seen["empty"].value, "a gradient of shape (0, 3)")).close_to(torch.zeros(0, 3))
        behind = Seen(seen["behind a number"].value, "a gradient of 5 with c = 2, of an input behind a number")
        expect(behind).close_to(torch.tensor([[2.0]]))
        for when, dtype in (("tiny in float64", torch.float64), ("tiny", torch.float32)):
            tiny = Seen(seen[when].value, f"a gradient of 1 with c = {TINY}, float32 after float64")
            expect(tiny).close_to(torch.tensor([[TINY]], dtype=dtype), atol=0)
        for entry, size in paired(seen["by input"], INPUTS):
            path = f"a gradient of 2 ** -20 with c = {TINY}, for an input of {size}"
            expect(Seen(entry.value, path)).close_to(torch.tensor([TINY]), atol=0)


def at_leaf(
    scene: Scene, kind: str, hooks: str, place: str, c: float | None, up: Tensor | None = None, late: float = 1.0
) -> Tensor:
    """What arrives at the leaf: the module's share, clamped when there is a `c`, and that of the other use.

    `late` is by what the share is multiplied after it was clamped.
    """
    ups = () if up is None else (up,)
    (share, *_), _ = sent({**scene, "x": stretch(place) * scene["x"]}, kind, hooks, "nothing", *ups)
    return stretch(place) * ((share if c is None else late * (share / late).clamp(-c, c)) + scene["side"])


def whole_clamped(scene: Scene, kind: str, hooks: str, place: str, c: float) -> Tensor:
    """What arrives at the leaf when the sum of all uses of the input is clamped."""
    return stretch(place) * (at_leaf(scene, kind, hooks, place, None) / stretch(place)).clamp(-c, c)


def below_is(seen: Seen, expected: Tensor) -> bool:
    """Whether this arrived at the leaf."""
    return close(seen["inputs"][0], expected)


def params_are_right(seen: Seen, scene: Scene, kind: str, hooks: str, frozen: str, place: str) -> bool:
    """Whether the parameters have the gradients that they would have without a clamp."""
    _, expected = sent({**scene, "x": stretch(place) * scene["x"]}, kind, hooks, frozen)
    return not expected or close(seen["params"], expected)
