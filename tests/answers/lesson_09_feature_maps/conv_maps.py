"""Answers to 09-conv-maps."""

from graders.author.answers import Wrong

CONV_MAPS = """
import torch
from torch import nn

def conv_maps(model, x):
    maps, handles = {}, []
    try:
        for name, module in MODULES:
            if CHOSEN:
                def hook(module, args, output, name=name):
                    maps[name] = STORED
                handles.append(module.register_forward_hook(hook))
        model(x)
    finally:
        for handle in handles:
            handle.remove()
    return RESULT
"""


def conv_maps(
    modules: str = "model.named_modules()",
    chosen: str = "isinstance(module, nn.Conv2d)",
    stored: str = "output.detach().clone()",
    result: str = "maps",
) -> str:
    """An answer that differs from a right one in one place."""
    source = CONV_MAPS.replace("MODULES", modules).replace("CHOSEN", chosen)
    return source.replace("STORED", stored).replace("RESULT", result)


RIGHT = [
    """
from torch import nn

def conv_maps(model, x):
    maps, handles = {}, []
    try:
        for name, module in model.named_modules():
            if isinstance(module, nn.Conv2d):
                def hook(module, args, output, name=name):
                    maps[name] = output.detach().clone()
                handles.append(module.register_forward_hook(hook))
        model(x)
    finally:
        for handle in handles:
            handle.remove()
    return maps
""",
    """
from contextlib import ExitStack
from functools import partial
import torch

def keep(maps, name, module, args, output):
    maps.update({name: output.clone().detach()})

def conv_maps(model, x):
    maps = {}
    with ExitStack() as stack, torch.no_grad():
        for name, module in model.named_modules():
            if isinstance(module, torch.nn.Conv2d):
                stack.enter_context(module.register_forward_hook(partial(keep, maps, name)))
        model(x)
    return maps
""",
    """
import torch

class Store:
    def __init__(self, model):
        self.names = {m: n for n, m in model.named_modules() if isinstance(m, torch.nn.Conv2d)}
        self.maps = {}
    def __call__(self, module, args, output):
        if module in self.names:
            self.maps[self.names[module]] = torch.empty_like(output.data).copy_(output.data)

def conv_maps(model, x):
    store = Store(model)
    handle = torch.nn.modules.module.register_module_forward_hook(store)
    try:
        with torch.inference_mode():
            model(x)
    finally:
        handle.remove()
    return store.maps
""",
    """
from torch import nn

def conv_maps(model, x):
    maps, wrapped = {}, []

    def wrap(name, module):
        original = module.forward
        def forward(*args, **kwargs):
            output = original(*args, **kwargs)
            maps[name] = output.detach().clone()
            return output
        module.forward = forward
        wrapped.append(module)

    try:
        for name, module in model.named_modules():
            if isinstance(module, nn.Conv2d):
                wrap(name, module)
        model(x)
    finally:
        for module in wrapped:
            del module.forward
    return maps
""",
]

