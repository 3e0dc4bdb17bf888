"""Exercise 05-capture-activation."""

from graders.exercises.authoring import exercise
from graders.exercises.lesson_05_capturing_activations.programs import (
    copied,
    outputs,
    run_with_hooks,
    skipped_the_model,
    stopped_the_run,
    stored_the_input,
    wrong_runs,
)
from graders.scenes.scene import stories
from graders.scenes.stories import captures, model_states


def capture(model, name, x, **how):
    """What a module puts out, copied, in a run of the model."""
    return outputs(model, [name], x, **how)[name][0]


@exercise(
    "05-capture-activation",
    points=1,
    minutes=10,
    difficulty=1,
    core=True,
    title="The output of one layer",
    hints=(
        "`model.get_submodule(name)` finds the module. Register a forward hook on it and then call `model(x)`.",
        "The hook stores `output.detach().clone()` and returns nothing. Without the clone, a later in-place layer "
        "rewrites it.",
        "The handle is a context manager: `with module.register_forward_hook(hook):` removes the hook at the end of "
        "the block, even when the model raises.",
    ),
    why=(
        "The hook copies the output before a later layer can overwrite it in place, and the `with` block removes "
        "the hook even when the model raises. `try` and `finally` with `handle.remove()` would do as well; slicing "
        "the model would not, because `forward` may do more than run its layers in turn."
    ),
    scene=stories(
        promises={
            "the output of the layer is returned": captures.returned,
            "the model runs once, as it would without you": captures.run_once,
            "nothing of the caller changes": captures.left_alone,
            "an exception comes through and nothing is left": captures.model_raises,
            "two calls at the same time do not disturb each other": captures.called_inside,
        },
        axes={**captures.ONE, **captures.MODEL},
        impossible=[model_states.no_odd_chain],
        names=captures.one_name,
        function=captures.itself,
    ),
)
class TestCaptureActivation:
    """Write `capture_activation(model, name, x)`: run the model on `x` and return the output of its submodule `name`,
    for example `"stem.0"`, as a copy without a graph. Leave no hook behind, even when the model raises.

    **Example.**

    >>> model = nn.Sequential(nn.Flatten(), nn.ReLU())
    >>> capture_activation(model, "1", torch.tensor([[-1.0, 2.0]]))
    tensor([[0., 2.]])

    **Fine print.** In this run the submodule is called once, and its output is one tensor; it may get several inputs.
    Other parts of the model may return anything. The copy has the values that the output had when it left the module,
    even when a later layer works in place. The model runs once, to its end, in its own mode, and goes on as it does
    without you.
    """

    reference = capture

    class Mistakes(wrong_runs(capture, stored_the_input, skipped_the_model, stopped_the_run)):
        def returned_the_models_output(model, name, x):
            """You returned what the model puts out. The task asks for the output of one of its layers: what your hook
            has kept.
            """
            kept = []
            run_with_hooks(model, {name: copied}, x, run=lambda x: kept.append(model(x)))
            return kept[0]

        def stored_alias(model, name, x):
            return capture(model, name, x, copy=lambda output: output.detach())
