"""Authoring: from the source of a lesson to its notebooks, and the proof that the course holds."""
