"""Train the decoder of echoes and write its weights: `python -m graders.nets.train_echo`.

It is seeded and single-threaded, so that it makes the same weights again on the same machine and version of torch.
"""

from __future__ import annotations

import torch
from safetensors.torch import save_model
from torch import Tensor
from torch.nn import functional as F

from graders.nets.decoder import Block, Decoder
from graders.nets.echo import CONTEXT, WEIGHTS, WORDS, draw_echoes

SEED = 2017
BATCH = 32
HELD_OUT_SEED, HELD_OUT = 99, 500
"""The seed and number of the echoes that measure accuracy; training never sees them."""
LEARNING_PHASE, PRUNING_PHASE = (700, 3e-3, 0.01), (300, 2e-3, 0.05)
"""Steps, highest learning rate and weight of the heads' norms in the loss, for each phase of the training."""


def train_echo_decoder() -> Decoder:
    """A trained and pruned decoder in eval mode.

    The norms of the heads are added to the loss, as in a group lasso (Yuan and Lin, "Model selection and estimation in
    regression with grouped variables", 2006): a head that another can replace costs more than it is worth, and fades.
    In the second phase the norms weigh more, so that only few heads matter in the end.
    """
    torch.manual_seed(SEED)
    model = Decoder(len(WORDS), context=CONTEXT)
    fit_decoder(model, *LEARNING_PHASE, seed=SEED + 1)
    fit_decoder(model, *PRUNING_PHASE, seed=SEED + 1 + LEARNING_PHASE[0])
    return model.eval()


def fit_decoder(model: Decoder, steps: int, rate: float, sparsity: float, seed: int) -> None:
    """Train `model` on `steps` batches of new echoes, drawn with `seed`, `seed + 1` and so on.

    `rate` is the highest learning rate. The loss is the cross-entropy of the tokens after round 0, plus the norms of
    the heads, whose weight grows from 0 to `sparsity` during the first half.
    """
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, betas=(0.9, 0.98))
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, rate, total_steps=steps, pct_start=0.1)
    for step in range(steps):
        tokens, rounds = draw_echoes(BATCH, seed + step, CONTEXT + 1)
        later = rounds[:, 1:] > 0
        loss = F.cross_entropy(model(tokens[:, :-1])[later], tokens[:, 1:][later])
        optimizer.zero_grad()
        (loss + sparsity * min(1, 2 * step / steps) * head_norms(model).sum()).backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if step % 100 == 99:
            print(f"step {step + 1}: loss {loss.item():.3f}")


def head_norms(model: Decoder) -> Tensor:
    """The norm of the weights with which each head makes its values and writes them to the stream, [blocks, heads]."""
    rows = []
    for block in model.blocks:
        assert isinstance(block, Block)
        heads, width = block.attention.num_heads, block.mix.in_features
        values = block.attention.in_proj_weight[2 * width :].view(heads, -1)
        written = block.mix.weight.T.reshape(heads, -1)
        rows.append(torch.cat([values, written], 1).norm(dim=1))
    return torch.stack(rows)


@torch.no_grad()
def held_out_accuracy(model: Decoder, count: int = HELD_OUT) -> float:
    """The share of animals predicted correctly, from 0 to 1, among those after round 0 that follow another animal."""
    tokens, rounds = draw_echoes(count, HELD_OUT_SEED, CONTEXT + 1)
    follows = (rounds[:, 1:] > 0) & (tokens[:, 1:] > 1) & (tokens[:, :-1] > 1)
    return float((model(tokens[:, :-1]).argmax(2) == tokens[:, 1:])[follows].float().mean())


if __name__ == "__main__":
    torch.set_num_threads(1)
    trained = train_echo_decoder()
    save_model(trained, str(WEIGHTS))
    print("norms of the heads, one line per block:")
    print("\n".join(" ".join(f"{norm:.2f}" for norm in row) for row in head_norms(trained).tolist()))
    print(f"accuracy on the animals of {HELD_OUT} held-out echoes: {held_out_accuracy(trained):.3f}")
    print(f"written: {WEIGHTS} ({WEIGHTS.stat().st_size / 1000:.0f} kB)")
