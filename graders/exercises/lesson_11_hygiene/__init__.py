"""Lesson 11. Hygiene: memory, handles, copies, NaN."""
