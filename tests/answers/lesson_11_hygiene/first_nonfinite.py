"""Answers to 11-first-nonfinite."""

from graders.author.answers import Wrong

from .shared import changed

FIRST = """
import torch

def first_nonfinite(model, x):
    found, good, handles = [], {}, []
    def finite(values):
        return all(torch.isfinite(value).all() for value in values if isinstance(value, torch.Tensor))
    try:
        for name, module in model.named_modules():
            if list(module.children()):
                continue
            def before(module, args):
                good[module] = finite(args)
            def after(module, args, output, name=name):
                if good[module] and not finite([output]):
                    found.append(name)
            handles.append(module.register_forward_pre_hook(before))
            handles.append(module.register_forward_hook(after))
        model(x)
    finally:
        for handle in handles:
            handle.remove()
    return found[0] if found else None
"""

RIGHT = [
    # ends the pass with an exception of its own
    """
import torch

class Found(BaseException):
    pass

def first_nonfinite(model, x):
    handles, fine = [], []
    def watch(name, module):
        def before(module, args):
            fine[:] = [all(bool(a.isfinite().all()) for a in args if torch.is_tensor(a))]
        def after(module, args, output):
            if fine[0] and not bool(output.isfinite().all()):
                raise Found(name)
        return [module.register_forward_pre_hook(before), module.register_forward_hook(after)]
    try:
        for name, module in model.named_modules():
            if next(module.children(), None) is None:
                handles += watch(name, module)
        model(x)
    except Found as found:
        return found.args[0]
    finally:
        for handle in handles:
            handle.remove()
    return None
""",
    """
import torch
from contextlib import ExitStack
from functools import partial

def ok(*values):
    return not any(torch.isnan(v).any() or torch.isinf(v).any() for v in values if isinstance(v, torch.Tensor))

class Watch:
    def __init__(self):
        self.name, self.clean = None, False
    def pre(self, module, args):
        self.clean = ok(*args)
    def post(self, name, module, args, output):
        if self.name is None and self.clean and not ok(output):
            self.name = name

def first_nonfinite(model, x):
    watch = Watch()
    with ExitStack() as stack:
        for name, module in model.named_modules():
            if not any(True for _ in module.children()):
                stack.enter_context(module.register_forward_pre_hook(watch.pre))
                stack.enter_context(module.register_forward_hook(partial(watch.post, name)))
        model(x)
    return watch.name
""",
    """
import torch

def first_nonfinite(model, x):
    names, result, copies, handles = dict(model.named_modules()), [], {}, []
    def save(m, args):
        copies[m] = [a.clone() for a in args if isinstance(a, torch.Tensor)]
    def judge(m, args, output):
        inputs = copies.pop(m)
        if torch.isfinite(output).all():
            return
        if all(torch.isfinite(a).all() for a in inputs):
            result.append([n for n in names if names[n] is m][0])
    for n, m in names.items():
        if len(list(m.children())) == 0:
            handles += [m.register_forward_pre_hook(save), m.register_forward_hook(judge)]
    try:
        model(x)
    finally:
        [h.remove() for h in handles]
    return (result + [None])[0]
""",
    """
import torch
from contextlib import ExitStack

class Found(RuntimeError):
    pass

def first_nonfinite(model, x):
    bad_inputs, names = {}, []
    def pre(module, args, kwargs):
        tensors = [t for t in (*args, *kwargs.values()) if torch.is_tensor(t)]
        bad_inputs[module] = sum(int((~torch.isfinite(t)).sum()) for t in tensors)
    def post(module, args, output):
        if bad_inputs.pop(module) == 0 and not torch.isfinite(output).all():
            names.append(next(name for name, other in model.named_modules() if other is module))
            raise Found
    with ExitStack() as stack, torch.inference_mode():
        for module in model.modules():
            if next(module.children(), None) is None:
                stack.enter_context(module.register_forward_pre_hook(pre, with_kwargs=True, prepend=True))
                stack.enter_context(module.register_forward_hook(post))
        try:
            model(x)
        except Found:
            pass
    return names[0] if names else None
""",
    """
import math
import torch

def bad(value):
    return isinstance(value, torch.Tensor) and not math.isfinite(value.detach().mul(0).sum())

def first_nonfinite(model, x):
    culprit = []
    def attach(name, module):
        flags = {}
        return (
            module.register_forward_pre_hook(lambda m, a: flags.update(ok=not any(map(bad, a)))),
            module.register_forward_hook(lambda m, a, o: culprit.append(name) if flags["ok"] and bad(o) else None),
        )
    handles = [h for n, m in model.named_modules() if not [*m.children()] for h in attach(n, m)]
    try:
        with torch.no_grad():
            model(x)
    finally:
        while handles:
            handles.pop().remove()
    if culprit:
        return culprit[0]
""",
]

