"""Exercise 14-attention-pattern."""

import torch

from graders.exercises.authoring import exercise, wrong_ways
from graders.exercises.lesson_05_capturing_activations.programs import copied
from graders.exercises.lesson_14_inside_a_transformer.programs import RUNS, inputs_of, kept_graph, run
from graders.scenes.scene import stories
from graders.scenes.stories import read_transformers as readers


def pattern(model, tokens, layer, *, run=run, copy=copied, **wanted):
    """The weights that `attention` returns when it is asked for them; `wanted` are other keyword arguments of it."""
    attention, kept = model.blocks[layer].attention, []

    def ask(module, args, kwargs):
        return args, {**kwargs, "need_weights": True, "average_attn_weights": False, **wanted}

    def keep(module, args, output):
        kept.append(copy(output[1]))

    asking = attention.register_forward_pre_hook(ask, with_kwargs=True)
    run(model, tokens, [asking, attention.register_forward_hook(keep)])
    return kept[0]


def by_hand(attention, normed, size=None):
    """The weights of causal attention, from the queries and the keys. `size` is what the root is taken of."""
    queries, keys, _ = (normed @ attention.in_proj_weight.T).chunk(3, -1)
    queries, keys = (t.unflatten(-1, (attention.num_heads, -1)).transpose(1, 2) for t in (queries, keys))
    scores = queries @ keys.mT / (size or attention.head_dim) ** 0.5
    return scores.masked_fill(torch.ones_like(scores).bool().triu(1), -torch.inf).softmax(-1).detach()


