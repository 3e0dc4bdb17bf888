"""Exercise 11-first-nonfinite."""

import contextlib

import torch
from torch import Tensor

from graders.exercises.authoring import exercise
from graders.exercises.lesson_11_hygiene.culprits import PLANTED
from graders.scenes.scene import stories
from graders.scenes.stories import bad_values


def finite(value):
    """Whether no entry is NaN or Inf."""
    return bool(torch.isfinite(value).all())


def tensors(args):
    """All tensors among the arguments of a module."""
    return [value for value in args if isinstance(value, Tensor)]


def leaves(model):
    """Modules without children, with their names."""
    return [(name, module) for name, module in model.named_modules() if not list(module.children())]


def watched(model, x, modules=leaves, inputs=tensors, finite=finite, good=None):
    """The calls of leaves, in order: a name, and whether inputs, inputs after the call, and output are finite."""
    calls, good = [], {} if good is None else good

    def before(module, args):
        good[module] = all(map(finite, inputs(args)))

    with contextlib.ExitStack() as hooks:
        for name, module in modules(model):

            def after(module, args, output, name=name):
                calls.append((name, good[module], all(map(finite, inputs(args))), finite(output)))

            hooks.enter_context(module.register_forward_pre_hook(before))
            hooks.enter_context(module.register_forward_hook(after))
        model(x)
    return calls


def first(names):
    """The first name, if there is one."""
    return next(iter(names), None)


def blamed(model, x, **how):
    """The names of all that make something bad out of finite inputs, in order."""
    return [name for name, good, _, fine in watched(model, x, **how) if good and not fine]


