"""The learner's commands behind `hookwork start`, `check`, `watch`, `reset` and the others."""
