"""Exercise 13-signal-report."""

import contextlib
from functools import partial

import torch
from torch import nn

from graders.exercises.authoring import exercise
from graders.exercises.lesson_13_broken_runs.leaves import SIGNALS
from graders.scenes.scene import stories
from graders.scenes.stories import inspected_passes as passes
from graders.scenes.stories import signals


def edges_of(tensors):
    """Where the gradients of these tensors arrive, as they are now."""
    return [torch.autograd.graph.get_gradient_edge(t) if t.requires_grad else None for t in tensors]


def calls_of(
    model, loss_fn, x, *, among=nn.Module.named_modules, keep=torch.clone, recording=torch.enable_grad,
    parts=slice(None), late=False, **how,
):  # fmt: skip
    """(name, values, gradients) of each call of a leaf; `None` where none arrives. The options are ways to go wrong."""
    leaves = [(name, m) for name, m in among(model) if not list(m.children())]
    calls = []

    def note(name, m, args, out):
        out = out.values() if isinstance(out, dict) else out if isinstance(out, tuple) else [out]
        tensors = [t for t in out if t.is_floating_point()][parts]
        calls.append((name, [keep(t.detach()) for t in tensors], tensors if late else edges_of(tensors)))

    hooks = [m.register_forward_hook(partial(note, name), **how) for name, m in leaves]
    try:
        with recording():
            loss = loss_fn(model(x))
        calls = [(name, values, edges_of(found) if late else found) for name, values, found in calls]
        wanted = list({edge for _, _, found in calls for edge in found if edge and loss.requires_grad})
        found = dict(zip(wanted, torch.autograd.grad(loss, wanted, allow_unused=True))) if wanted else {}
    finally:
        for hook in hooks:
            hook.remove()
    return [(name, values, [found.get(edge) for edge in at]) for name, values, at in calls]


def rms(tensors):
    """The root of the mean of the squares of all numbers in these tensors; 0 when there are none."""
    numbers = torch.cat([t.flatten().double() for t in tensors or [torch.zeros(1)]])
    return numbers.square().mean().sqrt().item()


def report(calls, size=rms):
    """The rows. Where no gradient arrives, there are zeros."""

    def filled(values, grads):
        return [torch.zeros_like(value) if grad is None else grad for value, grad in zip(values, grads)]

    return [(name, size(values), size(filled(values, grads))) for name, values, grads in calls]


