"""Starts boxes and talks to them: from the cells of a notebook to a transcript. Knows nothing of points."""
