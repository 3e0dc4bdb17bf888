"""The pytest plugin behind `pytest graders`, loaded by `graders/conftest.py`: options, tests and the summary."""
