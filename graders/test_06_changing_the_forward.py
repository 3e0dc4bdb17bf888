"""Lesson 6. Changing the forward."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from graders.box.probing import Boom, expecting_boom, module_hooks, removed, snapshot
from graders.core.exercise import Mistake, exercise
from graders.core.expect import Seen, close, expect

NO_HANDLE = (
    "Your function has to return the handle, so that the caller can remove the hook. It is what the `register_…` "
    "method gives you."
)


def pulled_back(output: Any, up: Tensor, leaf: Tensor) -> Tensor | None:
    """The gradient that comes to `leaf` when `output` receives `up`; None when none comes."""
    if not isinstance(output, Tensor) or not output.requires_grad or output.shape != up.shape:
        return None
    leaf.grad = None
    output.backward(gradient=up)
    return leaf.grad


def layer(kind: str, weight: Tensor) -> nn.Module:
    """A module that maps three numbers to three numbers."""
    if kind == "linear":
        made = nn.Linear(3, 3, bias=False)
        made.load_state_dict({"weight": weight})
        return made
    return {"sigmoid": nn.Sigmoid, "tanh": nn.Tanh}[kind]()


@exercise(
    "06-scale-output",
    points=1,
    title="Scale what a module says",
    hints=(
        "A forward hook that returns something replaces the module's output by it.",
        "Compute a new tensor. An in-place change of `output` overwrites numbers that the backward pass needs.",
        "No `detach()`, no `.data`, no `torch.no_grad()`: autograd has to see the multiplication. "
        "And return the handle.",
    ),
    cases=({"kind": "sigmoid"}, {"kind": "tanh"}, {"kind": "linear"}),
)
class TestScaleOutput:
    """Write `scale_output(module, s)`. `module` is any module whose output is a tensor, and `s` is a number. From
    now on, the output of every call of `module` is multiplied by `s`. Return the handle; after `handle.remove()` the
    module gives its own output again.

    Autograd follows the multiplication: the gradients before the module are those of the multiplied output. Two calls
    of `scale_output` on the same module multiply by both numbers, and each has a handle of its own. The module's
    parameters, its mode (train or eval) and the values of the caller's tensors stay as they are.

    **Example.** With `act = nn.Sigmoid()` and `handle = scale_output(act, 3.0)`, the call
    `act(torch.tensor([0.]))` gives `tensor([1.5000])`, and the gradient at this input is `3 * 0.5 * (1 - 0.5) = 0.75`.
    """

    def draw(rng, kind):
        return {
            "kind": kind,
            "weight": rng.tensor(3, 3),
            "x": rng.tensor(2, 3, low=-2, high=2),
            "up": rng.tensor(2, 3, low=0.5),
            "s": rng.choice((-2.0, -1.5, 0.5, 2.0, 3.0)),
            "t": rng.choice((-3.0, -2.5, 1.5, 2.5)),
        }

    def probe(student, kind, weight, x, up, s, t):
        x.requires_grad_()
        module = layer(kind, weight)
        first = student.scale_output(module, s)
        seen = {"hooks": module_hooks(module)}
        y = module(x)
        seen["y"] = snapshot(y)
        seen["x.grad"] = snapshot(pulled_back(y, up, x))
        seen["weight.grad"] = next((snapshot(p.grad) for p in module.parameters()), None)
        seen["mode_kept"] = module.training
        module.eval()
        seen["again"] = snapshot(module(module(x.detach())))
        module.train()
        second = student.scale_output(module, t)
        y = module(x)
        seen["both"] = snapshot(y)
        seen["both.grad"] = snapshot(pulled_back(y, up, x))
        seen["has_remove"] = removed(first)
        seen["second_only"] = snapshot(module(x))
        removed(second)
        seen["after_remove"] = snapshot(module(x))
        seen["hooks_left"] = module_hooks(module)
        seen["weight"] = next((snapshot(p) for p in module.parameters()), None)
        container, mine = nn.Sequential(nn.Identity(), nn.Identity()), x.detach().clone()  # hands its input on
        student.scale_output(container, s)
        seen["in_float64"] = snapshot(container(mine.double()))
        seen["of_another_shape"] = snapshot(container(mine[0]))
        with torch.no_grad():
            seen["without_gradients"] = snapshot(container(mine))
        seen["callers"] = mine
        return seen

    mistakes = (
        Mistake(
            "forgot-return",
            lambda seen, kind, weight, x: seen["hooks"].value != 0 and close(seen["y"], plain(kind, weight, x)),
        ),
        Mistake(
            "in-place-output",
            raises="modified by an inplace operation",
            message="Your hook changed `output` in place. The backward of Sigmoid and Tanh needs the old output, and "
            "it is overwritten. Compute a new tensor, `output * s`, and return it.",
        ),
        Mistake(
            "data-edit",
            lambda seen, kind, weight, x, up, s: (
                close(seen["y"], s * plain(kind, weight, x))
                and any(close(seen["x.grad"], one) for one in hidden_from_autograd(kind, weight, x, up, s))
            ),
            "The output is right, but the gradient does not know of `s`: you changed the numbers behind autograd's "
            "back (`.data`, or the weights). Return `output * s`, computed by an ordinary operation.",
        ),
        Mistake(
            "cut-the-graph",
            lambda seen, kind, weight, x, s: (
                close(seen["y"], s * plain(kind, weight, x)) and seen["x.grad"].value is None
            ),
            "The output is right, but no gradient comes through any more. Your hook returned a tensor without a "
            "graph: leave out `detach()`, `.data` and `torch.no_grad()`.",
        ),
        Mistake(
            "changed-the-input",
            lambda seen, kind, weight, x, s: kind != "linear" and close(seen["y"], plain(kind, weight, s * x)),
        ),
        Mistake("no-handle", lambda seen: seen["hooks"].value != 0 and seen["has_remove"].value is False, NO_HANDLE),
    )

    def test_every_output_is_multiplied(seen, kind, weight, x, s):
        expect(seen["y"]).close_to(s * plain(kind, weight, x))
        expect(seen["again"]).close_to(s * plain(kind, weight, s * plain(kind, weight, x)))

    def test_the_gradient_is_multiplied_too(seen, kind, weight, x, up, s):
        expect(seen["x.grad"]).close_to(s * pull(kind, weight, x, up))
        if kind == "linear":
            expect(seen["weight.grad"]).close_to(s * up.T @ x)

    def test_two_hooks_multiply_by_both_numbers(seen, kind, weight, x, up, s, t):
        expect(seen["both"]).close_to(s * t * plain(kind, weight, x))
        expect(seen["both.grad"]).close_to(s * t * pull(kind, weight, x, up))

    def test_each_handle_removes_its_own_hook(seen, kind, weight, x, t):
        expect(seen["has_remove"]).is_true("the function returned nothing that has a remove() method")
        expect(seen["second_only"]).close_to(t * plain(kind, weight, x))
        expect(seen["after_remove"]).close_to(plain(kind, weight, x))
        expect(seen["hooks_left"]).equals(0)

    def test_any_module_and_any_tensor_will_do(seen, x, s):
        expect(seen["of_another_shape"]).close_to(s * x[0])
        expect(seen["in_float64"]).close_to(s * x.double())
        expect(seen["without_gradients"]).close_to(s * x)

    def test_parameters_mode_and_tensors_of_the_caller_stay(seen, kind, weight, x):
        expect(seen["mode_kept"]).is_true("the module is no longer in train mode")
        if kind == "linear":
            expect(seen["weight"]).close_to(weight, detached=False)
        expect(Seen(seen["callers"].value, "the tensor that nn.Identity got and returned")).close_to(x)


def plain(kind: str, weight: Tensor, x: Tensor) -> Tensor:
    """The output of `layer(kind, weight)` without any hook, in closed form."""
    return {"sigmoid": lambda: 1 / (1 + torch.exp(-x)), "tanh": lambda: torch.tanh(x), "linear": lambda: x @ weight.T}[
        kind
    ]()


def pull(kind: str, weight: Tensor, x: Tensor, up: Tensor) -> Tensor:
    """What comes to the input when the plain output receives `up`, in closed form."""
    v = plain(kind, weight, x)
    return {"sigmoid": lambda: up * v * (1 - v), "tanh": lambda: up * (1 - v * v), "linear": lambda: up @ weight}[
        kind
    ]()


def hidden_from_autograd(kind: str, weight: Tensor, x: Tensor, up: Tensor, s: float) -> list[Tensor]:
    """The gradients that come out when autograd has not seen the multiplication."""
    v = s * plain(kind, weight, x)
    overwritten = {"sigmoid": up * v * (1 - v), "tanh": up * (1 - v * v)}  # backward reads the edited output
    return [pull(kind, weight, x, up), *([overwritten[kind]] if kind in overwritten else [])]


class Mix(nn.Module):
    """Adds up to four arguments, the first through a linear layer."""

    def __init__(self, weight: Tensor) -> None:
        """A mix whose linear layer has this weight."""
        super().__init__()
        self.inner = nn.Linear(3, 3, bias=False)
        self.inner.load_state_dict({"weight": weight})

    def forward(
        self, a: Tensor, b: Tensor | None = None, third: Tensor | None = None, *, c: Tensor | None = None
    ) -> Tensor:
        """Weight times a, plus 10 b, plus 100 c, plus 25 times the third."""
        out = self.inner(a)
        if b is not None:
            out = out + 10 * b
        if third is not None:
            out = out + 25 * third
        return out if c is None else out + 100 * c


@exercise(
    "06-normalize-input",
    points=2,
    title="Normalise what goes in",
    hints=(
        "A forward pre-hook receives `(module, args)`, before `forward` runs. `args` is a tuple, even with one entry.",
        "Return a tuple: it becomes the new positional arguments, all of them.",
        "Put the other arguments back: `return ((args[0] - mean) / std, *args[1:])`.",
    ),
    cases=({"given": "ab"}, {"given": "abc"}, {"given": "a"}),
)
class TestNormalizeInput:
    """Write `normalize_input(module, mean, std)`. `mean` and `std` are numbers, and `std` is not 0. From now on, in
    every call of `module`, the first positional argument `a` (a tensor; there always is one) reaches the module's
    `forward` as `(a - mean) / std`. All other arguments, positional and keyword, reach it as the caller passed them.
    Return the handle; after `handle.remove()` the module gets its arguments unchanged again.

    Gradients flow through the normalisation to the caller's tensor. The values of the caller's tensor stay as they
    are.

    **Example.** Let `module(a, b)` compute `a + 10 * b`. After `handle = normalize_input(module, 1.0, 2.0)`, the call
    `module(torch.tensor(5.), torch.tensor(3.))` gives `(5 - 1) / 2 + 30 = 32`, and the gradient at `a` is `0.5`.
    """

    def draw(rng, given):
        return {
            "weight": rng.tensor(3, 3),
            "a": rng.tensor(2, 3),
            "b": rng.tensor(2, 3) if "b" in given else None,
            "c": rng.tensor(2, 3) if "c" in given else None,
            "up": rng.tensor(2, 3),
            "mean": rng.choice((-2.0, -1.5, -0.5, 0.75, 1.25, 2.0)),
            "std": rng.choice((0.25, 0.5, 2.0, 4.0)),
        }

    def probe(student, weight, a, b, c, up, mean, std):
        module = Mix(weight)
        module.register_forward_pre_hook(lambda *_: None)  # one of the caller's
        hooks = module_hooks(module)

        def call(first, others=(b, c)):
            rest = [] if b is None else [others[0]]
            return module(first, *rest, **({} if c is None else {"c": others[1]}))

        handle = student.normalize_input(module, mean, std)
        seen = {"hooks": module_hooks(module) - hooks}
        mine = a.clone()
        seen["y"] = snapshot(call(mine))
        seen["callers"] = snapshot(mine)
        leaf = a.clone().requires_grad_()
        passed = 1 * leaf
        others = [None if one is None else one.clone().requires_grad_() for one in (b, c)]
        module.eval()
        y = call(passed, others)
        seen["again"] = snapshot(y)
        seen["a.grad"] = snapshot(pulled_back(y, up, leaf))
        seen["b.grad"], seen["c.grad"] = (None if one is None else snapshot(one.grad) for one in others)
        with torch.no_grad():
            seen["without_gradients"] = snapshot(call(a.clone()))
        seen["with_a_third"] = snapshot(module(a.clone(), None, up))
        seen["has_remove"] = removed(handle)
        seen["after_remove"] = snapshot(call(a.clone()))
        seen["hooks_left"] = module_hooks(module) - hooks
        return seen

    mistakes = (
        Mistake(
            "dropped-arguments",
            lambda seen, weight, a, b, c, mean, std: (
                any(
                    close(seen["y"], mixed(weight, (a - mean) / std, *kept))
                    for kept in ((None, c), (b, None), (None, None))
                    if kept != (b, c)
                )
                or (
                    close(seen["y"], mixed(weight, (a - mean) / std, b, c))
                    and close(seen["with_a_third"], mixed(weight, (a - mean) / std, None, None))
                )
            ),
            "The first argument is normalised, but others are lost. What a pre-hook returns stands for all "
            "arguments, and a bare tensor becomes the only one. Return `(new, *args[1:])`.",
        ),
        Mistake(
            "changed-callers-tensor",
            lambda seen, weight, a, b, c, mean, std: (
                close(seen["y"], mixed(weight, (a - mean) / std, b, c)) and not close(seen["callers"], a)
            ),
            "The result is right, but the caller's own tensor has changed with it: `args[0]` *is* that tensor, and "
            "you edited it in place. Compute a new tensor.",
        ),
        Mistake(
            "returned-a-list",
            raises="not list",
            message="Your pre-hook returned a list. Only a tuple counts as the new arguments; a list is passed on as "
            "*one* argument. Return a tuple.",
        ),
        Mistake(
            "tuple-not-tensor",
            raises=(
                "for -: 'tuple'",
                "for /: 'tuple'",
                "can't multiply sequence by non-int",
                "sub(): argument 'input' (position 1) must be Tensor, not tuple",
                "'tuple' object has no attribute",
                "does not support item assignment",
            ),
            message="`args` is the tuple of all positional arguments, not a tensor, and a tuple cannot be changed. "
            "Compute with `args[0]` and return a new tuple.",
        ),
        Mistake(
            "changed-the-output",
            lambda seen, weight, a, b, c, mean, std: close(seen["y"], (mixed(weight, a, b, c) - mean) / std),
            "You normalised what comes out of the module. The task is about what goes in: register a forward "
            "*pre*-hook.",
        ),
        Mistake(
            "forgot-return",
            lambda seen, weight, a, b, c: seen["hooks"].value != 0 and close(seen["y"], mixed(weight, a, b, c)),
        ),
        Mistake(
            "cut-the-graph",
            lambda seen, weight, a, b, c, mean, std: (
                close(seen["y"], mixed(weight, (a - mean) / std, b, c))
                and close(seen["callers"], a)
                and seen["a.grad"].value is None
            ),
            "The values are right, but no gradient comes to the caller's tensor any more. Leave out `detach()`, "
            "`.data` and `torch.no_grad()` in your hook.",
        ),
        Mistake("no-handle", lambda seen: seen["hooks"].value != 0 and seen["has_remove"].value is False, NO_HANDLE),
    )

    def test_the_first_argument_is_normalised(seen, weight, a, b, c, mean, std):
        expect(seen["y"]).close_to(mixed(weight, (a - mean) / std, b, c))
        expect(seen["again"]).close_to(mixed(weight, (a - mean) / std, b, c))
        expect(seen["without_gradients"]).close_to(mixed(weight, (a - mean) / std, b, c))

    def test_gradients_flow_through_the_normalisation(seen, weight, up, std):
        expect(seen["a.grad"]).close_to(up @ weight / std)

    def test_the_other_arguments_arrive_as_they_were_passed(seen, weight, a, b, c, up, mean, std):
        expect(seen["with_a_third"]).close_to(mixed(weight, (a - mean) / std, None, None) + 25 * up)
        for key, given, factor in (("b.grad", b, 10), ("c.grad", c, 100)):
            if given is not None:
                expect(seen[key]).close_to(factor * up)

    def test_the_tensor_of_the_caller_is_untouched(seen, a):
        expect(seen["callers"]).close_to(a)

    def test_the_handle_removes_the_hook(seen, weight, a, b, c):
        expect(seen["has_remove"]).is_true("the function returned nothing that has a remove() method")
        expect(seen["after_remove"]).close_to(mixed(weight, a, b, c))
        expect(seen["hooks_left"]).equals(0)


def mixed(weight: Tensor, a: Tensor, b: Tensor | None, c: Tensor | None) -> Tensor:
    """What `Mix` computes, in closed form."""
    return a @ weight.T + (0 if b is None else 10 * b) + (0 if c is None else 100 * c)


class Affine(nn.Module):
    """Computes x * scale + shift + 100 y, where scale and shift come by keywords of given names."""

    def __init__(self, scale: str, shift: str) -> None:
        """A module that listens to these two keywords, and notes what each call received."""
        super().__init__()
        self.scale, self.shift = scale, shift
        self.received: list[dict[str, Any]] = []

    def forward(self, x: Tensor | None = None, y: Any = 0.0, **options: float) -> Tensor:
        """Zero when x got lost on the way."""
        self.received.append(dict(options))
        if x is None:
            return torch.zeros(1)
        return x * options.get(self.scale, 1.0) + options.get(self.shift, 0.0) + 100 * y


@exercise(
    "06-force-kwargs",
    points=2,
    title="Force keyword arguments",
    hints=(
        "A pre-hook sees keyword arguments only when it is registered with `with_kwargs=True`. Then it is called as "
        "`hook(module, args, kwargs)`.",
        "Such a hook returns a tuple of two: the new positional arguments and the new keyword arguments.",
        "In `{**kwargs, **kw}` the entries on the right win.",
    ),
    cases=({"forced": "scale"}, {"forced": "shift"}, {"forced": "both"}),
)
class TestForceKwargs:
    """Write `force_kwargs(module, **kw)`. From now on, every call of `module` receives the keyword arguments `kw`.
    Where the caller passes a keyword of the same name, the value in `kw` wins. All other arguments of the caller,
    positional and keyword, reach the module as they were passed, and only in the call to which they belong. Return
    the handle; after `handle.remove()` the module gets the caller's arguments alone.

    The values in `kw` may be of any kind, and the module receives these very objects: gradients flow to the tensors
    among them. The caller may pass everything by keyword, the input too. When a caller writes
    `module(x, **options)`, the dict `options` stays as it is.

    **Example.** Let `module(x, *, scale=1.0, shift=0.0)` compute `x * scale + shift`. After
    `handle = force_kwargs(module, scale=10.0)`, the call `module(torch.tensor(2.), scale=3.0, shift=1.0)` gives
    `tensor(21.)`.
    """

    def draw(rng, forced):
        scale, shift = rng.names(2)
        kw = {scale: rng.choice((-3.0, -2.0, 3.0, 4.0)), shift: rng.choice((-7.0, -5.5, 5.0, 6.5))}
        return {
            "scale": scale,
            "shift": shift,
            "kw": kw if forced == "both" else {scale: kw[scale]} if forced == "scale" else {shift: kw[shift]},
            "options": {scale: rng.choice((-1.5, 0.5, 2.0)), shift: rng.uniform(1, 3)},
            "x": rng.tensor(3),
            "y": rng.tensor(3, low=1),
        }

    def probe(student, scale, shift, kw, options, x, y):
        module = Affine(scale, shift)
        handle = student.force_kwargs(module, **kw)
        given = dict(options)
        rest = {name: value for name, value in options.items() if name not in kw}
        seen = {
            "hooks": module_hooks(module),
            "hook_sees_keywords": bool(getattr(module, "_forward_pre_hooks_with_kwargs", {})),
            "without": module(x),
            "override": module(x, **given),
            "rest": module(x, **rest),
            "second": module(x, y, **rest),
            "later": module(x),
            "by_keyword": module(x=x, **rest),
            "options": given,
            "forced": [all(call.get(name) == value for name, value in kw.items()) for call in module.received][:20],
        }
        seen["has_remove"] = removed(handle)
        seen["after_remove"] = module(x, **options)
        seen["hooks_left"] = module_hooks(module)
        factor, leaf = y.clone().requires_grad_(), x.clone().requires_grad_()
        student.force_kwargs(module, **{scale: factor, shift: 0.0})
        product = module(leaf, **options)
        seen["product"] = snapshot(product)
        seen["x.grad"] = snapshot(pulled_back(product, torch.ones(3), leaf))
        seen["kw.grad"] = snapshot(factor.grad)
        return seen

    mistakes = (
        Mistake(
            "wrong-return-shape",
            raises=("must return None or a tuple", "positional arguments but 4 were given"),
            message="A pre-hook with `with_kwargs=True` has to return both: a tuple of the positional arguments and "
            "the keyword arguments, `return args, new_kwargs`.",
        ),
        Mistake(
            "dropped-arguments",
            lambda seen, scale, shift, kw, options, x: (
                close(seen["without"], torch.zeros(1))
                or close(seen["second"], affine(scale, shift, {**options, **kw}, x))
                or (
                    close(seen["without"], affine(scale, shift, kw, x))
                    and (
                        close(seen["by_keyword"], torch.zeros(1))
                        or (len(kw) < len(options) and close(seen["rest"], affine(scale, shift, kw, x)))
                    )
                )
            ),
            "Your keywords arrive, but arguments of the caller are lost. What you return is the whole new set of "
            "arguments: return `args` as they came, and merge your keywords with the caller's, `{**kwargs, **kw}`.",
        ),
        Mistake(
            "caller-wins",
            lambda seen, scale, shift, kw, options, x: (
                close(seen["without"], affine(scale, shift, kw, x))
                and close(seen["override"], affine(scale, shift, options, x))
            ),
            "Where the caller passes the same keyword, the caller's value wins. In `{**first, **second}` the second "
            "wins: put `kw` last.",
        ),
        Mistake(
            "no-with-kwargs",
            lambda seen, scale, shift, options, x: (
                not seen["hook_sees_keywords"].value
                and seen["hooks"].value != 0
                and close(seen["override"], affine(scale, shift, options, x))
            ),
            "Your keywords never arrive. Without `with_kwargs=True` a pre-hook is called as `hook(module, args)`: it "
            "sees no keywords and cannot add any. Register it with the flag.",
            raises=("missing 1 required positional argument", "can't multiply sequence by non-int"),
        ),
        Mistake(
            "hook-without-kwargs",
            raises="takes 2 positional arguments but 3 were given",
            message="With `with_kwargs=True` the hook is called with three arguments: `hook(module, args, kwargs)`. "
            "Yours takes two.",
        ),
        Mistake(
            "forgot-return",
            lambda seen, scale, shift, options, x: (
                seen["hook_sees_keywords"].value is True
                and close(seen["override"], affine(scale, shift, options, x))
                and close(seen["without"], x)
            ),
            'Your hook built new keyword arguments but returned `None`, and `None` means "keep the old ones". '
            "Return `args, new_kwargs`.",
        ),
        Mistake(
            "wrong-hook-kind",
            lambda seen, scale, shift, kw, x: (
                close(seen["without"], affine(scale, shift, kw, x)) and False in seen["forced"].value
            ),
            "The result is right, but the module ran without your keywords first. A forward hook comes after "
            "`forward`; calling the module a second time repeats all its work. Register a forward *pre*-hook.",
        ),
        Mistake(
            "remembered-keywords",
            lambda seen, scale, shift, kw, x: (
                close(seen["without"], affine(scale, shift, kw, x))
                and not close(seen["later"], affine(scale, shift, kw, x))
            ),
            "Keywords of one call reach a later call. You put the caller's keywords into `kw`, and `kw` lives as long "
            "as the hook. Build a new dict in each call.",
        ),
        Mistake("no-handle", lambda seen: seen["hooks"].value != 0 and seen["has_remove"].value is False, NO_HANDLE),
    )

    def test_the_keywords_reach_the_module(seen, scale, shift, kw, x):
        expect(seen["without"]).close_to(affine(scale, shift, kw, x))

    def test_every_call_receives_them_once(seen):
        expect(seen["forced"]).has_length(6, "calls of forward")
        expect(Seen(all(seen["forced"].value))).is_true("`forward` was called without the keywords in `kw`")

    def test_they_win_over_those_of_the_caller(seen, scale, shift, kw, options, x):
        expect(seen["override"]).close_to(affine(scale, shift, {**options, **kw}, x))

    def test_everything_else_passes_as_the_caller_gave_it(seen, scale, shift, kw, options, x, y):
        merged = affine(scale, shift, {**options, **kw}, x)
        expect(seen["rest"]).close_to(merged)
        expect(seen["second"]).close_to(merged + 100 * y)
        expect(seen["by_keyword"]).close_to(merged)
        expect(seen["later"]).close_to(affine(scale, shift, kw, x))
        expect(seen["options"]).equals(options)

    def test_values_of_any_kind_arrive_with_their_gradients(seen, x, y):
        expect(Seen(seen["product"].value, "with a tensor and 0.0 as the values")).close_to(x * y)
        expect(seen["x.grad"]).close_to(y)
        expect(Seen(seen["kw.grad"].value, "the .grad of the tensor in kw")).close_to(x)

    def test_the_handle_removes_the_hook(seen, scale, shift, options, x):
        expect(seen["has_remove"]).is_true("the function returned nothing that has a remove() method")
        expect(seen["after_remove"]).close_to(affine(scale, shift, options, x))
        expect(seen["hooks_left"]).equals(0)


def affine(scale: str, shift: str, options: dict[str, float], x: Tensor) -> Tensor:
    """What `Affine` computes with these keyword arguments."""
    return x * options.get(scale, 1.0) + options.get(shift, 0.0)


def operation(sign: str, number: float, calls: list | None = None) -> Callable[..., Tensor]:
    """A forward hook that adds `number` to the output, or multiplies it."""

    def run(module, args, output):
        if calls is not None:
            alone = args[0] if type(args) is tuple and len(args) == 1 else None
            calls.append([snapshot(output), snapshot(alone), isinstance(module, nn.Module)])
        return output + number if sign == "+" else output * number

    return run


def raising(*_: Any) -> None:
    """A hook that fails."""
    raise Boom


@exercise(
    "06-run-first",
    points=1,
    title="First in the queue",
    hints=(
        "One keyword argument of `register_forward_hook` is enough.",
        "A pre-hook would be too early: it runs before there is an output.",
        "Leave the other hooks alone. `prepend=True` puts yours in front of them.",
    ),
)
class TestRunFirst:
    """Write `run_first(module, hook)`. `hook` is a forward hook, called as `hook(module, args, output)`. Register
    it on `module` so that it runs before all forward hooks that `module` has at this moment, in every call from now
    on. What it returns counts as with any forward hook: anything but `None` replaces the output, even `False`. Return
    its handle.

    The other forward hooks stay registered, in their order, and their own handles still remove them. When `run_first`
    is used twice, the later hook runs before the earlier one. After `handle.remove()` the module behaves as before.

    **Example.** `module` computes `z` and has two hooks that return `output + 1` and `output * 10`, in this order.
    After `handle = run_first(module, lambda module, args, output: output - 5)` it gives `((z - 5) + 1) * 10`.
    """

    def draw(rng):
        return {
            "weight": rng.tensor(3, 3),
            "x": rng.tensor(2, 3),
            "a": rng.uniform(1, 3),
            "b": rng.choice((4.0, 5.0, 10.0)),
            "c": -rng.uniform(4, 7),
            "d": rng.choice((-3.0, -2.0, 2.0, 3.0)),
            "e": rng.uniform(8, 9),
        }

    def probe(student, weight, x, a, b, c, d, e):
        module = layer("linear", weight)
        calls = []
        adding = module.register_forward_hook(operation("+", a))
        times = operation("*", b)
        module.register_forward_hook(lambda m, args, kwargs, out: times(m, args, out), with_kwargs=True)
        first = student.run_first(module, operation("+", c, calls))
        seen = {"hooks": module_hooks(module), "called_at_once": len(calls)}
        y = module(x)
        seen |= {"one": snapshot(y), "followed": y.requires_grad, "received": calls[:20]}
        watched = []
        watching = student.run_first(module, lambda m, args, output: watched.append(snapshot(output)))
        seen |= {"watched_over": snapshot(module(x)), "watched": watched[:20]}
        removed(watching)
        second = student.run_first(module, operation("*", d))
        seen["two"] = snapshot(module(x))
        late = module.register_forward_hook(operation("+", e))
        seen["late"] = snapshot(module(x))
        late.remove()
        seen["has_remove"] = removed(second)
        seen["second_removed"] = snapshot(module(x))
        adding.remove()
        seen["adding_removed"] = snapshot(module(x))
        removed(first)
        seen["all_removed"] = snapshot(module(x))
        seen["hooks_left"] = module_hooks(module)
        container = nn.Sequential(nn.Identity(), nn.Identity())
        student.run_first(container, operation("+", c))
        seen["of_a_container"] = snapshot(container(x))
        student.run_first(container[0], lambda *_: False)
        seen["false"] = container[0](x)
        with expecting_boom(seen):
            student.run_first(container[1], raising)
            container[1](x)
        return seen

    mistakes = (
        Mistake(
            "registration-order",
            lambda seen, weight, x, a, b, c: close(seen["one"], (x @ weight.T + a) * b + c),
            "Your hook ran last: forward hooks run in the order in which they were registered. `prepend=True` puts "
            "a hook in front of those that are already there.",
        ),
        Mistake(
            "removed-others",
            lambda seen, weight, x, a, b, c: any(
                close(seen["one"], value) for value in (x @ weight.T + c, x @ weight.T + c + a, (x @ weight.T + c) * b)
            ),
            "Other hooks of the module are gone, or were registered anew and lost their options. Leave them as they "
            "are: `prepend=True` puts yours in front of them.",
            raises="missing 1 required positional argument: 'out'",
        ),
        Mistake(
            "wrong-hook-kind",
            raises="missing 1 required positional argument: 'output'",
            message="You registered a pre-hook. It runs before `forward`, when there is no output yet. The task asks "
            "for a forward hook that runs before the other forward hooks.",
        ),
        Mistake(
            "forgot-return",
            lambda seen, weight, x, a, b: len(seen["received"]) > 0 and close(seen["one"], (x @ weight.T + a) * b),
            "The hook was called, but what it returned got lost. Register `hook` itself, or return its result from "
            "your wrapper.",
        ),
        Mistake("no-handle", lambda seen: seen["hooks"].value == 3 and seen["has_remove"].value is False, NO_HANDLE),
    )

    def test_the_hook_runs_before_the_others(seen, weight, x, a, b, c):
        expect(seen["one"]).close_to((x @ weight.T + c + a) * b)
        expect(seen["called_at_once"]).equals(0)
        expect(seen["received"]).has_length(1, "calls of the hook")
        expect(seen["received"][0][0]).close_to(x @ weight.T)
        expect(Seen(seen["received"][0][1].value, "args[0]")).close_to(x)
        expect(seen["received"][0][2]).is_true("the hook did not receive the module")

    def test_its_result_counts_as_with_any_forward_hook(seen, weight, x, a, b, c):
        expect(seen["followed"]).is_true("the output of the module no longer requires grad")
        expect(seen["watched"]).has_length(1, "calls of a hook that returns None")
        expect(seen["watched"][0]).close_to(x @ weight.T)
        expect(seen["watched_over"]).close_to((x @ weight.T + c + a) * b)
        expect(Seen(seen["of_a_container"].value, "the output of a Sequential")).close_to(x + c)
        expect(Seen(seen["false"].value, "the output after a hook that returns False")).equals(False)
        expect(Seen(seen["exception"].value, "an exception in the hook")).equals("propagated")

    def test_the_later_of_two_runs_first(seen, weight, x, a, b, c, d):
        expect(seen["two"]).close_to((x @ weight.T * d + c + a) * b)

    def test_the_others_stay_in_their_order_with_their_handles(seen, weight, x, a, b, c, d, e):
        expect(seen["late"]).close_to((x @ weight.T * d + c + a) * b + e)
        expect(seen["adding_removed"]).close_to((x @ weight.T + c) * b)

    def test_the_handle_removes_the_hook(seen, weight, x, a, b, c):
        expect(seen["has_remove"]).is_true("the function returned nothing that has a remove() method")
        expect(seen["second_removed"]).close_to((x @ weight.T + c + a) * b)
        expect(seen["all_removed"]).close_to(x @ weight.T * b)
        expect(seen["hooks_left"]).equals(1)


PLACES = ("entry", "conv1", "act1", "block", "mid", "act3", "head")
"""The modules at the top level of `TwoPath`; `block` holds `conv2` and `act2`."""


class TwoPath(nn.Module):
    """A small image model with a skip connection, in-place activations, and names from the draw.

    entry -> conv1 -> act1 -> h;  h + block(h), averaged over space -> mid -> act3 -> head
    """

    def __init__(self, names: dict[str, str], order: list[str], weights: dict[str, Tensor]) -> None:
        """`names` maps places to module names; modules are defined in `order`, which is not that of execution."""
        super().__init__()
        conv1, conv2 = nn.Conv2d(4, 4, 3, padding=1), nn.Conv2d(4, 4, 1)
        mid, head = nn.Linear(4, 4), nn.Linear(4, 3)
        for place, module in {"conv1": conv1, "conv2": conv2, "mid": mid, "head": head}.items():
            module.load_state_dict({"weight": weights[place], "bias": weights[place + ".bias"]})
        act2 = nn.LeakyReLU(0.25, inplace=True)
        parts = {
            "entry": nn.Dropout(0.5),
            "conv1": conv1,
            "act1": nn.LeakyReLU(0.5, inplace=True),
            "block": nn.Sequential(OrderedDict([(names["conv2"], conv2), (names["act2"], act2)])),
            "mid": mid,
            "act3": nn.LeakyReLU(0.125),
            "head": head,
        }
        for place in order:
            self.add_module(names[place], parts[place])
        self.places = dict(names)
        self.fuse: bool | Tensor = False

    def forward(self, x: Tensor) -> Tensor:
        """Scores, one row for each image; raises `Boom` shortly before the end when the fuse is set.

        A fuse may be an image: then it raises only when this image is among those in `x`.
        """
        entry, conv1, act1, block, mid, act3, head = (self.get_submodule(self.places[place]) for place in PLACES)
        burns = any(torch.equal(image, self.fuse) for image in x) if isinstance(self.fuse, Tensor) else self.fuse
        h = act1(conv1(entry(x)))
        h = act3(mid((h + block(h)).mean((2, 3))))
        if burns:
            raise Boom
        return head(h)


def two_path(net: dict[str, Any]) -> TwoPath:
    """The model of a draw. `entry` is a Dropout in eval mode: it hands on the very tensor that it gets."""
    model = TwoPath(net["names"], net["order"], net["weights"])
    model.train(net["train"])
    model.get_submodule(net["names"]["entry"]).eval()
    return model


def dotted(net: dict[str, Any], place: str) -> str:
    """The module name of a place, as `named_modules` gives it."""
    names = net["names"]
    return f"{names['block']}.{names[place]}" if place in ("conv2", "act2") else names[place]


def observed(model: TwoPath, name: str, call: Callable[[], Any], x: Tensor) -> dict[str, Any]:
    """What `call()` returns, and what it did to the model: hooks, modes, state, and a plain run afterwards on `x`."""
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    fired: list[int] = []
    model.get_submodule(name).register_forward_hook(lambda *_: fired.append(1))  # one of the caller's
    hooks, modes = module_hooks(model), [module.training for module in model.modules()]
    state = {key: value.clone() for key, value in model.state_dict().items()}
    seen = {"result": call(), "records": torch.is_grad_enabled()}
    torch.set_grad_enabled(True)
    return {
        **seen,
        "caller_fired": bool(fired),
        "hooks_left": module_hooks(model) - hooks,
        "modes_kept": [module.training for module in model.modules()] == modes,
        "weights_kept": all(torch.equal(value, state[key]) for key, value in model.state_dict().items()),
        "trainable": all(p.requires_grad for p in model.parameters()),
        "grads_kept": all(p.grad is not None and bool((p.grad == 1).all()) for p in model.parameters()),
        "later": snapshot(model(x)),
    }


def after_boom(model: TwoPath, call: Callable[[], Any], fuse: bool | Tensor = True) -> dict[str, Any]:
    """Run `call()` with this fuse in the model, and tell what came of it."""
    seen: dict[str, Any] = {}
    hooks, modules = module_hooks(model), list(model.named_modules())
    modes, state = [module.training for _, module in modules], {k: v.clone() for k, v in model.state_dict().items()}
    model.fuse = fuse
    with expecting_boom(seen):
        call()
    records = torch.is_grad_enabled()
    torch.set_grad_enabled(True)
    same = list(model.named_modules()) == modules and [module.training for _, module in modules] == modes
    return {
        **seen,
        "hooks_after_exception": module_hooks(model) - hooks,
        "records_after_exception": records,
        "kept_after_exception": same and all(torch.equal(v, state[k]) for k, v in model.state_dict().items()),
    }


def back_to_normal(seen: Seen, when: str = "") -> None:
    """After an exception: it came through, no hook is left, gradients are tracked, the model is as before."""
    expect(Seen(seen["exception"].value, f"exception{when}")).equals("propagated")
    expect(Seen(seen["hooks_after_exception"].value, f"hooks after an exception{when}")).equals(0)
    expect(seen["records_after_exception"]).is_true(
        f"gradient tracking is still switched off after an exception{when}: use `with torch.no_grad():`"
    )
    expect(seen["kept_after_exception"]).is_true(
        f"after an exception{when} the model is not as before: another module, mode or weight"
    )


def drawn_net(rng, train: bool) -> dict[str, Any]:
    """Names, order of definition, weights and mode of a `TwoPath`."""
    places = [*PLACES, "conv2", "act2"]
    shapes = {"conv1": (4, 4, 3, 3), "conv2": (4, 4, 1, 1), "mid": (4, 4), "head": (3, 4)}
    weights = {place: rng.tensor(*shape, low=-1, high=1) for place, shape in shapes.items()}
    weights |= {place + ".bias": rng.tensor(shape[0], low=-1, high=1) for place, shape in shapes.items()}
    return {
        "names": dict(zip(places, rng.names(len(places)))),
        "order": rng.shuffled(PLACES),
        "weights": weights,
        "train": train,
    }


def composed(
    net: dict[str, Any], x: Tensor, place: str = "", after: Any = None, before: Any = None
) -> dict[str, Tensor]:
    """What each place of the model gives, by direct composition of functions.

    `after` edits the output of `place`, `before` its input. Keys are places; `<place> in` is an input.
    """
    w, seen = net["weights"], {}

    def step(name: str, function: Callable[[Tensor], Tensor], value: Tensor) -> Tensor:
        seen[name + " in"] = value = before(value) if before and name == place else value
        value = function(value)
        seen[name] = value = after(value) if after and name == place else value
        return value

    def branch(h: Tensor) -> Tensor:
        h = step("conv2", lambda t: F.conv2d(t, w["conv2"], w["conv2.bias"]), h)
        return step("act2", lambda t: F.leaky_relu(t, 0.25), h)

    h = step("entry", lambda t: t, x)
    h = step("conv1", lambda t: F.conv2d(t, w["conv1"], w["conv1.bias"], padding=1), h)
    h = step("act1", lambda t: F.leaky_relu(t, 0.5), h)
    h = (h + step("block", branch, h)).mean((2, 3))
    h = step("mid", lambda t: t @ w["mid"].T + w["mid.bias"], h)
    h = step("act3", lambda t: F.leaky_relu(t, 0.125), h)
    step("head", lambda t: t @ w["head"].T + w["head.bias"], h)
    return seen


def written(value: Tensor, indices: list[int], source: Tensor | float, dim: int = 1) -> Tensor:
    """A copy of `value` whose entries at `indices` of `dim` are those of `source`."""
    copy = value.clone()
    at = (slice(None),) * dim + (indices,)
    copy[at] = source[at] if isinstance(source, Tensor) else source
    return copy


def all_different(*tensors: Tensor) -> bool:
    """Whether every two of these differ clearly."""
    return all((a - b).abs().max() > 1e-2 for i, a in enumerate(tensors) for b in tensors[i + 1 :])


FOUR_DIMENSIONS = (
    "The output of a module may have two dimensions, as that of a Linear. `output[:, channels]` indexes dimension 1 "
    "whatever comes after it."
)
CHANGED_CALLERS_TENSOR = (
    "Your hook edited `output` in place. Some modules (Dropout in eval mode, Identity, Flatten) hand on the tensor "
    "that they were given, so the edit reached the caller's input. Clone, edit the clone, return it."
)


@exercise(
    "06-ablate-channels",
    points=2,
    title="Switch channels off",
    hints=(
        "In a forward hook: clone the output, set the channels to 0 in the clone, return the clone.",
        "Channels are dimension 1: `clone[:, channels] = 0` works for any number of dimensions, and for no channels.",
        "Clean up: `with layer.register_forward_hook(hook):` removes the hook also when the model raises.",
    ),
    cases=(
        {"place": "conv2", "train": True},
        {"place": "mid", "train": False},
        {"place": "act1", "train": True},
        {"place": "entry", "train": False},
    ),
)
class TestAblateChannels:
    """Write `ablate_channels(model, name, channels, x)`. `name` is the name of a submodule as in `named_modules()`,
    possibly nested (`"block.0"`). In one forward pass it is called once, and its output is a tensor of two or more
    dimensions. `channels` is a list of indices into dimension 1 of that output; it may be empty.

    Return what `model(x)` gives when the listed channels of the submodule's output are 0 and everything after it
    computes with that. The result is detached. With an empty list it is the ordinary output of the model.

    `x`, the list `channels`, the modules of the model, their weights (and their `.grad`) and modes stay as they are,
    and gradient tracking is on afterwards as before. No hook of yours is left. All this holds even when the model
    raises; the exception comes through. Hooks that were there before stay and fire.

    **Example.** Let `model = nn.Sequential(nn.Linear(1, 2), nn.Linear(2, 1))` with `model[0]` giving `[[3., 4.]]` for
    `x`, and `model[1]` adding its two inputs. Then `ablate_channels(model, "0", [1], x)` is `tensor([[3.]])`.
    """

    def draw(rng, place, train):
        return {
            "net": drawn_net(rng, train),
            "x": rng.tensor(4, 4, 4, 4),
            "place": place,
            "channels": rng.shuffled(range(4))[: rng.integer(2, 3)],
        }

    def alive(net, x, place, channels):
        results = [composed(net, x)["head"], ablated(net, x, place, channels), *on_wrong_axes(net, x, place, channels)]
        if place in ("conv2", "mid"):
            results.append(composed(net, x, place, before=lambda value: written(value, channels, 0.0))["head"])
        return all_different(*results)

    def probe(student, net, x, place, channels):
        name, mine, given = dotted(net, place), x.clone(), list(channels)
        model = two_path(net)
        seen = observed(model, name, lambda: student.ablate_channels(model, name, given, mine), x.clone())
        seen |= {"x": snapshot(mine), "channels": given}
        tracked = place != "entry"  # there, an edit in place would end in another error
        leaf = x.clone().requires_grad_(tracked)
        seen["empty"] = student.ablate_channels(two_path(net), name, [], leaf)
        seen["leaf_kept"] = leaf.requires_grad is tracked and leaf.grad is None
        raising = two_path(net)
        return seen | after_boom(raising, lambda: student.ablate_channels(raising, name, list(channels), x.clone()))

    mistakes = (
        Mistake(
            "edited-weights",
            lambda seen: seen["weights_kept"].value is False,
            "You changed the weights, so every later run of the model differs, too. Change the output of the module "
            "in a forward hook; that also works for modules without weights.",
            raises="has no attribute 'weight'",
        ),
        Mistake(
            "forgot-return",
            lambda seen, net, x: close(seen["result"], composed(net, x)["head"]),
            "This is the ordinary output of the model: the zeros did not arrive. A forward hook that returns `None` "
            "keeps the old output. Return the changed tensor.",
        ),
        Mistake(
            "changed-the-input",
            lambda seen, net, x, place, channels: (
                (
                    place in ("conv2", "mid")
                    and close(
                        seen["result"],
                        composed(net, x, place, before=lambda value: written(value, channels, 0.0))["head"],
                    )
                )
                or (place != "entry" and close(seen["result"], composed(net, written(x, channels, 0.0))["head"]))
            ),
        ),
        Mistake(
            "wrong-axis",
            lambda seen, net, x, place, channels: any(
                close(seen["result"], result) for result in on_wrong_axes(net, x, place, channels)
            ),
            "You switched off another axis. Channels are dimension 1 of the output; dimension 0 is the batch: "
            "`output[:, channels]`.",
        ),
        Mistake(
            "four-dimensions-only",
            raises=("too many indices for tensor of dimension 2", "Dimension out of range"),
            message=FOUR_DIMENSIONS,
        ),
        Mistake(
            "changed-callers-tensor",
            lambda seen, net, x, place, channels: (
                close(seen["result"], ablated(net, x, place, channels)) and not close(seen["x"], x)
            ),
            CHANGED_CALLERS_TENSOR,
        ),
        Mistake("hook-left-behind", lambda seen: seen["hooks_left"].value > 0),
        Mistake(
            "hook-left-after-exception",
            lambda seen: seen["hooks_left"].value == 0 and seen["hooks_after_exception"].value > 0,
        ),
    )

    def test_the_listed_channels_are_off(seen, net, x, place, channels):
        expect(seen["result"]).close_to(ablated(net, x, place, channels), detached=False)

    def test_an_empty_list_changes_nothing(seen, net, x):
        expect(seen["empty"]).close_to(composed(net, x)["head"], detached=False)

    def test_the_result_is_detached(seen, net, x, place, channels):
        expect(seen["result"]).close_to(ablated(net, x, place, channels))
        expect(seen["empty"]).close_to(composed(net, x)["head"])

    def test_x_and_the_model_are_as_before(seen, net, x, channels):
        expect(seen["x"]).close_to(x)
        expect(seen["leaf_kept"]).is_true("an `x` that requires grad has a `.grad` now, or no longer requires grad")
        expect(seen["channels"]).equals(channels)
        expect(seen["weights_kept"]).is_true("the weights of the model have changed")
        expect(seen["trainable"]).is_true("a weight of the model no longer requires grad")
        expect(seen["grads_kept"]).is_true("the `.grad` of a weight of the model has changed")
        expect(seen["records"]).is_true("gradient tracking is still switched off after your function returned")
        expect(seen["modes_kept"]).is_true("a module of the model has changed its mode (train or eval)")
        expect(seen["later"]).close_to(composed(net, x)["head"])

    def test_no_hook_is_left_and_others_stay(seen):
        expect(seen["hooks_left"]).equals(0)
        expect(seen["caller_fired"]).is_true("a hook that the caller had registered did not fire")

    def test_nothing_is_left_when_the_model_raises(seen):
        back_to_normal(seen)


def ablated(net: dict[str, Any], x: Tensor, place: str, channels: list[int], dim: int = 1) -> Tensor:
    """The model's output with these channels of a place at 0."""
    return composed(net, x, place, after=lambda value: written(value, channels, 0.0, dim))["head"]


