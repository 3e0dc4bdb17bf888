"""The pytest plugin behind `pytest graders`: options, one test for each check, and the summary.

`graders/conftest.py` loads it.
"""