@exercise(
    "14-attention-pattern",
    points=3,
    minutes=20,
    difficulty=2,
    title="Where each head looks",
    hints=(
        "A pre-hook that is registered with `with_kwargs=True` gets `(module, args, kwargs)`, and what it returns, "
        "`(args, kwargs)`, is what the module is called with.",
        "`nn.MultiheadAttention` returns a pair. With `need_weights=True` its second item is the weights, and with "
        "`average_attn_weights=False` they come for each head.",
        "A forward hook on `model.blocks[layer].attention` keeps `output[1]`. Leave the other keyword arguments as "
        "they are: the mask is one of them.",
    ),
    why=(
        "The pre-hook changes what `attention` is asked for, and its own code computes the weights, mask and all. "
        "A forward hook that calls `module.forward` once more and asks for weights would do as well, or a softmax of "
        "queries times keys."
    ),
    scene=stories(
        promises={
            "the weights of each head are returned": readers.READ,
            "the model runs once, as it would without you": readers.run_once,
            "a later call starts afresh": readers.afresh,
            "two calls at the same time do not disturb each other": readers.called_inside,
            "nothing of the caller changes": readers.left_alone,
            "an exception comes through and nothing is left": readers.model_raises,
        },
        axes=readers.PATTERNS,
        made=readers.a_decoder,
        more=readers.a_layer,
    ),
)
class TestAttentionPattern:
    """Block `layer` does not ask its `attention` for weights (`need_weights=False`). Write
    `attention_pattern(model, tokens, layer)`: run `model(tokens)` once, and return the weights anyway, for each head by
    itself: [batch, heads, token, token], where row t says how much token t looks at each token.

    **Example.** Head 3 of block 1 knows what comes after `cow`: it looks at the word after the last `cow`.

    >>> from graders.nets import decode, echo_decoder, encode
    >>> model, tokens = echo_decoder(), encode(". fox owl cow yak . fox owl cow")
    >>> weights = attention_pattern(model, tokens, 1)
    >>> list(weights.shape)
    [1, 4, 9, 9]
    >>> decode(tokens[0, weights[0, 3, -1].argmax()])
    'yak'

    **Fine print.** `model` is built as `graders.nets.Decoder` is: a block calls its `attention`, an
    `nn.MultiheadAttention`, once, with `attn_mask` and `need_weights` as keyword arguments, and drops the second item
    of what it returns. No token looks at later ones. What the model returns stays as it is. Other people's hooks on
    `attention` only watch, so you may call it again. The result has no graph.
    """

    def reference(model, tokens, layer):
        block = model.blocks[layer]
        return by_hand(block.attention, inputs_of([block.attention], model, tokens)[0])

    class Mistakes(wrong_ways(pattern, (*RUNS, kept_graph))):
        def averaged(model, tokens, layer):
            """You got the mean over the heads, which `nn.MultiheadAttention` returns by default. Ask for
            `average_attn_weights=False` as well.
            """
            return pattern(model, tokens, layer, average_attn_weights=True)

        def averaged__2(model, tokens, layer):  # and repeated
            mean = pattern(model, tokens, layer, average_attn_weights=True)
            return mean.unsqueeze(1).repeat(1, model.blocks[layer].attention.num_heads, 1, 1)

        def another_scale(model, tokens, layer):
            """You scaled the products of queries and keys otherwise than attention does. Divide them by the root of the
            size of one head, `attention.head_dim`, and not by that of the whole width.
            """
            attention = model.blocks[layer].attention
            return by_hand(attention, inputs_of([attention], model, tokens)[0], attention.embed_dim)

        def another_scale__2(model, tokens, layer):
            attention = model.blocks[layer].attention
            return by_hand(attention, inputs_of([attention], model, tokens)[0], 1)

        def forgot_mask(model, tokens, layer):
            """Tokens look at later ones: the mask got lost. It is among the keyword arguments with which the block
            calls `attention`: hand them on, and change only those about the weights.
            """
            return pattern(model, tokens, layer, attn_mask=None)

        def mask_turned_round(model, tokens, layer):
            """Your mask is the wrong way round: `attention` lets no token look where `attn_mask` is True. Hand on the
            mask with which the block calls it.
            """
            attention = model.blocks[layer].attention
            (normed,) = inputs_of([attention], model, tokens)
            mask = torch.ones(tokens.shape[1], tokens.shape[1], dtype=torch.bool).tril()
            return attention(normed, normed, normed, attn_mask=mask, average_attn_weights=False)[1].detach()

        def forgot_norm(model, tokens, layer):
            """You computed the weights from what the block gets. Attention reads it through `norm1`."""
            block = model.blocks[layer]
            return by_hand(block.attention, inputs_of([block], model, tokens)[0])

        def another_block(model, tokens, layer):
            """These are the weights of another block. `layer` counts `model.blocks` from 0."""
            return pattern(model, tokens, layer - 1)

        def another_block__2(model, tokens, layer):
            return pattern(model, tokens, -1)

        def another_block__3(model, tokens, layer):
            return pattern(model, tokens, 0)

        def another_block__4(model, tokens, layer):
            return pattern(model, tokens, -1 - layer)

        def not_asked(model, tokens, layer):
            """You got `None` where the weights should be: `attention` was not asked for them. A pre-hook with
            `with_kwargs=True` has to return `(args, kwargs)` with `need_weights=True`, and with
            `average_attn_weights=False`.
            """
            return pattern(model, tokens, layer, need_weights=False)

        def not_asked__2(model, tokens, layer):
            return pattern(model, tokens, layer, need_weights=False, copy=lambda weights: weights)

        def keywords_alone(model, tokens, layer):
            """Your pre-hook returned the keyword arguments alone. With `with_kwargs=True` it returns both:
            `return args, kwargs`.
            """
            attention = model.blocks[layer].attention
            with attention.register_forward_pre_hook(lambda module, args, kwargs: kwargs, with_kwargs=True):
                model(tokens)

        def output_not_weights(model, tokens, layer):
            """You returned what `attention` computes, the first item of its pair. The weights are the second:
            `output[1]`.
            """
            kept = []
            hook = lambda module, args, output: kept.append(copied(output[0]))  # noqa: E731
            run(model, tokens, [model.blocks[layer].attention.register_forward_hook(hook)])
            return kept[0]

        def last_token_alone(model, tokens, layer):
            """You kept the row of the last token alone. The task asks for the row of each token."""
            return pattern(model, tokens, layer)[:, :, -1]

        def transposed(model, tokens, layer):
            """Rows and columns are swapped: row t is what token t looks at, and adds up to 1. That is how
            `nn.MultiheadAttention` returns it.
            """
            return pattern(model, tokens, layer).mT.contiguous()

        def first_row_alone(model, tokens, layer):
            """You kept only the first row of the batch. The result has the batch as its first dimension."""
            return pattern(model, tokens, layer)[0]

        def forward_replaced(model, tokens, layer):
            """You replaced `attention.forward`, and it is still replaced. Put it back in `finally`, or use hooks:
            a pre-hook with `with_kwargs=True` changes what a module is called with.
            """
            attention, kept = model.blocks[layer].attention, []

            def forward(*args, **kwargs):
                output = type(attention).forward(
                    attention, *args, **{**kwargs, "need_weights": True, "average_attn_weights": False}
                )
                kept.append(copied(output[1]))
                return output

            attention.forward = forward
            model(tokens)
            return kept[0]
