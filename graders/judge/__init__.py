"""Judging what was seen: pure functions from draws and outcomes to results. Knows nothing of kernels."""
