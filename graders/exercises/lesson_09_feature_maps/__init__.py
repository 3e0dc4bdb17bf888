"""Lesson 9. Feature maps: numbers first, pictures second."""