@exercise(
    "11-first-nonfinite",
    points=2,
    minutes=30,
    difficulty=3,
    core=True,
    title="Where the first NaN comes from",
    hints=(
        "`torch.isfinite(t).all()` is true when a tensor has neither NaN nor Inf.",
        "A layer that gets a NaN passes it on, and is not to blame. Compare what goes in with what comes out: the "
        "layer that you are looking for gets only finite inputs. Look at the inputs in a pre-hook, since a layer that "
        "works in place has overwritten them by the time the forward hook fires.",
        "Several layers may be to blame. Keep the first entry only, in the order in which hooks fire. Remove all hooks "
        "in `finally`.",
    ),
    why=(
        "The pre-hook judges the inputs before a layer can overwrite them, and the first entry of the list is the "
        "first call to blame. Ending the run with an exception of your own would do as well, if it cannot be mistaken "
        "for one of the model's."
    ),
    scene=stories(
        promises={
            "the first leaf to blame is named": (
                *(bad_values.named, bad_values.large_numbers, bad_values.in_place),
                *(bad_values.called_twice, bad_values.two_inputs),
            ),
            "a model may be a leaf itself": bad_values.alone,
            "each call begins anew": (bad_values.anew, bad_values.called_inside),
            "the model runs once, as it would without you": bad_values.run_once,
            "nothing of the caller changes": bad_values.left_alone,
            "an exception comes through and nothing is left": (bad_values.after_an_exception, bad_values.model_raises),
        },
        axes=bad_values.NETS,
        pairs=[("culprit", "hooks"), ("culprit", "net")],
    ),
    planted=PLANTED,
)
class TestFirstNonfinite:
    """Write `first_nonfinite(model, x)`: run the model once on `x`, and find the first call of a leaf whose output has
    a NaN or an infinite entry while all its tensor inputs are finite. Return the name of that leaf, or `None`.

    **Example.** The log of 0 is minus infinity.

    >>> class Log(nn.Module):
    ...     def forward(self, x):
    ...         return x.log()
    >>> model = nn.Sequential(nn.ReLU(), Log(), nn.Linear(2, 1))
    >>> first_nonfinite(model, torch.tensor([[-1.0, 2.0]]))
    '1'

    **Fine print.** A leaf is a module of `model.named_modules()` without children; the model itself, whose name is
    `""`, may be one. A leaf gets tensors and perhaps other values by position, and returns one tensor. Inputs count as
    the leaf gets them, before it overwrites them; others' pre-hooks only watch. Bad entries may be in `x` already, or
    come from code between leaves. Each call is judged by itself. You may stop the run by an exception: nobody else
    catches it.
    """

    def reference(model, x):
        return first(blamed(model, x))

    class Mistakes:
        def reported_last(model, x):
            """Several layers make something non-finite out of finite inputs, and you returned the last of them. The
            task asks for the first: once a name is found, keep it.
            """
            return first(reversed(blamed(model, x)))

        def first_by_definition(model, x):
            """Several layers make something non-finite out of finite inputs, and you returned the one that is defined
            first. The task asks for the one that runs first: `named_modules()` does not know that order, but the hooks
            do. Note the name in the hook.
            """
            names = blamed(model, x)
            return first(name for name, _ in leaves(model) if name in names)

        def nan_only(model, x):
            """You looked for NaN only. Inf counts, too: the log of 0 and a division by 0 give Inf, and NaN comes later.
            `torch.isfinite` is false for both.
            """
            return first(blamed(model, x, finite=lambda value: not bool(value.isnan().any())))

        def only_when_all_are_bad(model, x):
            """You asked whether all entries are NaN or infinite, but one is enough: `torch.isfinite(value).all()` is
            false as soon as one entry is bad.
            """
            return first(blamed(model, x, finite=lambda value: bool(torch.isfinite(value).any())))

        def only_when_all_are_bad__2(model, x):
            calls = watched(model, x, finite=lambda value: bool(torch.isfinite(value).any()))
            fine = [good for _, good, _, _ in watched(model, x)]
            return first(name for (name, _, _, some), good in zip(calls, fine) if good and not some)

        def blamed_the_victim(model, x):
            """The layer got a NaN or an Inf and only passed it on. Look at the inputs, too: the layer to blame gets
            finite inputs and returns something that is not finite.
            """
            return first(name for name, good, _, fine in watched(model, x) if not fine)

        def first_input_only(model, x):
            """You looked at `args[0]` only. This layer has a second tensor input, and that one is not finite: look at
            every tensor in `args`.
            """
            return first(blamed(model, x, inputs=lambda args: args[:1]))

        def input_overwritten(model, x):
            """The layer to blame works in place. When its forward hook fires, its input is already overwritten with its
            output, and looks non-finite. Look at the inputs in a forward pre-hook.
            """
            return first(name for name, _, good, fine in watched(model, x) if good and not fine)

        def late_binding(model, x):
            """You returned the name of the last module that is defined. Your hooks read the loop variable when they
            run, and by then it has its last value: bind it with a default argument (`name=name`).
            """
            return [*dict(model.named_modules())][-1] if blamed(model, x) else None

        def large_is_not_infinite(model, x):
            """You named a layer whose output is very large, but finite. The sum and the norm of such entries may be
            infinite, and a float64 may be too large for float32: look at the entries themselves, as they are, with
            `torch.isfinite(value).all()`.
            """
            return first(blamed(model, x, finite=lambda value: finite(value.sum())))

        def named_a_container(model, x):
            """You named a container. Only leaves count: modules for which `list(module.children())` is empty."""
            return first(blamed(model, x, modules=lambda model: list(model.named_modules())))

        def named_a_container__2(model, x):
            names = blamed(model, x, modules=lambda model: list(model.named_modules()))
            return first(name for name, _ in model.named_modules() if name in names)

        def gave_up(model, x):
            """A bad value first came from elsewhere, such as `x`, and you gave up there. No leaf is to blame for it,
            but a later one may get finite inputs and return a bad value: keep looking.
            """
            return first(name if good else None for name, good, _, fine in watched(model, x) if not fine)

        def inf_only(model, x):
            """You looked for infinite entries only. NaN counts, too: `torch.isfinite` is false for both."""
            return first(blamed(model, x, finite=lambda value: not bool(value.isinf().any())))

        def looked_at_x(model, x):
            """You asked whether `x` is finite. Each call of a leaf has inputs of its own, and bad values may have been
            in `x` and be gone: look at `args` in a pre-hook on the leaf.
            """
            return first(name for name, _, _, fine in watched(model, x) if not fine) if finite(x) else None

        def looked_at_x__2(model, x):  # again before each leaf
            return first(blamed(model, x, inputs=lambda args: [x]))

        def looked_at_x__3(model, x):  # and does not run the model
            return first(blamed(model, x)) if finite(x) else None

        def model_left_out(model, x):
            """You left out the model itself, whose name is `""`. If it has no children, it is a leaf like any other:
            ask for `list(module.children())`, and not for the name.
            """
            return first(blamed(model, x, modules=lambda model: [leaf for leaf in leaves(model) if leaf[0]]))

        def class_for_name(model, x):
            """You returned the name of a class. The task asks for the name of the leaf in `model.named_modules()`."""
            modules = dict(model.named_modules())
            return first(type(modules[name]).__name__ for name in blamed(model, x))

        def last_call_of_a_leaf(model, x):
            """A leaf here is called several times, and you judged only one of its calls. Each call counts by itself:
            append to a list, and do not store by name.
            """
            last = {name: good and not fine for name, good, _, fine in watched(model, x)}
            return first(name for name, bad in last.items() if bad)

        def last_call_of_a_leaf__2(model, x):  # the first call decides whether inputs are finite
            clean = {}
            return first(name for name, good, _, fine in watched(model, x) if clean.setdefault(name, good) and not fine)

        def one_slot_for_all(model, x, good={}):  # noqa: B006 - the mistake
            try:
                return first(blamed(model, x, good=good))
            finally:
                good.clear()

        def caught_the_models_exception(model, x):
            """Your `except` caught an exception of the model, and your caller never saw it. Stop the run, if you must,
            by a class of your own, `class Found(Exception)`, and catch nothing else.
            """
            try:
                return first(blamed(model, x))
            except RuntimeError as error:
                return str(error)

        def every_argument(model, x):
            """A leaf may get other things than tensors, such as a number: ask `isinstance(value, torch.Tensor)` before
            you look at entries.
            """
            return first(blamed(model, x, inputs=lambda args: args))

        def no_leaf_to_blame(model, x):
            """Here no leaf is to blame, and your list is empty: return `None` then."""
            return blamed(model, x)[0]
