"""Stories of 13-signal-report alone."""

from typing import Any

import torch
from torch import nn

from graders.scenes.stories.failing import a_failing_call
from graders.scenes.stories.inspected_passes import PASSES, a_model
from graders.scenes.story import Call, Draw, Seen
from graders.scenes.watch import Watch

AXES = PASSES | {"x_is": ("data",)}


def under_no_grad(call: Call, draw: Draw, case: Any) -> Seen:
    """The caller may have switched gradients off."""
    model, x = a_model(draw, case)
    torch.set_grad_enabled(False)
    found = call(model, lambda out: (out**3).mean(), x)
    yield "the report under no_grad", found
    error, fails = a_failing_call(draw, case)
    before = Watch(model=model)
    came = None
    try:
        call(model, lambda out: fails(), x)
    except (Exception, type(error)) as caught:
        came = repr(caught)
    yield "the exception under no_grad", came
    yield "by a call that raised under no_grad", before.differences()
    yield "torch.is_grad_enabled() after the call", torch.is_grad_enabled()


def of_a_leaf(call: Call, draw: Draw, case: Any) -> Seen:
    """A model may be a leaf itself, and a loss without a graph."""
    layer, x = nn.Linear(3, 2), draw.tensor(2, 2, 3)
    layer.weight.data, layer.bias.data = draw.tensor(2, 3), draw.tensor(2)
    yield "the report of a tiny gradient", call(layer, lambda out: 3e-8 * (out * out).sum(), x)
    yield "the report for a loss without a graph", call(layer, lambda out: out.detach().sum(), x)
