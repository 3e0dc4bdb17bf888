"""Lesson 8. Event order."""
