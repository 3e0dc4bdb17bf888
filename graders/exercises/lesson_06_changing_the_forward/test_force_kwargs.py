"""Exercise 06-force-kwargs."""

import copy

import torch

from graders.exercises.authoring import a_hook_for_all, exercise
from graders.scenes.scene import stories
from graders.scenes.stories import changed_calls as calls
from graders.scenes.stories import forced_keywords


def _is_true(value):
    """As `if value` sees it, also for a tensor."""
    return bool(value.any() if isinstance(value, torch.Tensor) else value)


@exercise(
    "06-force-kwargs",
    points=2,
    minutes=10,
    difficulty=2,
    title="Force keyword arguments",
    hints=(
        "A pre-hook sees keyword arguments only when it is registered with `with_kwargs=True`. Then it is called as "
        "`hook(module, args, kwargs)`.",
        "Such a hook returns a tuple of two: the new positional arguments and the new keyword arguments.",
        "In `{**kwargs, **kw}` the entries on the right win.",
    ),
    why=(
        "Only a pre-hook that is registered with `with_kwargs=True` sees the keyword arguments; it returns both, "
        "and in `{**kwargs, **kw}` the entries on the right win. `kwargs | kw` would do as well."
    ),
    scene=stories(
        promises={
            "the keywords reach the module": (*calls.CHANGED, forced_keywords.same_keywords),
            "gradients flow to what the caller passes": (*calls.FLOWS, forced_keywords.gradients_of_keywords),
            "everything arrives as it was passed and forward runs once": calls.arrives,
            "two hooks force the keywords of both": calls.several_at_a_time,
            "only this module is changed": calls.other_modules,
            "nothing else changes": calls.nothing_else,
            "an exception comes through, and the next call is as usual": calls.forward_raises,
            "each handle removes its own hook": (calls.removed_by_handles, forced_keywords.no_keyword),
            "keywords of any name and value arrive": (
                forced_keywords.keywords_of_any_kind,
                forced_keywords.unknown_keyword,
            ),
        },
        axes=calls.CALLS,
        register=forced_keywords.with_a_shift,
        again=forced_keywords.with_y,
    ),
)
class TestForceKwargs:
    """Write `force_kwargs(module, **kw)`: from now on, every call of `module` receives the keyword arguments `kw`.
    Where the caller passes one of the same name, the value in `kw` wins; all other arguments arrive as the caller
    passed them. Return the handle.

    **Example.**

    >>> class Affine(nn.Module):
    ...     def forward(self, x, *, scale=1.0, shift=0.0):
    ...         return x * scale + shift
    >>> module = Affine()
    >>> handle = force_kwargs(module, scale=10.0)
    >>> module(torch.tensor(2.0), scale=3.0, shift=1.0)
    tensor(21.)

    **Fine print.** Any value and any name but `module` will do, even `args=0` or `hook=None`, and the module
    receives these very objects. `kw` may be empty. The caller may pass everything by keyword, the input too, and passes
    by position nothing that `kw` forces. Keywords of one call do not reach a later one, and in each call `forward` runs
    once. If two calls of your function force the same keyword, either may win. Other people's pre-hooks only watch.
    """

    def reference(module, **kw):
        def hook(module, args, kwargs):
            kwargs.update(kw)

        return module.register_forward_pre_hook(hook, with_kwargs=True)

    def reference_first(module, **kw):
        return module.register_forward_pre_hook(
            lambda module, args, kwargs: (args, {**kwargs, **kw}), with_kwargs=True, prepend=True
        )

    # A hook for all modules will do if it leaves the calls of others alone.
    may_differ = {"by the call": a_hook_for_all, "by calls of the module": a_hook_for_all}

    class Mistakes:
        def wrong_return_shape(module, **kw):
            """A pre-hook with `with_kwargs=True` has to return both: a tuple of the positional arguments and the
            keyword arguments, `return args, new_kwargs`.
            """
            return module.register_forward_pre_hook(lambda module, args, kwargs: {**kwargs, **kw}, with_kwargs=True)

        def dropped_arguments(module, **kw):
            """Your keywords arrive, but some of the caller's arguments are lost. What you return is the whole new set
            of arguments: return `args` as they came, and merge your keywords with the caller's, `{**kwargs, **kw}`.
            """
            return module.register_forward_pre_hook(lambda module, args, kwargs: (args, kw), with_kwargs=True)

        def dropped_arguments__2(module, **kw):
            return module.register_forward_pre_hook(
                lambda module, args, kwargs: ((), {**kwargs, **kw}), with_kwargs=True
            )

        def caller_wins(module, **kw):
            """Where the caller passes the same keyword, the caller's value wins. In `{**first, **second}` the second
            wins: put `kw` last.
            """
            return module.register_forward_pre_hook(
                lambda module, args, kwargs: (args, {**kw, **kwargs}), with_kwargs=True
            )

        def no_with_kwargs(module, **kw):
            """Without `with_kwargs=True` a pre-hook is called as `hook(module, args)`: it sees no keywords and cannot
            add any. Register it with the flag.
            """
            return module.register_forward_pre_hook(lambda module, args, kwargs: (args, {**kwargs, **kw}))

        def no_with_kwargs__2(module, **kw):
            return module.register_forward_pre_hook(lambda module, args: (args, kw))

        def never_arrive(module, **kw):
            """Your keywords never arrive. A pre-hook adds keywords only when it is registered with `with_kwargs=True`
            and returns `args, new_kwargs`; `None` means "keep the old ones".
            """

            def hook(module, args, kwargs):
                kwargs = {**kwargs, **kw}

            return module.register_forward_pre_hook(hook, with_kwargs=True)

        def wrong_hook_kind(module, **kw):
            """`forward` ran twice, the first time without your keywords. A forward hook comes after `forward`, and
            calling the module a second time repeats all its work. Register a forward *pre*-hook.
            """
            return module.register_forward_hook(
                lambda module, args, kwargs, output: module.forward(*args, **{**kwargs, **kw}), with_kwargs=True
            )

        def no_handle(module, **kw):
            module.register_forward_pre_hook(lambda module, args, kwargs: (args, {**kwargs, **kw}), with_kwargs=True)

        def kept_for_later_calls(module, **kw):
            """You put the caller's keywords into `kw`, which outlives the call, so they reach later calls, too. Make a
            new dict in each call: `{**kwargs, **kw}`.
            """

            def hook(module, args, kwargs):
                kw.update({**kwargs, **kw})
                return args, kw

            return module.register_forward_pre_hook(hook, with_kwargs=True)

        def only_replaced(module, **kw):
            """You change keywords that are passed, and add none. All of `kw` has to arrive: `{**kwargs, **kw}`."""

            def hook(module, args, kwargs):
                return args, {name: kw.get(name, value) for name, value in kwargs.items()}

            return module.register_forward_pre_hook(hook, with_kwargs=True)

        def none_left_out(module, **kw):
            """A keyword whose value is `None` is left out. `None` is a value like others: pass it on."""

            def hook(module, args, kwargs):
                return args, {**kwargs, **{name: value for name, value in kw.items() if value is not None}}

            return module.register_forward_pre_hook(hook, with_kwargs=True)

        def falsy_left_out(module, **kw):
            """Values such as `0`, `False` and `None` are left out: `or` and `if value` take them for nothing. They are
            values like others: `{**kwargs, **kw}`.
            """

            def hook(module, args, kwargs):
                return args, {**kwargs, **{name: value for name, value in kw.items() if _is_true(value)}}

            return module.register_forward_pre_hook(hook, with_kwargs=True)

        def copied_values(module, **kw):
            """The module receives copies of your values. It has to receive these very objects: a copy of a tensor has a
            `.grad` of its own, and what the module writes into a copy is lost.
            """
            return module.register_forward_pre_hook(
                lambda module, args, kwargs: (args, {**kwargs, **copy.deepcopy(kw)}), with_kwargs=True
            )

        def nothing_without_keywords(module, **kw):
            """Without keywords your function returns `None`. `kw` may be empty: register the hook and return its handle
            in any case.
            """
            if kw:
                return module.register_forward_pre_hook(
                    lambda module, args, kwargs: (args, {**kwargs, **kw}), with_kwargs=True
                )

        def as_positional(module, **kw):
            """You passed the values as further positional arguments. Keywords go into the dict: `args, {**kwargs,
            **kw}`.
            """
            return module.register_forward_pre_hook(
                lambda module, args, kwargs: ((*args, *kw.values()), kwargs), with_kwargs=True
            )
