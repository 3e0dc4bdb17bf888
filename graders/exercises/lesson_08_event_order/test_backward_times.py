"""Exercise 08-backward-times."""

from contextlib import ExitStack, nullcontext

from torch.nn.modules.module import register_module_full_backward_hook

from graders.exercises.authoring import exercise
from graders.scenes.scene import stories
from graders.scenes.stories import timed_passes as passes


def with_gradient(x):
    """`x`, or a tensor with its values that requires grad."""
    return x if x.requires_grad else x.detach().requires_grad_()


def timed(
    model,
    x,
    clock,
    took=lambda before, time: before + time,
    first=True,
    times=None,
    named=None,
    starts="full_backward_pre",
    block=ExitStack,
    start_first=False,
):
    """The times by hooks on all modules, in the lesson's style.

    `took` makes the new entry of a module from the old one and the time of a call. The hook that ends a call is the
    `first` of its kind, the one that `starts` it is of that kind, and may be the first as well (`start_first`). All are
    removed at the end of the `block`. The result is filled into `times`.
    """
    named = [(name or "net", module) for name, module in model.named_modules()] if named is None else named
    times, started = {name: 0.0 for name, _ in named} if times is None else times, {}

    def begin(name):
        started[name] = clock()

    def end(name):
        times[name] = took(times.get(name, 0.0), clock() - started[name])

    with block() as stack:
        for name, module in named:
            before, after = (lambda *_, name=name: begin(name)), (lambda *_, name=name: end(name))
            stack.enter_context(getattr(module, f"register_{starts}_hook")(before, prepend=start_first))
            stack.enter_context(module.register_full_backward_hook(after, prepend=first))
        model(x).sum().backward()
    return times


