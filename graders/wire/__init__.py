"""The formats that a box and the process outside it share: frames, data, limits, launch plans."""
