"""Exercise 14-ablate-head."""

import contextlib

import torch

from graders.exercises.authoring import exercise
from graders.scenes.scene import stories
from graders.scenes.stories import ablated_heads as heads


def columns(block, head):
    """The columns of a head in what `mix` gets."""
    size = block.mix.in_features // block.attention.num_heads
    return slice(head * size, (head + 1) * size)


def zeroed(t, part):
    """A copy with zeros in some columns."""
    t = t.clone()
    t[..., part] = 0
    return t


def before_mix(block, change):
    """A hook that gives `mix` what `change` makes of the heads."""
    return block.mix.register_forward_pre_hook(lambda module, args: change(args[0]))


@exercise(
    "14-ablate-head",
    points=2,
    minutes=15,
    difficulty=2,
    core=True,
    title="Switch off a head",
    hints=(
        "`model.blocks[layer].mix` gets the heads side by side. What does a forward pre-hook on it return?",
        "A head has `mix.in_features // attention.num_heads` columns. Write zeros into them, in a copy.",
        "The handle of a hook is a context manager: at the end of a `with`, it takes the hook off, whatever happens. "
        "So return the handle.",
    ),
    why=(
        "Before `mix` each head still has columns of its own, so zeros there switch off one head and nothing else, and "
        "the handle is a context manager already. Zeros in what `attention` returns do the same, and so does a "
        "generator with `@contextlib.contextmanager` that has its `yield` inside the `with` of the handle."
    ),
    scene=stories(
        promises={
            "the head adds nothing": heads.SILENT,
            "everything else is as before": heads.REST,
            "one within another works": heads.NESTED,
            "after it the model is as it was": heads.as_it_was,
            "an exception comes through and nothing is left": heads.something_raises,
        },
        axes=heads.ABLATED,
    ),
)
class TestAblateHead:
    """Write the context manager `ablate_head(model, layer, head)`: inside its `with`, head number `head` of
    `model.blocks[layer]` adds nothing to the stream, and everything else is as before. Afterwards the model is as it
    was, even when something raised.

    **Example.**

    >>> from graders.nets import decode, echo_decoder, encode
    >>> model, tokens = echo_decoder(), encode(". fox owl bee cow yak . fox owl bee")
    >>> with ablate_head(model, 1, 3):
    ...     without = decode(model(tokens)[0, -1].argmax())
    >>> decode(model(tokens)[0, -1].argmax()), without
    ('cow', 'fox')

    **Fine print.** `model` is built as `graders.nets.Decoder` is. The `mix` of a block gets its heads side by side, of
    which there are `attention.num_heads`: head 0 in the first `width // heads` columns, head 1 in the next ones, and so
    on. Even inside the `with`, weights keep their values. Do not write into a tensor that `attention` returned. Other
    people's pre-hooks on `mix` keep zeros as they are. Several may be open at once, each for a different head.
    """

    def reference(model, layer, head):
        def hook(module, args, output):
            width = output[0].shape[-1]
            others = torch.arange(width) // (width // module.num_heads) != head
            return output[0] * others, *output[1:]

        return model.blocks[layer].attention.register_forward_hook(hook)  # a handle is a context manager

    class Mistakes:
        @contextlib.contextmanager
        def hook_left_after_exception(model, layer, head):
            block = model.blocks[layer]
            handle = before_mix(block, lambda heads: zeroed(heads, columns(block, head)))
            yield
            handle.remove()

        @contextlib.contextmanager
        def swallowed_the_exception(model, layer, head):
            """An exception inside the `with` does not come through. Use `try` with `finally` and without `except`, or
            a `with` around your `yield`.
            """
            block = model.blocks[layer]
            hook = before_mix(block, lambda heads: zeroed(heads, columns(block, head)))
            with hook, contextlib.suppress(BaseException):
                yield

        def forgot_return(model, layer, head):
            return before_mix(model.blocks[layer], lambda heads: None)

        def written_into(model, layer, head):
            """Your hook wrote zeros into the tensor that `attention` returned, and one of the caller's hooks had kept
            it. Write into a clone, and return that.
            """
            block = model.blocks[layer]
            return before_mix(block, lambda heads: [heads[..., columns(block, head)].zero_()].clear())

        def written_into__2(model, layer, head):
            block = model.blocks[layer]

            @torch.no_grad()
            def change(heads):
                heads[..., columns(block, head)] = 0

            return before_mix(block, change)

        def last_token_alone(model, layer, head):
            """The head is off at the last token alone. Take its columns at every token: `heads[..., start:end]`."""
            block = model.blocks[layer]
            return before_mix(
                block, lambda heads: torch.cat([heads[:, :-1], zeroed(heads[:, -1:], columns(block, head))], 1)
            )

        def behind_mix(model, layer, head):
            """You put zeros into what `mix` returns. Each of its columns has something from every head. The heads lie
            side by side in what `mix` gets: use a pre-hook.
            """
            block = model.blocks[layer]
            return block.mix.register_forward_hook(lambda module, args, output: zeroed(output, columns(block, head)))

        def all_heads(model, layer, head):
            """All heads of the block are off. Put zeros only into the columns of this head."""
            return before_mix(model.blocks[layer], torch.zeros_like)

        def only_this_head(model, layer, head):
            """You put zeros into the columns of all the other heads, and only this one is left."""
            block = model.blocks[layer]
            return before_mix(block, lambda heads: heads - zeroed(heads, columns(block, head)))

        def every_nth_column(model, layer, head):
            """You took every `heads`-th column. A head has `width // heads` columns in a row: from `head * size` up to
            `(head + 1) * size`.
            """
            block = model.blocks[layer]
            return before_mix(block, lambda heads: zeroed(heads, slice(head, None, block.attention.num_heads)))

        def size_is_number(model, layer, head):
            """You took as many columns as there are heads. A head has `width // heads` columns."""
            size = model.blocks[layer].attention.num_heads
            return before_mix(model.blocks[layer], lambda heads: zeroed(heads, slice(head * size, (head + 1) * size)))

        def sixteen_columns(model, layer, head):
            """You took 16 columns. That is right for the model of the example: a head has `width // heads` columns."""
            return before_mix(model.blocks[layer], lambda heads: zeroed(heads, slice(head * 16, (head + 1) * 16)))

        def tokens_off(model, layer, head):
            """You put zeros into tokens: the second dimension counts them. Columns are the last dimension:
            `heads[..., start:end]`.
            """

            def change(heads):
                part = columns(model.blocks[layer], head)
                return zeroed(heads.transpose(1, 2), part).transpose(1, 2)

            return before_mix(model.blocks[layer], change)

        def one_column(model, layer, head):
            """You put zeros into one column, that with the number of the head. A head has `width // heads` columns."""
            return before_mix(model.blocks[layer], lambda heads: zeroed(heads, head))

        @contextlib.contextmanager
        def edited_weights(model, layer, head):
            """You put zeros into `mix.weight`. Weights are the caller's, and somebody may save or train them inside the
            `with`. Change what `mix` gets, with a hook.
            """
            block = model.blocks[layer]
            before = block.mix.weight.data
            block.mix.weight.data = zeroed(before, columns(block, head))
            try:
                yield
            finally:
                block.mix.weight.data = before

        def cut_the_graph(model, layer, head):
            """Gradients do not flow as before: what your hook returned has no graph. Leave out `detach()`, `.data` and
            `torch.no_grad()`.
            """
            block = model.blocks[layer]
            return before_mix(block, lambda heads: zeroed(heads.detach(), columns(block, head)))

        def columns_behind_too(model, layer, head):
            """You put zeros into the columns of later heads, too. A head has `width // heads` columns: end at
            `(head + 1) * size`.
            """
            block = model.blocks[layer]
            return before_mix(block, lambda heads: zeroed(heads, slice(columns(block, head).start, None)))

        def counted_from_one(model, layer, head):
            """You counted heads from 1. Head 0 has the first columns: from `head * size` up to `(head + 1) * size`."""
            block = model.blocks[layer]
            size = columns(block, 0).stop
            return before_mix(block, lambda heads: zeroed(heads, slice((head - 1) * size, head * size)))

        def another_block(model, layer, head):
            """You switched off a head of another block. `layer` counts `model.blocks` from 0."""
            return before_mix(
                model.blocks[layer - 1], lambda heads: zeroed(heads, columns(model.blocks[layer - 1], head))
            )

        def another_block__2(model, layer, head):
            return before_mix(model.blocks[0], lambda heads: zeroed(heads, columns(model.blocks[0], head)))

        def not_a_context_manager(model, layer, head):
            """What you return is no context manager, so `with` refuses it. Return the handle, or put
            `@contextlib.contextmanager` over a function with one `yield`.
            """
            block = model.blocks[layer]
            before_mix(block, lambda heads: zeroed(heads, columns(block, head)))

        def not_a_context_manager__2(model, layer, head):
            block = model.blocks[layer]
            before_mix(block, lambda heads: zeroed(heads, columns(block, head)))
            yield

        @contextlib.contextmanager
        def decorated_without_yield(model, layer, head):
            """A function under `@contextlib.contextmanager` has to `yield`. If you return the handle, which is a
            context manager already, leave the decorator out.
            """
            return before_mix(model.blocks[layer], torch.zeros_like)

        def not_zeros(model, layer, head):
            """You put other numbers than zeros into the columns of the head. The head adds nothing only with zeros."""
            block = model.blocks[layer]
            part = columns(block, head)

            def change(heads):
                heads = heads.clone()
                heads[..., part] = heads[..., part].mean()
                return heads

            return before_mix(block, change)

        def not_zeros__2(model, layer, head):
            block = model.blocks[layer]
            return before_mix(
                block, lambda heads: heads - torch.inf * (1 - zeroed(torch.ones_like(heads), columns(block, head)))
            )
