"""Lesson 2. Watching gradients: Tensor.register_hook."""
