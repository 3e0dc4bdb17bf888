"""Answers to every exercise: right ones in other styles, and a wrong one for each listed mistake.

One module a lesson, named after it. `RIGHT["key"]` is a list of sources, `WRONG["key"]` a dict from the id of a
mistake to the source that makes it. A source is the text of an exercise cell.
"""
