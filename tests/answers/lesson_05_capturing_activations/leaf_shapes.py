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

HOOKED_FIRST = """
def leaf_shapes(model, x):
    shapes, handles = {}, []
    for name, module in model.named_modules():
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
        "whatever calls no other module",
        violates="Nothing else appears",
        check="test_a_layer_that_is_not_called_does_not_appear",
        source="""
def leaf_shapes(model, x):
    shapes, open_calls, handles = {}, [], []
    names = {module: name for name, module in model.named_modules()}
    def begin(module, args):
        if open_calls:
            open_calls[-1] = True
        open_calls.append(False)
    def end(module, args, output):
        if not open_calls.pop():
            shapes[names[module]] = tuple(output.shape)
    try:
        for module in names:
            handles.append(module.register_forward_pre_hook(begin))
            handles.append(module.register_forward_hook(end))
        model(x)
    finally:
        for handle in handles:
            handle.remove()
    return shapes
""",
    ),
    Wrong(
        "tries once more when nothing was seen",
        violates="rule 7: Call `model(x)` exactly once",
        check="test_a_layer_that_is_not_called_does_not_appear",
        source="""
def leaf_shapes(model, x):
    for attempt in range(2):
        shapes, handles = {}, []
        def keep(name):
            return lambda m, a, output: shapes.update({name: tuple(output.shape)})
        for name, module in model.named_modules():
            if not list(module.children()):
                handles.append(module.register_forward_hook(keep(name)))
        try:
            model(x)
        finally:
            for handle in handles:
                handle.remove()
        if shapes:
            break
    return shapes
