"""Scenes: what callers have and do, by family of functions.

All files here are copied into the box, beside the learner's code, so none of them may give away an answer.
"""
