"""Lesson 12. Beyond modules."""
