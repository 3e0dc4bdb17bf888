"""Answers to 13-changed-by-hooks."""

from graders.author.answers import Wrong, changed

SWAP = """
import torch
from collections import OrderedDict
from contextlib import contextmanager

OF_MODULES = ["_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks"]
OF_PARAMETERS = ["_backward_hooks", "_post_accumulate_grad_hooks"]

@contextmanager
def without_hooks(model):
    owners = [(module, kind) for module in model.modules() for kind in OF_MODULES]
    owners += [(p, kind) for p in model.parameters() for kind in OF_PARAMETERS]
    dicts = [(owner, kind, getattr(owner, kind)) for owner, kind in owners]
    saved = [(hooks, list(hooks.items())) for _, _, hooks in dicts if hooks is not None]
    try:
        for hooks, _ in saved:
            hooks.clear()
        yield
    finally:
        for hooks, entries in saved:
            hooks.clear()
            hooks.update(entries)

@contextmanager
def everything_kept(model, x):
    leaves = [*model.parameters(), x]
    grads = [leaf.grad for leaf in leaves]
    buffers = [(buffer, buffer.clone()) for buffer in model.buffers()]
    modes = [(module, module.training) for module in model.modules()]
    try:
        for leaf in leaves:
            leaf.grad = None
        yield
    finally:
        for leaf, grad in zip(leaves, grads):
            leaf.grad = grad
        for module, mode in modes:
            module.training = mode
        with torch.no_grad():
            for buffer, old in buffers:
                buffer.copy_(old)

def gradients(model, loss_fn, x):
    with everything_kept(model, x):
        loss = loss_fn(model(x))
        if loss.requires_grad:
            loss.backward()
        return {name: p.grad for name, p in model.named_parameters()}

def other(a, b):
    if a is None or b is None:
        return a is not b
    return not torch.allclose(a, b, rtol=1e-3, atol=0)

def changed_by_hooks(model, loss_fn, x):
    with_hooks = gradients(model, loss_fn, x)
    with without_hooks(model):
        plain = gradients(model, loss_fn, x)
    return [name for name in plain if other(with_hooks[name], plain[name])]
"""

COPIES = """
import copy
import torch

KINDS = ("_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks")

def changed_by_hooks(model, loss_fn, x):
    clean = copy.deepcopy(model)
    for module in clean.modules():
        for kind in KINDS:
            getattr(module, kind).clear()
    kept = [(p, p.grad) for p in model.parameters()]
    buffers = {b: b.clone() for b in model.buffers()}
    result = []
    try:
        for p, _ in kept:
            p.grad = None
        for net in (clean, model):
            loss = loss_fn(net(x.detach()))
            if loss.grad_fn is not None:
                loss.backward()
        for (name, p), q in zip(model.named_parameters(), clean.parameters()):
            if (p.grad is None) != (q.grad is None):
                result.append(name)
            elif p.grad is not None and ((p.grad - q.grad).abs() > 0.01 * q.grad.abs()).any():
                result.append(name)
    finally:
        for p, grad in kept:
            p.grad = grad
        for buffer, old in buffers.items():
            buffer.data.copy_(old)
    return result
"""