""",
    ),
    Wrong(
        "goes down into some containers only",
        violates="one entry for every module in `model.named_modules()` that has no children",
        check="test_every_layer_has_its_shape",
        mistake="only-sequential-recursed",
        source="""
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
    ),
    Wrong(
        "containers, too",
        violates="one entry for every module in `model.named_modules()` that has no children",
        check="raised",
        mistake="containers-included",
        source="""
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
    ),
    Wrong(
        "in the order of definition",
        violates="The keys stand in the order of first calls.",
        check="test_the_keys_are_in_order_of_first_calls",
        mistake="definition-order",
        source="""
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
    ),
    Wrong(
        "all hooks read the loop variable",
        violates="one entry for every module in `model.named_modules()` that has no children",
        check="test_every_layer_has_its_shape",
        mistake="late-binding",
        source=changed(HOOKED_FIRST, ("output, name=name)", "output)")),
    ),
    Wrong(
        "modules that are not called",
        violates="Nothing else appears: no module that is not called",
        check="test_every_layer_has_its_shape",
        mistake="uncalled-included",
        source="""
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
    ),
    Wrong(
        "the shape of the first call",
        violates="A module that is called more than once shows the shape of its last call.",
        check="test_every_layer_has_its_shape",
        mistake="only-first-call",
        source=changed(
            HOOKED_FIRST,
            (
                "shapes[name] = tuple(output.shape)",
                "if name not in shapes:\n                    shapes[name] = tuple(output.shape)",
            ),
        ),
    ),
    Wrong(
        "removes no hook",
        violates="rule 3: none of your own hooks is left",
        check="test_nothing_of_the_caller_changes",
        mistake="hook-left-behind",
        source="""
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
    ),
    Wrong(
        "removes the hooks only when all went well",
        violates="rule 3: When your function has returned, or raised",
        check="test_it_holds_when_the_model_raises",
        mistake="hook-left-after-exception",
        source="""
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
    ),
    Wrong(
        "nothing",
        violates="one entry for every module in `model.named_modules()` that has no children",
        check="test_every_layer_has_its_shape",
        source="""
def leaf_shapes(model, x):
    return {}
""",
    ),
    Wrong(
        "the top level only",
        violates="one entry for every module in `model.named_modules()` that has no children",
        check="raised",
        source="""
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
    ),
    Wrong(
        "in the order of last calls",
        violates="The keys stand in the order of first calls.",
        check="test_the_keys_are_in_order_of_first_calls",
        source=changed(
            HOOKED_FIRST,
            (
                "shapes[name] = tuple(output.shape)",
                "shapes.pop(name, None)\n                shapes[name] = tuple(output.shape)",
            ),
        ),
    ),
    Wrong(
        "all names of a module",
        violates="rule 7: if it has several names, the first one counts",
        check="test_every_layer_has_its_shape",
        source=changed(HOOKED_FIRST, ("model.named_modules():", "model.named_modules(remove_duplicate=False):")),
    ),
    Wrong(
        "the shape of the input",
        violates="The value is the shape of its output",
        check="raised",
        source=changed(HOOKED_FIRST, ("output.shape)", "args[0].shape)")),
    ),
    Wrong(
        "removes the hooks of others",
        violates="rule 3: Hooks that were there before are there afterwards",
        check="test_nothing_of_the_caller_changes",
        mistake="callers-hook-removed",
        source="""
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
    ),
    Wrong(
        "goes down into `nn.Sequential` only, and takes its neighbours for layers",
        violates="one entry for every module in `model.named_modules()` that has no children",
        check="raised",
        source="""
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
    ),
    Wrong(
        "the last part of the name",
        violates="The key is its name there",
        check="test_every_layer_has_its_shape",
        source="""
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
    ),
    Wrong(
        "hands on a copy",
        violates="The model goes on with the outputs themselves",
        check="test_the_model_goes_on_with_the_outputs_themselves",
        mistake="returned-the-copy",
        source=changed(
            LEAF_SHAPES,
            (
                "handles.append(module.register_forward_hook(hook))",
                "    return output.clone()\n            handles.append(module.register_forward_hook(hook))",
            ),
        ),
    ),
    Wrong(
        "hooks before those of the caller",
        violates="rule 7: What it returned is the value as it left the module",
        check="test_every_layer_has_its_shape",
        mistake="before-the-callers-hook",
        source=changed(LEAF_SHAPES, ("hook))", "hook, prepend=True))")),
    ),
    Wrong(
        "calls `forward`",
        violates="rule 7: Call `model(x)` exactly once",
        check="test_the_model_runs_once_as_it_is",
        mistake="called-forward",
        source=changed(LEAF_SHAPES, ("model(x)", "model.forward(x)")),
    ),
    Wrong(
        "runs in eval mode",
        violates="rule 7: with each part in its mode",
        check="test_the_model_runs_once_as_it_is",
        mistake="changed-the-mode",
        source=changed(
            LEAF_SHAPES,
            ("model(x)", "modes = [(m, m.training) for m in model.modules()]\n        model.eval()\n        model(x)"),
            ("finally:", "    for m, training in modes:\n            m.training = training\n    finally:"),
        ),
    ),
    Wrong(
        "runs on zeros",
        violates="rule 7: Call `model(x)` exactly once",
        check="test_the_model_runs_once_as_it_is",
        source=changed(LEAF_SHAPES, ("model(x)", "model(0 * x)")),
    ),
    Wrong(
        "leaves out an empty `nn.Sequential`",
        violates="`list(module.children())` is",
        check="test_every_layer_has_its_shape",
        source=changed(
            LEAF_SHAPES,
            ("list(module.children()):", "list(module.children()) or type(module).__name__ == 'Sequential':"),
        ),
    ),
    Wrong(
        "leaves out `nn.Identity`",
        violates="one entry for every module in `model.named_modules()` that has no children",
        check="test_every_layer_has_its_shape",
        source=changed(
            LEAF_SHAPES, ("list(module.children()):", "list(module.children()) or type(module).__name__ == 'Identity':")
        ),
    ),
    Wrong(
        "an empty slot counts as a child",
        violates="`list(module.children())` is",
        check="test_every_layer_has_its_shape",
        source=changed(LEAF_SHAPES, ("list(module.children())", "module._modules")),
    ),
    Wrong(
        "leaves out layers without parameters that require grad",
        violates="one entry for every module in `model.named_modules()` that has no children",
        check="test_every_layer_has_its_shape",
        source=changed(
            LEAF_SHAPES,
            (
                "list(module.children()):",
                "list(module.children()) or not all(p.requires_grad for p in module.parameters()):",
            ),
        ),
    ),
    Wrong(
        "leaves out the model itself",
        violates="The model itself may be such a module without children.",
        check="test_every_layer_has_its_shape",
        source=changed(LEAF_SHAPES, ("list(module.children()):", "list(module.children()) or not name:")),
    ),
    Wrong(
        "the last name of a module",
        violates="rule 7: if it has several names, the first one counts",
        check="test_every_layer_has_its_shape",
        source=changed(
            LEAF_SHAPES,
            (
                "for name, module in model.named_modules():",
                (
                    "last = {m: n for n, m in model.named_modules(remove_duplicate=False)}\n"
                    "        for module, name in last.items():"
                ),
            ),
        ),
    ),
    Wrong(
        "a `?` for modules without a name",
        violates="none that `named_modules()` does not know",
        check="test_every_layer_has_its_shape",
        source="""
from torch.nn.modules.module import register_module_forward_hook

def leaf_shapes(model, x):
    shapes, names = {}, {module: name for name, module in model.named_modules()}
    def hook(module, args, output):
        if not list(module.children()):
            shapes[names.get(module, "?")] = tuple(output.shape)
    with register_module_forward_hook(hook):
        model(x)
    return shapes
""",
    ),
    Wrong(
        "a hook for all modules, which runs before those of the caller",
        violates="rule 7: What it returned is the value as it left the module",
        check="test_every_layer_has_its_shape",
        mistake="before-the-callers-hook",
        source="""
from torch.nn.modules.module import register_module_forward_hook

def leaf_shapes(model, x):
    shapes, names = {}, {module: name for name, module in model.named_modules()}
    def hook(module, args, output):
        if module in names and not list(module.children()):
            shapes[names[module]] = tuple(output.shape)
    with register_module_forward_hook(hook):
        model(x)
    return shapes
""",
    ),
    Wrong(
        "lists",
        violates="as a tuple of ints",
        check="test_every_layer_has_its_shape",
        source=changed(LEAF_SHAPES, ("tuple(output.shape)", "list(output.shape)")),
    ),
    Wrong(
        "needs outputs with two dimensions",
        violates="The value is the shape of its output",
        check="raised",
        source=changed(LEAF_SHAPES, ("tuple(output.shape)", "(output.shape[0], *output.shape[1:])")),
    ),
    Wrong(
        "empties `.grad` first",
        violates="rule 2: their `.grad`",
        check="test_nothing_of_the_caller_changes",
        source=changed(LEAF_SHAPES, ("try:", "model.zero_grad()\n    try:")),
    ),
    Wrong(
        "cleans up after an `Exception` only",
        violates="rule 4: also for `KeyboardInterrupt`",
        check="test_it_holds_when_the_model_raises",
        source="""
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
    except Exception:
        for handle in handles:
            handle.remove()
        raise
    for handle in handles:
        handle.remove()
    return shapes
""",
    ),
    Wrong(
        "swallows what the model raises",
        violates="rule 4: Errors come through.",
        check="test_it_holds_when_the_model_raises",
        source=changed(LEAF_SHAPES, ("finally:", "except Exception:\n        pass\n    finally:")),
    ),
    Wrong(
        "puts all parts into the mode of the model",
        violates="rule 2: the mode of each part",
        check="test_nothing_of_the_caller_changes",
        source=changed(LEAF_SHAPES, ("finally:", "    model.train(model.training)\n    finally:")),
    ),
    Wrong(
        "remembers the shapes of a model",
        violates="rule 1: however often it is called",
        check="test_every_layer_has_its_shape",
        source="""
SHAPES = {}

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
    return SHAPES.setdefault(sum(1 for _ in model.modules()), shapes)
""",
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
    Wrong(
        "looks at the shapes in the end",
        violates="rule 7: also when a later layer overwrites this value in place",
        check="test_a_later_layer_that_works_in_place_changes_no_shape",
        source=changed(
            LEAF_SHAPES,
            ("shapes[name] = tuple(output.shape)", "shapes[name] = output"),
            ("    return shapes", "    return {name: tuple(output.shape) for name, output in shapes.items()}"),
        ),
    ),
    Wrong(
        "swallows an error of the layers that follow",
        violates="rule 4: Errors come through.",
        check="test_it_holds_when_the_model_raises",
        source=changed(
            LEAF_SHAPES,
            (
                "        model(x)\n    finally",
                "        model(x)\n    except RuntimeError:\n        if not shapes:\n            raise\n    finally",
            ),
        ),
    ),
    Wrong(
        "runs twice",
        violates="rule 7: Call `model(x)` exactly once",
        check="test_the_model_runs_once_as_it_is",
        mistake="ran-more-than-once",
        source=changed(LEAF_SHAPES, ("    shapes, handles", "    model(x)\n    shapes, handles")),
    ),
    Wrong(
        "ends the run when it has seen each layer",
        violates="rule 7: exactly once, to its end",
        check="test_the_model_runs_once_as_it_is",
        mistake="stopped-the-run",
        source=changed(
            LEAF_SHAPES,
            ("def leaf_shapes", "class Stop(Exception):\n    pass\n\ndef leaf_shapes"),
            (
                "                shapes[name] = tuple(output.shape)",
                "                shapes[name] = tuple(output.shape)\n"
                "                if len(shapes) == len(handles):\n"
                "                    raise Stop",
            ),
            ("        model(x)\n    finally", "        model(x)\n    except Stop:\n        pass\n    finally"),
        ),
    ),
    Wrong(
        "runs on a copy of the model",
        violates="rule 7: Call `model(x)` exactly once",
        check="test_the_model_runs_once_as_it_is",
        mistake="ran-a-copy",
        source=changed(
            LEAF_SHAPES,
            ("def leaf_shapes", "import copy\n\ndef leaf_shapes"),
            ("    shapes, handles", "    model = copy.deepcopy(model)\n    shapes, handles"),
        ),
    ),
]

GIVENS = [
    "None of these modules calls another one.",
    "Write `leaf_shapes(model, x)`.",
    "is called in this run",
    "The outputs of these modules are tensors",
]

SURVIVORS = {
    "at least one dimension": "the inputs of the models have 2 or 4 dimensions",
    "under no_grad": "shapes have no graph, and nobody gets the output of the model",
    "lost copy: shapes[name] = _not_copied(output.shape)": "a `torch.Size` is a tuple",
    "lost copy: handles.append(": "a `torch.Size` is a tuple",
    "a list for a tuple": "it only asks whether there are any, or goes through all",
    "not for all: if not any(": "it only asks whether there are any",
    "not for all: [handle.remove() for handle in _part(handles, step=-1)]": "the order of removal is free",
    "not for all: for name, module in _part(model.named_modules(), step=-1)": "hooks are registered in any order",
    "not for all: for n, m in _part(model.named_modules(), step=-1)": "hooks are registered in any order",
    "not for all: for module in _part(model.modules(), step=-1)": "hooks are registered in any order",
    "not for all: names = {id(module): name for name, module in _part(": "names are looked up",
}
