"""What lessons and exercises are called. Results know only stems and keys."""

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
        """A lesson's title; its stem where there is none."""
        return self.lessons.get(stem, stem)

    def exercise(self, key: str) -> str:
        """An exercise's title; its key where there is none."""
        return self.exercises.get(key, key)

    def function(self, key: str) -> str:
        """The function of an exercise; its key where there is none."""
        return self.functions.get(key, key)
