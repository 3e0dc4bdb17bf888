"""What every room shares: exercises and their draws, the comparison of what was seen, and results."""
