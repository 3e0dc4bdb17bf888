"""Exercise 07-watch-module-grads."""

from functools import partial

from graders.exercises.authoring import exercise
from graders.exercises.lesson_07_module_backward_hooks.programs import Handles, each
from graders.scenes.scene import stories
from graders.scenes.stories import watching_modules as modules


def copies(grads):
    """A copy of each gradient."""
    return each(grads, lambda grad: grad.detach().clone())


def keep(d, module, grad_input, grad_output):
    """What a hook does that watches."""
    d["gi"], d["go"] = copies(grad_input), copies(grad_output)


def watched(module, hook, kind="register_full_backward_hook", d=None, **how):
    """A dict, and the handle of a hook that gets it as its first argument."""
    d = {} if d is None else d
    return d, getattr(module, kind)(partial(hook, d), **how)


@exercise(
    "07-watch-module-grads",
    points=1,
    minutes=15,
    difficulty=1,
    core=True,
    title="Watch the gradients of a module",
    hints=(
        "The hook that you need is `module.register_full_backward_hook(hook)`. It is called as "
        "`hook(module, grad_input, grad_output)`.",
        "An entry of `grad_input` or `grad_output` may be `None`. Keep it as `None`, and store "
        "`entry.detach().clone()` for a tensor.",
        'Change the dict that you return (`d["gi"] = ...`) instead of making a new one. Let the hook return nothing, '
        "so that the gradients stay as they are.",
    ),
    why=(
        "The hook changes the entries of the dict that was returned, and returns nothing, so the gradients stay as "
        "they are. An object with `__call__` would do as well; `None` entries belong to inputs or outputs that "
        "have no gradient, and stay."
    ),
    scene=stories(
        promises={
            "the gradients of inputs and outputs are recorded": modules.RECORDED,
            "the latest pass is kept": modules.latest,
            "the entries are copies without a graph": modules.COPIES,
            "a missing gradient is None, and any layout will do": (
                modules.of_data,
                modules.of_several,
                modules.transposed,
            ),
            "each call has a dict of its own": modules.OWN,
            "the gradients stay as they are": modules.SAME,
            "the handle ends the watching and nothing else": modules.HANDLES,
        },
        axes=modules.MODULE,
    ),
)
class TestWatchModuleGrads:
    """Write `watch_module_grads(module)`. Return a tuple of a dict and a handle. The dict is empty at first. After each
    backward pass it holds two tuples, as a full backward hook gets them: `"gi"`, the gradients of the module's inputs,
    and `"go"`, those of its outputs.

    **Example.**

    >>> module, x = torch.nn.Tanh(), torch.tensor([0.0], requires_grad=True)
    >>> d, handle = watch_module_grads(module)
    >>> (3 * module(x)).sum().backward()
    >>> d
    {"gi": (tensor([3.]),), "go": (tensor([3.]),)}

    **Fine print.** Each tensor is a copy without a graph, so nothing that happens later changes it. An entry is `None`
    where the hook gets `None`. No gradient changes. In one pass the module is called once. `handle.remove()` ends the
    watching: later calls of the module change nothing in the dict.
    """

    def reference(module):
        return watched(module, keep)

    class Mistakes:
        def deprecated_hook(module):
            """`grad_input` has the shape of an operation inside the module, not of the module's input. That is what the
            deprecated `register_backward_hook` reports. Use `register_full_backward_hook`.
            """
            return watched(module, keep, "register_backward_hook")

        def swapped_arguments(module):
            """You took the arguments in the wrong order: a full backward hook is called with the module, then
            `grad_input`, then `grad_output`.
            """
            return watched(module, lambda d, m, gi, go: keep(d, m, go, gi))

        def returned_something(module):
            """Your hook returned something, and PyTorch took it for a new `grad_input`. A hook that only watches
            returns `None`.
            """
            return watched(module, lambda d, m, gi, go: keep(d, m, gi, go) or (d["gi"], d["go"]))

        def returned_something__2(module):
            return watched(module, lambda d, m, gi, go: keep(d, m, gi, go) or d["gi"])

        def first_pass_only(module):
            """Your dict keeps the first pass, and later ones change nothing. It holds the latest: write both entries
            each time the hook fires.
            """
            return watched(module, lambda d, *given: None if d else keep(d, *given))

        def copied_none(module):
            """An entry of `grad_input` or `grad_output` is `None` where there is no gradient, and `None` cannot be
            copied: keep it as it is.
            """

            def hook(d, m, gi, go):
                d["gi"], d["go"] = (tuple(g.detach().clone() for g in grads) for grads in (gi, go))

            return watched(module, hook)

        def stored_alias(module):
            return watched(module, lambda d, m, gi, go: d.update(gi=gi, go=go))

        def stored_alias__2(module):
            detached = lambda grads: tuple(None if grad is None else grad.detach() for grad in grads)  # noqa: E731
            return watched(module, lambda d, m, gi, go: d.update(gi=detached(gi), go=detached(go)))

        def stored_alias__3(module):
            def kept(grad):
                return None if grad is None else grad.detach() if grad.requires_grad else grad.clone()

            return watched(module, lambda d, m, gi, go: d.update(gi=tuple(map(kept, gi)), go=tuple(map(kept, go))))

        def one_dict_for_all(module, d={}):  # noqa: B006 - the mistake
            """All calls of your function share one dict: a pass through one module shows in that of another. Make the
            dict inside the function.
            """
            return watched(module, keep, d=d)

        def kept_on_the_module(module):
            """You keep the dict on the module, which is the caller's, and the dict of a second call takes its place.
            Make it a local `d`: a hook that you define inside the function can write into that.
            """
            module.grads = {}
            return module.grads, module.register_full_backward_hook(lambda m, gi, go: keep(m.grads, m, gi, go))

        def rebound_dict(module):
            """The dict that you returned stays empty. Inside the hook, `d = {...}` makes a new dict that nobody else
            sees: change the returned one, `d["gi"] = ...`. Or the hook is gone, as at the end of a `with` block.
            """
            return watched(module, lambda d, m, gi, go: None)

        def not_empty_at_first(module):
            """The dict has entries before the first pass. It is empty until then: start with `d = {}`."""
            return watched(module, keep, d={"gi": None, "go": None})

        def no_handle(module):
            """You returned the dict alone. Return a tuple of two: the dict, and the handle that `register_...` gave
            you.
            """
            return watched(module, keep)[0]

        def none_left_out(module):
            """Entries that are `None` are left out, so the others move to other places. Keep `None` where the hook gets
            it.
            """

            def hook(d, m, gi, go):
                d["gi"], d["go"] = (tuple(g.detach().clone() for g in grads if g is not None) for grads in (gi, go))

            return watched(module, hook)

        def zeros_left_out(module):
            def kept(grad):
                return grad.detach().clone() if grad.any() else None

            return watched(module, lambda d, m, gi, go: d.update(gi=each(gi, kept), go=each(go, kept)))

        def took_go_too_early(module):
            """You took `"go"` in a full backward pre-hook, and one of the caller's changed it after that. A full
            backward hook gets both as they are in the end, `grad_input` and `grad_output`.
            """
            d, early = watched(module, lambda d, m, go: d.update(go=copies(go)), "register_full_backward_pre_hook")
            return d, Handles(early, watched(module, lambda d, m, gi, go: d.update(gi=copies(gi)), d=d)[1])

        def one_handle_of_two(module):
            """You registered two hooks and returned the handle of one, so the other goes on after `remove()`. One is
            enough: a full backward hook gets both, `grad_input` and `grad_output`.
            """
            d, _ = watched(module, lambda d, m, go: d.update(go=copies(go)), "register_full_backward_pre_hook")
            return watched(module, lambda d, m, gi, go: d.update(gi=copies(gi)), d=d)
