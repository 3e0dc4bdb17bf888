"""The exercises: a folder for each lesson, a file for each exercise, and what they are written with."""