RIGHT = [
    SWAP,
    COPIES,
    # other dicts for the time of the pass, and the same ones afterwards
    changed(
        SWAP,
        ("    saved = [(hooks, list(hooks.items())) for _, _, hooks in dicts if hooks is not None]\n", ""),
        (
            "        for hooks, _ in saved:\n            hooks.clear()\n        yield\n",
            "        for owner, kind, hooks in dicts:\n"
            "            setattr(owner, kind, OrderedDict())\n"
            "        yield\n",
        ),
        (
            "        for hooks, entries in saved:\n            hooks.clear()\n            hooks.update(entries)\n",
            "        for owner, kind, hooks in dicts:\n            setattr(owner, kind, hooks)\n",
        ),
    ),
    # no parameter of the model takes part in the pass without hooks
    """
import contextlib
from unittest.mock import patch
import torch
from torch.func import functional_call

def bare(model):
    stack = contextlib.ExitStack()
    for module in model.modules():
        for name in ("_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks"):
            stack.enter_context(patch.object(module, name, type(getattr(module, name))()))
    return stack

def run(model, parts, loss_fn, x):
    loss = loss_fn(functional_call(model, parts, (x.detach(),)))
    if loss.requires_grad:
        loss.backward()

def changed_by_hooks(model, loss_fn, x):
    own = dict(model.named_parameters())
    lent = {n: p.detach().clone().requires_grad_(p.requires_grad) for n, p in own.items()}
    def buffers():
        return {n: b.clone() for n, b in model.named_buffers()}
    with bare(model):
        run(model, {**lent, **buffers()}, loss_fn, x)
    old = {n: p.grad for n, p in own.items()}
    try:
        for p in own.values():
            p.grad = None
        run(model, buffers(), loss_fn, x)
        new = {n: p.grad for n, p in own.items()}
    finally:
        for n, p in own.items():
            p.grad = old[n]
    names = []
    for n in own:
        pair = [new[n], lent[n].grad]
        if any(g is None for g in pair):
            if pair != [None, None]:
                names += [n]
        elif not torch.isclose(*pair, rtol=0.02, atol=0.0).all():
            names += [n]
    return names
""",
]

FIRST = "test_the_parameters_that_hooks_change_are_named"
NOTHING = "test_nothing_changes"
FAILING = "test_an_exception_comes_through_and_nothing_changes"
ACTS = "test_the_hooks_act_as_before_and_their_handles_remove_them"

SILENT_PASS = """with patch.object(torch.Tensor, "register_hook", lambda tensor, hook: None):
            loss = loss_fn(model(x))"""

