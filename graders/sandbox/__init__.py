"""Runs a notebook that nobody trusts: `outside` starts boxes and talks to them, `inside` runs in them."""
