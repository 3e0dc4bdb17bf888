"""Answers to 13-why-no-gradient."""

import textwrap

from graders.author.answers import Wrong, changed

BACKWARD = """
import torch

def held(p, modules):
    return any(own is p for module in modules for own in module.parameters(recurse=False))

def why_no_gradient(model, loss_fn, x):
    leaves = [*model.parameters(), x]
    grads = [leaf.grad for leaf in leaves]
    buffers = [(buffer, buffer.clone()) for buffer in model.buffers()]
    called, came, handles, result = [], {}, [], {}
    def before(module, args):
        called.append(module)
    def watch(p):
        handles.append(p.register_hook(lambda grad: came.update({p: grad})))
    try:
        for leaf in leaves:
            leaf.grad = None
        for p in model.parameters():
            if p.requires_grad:
                watch(p)
        for module in model.modules():
            handles.append(module.register_forward_pre_hook(before))
        loss = loss_fn(model(x))
        if loss.requires_grad:
            loss.backward()
        for name, p in model.named_parameters():
            if not p.requires_grad:
                result[name] = "frozen"
            elif p in came:
                if (came[p] == 0).all():
                    result[name] = "zero"
            elif held(p, called):
                result[name] = "cut"
            else:
                result[name] = "never called"
    finally:
        for handle in handles:
            handle.remove()
        for leaf, grad in zip(leaves, grads):
            leaf.grad = grad
        with torch.no_grad():
            for buffer, old in buffers:
                buffer.copy_(old)
    return result
"""

READS_GRAD = changed(BACKWARD, ("elif p in came:", "elif p.grad is not None:"), ("(came[p] == 0)", "(p.grad == 0)"))

GRADS = """        for leaf, grad in zip(leaves, grads):
            leaf.grad = grad
"""
BUFFERS = """        with torch.no_grad():
            for buffer, old in buffers:
                buffer.copy_(old)
"""
STRIPPED = """    model = copy.deepcopy(model)
    for module in model.modules():
        module._forward_hooks.clear()
"""

RIGHT = [
    BACKWARD,
    # hooks on the parameters, and buffers that are lent for the call
    """
import torch
from contextlib import ExitStack
from torch.func import functional_call
from torch.nn.modules.module import register_module_forward_pre_hook

def why_no_gradient(model, loss_fn, x):
    named, arrived, running = dict(model.named_parameters()), {}, set()
    lent = {name: buffer.clone() for name, buffer in model.named_buffers()}
    with ExitStack() as stack:
        stack.enter_context(register_module_forward_pre_hook(lambda module, args: running.add(id(module))))
        for name, p in named.items():
            if p.requires_grad:
                stack.enter_context(p.register_hook(lambda grad, name=name: arrived.update({name: bool(grad.any())})))
        loss = loss_fn(functional_call(model, lent, (x,)))
        wanted = [p for p in named.values() if p.requires_grad]
        if loss.requires_grad and wanted:
            torch.autograd.grad(loss, wanted, allow_unused=True)
    held = {id(p) for m in model.modules() if id(m) in running for p in m._parameters.values() if p is not None}
    def why(name, p):
        if not p.requires_grad:
            return "frozen"
        if name in arrived:
            return None if arrived[name] else "zero"
        return "cut" if id(p) in held else "never called"
    reasons = {name: why(name, p) for name, p in named.items()}
    return {name: reason for name, reason in reasons.items() if reason}
""",
    # a class, with forward hooks that see keyword arguments, too
    """
import torch
from collections import OrderedDict

class Investigation:
    def __init__(self, model):
        self.model, self.seen, self.handles = model, set(), []

    def note(self, module, args, kwargs, output):
        self.seen |= {id(p) for p in module.parameters(recurse=False)}

    def __enter__(self):
        self.buffers = [(b, b.detach().clone()) for b in self.model.buffers()]
        for module in self.model.modules():
            self.handles.append(module.register_forward_hook(self.note, with_kwargs=True, always_call=True))
        return self

    def __exit__(self, *error):
        for handle in self.handles:
            handle.remove()
        for buffer, old in self.buffers:
            buffer.data.copy_(old)
        return False

def why_no_gradient(model, loss_fn, x):
    with Investigation(model) as at:
        loss = loss_fn(model(x))
        trained = [(n, p) for n, p in model.named_parameters() if p.requires_grad]
        grads = [None] * len(trained)
        if loss.grad_fn is not None and trained:
            grads = torch.autograd.grad(loss, [p for _, p in trained], allow_unused=True)
    found = OrderedDict((n, "frozen") for n, p in model.named_parameters() if not p.requires_grad)
    for (name, p), grad in zip(trained, grads):
        if grad is None:
            found[name] = "cut" if id(p) in at.seen else "never called"
        elif torch.count_nonzero(grad) == 0:
            found[name] = "zero"
    return found
""",
]

