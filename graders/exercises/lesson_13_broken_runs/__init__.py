"""Lesson 13. Broken runs."""
