"""Exercise 14-patch-path."""

import torch

from graders.exercises.authoring import exercise, wrong_ways
from graders.exercises.lesson_05_capturing_activations.programs import copied
from graders.exercises.lesson_14_inside_a_transformer.programs import (
    before_others,
    first_of,
    first_of_any,
    hook_left_after_exception,
    hook_left_behind,
    inputs_of,
    run,
    stored_alias,
)
from graders.scenes.scene import stories
from graders.scenes.stories import patched_texts as texts


def put(hidden, kept, token):
    """A token of `kept` in a copy of the stream."""
    hidden = hidden.clone()
    hidden[:, token] = kept[:, token]
    return hidden


def share(patched, clean, corrupt):
    """Which part of the way from corrupt to clean it is."""
    return (patched - corrupt) / (clean - corrupt)


def effects(model, clean, corrupt, metric, *, run=run, copy=copied, take=first_of, put=put, share=share, **options):
    """The right way, by forward hooks on the blocks; `options` are those of `register_forward_hook`."""
    kept, shares = {}, []

    def keep(module, args, output):
        kept[module] = copy(take(output))

    best = metric(run(model, clean, [block.register_forward_hook(keep, **options) for block in model.blocks]))
    worst = metric(model(corrupt))
    for block in model.blocks:
        for token in range(clean.shape[1]):

            def patch(module, args, output, token=token):
                hidden = put(take(output), kept[module], token)
                return (hidden, *output[1:]) if isinstance(output, tuple) else hidden

            shares.append(
                share(metric(run(model, corrupt, [block.register_forward_hook(patch, **options)])), best, worst)
            )
    return torch.tensor(shares, dtype=torch.float32).view(len(model.blocks), -1)