@exercise(
    "13-signal-report",
    points=2,
    minutes=30,
    difficulty=2,
    title="The size of every output, and of what comes back",
    hints=(
        "A forward hook fires at each call, in order, and sees the output (lesson 5). A leaf is a module without "
        "children (lesson 11). An output may be a tuple or a dict (lesson 5, too).",
        "In that forward hook, register a tensor hook on the output: it gets the gradient that arrives there (lesson "
        "2). A tensor that does not require grad refuses a hook: there the gradient is 0.0. A full backward hook on a "
        "module does not get along with an in-place layer after it (lesson 7).",
        "`backward()` writes into `.grad` of the parameters. Put aside what is there first, and put it back in "
        "`finally` (lesson 4), or use `torch.autograd.grad(loss, parameters, allow_unused=True)`, which writes "
        "nothing (lesson 1). Remove the tensor hooks, too: a layer may return its own parameter (lesson 11).",
    ),
    why=(
        "A tensor hook on each output gets what arrives at that call, so a layer that is called twice gets two lines. "
        "`torch.autograd.grad` would do as well, with the edges that `get_gradient_edge` gives for the outputs; it "
        "leaves every `.grad` alone."
    ),
    scene=stories(
        promises={
            "each call of a leaf is reported": passes.reported,
            "there is a report under no_grad, for a leaf and without a graph": (
                signals.under_no_grad,
                signals.of_a_leaf,
            ),
            "each call begins anew": (passes.reported_anew, passes.reported_inside),
            "the model and the loss run once": passes.one_run,
            "nothing of the caller changes": passes.nothing_else,
            "an exception comes through and nothing is left": passes.something_raises,
        },
        axes=signals.AXES,
    ),
    planted=SIGNALS,
)
class TestSignalReport:
    """Write `signal_report(model, loss_fn, x)`. Compute `loss_fn(model(x))` once, and its gradients. Return a list with
    a tuple `(name, output, gradient)` for each call of a leaf (a module without children), in the order of the calls:
    the RMS of what it returned, and of the gradient there, as `float`s.

    **Example.** The output of the layer is 2 and 14, and the root of (4 + 196) / 2 is 10.

    >>> layer = nn.Linear(2, 2, bias=False)
    >>> _ = layer.weight.data.copy_(2 * torch.eye(2))
    >>> signal_report(nn.Sequential(layer), lambda out: out.sum(), torch.tensor([[1.0, 7.0]]))
    [('0', 10.0, 1.0)]

    **Fine print.** The RMS is the root of the mean of the squares, in any precision. A leaf may return a tuple or dict
    of tensors: floating-point ones count as one long tensor. A gradient that does not arrive is 0; the loss may have no
    graph, and it calls no leaf. A leaf may return its own parameter: leave no hook there. Your function may be called
    under `no_grad`. Only parameters require grad. The caller's hooks on gradients only watch.
    """

    def reference(model, loss_fn, x):
        return report(calls_of(model, loss_fn, x))

    class Mistakes:
        def norm(model, loss_fn, x):
            """You computed the norm: the root of the sum of the squares. The RMS is the root of their mean, and does
            not grow with the number of entries.
            """
            norm = lambda tensors: sum(t.double().square().sum() for t in tensors).sqrt().item()  # noqa: E731
            return report(calls_of(model, loss_fn, x), norm)

        def mean_of_means(model, loss_fn, x):
            """Where a leaf returns several tensors, you averaged over the tensors. All their numbers count alike, as
            if they were one long tensor.
            """
            one = lambda tensors: sum(rms([t]) ** 2 for t in tensors) / len(tensors)  # noqa: E731
            return report(calls_of(model, loss_fn, x), lambda tensors: one(tensors) ** 0.5)

        def mean_of_means__2(model, loss_fn, x):
            each = lambda tensors: sum(rms([t]) for t in tensors) / len(tensors)  # noqa: E731
            return report(calls_of(model, loss_fn, x), each)

        def first_tensor_alone(model, loss_fn, x):
            """A leaf here returns several tensors, and you looked at the first one alone. All their numbers count, as
            if they were one long tensor.
            """
            return report(calls_of(model, loss_fn, x, parts=slice(1)))

        def last_calls_only(model, loss_fn, x):
            """A leaf that is called twice has one entry, with its last call. Each call has an entry of its own: append
            to a list, and do not store by name.
            """
            return list({row[0]: row for row in report(calls_of(model, loss_fn, x))}.values())

        def calls_without_a_gradient_left_out(model, loss_fn, x):
            """Calls where no gradient arrives are missing. They are in the list, with 0.0: that is where to look when
            a run does not learn.
            """
            return [row for row in report(calls_of(model, loss_fn, x)) if row[2]]

        def no_graph_under_no_grad(model, loss_fn, x):
            """Called under `torch.no_grad()`, your function finds no gradient anywhere. Run both the model and the loss
            under `torch.enable_grad()`.
            """
            return report(calls_of(model, loss_fn, x, recording=contextlib.nullcontext))

        def tensors_without_a_gradient_left_out(model, loss_fn, x):
            """Where a leaf returns several tensors, and no gradient arrives at one of them, you left that one out. Its
            gradient is 0 everywhere and counts towards the mean.
            """
            calls = calls_of(model, loss_fn, x)
            return [(name, rms(values), rms([g for g in grads if g is not None])) for name, values, grads in calls]

        def looked_too_late(model, loss_fn, x):
            return report(calls_of(model, loss_fn, x, keep=lambda out: out))

        def before_the_callers_hook(model, loss_fn, x):
            return report(calls_of(model, loss_fn, x, prepend=True))

        def every_name(model, loss_fn, x):
            return report(calls_of(model, loss_fn, x, among=partial(nn.Module.named_modules, remove_duplicate=False)))

        def the_other_way_round(model, loss_fn, x):
            """Your list is in the order of the backward pass. The task asks for the order of the calls."""
            return report(calls_of(model, loss_fn, x))[::-1]

        def mean_square(model, loss_fn, x):
            """You took no root. The RMS is the root of the mean of the squares."""
            return report(calls_of(model, loss_fn, x), lambda tensors: rms(tensors) ** 2)

        def another_size(model, loss_fn, x):
            """You computed another size than the RMS: the standard deviation, which takes away the mean, or the mean of
            the absolute values. The RMS is the root of the mean of the squares.
            """
            std = lambda tensors: torch.cat([t.flatten().double() for t in tensors]).std().item()  # noqa: E731
            rows = calls_of(model, loss_fn, x)
            return [(name, std(values), gradient) for (name, values, _), (_, _, gradient) in zip(rows, report(rows))]

        def another_size__2(model, loss_fn, x):
            size = lambda tensors: torch.cat([t.flatten().double() for t in tensors]).abs().mean().item()  # noqa: E731
            return report(calls_of(model, loss_fn, x), size)

        def swapped(model, loss_fn, x):
            """The two numbers are swapped: first the output, then the gradient."""
            return [(name, gradient, output) for name, output, gradient in report(calls_of(model, loss_fn, x))]

        def layers_alone(model, loss_fn, x):
            """Leaves without parameters are missing, such as a `Tanh`. A leaf is a module without children."""
            modules = dict(model.named_modules())
            return [row for row in report(calls_of(model, loss_fn, x)) if list(modules[row[0]].parameters())]

        def class_for_name(model, loss_fn, x):
            """You reported names of classes. The task asks for the name of the leaf in `model.named_modules()`."""
            modules = dict(model.named_modules())
            return [(type(modules[name]).__name__, *sizes) for name, *sizes in report(calls_of(model, loss_fn, x))]

        def gradient_by_name(model, loss_fn, x):
            """A leaf that is called twice shows one gradient in both entries: you kept gradients by name, so that of
            one call overwrote that of the other. Keep each with its own call, as in `calls.append([name, out, 0.0])`.
            """
            calls, one = calls_of(model, loss_fn, x), {}
            for name, _, grads in calls:  # the first call is the last in the backward pass
                one.setdefault(name, grads)
            return report([(name, values, one[name]) for name, values, _ in calls])

        def gradient_by_name__2(model, loss_fn, x):
            calls = calls_of(model, loss_fn, x)
            last = {name: grads for name, _, grads in calls}
            return report([(name, values, last[name]) for name, values, _ in calls])

        def gradient_after_a_change(model, loss_fn, x):
            """A later step works in place on an output, and yours is the gradient at the changed tensor: what you ask
            for after the run, and `retain_grad`, go along with it. A tensor hook that you register in the forward hook
            sees what arrives at the old one.
            """
            return report(calls_of(model, loss_fn, x, late=True))
