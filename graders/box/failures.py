"""Failures on purpose, and what came through of them."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Any

from graders.box.probing import NotAttempted


class CallerError(ValueError):
    """An exception of the caller's own. It is a `ValueError`, so that who swallows these swallows this one."""


KINDS: dict[str, type[BaseException]] = {
    "own": CallerError, "RuntimeError": RuntimeError, "KeyError": KeyError, "ValueError": ValueError,
    "StopIteration": StopIteration, "KeyboardInterrupt": KeyboardInterrupt,
}  # fmt: skip
RERAISED_ERRORS = (NotImplementedError, NotAttempted, MemoryError, SystemExit)
"""What is never a learner's answer to a failure: it says that there is no answer, or that a limit was hit."""


class Failure:
    """An exception of one kind that is raised in the first run or in the second, by whatever calls `raise_if_due`.

    `kind` is a key of `KINDS`. A probe lets a model, a loss or a hook call `raise_if_due`, and then

        seen["failure"] = failure.during(lambda: student.some_function(model, x))
    """

    def __init__(self, kind: str, run: str = "first") -> None:
        """`run` is "first" or "second"."""
        self.error = KINDS[kind](f"on purpose {secrets.token_hex(4)}")
        self._left = 1 if run == "first" else 2

    def raise_if_due(self, *args: Any, **kwargs: Any) -> None:
        """One run: raise when this is the one. Fits wherever torch calls a hook, or a caller a loss."""
        self._left -= 1
        if self._left == 0:
            raise self.error

    @property
    def is_pending(self) -> bool:
        """Whether it has not been raised yet: the run in which it is raised never came."""
        return self._left > 0

    def outcome_during(self, call: Callable[[], Any]) -> str:
        """What became of the exception during `call()`.

        "came through", "swallowed", "never raised", or the type and text of another exception. An interrupt that is
        not ours is a person's or a limit's, and is passed on.
        """
        try:
            call()
        except RERAISED_ERRORS:
            raise
        except BaseException as error:
            # One that was raised from it is another exception, whatever it looks like.
            if type(error) is type(self.error) and error.args == self.error.args and not error.__cause__:
                became = "came through"
            elif isinstance(error, KeyboardInterrupt):
                raise
            else:
                became = f"{type(error).__name__}: {error}"[:300]
            error.__traceback__ = None  # of a copy of ours, where the answer copies what raises it
            return became
        finally:
            # Its frames keep alive what was interrupted. Before torch 2.8 that may be a checkpoint, which goes on
            # packing the tensors that others save.
            self.error.__traceback__ = None
        return "never raised" if self.is_pending else "swallowed"
