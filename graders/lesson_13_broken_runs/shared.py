"""What probes of several exercises of lesson 13 use, beside the learner's code."""
