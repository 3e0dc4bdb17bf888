"""Answers to 05-leaf-shapes."""

from graders.author.answers import Wrong, changed

LEAF_SHAPES = """
def leaf_shapes(model, x):
    shapes, handles = {}, []
    try:
        for name, module in model.named_modules():
            if list(module.children()):
                continue
            def hook(module, args, output, name=name):
                shapes[name] = tuple(output.shape)
            handles.append(module.register_forward_hook(hook))
        model(x)
    finally:
        for handle in handles:
            handle.remove()
    return shapes
"""

RIGHT = [
    """
def leaf_shapes(model, x):
    shapes, handles = {}, []
    try:
        for name, module in model.named_modules():
            if not list(module.children()):
                def hook(module, args, output, name=name):
                    shapes[name] = tuple(output.shape)
                handles.append(module.register_forward_hook(hook))
        model(x)
    finally:
        for handle in handles:
            handle.remove()
    return shapes
""",
    """
from contextlib import ExitStack
from functools import partial

def note(shapes, name, module, args, output):
    shapes[name] = output.shape

def leaf_shapes(model, x):
    shapes = {}
    with ExitStack() as stack:
        for name, module in model.named_modules():
            if next(module.children(), None) is None:
                stack.enter_context(module.register_forward_hook(partial(note, shapes, name)))
        model(x)
    return shapes
""",
    """
def leaf_shapes(model, x):
    shapes, handles, known = {}, [], set()
    def visit(module, path):
        if module in known:
            return
        known.add(module)
        children = list(module.named_children())
        for name, child in children:
            visit(child, path + [name])
        if not children:
            full = ".".join(path)
            handles.append(module.register_forward_hook(
                lambda m, a, o: shapes.__setitem__(full, tuple(o.shape))))
    visit(model, [])
    try:
        model(x)
    finally:
        for handle in handles:
            handle.remove()
    return shapes
""",
    """
import contextlib

def leaf_shapes(model, x):
    shapes = {}
    with contextlib.ExitStack() as st:
        for n, m in model.named_modules():
            if not any(True for _ in m.children()):
                st.enter_context(m.register_forward_hook(lambda m, a, o, n=n: shapes.__setitem__(n, o.size())))
        model(x)
    return shapes
""",
    """
def leaf_shapes(model, x):
    log, handles = [], []
    names = {id(module): name for name, module in model.named_modules()}
    for module in model.modules():
        if not any(True for _ in module.children()):
            def hook(module, args, output):
                log.append((names[id(module)], tuple(map(int, output.shape))))
            handles.append(module.register_forward_hook(hook))
    try:
        model(x)
    finally:
        [handle.remove() for handle in handles]
    return dict(log)
""",
]

WRONG = [
    Wrong(
        "needs outputs with two dimensions",
        violates="it maps the name to the shape of its output",
        check="raised",
        source=changed(LEAF_SHAPES, ("tuple(output.shape)", "(output.shape[0], *output.shape[1:])")),
    ),
    Wrong(
        "ends at the first output that is no tensor",
        violates="those of others may be anything",
        check="raised",
        source="""
def leaf_shapes(model, x):
    shapes, handles = {}, []
    try:
        for name, module in model.named_modules():
            def hook(module, args, output, name=name):
                shape = tuple(output.shape)
                if not list(module.children()):
                    shapes[name] = shape
            handles.append(module.register_forward_hook(hook))
        model(x)
    finally:
        for handle in handles:
            handle.remove()
    return shapes
""",
    ),
]

SURVIVORS = {
    "not for all: for name, child in _part(children, step=-1)": "hooks are registered in any order",
}
