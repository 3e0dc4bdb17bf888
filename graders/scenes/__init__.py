"""What callers have and do, by family of functions. Goes into the box whole, and holds no answer."""
