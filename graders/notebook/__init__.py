"""What a learner calls in a notebook: the same draw, probe and judge as in `pytest graders`."""
