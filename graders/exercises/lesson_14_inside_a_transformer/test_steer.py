"""Exercise 14-steer."""

import torch

from graders.exercises.authoring import exercise
from graders.scenes.scene import stories
from graders.scenes.stories import steered_blocks as blocks


def behind(block, change, **options):
    """A hook that makes of the stream that `block` passes on what `change` returns."""

    def hook(module, args, output):
        return (change(output[0]), *output[1:]) if isinstance(output, tuple) else change(output)

    return block.register_forward_hook(hook, **options)


def moved(stream, by, start):
    """A new stream."""
    return torch.cat([stream[:, :start], stream[:, start:] + by], 1)


@exercise(
    "14-steer",
    points=2,
    minutes=15,
    difficulty=2,
    core=True,
    title="Steer what it says",
    hints=(
        "A forward hook on `model.blocks[layer]` gets what the block passes on, and what it returns takes its place.",
        "If `output` is a tuple, the stream is `output[0]`: return `(stream, *output[1:])`. If not, it is the stream.",
        "The stream is [batch, token, width]. `stream[:, start:]` are the tokens from `start` on; write into a clone.",
    ),
    why=(
        "What the hook returns is what the next block reads, so one vector changes everything that comes after it, "
        "and no weight is touched. A clone with one part added to, `torch.cat` of two parts, or a vector that is 0 at "
        "the tokens before `start` would all do."
    ),
    scene=stories(
        promises={
            "every token from start on is moved": blocks.MOVED,
            "the rest of what the block returns stays": blocks.rest_stays,
            "what the block computed is not overwritten": blocks.KEPT,
            "gradients flow through the block": blocks.gradients_flow,
            "nothing else changes": blocks.nothing_else,
            "each handle removes its own hook": blocks.REMOVED,
        },
        axes=blocks.STEERED,
    ),
)
class TestSteer:
    """Write `steer(model, layer, direction, scale, start=0)`: from now on, in every call, `scale * direction` is added
    to the stream that `model.blocks[layer]` passes on, at each token from position `start` on. Return the handle.

    **Example.**

    >>> block = nn.Identity()
    >>> model = nn.Module()
    >>> model.blocks = nn.ModuleList([block])
    >>> handle = steer(model, 0, torch.tensor([1.0, 0.0]), 10.0, 1)
    >>> block(torch.tensor([[[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]]))  # one text of three tokens
    tensor([[[ 1.,  2.],
             [13.,  4.],
             [15.,  6.]]])

    **Fine print.** `direction` has shape [width], and `scale` is a number. A block returns its stream, or a plain tuple
    that begins with it; the rest of the tuple stays as it is. Positions are counted from 0 in each call, which may have
    fewer than `start` tokens. The tensor that the block made is not written into, and gradients still flow to it.
    Forward hooks that the block has at this moment come first.
    """

    def reference(model, layer, direction, scale, start=0):
        def change(stream):
            late = torch.arange(stream.shape[1]) >= start
            return stream + late[:, None] * direction * scale

        return behind(model.blocks[layer], change)

    class Mistakes:
        def forgot_return(model, layer, direction, scale, start=0):
            return model.blocks[layer].register_forward_hook(lambda module, args, output: None)

        def rest_lost(model, layer, direction, scale, start=0):
            """The block returns a tuple, and your hook returns the stream alone. Return a tuple with the rest of what
            was in it: `(stream, *output[1:])`.
            """

            def hook(module, args, output):
                return moved(output[0] if isinstance(output, tuple) else output, scale * direction, start)

            return model.blocks[layer].register_forward_hook(hook)

        def rest_lost__2(model, layer, direction, scale, start=0):
            def hook(module, args, output):
                if isinstance(output, tuple):
                    return moved(output[0], scale * direction, start), None
                return moved(output, scale * direction, start)

            return model.blocks[layer].register_forward_hook(hook)

        def rest_lost__3(model, layer, direction, scale, start=0):  # where no token is moved
            def hook(module, args, output):
                stream = output[0] if isinstance(output, tuple) else output
                if stream.shape[1] <= start:
                    return stream
                stream = moved(stream, scale * direction, start)
                return (stream, *output[1:]) if isinstance(output, tuple) else stream

            return model.blocks[layer].register_forward_hook(hook)

        def every_token(model, layer, direction, scale, start=0):
            """Tokens before `start` were moved, too. Only those from `start` on are: `stream[:, start:]`."""
            return behind(model.blocks[layer], lambda stream: stream + scale * direction)

        def only_at_start(model, layer, direction, scale, start=0):
            """Only the token at `start` was moved. Move those after it, too: `stream[:, start:]`, with a colon."""

            def change(stream):
                here = torch.arange(stream.shape[1]) == start
                return stream + here[:, None] * direction * scale

            return behind(model.blocks[layer], change)

        def start_counts_texts(model, layer, direction, scale, start=0):
            """You cut along the first dimension, which counts texts. The stream is [batch, token, width]:
            `stream[:, start:]`.
            """
            return behind(
                model.blocks[layer], lambda stream: torch.cat([stream[:start], stream[start:] + scale * direction])
            )

        def start_counts_columns(model, layer, direction, scale, start=0):
            """You cut along the last dimension, which counts the numbers of a token. The stream is
            [batch, token, width]: `stream[:, start:]`.
            """
            late = torch.arange(len(direction)) >= start
            return behind(model.blocks[layer], lambda stream: stream + late * direction * scale)

        def every_block(model, layer, direction, scale, start=0):
            """You moved what every block passes on. One block is asked for: `model.blocks[layer]`."""
            return [behind(block, lambda stream: moved(stream, scale * direction, start)) for block in model.blocks][-1]

        def counted_over_calls(model, layer, direction, scale, start=0):
            """`start` was counted over several calls. In each call the tokens are counted anew, from 0: keep no number
            from one call to the next.
            """
            before = []

            def change(stream):
                late = max(start - sum(before), 0)
                before.append(stream.shape[1])
                return moved(stream, scale * direction, late)

            return behind(model.blocks[layer], change)

        def without_scale(model, layer, direction, scale, start=0):
            """You added `direction` itself. Multiply it by `scale`."""
            return behind(model.blocks[layer], lambda stream: moved(stream, direction, start))

        def unit_length(model, layer, direction, scale, start=0):
            """You made `direction` a vector of length 1. Add `scale * direction` as it is."""
            unit = direction / direction.norm()
            return behind(model.blocks[layer], lambda stream: moved(stream, scale * unit, start))

        def changed_the_input(model, layer, direction, scale, start=0):
            """You changed what the block reads. Change what it passes on, with a forward hook."""
            return model.blocks[layer].register_forward_pre_hook(
                lambda module, args: (moved(args[0], scale * direction, start), *args[1:])
            )

        def written_into(model, layer, direction, scale, start=0):
            """Your hook wrote into the tensor that the block made, and one of the caller's hooks had kept it. `+=` on a
            part does that, too: write into a clone, or compute a new tensor.
            """

            def change(stream):
                stream[:, start:] += scale * direction
                return stream

            return behind(model.blocks[layer], change)

        def cut_the_graph(model, layer, direction, scale, start=0):
            """The stream is right, but no gradient gets through any more: leave out `detach()`, `.data` and
            `torch.no_grad()`.
            """
            return behind(model.blocks[layer], lambda stream: moved(stream.detach(), scale * direction, start))

        def before_other_hooks(model, layer, direction, scale, start=0):
            """What you added was changed by one of the caller's hooks. Add it to what those hooks leave: a forward hook
            on the block itself, without `prepend=True`.
            """
            return behind(model.blocks[layer], lambda stream: moved(stream, scale * direction, start), prepend=True)

        def after_start(model, layer, direction, scale, start=0):
            """The token at `start` was not moved. It is the first that is: `stream[:, start:]`."""
            return behind(model.blocks[layer], lambda stream: moved(stream, scale * direction, start + 1))

        def before_start(model, layer, direction, scale, start=0):
            """You moved the tokens before `start`, and those from `start` on stayed. Move `stream[:, start:]`."""

            def change(stream):
                return torch.cat([stream[:, :start] + scale * direction, stream[:, start:]], 1)

            return behind(model.blocks[layer], change)

        def replaced_the_stream(model, layer, direction, scale, start=0):
            """You put the vector in the place of the stream, or multiplied by it. Add it to what is there: `+=` in a
            clone.
            """

            def change(stream):
                return torch.cat([stream[:, :start], (scale * direction).expand_as(stream[:, start:])], 1)

            return behind(model.blocks[layer], change)

        def replaced_the_stream__2(model, layer, direction, scale, start=0):
            def change(stream):
                return torch.cat([stream[:, :start], stream[:, start:] * (scale * direction)], 1)

            return behind(model.blocks[layer], change)

        def subtracted(model, layer, direction, scale, start=0):
            """You moved the stream the other way. Add `scale * direction`."""
            return behind(model.blocks[layer], lambda stream: moved(stream, -scale * direction, start))

        def first_text_alone(model, layer, direction, scale, start=0):
            """You moved the first text of the batch only. The stream is [batch, token, width]: `stream[:, start:]`."""

            def change(stream):
                return torch.cat([moved(stream[:1], scale * direction, start), stream[1:]])

            return behind(model.blocks[layer], change)

        def tuple_for_a_stream(model, layer, direction, scale, start=0):
            """The block returns a tuple, and your hook treats it as the stream. The stream is `output[0]` then: check
            with `isinstance(output, tuple)`, and return `(stream, *output[1:])`.
            """
            return model.blocks[layer].register_forward_hook(
                lambda module, args, output: output.clone() + scale * direction
            )

        def tuple_of_two(model, layer, direction, scale, start=0):
            """You count on a tuple of two, and a block may return its stream alone in a tuple, or with more behind it.
            `stream, *rest = output` takes any number: return `(stream, *rest)`.
            """

            def change(module, args, output):
                if isinstance(output, tuple):
                    stream, cache = output
                    return moved(stream, scale * direction, start), cache
                return moved(output, scale * direction, start)

            return model.blocks[layer].register_forward_hook(change)

        def tuple_of_two__2(model, layer, direction, scale, start=0):
            def change(module, args, output):
                if isinstance(output, tuple):
                    return moved(output[0], scale * direction, start), output[1]
                return moved(output, scale * direction, start)

            return model.blocks[layer].register_forward_hook(change)

        def first_of_any(model, layer, direction, scale, start=0):
            """`output[0]` is the stream where a block returns a tuple. Of a tensor it is the first text of the batch.
            Check with `isinstance(output, tuple)`.
            """

            def change(module, args, output):
                stream = output[0].clone()
                stream[:, start:] += scale * direction
                return stream, *output[1:]

            return model.blocks[layer].register_forward_hook(change)

        def first_of_any__2(model, layer, direction, scale, start=0):
            return model.blocks[layer].register_forward_hook(
                lambda module, args, output: (moved(output[0], scale * direction, start), *output[1:])
            )

        def always_a_tuple(model, layer, direction, scale, start=0):
            """Your hook returns a tuple where the block returns the stream itself. Return what the block does: the
            stream alone then, and `(stream, *output[1:])` only if `isinstance(output, tuple)`.
            """

            def change(module, args, output):
                stream, *rest = output if isinstance(output, tuple) else (output,)
                return moved(stream, scale * direction, start), *rest

            return model.blocks[layer].register_forward_hook(change)
