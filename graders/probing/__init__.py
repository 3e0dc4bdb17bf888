"""Asks the learner's function: calls it in a known state and within limits, and notes what shows."""