STOPPED = """
import torch
from contextlib import ExitStack

class Stop(Exception):
    pass

def first_nonfinite(model, x):
    good = {}
    def before(module, args):
        good[module] = all(a.isfinite().all() for a in args if isinstance(a, torch.Tensor))
    def watch(name):
        def after(module, args, output):
            if good[module] and not output.isfinite().all():
                raise Stop(name)
        return after
    with ExitStack() as stack:
        for name, module in model.named_modules():
            if not list(module.children()):
                stack.enter_context(module.register_forward_pre_hook(before))
                stack.enter_context(module.register_forward_hook(watch(name)))
        try:
            model(x)
        except Stop as stop:
            return stop.args[0]
"""

WRONG = [
    Wrong(
        "one list for all calls",
        violates="rule 1: also when one call runs inside another",
        check="test_a_call_inside_a_call_finds_its_own",
        source=changed(
            FIRST, "    found, good, handles = [], {}, []\n", "    found.clear()\n    good, handles = {}, []\n"
        ).replace("def first_nonfinite", "found = []\n\ndef first_nonfinite", 1),
    ),
    Wrong(
        "an empty slot for a child is a child",
        violates="A leaf is a module of `model.named_modules()` without children",
        check="test_the_example_comes_out",
        source=changed(FIRST, "if list(module.children()):", "if module._modules:"),
    ),
    Wrong(
        "numbers near 0 are not finite",
        violates="rule 1: for tensors of any shape",
        check="test_the_example_comes_out",
        source=changed(
            FIRST, "torch.isfinite(value).all()", "not 0 < value.abs().sum() < 1e-9 and torch.isfinite(value).all()"
        ),
    ),
    Wrong(
        "the largest entry decides",
        violates="rule 1: for tensors of any shape",
        check="raised",
        source=changed(FIRST, "torch.isfinite(value).all()", "torch.isfinite(value.abs().max())"),
    ),
    Wrong(
        "has only an exception bring the name, and the model catches it",
        violates="also one that your hooks raise there, and go on.",
        check="test_the_first_leaf_to_blame_is_named",
        mistake="stopped-by-an-exception-alone",
        source=STOPPED,
    ),
    Wrong(
        "a row of what came in, and a leaf that raises takes nothing out",
        violates="The model may catch an `Exception` of a part",
        check="test_the_first_leaf_to_blame_is_named",
        mistake="out-of-step",
        source=changed(FIRST, "found, good, handles = [], {}, []", "found, good, handles = [], [], []")
        .replace("good[module] = finite(args)", "good.append(finite(args))")
        .replace("if good[module] and", "if good.pop(0) and"),
    ),
    Wrong(
        "blames what is not registered by its class",
        violates="A module that is called and not registered is such code.",
        check="test_the_first_leaf_to_blame_is_named",
        mistake="blamed-the-unregistered",
        source="""
import torch
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

def first_nonfinite(model, x):
    names = {module: name for name, module in model.named_modules()}
    good, found = {}, []
    def before(module, args):
        good[module] = all(a.isfinite().all() for a in args if isinstance(a, torch.Tensor))
    def after(module, args, output):
        if not list(module.children()) and good[module] and not output.isfinite().all():
            found.append(names.get(module, type(module).__name__))
    with register_module_forward_pre_hook(before), register_module_forward_hook(after):
        model(x)
    return found[0] if found else None
""",
    ),
    Wrong(
        "the last one",
        violates="find the first call of a leaf",
        check="test_the_first_leaf_to_blame_is_named",
        mistake="reported-last",
        source=changed(FIRST, "found[0]", "found[-1]"),
    ),
    Wrong(
        "NaN only",
        violates="has a NaN or an infinite entry",
        check="test_the_first_leaf_to_blame_is_named",
        mistake="nan-only",
        source=changed(FIRST, "torch.isfinite(value).all()", "not torch.isnan(value).any()"),
    ),
    Wrong(
        "Inf only",
        violates="has a NaN or an infinite entry",
        check="test_the_first_leaf_to_blame_is_named",
        source=changed(FIRST, "torch.isfinite(value).all()", "not torch.isinf(value).any()"),
    ),
    Wrong(
        "minus infinity is missed",
        violates="has a NaN or an infinite entry",
        check="test_the_first_leaf_to_blame_is_named",
        mistake="minus-infinity-missed",
        source=changed(FIRST, "torch.isfinite(value).all()", "not (value.isnan() | (value == float('inf'))).any()"),
    ),
    Wrong(
        "reads the loop variable late",
        violates="Return the name of that leaf",
        check="test_the_first_leaf_to_blame_is_named",
        mistake="late-binding",
        source=changed(
            FIRST,
            "            def after(module, args, output, name=name):",
            "            def after(module, args, output):",
        ),
    ),
    Wrong(
        "looks at outputs only",
        violates="A leaf that gets a NaN or an Inf is not to blame",
        check="test_the_first_leaf_to_blame_is_named",
        mistake="blamed-the-victim",
        source=changed(FIRST, "if good[module] and not", "if not"),
    ),
    Wrong(
        "the first input only",
        violates="while all its tensor inputs are finite",
        check="test_the_first_leaf_to_blame_is_named",
        mistake="first-input-only",
        source=changed(FIRST, "finite(args)", "finite(args[:1])"),
    ),
    Wrong(
        "the last input only",
        violates="while all its tensor inputs are finite",
        check="test_the_first_leaf_to_blame_is_named",
        source=changed(FIRST, "finite(args)", "finite([a for a in args if torch.is_tensor(a)][-1:])"),
    ),
    Wrong(
        "takes every argument for a tensor",
        violates="perhaps values that hold no tensors",
        check="raised",
        source=changed(FIRST, " if isinstance(value, torch.Tensor)", ""),
    ),
    Wrong(
        "an infinite number is a bad input",
        violates="such as an infinite number, which is no tensor input",
        check="test_the_first_leaf_to_blame_is_named",
        mistake="numbers-are-inputs",
        source=changed(
            FIRST,
            "finite(args)",
            "finite([torch.tensor(a) if isinstance(a, float) else a for a in args])",
        ),
    ),
    Wrong(
        "looks at the inputs when they are overwritten",
        violates="Inputs count as they were when the leaf was called",
        check="test_the_first_leaf_to_blame_is_named",
        mistake="input-overwritten",
        source=changed(FIRST, "if good[module] and not", "if finite(args) and not"),
    ),
    Wrong(
        "a hook before those of the caller",
        violates="The output counts as it left the leaf",
        check="test_the_first_leaf_to_blame_is_named",
        mistake="before-the-callers-hook",
        source=changed(FIRST, "register_forward_hook(after)", "register_forward_hook(after, prepend=True)"),
    ),
    Wrong(
        "hooks for all modules, which run before those of the caller",
        violates="The output counts as it left the leaf",
        check="test_the_first_leaf_to_blame_is_named",
        mistake="before-the-callers-hook",
        source="""
import torch
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

def bad(value):
    return isinstance(value, torch.Tensor) and not value.isfinite().all()

def first_nonfinite(model, x):
    names = {m: n for n, m in model.named_modules() if not len(list(m.children()))}
    first, blamed = [], {}
    def before(module, args):
        blamed[module] = any(map(bad, args))
    def after(module, args, output):
        if module in names and not blamed[module] and bad(output):
            first.append(names[module])
    with register_module_forward_pre_hook(before), register_module_forward_hook(after):
        model(x)
    return first[0] if first else None
""",
    ),
    Wrong(
        "wraps `forward`",
        violates="The output counts as it left the leaf",
        check="test_the_first_leaf_to_blame_is_named",
        mistake="before-the-callers-hook",
        source="""
import contextlib
import torch

def finite(value):
    return bool(torch.isfinite(value).all()) if torch.is_tensor(value) else True

def first_nonfinite(model, x):
    guilty = []
    with contextlib.ExitStack() as stack:
        for name, module in model.named_modules():
            if next(module.children(), None) is None:
                def forward(*args, inner=module.forward, name=name):
                    healthy = all(map(finite, args))
                    output = inner(*args)
                    if healthy and not finite(output):
                        guilty.append(name)
                    return output
                module.forward = forward
                stack.callback(module.__dict__.pop, "forward")
        model(x)
    return guilty[0] if guilty else None
""",
    ),
    Wrong(
        "in the order of definition",
        violates="find the first call of a leaf",
        check="test_the_first_leaf_to_blame_is_named",
        mistake="definition-order",
        source=changed(
            FIRST,
            "    return found[0] if found else None",
            "    return next((name for name, _ in model.named_modules() if name in found), None)",
        ),
    ),
    Wrong(
        "the last call of each leaf",
        violates="Each call of a leaf is judged by itself.",
        check="test_the_first_leaf_to_blame_is_named",
        mistake="only-last-call",
        source=changed(FIRST, "found, good, handles = [], {}, []", "verdict, good, handles = {}, {}, []")
        .replace(
            """                if good[module] and not finite([output]):
                    found.append(name)
""",
            "                verdict.setdefault(name, False)\n"
            "                verdict[name] = good[module] and not finite([output])\n",
        )
        .replace(
            "    return found[0] if found else None",
            "    return next((name for name, guilty in verdict.items() if guilty), None)",
        ),
    ),
    Wrong(
        "the first call of each leaf",
        violates="Each call of a leaf is judged by itself.",
        check="test_the_first_leaf_to_blame_is_named",
        mistake="only-first-call",
        source=changed(
            FIRST, "found, good, handles = [], {}, []", "seen, found, good, handles = [], [], {}, []"
        ).replace(
            """                if good[module] and not finite([output]):
""",
            "                seen.append(name)\n"
            "                if seen.count(name) == 1 and good[module] and not finite([output]):\n",
        ),
    ),
    Wrong(
        "the inputs of the first call of each leaf",
        violates="Each call of a leaf is judged by itself.",
        check="test_the_first_leaf_to_blame_is_named",
        source=changed(FIRST, "good[module] = finite(args)", "good.setdefault(module, finite(args))"),
    ),
    Wrong(
        "the sum of the entries",
        violates="has a NaN or an infinite entry",
        check="test_a_healthy_model_gives_none",
        mistake="large-is-not-infinite",
        source=changed(FIRST, "torch.isfinite(value).all()", "value.sum().isfinite()"),
    ),
    Wrong(
        "in float32",
        violates="rule 1: in `float32` and in `float64`",
        check="test_a_healthy_model_gives_none",
        source=changed(FIRST, "torch.isfinite(value).all()", "torch.isfinite(value.float()).all()"),
    ),
    Wrong(
        "the first row",
        violates="has a NaN or an infinite entry",
        check="test_the_first_leaf_to_blame_is_named",
        mistake="first-row-only",
        source=changed(
            FIRST, "torch.isfinite(value).all()", "torch.isfinite(value[:1] if value.dim() else value).all()"
        ),
    ),
    Wrong(
        "the next level only",
        violates="A leaf is a module of `model.named_modules()` without children.",
        check="test_the_first_leaf_to_blame_is_named",
        mistake="children-only",
        source=changed(FIRST, "model.named_modules()", "model.named_children()"),
    ),
    Wrong(
        "not the model itself",
        violates='The model may be a leaf itself; then its name is `""`.',
        check="test_the_first_leaf_to_blame_is_named",
        mistake="skips-the-model-itself",
        source=changed(FIRST, "if list(module.children()):", "if list(module.children()) or not name:"),
    ),
    Wrong(
        "an empty name is no name",
        violates='then its name is `""`',
        check="test_the_first_leaf_to_blame_is_named",
        mistake="skips-the-model-itself",
        source=changed(FIRST, "found[0] if found else None", "(found[0] if found else None) or None"),
    ),
    Wrong(
        "containers, too",
        violates="A leaf is a module of `model.named_modules()` without children.",
        check="test_the_first_leaf_to_blame_is_named",
        mistake="named-a-container",
        source=changed(FIRST, "            if list(module.children()):\n                continue\n", ""),
    ),
    Wrong(
        "modules with parameters only",
        violates="A leaf is a module of `model.named_modules()` without children.",
        check="test_the_first_leaf_to_blame_is_named",
        source=changed(
            FIRST,
            "            if list(module.children()):\n",
            "            if not list(module.parameters(recurse=False)):\n",
        ),
    ),
    Wrong(
        "gives up at the first bad value",
        violates="then no leaf is to blame for it",
        check="test_the_first_leaf_to_blame_is_named",
        mistake="gave-up",
        source=changed(
            FIRST,
            "                if good[module] and not finite([output]):\n                    found.append(name)\n",
            "                if not finite([output]):\n"
            "                    found.append(name if good[module] else None)\n",
        ),
    ),
    Wrong(
        "a stack that a leaf which raises leaves too high",
        violates="The model may catch an `Exception` of a part",
        check="test_the_first_leaf_to_blame_is_named",
        source=changed(FIRST, "good[module] = finite(args)", "good.setdefault(0, []).append(finite(args))").replace(
            "if good[module] and not", "if good[0].pop(0) and not"
        ),
    ),
    Wrong(
        "the first leaf",
        violates="find the first call of a leaf",
        check="test_the_first_leaf_to_blame_is_named",
        source="def first_nonfinite(model, x):\n"
        "    return [n for n, m in model.named_modules() if not list(m.children())][0]",
    ),
    Wrong(
        "never one",
        violates="Return the name of that leaf",
        check="test_the_first_leaf_to_blame_is_named",
        source="def first_nonfinite(model, x):\n    return None",
    ),
    Wrong(
        "all of them",
        violates="Return the name of that leaf",
        check="test_the_first_leaf_to_blame_is_named",
        source=changed(FIRST, "found[0] if found else None", "found"),
    ),
    Wrong(
        "a text where there is none",
        violates="or `None` when there is no such call",
        check="test_a_healthy_model_gives_none",
        source=changed(FIRST, "found[0] if found else None", "found[0] if found else ''"),
    ),
    Wrong(
        "the type",
        violates="Return the name of that leaf",
        check="test_the_first_leaf_to_blame_is_named",
        mistake="named-a-class",
        source=changed(FIRST, "found.append(name)", "found.append(type(module).__name__)"),
    ),
    Wrong(
        "the last part of the name",
        violates="Return the name of that leaf",
        check="test_the_first_leaf_to_blame_is_named",
        source=changed(FIRST, "found.append(name)", "found.append(name.split('.')[-1])"),
    ),
    Wrong(
        "runs twice",
        violates="rule 7: Call `model(x)` exactly once",
        check="test_the_model_runs_once_as_it_is",
        source=changed(FIRST, "        model(x)\n", "        model(x)\n        model(x)\n"),
    ),
    Wrong(
        "calls `forward`",
        violates="rule 7: Call `model(x)` exactly once",
        check="test_the_model_runs_once_as_it_is",
        mistake="called-forward",
        source=changed(FIRST, "        model(x)\n", "        model.forward(x)\n"),
    ),
    Wrong(
        "eval mode, for the run",
        violates="rule 7: with each part in its mode",
        check="test_the_model_runs_once_as_it_is",
        mistake="changed-the-mode",
        source="""
import torch

"""
        + FIRST
        + """
plain = first_nonfinite

def first_nonfinite(model, x):
    modes = {module: module.training for module in model.modules()}
    model.eval()
    try:
        return plain(model, x)
    finally:
        for module, training in modes.items():
            module.training = training
""",
    ),
    Wrong(
        "cleans `x`",
        violates="Such an entry may be in `x`",
        check="test_the_first_leaf_to_blame_is_named",
        source=changed(FIRST, "        model(x)\n", "        model(torch.nan_to_num(x))\n"),
    ),
    Wrong(
        "cleans `x` in place",
        violates="rule 2: Tensors keep their values",
        check="test_nothing_of_the_caller_changes",
        source=changed(FIRST, "        model(x)\n", "        x.data = x.data.nan_to_num()\n        model(x)\n"),
    ),
    Wrong(
        "swallows what the model raises",
        violates="An exception that the model raises before that comes through",
        check="test_it_holds_when_the_model_raises",
        source=FIRST.replace("    finally:\n", "    except Exception:\n        pass\n    finally:\n"),
    ),
    Wrong(
        "stops with an exception that the model may raise, too",
        violates="An exception that the model raises before that comes through",
        check="test_it_holds_when_the_model_raises",
        source=changed(
            FIRST, "found.append(name)", "found.append(name)\n                    raise StopIteration"
        ).replace("    finally:\n", "    except StopIteration:\n        pass\n    finally:\n"),
    ),
    Wrong(
        "takes a RuntimeError of the model for its own",
        violates="An exception that the model raises before that comes through",
        check="test_it_holds_when_the_model_raises",
        source=changed(FIRST, "found.append(name)", "raise RuntimeError(name)").replace(
            "    finally:\n", "    except RuntimeError as error:\n        return str(error)\n    finally:\n"
        ),
    ),
    Wrong(
        "empties `.grad`",
        violates="rule 2: their `.grad`",
        check="test_nothing_of_the_caller_changes",
        source=changed(FIRST, "        model(x)\n", "        model(x)\n        model.zero_grad()\n"),
    ),
    Wrong(
        "removes no hook",
        violates="rule 3: none of your own hooks is left",
        check="test_nothing_of_the_caller_changes",
        mistake="hook-left-behind",
        source=changed(FIRST, "handle.remove()", "pass"),
    ),
    Wrong(
        "removes the hooks only when all went well",
        violates="rule 3: When your function has returned, or raised",
        check="test_it_holds_when_the_model_raises",
        mistake="hook-left-after-exception",
        source=FIRST.replace("    try:\n", "    if True:\n").replace("    finally:\n", "    if True:\n"),
    ),
    Wrong(
        "cleans up after an `Exception` only",
        violates="rule 4: also for `KeyboardInterrupt`",
        check="test_it_holds_when_the_model_raises",
        source=FIRST.replace(
            "    finally:\n        for handle in handles:\n            handle.remove()\n",
            "    except Exception:\n        for handle in handles:\n            handle.remove()\n        raise\n"
            "    for handle in handles:\n        handle.remove()\n",
        ),
    ),
    Wrong(
        "removes all hooks of the leaves",
        violates="rule 3: Hooks that were there before are there afterwards",
        check="test_nothing_of_the_caller_changes",
        source=changed(
            FIRST,
            "        for handle in handles:\n            handle.remove()\n",
            "        for module in model.modules():\n"
            "            module._forward_hooks.clear()\n            module._forward_pre_hooks.clear()\n",
        ),
    ),
    Wrong(
        "what was found stays",
        violates="rule 1: It works however often it is called",
        check="test_a_healthy_model_gives_none",
        source="FOUND = []\n"
        + changed(FIRST, "found, good, handles = [], {}, []", "found, good, handles = FOUND, {}, []"),
    ),
    Wrong(
        "a bad input excuses a leaf for good",
        violates="Each call of a leaf is judged by itself.",
        check="test_the_example_comes_out",
        source=FIRST.replace("good[module] = finite(args)", "good[module] = good.get(module, True) and finite(args)"),
    ),
    *(
        Wrong(
            name,
            violates="while all its tensor inputs are finite",
            check="test_any_bad_entry_counts_and_no_other",
            source=changed(FIRST, "good[module] = finite(args)", f"good[module] = {asked}"),
        )
        for name, asked in {
            "inputs asked for NaN only": "not any(a.isnan().any() for a in args if isinstance(a, torch.Tensor))",
            "an input of minus infinity": "not any((a.isnan() | (a == float('inf'))).any() for a in args "
            "if isinstance(a, torch.Tensor))",
            "an input of plus infinity": "not any((a.isnan() | (a == -float('inf'))).any() for a in args "
            "if isinstance(a, torch.Tensor))",
            "the sum of the inputs": "finite([a.sum() for a in args if isinstance(a, torch.Tensor)])",
        }.items()
    ),
    Wrong(
        "more bad entries than before",
        violates="A leaf that gets a NaN or an Inf is not to blame for what it passes on.",
        check="test_any_bad_entry_counts_and_no_other",
        source=changed(
            FIRST,
            "good[module] = finite(args)",
            "good[module] = sum((~a.isfinite()).sum() for a in args if isinstance(a, torch.Tensor))",
        ).replace("if good[module] and not finite([output]):", "if (~output.isfinite()).sum() > good[module]:"),
    ),
    Wrong(
        "hands over another tensor",
        violates="rule 7: Call `model(x)` exactly once",
        check="test_the_model_runs_once_as_it_is",
        source=changed(FIRST, "        model(x)\n", "        model(x.detach())\n"),
    ),
]

