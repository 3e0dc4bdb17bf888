"""Exercise 13-changed-by-hooks."""

import copy
from contextlib import contextmanager

import torch

from graders.exercises.authoring import exercise
from graders.exercises.lesson_11_hygiene.programs import KINDS
from graders.exercises.lesson_13_broken_runs.programs import grads_and_buffers_kept
from graders.exercises.lesson_13_broken_runs.ways import CHANGED
from graders.scenes.scene import stories
from graders.scenes.stories import inspected_passes as passes

OF_PARAMETERS = ("_backward_hooks", "_post_accumulate_grad_hooks")


@contextmanager
def without_hooks(model, of_modules=KINDS, of_parameters=OF_PARAMETERS):
    """In the block, the hooks of a model are away; some of them, if you say so."""
    hooks = [getattr(module, kind) for module in model.modules() for kind in of_modules]
    hooks += [getattr(p, kind) or {} for p in model.parameters() for kind in of_parameters]
    kept = [dict(entries) for entries in hooks]
    for entries in hooks:
        entries.clear()
    try:
        yield
    finally:
        for entries, old in zip(hooks, kept):
            entries.update(old)


def one_pass(model, loss_fn, x):
    """What one pass leaves in `.grad`, by name."""
    for leaf in (*model.parameters(), x):
        leaf.grad = None
    loss = loss_fn(model(x))
    if loss.requires_grad:
        loss.backward()
    return {name: p.grad for name, p in model.named_parameters()}


def both(model, loss_fn, x, **which):
    """By name, the gradient without hooks (`which` is for `without_hooks`), and with them."""
    with grads_and_buffers_kept(model, x):
        now = one_pass(model, loss_fn, x)
    with grads_and_buffers_kept(model, x), without_hooks(model, **which):
        before = one_pass(model, loss_fn, x)
    return {name: (before[name], now[name]) for name in now}


def unlike(pairs, equal=lambda a, b: torch.allclose(a, b, rtol=1e-3, atol=0)):
    """The names of those that differ."""
    return [name for name, (a, b) in pairs.items() if not (a is b if a is None or b is None else equal(a, b))]


