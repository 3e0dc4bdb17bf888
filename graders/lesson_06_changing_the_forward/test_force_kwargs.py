"""Exercise 06-force-kwargs."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from graders.authoring import Mistake, Seen, close, exercise, expect, module_hooks, no_hook_left, removed, snapshot
from graders.lesson_06_changing_the_forward.judging import NO_HANDLE
from graders.lesson_06_changing_the_forward.shared import pulled_back


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
            lambda seen, scale, shift, kw, options, x: (
                close(seen["without"], affine(scale, shift, kw, x))
                and close(seen["override"], affine(scale, shift, {**options, **kw}, x))
                and False in seen["forced"].value
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
        no_hook_left(seen["hooks_left"])


def affine(scale: str, shift: str, options: dict[str, float], x: Tensor) -> Tensor:
    """What `Affine` computes with these keyword arguments."""
    return x * options.get(scale, 1.0) + options.get(shift, 0.0)
