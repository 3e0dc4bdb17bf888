"""Answers to 05-leaf-shapes."""

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
from torch.nn.modules.module import register_module_forward_hook

def leaf_shapes(model, x):
    names = {module: name for name, module in model.named_modules() if not len(list(module.named_children()))}
    shapes = {}
    def hook(module, args, output):
        if module in names:
            shapes[names[module]] = tuple(int(n) for n in output.shape)
    with register_module_forward_hook(hook):
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
]

WRONG = {
    "only-sequential-recursed": """
from torch import nn

def leaf_shapes(model, x):
    shapes, handles = {}, []
    def visit(parent, prefix):
        for name, child in parent.named_children():
            if isinstance(child, nn.Sequential):
                visit(child, prefix + name + ".")
            else:
                def hook(module, args, output, name=prefix + name):
                    shapes[name] = tuple(output.shape)
                handles.append(child.register_forward_hook(hook))
    visit(model, "")
    try:
        model(x)
    finally:
        for handle in handles:
            handle.remove()
    return shapes
""",
    "containers-included": """
def leaf_shapes(model, x):
    shapes, handles = {}, []
    for name, module in model.named_modules():
        def hook(module, args, output, name=name):
            shapes[name] = tuple(output.shape)
        handles.append(module.register_forward_hook(hook))
    try:
        model(x)
    finally:
        for handle in handles:
            handle.remove()
    return shapes
""",
    "definition-order": """
def leaf_shapes(model, x):
    shapes, handles = {}, []
    leaves = {n: m for n, m in model.named_modules() if not list(m.children())}
    for name, module in leaves.items():
        def hook(module, args, output, name=name):
            shapes[name] = tuple(output.shape)
        handles.append(module.register_forward_hook(hook))
    try:
        model(x)
    finally:
        for handle in handles:
            handle.remove()
    return {name: shapes[name] for name in leaves if name in shapes}
""",
    "late-binding": """
def leaf_shapes(model, x):
    shapes, handles = {}, []
    for name, module in model.named_modules():
        if not list(module.children()):
            def hook(module, args, output):
                shapes[name] = tuple(output.shape)
            handles.append(module.register_forward_hook(hook))
    try:
        model(x)
    finally:
        for handle in handles:
            handle.remove()
    return shapes
""",
    "uncalled-included": """
def leaf_shapes(model, x):
    leaves = {n: m for n, m in model.named_modules() if not list(m.children())}
    shapes, handles = {name: None for name in leaves}, []
    for name, module in leaves.items():
        def hook(module, args, output, name=name):
            shapes[name] = tuple(output.shape)
        handles.append(module.register_forward_hook(hook))
    try:
        model(x)
    finally:
        for handle in handles:
            handle.remove()
    return shapes
""",
    "only-first-call": """
def leaf_shapes(model, x):
    shapes, handles = {}, []
    for name, module in model.named_modules():
        if not list(module.children()):
            def hook(module, args, output, name=name):
                if name not in shapes:
                    shapes[name] = tuple(output.shape)
            handles.append(module.register_forward_hook(hook))
    try:
        model(x)
    finally:
        for handle in handles:
            handle.remove()
    return shapes
""",
    "hook-left-behind": """
def leaf_shapes(model, x):
    shapes = {}
    for name, module in model.named_modules():
        if not list(module.children()):
            def hook(module, args, output, name=name):
                shapes[name] = tuple(output.shape)
            module.register_forward_hook(hook)
    model(x)
    return shapes
""",
    "hook-left-after-exception": """
def leaf_shapes(model, x):
    shapes, handles = {}, []
    for name, module in model.named_modules():
        if not list(module.children()):
            def hook(module, args, output, name=name):
                shapes[name] = tuple(output.shape)
            handles.append(module.register_forward_hook(hook))
    model(x)
    for handle in handles:
        handle.remove()
    return shapes
""",
}

ALSO_WRONG = [
    "def leaf_shapes(model, x):\n    return {}",
    """
def leaf_shapes(model, x):
    shapes, handles = {}, []
    for name, module in model.named_children():
        def hook(module, args, output, name=name):
            shapes[name] = tuple(output.shape)
        handles.append(module.register_forward_hook(hook))
    try:
        model(x)
    finally:
        for handle in handles:
            handle.remove()
    return shapes
""",
    """
def leaf_shapes(model, x):
    shapes, handles = {}, []
    for name, module in model.named_modules():
        if not list(module.children()):
            def hook(module, args, output, name=name):
                shapes.pop(name, None)
                shapes[name] = tuple(output.shape)
            handles.append(module.register_forward_hook(hook))
    try:
        model(x)
    finally:
        for handle in handles:
            handle.remove()
    return shapes
""",
    """
def leaf_shapes(model, x):
    shapes, handles = {}, []
    for name, module in model.named_modules(remove_duplicate=False):
        if not list(module.children()):
            def hook(module, args, output, name=name):
                shapes[name] = tuple(output.shape)
            handles.append(module.register_forward_hook(hook))
    try:
        model(x)
    finally:
        for handle in handles:
            handle.remove()
    return shapes
""",
    """
def leaf_shapes(model, x):
    shapes, handles = {}, []
    for name, module in model.named_modules():
        if not list(module.children()):
            def hook(module, args, output, name=name):
                shapes[name] = tuple(args[0].shape)
            handles.append(module.register_forward_hook(hook))
    try:
        model(x)
    finally:
        for handle in handles:
            handle.remove()
    return shapes
""",
    """
def leaf_shapes(model, x):
    shapes = {}
    leaves = [(n, m) for n, m in model.named_modules() if not list(m.children())]
    for name, module in leaves:
        module.register_forward_hook(lambda m, a, o, name=name: shapes.update({name: tuple(o.shape)}))
    try:
        model(x)
    finally:
        for _, module in leaves:
            module._forward_hooks.clear()
    return shapes
""",
    """
from torch import nn

def leaf_shapes(model, x):
    shapes, hs = {}, []
    def walk(m, prefix):
        for n, c in m.named_children():
            if isinstance(c, (nn.Sequential, nn.ModuleList)): walk(c, prefix + n + ".")
            elif not list(c.children()):
                hs.append(c.register_forward_hook(lambda m, a, o, k=prefix + n: shapes.__setitem__(k, tuple(o.shape))))
    walk(model, "")
    try: model(x)
    finally: [h.remove() for h in hs]
    return shapes
""",
    """
import contextlib

def leaf_shapes(model, x):
    shapes = {}
    with contextlib.ExitStack() as st:
        for n, m in model.named_modules():
            if not list(m.children()):
                hook = lambda m, a, o, n=n.rsplit(".")[-1]: shapes.__setitem__(n, tuple(o.shape))
                st.enter_context(m.register_forward_hook(hook))
        model(x)
    return shapes
""",
]