@exercise(
    "13-changed-by-hooks",
    points=3,
    minutes=35,
    difficulty=3,
    title="Which gradients the hooks change",
    hints=(
        "Two passes answer it: one with the model as it is, one without its hooks. Then compare the gradients, name "
        "by name.",
        "A copy without hooks: `deepcopy` drops the hooks on parameters and keeps those of modules, which you clear on "
        "the copy (lesson 11). Or take the hooks off the model for one pass: a module has four dicts of hooks (lesson "
        "11), and a parameter has `_backward_hooks` and `_post_accumulate_grad_hooks`. Put the same dicts back, in "
        "`finally`.",
        "A post-accumulate-grad hook changes `.grad` itself (lesson 4), which `torch.autograd.grad` does not show. Set "
        "`.grad` to `None`, call `backward()`, read it, and put the old tensor back.",
        "A layer in training mode may change its buffers, and the second pass would begin with different ones (lesson "
        "9). Clone them first, and `copy_` them back under `no_grad`.",
    ),
    why=(
        "A deep copy has no hooks on parameters, and those of its modules can be cleared without touching the model's. "
        "Emptying the dicts of the model itself for one pass would do as well, if all entries go back into them, in "
        "the same order, in `finally`."
    ),
    scene=stories(
        promises={
            "the parameters that hooks change are named": passes.reported,
            "the hooks act as before and their handles remove them": passes.hooks_stay,
            "each call begins anew": (passes.reported_anew, passes.reported_inside),
            "nothing of the caller changes": passes.nothing_else,
            "an exception comes through and nothing is left": passes.something_raises,
        },
        axes=passes.TWO_PASSES,
        impossible=passes.IMPOSSIBLE,
    ),
    planted=CHANGED,
)
class TestChangedByHooks:
    """Write `changed_by_hooks(model, loss_fn, x)`. Return a list, in the order of `model.named_parameters()`: the names
    of the parameters whose gradient would be different without the model's hooks.

    **Example.**

    >>> model = nn.Sequential(nn.Linear(1, 1), nn.Linear(1, 1))
    >>> _ = model[0].weight.register_hook(lambda grad: 2 * grad)
    >>> _ = model[1].register_forward_hook(lambda module, args, output: None)
    >>> changed_by_hooks(model, torch.sum, torch.ones(1, 1))
    ['0.weight']

    **Fine print.** The model's hooks are those of every kind on its modules, itself included, and parameters; none
    removes itself. The gradient is what `loss_fn(model(x)).backward()` leaves in `.grad`, from `None`. The loss uses
    its argument alone, and may need no gradient. `None` and zeros differ. Last digits do not count; small gradients do,
    and all are finite. The model can be copied and is deterministic. Afterwards buffers, `.grad` of parameters and `x`,
    and hooks are as before; their handles still remove them.
    """

    def reference(model, loss_fn, x):
        return unlike(both(model, loss_fn, x))

    class Mistakes:
        def module_hooks_left(model, loss_fn, x):
            """You miss what the hooks on modules change: they were still there in the pass without hooks. A module
            keeps them in four dicts, and a deep copy of a model has them, too.
            """
            return unlike(both(model, loss_fn, x, of_modules=()))

        def parameter_hooks_missed(model, loss_fn, x):
            """You miss what the hooks on parameters change. Either they were still there in the pass without hooks, or
            they were not there in the other one: a deep copy of a model does not have them.
            """
            return unlike(both(model, loss_fn, x, of_parameters=()))

        def accumulated_missed(model, loss_fn, x):
            """You miss what post-accumulate-grad hooks change. Either they were still there in the pass without hooks
            (they sit in `_post_accumulate_grad_hooks`), or they never ran: `torch.autograd.grad` does not call them.
            """
            return unlike(both(model, loss_fn, x, of_parameters=["_backward_hooks"]))

        def parameter_hooks_missed__2(model, loss_fn, x):
            with without_hooks(model, of_modules=()):
                return unlike(both(model, loss_fn, x))

        def accumulated_missed__2(model, loss_fn, x):
            with without_hooks(model, of_modules=(), of_parameters=["_post_accumulate_grad_hooks"]):
                return unlike(both(model, loss_fn, x))

        def last_digits(model, loss_fn, x):
            """You name a parameter whose gradient differs in the last digits only. Compare with a tolerance."""
            return unlike(both(model, loss_fn, x), torch.equal)

        def small_gradients(model, loss_fn, x):
            """You miss a gradient that a hook multiplies, because it is small (about 1e-20). `torch.allclose` has an
            `atol` of 1e-8: give it one that is in proportion to the largest entry of the gradient.
            """
            return unlike(both(model, loss_fn, x), torch.allclose)

        def none_is_not_zero(model, loss_fn, x):
            """You miss parameters that get a gradient in one of the passes and none in the other: that is a
            difference.
            """
            found = both(model, loss_fn, x).items()
            return unlike({name: (a, b) for name, (a, b) in found if a is not None and b is not None})

        def old_grad(model, loss_fn, x):
            found = both(model, loss_fn, x)
            for name, p in model.named_parameters():
                if p.grad is not None:
                    found[name] = [p.grad if grad is None else p.grad + grad for grad in found[name]]
            return unlike(found)

        def module_hooks_left__2(model, loss_fn, x):  # in a deep copy, where they may call layers of the model
            with grads_and_buffers_kept(model, x):
                now = one_pass(model, loss_fn, x)
            with grads_and_buffers_kept(model, x):
                before = one_pass(copy.deepcopy(model), loss_fn, x)
            return unlike({name: (before[name], now[name]) for name in now})

        def module_hooks_left__3(model, loss_fn, x):
            return unlike(both(model, loss_fn, x, of_modules=KINDS[:2]))

        def module_hooks_left__4(model, loss_fn, x):
            return unlike(both(model, loss_fn, x, of_modules=["_forward_hooks", "_backward_hooks"]))

        def module_hooks_left__5(model, loss_fn, x):
            """You miss what backward pre-hooks change: they were still there in the pass without hooks. A module keeps
            its hooks in four dicts, and theirs is `_backward_pre_hooks`.
            """
            return unlike(both(model, loss_fn, x, of_modules=[kind for kind in KINDS if kind != "_backward_pre_hooks"]))

        def buffers_moved_on(model, loss_fn, x):
            """You named a parameter whose gradient no hook changes: it depends on a buffer, which your first pass
            changed before the second. Put the buffers back between the two.
            """
            with grads_and_buffers_kept(model, x):
                now = one_pass(model, loss_fn, x)
                with without_hooks(model):
                    before = one_pass(model, loss_fn, x)
            return unlike({name: (before[name], now[name]) for name in now})

        def buffers_moved_on__2(model, loss_fn, x):  # the other pass comes first
            with grads_and_buffers_kept(model, x):
                with without_hooks(model):
                    before = one_pass(model, loss_fn, x)
                now = one_pass(model, loss_fn, x)
            return unlike({name: (before[name], now[name]) for name in now})

        def unchanged(model, loss_fn, x):
            """You listed the parameters whose gradient stays the same. The task asks for the others."""
            found = both(model, loss_fn, x)
            changed = unlike(found)
            return [name for name in found if name not in changed]

        def names_of_modules(model, loss_fn, x):
            """You listed names of modules. The task asks for those of parameters, as in `model.named_parameters()`."""
            return list(dict.fromkeys(name.rpartition(".")[0] for name in unlike(both(model, loss_fn, x))))

        def another_order(model, loss_fn, x):
            """The names are right, but in another order than that of `model.named_parameters()`."""
            return sorted(unlike(both(model, loss_fn, x)))

        def size_alone(model, loss_fn, x):
            """You compared the norms of the gradients. A hook may reorder the entries of one or flip its sign, and
            the norm stays: compare entry by entry.
            """
            return unlike(both(model, loss_fn, x), lambda a, b: torch.allclose(a.norm(), b.norm(), rtol=1e-3, atol=0))

        def size_alone__2(model, loss_fn, x):
            return unlike(both(model, loss_fn, x), lambda a, b: torch.allclose(a.sum(), b.sum(), rtol=1e-3, atol=0))

        def own_hooks(model, loss_fn, x):
            """You went by which parameters or modules have hooks. A hook may change the gradients of other layers, and
            one that watches changes none: compare a pass with hooks and one without.
            """
            return [n for n, p in model.named_parameters() if any(getattr(p, kind) for kind in OF_PARAMETERS)]

        def own_hooks__2(model, loss_fn, x):
            hooked = [name for name, module in model.named_modules() if any(getattr(module, kind) for kind in KINDS)]
            of_parameters = [n for n, p in model.named_parameters() if any(getattr(p, kind) for kind in OF_PARAMETERS)]
            return [n for n, _ in model.named_parameters() if n in of_parameters or n.rpartition(".")[0] in hooked]

        def zeros_are_none(model, loss_fn, x):
            """You took a gradient of zeros for none. Where a hook cuts the graph, the gradient is `None`; without the
            hook it may be zeros, and that is a difference.
            """
            zeros = {n: torch.zeros_like(p) for n, p in model.named_parameters()}
            found = both(model, loss_fn, x).items()
            return unlike({n: [zeros[n] if grad is None else grad for grad in pair] for n, pair in found})
