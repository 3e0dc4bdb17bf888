"""Exercise 08-trace-events."""

import copy
from contextlib import ExitStack, nullcontext

from torch.nn.modules import module as for_all

from graders.exercises.authoring import exercise, wrong_ways
from graders.exercises.lesson_10_explaining_predictions.programs import another_mode, another_mode__2
from graders.scenes.scene import stories
from graders.scenes.stories import hook_events as events

KINDS = ("fpre", "fwd", "bpre", "bwd")
METHODS = ("forward_pre", "forward", "full_backward_pre", "full_backward")


def traced(model, x, named=None, kinds=KINDS, give=lambda *args: None, block=ExitStack):
    """One pass with hooks of these kinds on these modules, in the lesson's style.

    A hook returns what `give` makes of its arguments. All hooks are removed at the end of the `block`.
    """
    events = []

    def note(label, args):
        events.append(label)
        return give(*args)

    with block() as stack:
        for name, module in model.named_modules() if named is None else named:
            for kind, method in zip(KINDS, METHODS):
                register = getattr(module, f"register_{method}_hook")
                label = f"{name or 'net'}.{kind}"
                if kind in kinds:
                    stack.enter_context(register(lambda *args, label=label: note(label, args)))
        model(x).sum().backward()
    return events


@exercise(
    "08-trace-events",
    points=2,
    minutes=25,
    difficulty=2,
    title="Trace every event of one pass",
    hints=(
        "Each module needs four hooks, and each hook appends one text to the same list.",
        "`model.named_modules()` gives every module once, with its name; the model itself has the empty name. Bind the "
        "name in the hook: `lambda *args, name=name: ...`.",
        "Register everything before the forward pass, remove everything in `finally`, and give `x` to the model as it "
        "is.",
    ),
    why=(
        "A dict from the name of an event to the method that registers its hook saves writing the same thing four "
        "times, and `event=event` binds each text at once. Four global hooks would do as well, if they look each "
        "module up in a dict of names and leave out those that are not in it."
    ),
    scene=stories(
        promises={
            "every event is in its place": events.REPORTED,
            "a model without parts has four events": events.of_one_layer,
            "two calls at the same time do not disturb each other": events.inside,
            "it is one plain pass": events.one_plain_pass,
            "nothing else changes": events.nothing_else,
            "an exception comes through and nothing is left": events.something_raises,
        },
        axes={**events.MODEL, **events.PASS},
        impossible=events.IMPOSSIBLE,
        arguments=events.no_more,
        plainly=events.no_more,
    ),
)
class TestTraceEvents:
    """Write `trace_events(model, x)`. It runs `model(x).sum().backward()` once, and returns the list of events, as
    `"NAME.EVENT"`, in the order in which they happen: `fpre`, `fwd`, `bpre`, `bwd` of each module in
    `model.named_modules()`. The model itself is called `net`.

    **Example.**

    >>> x = torch.ones(1, 2, requires_grad=True)
    >>> events = trace_events(nn.Sequential(nn.Linear(2, 1)), x)
    >>> events[:4]
    ['net.fpre', '0.fpre', '0.fwd', 'net.fwd']
    >>> events[4:]
    ['net.bpre', '0.bpre', '0.bwd', 'net.bwd']

    **Fine print.** The events are those at which a forward pre-hook, a forward hook, a full backward pre-hook and a
    full backward hook of the module fire, in each of its calls. Containers count. Each module takes one tensor and
    returns one. `x` may or may not require grad, and is given to the model as it is; `.grad` accumulates as usual.
    `x` or a parameter requires grad; nothing works in place.
    """

    def reference(model, x):
        names = {module: name or "net" for name, module in model.named_modules()}
        events = []

        def noting(kind):
            return lambda module, *_: events.append(f"{names[module]}.{kind}") if module in names else None

        with (
            for_all.register_module_forward_pre_hook(noting("fpre")),
            for_all.register_module_forward_hook(noting("fwd")),
            for_all.register_module_full_backward_pre_hook(noting("bpre")),
            for_all.register_module_full_backward_hook(noting("bwd")),
        ):
            model(x).sum().backward()
        return events

    class Mistakes(wrong_ways(traced, (another_mode, another_mode__2))):
        def changed_the_input(model, x):
            """The model received an input that differs from `x` in `requires_grad`. That changes the order: give `x` to
            the model as it is, without `requires_grad_()` and without `detach()`.
            """
            return traced(model, x.clone().requires_grad_())

        def changed_the_input__2(model, x):
            return traced(model, x.requires_grad_())

        def changed_the_input__3(model, x):
            return traced(model, x.detach())

        def mirrored_forward(model, x):
            """Your backward half mirrors the forward half. The real one does not where an input requires no grad (a
            module then fires `bwd` right after `bpre`), where no gradient arrives, or where none gets through. Record
            backward with hooks, too.
            """
            mirror = {"fpre": "bwd", "fwd": "bpre"}
            events = traced(model, x, kinds=KINDS[:2])
            halves = [event.rpartition(".") for event in reversed(events)]
            return events + [f"{name}.{mirror[kind]}" for name, _, kind in halves]

        def late_binding(model, x):
            *_, (last, _) = model.named_modules()
            events = traced(model, x)
            return [f"{last or 'net'}.{event.rpartition('.')[2]}" for event in events]

        def late_binding__2(model, x):  # of the kind
            return [f"{event.rpartition('.')[0]}.{KINDS[-1]}" for event in traced(model, x)]

        def late_binding__3(model, x):  # of both
            *_, (last, _) = model.named_modules()
            return [f"{last or 'net'}.{KINDS[-1]}" for _ in traced(model, x)]

        def registered_after_forward(model, x):
            """The backward part of your trace is empty, although a backward pass ran. Each module needs two backward
            hooks as well, and they are bound when the module is called: register them before the forward pass.
            """
            return traced(model, x, kinds=KINDS[:2])

        def a_kind_left_out(model, x):
            """Each module has four kinds of event, and you recorded only three: `fpre`, `fwd`, `bpre` and `bwd` each
            need a hook of their own.
            """
            return traced(model, x, kinds=("fpre", "fwd", "bwd"))

        def a_kind_left_out__2(model, x):
            return traced(model, x, kinds=("fpre", "fwd", "bpre"))

        def a_kind_left_out__3(model, x):
            return traced(model, x, kinds=("fwd", "bpre", "bwd"))

        def names_below_net(model, x):
            """You wrote `net.` in front of every name. Only the model itself is called `net`; the others keep the names
            that `model.named_modules()` gives: `name or "net"`.
            """
            named = [(f"net.{name}" if name else "net", module) for name, module in model.named_modules()]
            return traced(model, x, named)

        def another_name_for_the_model(model, x):
            """The task calls the model itself `net`, and you call it something else. Write `name or "net"`."""
            return traced(model, x, [(name or "model", module) for name, module in model.named_modules()])

        def another_name_for_the_model__2(model, x):
            return traced(model, x, [(name or type(model).__name__, module) for name, module in model.named_modules()])

        def every_name(model, x):
            return traced(model, x, [(name or "net", m) for name, m in model.named_modules(remove_duplicate=False)])

        def without_the_model(model, x):
            """The events of the model itself are missing. It is a module, too: `model.named_modules()` gives it with an
            empty name, and the task calls it `net`.
            """
            return traced(model, x, [(name, module) for name, module in model.named_modules() if name])

        def class_names(model, x):
            """You named the modules by their classes. `model.named_modules()` gives each module with its name."""
            named = [("net" if module is model else type(module).__name__, module) for module in model.modules()]
            return traced(model, x, named)

        def pairs_not_texts(model, x):
            """Your events are pairs. Each has to be one text, `"NAME.EVENT"`: `f"{name}.fpre"`."""
            return [tuple(event.rsplit(".", 1)) for event in traced(model, x)]

        def returned_gradients(model, x):
            """Your hooks return something, and what a hook returns takes the place of what the module computed: in a
            full backward hook, of the gradient of the input. Hooks that only watch return `None`.
            """
            return traced(model, x, give=lambda module, *values: values[-1])

        def hook_left_behind(model, x):
            return traced(model, x, block=lambda: nullcontext(ExitStack()))

        def leaves_only(model, x):
            """Events of containers are missing. The model and the blocks in it are modules, too: register on everything
            that `model.named_modules()` gives.
            """
            named = [(name, module) for name, module in model.named_modules() if not [*module.children()]]
            return traced(model, x, named)

        def leaves_only__2(model, x):  # but for the model itself
            named = [(name, m) for name, m in model.named_modules() if not (name and [*m.children()])]
            return traced(model, x, named)

        def children_only(model, x):
            """`named_children()` gives only the modules directly inside the model. `model.named_modules()` gives every
            module: the model itself, and the parts of its parts, too.
            """
            return traced(model, x, model.named_children())

        def children_only__2(model, x):  # and the model itself
            return traced(model, x, [("net", model), *model.named_children()])

        def cleared_grads(model, x):
            """The trace is right, but you cleared the gradients of the model. `.grad` accumulates as usual: leave out
            `zero_grad()`.
            """
            model.zero_grad()
            return traced(model, x)

        def ran_a_copy(model, x):
            """The trace is right, but you ran a copy of the model: the parameters get no `.grad`, and hooks on them do
            not run. Run the model itself, and take your hooks off in `finally`.
            """
            return traced(copy.deepcopy(model), x)

        def each_event_once(model, x):
            """Each event is there only once. A module that is called twice fires its hooks twice: keep every event."""
            return list(dict.fromkeys(traced(model, x)))

        def empty_name(model, x):
            """The name of the model itself is empty in `model.named_modules()`, but the task calls it `net`: write
            `name or "net"`.
            """
            events = traced(model, x)
            return [event.removeprefix("net") if event.startswith("net.") else event for event in events]
