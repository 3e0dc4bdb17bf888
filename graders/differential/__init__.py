"""Marking by comparison: the learner's function and a reference go through one scene, and what shows is compared."""