GIVENS = [
    "Write `first_nonfinite(model, x)`.",
    "A leaf gets positional arguments: tensors",
    "It returns one tensor.",
    "You may stop the run as soon as the leaf is found.",
]

SURVIVORS = {
    "prepend=True": "nobody replaces inputs, so all pre-hooks see the same",
    "almost: stack.enter_context(module.register_forward_pre_hook(pre, with_kwargs=True, prepend=False))": "as above",
    "a list for a tuple": "only its entries are used",
    "under no_grad": "nothing is asked of the graph",
    "lost return: None": "a function without a return returns None",
    "lost return: return (module.register_forward_pre_hook(lambda m, a: flags": "the hook returns None anyway",
    "truth for None": "a module without `__len__` is true",
    "lost copy: return isinstance(value, torch.Tensor) and (not math.isfinite(_not_detached": "it is read as a number",
    "almost: self.name, self.clean = (None, True)": "it is set before each call",
    "one global slot: bad_inputs = ": "it is written before each call of a module, and read after it",
    "one global slot: flags = ": "leaves are not nested: it is written before each call, and read after it",
    "not for all: for name, module in _part(model.named_modules(), step=-1)": "their order does not matter",
    "not for all: handles = [h for n, m in _part(model.named_modules(), step=-1)": "as above",
    "not for all: handles = [h for n, m in model.named_modules() if not m._modules for h in _part(attach(n, m), "
    "step=-1)]": "as above",
    "not for all: handles = [h for n, m in model.named_modules() if not [*m.children()] for h in _part(attach(n, m), "
    "step=-1)]": "as above",
    "not for all: for n, m in _part(names.items(), step=-1)": "as above",
    "a hook that works at times: @_not_the_first_call def post": "the first call of all has a bad input, so nothing is "
    "to be noted",
    "a hook that works at times: @_not_the_first_call def pre": "the first call of all, of a leaf that is to blame",
    "not for all: for module in _part(model.modules(), step=-1)": "as above",
    "not for all: [h.remove() for h in _part(handles, step=-1)]": "the order of removal does not matter",
    "not for all: if all((torch.isfinite(a).all() for a in _part(inputs, step=-1)": "the order does not matter",
    "not for all: result.append([n for n in _part(names, step=-1)": "one name fits",
    "not for all: names.append(next((name for name, other in _part(model.named_modules(), step=-1)": "one name fits",
    "not for all: if not any((True for _ in _part(module.children(), ": "whether there is one is all that is asked",
}
