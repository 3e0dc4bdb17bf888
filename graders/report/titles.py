"""The titles of lessons and exercises, since results contain only their stems and keys."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Titles:
    """Titles by lesson stem and by exercise key, and the names of the functions that answer the exercises."""

    lessons: Mapping[str, str] = field(default_factory=dict)
    exercises: Mapping[str, str] = field(default_factory=dict)
    functions: Mapping[str, str] = field(default_factory=dict)

    def lesson(self, stem: str) -> str:
        """A lesson's title, or its stem if it has none."""
        return self.lessons.get(stem, stem)

    def exercise(self, key: str) -> str:
        """An exercise's title, or its key if it has none."""
        return self.exercises.get(key, key)

    def function(self, key: str) -> str:
        """The name of the function that answers an exercise, or its key if that is unknown."""
        return self.functions.get(key, key)
