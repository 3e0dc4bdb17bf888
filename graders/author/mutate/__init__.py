"""Mutation: wrong answers derived from right ones by the mistakes of this field, to try what the graders see."""
