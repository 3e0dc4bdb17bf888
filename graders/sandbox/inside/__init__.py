"""What runs beside the learner's code.

Only this folder, `graders.wire`, `graders.probing`, `graders.scenes` and what lessons import are copied into the box,
with a stub of `graders/__init__.py`. So these modules import only each other, the standard library, torch, numpy and
the Jupyter stack: no check, no expected value, no report.
"""
