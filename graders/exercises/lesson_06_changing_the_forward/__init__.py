"""Lesson 6. Changing the forward."""