def on_wrong_axes(net: dict[str, Any], x: Tensor, place: str, channels: list[int]) -> list[Tensor]:
    """The model's output when another axis than 1 was indexed."""
    return [ablated(net, x, place, channels, dim) for dim in ((0,) if place == "mid" else (0, 2, 3))]


@exercise(
    "06-patch-activation",
    points=3,
    title="Transplant an activation",
    hints=(
        "Two runs: one on `clean`, in which a hook keeps a copy of the module's output, and one on `corrupt`, in "
        "which another hook puts it in.",
        "Take the snapshot with `.detach().clone()`: the next module may work in place. Remove the first hook before "
        "the second run.",
        "For a part of the channels: clone the output of the corrupt run, write the clean channels into the clone, "
        "and return it. `None` and `[]` are two different things.",
    ),
    cases=(
        {"place": "conv1", "train": True},
        {"place": "conv2", "train": False},
        {"place": "mid", "train": True},
        {"place": "entry", "train": False},
    ),
)
class TestPatchActivation:
    """Write `patch_activation(model, name, clean, corrupt, channels=None)`. `clean` and `corrupt` are two inputs of
    the same shape. `name` is the name of a submodule as in `named_modules()`. In one forward pass it is called once,
    and its output is a tensor of two or more dimensions.

    Return what `model(corrupt)` gives when the submodule's output is replaced by the one that it has in
    `model(clean)`. With `channels=None` all of it is replaced. With a list, only the channels of the list (indices
    into dimension 1) are replaced, and the others stay those of the corrupt run; an empty list gives the ordinary
    output for `corrupt`. The result is detached. The modules that follow may work in place.

    `clean`, `corrupt`, the list `channels`, the modules of the model, their weights (and their `.grad`) and modes stay
    as they are, and gradient tracking is on afterwards as before. No hook of yours is left. All this holds even when
    the model raises, in whichever run; the exception comes through. Hooks that were there before stay and fire.

    **Example.** In `model = nn.Sequential(nn.Linear(1, 2), nn.Linear(2, 1))`, let `model[0]` give `[[3., 4.]]` for
    `clean` and `[[5., 6.]]` for `corrupt`, and let `model[1]` add its two inputs. Then
    `patch_activation(model, "0", clean, corrupt)` is `tensor([[7.]])`, and with `channels=[1]` it is `tensor([[9.]])`.
    """

    def draw(rng, place, train):
        return {
            "net": drawn_net(rng, train),
            "clean": rng.tensor(4, 4, 4, 4),
            "corrupt": rng.tensor(4, 4, 4, 4),
            "place": place,
            "channels": rng.shuffled(range(4))[: rng.integer(2, 3)],
        }

    def alive(net, clean, corrupt, place, channels):
        given = (net, clean, corrupt, place, channels)
        results = [
            *(composed(net, x)["head"] for x in (clean, corrupt)),
            patched(*given),
            patched(net, corrupt, clean, place, channels),
            *on_other_axes(*given),
        ]
        if place in ("conv1", "conv2"):
            results.append(patched_after_in_place(*given))
        if place == "conv2":  # beside the skip connection: no bottleneck
            results += [patched(net, clean, corrupt, place, None), patched_after_in_place(*given[:4], None)]
        if place != "entry":
            results.append(patched_input(*given))
            stored_input = composed(net, clean)[place + " in"]
            results.append(composed(net, corrupt, place, after=lambda _: stored_input)["head"])
        return all_different(*results)

    def probe(student, net, clean, corrupt, place, channels):
        name = dotted(net, place)
        seen = {}
        for key, extra in (("full", ()), ("part", (list(channels),)), ("empty", ([],))):
            model, pair = two_path(net), (clean.clone(), corrupt.clone())
            extra = tuple(list(listed) for listed in extra)  # the caller's own

            def call(model=model, pair=pair, extra=extra):
                return student.patch_activation(model, name, *pair, *extra)

            seen[key] = observed(model, name, call, corrupt.clone())
            seen[key] |= {"clean": snapshot(pair[0]), "corrupt": snapshot(pair[1]), "channels": [*extra]}
        seen["exchanged"] = student.patch_activation(model, name, corrupt.clone(), clean.clone())
        for key, fuse in (("raised_at_once", True), ("raised_on_corrupt", corrupt[0])):
            model = two_path(net)

            def call(model=model):
                return student.patch_activation(model, name, clean.clone(), corrupt.clone())

            seen[key] = after_boom(model, call, fuse)
        return seen

    mistakes = (
        Mistake(
            "forgot-return",
            lambda seen, net, corrupt: all(
                close(seen[key]["result"], composed(net, corrupt)["head"]) for key in ("full", "part")
            ),
            "This is the ordinary output for `corrupt`: the patch did not arrive. Either your hook returned `None`, or "
            "the hook that keeps the clean output was still there in the second run and overwrote what it had kept.",
        ),
        Mistake(
            "swapped-runs",
            lambda seen, net, clean, corrupt, place, channels: all(
                close(seen[key]["result"], patched(net, corrupt, clean, place, listed))
                for key, listed in (("full", None), ("part", channels))
            ),
            "The roles are exchanged: you ran the model on `clean` with a part of the corrupt run. Run `corrupt`, and "
            "patch in what comes from `clean`.",
        ),
        Mistake(
            "ignored-channels",
            lambda seen, net, clean, corrupt, place: close(
                seen["part"]["result"], patched(net, clean, corrupt, place, None)
            ),
            "You replaced the whole output. When `channels` is a list, only the listed channels come from the clean "
            "run; the others stay those of the corrupt run.",
        ),
        Mistake(
            "empty-means-all",
            lambda seen, net, clean, corrupt, place, channels: (
                close(seen["part"]["result"], patched(net, clean, corrupt, place, channels))
                and close(seen["empty"]["result"], patched(net, clean, corrupt, place, None))
            ),
            "An empty list made you replace everything. `if channels:` is false for `[]` as well as for `None`; ask "
            "`if channels is None`.",
        ),
        Mistake(
            "changed-the-input",
            lambda seen, net, clean, corrupt, place, channels: (
                place != "entry" and close(seen["part"]["result"], patched_input(net, clean, corrupt, place, channels))
            ),
            "You patched what goes into the module. The task is about what comes out: use forward hooks, and keep "
            "`output` of the clean run.",
        ),
        Mistake(
            "stored-the-input",
            lambda seen, net, clean, corrupt, place: (
                place != "entry"
                and close(
                    seen["full"]["result"],
                    composed(net, corrupt, place, after=lambda _: composed(net, clean)[place + " in"])["head"],
                )
            ),
        ),
        Mistake(
            "stored-alias",
            lambda seen, net, clean, corrupt, place, channels: (
                place in ("conv1", "conv2")
                and close(seen["part"]["result"], patched_after_in_place(net, clean, corrupt, place, channels))
            ),
            "You kept a reference to the clean output, and the in-place module that follows rewrote it before you "
            "used it. Keep a copy: `output.detach().clone()`.",
        ),
        Mistake(
            "wrong-axis",
            lambda seen, net, clean, corrupt, place, channels: any(
                close(seen["part"]["result"], result) for result in on_other_axes(net, clean, corrupt, place, channels)
            ),
            "You patched along another axis. Channels are dimension 1 of the output; dimension 0 is the batch: "
            "`output[:, channels]`.",
        ),
        Mistake(
            "four-dimensions-only",
            raises=("too many indices for tensor of dimension 2", "Dimension out of range"),
            message=FOUR_DIMENSIONS,
        ),
        Mistake(
            "changed-callers-tensor",
            lambda seen, net, clean, corrupt, place, channels: (
                close(seen["part"]["result"], patched(net, clean, corrupt, place, channels))
                and any(not close(seen[key]["corrupt"], corrupt) or not close(seen[key]["clean"], clean)
                        for key in ("full", "part", "empty"))
            ),
            CHANGED_CALLERS_TENSOR,
        ),
        Mistake("hook-left-behind", lambda seen: any(seen[key]["hooks_left"].value > 0 for key in ("full", "part"))),
        Mistake(
            "hook-left-after-exception",
            lambda seen: (
                seen["full"]["hooks_left"].value == 0
                and any(seen[key]["hooks_after_exception"].value > 0 for key in ("raised_at_once", "raised_on_corrupt"))
            ),
        ),
    )  # fmt: skip

    def test_the_whole_output_comes_from_the_clean_run(seen, net, clean, corrupt, place):
        expect(named(seen, "full")).close_to(patched(net, clean, corrupt, place, None), detached=False)

    def test_only_the_listed_channels_are_replaced(seen, net, clean, corrupt, place, channels):
        expect(named(seen, "part")).close_to(patched(net, clean, corrupt, place, channels), detached=False)

    def test_an_empty_list_changes_nothing(seen, net, corrupt):
        expect(named(seen, "empty")).close_to(composed(net, corrupt)["head"], detached=False)

    def test_a_later_call_starts_afresh(seen, net, clean, corrupt, place):
        expect(Seen(seen["exchanged"].value, "on the same model, with the inputs exchanged")).close_to(
            patched(net, corrupt, clean, place, None), detached=False
        )

    def test_the_result_is_detached(seen):
        for key in ("full", "part", "empty"):
            result = seen[key]["result"].value
            expect(Seen(getattr(result, "requires_grad", True))).is_false("the result still requires grad; detach it")

    def test_inputs_and_model_are_as_before(seen, net, clean, corrupt, channels):
        for key in ("full", "part", "empty"):
            expect(Seen(seen[key]["clean"].value, "clean")).close_to(clean)
            expect(Seen(seen[key]["corrupt"].value, "corrupt")).close_to(corrupt)
            expect(seen[key]["weights_kept"]).is_true("the weights of the model have changed")
            expect(seen[key]["trainable"]).is_true("a weight of the model no longer requires grad")
            expect(seen[key]["grads_kept"]).is_true("the `.grad` of a weight of the model has changed")
            expect(seen[key]["records"]).is_true("gradient tracking is still switched off after your function returned")
            expect(seen[key]["modes_kept"]).is_true("a module of the model has changed its mode (train or eval)")
            expect(Seen(seen[key]["later"].value, "a later run")).close_to(composed(net, corrupt)["head"])
        expect(Seen(seen["part"]["channels"][0].value, "channels")).equals(channels)

    def test_no_hook_is_left_and_others_stay(seen):
        for key in ("full", "part", "empty"):
            expect(Seen(seen[key]["hooks_left"].value, "hooks left")).equals(0)
            expect(seen[key]["caller_fired"]).is_true("a hook that the caller had registered did not fire")

    def test_nothing_is_left_when_the_model_raises(seen):
        back_to_normal(seen["raised_at_once"], " in the first run")
        back_to_normal(seen["raised_on_corrupt"], " in the run on `corrupt`")


