"""What answers to several exercises of the lesson are made from."""

REMOVE = """
def remove_all_hooks(model):
    count = 0
    for module in model.modules():
        for hooks in (module._forward_pre_hooks, module._forward_hooks,
                      module._backward_pre_hooks, module._backward_hooks):
            count += len(hooks)
            hooks.clear()
    return count
"""

KINDS = """
KINDS = ("_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks")
"""


def changed(source: str, old: str, new: str) -> str:
    """An answer with one place changed."""
    assert old in source, old
    return source.replace(old, new)
