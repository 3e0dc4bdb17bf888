"""What several exercises of lesson 2 draw, expect and recognise. Nothing of it goes into a box."""

from __future__ import annotations

NONE_HAS_NO_GRADIENT = tuple(f"'NoneType' object has no attribute '{name}'" for name in ("clone", "detach", "data"))
"""What Python says when a hook reads `.grad` before it is written, and wants to copy it."""

LEFT_AFTER_EXCEPTION = (
    "The model raised an exception, and your `remove()` was skipped. Put it into `finally`, or use the handle as a "
    "context manager: `with tensor.register_hook(...):`."
)
