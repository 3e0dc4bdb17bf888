"""Mutation testing: makes wrong answers from right ones by typical mistakes with hooks, to see if graders notice."""
