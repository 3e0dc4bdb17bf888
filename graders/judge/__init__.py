"""Judges what the probes saw: pure functions from inputs and outcomes to results. Knows nothing of kernels."""
