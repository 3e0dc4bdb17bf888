"""Raise an exception on purpose while the learner's function runs, and see whether it comes through."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Any

from graders.probing.asking import NotAttempted


class CallerError(ValueError):
    """The caller's own exception. It is a `ValueError`, so code that swallows those swallows this one, too."""


KINDS: dict[str, type[BaseException]] = {
    "own": CallerError, "RuntimeError": RuntimeError, "KeyError": KeyError, "ValueError": ValueError,
    "StopIteration": StopIteration, "KeyboardInterrupt": KeyboardInterrupt,
}  # fmt: skip
RERAISED_ERRORS = (NotImplementedError, NotAttempted, MemoryError, SystemExit)
"""Exceptions that are never an answer to a failure: they mean that there is no answer, or that a limit was hit."""


class Failure:
    """An exception that is raised in the first or the second run, by whatever calls `raise_if_due`.

    `kind` is a key of `KINDS`. A probe lets a model, a loss or a hook call `raise_if_due`, and then

        seen["failure"] = failure.outcome_during(lambda: student.some_function(model, x))
    """

    def __init__(self, kind: str, run: str = "first") -> None:
        """`run` says which run raises: "first" or "second"."""
        self.error = KINDS[kind](f"on purpose {secrets.token_hex(4)}")
        self._left = 1 if run == "first" else 2

    def raise_if_due(self, *args: Any, **kwargs: Any) -> None:
        """Count one run, and raise if it is the one. Fits wherever torch calls a hook, or a caller calls a loss."""
        self._left -= 1
        if self._left == 0:
            raise self.error

    def __deepcopy__(self, memo: object) -> Failure:
        """The failure itself: when a model is copied, the hooks of both count the same runs."""
        return self

    @property
    def is_pending(self) -> bool:
        """Whether the exception has not been raised, because its run never came."""
        return self._left > 0

    def outcome_during(self, call: Callable[[], Any]) -> str:
        """Return what became of the exception during `call()`.

        This is "came through", "swallowed", "never raised", or the type and text of another exception. An interrupt
        that is not ours comes from a person or a limit and is passed on, as are the `RERAISED_ERRORS`.
        """
        try:
            call()
        except RERAISED_ERRORS:
            raise
        except BaseException as error:
            # One that was raised `from` ours is another exception, even if it looks the same.
            if type(error) is type(self.error) and error.args == self.error.args and not error.__cause__:
                became = "came through"
            elif isinstance(error, KeyboardInterrupt):
                raise
            else:
                became = f"{type(error).__name__}: {error}"[:300]
            error.__traceback__ = None  # it may be a copy of ours, where the answer copies whatever raises it
            return became
        finally:
            # The frames of a traceback keep alive what was interrupted. Before torch 2.8 that may be a checkpoint,
            # which would go on packing the tensors that others save.
            self.error.__traceback__ = None
        return "never raised" if self.is_pending else "swallowed"