FIRST = "test_each_parameter_without_a_gradient_has_its_reason"
NOTHING = "test_nothing_changes"
FAILING = "test_an_exception_comes_through_and_nothing_changes"

LATER = "test_gradients_of_nan_and_a_module_that_was_called_in_another_pass"

WRONG = [
    Wrong(
        "remembers the modules of earlier passes",
        violates="no module that holds it is called in this run",
        check=LATER,
        source=changed(
            BACKWARD,
            ("import torch\n", "import torch\n\nCALLED = []\n"),
            ("called, came, handles", "came, handles"),
            ("= [], {}, [], {}", "= {}, [], {}\n    called = CALLED"),
        ),
    ),
    Wrong(
        "asks for the gradients of no parameter",
        violates="the parameter does not require grad",
        check="raised",
        source=changed(
            BACKWARD,
            (
                "            loss.backward()\n",
                "            leaves = [p for p in model.parameters() if p.requires_grad]\n"
                "            for p, grad in zip(leaves, torch.autograd.grad(loss, leaves, allow_unused=True)):\n"
                "                p.grad = grad\n"
                "            leaves = [*model.parameters(), x]\n",
            ),
        ),
    ),
    Wrong(
        "a gradient as float32",
        violates="all exactly 0",
        check="test_a_very_small_gradient_is_not_0",
        source=changed(BACKWARD, ("if (came[p] == 0).all():", "if (came[p].float() == 0).all():")),
    ),
    Wrong(
        "copies a buffer that is None",
        violates="Afterwards all buffers",
        check="raised",
        source=changed(
            BACKWARD,
            ("for buffer in model.buffers()]", "for module in model.modules() for buffer in module._buffers.values()]"),
        ),
    ),
    Wrong(
        "takes the norm for what is there",
        violates="all exactly 0",
        check="test_a_very_small_gradient_is_not_0",
        source=changed(BACKWARD, ("(came[p] == 0).all()", "came[p].norm() == 0")),
    ),
    Wrong(
        "leaves what .grad held before",
        violates="its gradient from this pass alone",
        check=FIRST,
        mistake="old-grad",
        source=changed(READS_GRAD, ("            leaf.grad = None", "            pass")),
    ),
    Wrong(
        "reads .grad when the pass is over",
        violates="before post-accumulate-grad hooks, which may clear `.grad`",
        check="test_what_comes_to_a_parameter_is_its_gradient_and_not_what_is_left_in_grad",
        source=READS_GRAD,
    ),
    Wrong(
        "takes `forward` for a call",
        violates="`module.forward(...)` is no call",
        check="test_a_call_of_forward_is_no_call_of_the_module",
        source=changed(
            BACKWARD,
            (
                "            handles.append(module.register_forward_pre_hook(before))\n",
                "            def forward(*args, module=module, plain=module.forward, **kwargs):\n"
                "                called.append(module)\n"
                "                return plain(*args, **kwargs)\n"
                "            module.forward = forward\n",
            ),
            (
                "        for handle in handles:\n",
                "        for module in model.modules():\n"
                "            vars(module).pop('forward', None)\n"
                "        for handle in handles:\n",
            ),
        ),
    ),
    Wrong(
        "empties .grad and puts nothing back",
        violates="and `.grad` of each parameter and of `x`, are as they were",
        check=NOTHING,
        source=changed(BACKWARD, ("leaf.grad = grad", "leaf.grad = None")),
    ),
    Wrong(
        "puts copies of .grad back",
        violates="rule 2: Tensors keep their values, their `requires_grad` and their `.grad`: the same tensor",
        check=NOTHING,
        source=changed(BACKWARD, ("leaf.grad = grad", "leaf.grad = None if grad is None else grad.clone()")),
    ),
    Wrong(
        "zeroes .grad in place",
        violates="and `.grad` of each parameter and of `x`, are as they were",
        check=NOTHING,
        source=changed(BACKWARD, ("    try:\n", "    model.zero_grad(set_to_none=False)\n    try:\n")),
    ),
    Wrong(
        "forgets the .grad of x",
        violates="and `.grad` of each parameter and of `x`, are as they were",
        check=NOTHING,
        source=changed(BACKWARD, ("[*model.parameters(), x]", "[*model.parameters()]")),
    ),
    Wrong(
        "puts .grad back only when all went well",
        violates="rule 4: Rules 2 and 3 hold then, too.",
        check=FAILING,
        source=changed(
            BACKWARD,
            (GRADS, ""),
            ("    return result", textwrap.indent(textwrap.dedent(GRADS), "    ") + "    return result"),
        ),
    ),
    Wrong(
        "leaves the buffers as the pass makes them",
        violates="Afterwards all buffers",
        check=NOTHING,
        source=changed(BACKWARD, ("buffer.copy_(old)", "pass")),
    ),
    Wrong(
        "puts back only the buffers that are saved",
        violates="Afterwards all buffers",
        check=NOTHING,
        source=changed(
            BACKWARD,
            (
                "for buffer in model.buffers()]",
                "for name, buffer in model.named_buffers() if name in model.state_dict()]",
            ),
        ),
    ),
    Wrong(
        "puts buffers back only when all went well",
        violates="rule 4: Rules 2 and 3 hold then, too.",
        check=FAILING,
        source=changed(
            BACKWARD,
            (BUFFERS, ""),
            ("    return result", textwrap.indent(textwrap.dedent(BUFFERS), "    ") + "    return result"),
        ),
    ),
    Wrong(
        "switches to eval mode, so that no buffer changes",
        violates="rule 7: with each part in its mode",
        check=FIRST,
        source=changed(
            BACKWARD,
            ("    try:\n", "    modes = [(m, m.training) for m in model.modules()]\n    model.eval()\n    try:\n"),
            ("    finally:\n", "    finally:\n        for m, mode in modes:\n            m.training = mode\n"),
        ),
    ),
    Wrong(
        "runs on a deep copy, which has no hooks on parameters",
        violates="after the tensor hooks of the caller on it",
        check=FIRST,
        source=changed(
            BACKWARD,
            ("import torch\n", "import torch, copy\n"),
            ("    leaves = [", "    model = copy.deepcopy(model)\n    leaves = ["),
        ),
    ),
    Wrong(
        "runs without the forward hooks of the caller",
        violates="rule 3: They may watch or replace values",
        check=FIRST,
        source=changed(
            BACKWARD,
            ("import torch\n", "import torch, copy\n"),
            ("    leaves = [", STRIPPED + "    leaves = ["),
        ),
    ),
    Wrong(
        "calls a small gradient zero",
        violates="a gradient whose entries are all exactly 0",
        check=FIRST,
        mistake="small-is-not-zero",
        source=changed(BACKWARD, ("(came[p] == 0).all()", "torch.allclose(came[p], torch.zeros_like(came[p]))")),
    ),
    Wrong(
        "one entry of 0 is enough",
        violates="a gradient comes to it, and all entries are 0",
        check=FIRST,
        mistake="one-zero-is-not-all",
        source=changed(BACKWARD, ("(came[p] == 0).all()", "(came[p] == 0).any()")),
    ),
    Wrong(
        "the sum of the entries",
        violates="a gradient comes to it, and all entries are 0",
        check=FIRST,
        mistake="one-zero-is-not-all",
        source=changed(BACKWARD, ("(came[p] == 0).all()", "came[p].sum() == 0")),
    ),
    Wrong(
        "looks at the first entry",
        violates="a gradient comes to it, and all entries are 0",
        check=FIRST,
        mistake="one-zero-is-not-all",
        source=changed(BACKWARD, ("(came[p] == 0).all()", "(came[p].flatten()[:1] == 0).all()")),
    ),
    Wrong(
        "takes None for 0",
        violates="no gradient comes to it, although a module that holds it is called",
        check=FIRST,
        mistake="none-is-not-zero",
        source=changed(BACKWARD, ('"cut"', '"zero"'), ('"never called"', '"zero"')),
    ),
    Wrong(
        "takes 0 for None",
        violates="The reason is the first of these four that is true.",
        check=FIRST,
        mistake="zero-is-not-none",
        source=changed(BACKWARD, ('"zero"', '"cut"')),
    ),
    Wrong(
        "leaves gradients of zeros out",
        violates="or a gradient whose entries are all exactly 0",
        check=FIRST,
        source=changed(BACKWARD, ('result[name] = "zero"', "pass")),
    ),
    Wrong(
        "asks first whether the module is called",
        violates="to which no gradient comes, or a gradient whose entries are all exactly 0",
        check=FIRST,
        source=changed(
            BACKWARD,
            (
                "            elif p in came:\n",
                '            elif not held(p, called):\n                result[name] = "never called"\n'
                "            elif p in came:\n",
            ),
        ),
    ),
    Wrong(
        "lists what is never called, whatever comes",
        violates="Other code may use the parameters of a module that is never called.",
        check=FIRST,
        mistake="used-by-other-code",
        source=changed(
            BACKWARD,
            (
                '                    result[name] = "zero"\n',
                '                    result[name] = "zero"\n'
                '                elif not held(p, called):\n                    result[name] = "never called"\n',
            ),
        ),
    ),
    Wrong(
        "a zero gradient of a module that is not called",
        violates="The reason is the first of these four that is true.",
        check=FIRST,
        mistake="zero-comes-first",
        source=changed(BACKWARD, ('= "zero"', '= "zero" if held(p, called) else "never called"')),
    ),
    Wrong(
        "a frozen parameter that is not called",
        violates="The reason is the first of these four that is true.",
        check=FIRST,
        mistake="frozen-comes-first",
        source=changed(BACKWARD, ("if not p.requires_grad:", "if not p.requires_grad and held(p, called):")),
    ),
    Wrong(
        "leaves frozen parameters out",
        violates='"frozen"`: the parameter does not require grad',
        check=FIRST,
        source=changed(BACKWARD, ('result[name] = "frozen"', "pass")),
    ),
    Wrong(
        "hooks only modules without children",
        violates="A module *holds* the parameters of its `parameters(recurse=False)`.",
        check=FIRST,
        mistake="called-is-called",
        source=changed(
            BACKWARD,
            ("for module in model.modules():", "for module in [m for m in model.modules() if not m._modules]:"),
        ),
    ),
    Wrong(
        "a call of a block calls all that is inside",
        violates="no gradient comes to it, and no module that holds it is called in this run",
        check=FIRST,
        mistake="never-called-is-not-cut",
        source=changed(BACKWARD, ("parameters(recurse=False)", "parameters()")),
    ),
    Wrong(
        "asks only the module of the first name",
        violates="Several modules may hold one parameter",
        check=FIRST,
        mistake="called-is-called",
        source=changed(
            BACKWARD,
            ("elif held(p, called):", "elif model.get_submodule(name.rpartition('.')[0]) in called:"),
        ),
    ),
    Wrong(
        "a call without a graph is none",
        violates="A module is *called* when `module(...)` runs, with or without a graph;",
        check=FIRST,
        mistake="called-is-called",
        source=changed(BACKWARD, ("called.append(module)", "called.extend([module] * torch.is_grad_enabled())")),
    ),
    Wrong(
        "every name of a shared parameter",
        violates="its name in `model.named_parameters()`",
        check=FIRST,
        mistake="another-name",
        source=changed(BACKWARD, ("named_parameters()", "named_parameters(remove_duplicate=False)")),
    ),
    Wrong(
        "runs back without looking whether it is possible",
        violates="When it does not require grad, no gradient comes to any parameter.",
        check="raised",
        source=changed(BACKWARD, ("if loss.requires_grad:", "if True:")),
    ),
    Wrong(
        "swallows what the backward pass raises",
        violates="rule 4: Errors come through.",
        check=FAILING,
        source=changed(
            BACKWARD,
            (
                "            loss.backward()\n",
                "            try:\n                loss.backward()\n"
                "            except BaseException:\n                pass\n",
            ),
        ),
    ),
    Wrong(
        "leaves its hooks after an exception",
        violates="rule 3: When your function has returned, or raised, none of your own hooks is left.",
        check=FAILING,
        mistake="hook-left",
        source=changed(
            BACKWARD,
            ("            handle.remove()\n", "            pass\n"),
            ("    return result", "    for handle in handles:\n        handle.remove()\n    return result"),
        ),
    ),
    Wrong(
        "clears all hooks at the end",
        violates="rule 3: Hooks that were there before are there afterwards",
        check=NOTHING,
        source=changed(
            BACKWARD,
            (
                "            handle.remove()\n",
                "            list(map(lambda m: m._forward_pre_hooks.clear(), model.modules()))\n",
            ),
        ),
    ),
    Wrong(
        "computes the loss twice",
        violates="Run the model, `loss = loss_fn(model(x))`, and one backward pass.",
        check="test_one_pass_is_enough",
        source=changed(BACKWARD, ("if loss.requires_grad:", "if loss_fn(model(x)).requires_grad:")),
    ),
    Wrong(
        "remembers what it found",
        violates="rule 1: It works however often it is called",
        check="test_a_loss_without_a_graph_is_no_error",
        source=changed(
            BACKWARD,
            ("= [], {}, [], {}", "= [], {}, [], vars(why_no_gradient)"),
        ),
    ),
    Wrong(
        "NaN is nothing",
        violates="a gradient comes to it, and all entries are 0",
        check=LATER,
        source=changed(BACKWARD, ("if (came[p] == 0).all():", "if not (came[p].abs() > 0).any():")),
    ),
    Wrong(
        "a loss of no dimension alone",
        violates="rule 1: for tensors of any shape",
        check="raised",
        source=changed(BACKWARD, ("loss.backward()", "loss.backward(torch.ones((), dtype=loss.dtype))")),
    ),
    Wrong(
        "a pass that raises is none",
        violates="rule 4: the caller of your function gets this exception",
        check=FAILING,
        source=changed(
            BACKWARD,
            (
                "            loss.backward()\n",
                "            try:\n                loss.backward()\n"
                "            except RuntimeError:\n                pass\n",
            ),
        ),
    ),
    Wrong(
        "the .grad of what is frozen is lost",
        violates="and `.grad` of each parameter and of `x`, are as they were",
        check="test_a_loss_without_a_graph_is_no_error",
        source=changed(BACKWARD, ("leaf.grad = grad", "leaf.grad = grad if leaf.requires_grad else None")),
    ),
    Wrong(
        "one list of calls for all",
        violates="rule 1: when one call\n    runs inside another",
        check="test_a_call_inside_a_call_changes_nothing",
        source=changed(
            BACKWARD,
            ("import torch\n", "import torch\n\nCALLED = []\n"),
            (
                "    called, came, handles, result = [], {}, [], {}\n",
                "    CALLED.clear()\n    called, came, handles, result = CALLED, {}, [], {}\n",
            ),
        ),
    ),
]