WRONG = [
    Wrong(
        "no names with an underscore in front",
        violates="for every `nn.Conv2d` in it",
        check="test_every_conv2d_has_its_map_as_the_layer_returned_it",
        source=conv_maps(chosen="isinstance(module, nn.Conv2d) and not name.startswith('_')"),
    ),
    Wrong(
        "only modules without children",
        violates="for every `nn.Conv2d` in it",
        check="test_every_conv2d_has_its_map_as_the_layer_returned_it",
        source=conv_maps(chosen="isinstance(module, nn.Conv2d) and not list(module.children())"),
    ),
    Wrong(
        "one dict for all calls",
        violates="rule 1: also when one call runs inside another",
        check="test_a_call_inside_a_call_has_maps_of_its_own",
        source=conv_maps(result="dict(maps)")
        .replace("    maps, handles = {}, []", "    handles = []\n    maps.clear()")
        .replace("def conv_maps", "maps = {}\n\ndef conv_maps"),
    ),
    Wrong(
        "looks into Sequential alone",
        violates="for every `nn.Conv2d` in it",
        check="test_every_conv2d_has_its_map_as_the_layer_returned_it",
        mistake="only-sequential-recursed",
        source="""
from torch import nn

def walk(module, prefix=""):
    found = []
    for name, child in module.named_children():
        if isinstance(child, nn.Conv2d):
            found.append((prefix + name, child))
        elif type(child) is nn.Sequential:
            found += walk(child, prefix + name + ".")
    return found
"""
        + conv_maps(modules="walk(model)"),
    ),
    Wrong(
        "hooks read the loop variable late",
        violates="its name and a copy of what it returned",
        check="test_every_conv2d_has_its_map_as_the_layer_returned_it",
        mistake="late-binding",
        source="""
from torch import nn

def conv_maps(model, x):
    maps, handles = {}, []
    convolutions = [(n, m) for n, m in model.named_modules() if isinstance(m, nn.Conv2d)]
    try:
        for name, module in convolutions:
            handles.append(module.register_forward_hook(lambda m, a, o: maps.update({name: o.detach().clone()})))
        model(x)
    finally:
        for handle in handles:
            handle.remove()
    return maps
""",
    ),
    Wrong(
        "keeps the output itself",
        violates="a copy of what it returned",
        check="test_every_conv2d_has_its_map_as_the_layer_returned_it",
        mistake="stored-alias",
        source=conv_maps(stored="output.detach()"),
    ),
    Wrong(
        "keys in order of definition",
        violates="The keys are in the order in which the convolutions ran.",
        check="test_the_keys_are_in_the_order_of_execution",
        mistake="definition-order",
        source=conv_maps(result="{n: maps[n] for n, m in model.named_modules() if n in maps}"),
    ),
    Wrong(
        "asks for the exact type",
        violates="Subclasses of `nn.Conv2d` count.",
        check="test_every_conv2d_has_its_map_as_the_layer_returned_it",
        mistake="subclass-missed",
        source=conv_maps(chosen="type(module) is nn.Conv2d"),
    ),
    Wrong(
        "chooses by the name of the class",
        violates="Other convolutions, such as `nn.Conv1d` and `nn.ConvTranspose2d`, do not",
        check="test_every_conv2d_has_its_map_as_the_layer_returned_it",
        mistake="other-convolutions",
        source=conv_maps(chosen="'Conv' in type(module).__name__"),
    ),
    Wrong(
        "removes no hook",
        violates="rule 3: none of your own hooks is left",
        check="test_the_model_runs_once_and_stays_as_it_was",
        source="""
from torch import nn

def conv_maps(model, x):
    maps = {}
    for name, module in model.named_modules():
        if isinstance(module, nn.Conv2d):
            module.register_forward_hook(lambda m, a, o, name=name: maps.update({name: o.detach().clone()}))
    model(x)
    return maps
""",
    ),
    Wrong(
        "removes hooks only when all goes well",
        violates="rule 4: Rules 2 and 3 hold then, too",
        check="test_an_exception_comes_through_and_leaves_nothing_behind",
        source="""
from torch import nn

def conv_maps(model, x):
    maps, handles = {}, []
    for name, module in model.named_modules():
        if isinstance(module, nn.Conv2d):
            def hook(module, args, output, name=name):
                maps[name] = output.detach().clone()
            handles.append(module.register_forward_hook(hook))
    model(x)
    for handle in handles:
        handle.remove()
    return maps
""",
    ),
    Wrong(
        "the input",
        violates="its name and a copy of what it returned",
        check="raised",
        source=conv_maps(stored="args[0].detach().clone()"),
    ),
    Wrong(
        "a copy with its graph",
        violates="rule 6: A tensor that you return has no graph",
        check="test_every_conv2d_has_its_map_as_the_layer_returned_it",
        source=conv_maps(stored="output.clone()"),
    ),
    Wrong(
        "the first image only",
        violates="a copy of what it returned",
        check="test_every_conv2d_has_its_map_as_the_layer_returned_it",
        source=conv_maps(stored="output.detach().clone()[0]"),
    ),
    Wrong(
        "arrays",
        violates="rule 6: Types count",
        check="test_every_conv2d_has_its_map_as_the_layer_returned_it",
        source=conv_maps(stored="output.detach().clone().numpy()"),
    ),
    Wrong(
        "keys by the alphabet",
        violates="The keys are in the order in which the convolutions ran.",
        check="test_the_keys_are_in_the_order_of_execution",
        source=conv_maps(result="{n: m for n, m in sorted(maps.items())}"),
    ),
    Wrong(
        "switches to eval mode for good",
        violates="rule 2: the mode of each part",
        check="test_every_conv2d_has_its_map_as_the_layer_returned_it",
        mistake="another-mode",
        source=conv_maps().replace("    try:", "    model.eval()\n    try:"),
    ),
    Wrong(
        "runs twice",
        violates="rule 7: Call `model(x)` exactly once",
        check="test_the_model_runs_once_and_stays_as_it_was",
        source=conv_maps().replace("        model(x)", "        model(x)\n        model(x)"),
    ),
    Wrong(
        "clears all hooks",
        violates="rule 3: Hooks that were there before",
        check="test_the_model_runs_once_and_stays_as_it_was",
        mistake="callers-hooks-cleared",
        source=conv_maps()
        .replace("        for handle in handles:\n            handle.remove()", "        pass")
        .replace("return maps", "[m._forward_hooks.clear() for m in model.modules()]\n    return maps"),
    ),
    Wrong(
        "an empty dict",
        violates="for every `nn.Conv2d` in it",
        check="test_every_conv2d_has_its_map_as_the_layer_returned_it",
        source="def conv_maps(model, x):\n    model(x)\n    return {}",
    ),
    Wrong(
        "returns nothing",
        violates="return a dict",
        check="test_every_conv2d_has_its_map_as_the_layer_returned_it",
        source="def conv_maps(model, x):\n    model(x)",
    ),
    Wrong(
        "float32 in any case",
        violates="a copy of what it returned",
        check="test_every_conv2d_has_its_map_as_the_layer_returned_it",
        source=conv_maps(stored="output.detach().float().clone()"),
    ),
    Wrong(
        "cleans up under `except Exception`",
        violates="rule 4: also for `KeyboardInterrupt`",
        check="test_an_exception_comes_through_and_leaves_nothing_behind",
        source=conv_maps().replace(
            "    finally:\n        for handle in handles:\n            handle.remove()",
            """    except Exception:
        for handle in handles:
            handle.remove()
        raise
    for handle in handles:
        handle.remove()""",
        ),
    ),
    Wrong(
        "puts every module into the mode of the root",
        violates="rule 2: the mode of each part",
        check="test_every_conv2d_has_its_map_as_the_layer_returned_it",
        source=conv_maps().replace("    try:", "    model.train(model.training)\n    try:"),
    ),
    Wrong(
        "leaves gradients switched off",
        violates="rule 2: Settings of PyTorch",
        check="test_the_model_runs_once_and_stays_as_it_was",
        source=conv_maps().replace("    try:", "    torch.set_grad_enabled(False)\n    try:"),
    ),
    Wrong(
        "leaves gradients switched on",
        violates="rule 2: Settings of PyTorch",
        check="test_the_model_runs_once_and_stays_as_it_was",
        source=conv_maps().replace("    return maps", "    torch.set_grad_enabled(True)\n    return maps"),
    ),
    Wrong(
        "calls `forward`",
        violates="rule 7: Call `model(x)` exactly once",
        check="test_the_model_runs_once_and_stays_as_it_was",
        source=conv_maps().replace("        model(x)", "        model.forward(x)"),
    ),
    Wrong(
        "skips the model itself",
        violates='its name is `""`',
        check="test_a_single_layer_no_convolution_and_the_example_come_out",
        source=conv_maps(modules="list(model.named_modules())[1:]"),
    ),
    Wrong(
        "both names of one module",
        violates="rule 7: the first one counts",
        check="test_every_conv2d_has_its_map_as_the_layer_returned_it",
        mistake="both-names",
        source=conv_maps(modules="model.named_modules(remove_duplicate=False)"),
    ),
    Wrong(
        "swallows exceptions",
        violates="rule 4: the caller of your function gets this exception",
        check="test_an_exception_comes_through_and_leaves_nothing_behind",
        source=conv_maps().replace("    finally:", "    except Exception:\n        pass\n    finally:"),
    ),
    Wrong(
        "one dict for all calls",
        violates="return a dict that holds",
        check="test_every_conv2d_has_its_map_as_the_layer_returned_it",
        source=conv_maps().replace(
            "def conv_maps(model, x):\n    maps, handles = {}, []",
            "maps = {}\n\ndef conv_maps(model, x):\n    handles = []",
        ),
    ),
    Wrong(
        "convolutions that are no part of the model",
        violates="neither do modules that are no part of the model",
        check="test_every_conv2d_has_its_map_as_the_layer_returned_it",
        source="""
import torch
from torch import nn

def conv_maps(model, x):
    names, maps = {m: n for n, m in model.named_modules()}, {}
    def hook(module, args, output):
        if isinstance(module, nn.Conv2d):
            maps[names.get(module, "?")] = output.detach().clone()
    handle = torch.nn.modules.module.register_module_forward_hook(hook)
    try:
        model(x)
    finally:
        handle.remove()
    return maps
""",
    ),
    Wrong(
        "unbatched images get a batch",
        violates="a copy of what it returned",
        check="test_a_single_layer_no_convolution_and_the_example_come_out",
        source=conv_maps(stored="output.detach().clone().reshape(-1, *output.shape[-3:])"),
    ),
    Wrong(
        "removes the hooks of others with its own",
        violates="rule 3: Hooks that were there before",
        check="test_the_model_runs_once_and_stays_as_it_was",
        source=conv_maps().replace(
            "        for handle in handles:\n            handle.remove()",
            "        for module in model.modules():\n            module._forward_hooks.clear()",
        ),
    ),
    Wrong(
        "each hook removes itself when it runs",
        violates="rule 4: Rules 2 and 3 hold then, too",
        check="test_an_exception_comes_through_and_leaves_nothing_behind",
        source="""
import torch.nn.functional as F
from torch import nn

def conv_maps(model, x):
    maps, handles = {}, {}
    for name, module in model.named_modules():
        if isinstance(module, nn.Conv2d):
            def hook(module, args, output, name=name):
                maps[name] = output.detach().clone()
                handles[name].remove()
            handles[name] = module.register_forward_hook(hook)
    try:
        model(x)
    finally:
        pass
    return maps
""",
    ),
    Wrong(
        "freezes the model",
        violates="rule 2: their `requires_grad`",
        check="test_the_model_runs_once_and_stays_as_it_was",
        source="""
import torch.nn.functional as F
from torch import nn

def conv_maps(model, x):
    maps, handles = {}, {}
    model.requires_grad_(False)
    for name, module in model.named_modules():
        if isinstance(module, nn.Conv2d):
            def hook(module, args, output, name=name):
                maps[name] = output.detach().clone()
            handles[name] = module.register_forward_hook(hook)
    try:
        model(x)
    finally:
        [handle.remove() for handle in handles.values()]
    return maps
""",
    ),
    Wrong(
        "clears gradients",
        violates="rule 2: and their `.grad`",
        check="test_the_model_runs_once_and_stays_as_it_was",
        source="""
import torch.nn.functional as F
from torch import nn

def conv_maps(model, x):
    maps, handles = {}, {}
    model.zero_grad()
    for name, module in model.named_modules():
        if isinstance(module, nn.Conv2d):
            def hook(module, args, output, name=name):
                maps[name] = output.detach().clone()
            handles[name] = module.register_forward_hook(hook)
    try:
        model(x)
    finally:
        [handle.remove() for handle in handles.values()]
    return maps
""",
    ),
    Wrong(
        "computes what a plain convolution would give",
        violates="a copy of what it returned",
        check="raised",
        source="""
import torch.nn.functional as F
from torch import nn

def conv_maps(model, x):
    maps, handles = {}, {}
    for name, module in model.named_modules():
        if isinstance(module, nn.Conv2d):
            def hook(module, args, output, name=name):
                maps[name] = F.conv2d(args[0], module.weight, padding=module.padding).detach().clone()
            handles[name] = module.register_forward_hook(hook)
    try:
        model(x)
    finally:
        [handle.remove() for handle in handles.values()]
    return maps
""",
    ),
]

GIVENS = [
    "Write `conv_maps(model, x)`.",
    "The model calls each of its `nn.Conv2d` once.",
    "Hooks of others on a convolution itself only watch.",
]

SURVIVORS = {
    "at least one dimension": "images have four",
    "under no_grad": "grad mode may be off in the run",
    "not for all: ": "all of them, in the reverse order",
    "prepend=True": "hooks of the caller on a convolution only watch",
    "a hook that works at times: @_not_the_first_call def __call__": "the first call is no convolution's",
    "clean-up not after an exception: with _only_when_well(torch.inference_mode())": "it is dropped, and cleans up",
    "clean-up only after an `Exception`: with _not_after_interrupts(torch.inference_mode())": "as above",
}
