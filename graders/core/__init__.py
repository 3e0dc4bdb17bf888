"""What every room shares: the exercise, its draws, the comparison of what was seen, the results."""
