"""Marking by comparison: the learner's function and a reference run in the same scene, and what shows is compared."""
