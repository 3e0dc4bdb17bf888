"""Lesson 1. Where gradients live: leaf, non-leaf, retain_grad."""
