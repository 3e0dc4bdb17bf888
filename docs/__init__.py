"""The web site: `sphinx-build -W docs build/site` makes it from these pages and from the lessons."""
