"""Lesson 14. Inside a transformer."""
