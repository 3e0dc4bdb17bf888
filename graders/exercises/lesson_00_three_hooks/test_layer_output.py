"""Exercise 00-layer-output."""

import torch

from graders.exercises.authoring import exercise
from graders.scenes.scene import stories
from graders.scenes.stories import one_layer


@exercise(
    "00-layer-output",
    points=1,
    minutes=3,
    difficulty=1,
    core=True,
    title="What a layer returns",
    hints=(
        "It is the first hook of this lesson, inside a function: an empty list, the `with` block, and the model called "
        "in it.",
        "The hook belongs on `layer`, the call is `model(x)`, and `return kept[0]` returns the entry and not the list.",
    ),
    scene=stories(
        promises=[one_layer.of_the_layer, one_layer.of_a_later_call, one_layer.as_it_was],
        axes=one_layer.MODELS,
        impossible=one_layer.IMPOSSIBLE,
    ),
)
class TestLayerOutput:
    """Write `layer_output(model, layer, x)`, which runs `model(x)`, returns the output of `layer`, and leaves no hook
    behind.

    **Example.**

    >>> model = nn.Sequential(nn.ReLU(), nn.Sigmoid())
    >>> layer_output(model, model[0], torch.tensor([-1.0, 2.0]))
    tensor([0., 2.])

    **Fine print.** Return the output with which the model goes on, or a copy of it. Run the model once, and no layer
    yourself. Everything else stays as it was: the model, `x`, and hooks that others have put there, even one that
    replaces an output. In the model the layer runs once, no layer works in place, and nothing raises.
    """

    def reference(model, layer, x):
        outputs = {}
        handle = layer.register_forward_hook(lambda *called: outputs.update(last=called[-1]))
        model(x)
        handle.remove()
        return outputs["last"]

    def reference_without_a_graph(model, layer, x):
        with torch.no_grad():
            return kept(model, layer, x)[0]

    class Mistakes:
        def stored_the_input(model, layer, x):
            """You kept what goes into the layer. A forward hook gets three arguments: the module, the tuple of its
            inputs, and its output. Keep the third.
            """
            return kept(model, layer, x, lambda args, output: args[0])[0]

        def stored_the_input__2(model, layer, x):
            return kept(model, layer, x, lambda args, output: args)[0]

        def returned_the_list(model, layer, x):
            """You returned the list that holds the output. Return its entry: `kept[0]`."""
            return kept(model, layer, x)

        def returned_the_models_output(model, layer, x):
            """You returned what the whole model returns. The output of `layer` is what the hook was given."""
            return model(x)

        def skipped_the_model(model, layer, x):
            """You called `layer` on `x` itself. In the model, other layers come before it: call `model(x)`, and a hook
            on `layer` sees the output that it has there.
            """
            return layer(x)

        def left_over(model, layer, x, kept_before=[]):  # noqa: B006 - the mistake
            """Two calls with different inputs returned the same thing: what an earlier call had kept. Make the list
            inside your function, so that each call gets a new one.
            """
            kept_before += kept(model, layer, x)
            return kept_before[0]

        def hook_left_behind(model, layer, x):
            """Your hook is still on the layer after your function has returned. Register it in a `with` block, which
            takes it off again, or keep the handle and call its `remove()`.
            """
            outputs = []
            layer.register_forward_hook(lambda module, args, output: outputs.append(output))
            model(x)
            return outputs[0]

        def nothing_kept(model, layer, x):
            """The list is empty, so your hook has not been called. It is called while the model runs: `model(x)`
            belongs inside the `with` block.
            """
            return [][0]

        def a_part_of_the_output(model, layer, x):
            """You kept a part of the output: `output[0]` is its first row. A forward hook is given the output as it is,
            and not in a tuple. Keep `output`.
            """
            return kept(model, layer, x, lambda args, output: output[0])[0]

        def nothing_done(model, layer, x):
            """Your function returned `None`. Does it end with `return`? If it does: in a hook, `kept = output` makes a
            variable of the hook's own. Append to a list of your function instead, and return its entry.
            """

        def ran_twice(model, layer, x):
            """The layer ran twice: the model ran more than once, or you ran the layer once more yourself. Call
            `model(x)` once, and keep what the hook is given.
            """
            return layer(kept(model, layer, x, lambda args, output: args[0])[0])

        def another_mode_left(model, layer, x):
            """You switched modes, and a layer is not back in its own: `model.eval()` and `model.train()` set the mode
            of every layer inside. Leave modes alone.
            """
            mode = model.training
            output = kept(model.eval(), layer, x)[0]
            model.train(mode)
            return output

        def before_the_callers_hook(model, layer, x):
            return kept(model, layer, x, prepend=True)[0]

        def ran_the_layers_itself(model, layer, x):
            """You ran layers one after the other yourself. That works for a plain `nn.Sequential` alone: other models
            are nested, or compute something between their layers. Call `model(x)`, with a hook on `layer`.
            """
            for child in model.children():
                x = child(x)
                if child is layer:
                    return x


def kept(model, layer, x, part=lambda args, output: output, **how):
    """A list with what a hook keeps in a run of the model."""
    found = []
    with layer.register_forward_hook(lambda module, args, output: found.append(part(args, output)), **how):
        model(x)
    return found
