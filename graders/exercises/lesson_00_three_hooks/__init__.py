"""Lesson 0. Three hooks."""
