"""Train the net for shapes and write its weights: `python -m graders.nets.train`.

It is seeded and single-threaded, so that it makes the same weights again with the same version of torch.
"""

from __future__ import annotations

import torch
from safetensors.torch import save_file
from torch.nn import functional as F

from graders.nets.shapes import WEIGHTS, ShapesNet, draw_shapes

SEED = 2013
STEPS, BATCH = 600, 64
HELD_OUT_SEED, HELD_OUT = 99, 1000
"""The seed and number of the drawings that measure accuracy; training never sees them."""


def train_shapes_net(steps: int = STEPS) -> ShapesNet:
    """A net in eval mode, trained on `steps` batches of new drawings."""
    torch.manual_seed(SEED)
    model = ShapesNet()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=1e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1e-2, total_steps=steps)
    for step in range(steps):
        images, labels, _ = draw_shapes(BATCH, SEED + 1 + step)
        loss = F.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]  # torch declares no types
        optimizer.step()
        schedule.step()
        if step % 100 == 99:
            print(f"step {step + 1}: loss {loss.item():.3f}")
    return model.eval()


@torch.no_grad()
def held_out_accuracy(model: ShapesNet, count: int = HELD_OUT) -> float:
    """The share of `count` held-out drawings that the net classifies correctly, from 0 to 1."""
    images, labels, _ = draw_shapes(count, HELD_OUT_SEED)
    return float((model(images).argmax(1) == labels).float().mean())


if __name__ == "__main__":
    torch.set_num_threads(1)
    trained = train_shapes_net()
    save_file({name: tensor.contiguous() for name, tensor in trained.state_dict().items()}, WEIGHTS)
    print(f"accuracy on {HELD_OUT} held-out drawings: {held_out_accuracy(trained):.3f}")
    print(f"written: {WEIGHTS} ({WEIGHTS.stat().st_size / 1000:.0f} kB)")
