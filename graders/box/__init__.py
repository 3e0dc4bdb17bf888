"""What runs beside the learner's code. Nothing else of the package is there.

This folder is copied into the box together with a stub of `graders/__init__.py`, so its modules
import only each other, the standard library, torch, numpy and the Jupyter stack: no check, no expected
value, no report.
"""
