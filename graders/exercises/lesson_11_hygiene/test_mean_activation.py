"""Exercise 11-mean-activation."""

import torch

from graders.exercises.authoring import exercise
from graders.exercises.lesson_05_capturing_activations.programs import (
    outputs,
    skipped_the_model,
    stopped_the_run,
    stored_the_input,
    wrong_runs,
)
from graders.scenes.scene import stories
from graders.scenes.stories import captures, model_states
from graders.scenes.stories.kept_graphs import no_graph_kept

MORE = (stored_the_input, skipped_the_model, stopped_the_run)


def mean(model, name, x, statistic=lambda output: output.detach().mean(), **how):
    """What becomes of the output of a module in a run of the model: its mean."""
    return outputs(model, [name], x, copy=statistic, **how)[name][0]


@exercise(
    "11-mean-activation",
    points=1,
    minutes=15,
    difficulty=1,
    core=True,
    title="A statistic that keeps no graph",
    hints=(
        "The mean of a tensor with a graph has a graph, too: one number that holds the whole forward pass. "
        "Detach first: `output.detach().mean()`.",
        "Take the mean inside the hook, while the output is as it left the module, and store nothing else: not the "
        "output, not a clone of it.",
        "The handle is a context manager: `with module.register_forward_hook(hook):` removes the hook at the end of "
        "the block, even when the model raises.",
    ),
    why=(
        "Detached, the mean is one number that keeps nothing else alive; it is taken in the hook, before a later layer "
        "can overwrite the output in place. Running the model under `torch.no_grad()` would do as well: then there is "
        "no graph to keep."
    ),
    scene=stories(
        promises={
            "the mean of the output is returned": captures.returned,
            "nothing keeps the graph alive": no_graph_kept,
            "the model runs once, as it would without you": captures.run_once,
            "an exception comes through and nothing is left": captures.model_raises,
            "two calls at the same time do not disturb each other": captures.called_inside,
            "nothing of the caller changes": captures.left_alone,
        },
        axes={**captures.ONE, **captures.MODEL, **captures.SHIFTED},
        impossible=[model_states.no_odd_chain],
        names=captures.one_name,
        function=captures.itself,
    ),
)
class TestMeanActivation:
    """Write `mean_activation(model, name, x)`: run the model on `x` and return the mean over all entries of the output
    of its submodule `name`, for example `"stem.0"`, as a 0-dim tensor. Afterwards, nothing keeps the graph of this run
    alive.

    **Example.**

    >>> model = nn.Sequential(nn.Flatten(), nn.ReLU())
    >>> mean_activation(model, "1", torch.tensor([[-1.0, 2.0]]))
    tensor(1.)

    **Fine print.** In this run the submodule is called once, and its output is a floating-point tensor. The result has
    its dtype. Other parts of the model may return anything. The output counts as it left the module, even when a later
    layer works in place. Neither the result nor anything you stored elsewhere may hold the graph once Python has
    collected its garbage. The model runs once, to its end, in its own mode, and goes on with the output itself.
    """

    reference = mean

    class Mistakes(wrong_runs(mean, *MORE)):
        def graph_kept_alive(model, name, x):
            """Your mean still has its graph, and the graph holds the tensors that the forward pass saved. `cpu()` and
            `clone()` do not help: both pass the graph on. Detach before you take the mean: `output.detach().mean()`.
            """
            return mean(model, name, x, statistic=lambda output: output.mean())

        def stored_the_output(model, name, x, store=[]):  # noqa: B006 - the mistake
            """The result has no graph, but a tensor that has one is still stored somewhere: in a list, in a global
            variable, on the model. It keeps the whole forward pass alive. Store only the detached mean.
            """

            def statistic(output):
                store.append(output)
                return output.detach().mean()

            return mean(model, name, x, statistic=statistic)

        def stored_the_output__2(model, name, x, store=[]):  # noqa: B006 - the mistake
            mean(model, name, x, statistic=lambda output: store.append(output.mean()))
            return store[-1].detach()

        def stored_alias(model, name, x):
            """You took the mean when the model was done. By then a later in-place layer had rewritten the output.
            Take the mean inside the hook.
            """
            return mean(model, name, x, statistic=lambda output: output.detach()).mean()

        def number_not_tensor(model, name, x):
            """You returned a Python number. It keeps no graph, but the task asks for a 0-dim tensor: return
            `output.detach().mean()`.
            """
            return mean(model, name, x, statistic=lambda output: output.mean().item())

        def float32_always(model, name, x):
            """Your mean is float32, whatever the output was. `.float()` makes it so, and `torch.tensor(number)`, too: a
            Python number has no dtype to go by. Return `output.detach().mean()` itself.
            """
            return mean(model, name, x, statistic=lambda output: torch.tensor(output.mean().item()))

        def another_statistic(model, name, x):
            """You returned the sum, or the mean of the absolute values. The task asks for the mean:
            `output.detach().mean()`.
            """
            return mean(model, name, x, statistic=lambda output: output.detach().sum())

        def another_statistic__2(model, name, x):
            return mean(model, name, x, statistic=lambda output: output.detach().abs().mean())

        def detached_in_place(model, name, x):
            """`detach_()` cuts the graph of the output itself, with which the model goes on, and refuses views.
            `detach()` returns a new tensor, and leaves the output alone.
            """
            return mean(model, name, x, statistic=lambda output: output.detach_().mean())
