"""Lesson 3. Changing gradients safely."""
