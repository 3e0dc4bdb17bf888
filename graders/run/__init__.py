"""Running a notebook: from a file of a stranger to a transcript of frames. Knows nothing of points."""