WRONG = [
    Wrong(
        "leaves a mode as a hook has set it",
        violates="a hook may change a mode",
        check="test_each_pass_starts_in_the_modes_that_you_find",
        source=changed(SWAP, ("        for module, mode in modes:\n            module.training = mode\n", "")),
    ),
    Wrong(
        "takes off the hooks for all modules, too",
        violates="hooks for all\n      modules (`register_module_forward_hook`) are not",
        check="test_hooks_for_all_modules_are_not_of_the_model",
        source=changed(
            SWAP,
            (
                "    dicts = [",
                "    owners.append((torch.nn.modules.module, '_global_forward_hooks'))\n    dicts = [",
            ),
        ),
    ),
    Wrong(
        "leaves a hook before the model",
        violates="(itself included)",
        check="test_any_input_and_a_hook_before_the_model",
        source=changed(
            SWAP,
            (
                "    saved = [(hooks, list(hooks.items())) for _, _, hooks in dicts if hooks is not None]",
                "    saved = [(hooks, list(hooks.items())) for _, _, hooks in dicts[1:] if hooks is not None]",
            ),
        ),
    ),
    Wrong(
        "remembers a model",
        violates="are all hooks on its modules (itself included) and its parameters",
        check="test_it_looks_anew_when_the_hooks_are_gone",
        source=SWAP
        + """
known = {}
look = changed_by_hooks

def changed_by_hooks(model, loss_fn, x):
    if model not in known:
        known[model] = look(model, loss_fn, x)
    return known[model]
""",
    ),
    Wrong(
        "a gradient that is there with hooks alone does not count",
        violates="`None` is not a tensor of zeros.",
        check="test_no_gradient_is_not_one_of_zeros",
        source=changed(
            SWAP,
            (
                "    if a is None or b is None:\n        return a is not b\n",
                "    if a is None:\n        return b is not None\n    if b is None:\n        return False\n",
            ),
        ),
    ),
    Wrong(
        "a deep copy with the hooks of modules on it",
        violates="are all hooks on its modules (itself included) and its parameters",
        check=FIRST,
        mistake="module-hooks-left",
        source=changed(COPIES, (".clear()", "")),
    ),
    Wrong(
        "takes only the hooks of modules off",
        violates="are all hooks on its modules (itself included) and its parameters",
        check=FIRST,
        mistake="parameter-hooks-missed",
        source=changed(SWAP, ('["_backward_hooks", "_post_accumulate_grad_hooks"]', "[]")),
    ),
    Wrong(
        "leaves post-accumulate-grad hooks",
        violates="forward pre-hooks, forward hooks, full backward pre-hooks, full backward hooks, tensor hooks, "
        "post-accumulate-grad hooks",
        check=FIRST,
        mistake="accumulated-missed",
        source=changed(SWAP, (', "_post_accumulate_grad_hooks"]', "]")),
    ),
    Wrong(
        "leaves the backward hooks of modules",
        violates="forward pre-hooks, forward hooks, full backward pre-hooks, full backward hooks, tensor hooks, "
        "post-accumulate-grad hooks",
        check=FIRST,
        mistake="backward-left",
        source=changed(COPIES, (', "_backward_pre_hooks", "_backward_hooks")', ")")),
    ),
    Wrong(
        "leaves pre-hooks",
        violates="forward pre-hooks, forward hooks, full backward pre-hooks, full backward hooks, tensor hooks, "
        "post-accumulate-grad hooks",
        check=FIRST,
        mistake="pre-left",
        source=changed(
            COPIES,
            (
                '("_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks")',
                '("_forward_hooks", "_backward_hooks")',
            ),
        ),
    ),
    Wrong(
        "leaves the hooks of the model itself",
        violates="(itself included)",
        check=FIRST,
        mistake="model-itself-left",
        source=changed(COPIES, ("clean.modules()", "list(clean.modules())[1:]")),
    ),
    Wrong(
        "leaves the hooks of blocks",
        violates="are all hooks on its modules (itself included) and its parameters",
        check=FIRST,
        source=changed(COPIES, ("clean.modules()", "[clean, *(m for m in clean.modules() if not m._modules)]")),
    ),
    Wrong(
        "leaves the hooks of what is inside",
        violates="are all hooks on its modules (itself included) and its parameters",
        check=FIRST,
        mistake="inner-modules-left",
        source=changed(COPIES, ("clean.modules()", "[clean, *clean.children()]")),
    ),
    Wrong(
        "asks torch.autograd.grad",
        violates="is what `.grad` holds after `loss_fn(model(x)).backward()`",
        check=FIRST,
        mistake="accumulated-missed",
        source=changed(
            SWAP,
            (
                "            loss.backward()\n        return {name: p.grad for name, p in model.named_parameters()}",
                "            trained = {name: p for name, p in model.named_parameters() if p.requires_grad}\n"
                "            found = torch.autograd.grad(loss, list(trained.values()), allow_unused=True)\n"
                "            return {n: dict(zip(trained, found)).get(n) for n, p in model.named_parameters()}\n"
                "        return {name: None for name, p in model.named_parameters()}",
            ),
        ),
    ),
    Wrong(
        "runs both passes on copies",
        violates="are all hooks on its modules (itself included) and its parameters",
        check=FIRST,
        mistake="parameter-hooks-missed",
        source=changed(COPIES, ("    kept = [", "    model = copy.deepcopy(model)\n    kept = [")),
    ),
    Wrong(
        "wants every digit",
        violates="Differences in the last digits do not count.",
        check=FIRST,
        mistake="last-digits",
        source=changed(SWAP, ("torch.allclose(a, b, rtol=1e-3, atol=0)", "torch.equal(a, b)")),
    ),
    Wrong(
        "does not see a change of six percent",
        violates="an entry differs by 5 percent or more",
        check="test_a_change_of_some_percent_counts",
        source=changed(SWAP, ("rtol=1e-3, atol=0", "rtol=0.1, atol=0")),
    ),
    Wrong(
        "compares with the largest entry",
        violates="an entry differs by 5 percent or more",
        check="test_a_change_of_some_percent_counts",
        source=changed(
            SWAP,
            ("torch.allclose(a, b, rtol=1e-3, atol=0)", "(a - b).abs().max() <= 0.04 * b.abs().max()"),
        ),
    ),
    Wrong(
        "gradients as float32",
        violates="however small the gradient is",
        check="test_a_change_of_some_percent_counts",
        source=changed(SWAP, ("torch.allclose(a, b, rtol", "torch.allclose(a.float(), b.float(), rtol")),
    ),
    Wrong(
        "copies a buffer that is None",
        violates="Afterwards all buffers",
        check="raised",
        source=changed(
            SWAP,
            ("for buffer in model.buffers()]", "for module in model.modules() for buffer in module._buffers.values()]"),
        ),
    ),
    Wrong(
        "compares as torch.allclose does by itself",
        violates="however small the gradient is",
        check=FIRST,
        mistake="small-gradients",
        source=changed(SWAP, ("rtol=1e-3, atol=0", "rtol=1e-5, atol=1e-8")),
    ),
    Wrong(
        "compares the sums of the entries",
        violates="whose gradient would be another one without the hooks of the model",
        check=FIRST,
        source=changed(
            SWAP,
            (
                "torch.allclose(a, b, rtol=1e-3, atol=0)",
                "torch.allclose(a.abs().sum(), b.abs().sum(), rtol=0.3, atol=0)",
            ),
        ),
    ),
    Wrong(
        "compares sizes, without signs",
        violates="whose gradient would be another one without the hooks of the model",
        check=FIRST,
        source=changed(SWAP, ("a, b, rtol=1e-3, atol=0", "a, b, rtol=1, atol=0")),
    ),
    Wrong(
        "takes None for zeros",
        violates="`None` is not a tensor of zeros.",
        check=FIRST,
        mistake="none-is-not-zero",
        source=changed(SWAP, ("return a is not b", "return False")),
    ),
    Wrong(
        "begins the second pass with the buffers of the first",
        violates="Each pass starts with the buffers and modes that you find;",
        check=FIRST,
        mistake="other-buffers",
        source=changed(
            SWAP,
            ("                buffer.copy_(old)\n", "                pass\n"),
            (
                "    with_hooks = gradients(model, loss_fn, x)\n",
                "    buffers = [(buffer, buffer.clone()) for buffer in model.buffers()]\n"
                "    with_hooks = gradients(model, loss_fn, x)\n",
            ),
            (
                "    return [name for name in plain",
                "    for buffer, old in buffers:\n        buffer.data.copy_(old)\n    return [name for name in plain",
            ),
        ),
    ),
    Wrong(
        "leaves the buffers as the passes make them",
        violates="Afterwards all buffers",
        check=NOTHING,
        source=changed(COPIES, ("buffer.data.copy_(old)", "pass")),
    ),
    Wrong(
        "adds to what .grad held",
        violates="when it was `None` before",
        check=FIRST,
        mistake="old-grad",
        source=changed(
            COPIES, ("p.grad = None\n", "pass\n"), ("(p, p.grad)", "(p, p.grad if p.grad is None else p.grad.clone())")
        ),
    ),
    Wrong(
        "adds to a copy of what .grad held",
        violates="when it was `None` before",
        check=FIRST,
        mistake="old-grad",
        source=changed(SWAP, ("leaf.grad = None\n", "leaf.grad = None if leaf.grad is None else leaf.grad.clone()\n")),
    ),
    Wrong(
        "leaves .grad of the parameters",
        violates="and `.grad` of each parameter and of `x`, are as they were",
        check=NOTHING,
        source=changed(COPIES, ("p.grad = grad", "pass")),
    ),
    Wrong(
        "leaves .grad of x",
        violates="and `.grad` of each parameter and of `x`, are as they were",
        check=NOTHING,
        source=changed(COPIES, ("x.detach()", "x")),
    ),
    Wrong(
        "switches to eval mode",
        violates="the buffers and modes that you find",
        check=FIRST,
        source=changed(
            COPIES,
            (
                "    result = []\n",
                "    result, modes = [], [(m, m.training) for m in model.modules()]\n    model.eval()\n",
            ),
            ("    finally:\n", "    finally:\n        for m, mode in modes:\n            m.training = mode\n"),
            ("clean = copy.deepcopy(model)", "clean = copy.deepcopy(model).eval()"),
        ),
    ),
    Wrong(
        "runs back without looking whether it is possible",
        violates="If the loss does not require grad, there is no backward pass.",
        check="raised",
        source=changed(SWAP, ("if loss.requires_grad:", "if True:")),
    ),
    Wrong(
        "names what has a hook",
        violates="the names of the parameters whose gradient would be another one",
        check=FIRST,
        source="""
def changed_by_hooks(model, loss_fn, x):
    names = []
    for name, p in model.named_parameters():
        owner = model.get_submodule(name.rpartition(".")[0])
        if p._backward_hooks or p._post_accumulate_grad_hooks or owner._forward_hooks or owner._backward_hooks:
            names.append(name)
    return names
""",
    ),
    Wrong(
        "every name of a shared parameter",
        violates="in the order of `model.named_parameters()`",
        check=FIRST,
        source=changed(
            SWAP,
            (
                "for name, p in model.named_parameters()}",
                "for name, p in model.named_parameters(remove_duplicate=False)}",
            ),
        ),
    ),
    Wrong(
        "sorts the names",
        violates="in the order of `model.named_parameters()`",
        check=FIRST,
        source=changed(COPIES, ("    return result", "    return sorted(result)")),
    ),
    Wrong(
        "a set of names",
        violates="Return a list",
        check=FIRST,
        source=changed(COPIES, ("    return result", "    return set(result)")),
    ),
    Wrong(
        "takes all hooks away for good",
        violates="Each hook is there again",
        check=NOTHING,
        source=changed(SWAP, ("            hooks.update(entries)\n", "")),
    ),
    Wrong(
        "puts the hooks back in the reverse order",
        violates="in its place",
        check=NOTHING,
        source=changed(SWAP, ("hooks.update(entries)", "hooks.update(reversed(entries))")),
    ),
    Wrong(
        "puts the hooks of modules into new dicts",
        violates="and its handle removes it",
        check=NOTHING,
        source=changed(
            SWAP,
            (
                "            hooks.update(entries)\n",
                "            hooks.update(entries)\n        for owner, kind, hooks in dicts:\n"
                "            if isinstance(owner, torch.nn.Module):\n"
                "                setattr(owner, kind, OrderedDict(hooks))\n",
            ),
        ),
    ),
    Wrong(
        "puts the hooks of parameters into new dicts",
        violates="and its handle removes it",
        check=ACTS,
        source=changed(
            SWAP,
            (
                "            hooks.update(entries)\n",
                "            hooks.update(entries)\n        for owner, kind, hooks in dicts:\n"
                "            if hooks is not None and isinstance(owner, torch.Tensor):\n"
                "                setattr(owner, kind, OrderedDict(hooks))\n",
            ),
        ),
    ),
    Wrong(
        "clears the options, too",
        violates="with its options",
        check="raised",
        source=changed(
            SWAP,
            (
                "            hooks.update(entries)\n",
                "            hooks.update(entries)\n        for module in model.modules():\n"
                "            module._forward_hooks_with_kwargs.clear()\n"
                "            module._forward_hooks_always_called.clear()\n"
                "            module._forward_pre_hooks_with_kwargs.clear()\n",
            ),
        ),
    ),
    Wrong(
        "puts the hooks back only when all went well",
        violates="rule 4: Rules 2 and 3 hold then, too.",
        check=FAILING,
        source=changed(
            SWAP,
            (
                "        yield\n    finally:\n        for hooks, entries in saved:\n"
                "            hooks.clear()\n            hooks.update(entries)\n",
                "        yield\n        for hooks, entries in saved:\n"
                "            hooks.clear()\n            hooks.update(entries)\n    finally:\n        pass\n",
            ),
        ),
    ),
    Wrong(
        "puts .grad back only when all went well",
        violates="rule 4: Rules 2 and 3 hold then, too.",
        check=FAILING,
        source=changed(
            COPIES,
            ("        for p, grad in kept:\n            p.grad = grad\n", ""),
            ("    return result", "    for p, grad in kept:\n        p.grad = grad\n    return result"),
        ),
    ),
    Wrong(
        "puts buffers back only when all went well",
        violates="rule 4: Rules 2 and 3 hold then, too.",
        check=FAILING,
        source=changed(
            COPIES,
            ("        for buffer, old in buffers.items():\n            buffer.data.copy_(old)\n", ""),
            (
                "    return result",
                "    for buffer, old in buffers.items():\n        buffer.data.copy_(old)\n    return result",
            ),
        ),
    ),
    Wrong(
        "swallows what a pass raises",
        violates="rule 4: Errors come through.",
        check=FAILING,
        mistake="swallowed-exception",
        source=changed(COPIES, ("    finally:\n", "    except BaseException:\n        pass\n    finally:\n")),
    ),
    Wrong(
        "takes the hooks off a model once and for all calls",
        violates="rule 1: It works however often it is called",
        check="test_a_second_call_says_the_same",
        source=changed(
            COPIES,
            (
                "    result = []\n",
                "    result = vars(changed_by_hooks).setdefault('result', [])\n    if result:\n        return []\n",
            ),
        ),
    ),
    Wrong(
        "silences hooks that are registered in a pass, in both",
        violates="What such a hook registers on an output is part of its effect",
        check=FIRST,
        source=changed(
            SWAP,
            ("import torch\n", "import torch\nfrom unittest.mock import patch\n"),
            ("loss = loss_fn(model(x))", SILENT_PASS),
        ),
    ),
    Wrong(
        "silences hooks that are registered in the pass without hooks",
        violates="what `forward` itself registers is not",
        check=FIRST,
        source=changed(
            SWAP,
            ("import torch\n", "import torch\nfrom unittest.mock import patch\n"),
            (
                "    with without_hooks(model):",
                "    with without_hooks(model), patch.object(torch.Tensor, 'register_hook'):",
            ),
        ),
    ),
]

