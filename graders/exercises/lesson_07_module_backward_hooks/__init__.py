"""Lesson 7. Module backward hooks."""
