"""Tools for authors: they build the notebooks from the source of a lesson, and prove that the course is consistent."""
