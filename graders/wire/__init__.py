"""What both sides of the wall speak: frames, the data in them, limits. It knows nothing of either side."""
