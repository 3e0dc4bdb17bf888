"""`pytest graders`: its options, its tests, and what is printed at the end. `graders/conftest.py` hands over to it."""
