"""Turn results into files and text. Nothing in this room imports torch."""
