"""The story of the control, an exercise whose results are known in advance (`graders.marking.control`)."""

from typing import Any

from graders.scenes.story import Call, Draw, Seen


def doubled(call: Call, draw: Draw, case: Any) -> Seen:
    """The gradient is doubled."""
    x = draw.tensor(3).requires_grad_()
    (draw.number(-2, 2) * call(x)).backward()
    yield "the gradient of x", x.grad
