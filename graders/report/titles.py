"""The titles of lessons and exercises, since results contain only their stems and keys."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Titles:
    """Titles by lesson stem and by exercise key."""

    lessons: Mapping[str, str] = field(default_factory=dict)
    exercises: Mapping[str, str] = field(default_factory=dict)

    def lesson(self, stem: str) -> str:
        """A lesson's title, or its stem if it has none."""
        return self.lessons.get(stem, stem)

    def exercise(self, key: str) -> str:
        """An exercise's title, or its key if it has none."""
        return self.exercises.get(key, key)
