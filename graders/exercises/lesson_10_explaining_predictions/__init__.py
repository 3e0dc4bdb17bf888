"""Lesson 10. Explaining predictions."""
