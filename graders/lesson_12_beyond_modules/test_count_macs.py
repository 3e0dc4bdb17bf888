"""Exercise 12-count-macs."""

from __future__ import annotations

import contextlib
import math

from torch import nn
from torch.nn.modules.module import register_module_forward_hook
from torch.utils.flop_counter import FlopCounterMode

from graders.authoring import exercise
from graders.scenes.counted_runs import a_workload, linear_layers
from graders.scenes.inspections import inspects

LAYERS = (nn.Conv2d, nn.Linear)


def dots(layer, output):
    """The multiply-adds of a call."""
    return output.numel() * math.prod(layer.weight.shape[1:])


def added_up(model, x, work):
    """What `work(layer, output)` says of each call of a convolution or linear layer."""
    counts = []
    with contextlib.ExitStack() as hooks:
        for layer in model.modules():
            if isinstance(layer, LAYERS):
                hook = layer.register_forward_hook(lambda layer, args, output: counts.append(work(layer, output)))
                hooks.enter_context(hook)
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
    scene=inspects(
        made=a_workload,
        also=linear_layers,
        words={
            "task": "all MACs are counted",
            "special": "those of a single layer are counted",
            "runs": "the model runs once as it is",
        },
    ),
)
class TestCountMacs:
    """Write `count_macs(model, x)`: run the model, and return, as an `int`, how many multiply-adds (MACs) all calls of
    `nn.Conv2d` and `nn.Linear` modules in it do together, for the whole batch. A dot product of length n has n MACs.

    **Example.**

    >>> count_macs(nn.Linear(10, 4), torch.ones(3, 10))  # 12 numbers, 10 MACs each
    120
    >>> count_macs(nn.Conv2d(2, 6, 3), torch.ones(1, 2, 5, 5))  # 6 * 3 * 3 numbers, 2 * 3 * 3 MACs each
    972

    **Fine print.** Zeros, of the padding or others, are multiplied like all numbers; adding a bias is no MAC. Each call
    counts, also one by keyword, with its own sizes. Subclasses of the two count, also with modules in them; other
    modules and functions that multiply, such as `nn.Conv1d` or `F.linear`, do not. A module may have two names.
    Convolutions have any groups, strides, dilation, padding (also `"same"`) and kernels; the input of a linear layer
    has any number of dimensions.
    """

    def reference(model, x):
        return added_up(model, x, dots)

    def reference_with_a_global_hook(model, x):  # it also sees a run of another model in the middle of this one
        counts = []

        def count(module, args, output):
            if isinstance(module, LAYERS):
                counts.append(dots(module, output))

        with register_module_forward_hook(count):
            model(x)
        return sum(counts)

    class Mistakes:
        def ignored_groups(model, x):
            """You used all input channels for each number of the output. With groups, an output channel sees only
            `in_channels / groups` of them; `weight[0].numel()` knows that.
            """
            return added_up(model, x, lambda layer, output: getattr(layer, "groups", 1) * dots(layer, output))

        def input_size_used(model, x):
            """You used the size of the input. The work is done once for each number of the *output*, which is smaller
            after a stride or without padding: start from `output.numel()`.
            """
            counts = []

            def note(layer, args, kwargs):
                given = args[0] if args else kwargs["input"]
                counts.append(given.numel() * layer.weight.numel() // layer.weight.shape[1])

            with contextlib.ExitStack() as hooks:
                for layer in model.modules():
                    if isinstance(layer, LAYERS):
                        hooks.enter_context(layer.register_forward_pre_hook(note, with_kwargs=True))
                model(x)
            return sum(counts)

        def square_kernel(model, x):
            """You squared one side of the kernel. A kernel has a height and a width, and they can differ:
            `kernel_size[0] * kernel_size[1]`.
            """

            def squared(layer, output):
                if isinstance(layer, nn.Linear):
                    return dots(layer, output)
                return output.numel() * layer.weight.shape[1] * layer.kernel_size[0] ** 2

            return added_up(model, x, squared)

        def only_last_call(model, x):
            """A module that is called twice counted only once. Add in the hook at each call, and do not overwrite an
            entry of the same module.
            """
            counts = {}
            added_up(model, x, lambda layer, output: counts.update({layer: dots(layer, output)}) or 0)
            return sum(counts.values())

        def ignored_batch(model, x):
            """You counted the work of one sample. The task asks for the whole batch: use all of `output.numel()`."""
            return added_up(model, x, lambda layer, output: dots(layer, output[0]))

        def rows_not_counted(model, x):
            """A linear layer works on every row of its input, and an input of three dimensions has several rows for
            each sample. `output.numel() * in_features` counts them all.
            """

            def of_samples(layer, output):
                samples = len(output) if output.dim() > 1 else 1
                return samples * layer.weight.numel() if isinstance(layer, nn.Linear) else dots(layer, output)

            return added_up(model, x, of_samples)

        def counted_weights(model, x):
            """You counted weights. A weight of a convolution is used once for each position of the output and for each
            sample: multiply the weights of one output by `output.numel()`.
            """
            return added_up(model, x, lambda layer, output: layer.weight.numel())

        def counted_bias(model, x):
            """You counted the bias, too. Adding it is no multiply-add; leave it out."""
            bias = lambda layer, output: output.numel() * (layer.bias is not None)  # noqa: E731
            return added_up(model, x, lambda *call: dots(*call) + bias(*call))

        def subclasses_left_out(model, x):
            """The calls of a subclass of `nn.Linear` or `nn.Conv2d` are missing. Ask with `isinstance`, which knows
            subclasses, and also where such a layer has modules in it.
            """
            return added_up(model, x, lambda layer, output: dots(layer, output) if type(layer) in LAYERS else 0)

        def flops_not_macs(model, x):
            """You counted FLOPs: a multiplication and an addition as two. A MAC is both together."""
            return 2 * added_up(model, x, dots)

        def counted_all_operations(model, x):
            """You counted every product with weights. Here only calls of `nn.Conv2d` and `nn.Linear` modules count.
            `FlopCounterMode` cannot tell them from `nn.Conv1d`, `nn.ConvTranspose2d`, `F.linear` or `@`; forward hooks
            on these modules can.
            """
            with FlopCounterMode(display=False) as counter:
                model(x)
            return counter.get_total_flops() // 2

        def entry_not_there(model, x):
            """You took an entry of `args` that is not there: `args` is empty when a module is called by keyword. The
            `output` and the `weight` are enough here.
            """
            with contextlib.ExitStack() as hooks:
                for layer in model.modules():
                    if isinstance(layer, LAYERS):
                        hook = layer.register_forward_hook(lambda layer, args, output: len(args[0]))
                        hooks.enter_context(hook)
                model(x)

        def hook_left_after_exception(model, x):
            counts = []
            note = lambda layer, args, output: counts.append(dots(layer, output))  # noqa: E731
            layers = [layer for layer in model.modules() if isinstance(layer, LAYERS)]
            handles = [layer.register_forward_hook(note) for layer in layers]
            model(x)
            for handle in handles:
                handle.remove()
            return sum(counts)
