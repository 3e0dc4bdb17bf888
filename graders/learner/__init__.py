"""The commands for learners in a terminal: `hookwork start`, `check`, `watch`, `reset` and the others."""
