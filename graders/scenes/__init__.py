"""Scenes: what callers have and do. All files here are copied into the box, so none may give away an answer."""
