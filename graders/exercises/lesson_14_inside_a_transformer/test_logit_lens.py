"""Exercise 14-logit-lens."""

import torch
import torch.nn.functional as F

from graders.exercises.authoring import exercise, wrong_ways
from graders.exercises.lesson_14_inside_a_transformer.programs import STREAMS, inputs_of, stream_of
from graders.scenes.scene import stories
from graders.scenes.stories import read_transformers as readers


def said(model, stream):
    """The logits that the model makes of a stream."""
    return model.unembed(model.norm(stream)).detach()


def lens(model, tokens, **how):
    """The right way, by forward hooks."""
    return said(model, stream_of(model, tokens, **how))


@exercise(
    "14-logit-lens",
    points=2,
    minutes=15,
    difficulty=2,
    title="What would it say after each block?",
    hints=(
        "Take the stream as in `residual_stream`, or call that function.",
        "`model.norm` and `model.unembed` work on the last dimension. They take the whole tensor [blocks + 1, batch, "
        "token, width] at once.",
        "Both have parameters, so what they return has a graph. `torch.no_grad()` around all of it, or `.detach()` at "
        "the end.",
    ),
    why=(
        "Blocks only add to the stream, so what turns its end into logits does so at every stage; and these modules "
        "take all stages at once. A hook on each block that makes its logits at once would do as well."
    ),
    scene=stories(
        promises={
            "the logits of each stage are returned": (*readers.READ, readers.replaced, readers.overwritten),
            "the model runs once, as it would without you": readers.run_once,
            "a later call starts afresh": readers.afresh,
            "two calls at the same time do not disturb each other": readers.called_inside,
            "nothing of the caller changes": readers.left_alone,
            "an exception comes through and nothing is left": readers.model_raises,
        },
        axes=readers.STREAMS,
        made=readers.a_model,
        more=readers.no_more,
    ),
)
class TestLogitLens:
    """What would the model say before its first block, and after each? Write `logit_lens(model, tokens)`: run
    `model(tokens)` once, and return `model.unembed(model.norm(...))` of the stream at each of these stages, as one
    tensor of shape [blocks + 1, batch, token, vocabulary].

    **Example.** At the last token: first the word itself, and after block 1 the answer.

    >>> from graders.nets import decode, echo_decoder, encode
    >>> model, tokens = echo_decoder(), encode(". fox owl bee cow yak . fox owl bee")
    >>> logits = logit_lens(model, tokens)
    >>> list(logits.shape)
    [4, 1, 10, 50]
    >>> decode(logits[0, 0, -1].argmax()), decode(logits[2, 0, -1].argmax())
    ('bee', 'cow')

    **Fine print.** Blocks get the stream as their first argument. A block returns the stream after it, or a tuple that
    begins with it, and may write it over what it got: each stage counts as it flowed. If someone else's hook replaces
    what a block returns, that is what the block passes on. At the last stage this gives the model's own logits. The
    result has no graph.
    """

    def reference(model, tokens):
        return lens(model, tokens)

    class Mistakes(wrong_ways(lens, STREAMS)):
        def kept_graph(model, tokens):
            """Your result has a graph. The stream may have none, but `norm` and `unembed` have parameters: call them
            under `torch.no_grad()`, or detach what comes out.
            """
            return model.unembed(model.norm(stream_of(model, tokens)))

        def forgot_norm(model, tokens):
            """You unembedded the stream as it is. The model norms it first: `model.unembed(model.norm(stream))`."""
            return model.unembed(stream_of(model, tokens)).detach()

        def norm_without_weights(model, tokens):
            """You normed the stream, but without what `model.norm` has learned: its weight and bias. Call
            `model.norm` itself.
            """
            stream = stream_of(model, tokens)
            return model.unembed(F.layer_norm(stream, stream.shape[-1:])).detach()

        def forgot_bias(model, tokens):
            """You multiplied by the weight of `model.unembed`. The module may have a bias, and a hook that changes what
            it returns: call `model.unembed` itself.
            """
            return (model.norm(stream_of(model, tokens)) @ model.unembed.weight.T).detach()

        def forgot_bias__2(model, tokens):
            normed = model.norm(stream_of(model, tokens))
            return F.linear(normed, model.unembed.weight, model.unembed.bias).detach()

        def weight_of_embed(model, tokens):
            """You unembedded with `model.embed.weight`. In the model of the lesson that is the same tensor, but in
            another model `unembed` has a weight of its own, or a bias: call `model.unembed` itself.
            """
            return (model.norm(stream_of(model, tokens)) @ model.embed.weight.T).detach()

        def normed_twice(model, tokens):
            """The last stage went through `model.norm` twice. If you take what that module returns, unembed it as it
            is.
            """
            stream = stream_of(model, tokens)
            return torch.cat([said(model, stream[:-1]), said(model, model.norm(stream[-1:]))])

        def probabilities(model, tokens):
            """These are probabilities, or their logarithms. The task asks for logits, without a softmax."""
            return lens(model, tokens).softmax(-1)

        def probabilities__2(model, tokens):
            return lens(model, tokens).log_softmax(-1)

        def first_missing(model, tokens):
            """The stage before the first block is missing. Its stream is the input of that block: a pre-hook on
            `model.blocks[0]` sees it.
            """
            return lens(model, tokens)[1:]

        def first_by_hand(model, tokens):
            """You computed what goes into the first block yourself. The model does more than add up two embeddings, for
            example in training mode, and so do hooks: a pre-hook on `model.blocks[0]` sees what comes.
            """
            first = model.embed(tokens) + model.position(torch.arange(tokens.shape[1]))
            return said(model, torch.cat([first[None], stream_of(model, tokens)[1:]]))

        def last_token_alone(model, tokens):
            """You kept only the last token. The task asks for the logits at every token."""
            return lens(model, tokens)[:, :, -1]

        def what_blocks_add(model, tokens):
            """You unembedded what each block adds. The task is about what has added up by then: the stream that the
            block returns.
            """
            stream = stream_of(model, tokens)
            return said(model, torch.cat([stream[:1], stream[1:] - stream[:-1]]))

        def last_missing(model, tokens):
            """The stage after the last block is missing: you took what each block gets. Take what each one returns, and
            what the first one gets.
            """
            return lens(model, tokens)[:-1]

        def inputs_of_the_next(model, tokens):
            """You took what the next block gets. One of the caller's pre-hooks on it comes between the two: take what
            the block itself passes on, in a forward hook.
            """
            return said(model, torch.stack(inputs_of([*model.blocks, model.norm], model, tokens)))

        def normed_at_the_end_alone(model, tokens):
            """Only the last stage went through `model.norm`. All have to: `model.unembed(model.norm(stream))`."""
            stream = stream_of(model, tokens)
            return torch.cat([model.unembed(stream[:-1]), said(model, stream[-1:])]).detach()

        def last_stage_alone(model, tokens):
            """You returned the logits of the last stage alone. Keep what flows at each stage in a list, and make one
            tensor of it with `torch.stack`.
            """
            return lens(model, tokens)[-1]

        def tokens_not_logits(model, tokens):
            """You returned the tokens with the largest logits. The task asks for the logits: leave out `argmax`."""
            return lens(model, tokens).argmax(-1)
