"""Lesson 5. Capturing activations: forward hooks."""
