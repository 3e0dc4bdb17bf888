"""Stories by family of functions. Each is printed as a program, so it is written for the learner's eyes."""