GIVENS = [
    "Write `changed_by_hooks(model, loss_fn, x)`.",
    "The model draws no random numbers and leaves `x` alone, `copy.deepcopy` can copy it, and `loss_fn` uses nothing "
    "of it but the output.",
    "`x` is a leaf.",
    "No parameter is empty, no gradient NaN.",
]

SURVIVORS = {
    "not for all: for module, mode in _part(modes, step=-1)": "the other order",
    "not for all: modes = [(module, module.training) for module in _part(model.modules(), step=-1)]": "the other order",
    "truth for None: if loss.grad_fn": "a node of the graph is true, and `None` is not",
    "truth for None: saved": "an empty dict has no hook to put back",
    "a list for a tuple: saved": "only gone through",
    "lost statement: without hooks.clear()": "they are empty already",
    "lost copy: lent": "nobody writes into the values",
    "clean-up": "a generator that is thrown away does its `finally`, too",
    **dict.fromkeys(
        (
            "not for all: owners = [(module, kind) for module in _part(model.modules(), step=-1)",
            "not for all: owners = [(module, kind) for module in model.modules() for kind in _part(OF_MODULES",
            "not for all: owners += [(p, kind) for p in model.parameters() for kind in _part(OF_PARAMETERS, step=-1)",
            "not for all: dicts = [(owner, kind, getattr(owner, kind)) for owner, kind in _part(owners, step=-1)",
            "not for all: saved = [(hooks, list(hooks.items())) for _, _, hooks in _part(dicts, step=-1)",
            "not for all: for hooks, entries in _part(saved, step=-1)",
            "not for all: for hooks, _ in _part(saved, step=-1)",
            "not for all: for owner, kind, hooks in _part(dicts, step=-1)",
            "not for all: for n, p in _part(own.items(), step=-1)",
            "not for all: for module in _part(clean.modules(), step=-1)",
            "not for all: for module in _part(model.modules(), step=-1)",
            "not for all: for kind in _part(KINDS, step=-1)",
            "not for all: for net in _part((clean, model), step=-1)",
            "not for all: for name in _part(('_forward_pre_hooks', '_forward_hooks', '_backward_pre_hooks', "
            "'_backward_hooks'), step=-1)",
            "not for all: old = {n: p.grad for n, p in _part(own.items(), step=-1)",
            "not for all: new = {n: p.grad for n, p in _part(own.items(), step=-1)",
            "not for all: lent = {n: p.detach().clone().requires_grad_(p.requires_grad) for n, p in _part(own.items(), "
            "step=-1)",
            "not for all: return {n: b.clone() for n, b in _part(model.named_buffers(), step=-1)",
        ),
        "the other order",
    ),
}
