"""Answers to 12-count-macs."""

from graders.author.answers import Wrong

RIGHT = [
    """
from torch import nn

def count_macs(model, x):
    total, handles = 0, []
    def add(module, args, output):
        nonlocal total
        total += output.numel() * (module.weight.numel() // module.weight.shape[0])
    for module in model.modules():
        if isinstance(module, (nn.Conv2d, nn.Linear)):
            handles.append(module.register_forward_hook(add))
    try:
        model(x)
    finally:
        for handle in handles:
            handle.remove()
    return total
""",
    """
import torch
from torch.nn.modules.module import register_module_forward_hook

def count_macs(model, x):
    macs = []
    def hook(module, args, output):
        if isinstance(module, torch.nn.Linear):
            macs.append(output.numel() * module.in_features)
        elif isinstance(module, torch.nn.Conv2d):
            kh, kw = module.kernel_size
            macs.append(output.numel() * (module.in_channels // module.groups) * kh * kw)
    with register_module_forward_hook(hook), torch.no_grad():
        model(x)
    return sum(macs)
""",
    """
from contextlib import ExitStack
from math import prod
import torch
from torch import nn

class Meter:
    def __init__(self):
        self.total = 0
    def conv(self, module, args, output):
        *batch, out_channels, height, width = output.shape
        self.total += prod(batch) * out_channels * height * width * prod(module.weight.shape[1:])
    def linear(self, module, args, output):
        self.total += prod(output.shape[:-1]) * module.out_features * module.in_features

def count_macs(model, x):
    meter = Meter()
    with ExitStack() as stack:
        for module in model.modules():
            if isinstance(module, nn.Conv2d):
                stack.enter_context(module.register_forward_hook(meter.conv))
            elif isinstance(module, nn.Linear):
                stack.enter_context(module.register_forward_hook(meter.linear))
        with torch.inference_mode():
            model(x)
    return meter.total
""",
    """
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

def count_macs(model, x):
    counter, inside, handles = FlopCounterMode(display=False), [], []
    total = 0
    def before(module, args, kwargs):
        inside.append(module)
        if len(inside) == 1:  # it counts what a layer in this one does, too
            counter.__enter__()
    def after(module, args, kwargs, output):
        nonlocal total
        inside.pop()
        if not inside:
            counter.__exit__(None, None, None)
            total += counter.get_total_flops()
    try:
        for module in model.modules():
            if isinstance(module, (nn.Conv2d, nn.Linear)):
                handles.append(module.register_forward_pre_hook(before, with_kwargs=True))
                handles.append(module.register_forward_hook(after, with_kwargs=True))
        model(x)
    finally:
        for handle in handles:
            handle.remove()
        if inside:
            counter.__exit__(None, None, None)
    return total // 2
""",
]

HOOKED = """
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

def count_macs(model, x):
    macs = []
    def hook(module, args, output):
        macs.append(WORK)
    handles = [m.register_forward_hook(hook) for m in model.modules() if isinstance(m, (nn.Conv2d, nn.Linear))]
    try:
        model(x)
    finally:
        for handle in handles:
            handle.remove()
    return sum(macs)
"""
RIGHT_WORK = "output.numel() * module.weight[0].numel()"
FIRST = "test_the_multiply_adds_are_counted"
RAN = "test_the_model_ran_once_on_x"
REST = "test_nothing_changes_and_no_hook_is_left"
FAILURE = "test_an_exception_comes_through_and_leaves_no_hook"
CONV = "isinstance(module, nn.Conv2d)"
LINEAR = "output.numel() * module.in_features"
SUM = "how many multiply-adds (MACs) all calls of `nn.Conv2d` and `nn.Linear` modules in it do together"
ENDING = "    try:\n        model(x)\n    finally:\n        for handle in handles:\n            handle.remove()\n"


def working(work: str) -> str:
    """An answer that adds up this for each call."""
    return HOOKED.replace("WORK", work)


