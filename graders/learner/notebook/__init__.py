"""The functions that a learner calls in a notebook. They use the same draws, probes and judge as `pytest graders`."""
