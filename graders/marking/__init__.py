"""A batch: notebooks are run and judged, each once, and a control exercise along with those of a class."""
