"""Exercise 05-capture-many."""

from graders.exercises.authoring import exercise
from graders.exercises.lesson_05_capturing_activations.programs import (
    LAST_HANDLE,
    outputs,
    stored_the_input,
    wrong_runs,
)
from graders.scenes.scene import stories
from graders.scenes.stories import captures, model_states


def capture(model, names, x, **how):
    """What several modules put out, copied, in the order in which they ran."""
    return {name: calls[0] for name, calls in outputs(model, names, x, **how).items()}


@exercise(
    "05-capture-many",
    points=2,
    minutes=20,
    difficulty=2,
    core=True,
    title="The outputs of several layers in one run",
    hints=(
        "Register one hook for each name before you run the model. All of them write into the same dict.",
        "Each hook must know its own name. Bind it when you define the hook: `def hook(module, args, output, "
        "name=name):`, or use `functools.partial`.",
        "A dict keeps the order in which its keys were first written. Write a key only when its hook fires.",
    ),
    why=(
        "The dict is filled while the model runs, so its keys come in the order of execution. `name=name` binds each "
        "name at once; `functools.partial` does that, too, and one hook for all layers, which looks up its module in "
        "a dict from modules to names, would do as well."
    ),
    scene=stories(
        promises={
            "every named output is returned": captures.returned,
            "the keys are in order of execution": captures.in_order,
            "the model runs once, as it would without you": captures.run_once,
            "nothing of the caller changes": (captures.left_alone, captures.hooks_changed_in_the_run),
            "an exception comes through and nothing is left": captures.model_raises,
            "two calls at the same time do not disturb each other": captures.called_inside,
        },
        axes={**captures.SEVERAL, **captures.MODEL},
        impossible=[model_states.no_odd_chain],
        names=captures.a_list_of_names,
        function=captures.itself,
    ),
)
class TestCaptureMany:
    """Write `capture_many(model, names, x)`: run the model on `x` and return a dict that maps each name in the list
    `names` to the output of that submodule, as a copy without a graph. The keys are in the order in which the
    submodules ran.

    **Example.**

    >>> model = nn.Sequential(nn.Flatten(), nn.ReLU())
    >>> capture_many(model, ["1", "0"], torch.tensor([[-1.0, 2.0]]))
    {'0': tensor([[-1., 2.]]), '1': tensor([[0., 2.]])}

    **Fine print.** `names` is in any order. Each name belongs to a different submodule, and none of them contains
    another; each is called once in this run, and its output is one tensor, which a later layer may overwrite. The model
    runs once for all names, and goes on as it does without you.
    """

    reference = capture

    class Mistakes(wrong_runs(capture, stored_the_input, *LAST_HANDLE)):
        def late_binding(model, names, x):
            *_, last = capture(model, names, x).values()
            return {names[-1]: last}

        def one_run_per_name(model, names, x):
            """You ran the model once for each name. Register all hooks first, and run it a single time: every hook
            writes its own entry.
            """
            return {name: capture(model, [name], x)[name] for name in names}

        def stored_alias(model, names, x):
            return capture(model, names, x, copy=lambda output: output.detach())

        def given_order(model, names, x):
            """The keys are in the order of `names`. The task asks for the order of execution: write a key into the dict
            only when its hook fires.
            """
            found = capture(model, names, x)
            return {name: found[name] for name in names}

        def definition_order(model, names, x):
            found = capture(model, names, x)
            return {name: found[name] for name, _ in model.named_modules() if name in found}
