"""Exercise 14-residual-stream."""

from contextlib import ExitStack

import torch

from graders.exercises.authoring import exercise, wrong_ways
from graders.exercises.lesson_14_inside_a_transformer.programs import STREAMS, first_of, stream_of
from graders.scenes.scene import stories
from graders.scenes.stories import read_transformers as readers


@exercise(
    "14-residual-stream",
    points=2,
    minutes=15,
    difficulty=2,
    core=True,
    title="What flows between the blocks",
    hints=(
        "The first value is an input, all the others are outputs: a pre-hook on `model.blocks[0]`, and a forward hook "
        "on each block.",
        "A block of `Decoder` returns a tuple. The stream is `output[0]` then, and `output` itself where a block "
        "returns a tensor: check with `isinstance(output, tuple)`.",
        "Keep copies: `.detach().clone()`, since a block may write over what it got. `torch.stack` makes the list "
        "into one tensor. `contextlib.ExitStack` takes off any number of hooks, even after an exception.",
    ),
    why=(
        "Hooks on the blocks see the stream as it is, whatever the model does before its first block. What a block "
        "passes on is also what the next one gets, unless somebody's pre-hook comes between the two."
    ),
    scene=stories(
        promises={
            "the stream is there before and after each block": (*readers.READ, readers.replaced, readers.overwritten),
            "the model runs once, as it would without you": readers.run_once,
            "a later call starts afresh": readers.afresh,
            "two calls at the same time do not disturb each other": readers.called_inside,
            "nothing of the caller changes": readers.left_alone,
            "an exception comes through and nothing is left": readers.model_raises,
        },
        axes={**readers.STREAMS, "norm": readers.UNNORMED},
        made=readers.a_model,
        more=readers.no_more,
    ),
)
class TestResidualStream:
    """Write `residual_stream(model, tokens)`: run `model(tokens)` once, and return what flows between its blocks: what
    the first of `model.blocks` gets, and then what each block passes on, as one tensor of shape
    [blocks + 1, batch, token, width].

    **Example.** The stream after the last block is all that the logits are made of.

    >>> from graders.nets import echo_decoder, encode
    >>> model, tokens = echo_decoder(), encode(". fox owl bee cow")
    >>> stream = residual_stream(model, tokens)
    >>> list(stream.shape)
    [4, 1, 5, 64]
    >>> torch.allclose(model.unembed(model.norm(stream[-1])), model(tokens), atol=1e-4)
    True

    **Fine print.** Blocks get the stream as their first argument. A block returns the stream after it, or a tuple that
    begins with it, and may write it over what it got: each value counts as it flowed. Before the first block and after
    the last, the model may do anything. If someone else's hook replaces what a block returns, that is what the block
    passes on. The result has no graph.
    """

    def reference(model, tokens):
        return stream_of(model, tokens)

    class Mistakes(wrong_ways(stream_of, STREAMS)):
        def first_missing(model, tokens):
            """The stream before the first block is missing. It is the input of that block: a pre-hook on
            `model.blocks[0]` sees it.
            """
            return stream_of(model, tokens)[1:]

        def input_looked_at_too_late(model, tokens):
            """A forward hook on the first block gets `args[0]` when the block has run, and here the block wrote over
            it. Take it in a pre-hook, which comes before.
            """
            kept = []
            keep = lambda module, args, output: kept.append(args[0].detach().clone())  # noqa: E731
            with model.blocks[0].register_forward_hook(keep):
                stream = stream_of(model, tokens)
            return torch.cat([torch.stack(kept[:1]), stream[1:]])

        def last_missing(model, tokens):
            """What the last block passes on is missing: you took what each block gets. Take what each one returns, and
            what the first one gets.
            """
            return stream_of(model, tokens)[:-1]

        def inputs_of_the_next(model, tokens):
            """You took what the next block gets. One of the caller's pre-hooks on it comes between the two: take what
            the block itself passes on, in a forward hook.
            """
            kept = []
            with ExitStack() as stack:
                for block in model.blocks:
                    hook = lambda module, args: kept.append(args[0].detach().clone())  # noqa: E731
                    stack.enter_context(block.register_forward_pre_hook(hook))
                stream = stream_of(model, tokens)
            return torch.stack([*kept, stream[-1]])

        def embeddings_alone(model, tokens):
            """Your first entry is the output of `model.embed`. On its way to the first block the model adds positions
            to it: take what `model.blocks[0]` gets.
            """
            return torch.stack([model.embed(tokens).detach(), *stream_of(model, tokens)[1:]])

        def what_the_norm_gets(model, tokens):
            """Your last entry is what `model.norm` gets. Behind the last block the model may do anything, and need not
            call the norm at all: take what the last block passes on.
            """
            kept = []
            with ExitStack() as stack:
                for module in (*model.blocks, model.norm):
                    hook = lambda module, args: kept.append(args[0].detach().clone())  # noqa: E731
                    stack.enter_context(module.register_forward_pre_hook(hook))
                model(tokens)
            return torch.stack(kept)

        def rebuilt(model, tokens):
            """You wrote the run of the model yourself, and the model does more than that, for example in training
            mode. Run `model(tokens)`, and look on with hooks.
            """
            stream = [(model.embed(tokens) + model.position(torch.arange(tokens.shape[1]))).detach()]
            for block in model.blocks:
                stream.append(first_of(block(stream[-1].clone())).detach())
            return torch.stack(stream)

        def rebuilt__2(model, tokens):
            first = model.embed(tokens) + model.position(torch.arange(tokens.shape[1]))
            return torch.stack([first.detach(), *stream_of(model, tokens)[1:]])

        def what_blocks_add(model, tokens):
            """You returned what each block adds. What flows on is the sum: what the block returns."""
            stream = stream_of(model, tokens)
            return torch.cat([stream[:1], stream[1:] - stream[:-1]])

        def normed_at_the_end(model, tokens):
            """Your last entry has been through `model.norm`. Take what the last block passes on."""
            stream = stream_of(model, tokens)
            return torch.cat([stream[:-1], model.norm(stream[-1:]).detach()])

        def blocks_come_second(model, tokens):
            """The blocks are your second dimension. `torch.stack(kept)` makes them the first."""
            return stream_of(model, tokens).transpose(0, 1).contiguous()

        def joined_the_batches(model, tokens):
            """You joined the tensors along the batch. `torch.stack(kept)` gives the blocks a dimension of their own;
            `torch.cat` does not.
            """
            return stream_of(model, tokens).flatten(0, 1)

        def last_token_alone(model, tokens):
            """You kept only the last token. The task asks for the stream at every token."""
            return stream_of(model, tokens)[:, :, -1]
