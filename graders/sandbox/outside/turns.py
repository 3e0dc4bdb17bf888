"""Whose turn it is to run: usually several boxes run beside each other, but one may have to run alone."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Turn:
    """One box's time to run."""

    shared = False
    """Whether another box ran at some time in it."""


class Turns:
    """Gives boxes their turns, from any thread. Each process knows only its own boxes."""

    def __init__(self) -> None:
        """Nothing runs yet."""
        self._changed = threading.Condition()
        self._running: set[Turn] = set()
        self._alone = 0
        """How many run alone or wait for that. Meanwhile no other begins."""

    @contextmanager
    def take(self, *, alone: bool = False) -> Iterator[Turn]:
        """Wait for a turn, with others or `alone`, and hold it inside."""
        turn = Turn()
        with self._changed:
            self._alone += alone
            self._changed.wait_for(lambda: not (self._running if alone else self._alone))
            self._running.add(turn)
            if len(self._running) > 1:
                for other in self._running:
                    other.shared = True
        try:
            yield turn
        finally:
            with self._changed:
                self._running.remove(turn)
                self._alone -= alone
                self._changed.notify_all()


turns = Turns()
"""The turns of this process's boxes."""
