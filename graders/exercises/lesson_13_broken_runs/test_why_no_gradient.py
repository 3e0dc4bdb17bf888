"""Exercise 13-why-no-gradient."""

import copy

import torch
from torch.nn.modules.module import register_module_forward_pre_hook

from graders.exercises.authoring import exercise
from graders.exercises.lesson_13_broken_runs.programs import State
from graders.exercises.lesson_13_broken_runs.reasons import held_by, one_pass, reasons, told
from graders.exercises.lesson_13_broken_runs.ways import WITHOUT
from graders.scenes.scene import stories
from graders.scenes.stories import inspected_passes as passes


@exercise(
    "13-why-no-gradient",
    points=3,
    minutes=30,
    difficulty=3,
    core=True,
    title="Why a parameter gets no gradient",
    hints=(
        "Which modules are called? A forward pre-hook on each will tell you (lesson 5). Which parameters get a "
        "gradient, and what is it? A hook on each parameter that requires grad will tell you (lesson 2), or "
        "`torch.autograd.grad(loss, parameters, allow_unused=True)`, which gives `None` where nothing arrives.",
        "`backward()` adds to `.grad`. Keep `p.grad` of each parameter (and `x.grad`), set it to `None`, and put the "
        "same tensors back in `finally`. `torch.autograd.grad` leaves `.grad` alone (lesson 1).",
        "A parameter that two modules hold appears once in `named_parameters()`. Ask each module for "
        "`parameters(recurse=False)` to find all that hold it (lesson 7).",
        "A layer in training mode may change its buffers (lesson 9). Clone `model.buffers()` first, and `copy_` the "
        "values back under `no_grad`, even when something raises.",
    ),
    why=(
        "`torch.autograd.grad` with `allow_unused=True` gives `None` where no gradient arrives, and touches no "
        "`.grad`; the pre-hooks show which modules were called. `backward()` and a tensor hook on each parameter "
        "would do as well, if you put each `.grad` back."
    ),
    scene=stories(
        promises={
            "each parameter without a gradient has its reason": passes.reported,
            "each call begins anew": (passes.reported_anew, passes.reported_inside),
            "the model and the loss run once": passes.one_run,
            "an exception comes through and nothing is left": passes.something_raises,
            "nothing of the caller changes": passes.nothing_else,
        },
        axes=passes.PASSES,
    ),
    planted=WITHOUT,
)
class TestWhyNoGradient:
    """Write `why_no_gradient(model, loss_fn, x)`. Run `loss_fn(model(x))` once, and go backward. Return a dict: the
    name of each parameter that gets no gradient, or one whose entries are all 0, and why: the first of `"frozen"`,
    `"zero"`, `"never called"` and `"cut"` that is true.

    **Example.**

    >>> model = nn.Sequential(nn.Linear(1, 1), nn.ReLU(), nn.Linear(1, 1))
    >>> for p in model.parameters():
    ...     _ = p.data.fill_(-9)  # a dead ReLU
    >>> why_no_gradient(model, torch.sum, torch.ones(1, 1))
    {'0.weight': 'zero', '0.bias': 'zero', '2.weight': 'zero'}

    **Fine print.** `"frozen"`: the parameter does not require grad. `"zero"`: a gradient arrives, and is exactly 0
    after the tensor hooks on it. `"never called"`: none arrives, and no module that holds the parameter is called in
    this run, although other code may use it. `"cut"`: none arrives, though such a module is called. A module holds its
    `parameters(recurse=False)`; `module.forward(...)` is not a call. The loss may need no gradient. Afterwards
    buffers, and `.grad` of parameters and of `x`, are as before.
    """

    def reference(model, loss_fn, x):
        return told(model, loss_fn, x)

    class Mistakes:
        def old_grad(model, loss_fn, x):
            came, called = one_pass(model, loss_fn, x, clear=False)
            total = {p: p.grad for p in model.parameters() if p.grad is not None}
            return reasons(model, {**came, **total}, held_by(called))

        def old_grad__2(model, loss_fn, x):
            """`backward()` adds to `.grad`, and you read the sum, and leave it there. Set `.grad` to `None` first, and
            put the old tensors back in `finally`.
            """
            before, called = State(model), []
            try:
                with register_module_forward_pre_hook(lambda module, args: called.append(module)):
                    loss = loss_fn(model(x))
                if loss.requires_grad:
                    loss.backward()
            finally:
                before.put_back(["buffers"])
            return reasons(model, {p: p.grad for p in model.parameters() if p.grad is not None}, held_by(called))

        def small_is_not_zero(model, loss_fn, x):
            """You call a small gradient (1e-30, say) zero. `torch.allclose` does so, too, and its square is 0;
            `grad.any()` and `(grad == 0).all()` see it.
            """
            return told(model, loss_fn, x, zero=lambda grad: bool((grad.abs() < 1e-8).all()))

        def small_is_not_zero__2(model, loss_fn, x):
            return told(model, loss_fn, x, zero=lambda grad: (grad * grad).sum() == 0)

        def sum_is_zero(model, loss_fn, x):
            """You call a gradient zero because its entries add up to 0, as in [2, -2]. `"zero"` is one in which *all*
            entries are 0: `(grad == 0).all()`, or `not grad.any()`.
            """
            return told(model, loss_fn, x, zero=lambda grad: grad.sum() == 0)

        def zeros_left_out(model, loss_fn, x):
            """A gradient of zeros has arrived, and you leave this parameter out: its reason is `"zero"`."""
            return told(model, loss_fn, x, zero=lambda grad: False)

        def used_by_other_code(model, loss_fn, x):
            """You list a parameter that gets a gradient. Its module is never called, but other code uses its weight:
            ask first what arrives at the parameter, and only then why.
            """
            came, called = one_pass(model, loss_fn, x)
            held = held_by(called)
            return reasons(model, {p: grad for p, grad in came.items() if p in held}, held)

        def frozen_comes_first(model, loss_fn, x):
            """A parameter that does not require grad is `"frozen"`, whatever else there is to say about it."""
            came, called = one_pass(model, loss_fn, x)
            held = held_by(called)
            frozen = {name for name, p in model.named_parameters() if not p.requires_grad and p not in held}
            return {**reasons(model, came, held), **dict.fromkeys(frozen, "never called")}

        def zero_comes_before_never_called(model, loss_fn, x):
            """You report `"never called"` for a parameter at which a gradient of zeros arrives: other code uses it. In
            the list, `"zero"` comes first.
            """
            came, called = one_pass(model, loss_fn, x)
            found, held = reasons(model, came, held_by(called)), held_by(called)
            unheld = {name for name, p in model.named_parameters() if p not in held and p.requires_grad}
            return {name: "never called" if name in unheld else why for name, why in found.items()}

        def on_a_deep_copy(model, loss_fn, x):
            """You ran a deep copy of the model, and the hooks on its parameters are not in the copy: one of them makes
            a gradient zero. Run the model itself.
            """
            return told(copy.deepcopy(model), loss_fn, x)

        def never_called_is_not_cut(model, loss_fn, x):
            """You report `"cut"` for a parameter whose module is never called. A forward pre-hook on each module shows
            which are called; a call of a container is not a call of the modules in it.
            """
            came, _ = one_pass(model, loss_fn, x)
            return reasons(model, came, set(model.parameters()))

        def called_is_called(model, loss_fn, x):
            """You report `"never called"` for a parameter although a module that holds it is called, another one than
            its name says. A parameter may be held by several modules.
            """
            came, called = one_pass(model, loss_fn, x)
            owner = {p: model.get_submodule(name.rpartition(".")[0]) for name, p in model.named_parameters()}
            return reasons(model, came, {p for p in owner if owner[p] in called})

        def none_is_not_zero(model, loss_fn, x):
            """You report `"zero"` for a parameter that no gradient reaches at all. A gradient of zeros is a tensor, as
            after a multiplication by 0; where the graph is cut, there is none.
            """
            found = told(model, loss_fn, x)
            return {name: "frozen" if why == "frozen" else "zero" for name, why in found.items()}

        def none_is_not_zero__2(model, loss_fn, x):
            """You report `"zero"` for a parameter that no gradient reaches at all. Something puts zeros where none
            arrives, as `materialize_grads=True` does, and then nobody can tell: leave it out, and look for `None`.
            """
            came, called = one_pass(model, loss_fn, x)
            zeros = {p: torch.zeros_like(p) for p in model.parameters() if came}  # without a graph there is no pass
            return reasons(model, zeros | came, held_by(called))

        def swapped(model, loss_fn, x):
            """You swapped `"cut"` and `"never called"`. It is `"cut"` where a module that holds the parameter is
            called.
            """
            swap = {"cut": "never called", "never called": "cut"}
            return {name: swap.get(why, why) for name, why in told(model, loss_fn, x).items()}

        def names_of_modules(model, loss_fn, x):
            """The keys of your dict are names of modules. The task asks for those of parameters, as in
            `model.named_parameters()`.
            """
            return {name.rpartition(".")[0]: why for name, why in told(model, loss_fn, x).items()}

        def all_listed(model, loss_fn, x):
            """Parameters that get a gradient are in your dict, too. Leave them out."""
            return dict.fromkeys(dict(model.named_parameters()), "ok") | told(model, loss_fn, x)

        def called_leaves_alone(model, loss_fn, x):
            """You looked at the calls of leaves only. A container, or the model itself, may hold a parameter, too: a
            pre-hook on each of `model.modules()`.
            """
            came, called = one_pass(model, loss_fn, x)
            return reasons(model, came, held_by(module for module in called if not list(module.children())))

        def called_leaves_alone__2(model, loss_fn, x):  # that have the name
            came, called = one_pass(model, loss_fn, x)
            owner = {p: model.get_submodule(name.rpartition(".")[0]) for name, p in model.named_parameters()}
            leaves = [module for module in called if not list(module.children())]
            return reasons(model, came, {p for p in owner if owner[p] in leaves})

        def keys_are_reasons(model, loss_fn, x):
            """Your dict goes from reasons to names. The task asks for the reason of each name."""
            found = told(model, loss_fn, x)
            return {why: [name for name in found if found[name] == why] for why in found.values()}
