"""Lesson 4. After accumulation: post-accumulate-grad hooks."""