@exercise(
    "14-patch-path",
    name="patch_effects",
    points=3,
    minutes=30,
    difficulty=3,
    title="Where the answer comes from",
    hints=(
        "One run on `clean`, in which a hook on each block keeps a copy of what it passes on. One on `corrupt` without "
        "hooks. Then one on `corrupt` for each block and token, with a hook on that block alone.",
        "That hook clones the stream, writes `kept[:, token]` into `[:, token]` of the clone, and returns it: in a "
        "tuple, if the block returned one.",
        "Take the hooks of the first run off before the second, or they would keep what flows there. "
        "`with block.register_forward_hook(hook):` takes a hook off after each run.",
    ),
    why=(
        "A share of 1 means that everything the metric measures passes through this place, whatever its unit. One run "
        "on many rows, which tries all tokens of a block at once, would do as well."
    ),
    scene=stories(
        promises={
            "each entry is the share of the metric that comes back": texts.SHARES,
            "a later call starts afresh": texts.afresh,
            "two calls at the same time do not disturb each other": texts.called_inside,
            "nothing of the caller changes": texts.nothing_else,
            "an exception comes through and nothing is left": texts.RAISES,
        },
        axes=texts.PATCHED,
    ),
)
class TestPatchPath:
    """Write `patch_effects(model, clean, corrupt, metric)`. For each block and token, run the model on `corrupt`, but
    let that block pass on, at that token, what it passed on in the run on `clean`. Return
    `(patched - corrupt) / (clean - corrupt)` of the metric: float32 [blocks, tokens].

    **Example.** One animal is swapped. What `cow` follows is known first at its own place, then at the last token.

    >>> from graders.nets import echo_decoder, encode
    >>> clean, corrupt = encode(". fox owl bee cow . fox owl bee", ". fox owl rat cow . fox owl bee").split(1)
    >>> cow = encode("cow").item()
    >>> effects = patch_effects(echo_decoder(), clean, corrupt, lambda logits: logits[0, -1].softmax(0)[cow].item())
    >>> (effects > 0.5).nonzero()  # block, token
    tensor([[0, 4],
            [1, 8],
            [2, 8]])

    **Fine print.** `metric(logits)` computes a float from these logits alone; those of `clean` and `corrupt` differ.
    Both inputs are [batch, token], and the same token is patched in every row. Run the model as often as you like; it
    is in eval mode. A block returns the stream, or a tuple that begins with it, and may write it over what it got. If
    someone else's hook replaces what a block returns, that is what the block passes on.
    """

    def reference(model, clean, corrupt, metric):
        return effects(model, clean, corrupt, metric)

    class Mistakes(
        wrong_ways(effects, (hook_left_behind, hook_left_after_exception, stored_alias, first_of_any, before_others))
    ):
        def patched_metric(model, clean, corrupt, metric):
            """You returned the metric of the patched runs. The task asks for the share that comes back: 0 if it is as
            without the patch, and 1 if it is as in the run on `clean`.
            """
            return effects(model, clean, corrupt, metric, share=lambda patched, clean, corrupt: patched)

        def difference_alone(model, clean, corrupt, metric):
            """You returned by how much the metric changes. Divide by how much there is to come back:
            `metric(clean) - metric(corrupt)`.
            """
            return effects(model, clean, corrupt, metric, share=lambda patched, clean, corrupt: patched - corrupt)

        def swapped_runs(model, clean, corrupt, metric):
            """The roles are swapped: you put what flows in the run on `corrupt` into runs on `clean`."""
            return effects(model, corrupt, clean, metric)

        def every_token(model, clean, corrupt, metric):
            """You patched all tokens at once. A run has the clean stream at one token, `[:, token]`, and its own at
            all others.
            """
            return effects(model, clean, corrupt, metric, put=lambda hidden, kept, token: kept)

        def first_row_alone(model, clean, corrupt, metric):
            """You patched only the first row of the batch, or a row in place of a token. The token is the second
            dimension: `hidden[:, token]`.
            """

            def put_first(hidden, kept, token):
                hidden = hidden.clone()
                hidden[0, token] = kept[0, token]
                return hidden

            return effects(model, clean, corrupt, metric, put=put_first)

        def kept_again(model, clean, corrupt, metric):
            """Nothing comes back. Either your patching hook does not return the new stream, or the hooks that keep what
            flows in the run on `clean` were still there in the run on `corrupt`: take them off in between.
            """
            return effects(model, clean, corrupt, metric, put=lambda hidden, kept, token: hidden)

        def patches_pile_up(model, clean, corrupt, metric):
            """Earlier patches are still there in later runs. Take the hook off after each run, as
            `with block.register_forward_hook(hook):` does.
            """
            handles = []

            def run_on(model, tokens, more):
                handles.extend(more if tokens is corrupt else [])
                return model(tokens) if tokens is corrupt else run(model, tokens, more)

            try:
                return effects(model, clean, corrupt, metric, run=run_on)
            finally:
                for handle in handles:
                    handle.remove()

        def inputs_of_the_next(model, clean, corrupt, metric):
            """You patched what the next module gets. One of the caller's pre-hooks on it comes between the two: take
            and patch what the block itself passes on, in forward hooks.
            """
            behind = [*model.blocks[1:], model.norm]
            best, worst = metric(model(clean)), metric(model(corrupt))
            shares = torch.empty(len(behind), clean.shape[1])
            for block, (module, kept) in enumerate(zip(behind, inputs_of(behind, model, clean))):
                for token in range(clean.shape[1]):
                    patch = lambda module, args, kept=kept, token=token: (put(args[0], kept, token), *args[1:])  # noqa: E731
                    with module.register_forward_pre_hook(patch):
                        shares[block, token] = share(metric(model(corrupt)), best, worst)
            return shares.float()

        def changed_the_input(model, clean, corrupt, metric):
            """You patched what goes into the block. Patch what it passes on: forward hooks, in both runs."""
            shares, best, worst = [], metric(model(clean)), metric(model(corrupt))
            for block, kept in zip(model.blocks, inputs_of(model.blocks, model, clean)):
                for token in range(clean.shape[1]):
                    patch = lambda module, args, kept=kept, token=token: (put(args[0], kept, token),)  # noqa: E731
                    with block.register_forward_pre_hook(patch):
                        shares.append(share(metric(model(corrupt)), best, worst))
            return torch.tensor(shares).view(len(model.blocks), -1)

        def kept_the_input(model, clean, corrupt, metric):
            """You put in what the block got in the run on `clean`. Put in what it passed on there: with a list that
            begins with the stream before the first block, that is one entry further on.
            """
            inputs = iter(inputs_of(model.blocks, model, clean))
            return effects(model, clean, corrupt, metric, copy=lambda hidden: next(inputs))

        def one_minus_the_share(model, clean, corrupt, metric):
            """You returned what is still missing: 1 minus the share. Start from the run on `corrupt`:
            `(patched - corrupt) / (clean - corrupt)`.
            """
            return 1 - effects(model, clean, corrupt, metric)

        def another_denominator(model, clean, corrupt, metric):
            """You divided by another number. The share is of all that can come back: `clean - corrupt`."""
            return effects(
                model,
                clean,
                corrupt,
                metric,
                share=lambda patched, clean, corrupt: (patched - corrupt) / (clean + corrupt),
            )

        def another_denominator__2(model, clean, corrupt, metric):
            return effects(
                model, clean, corrupt, metric, share=lambda patched, clean, corrupt: (patched - corrupt) / clean
            )

        def token_by_block(model, clean, corrupt, metric):
            """Rows and columns are swapped. The result is [blocks, tokens]."""
            return effects(model, clean, corrupt, metric).T.contiguous()

        def later_tokens_too(model, clean, corrupt, metric):
            """You patched the later tokens, too, or the token before. A run has the clean stream at one token,
            `[:, token]`, without a colon behind it.
            """

            def put_from(hidden, kept, token):
                return torch.cat([hidden[:, :token], kept[:, token:]], 1)

            return effects(model, clean, corrupt, metric, put=put_from)

        def later_tokens_too__2(model, clean, corrupt, metric):
            return effects(model, clean, corrupt, metric, put=lambda hidden, kept, token: put(hidden, kept, token - 1))

        def only_between_0_and_1(model, clean, corrupt, metric):
            """You changed shares below 0 or above 1: a patch may lead away from `clean`, or beyond it. Return them as
            they are, without `abs` and `clamp`.
            """
            return effects(model, clean, corrupt, metric).clamp(0, 1)

        def only_between_0_and_1__2(model, clean, corrupt, metric):
            return effects(model, clean, corrupt, metric).abs()

        def zeros_put(model, clean, corrupt, metric):
            """You put zeros at the token. Put what the block passed on there in the run on `clean`."""
            return effects(model, clean, corrupt, metric, put=lambda hidden, kept, token: put(hidden, 0 * kept, token))

        def swapped_runs__2(model, clean, corrupt, metric):
            swapped = effects(model, corrupt, clean, metric)
            return 1 - swapped

        def a_tuple_assumed(model, clean, corrupt, metric):
            """A block here returns the stream itself, and not a tuple: `output[0]` is the first row of the batch then,
            and a tuple does not fit in its place. Check with `isinstance(output, tuple)`.
            """
            for block in model.blocks:
                with block.register_forward_hook(lambda module, args, output: (output[0].clone(), *output[1:])):
                    model(clean)
            return effects(model, clean, corrupt, metric)