GIVENS = [
    "Write `why_no_gradient(model, loss_fn, x)`.",
    "`x` is a leaf.",
    "No parameter is empty.",
    "The loss has one element.",
]

SURVIVORS = {
    "a hook that works at times: @_not_the_first_call def note": "the first call of all is that of the model, "
    "which holds no parameter",
    "at least one dimension": "the input of a norm has two",
    "prepend=True": "the hook notes that a module is called, which no hook of the caller changes",
    "truth for None: if loss.grad_fn": "a node of the graph is true, and `None` is not",
    "lost return: False": "`None` says the same: the exception goes on",
    "condition dropped: held = {id(p)": "the id of `None` is that of no parameter",
    "not for all: for module in _part(model.modules(), step=-1)": "the other order",
    "not for all: for name, p in _part(named.items(), step=-1)": "the other order",
    "not for all: for (name, p), gradient in _part(zip(trained.items(), gradients), step=-1)": "the other order",
    "not for all: reasons = {name: why(name, p) for name, p in _part(named.items(), step=-1)}": "the other order",
    "not for all: return {name: reason for name, reason in _part(reasons.items(), step=-1)": "the other order",
    "not for all: found = OrderedDict(((n, 'frozen') for n, p in _part(model.named_parameters(), step=-1)": "the other "
    "order",
    "not for all: trained = [(n, p) for n, p in _part(model.named_parameters(), step=-1)": "the other order",
    "not for all: trained = {name: p for name, p in _part(model.named_parameters(), step=-1)": "the other order",
    "not for all: reasons = {name: 'frozen' for name, p in _part(model.named_parameters(), step=-1)": "the other order",
    "not for all: for name, p in _part(model.named_parameters(), step=-1)": "the other order",
    "not for all: return any((own is p for module in _part(modules, step=-1)": "one is enough, in any order",
    "not for all: held = {id(p) for m in _part(model.modules(), step=-1)": "the other order",
    "not for all: for module in _part(self.model.modules(), step=-1)": "the other order",
    "not for all: lent = {name: buffer.clone() for name, buffer in _part(model.named_buffers(), step=-1)": "the other "
    "order",
    "not for all: for (name, p), grad in _part(zip(trained, grads), step=-1)": "the other order",
    "a list for a tuple: gradients = torch.autograd.grad(loss, tuple(": "it takes any sequence",
    "lost copy: gradients = torch.autograd.grad(loss, _not_copied(trained.values())": "it takes any sequence",
    "almost: self.handles.append(module.register_forward_hook(self.note, with_kwargs=True, always_call=False": "after "
    "an exception nobody asks what was called",
}