def named(seen: Seen, key: str) -> Seen:
    """The result of one of the three calls, with a path that says which."""
    path = {"full": "without `channels`", "part": "with `channels`", "empty": "with an empty list"}[key]
    return Seen(seen[key]["result"].value, path)


def patched(
    net: dict[str, Any], clean: Tensor, corrupt: Tensor, place: str, channels: list[int] | None, dim: int = 1
) -> Tensor:
    """The model's output on `corrupt` with a place patched from `clean`."""
    source = composed(net, clean)[place]
    edit = (lambda value: source) if channels is None else (lambda value: written(value, channels, source, dim))
    return composed(net, corrupt, place, after=edit)["head"]


def patched_input(net: dict[str, Any], clean: Tensor, corrupt: Tensor, place: str, channels: list[int]) -> Tensor:
    """The same with the input of the place patched instead of its output."""
    source = composed(net, clean)[place + " in"]
    return composed(net, corrupt, place, before=lambda value: written(value, channels, source))["head"]


def patched_after_in_place(
    net: dict[str, Any], clean: Tensor, corrupt: Tensor, place: str, channels: list[int] | None
) -> Tensor:
    """The same with the clean output as the in-place activation after it has left it."""
    source = composed(net, clean)[{"conv1": "act1", "conv2": "act2"}[place]]
    edit = (lambda value: source) if channels is None else (lambda value: written(value, channels, source))
    return composed(net, corrupt, place, after=edit)["head"]


def on_other_axes(net: dict[str, Any], clean: Tensor, corrupt: Tensor, place: str, channels: list[int]) -> list[Tensor]:
    """The model's output when another axis than 1 was patched."""
    axes = (0,) if place == "mid" else (0, 2, 3)
    return [patched(net, clean, corrupt, place, channels, axis) for axis in axes]