def changed(old: str, new: str) -> str:
    """The right answer with another text in place of one."""
    assert old in HOOKED
    return working(RIGHT_WORK).replace(old, new)


WRONG = [
    Wrong(
        "a dilated convolution has fewer places",
        violates="Convolutions can have groups, strides, padding (also `padding=\"same\"`), dilation",
        check="test_each_place_of_a_padded_output_counts",
        source="""
import math
from torch import nn

def count_macs(model, x):
    macs, handles = [], []

    def note(module, args, output):
        if isinstance(module, nn.Linear):
            macs.append(output.numel() * module.in_features)
            return
        height, width = output.shape[-2:]
        across = module.dilation[1] * (module.kernel_size[1] - 1) if module.padding == "same" else 0
        lost = across if module.dilation[1] > 1 else 0
        places = output.numel() // (height * width) * height * (width - lost)
        macs.append(places * module.in_channels // module.groups * math.prod(module.kernel_size))

    for module in model.modules():
        if isinstance(module, (nn.Conv2d, nn.Linear)):
            handles.append(module.register_forward_hook(note))
    try:
        model(x)
    finally:
        for handle in handles:
            handle.remove()
    return sum(macs)
""",
    ),
    Wrong(
        "no names with an underscore in front",
        violates=SUM,
        check=FIRST,
        source=changed("for m in model.modules()", "for name, m in model.named_modules()").replace(
            "(nn.Conv2d, nn.Linear))", "(nn.Conv2d, nn.Linear)) and not name.startswith('_')"
        ),
    ),
    Wrong(
        "one list, emptied at each call",
        violates="rule 1: also when one call runs inside another",
        check="test_a_call_inside_a_call_counts_for_itself",
        source=changed("    macs = []\n", "    macs.clear()\n").replace("def count", "macs = []\n\ndef count"),
    ),
    Wrong(
        "a linear layer with three dimensions at most",
        violates="may have any number of dimensions before it",
        check="test_large_numbers_are_exact",
        source=working("math.prod(output.shape[:2]) * (output.shape[-1] if output.dim() == 3 else 1) "
                       "* module.in_features if type(module) is nn.Linear and output.dim() > 1 "
                       f"else {RIGHT_WORK}").replace("import torch\n", "import math\nimport torch\n", 1),
    ),
    Wrong(
        "adds up in float32",
        violates="how many multiply-adds (MACs) all calls",
        check="test_large_numbers_are_exact",
        source="""
import torch
from contextlib import ExitStack
from torch import nn

def count_macs(model, x):
    total = torch.zeros(())
    def hook(module, args, output):
        total.add_(output.numel() * module.weight[0].numel())
    with ExitStack() as stack:
        for module in model.modules():
            if isinstance(module, (nn.Conv2d, nn.Linear)):
                stack.enter_context(module.register_forward_hook(hook))
        model(x)
    return int(total)
""",
    ),
    Wrong(
        "leaves out modules that have modules in them",
        violates="also those with modules in them",
        check=FIRST,
        mistake="subclasses-left-out",
        source="""
from contextlib import ExitStack
from torch import nn

def count_macs(model, x):
    total = []
    def hook(module, args, output):
        total.append(output.numel() * module.weight[0].numel())
    with ExitStack() as stack:
        for module in model.modules():
            if isinstance(module, (nn.Conv2d, nn.Linear)) and not list(module.children()):
                stack.enter_context(module.register_forward_hook(hook))
        model(x)
    return sum(total)
""",
    ),
    *(
        Wrong(what, violates=violates, check=FIRST, mistake=mistake, source=working(work))
        for what, mistake, violates, work in [
            ("all input channels", "ignored-groups", "Convolutions can have groups",
             f"output.numel() * module.in_channels * module.weight[0, 0].numel() if {CONV} else {LINEAR}"),
            ("square kernels", "square-kernel", "and kernels that are not square",
             f"output.numel() * module.weight.shape[1] * module.weight.shape[2] ** 2 if {CONV} else {LINEAR}"),
            ("one sample", "ignored-batch", "for the whole batch",
             f"{RIGHT_WORK} // max(1, len(output) if output.dim() > 1 and (output.dim() != 3 or not {CONV}) else 1)"),
            ("one row of each sample", "rows-not-counted", "may have any number of dimensions before it",
             f"{RIGHT_WORK} if {CONV} else output.shape[0] * module.in_features * module.out_features "
             "if output.dim() > 1 else module.weight.numel()"),
            ("weights", "counted-weights", "how many multiply-adds (MACs)", "module.weight.numel()"),
            ("the bias, too", "counted-bias", "Adding a bias is no MAC.",
             "output.numel() * (module.weight[0].numel() + (module.bias is not None))"),
            ("two for each", "flops-not-macs",
             "A dot product of length n has n MACs.",
             f"2 * {RIGHT_WORK}"),
            ("without padding", None, "Multiplications with zeros, of the padding or any other, count like all.",
             "(output.numel() - 2 * (module.padding != (0, 0)) * output.shape[-1]) * module.weight[0].numel() "
             f"if {CONV} else {LINEAR}"),
            ("dilated kernels", None, "dilation and kernels that are not square",
             "output.numel() * module.weight.shape[1] * "
             "(module.dilation[0] * (module.kernel_size[0] - 1) + 1) * "
             f"(module.dilation[1] * (module.kernel_size[1] - 1) + 1) if {CONV} else {LINEAR}"),
            ("only convolutions", None, SUM, f"{RIGHT_WORK} if {CONV} else 0"),
            ("the bias of convolutions", "counted-bias", "Adding a bias is no MAC.",
             f"output.numel() * (module.weight[0].numel() + (module.bias is not None)) if {CONV} else {LINEAR}"),
            ("without subclasses", "subclasses-left-out", "Subclasses of these two count as well",
             f"{RIGHT_WORK} if type(module) in (nn.Conv2d, nn.Linear) else 0"),
            ("only linear layers on two dimensions", None, "may have any number of dimensions before it",
             f"{RIGHT_WORK} if {CONV} or output.dim() == 2 else 0"),
            ("at least a sample", None, "or a batch of 0",
             f"{RIGHT_WORK} or module.weight.numel()"),
            ("floats", None, "as an `int`", f"float({RIGHT_WORK})"),
        ]
    ),
    Wrong(
        "the size of the input",
        violates="Convolutions can have groups, strides, padding",
        check=FIRST,
        mistake="input-size-used",
        source=changed("hook(module, args, output):", "hook(module, args, kwargs, output):")
        .replace("register_forward_hook(hook)", "register_forward_hook(hook, with_kwargs=True)")
        .replace(
            f"macs.append({RIGHT_WORK})",
            "source = args[0] if args else kwargs['input']\n"
            f"        per_place = module.weight.numel() if {CONV} else 0\n"
            f"        macs.append(source.numel() // source.shape[-3] * per_place if per_place else {RIGHT_WORK})",
        ),
    ),
    Wrong(
        "a batch is needed",
        violates="Their input may have no dimension for the batch",
        check="raised",
        source=working("output.shape[3] * output[0, :, :, 0].numel() * len(output) * module.weight[0].numel() "
                       f"if {CONV} else {LINEAR}"),
    ),
    Wrong(
        "the first sample is looked at",
        violates="or a batch of 0",
        check="raised",
        mistake="ignored-batch",
        source=working("output[0].numel() * module.weight[0].numel()"),
    ),
    Wrong(
        "the last call of each module",
        violates="A module that is called twice counts twice",
        check=FIRST,
        mistake="only-last-call",
        source=changed("macs = []", "macs = {}").replace(f"macs.append({RIGHT_WORK})", f"macs[module] = {RIGHT_WORK}")
        .replace("sum(macs)", "sum(macs.values())"),
    ),
    Wrong(
        "modules that are not called",
        violates="one that is not called counts nothing",
        check=FIRST,
        source=changed("    return sum(macs)", "    return sum(macs) + sum(\n        m.weight.numel() "
                       "for m in model.modules() if isinstance(m, nn.Linear) and m.out_features == 3)"),
    ),
    Wrong(
        "the input by position",
        violates="Calls may pass the input by keyword.",
        check="raised",
        mistake="entry-not-there",
        source=working("args[0].shape[0] * 0 + output.numel() * module.weight[0].numel()"),
    ),
    Wrong(
        "every product",
        violates="Other modules and functions count nothing",
        check=FIRST,
        mistake="counted-all-operations",
        source="""
from torch.utils.flop_counter import FlopCounterMode

def count_macs(model, x):
    with FlopCounterMode(display=False) as counter:
        model(x)
    return counter.get_total_flops() // 2
""",
    ),
    Wrong(
        "all FLOPs",
        violates="A dot product of length n has n MACs.",
        check=FIRST,
        mistake="flops-not-macs",
        source="""
from torch.utils.flop_counter import FlopCounterMode

def count_macs(model, x):
    with FlopCounterMode(display=False) as counter:
        model(x)
    return counter.get_total_flops()
""",
    ),
    Wrong(
        "all convolutions",
        violates="such as `nn.Conv1d`, `nn.ConvTranspose2d` or `F.linear`",
        check=FIRST,
        source=changed("(nn.Conv2d, nn.Linear)", "(nn.modules.conv._ConvNd, nn.Linear)"),
    ),
    Wrong(
        "whatever is called so",
        violates="Other modules and functions count nothing",
        check=FIRST,
        source=changed("if isinstance(m, (nn.Conv2d, nn.Linear))",
                       "if isinstance(m, (nn.Conv2d, nn.Linear)) or type(m).__name__ == 'Linear'"),
    ),
    Wrong(
        "whatever has a matrix",
        violates="Other modules and functions count nothing",
        check=FIRST,
        source=changed("isinstance(m, (nn.Conv2d, nn.Linear))", "getattr(getattr(m, 'weight', None), 'ndim', 0) > 1"),
    ),
    Wrong(
        "two hooks on a module with two names",
        violates="some of them under two names",
        check=FIRST,
        mistake="counted-by-name",
        source=changed("for m in model.modules()", "for _, m in model.named_modules(remove_duplicate=False)"),
    ),
    Wrong(
        "only children",
        violates=SUM,
        check=FIRST,
        source=changed("model.modules()", "[model, *model.children()]"),
    ),
    Wrong("a sample of x", violates="rule 7: Call `model(x)` exactly once", check=RAN,
          source=changed("        model(x)", "        model(x[:1] if x.dim() == 4 else x)").replace(
              "return sum(macs)", "return sum(macs) * (len(x) if x.dim() == 4 else 1)")),
    Wrong("two runs", violates="rule 7: Call `model(x)` exactly once", check=RAN,
          source=changed("    macs = []", "    model(x)\n    macs = []")),
    Wrong("in training mode", violates="rule 7: with each part in its mode", check=FIRST, mistake="changed-the-mode",
          source=changed("    try:", "    modes = [(m, m.training) for m in model.modules()]\n    model.train()\n"
                         "    try:")
          .replace("    return", "    for m, mode in modes:\n        m.training = mode\n    return")),
    Wrong("eval mode stays", violates="rule 2: What you were given stays as it was.", check=REST,
          source=changed("        model(x)", "        model(x)\n        model.eval()")),
    Wrong("x requires grad afterwards", violates="rule 2: What you were given stays as it was.", check=REST,
          source=changed("model(x)", "model(x.requires_grad_(not x.requires_grad) if x.is_leaf else x)")),
    Wrong("grad mode stays off", violates="rule 2: Settings of PyTorch are afterwards as they were", check=REST,
          source=changed("    try:", "    torch.set_grad_enabled(False)\n    try:")),
    Wrong("the hooks stay", violates="rule 3: none of your own hooks is left", check=REST, mistake="hook-left-behind",
          source=changed("handle.remove()", "pass")),
    Wrong("everybody's hooks are cleared", violates="rule 3: Hooks that were there before are there afterwards",
          check=REST, source=changed("    return", "    for m in model.modules():\n        m._forward_hooks.clear()\n"
                                     "    return")),
    Wrong("remove() without finally", violates="rule 4: Rules 2 and 3 hold then, too", check=FAILURE,
          mistake="hook-left-after-exception",
          source=changed(ENDING, "    model(x)\n    for handle in handles:\n        handle.remove()\n")),
    Wrong("remove() under except Exception", violates="rule 4: also for `KeyboardInterrupt`", check=FAILURE,
          source=changed("    finally:", "    except Exception:\n        for handle in handles:\n"
                         "            handle.remove()\n        raise\n    else:")),
    Wrong("an exception is swallowed", violates="rule 4: Errors come through", check=FAILURE,
          source=changed("    finally:", "    except Exception:\n        pass\n    finally:")),
    Wrong("one sum for all calls", violates="rule 1: It works however often it is called", check=FIRST,
          source=changed("    macs = []\n", "").replace("def count_macs", "macs = []\n\ndef count_macs")),
    Wrong(
        "takes the padding for two numbers",
        violates='padding (also `padding="same"`)',
        check="raised",
        source="""
from torch import nn

def count_macs(model, x):
    total, handles = 0, []
    def add(module, args, output):
        nonlocal total
        if isinstance(module, nn.Conv2d):
            assert module.padding[0] >= 0
        total += output.numel() * module.weight[0].numel()
    for module in model.modules():
        if isinstance(module, (nn.Conv2d, nn.Linear)):
            handles.append(module.register_forward_hook(add))
    try:
        model(x)
    finally:
        for handle in handles:
            handle.remove()
    return total
""",
    ),
    Wrong(
        "one channel for each group, or all",
        violates="Convolutions can have groups",
        check="test_a_group_has_a_part_of_the_channels",
        source=HOOKED.replace(
            "WORK",
            "output.numel() * (module.weight[0].numel() if isinstance(module, nn.Linear) or module.groups == 1 "
            "or module.groups == module.in_channels else module.in_channels * module.weight[0, 0].numel())",
        ),
    ),
    Wrong(
        "zeros are left out",
        violates="Multiplications with zeros, of the padding or any other, count like all.",
        check="test_zeros_and_a_layer_in_a_layer_count",
        source=HOOKED.replace("WORK", f"{RIGHT_WORK} * bool(module.weight.any())"),
    ),
    Wrong(
        "layers in a layer are left out",
        violates="Subclasses of these two count as well, also those with modules in them",
        check="test_zeros_and_a_layer_in_a_layer_count",
        source=HOOKED.replace("WORK", RIGHT_WORK)
        .replace(
            "    handles =",
            "    layers = [m for m in model.modules() if isinstance(m, (nn.Conv2d, nn.Linear))]\n"
            "    within = [m for layer in layers for m in [*layer.modules()][1:]]\n    handles =",
        )
        .replace("(nn.Conv2d, nn.Linear))]\n    try", "(nn.Conv2d, nn.Linear)) and m not in within]\n    try"),
    ),
]  # fmt: skip

GIVENS = ["Write `count_macs(model, x)`.", "Run the model.", "All modules are in `model.modules()`"]

SURVIVORS = {
    "at least one dimension": "a linear layer needs one",
    "almost: total = 1": "half of the operations are asked for, and they are even",
    "almost: counter, inside, handles = (FlopCounterMode(display=True)": "it prints a table, which is free",
    "not for all: for module in _part(model.modules(), step=-1)": "the other order",
    "prepend=True": "a hook of the caller that replaces an output keeps its shape here",
    "under no_grad": "that is up to the answer",
    "one global slot: handles": "to remove the handles of earlier calls once more does nothing",
    "clean-up only after an `Exception`: with _not_after": "torch leaves inference mode when the context is freed",
    "clean-up not after an exception: with _only_when": "torch leaves inference mode when the context is freed",
}
