"""Exercise 12-count-macs."""

import contextlib
import math

from torch import nn
from torch.nn.modules.module import register_module_forward_hook
from torch.utils.flop_counter import FlopCounterMode

from graders.exercises.authoring import exercise
from graders.scenes.scene import stories
from graders.scenes.stories import counted_calls

LAYERS = (nn.Conv2d, nn.Linear)


def dots(layer, x, output):
    """The multiply-adds of a call."""
    return output.numel() * math.prod(layer.weight.shape[1:])


def added_up(model, x, work=dots):
    """What `work(layer, input, output)` says of the calls of convolutions and linear layers in a run."""
    counts = []

    def note(layer, args, kwargs, output):
        counts.append(work(layer, *args, *kwargs.values(), output))

    with contextlib.ExitStack() as hooks:
        for layer in model.modules():
            if isinstance(layer, LAYERS):
                hooks.enter_context(layer.register_forward_hook(note, with_kwargs=True))
        model(x)
    return sum(counts)


@exercise(
    "12-count-macs",
    points=2,
    minutes=25,
    difficulty=2,
    title="Count the multiply-adds of a model",
    hints=(
        "Each number of the output is a dot product. So the work of a call is `output.numel()` times the number of "
        "multiply-adds for one number of the output.",
        "Which weights make one number of the output? Look at the shape of `weight` in a `Linear`, and in a `Conv2d` "
        "with groups: its first dimension counts the outputs.",
        "A module can be called several times with inputs of different sizes: add up in a forward hook, at every call. "
        "Remove the hooks in `finally`.",
    ),
    why=(
        "`module.weight[0]` holds the weights that one number of the output sees, in both kinds of layer and with "
        "groups. `in_features` gives the same for a linear layer, and `in_channels // groups` times the two sizes of "
        "the kernel for a convolution."
    ),
    scene=stories(
        promises={
            "all MACs are counted": (counted_calls.counted, counted_calls.one_convolution),
            "a model may be one linear layer": counted_calls.one_layer,
            "each call begins anew": counted_calls.anew,
            "two calls at the same time do not disturb each other": counted_calls.called_inside,
            "the model runs once, as it would without you": counted_calls.run_once,
            "nothing of the caller changes": counted_calls.left_alone,
            "an exception comes through and nothing is left": counted_calls.model_raises,
        },
        axes={**counted_calls.LAYERS, **counted_calls.MODEL},
        impossible=counted_calls.IMPOSSIBLE,
        made=counted_calls.a_model_of_layers,
    ),
)
class TestCountMacs:
    """Write `count_macs(model, x)`: run the model once, and return, as an `int`, how many multiply-adds (MACs) all
    calls of its `nn.Conv2d` and `nn.Linear` modules make together, for the whole batch. A dot product of length n has n
    MACs.

    **Example.**

    >>> count_macs(nn.Linear(10, 4), torch.ones(3, 10))  # 12 numbers, 10 MACs each
    120
    >>> count_macs(nn.Conv2d(2, 6, 3), torch.ones(1, 2, 5, 5))  # 6 * 3 * 3 numbers, 2 * 3 * 3 MACs each
    972

    **Fine print.** Zeros, from padding or not, are multiplied like all numbers; a bias is no MAC. Each call
    counts, even one by keyword, with its own sizes, which nobody's hook changes. Subclasses count, even with modules in
    them; other modules and functions that multiply, such as `F.linear`, do not. All layers are in `model.modules()`,
    some under two names. Convolutions have any groups, strides, dilation, padding (also `"same"`) and kernels; the
    input of a linear layer has any number of dimensions.
    """

    reference = added_up

    def reference_with_a_global_hook(model, x):  # it counts in a run of another model in the middle of this one, too
        counts = []

        def note(layer, args, output):
            counts.append(isinstance(layer, LAYERS) and dots(layer, args, output))

        with register_module_forward_hook(note):
            model(x)
        return sum(counts)

    class Mistakes:
        def ignored_groups(model, x):
            """You used all input channels for each number of the output. With groups, an output channel sees only
            `in_channels / groups` of them; `weight[0].numel()` knows that.
            """
            return added_up(model, x, lambda layer, x, output: dots(layer, x, output) * getattr(layer, "groups", 1))

        def input_size_used(model, x):
            """You used the size of the input. The work is done once for each number of the *output*, which is smaller
            after a stride or without padding: start from `output.numel()`.
            """
            return added_up(model, x, lambda layer, x, output: x.numel() * layer.weight[:, 0].numel())

        def square_kernel(model, x):
            """You squared one side of the kernel. A kernel has a height and a width, and they can differ:
            `kernel_size[0] * kernel_size[1]`.
            """

            def squared(layer, x, output):
                return output.numel() * layer.weight.shape[1] * math.prod(layer.weight.shape[2:3]) ** 2

            return added_up(model, x, squared)

        def only_last_call(model, x):
            """A module that is called twice counted only once. Add up in the hook at each call, and do not overwrite
            the module's entry.
            """
            counts = {}
            added_up(model, x, lambda layer, x, output: counts.update({layer: dots(layer, x, output)}) or 0)
            return sum(counts.values())

        def ignored_batch(model, x):
            """You counted the work of one sample. The task asks for the whole batch: use all of `output.numel()`."""
            return added_up(model, x, lambda layer, x, output: dots(layer, x, output[0]))

        def subclasses_left_out(model, x):
            """The calls of a subclass of `nn.Linear` or `nn.Conv2d` are missing. Check with `isinstance`, which knows
            subclasses, and count such a layer even where it has modules in it.
            """
            return added_up(model, x, lambda layer, x, output: dots(layer, x, output) if type(layer) in LAYERS else 0)

        def subclasses_left_out__2(model, x):
            return added_up(model, x, lambda layer, x, output: 0 if list(layer.children()) else dots(layer, x, output))

        def counted_all_operations(model, x):
            """You counted every product with weights. Here only calls of `nn.Conv2d` and `nn.Linear` modules count, and
            the total of `FlopCounterMode` holds those of `nn.Conv1d`, `F.linear` and `@`, too. Forward hooks can tell
            them apart.
            """
            with FlopCounterMode(display=False) as counter:
                model(x)
            return counter.get_total_flops() // 2

        def counted_the_bias(model, x):
            """You counted the bias. Adding it is not a MAC: only the products with weights count."""
            return added_up(
                model, x, lambda layer, x, output: dots(layer, x, output) + output.numel() * (layer.bias is not None)
            )

        def flops(model, x):
            """You counted each multiply-add as two operations. It is one MAC: leave out the factor 2."""
            return 2 * added_up(model, x)

        def one_kind_alone(model, x):
            """The work of the convolutions, or of the linear layers, is missing. Both kinds count."""
            return added_up(model, x, lambda layer, x, output: dots(layer, x, output) * isinstance(layer, nn.Linear))

        def one_kind_alone__2(model, x):
            return added_up(model, x, lambda layer, x, output: dots(layer, x, output) * isinstance(layer, nn.Conv2d))

        def weights_alone(model, x):
            """You counted weights. Each of them is used once for every position and every sample: a number of the
            output costs `weight[0].numel()` MACs, and there are `output.numel()` of them.
            """
            return added_up(model, x, lambda layer, x, output: layer.weight.numel())

        def outputs_twice(model, x):
            """You counted the output channels twice. They are in `output.numel()` already, so multiply by what one
            number of the output costs: `weight[0].numel()`.
            """
            return added_up(model, x, lambda layer, x, output: output.numel() * layer.weight.numel())

        def channels_left_out(model, x):
            """You left out the input channels. A number of a convolution's output adds up over all channels of its
            group: `in_channels // groups` times the sizes of the kernel.
            """

            def kernel(layer, x, output):
                return dots(layer, x, output) // (layer.weight.shape[1] if layer.weight.dim() == 4 else 1)

            return added_up(model, x, kernel)

        def two_dimensions_only(model, x):
            """You took the input of a linear layer for [batch, features]. It may have more dimensions, and the layer
            does its work at each of them: start from `output.numel()`.
            """

            def rows(layer, x, output):
                return dots(layer, x, output) if layer.weight.dim() == 4 else len(output) * layer.weight.numel()

            return added_up(model, x, rows)
