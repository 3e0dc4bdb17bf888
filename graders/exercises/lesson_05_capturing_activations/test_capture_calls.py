"""Exercise 05-capture-calls."""

from graders.exercises.authoring import exercise
from graders.exercises.lesson_05_capturing_activations.programs import (
    copied,
    outputs,
    run_with_hooks,
    stored_the_input,
    wrong_runs,
)
from graders.scenes.scene import stories
from graders.scenes.stories import captures, model_states


def same(one, other):
    """Whether two tensors are equal in shape and values."""
    return one.shape == other.shape and bool((one == other).all())


def capture(model, name, x, **how):
    """What every call of a module puts out, copied."""
    return outputs(model, [name], x, **how)[name]


@exercise(
    "05-capture-calls",
    points=2,
    minutes=15,
    difficulty=2,
    title="Every call of one module",
    hints=(
        "One module can run several times in one forward pass. A variable, or a dict entry, holds only one output.",
        "The hook fires once for each call, in order: append a copy to a list.",
        "Make the list inside your function. A list at the top of the cell, or as a default argument, is one list for "
        "all calls of your function.",
    ),
    why=(
        "A hook runs once for each call of its module, so appending to a list keeps all of them, in order; the "
        "list is made inside the function, so each call of yours has its own. An object with `__call__` that holds "
        "the list would do as well."
    ),
    scene=stories(
        promises={
            "every call is captured in order": captures.returned,
            "the model runs once, as it would without you": captures.run_once,
            "nothing of the caller changes": captures.left_alone,
            "an exception comes through and nothing is left": captures.model_raises,
            "two calls at the same time do not disturb each other": captures.called_inside,
        },
        axes={**captures.CALLS, **captures.MODEL},
        impossible=[model_states.no_odd_chain],
        names=captures.one_name,
        function=captures.itself,
    ),
)
class TestCaptureCalls:
    """Write `capture_calls(model, name, x)`: run the model once on `x` and return a list with the output of every call
    of the module `name` in this run, in the order of the calls, as copies without a graph.

    **Example.**

    >>> act = nn.ReLU()
    >>> model = nn.Sequential(nn.Flatten(), act, nn.Flatten(), act)
    >>> capture_calls(model, "1", torch.tensor([[-1.0, 2.0]]))
    [tensor([[0., 2.]]), tensor([[0., 2.]])]

    **Fine print.** The module is called one or more times, and its outputs are tensors of one dtype, which a later
    layer may overwrite. It may have two names; `name` is any that `model.get_submodule` knows, and every call counts,
    whichever name the model uses for it. Each call of your function returns a new list, whose copies may be parts of
    one tensor.
    """

    reference = capture

    class Mistakes(wrong_runs(capture, stored_the_input)):
        def only_last_call(model, name, x):
            return capture(model, name, x)[-1:]

        def only_first_call(model, name, x):
            """Your list has the first call of the module alone, and the module runs more than once. Let the hook stay
            until the model has run, and remove it then.
            """
            return capture(model, name, x)[:1]

        def last_call_first(model, name, x):
            """Your list is in reverse. The output of the first call has to come first."""
            return capture(model, name, x)[::-1]

        def joined(model, name, x):
            """Your list holds parts of the outputs: `calls += output` (and `extend`) adds each row by itself. One
            output is one entry: `calls.append(output)`.
            """
            return [row for output in capture(model, name, x) for row in output]

        def every_of_its_type(model, name, x):
            """Your list has calls of other modules, too. There may be several of one type: register one hook, on
            `model.get_submodule(name)`.
            """
            calls, kind = [], type(model.get_submodule(name))
            alike = [other for other, module in model.named_modules() if type(module) is kind]
            run_with_hooks(model, dict.fromkeys(alike, lambda output: calls.append(copied(output))), x)
            return calls

        def hook_for_each_name(model, name, x):
            """Each call is in your list several times: a module with two names got a hook for each. One hook on the
            module sees all of its calls, whichever name the model uses.
            """
            calls, wanted = [], model.get_submodule(name)
            names = [other for other, part in model.named_modules(remove_duplicate=False) if part is wanted]
            run_with_hooks(model, dict.fromkeys(names, lambda output: calls.append(copied(output))), x)
            return calls

        def first_names_only(model, name, x):
            """`name` may be the second name of a module. `named_modules()` yields each module once, under its first
            name; `model.get_submodule(name)` accepts each of them.
            """
            dict(model.named_modules())[name]
            return capture(model, name, x)

        def first_names_only__2(model, name, x):
            return outputs(model, [other for other, _ in model.named_modules() if other == name], x).get(name, [])

        def first_names_only__3(model, name, x):
            return capture(model, name, x) if name in dict(model.named_modules()) else []

        def drops_equal_outputs(model, name, x):
            """Two calls gave equal outputs, and your list has one of them. Every call counts: append without a look at
            what is there.
            """
            found = capture(model, name, x)
            return [one for one, before in zip(found, [None, *found]) if before is None or not same(one, before)]

        def drops_equal_outputs__2(model, name, x):
            calls, seen = [], [None]

            def note(output):
                if output is not seen[-1]:
                    calls.append(copied(output))
                seen.append(output)

            run_with_hooks(model, {name: note}, x)
            return calls

        def global_store(model, name, x, calls=[]):  # noqa: B006 - the mistake
            """Your list outlives the call: every call of your function returns the same list. Make a new list inside
            the function.
            """
            capture(model, name, x, copy=lambda output: calls.append(copied(output)))
            return calls

        def global_store__2(model, name, x, calls=[]):  # noqa: B006 - the mistake
            calls.clear()
            capture(model, name, x, copy=lambda output: calls.append(copied(output)))
            return calls

        def stored_alias(model, name, x):
            return capture(model, name, x, copy=lambda output: output.detach())
