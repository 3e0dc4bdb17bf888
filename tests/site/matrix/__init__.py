"""The matrix of docs/matrix.md: each kind of hook in each situation, decided by running it.

`python -m tests.site.matrix` runs all cells and prints them; with `--write` it writes them into docs/matrix.json, which
is what the page is made of. Under another PyTorch than the newest, it writes what differs there.
"""
