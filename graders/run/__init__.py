"""Runs notebooks: from an untrusted file to a transcript of frames. Knows nothing of points."""