@exercise(
    "08-backward-times",
    points=3,
    minutes=35,
    difficulty=3,
    title="A profiler whose spans stay nested",
    hints=(
        "Read the clock in a full backward pre-hook and in a full backward hook of each module. When does the second "
        "one fire if the input requires no grad?",
        "Give the model a tensor with the values of `x` that requires grad, if `x` does not: `x.detach()` is one that "
        "you may change. If `x` requires grad, its `.grad` has to be filled: take `x` itself.",
        "Hooks of one kind on one module fire in order. Which of yours has to be the last of its kind, and which one "
        "the first? `prepend=True` makes it the first. Several calls of one module add up.",
    ),
    why=(
        "`x.detach()` can be made to require grad while `x` stays as it is, and then each full backward hook waits "
        "for what is inside its module; `prepend=True` lets it stop the clock before other people's hooks run. "
        "`x.clone()` would do as well, and an object for each module that holds its start and its sum."
    ),
    scene=stories(
        promises={
            "each time is right": (passes.timed, passes.timed_again),
            "a model without parts has a time": passes.one_slow_layer,
            "two calls at the same time do not disturb each other": passes.timed_inside,
            "it is one plain pass": (passes.gradients_accumulated, passes.one_timed_pass),
            "nothing else changes": passes.nothing_else,
            "an exception comes through and nothing is left": passes.something_raises,
        },
        axes=passes.PASS,
    ),
)
class TestBackwardTimes:
    """Write `backward_times(model, x, clock)`. It runs one forward and one backward pass of `model(x).sum()`, and
    returns a dict: for each name in `model.named_modules()` (the model itself is `net`), how long the backward pass of
    this module took by `clock()`, with everything inside it.

    **Example.**

    >>> import time
    >>> model, x = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1)), torch.ones(3, 2)
    >>> times = backward_times(model, x, time.perf_counter)
    >>> sorted(times), times["net"] >= times["0"] + times["1"]
    (['0', '1', 'net'], True)

    **Fine print.** The clock starts when the gradient has arrived at the module's output, after other people's full
    backward pre-hooks. It stops when the gradient of its input is complete, before their full backward hooks, even if
    `x` requires no grad. Several calls add up; a module never called gets 0. No module calls itself. `.grad`
    accumulates as usual. There are no global hooks. Each module gets one tensor that depends on `x`, by position, and
    can pass a gradient on.
    """

    def reference(model, x, clock):
        names = {module: name or "net" for name, module in model.named_modules()}
        times, started = dict.fromkeys(names.values(), 0.0), {}

        def begin(module, _):
            started[module] = clock()

        def end(module, *_):
            if module in started:
                times[names[module]] += clock() - started.pop(module)

        with ExitStack() as stack:
            for module in names:
                stack.enter_context(module.register_full_backward_pre_hook(begin))
            stack.enter_context(register_module_full_backward_hook(end))  # it fires before all hooks on modules
            model(with_gradient(x)).sum().backward()
        return times

    class Mistakes:
        def fired_at_once(model, x, clock):
            """Where `x` requires no grad, the model took no time at all: its full backward hook fired at once, right
            after the pre-hook. It waits for the gradient of the input only if the input requires grad.
            """
            return timed(model, x, clock)

        def counted_the_hooks_of_others(model, x, clock):
            """The time that other people's hooks on the same module take is in your time, too. Your full backward
            pre-hook has to read the clock as the last of its kind, and your full backward hook as the first.
            """
            return timed(model, with_gradient(x), clock, first=False)

        def counted_the_hooks_of_others__2(model, x, clock):
            return timed(model, with_gradient(x), clock, start_first=True)

        def only_last_call(model, x, clock):
            """A module that is called twice has the time of only one call. Add up the times of all its calls."""
            return timed(model, with_gradient(x), clock, lambda before, time: time)

        def no_gradient_for_x(model, x, clock):
            """The times are right, but `x.grad` gets nothing: you gave the model a detached copy. If `x` requires grad,
            give `x` itself to the model.
            """
            return timed(model, x.detach().requires_grad_(), clock)

        def uncalled_left_out(model, x, clock):
            """A module that the pass never calls is missing. It gets 0: start with 0 for every name."""
            return timed(model, with_gradient(x), clock, times={})

        def made_x_require_grad(model, x, clock):
            """You switched `x.requires_grad` on, and `x` belongs to the caller. If it requires no grad, give the model
            another tensor with its values: `x.detach().requires_grad_()`.
            """
            return timed(model, x.requires_grad_(), clock)

        def made_x_require_grad__2(model, x, clock):  # for a while
            """You switched `x.requires_grad` on for a while, so the pass wrote `x.grad`, and `x` belongs to the caller.
            If it requires no grad, give the model another tensor with its values: `x.detach().requires_grad_()`.
            """
            required = x.requires_grad
            try:
                return timed(model, x.requires_grad_(), clock)
            finally:
                x.requires_grad_(required)

        def one_time_for_all(model, x, clock):
            """You gave every module the time of the whole backward pass. Each has its own: read the clock in a full
            backward pre-hook and in a full backward hook of each module.
            """
            loss = model(x).sum()
            start = clock()
            loss.backward()
            return {name or "net": clock() - start for name, _ in model.named_modules()}

        def started_in_forward(model, x, clock):
            """You started the clock in a forward hook, long before the backward pass of the module begins. A full
            backward pre-hook fires when the gradient has arrived at the output.
            """
            return timed(model, with_gradient(x), clock, starts="forward")

        def empty_name(model, x, clock):
            """The name of the model itself is empty in `model.named_modules()`, but the task calls it `net`: write
            `name or "net"`.
            """
            return timed(model, with_gradient(x), clock, named=[*model.named_modules()])

        def leaves_only(model, x, clock):
            """Containers are missing. The model itself and the blocks in it are modules, too: register on everything
            that `model.named_modules()` gives.
            """
            named = [(name or "net", module) for name, module in model.named_modules() if not [*module.children()]]
            return timed(model, with_gradient(x), clock, named=named)

        def children_only(model, x, clock):
            """You registered only on the children of the model. `model.named_modules()` gives every module in it: the
            model itself, and the parts of its parts.
            """
            return timed(model, with_gradient(x), clock, named=[*model.named_children()])

        def lists_of_times(model, x, clock):
            """You returned a list of times for each module. Several calls add up to one number."""
            times = {name or "net": [] for name, _ in model.named_modules()}
            return timed(model, with_gradient(x), clock, lambda before, time: [*before, time], times=times)

        def hook_left_behind(model, x, clock):
            return timed(model, with_gradient(x), clock, block=lambda: nullcontext(ExitStack()))
