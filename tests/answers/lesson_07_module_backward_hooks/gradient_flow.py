"""Answers to 07-gradient-flow."""

from graders.author.answers import Wrong, changed

TAUGHT = """
def gradient_flow(model, loss_fn, x):
    flow, handles = {}, []
    try:
        for name, module in model.named_modules():
            if list(module.parameters(recurse=False)):
                def hook(module, grad_output, name=name):
                    flow[name] = grad_output[0].abs().mean().item()
                handles.append(module.register_full_backward_pre_hook(hook))
        loss_fn(model(x)).backward()
    finally:
        for handle in handles:
            handle.remove()
    return flow
"""

RIGHT = [
    TAUGHT,
    """
from contextlib import ExitStack
from functools import partial

def gradient_flow(model, loss_fn, x):
    flow = {}
    def note(name, grad):
        flow[name] = float(grad.abs().mean())
    def watch(name, module, args, output):
        output.register_hook(partial(note, name))
    with ExitStack() as stack:
        for name, module in model.named_modules():
            if next(module.parameters(recurse=False), None) is not None:
                stack.enter_context(module.register_forward_hook(partial(watch, name)))
        loss = loss_fn(model(x))
    loss.backward()
    return flow
""",
    """
def gradient_flow(model, loss_fn, x):
    outputs = {}
    handles = []
    def keep(name):
        def hook(module, args, output):
            output.retain_grad()
            outputs[name] = output
        return hook
    for name, module in model.named_modules():
        if any(True for _ in module.parameters(recurse=False)):
            handles.append(module.register_forward_hook(keep(name)))
    try:
        loss = loss_fn(model(x))
    finally:
        [h.remove() for h in handles]
    loss.backward()
    return {name: out.grad.abs().mean().item() for name, out in reversed(outputs.items())}
""",
    """
import torch

def gradient_flow(model, loss_fn, x):
    names = {m: n for n, m in model.named_modules() if list(m.parameters(recurse=False))}
    found = {}
    def hook(module, grad_output):
        if module in names:
            found[names[module]] = grad_output[0].detach().abs().mean().item()
    with torch.nn.modules.module.register_module_full_backward_pre_hook(hook):
        out = model(x)
        loss_fn(out).backward()
    return found
""",
    """
def gradient_flow(model, loss_fn, x):
    flow, handles = {}, []
    try:
        for name, module in model.named_modules():
            if list(module.parameters(recurse=False)):
                def hook(module, grad_input, grad_output, name=name):
                    flow[name] = grad_output[0].abs().mean().item()
                handles.append(module.register_full_backward_hook(hook))
        loss_fn(model(x)).backward()
    finally:
        for handle in handles:
            handle.remove()
    return flow
""",
    """
from contextlib import ExitStack

def gradient_flow(model, loss_fn, x):
    flow = {}
    def note(name, grad):
        flow[name] = grad.abs().mean().item()
    with ExitStack() as stack:
        for i, (name, m) in enumerate(model.named_modules()):
            if list(m.parameters(recurse=False)):
                if i % 2:
                    h = m.register_full_backward_hook(lambda m, gi, go, name=name: note(name, go[0]))
                else:
                    h = m.register_full_backward_pre_hook(lambda m, go, name=name: note(name, go[0]))
                stack.enter_context(h)
        loss_fn(model(x)).backward()
    return flow
""",
    """
from contextlib import ExitStack

def gradient_flow(model, loss_fn, x):

    outs = {}
    with ExitStack() as s:
        for n, m in model.named_modules():
            if list(m.parameters(recurse=False)):

                def hook(mod, a, o, n=n):
                    o.retain_grad()
                    outs[n] = o

                s.enter_context(m.register_forward_hook(hook))
        loss_fn(model(x)).backward()
    return {n: float(outs[n].grad.abs().mean()) for n in reversed(outs)}
""",
    """
from torch.nn.modules.module import register_module_full_backward_pre_hook

def gradient_flow(model, loss_fn, x):

    names = {m: n for n, m in model.named_modules() if any(True for _ in m.parameters(recurse=False))}
    result = {}

    def hook(m, go):
        if m in names:
            result[names[m]] = go[0].norm(p=1).item() / go[0].numel()

    with register_module_full_backward_pre_hook(hook):
        loss_fn(model(x)).backward()
    return result
""",
]

WRONG = [
    Wrong(
        "parameters by name, where a second module that holds one has none",
        violates="one entry for each module of `model.named_modules()` that has parameters of its own",
        check="test_each_call_and_each_model_is_measured_anew",
        source=changed(
            TAUGHT,
            ("    try:", "    owners = {name.rpartition('.')[0] for name, _ in model.named_parameters()}\n    try:"),
            ("if list(module.parameters(recurse=False)):", "if name in owners:"),
        ),
    ),
    Wrong(
        "the largest of each column, in three dimensions",
        violates="over all elements of the module's output",
        check="test_each_call_and_each_model_is_measured_anew",
        source=changed(
            TAUGHT,
            (
                "grad_output[0].abs().mean()",
                "(grad_output[0].abs().amax(1) if grad_output[0].dim() == 3 else grad_output[0].abs()).mean()",
            ),
        ),
    ),
    Wrong(
        "no layers that keep statistics",
        violates="one entry for each module of `model.named_modules()` that has parameters of its own",
        check="test_each_call_and_each_model_is_measured_anew",
        source=changed(
            TAUGHT,
            ("if list(module", "if not hasattr(module, 'running_mean') and list(module"),
        ),
    ),
    Wrong(
        "one dict for all calls, copied in the end",
        violates="rule 1: also when one call runs inside another",
        check="test_a_call_inside_a_call_changes_nothing",
        source="""
means = {}

def gradient_flow(model, loss_fn, x):
    means.clear()
    handles = []
    def watch(name):
        return lambda module, grads: means.update({name: grads[0].abs().mean().item()})
    for name, module in model.named_modules():
        if list(module.parameters(recurse=False)):
            handles.append(module.register_full_backward_pre_hook(watch(name)))
    try:
        loss_fn(model(x)).backward()
    finally:
        for handle in handles:
            handle.remove()
    return dict(means)
""",
    ),
    Wrong(
        "the mean with its sign",
        violates="the mean of |d loss / d output| over all elements of the module's output",
        check="test_every_layer_has_its_mean_gradient",
        mistake="signed-mean",
        source=changed(TAUGHT, ("grad_output[0].abs().mean(", "grad_output[0].mean(")),
    ),
    Wrong(
        "the gradients of the parameters",
        violates="the mean of |d loss / d output| over all elements of the module's output",
        check="test_every_layer_has_its_mean_gradient",
        mistake="parameter-grads",
        source="""
def gradient_flow(model, loss_fn, x):
    loss_fn(model(x)).backward()
    flow = {}
    for name, module in reversed(list(model.named_modules())):
        own = [p for p in module.parameters(recurse=False)]
        if own:
            flow[name] = 0.0 if own[0].grad is None else own[0].grad.abs().mean().item()
    return flow
""",
    ),
    Wrong(
        "the gradients of the weights, of frozen ones, too",
        violates="that has parameters of its own, frozen ones, too",
        check="raised",
        mistake="nothing-there",
        source="""
def gradient_flow(model, loss_fn, x):
    loss_fn(model(x)).backward()
    flow = {}
    for name, module in reversed(list(model.named_modules())):
        for p in list(module.parameters(recurse=False))[:1]:
            flow[name] = p.grad.abs().mean().item()
    return flow
""",
    ),
    Wrong(
        "the order of the forward pass",
        violates="The keys are in the order of the backward pass: the module that is called last comes first.",
        check="test_the_keys_are_in_backward_order",
        mistake="forward-order",
        source="""
def gradient_flow(model, loss_fn, x):
    outputs, handles = {}, []
    for name, module in model.named_modules():
        if list(module.parameters(recurse=False)):
            def hook(module, args, output, name=name):
                output.retain_grad()
                outputs[name] = output
            handles.append(module.register_forward_hook(hook))
    try:
        loss_fn(model(x)).backward()
    finally:
        for handle in handles:
            handle.remove()
    return {name: out.grad.abs().mean().item() for name, out in outputs.items()}
""",
    ),
    Wrong(
        "the order of definition",
        violates="The keys are in the order of the backward pass: the module that is called last comes first.",
        check="test_the_keys_are_in_backward_order",
        mistake="definition-order",
        source=changed(
            TAUGHT,
            (
                "                def hook(module, grad_output, name=name):\n",
                "                flow[name] = None\n                def hook(module, grad_output, name=name):\n",
            ),
        ),
    ),
    Wrong(
        "the gradient of the input, or 0",
        violates="the mean of |d loss / d output| over all elements of the module's output",
        check="test_every_layer_has_its_mean_gradient",
        mistake="grad-input-not-output",
        source=changed(
            RIGHT[4],
            (
                "                    flow[name] = grad_output[0].abs().mean().item()\n",
                (
                    "                    there = grad_input and grad_input[0] is not None\n"
                    "                    flow[name] = grad_input[0].abs().mean().item() if there else 0.0\n"
                ),
            ),
        ),
    ),
    Wrong(
        "the gradient of the input",
        violates="the mean of |d loss / d output| over all elements of the module's output",
        check="raised",
        mistake="nothing-there",
        source=changed(RIGHT[4], ("grad_output[0].abs(", "grad_input[0].abs(")),
    ),
    Wrong(
        "containers as well",
        violates="so a plain `Sequential` has none",
        check="test_every_layer_has_its_mean_gradient",
        mistake="containers-included",
        source=changed(TAUGHT, ("recurse=False", "")),
    ),
    Wrong(
        "modules without children alone",
        violates="one entry for each module of `model.named_modules()` that has parameters of its own",
        check="test_every_layer_has_its_mean_gradient",
        mistake="leaves-only",
        source=changed(TAUGHT, ("recurse=False", ")) and not list(module.children(")),
    ),
    Wrong(
        "the name of the loop",
        violates="The key is the module's name",
        check="test_every_layer_has_its_mean_gradient",
        mistake="late-binding",
        source=changed(TAUGHT, ("grad_output, name=name", "grad_output")),
    ),
    Wrong(
        "never removes",
        violates="rule 3: none of your own hooks is left",
        check="test_nothing_else_changes",
        mistake="hook-left",
        source="""
def gradient_flow(model, loss_fn, x):
    flow = {}
    for name, module in model.named_modules():
        if list(module.parameters(recurse=False)):
            def hook(module, grad_output, name=name):
                flow[name] = grad_output[0].abs().mean().item()
            module.register_full_backward_pre_hook(hook)
    loss_fn(model(x)).backward()
    return flow
""",
    ),
    Wrong(
        "removes nothing after an exception",
        violates="rule 4: Rules 2 and 3 hold then, too",
        check="test_an_exception_comes_through_and_nothing_is_left",
        mistake="hook-left",
        source="""
def gradient_flow(model, loss_fn, x):
    flow, handles = {}, []
    for name, module in model.named_modules():
        if list(module.parameters(recurse=False)):
            def hook(module, grad_output, name=name):
                flow[name] = grad_output[0].abs().mean().item()
            handles.append(module.register_full_backward_pre_hook(hook))
    loss_fn(model(x)).backward()
    for handle in handles:
        handle.remove()
    return flow
""",
    ),
    Wrong(
        "an empty dict",
        violates="Return a dict with one entry for each module",
        check="test_every_layer_has_its_mean_gradient",
        source="""
def gradient_flow(model, loss_fn, x):
    return {}
""",
    ),
    Wrong(
        "zeros",
        violates="the mean of |d loss / d output| over all elements of the module's output",
        check="test_every_layer_has_its_mean_gradient",
        source="""
def gradient_flow(model, loss_fn, x):
    loss_fn(model(x)).backward()
    return {name: 0.0 for name, m in model.named_modules() if list(m.parameters(recurse=False))}
""",
    ),
    Wrong(
        "the sum",
        violates="the mean of |d loss / d output| over all elements of the module's output",
        check="test_every_layer_has_its_mean_gradient",
        source="""
def gradient_flow(model, loss_fn, x):
    flow, handles = {}, []
    for name, module in model.named_modules():
        if list(module.parameters(recurse=False)):
            def hook(module, grad_output, name=name):
                flow[name] = grad_output[0].abs().sum().item()
            handles.append(module.register_full_backward_pre_hook(hook))
    try:
        loss_fn(model(x)).backward()
    finally:
        for handle in handles:
            handle.remove()
    return flow
""",
    ),
    Wrong(
        "clears .grad first",
        violates="Parameters (and `x`, if it requires grad) accumulate their `.grad` as usual.",
        check="test_one_pass_accumulates_the_gradients",
        mistake="cleared-callers-grad",
        source="""
def gradient_flow(model, loss_fn, x):
    flow, handles = {}, []
    model.zero_grad()
    for name, module in model.named_modules():
        if list(module.parameters(recurse=False)):
            def hook(module, grad_output, name=name):
                flow[name] = grad_output[0].abs().mean().item()
            handles.append(module.register_full_backward_pre_hook(hook))
    try:
        loss_fn(model(x)).backward()
    finally:
        for handle in handles:
            handle.remove()
    return flow
""",
    ),
    Wrong(
        "tensors",
        violates="The value is a Python float",
        check="test_every_layer_has_its_mean_gradient",
        mistake="another-type",
        source="""
def gradient_flow(model, loss_fn, x):
    flow, handles = {}, []
    for name, module in model.named_modules():
        if list(module.parameters(recurse=False)):
            def hook(module, grad_output, name=name):
                flow[name] = grad_output[0].abs().mean()
            handles.append(module.register_full_backward_pre_hook(hook))
    try:
        loss_fn(model(x)).backward()
    finally:
        for handle in handles:
            handle.remove()
    return flow
""",
    ),
    Wrong(
        "eval mode, and training mode afterwards",
        violates="Run `loss = loss_fn(model(x))` and `loss.backward()`, each once.",
        check="test_every_layer_has_its_mean_gradient",
        source="""
def gradient_flow(model, loss_fn, x):
    flow, handles = {}, []
    model.eval()
    for name, module in model.named_modules():
        if list(module.parameters(recurse=False)):
            def hook(module, grad_output, name=name):
                flow[name] = grad_output[0].abs().mean().item()
            handles.append(module.register_full_backward_pre_hook(hook))
    try:
        loss_fn(model(x)).backward()
    finally:
        for module in model.modules():
            module._backward_pre_hooks.clear()
            module._forward_hooks.clear()
    model.train()
    return flow
""",
    ),
    Wrong(
        "swallows exceptions",
        violates="rule 4: Errors come through",
        check="test_an_exception_comes_through_and_nothing_is_left",
        mistake="swallowed-exception",
        source="""
def gradient_flow(model, loss_fn, x):
    flow, handles = {}, []
    for name, module in model.named_modules():
        if list(module.parameters(recurse=False)):
            def hook(module, grad_output, name=name):
                flow[name] = grad_output[0].abs().mean().item()
            handles.append(module.register_full_backward_pre_hook(hook))
    try:
        loss_fn(model(x)).backward()
    except Exception:
        pass
    finally:
        for handle in handles:
            handle.remove()
    return flow
""",
    ),
    Wrong(
        "x requires grad from now on",
        violates="rule 2: Tensors keep their values, their `requires_grad`",
        check="test_nothing_else_changes",
        source="""
def gradient_flow(model, loss_fn, x):
    flow, hs = {}, []
    x.requires_grad_()
    def make(name):
        def hook(m, go): flow[name] = go[0].abs().mean().item()
        return hook
    try:
        for name, m in model.named_modules():
            if list(m.parameters(recurse=False)): hs.append(m.register_full_backward_pre_hook(make(name)))
        loss_fn(model(x)).backward()
    finally:
        for h in hs: h.remove()

    return flow
""",
    ),
    Wrong(
        "the order of definition, turned round",
        violates="The keys are in the order of the backward pass: the module that is called last comes first.",
        check="test_the_keys_are_in_backward_order",
        source="""
def gradient_flow(model, loss_fn, x):
    flow, hs = {}, []

    def make(name):
        def hook(m, go): flow[name] = go[0].abs().mean().item()
        return hook
    try:
        for name, m in model.named_modules():
            if list(m.parameters(recurse=False)): hs.append(m.register_full_backward_pre_hook(make(name)))
        loss_fn(model(x)).backward()
    finally:
        for h in hs: h.remove()

    return {n: flow[n] for n, m in reversed(list(model.named_modules())) if n in flow}
""",
    ),
    Wrong(
        "in alphabetical order",
        violates="The keys are in the order of the backward pass",
        check="test_the_keys_are_in_backward_order",
        source="""
def gradient_flow(model, loss_fn, x):
    flow, hs = {}, []

    def make(name):
        def hook(m, go): flow[name] = go[0].abs().mean().item()
        return hook
    try:
        for name, m in model.named_modules():
            if list(m.parameters(recurse=False)): hs.append(m.register_full_backward_pre_hook(make(name)))
        loss_fn(model(x)).backward()
    finally:
        for h in hs: h.remove()

    return dict(sorted(flow.items()))
""",
    ),
    Wrong(
        "trainable parameters alone",
        violates="that has parameters of its own, frozen ones, too",
        check="test_every_layer_has_its_mean_gradient",
        source="""
from contextlib import ExitStack

def gradient_flow(model, loss_fn, x):

    result = {}
    with ExitStack() as s:
        for n, m in model.named_modules():
            if any(p.requires_grad for p in m.parameters(recurse=False)):
                s.enter_context(
                    m.register_full_backward_pre_hook(
                        lambda m, go, n=n: result.__setitem__(n, go[0].abs().mean().item())
                    )
                )
        loss_fn(model(x)).backward()
    return result
""",
    ),
    Wrong(
        "without the model itself",
        violates='`""` for the model itself',
        check="test_every_layer_has_its_mean_gradient",
        source="""
from contextlib import ExitStack

def gradient_flow(model, loss_fn, x):

    result = {}
    with ExitStack() as s:
        for n, m in model.named_modules():
            if n and m._parameters:
                s.enter_context(
                    m.register_full_backward_pre_hook(
                        lambda m, go, n=n: result.__setitem__(n, go[0].abs().mean().item())
                    )
                )
        loss_fn(model(x)).backward()
    return result
""",
    ),
    Wrong(
        "modules with an attribute weight",
        violates="that has parameters of its own",
        check="test_every_layer_has_its_mean_gradient",
        source="""
from contextlib import ExitStack

def gradient_flow(model, loss_fn, x):

    result = {}
    with ExitStack() as s:
        for n, m in model.named_modules():
            if hasattr(m, "weight"):
                s.enter_context(
                    m.register_full_backward_pre_hook(
                        lambda m, go, n=n: result.__setitem__(n, go[0].abs().mean().item())
                    )
                )
        loss_fn(model(x)).backward()
    return result
""",
    ),
    Wrong(
        "removes the hooks of others",
        violates="rule 3: Hooks that were there before are there afterwards",
        check="test_nothing_else_changes",
        source="""
def gradient_flow(model, loss_fn, x):

    result = {}
    for n, m in model.named_modules():
        if m._parameters:
            m.register_full_backward_pre_hook(
                lambda m, go, n=n: result.__setitem__(n, go[0].abs().mean().item())
            )
    try:
        loss_fn(model(x)).backward()
    finally:
        for m in model.modules():
            m._backward_pre_hooks.clear()
    return result
""",
    ),
    Wrong(
        "modules with buffers, too",
        violates="that has parameters of its own",
        check="test_every_layer_has_its_mean_gradient",
        source=changed(TAUGHT, ("recurse=False", "recurse=False)) or list(module.buffers(recurse=False")),
    ),
    Wrong(
        "all in eval mode, and back",
        violates="rule 2: the mode of each part",
        check="test_every_layer_has_its_mean_gradient",
        mistake="another-mode",
        source=changed(
            TAUGHT,
            (
                "    flow, handles = {}, []\n",
                (
                    "    modes = {m: m.training for m in model.modules()}\n"
                    "    model.eval()\n"
                    "    flow, handles = {}, []\n"
                ),
            ),
            (
                "    return flow\n",
                "        for m, mode in modes.items():\n            m.training = mode\n    return flow\n",
            ),
        ),
    ),
    Wrong(
        "x requires grad for the pass",
        violates="rule 2: and their `.grad`: the same tensor",
        check="test_one_pass_accumulates_the_gradients",
        source=changed(
            TAUGHT,
            (
                "    flow, handles = {}, []\n",
                "    needed = x.requires_grad\n    x.requires_grad_()\n    flow, handles = {}, []\n",
            ),
            ("    return flow\n", "        if not needed:\n            x.requires_grad_(False)\n    return flow\n"),
        ),
    ),
    Wrong(
        "thaws the frozen part for the pass",
        violates="Parameters (and `x`, if it requires grad) accumulate their `.grad` as usual.",
        check="test_one_pass_accumulates_the_gradients",
        source=changed(
            TAUGHT,
            (
                "    flow, handles = {}, []\n",
                (
                    "    frozen = [p for p in model.parameters() if not p.requires_grad]\n"
                    "    model.requires_grad_()\n"
                    "    flow, handles = {}, []\n"
                ),
            ),
            ("    return flow\n", "        for p in frozen:\n            p.requires_grad_(False)\n    return flow\n"),
        ),
    ),
    Wrong(
        "thaws the frozen part for good",
        violates="rule 2: their `requires_grad`",
        check="test_nothing_else_changes",
        source=changed(
            TAUGHT, ("    flow, handles = {}, []\n", "    model.requires_grad_()\n    flow, handles = {}, []\n")
        ),
    ),
    Wrong(
        "two passes",
        violates="Run `loss = loss_fn(model(x))` and `loss.backward()`, each once.",
        check="test_one_pass_accumulates_the_gradients",
        source=changed(TAUGHT, ("    finally:\n", "        loss_fn(model(x)).backward()\n    finally:\n")),
    ),
    Wrong(
        "the loss is computed twice",
        violates="Run `loss = loss_fn(model(x))` and `loss.backward()`, each once.",
        check="test_one_pass_accumulates_the_gradients",
        source=changed(
            TAUGHT,
            (
                "        loss_fn(model(x)).backward()\n",
                "        out = model(x)\n        loss_fn(out.detach())\n        loss_fn(out).backward()\n",
            ),
        ),
    ),
    Wrong(
        "a graph on every .grad",
        violates="`loss.backward()`, each once",
        check="test_one_pass_accumulates_the_gradients",
        source=changed(TAUGHT, (".backward()", ".backward(create_graph=True)")),
    ),
    Wrong(
        "torch.autograd.grad",
        violates="accumulate their `.grad` as usual",
        check="test_one_pass_accumulates_the_gradients",
        mistake="no-backward",
        source="""
def gradient_flow(model, loss_fn, x):
    pass
    flow, handles = {}, []
    try:
        for name, module in model.named_modules():
            if list(module.parameters(recurse=False)):
                def hook(module, grad_output, name=name):
                    flow[name] = grad_output[0].abs().mean().item()
                handles.append(module.register_full_backward_pre_hook(hook))
        loss = loss_fn(model(x))
        import torch
        torch.autograd.grad(loss, [p for p in [x, *model.parameters()] if p.requires_grad], allow_unused=True)
    finally:
        for handle in handles:
            handle.remove()
    return flow
""",
    ),
    Wrong(
        "what left before the caller's hook",
        violates="the mean of |d loss / d output| over all elements of the module's output",
        check="test_every_layer_has_its_mean_gradient",
        source="""
def gradient_flow(model, loss_fn, x):
    outs, handles = {}, []
    try:
        for name, module in model.named_modules():
            if list(module.parameters(recurse=False)):
                def hook(module, args, output, name=name):
                    output.retain_grad()
                    outs[name] = output
                handles.append(module.register_forward_hook(hook, prepend=True))
        loss_fn(model(x)).backward()
    finally:
        for handle in handles:
            handle.remove()
    return {name: out.grad.abs().mean().item() for name, out in reversed(outs.items())}
""",
    ),
    Wrong(
        "one dict for all calls",
        violates="rule 1: It works however often it is called",
        check="test_each_call_and_each_model_is_measured_anew",
        source=changed(
            TAUGHT,
            ("\ndef gradient_flow(model, loss_fn, x):\n", "\n_flow = {}\n\ndef gradient_flow(model, loss_fn, x):\n"),
            ("    flow, handles = {}, []\n", "    flow, handles = _flow, []\n"),
        ),
    ),
    Wrong(
        "nothing where the gradient is zero",
        violates="one entry for each module of `model.named_modules()`",
        check="test_each_call_and_each_model_is_measured_anew",
        source=changed(
            TAUGHT,
            (
                "                    flow[name] = grad_output[0].abs().mean().item()\n",
                (
                    "                    if grad_output[0].any():\n"
                    "                        flow[name] = grad_output[0].abs().mean().item()\n"
                ),
            ),
        ),
    ),
    Wrong(
        "three digits",
        violates="the mean of |d loss / d output| over all elements of the module's output",
        check="test_every_layer_has_its_mean_gradient",
        source=changed(TAUGHT, ("grad_output[0].abs(", "round(grad_output[0].abs("), (".item()", ".item(), 3)")),
    ),
    Wrong(
        "the first row",
        violates="the mean of |d loss / d output| over all elements of the module's output",
        check="test_every_layer_has_its_mean_gradient",
        source=changed(TAUGHT, ("grad_output[0].abs(", "grad_output[0][0].abs(")),
    ),
    Wrong(
        "float32",
        violates="rule 1: in `float32` and in `float64`",
        check="test_every_layer_has_its_mean_gradient",
        source=changed(TAUGHT, ("grad_output[0].abs(", "grad_output[0].float().abs(")),
    ),
    Wrong(
        "counts parameters that are None",
        violates="with one entry for each module of `model.named_modules()` that has parameters of its own",
        check="test_every_layer_has_its_mean_gradient",
        source="""
def gradient_flow(model, loss_fn, x):
    flow, handles = {}, []
    try:
        for name, module in model.named_modules():
            if module._parameters:
                def hook(module, grad_output, name=name):
                    flow[name] = grad_output[0].abs().mean().item()
                handles.append(module.register_full_backward_pre_hook(hook))
        loss_fn(model(x)).backward()
    finally:
        for handle in handles:
            handle.remove()
    return flow
""",
    ),
    Wrong(
        "second names, too",
        violates="rule 7: if it has several names, the first one counts",
        check="test_every_layer_has_its_mean_gradient",
        source="""
def gradient_flow(model, loss_fn, x):
    flow, handles = {}, []
    try:
        for name, module in model.named_modules(remove_duplicate=False):
            if list(module.parameters(recurse=False)):
                def hook(module, grad_output, name=name):
                    flow[name] = grad_output[0].abs().mean().item()
                handles.append(module.register_full_backward_pre_hook(hook))
        loss_fn(model(x)).backward()
    finally:
        for handle in handles:
            handle.remove()
    return flow
""",
    ),
    Wrong(
        "leaves out nan",
        violates="the mean of\n|d loss / d output| over all elements of the module's output",
        check="test_the_example_of_the_contract",
        source=changed(TAUGHT, (".abs().mean()", ".abs().nanmean()")),
    ),
    Wrong(
        "asks for a view of the gradient",
        violates="rule 1: in any layout",
        check="raised",
        source=changed(TAUGHT, ("grad_output[0].abs()", "grad_output[0].view(-1).abs()")),
    ),
    Wrong(
        "the input retains its gradient, too",
        violates="rule 2: Tensors keep their values, their `requires_grad` and their `.grad`",
        check="test_nothing_else_changes",
        mistake="changed-what-was-given",
        source=changed(
            TAUGHT,
            (
                "        loss_fn(model(x)).backward()",
                "        x.retain_grad() if x.requires_grad else None\n        loss_fn(model(x)).backward()",
            ),
        ),
    ),
    *(
        Wrong(
            f"another number than the mean: {number}",
            violates="The value is a Python float: the mean of\n    |d loss / d output| over all elements",
            check="test_every_layer_has_its_mean_gradient",
            mistake="not-the-mean",
            source=changed(TAUGHT, ("grad_output[0].abs().mean()", number)),
        )
        for number in ("grad_output[0].norm()", "grad_output[0].abs().sum(-1).mean()", "grad_output[0].abs().max()")
    ),
]

GIVENS = [
    "Write `gradient_flow(model, loss_fn, x)`.",
    "Each of these modules is called once, and its output is one new tensor.",
    "A gradient comes to it, and to the module's input, if that requires grad.",
    "Nothing works in place.",
    "A block that has parameters of its own may come before or after the modules inside it.",
]

SURVIVORS = {
    "not for all: [h.remove() for h in _part(handles, step=-1)]": "all of them, in the reverse order",
    "not for all: for name, module in _part(model.named_modules(), step=-1)": "all of them, in the reverse order",
    "at least one dimension": "the input of a layer has one dimension at least",
    "prepend=True": "a hook of the caller in the backward pass does not change what the gradient of the output is",
    "a list for a tuple: if tuple(module": "only asked whether it is empty",
    "a list for a tuple: names = {m: n for n, m in model.named_modules() if tuple(": "only asked whether it is empty",
    "one global slot: handles": "a handle whose hook is gone removes nothing",
    "not for all: names = {m: n for n, m in _part(model.named_modules(), step=-1)": "all of them, in the reverse order",
    "not for all: for n, m in _part(model.named_modules(), step=-1)": "all of them, in the reverse order",
    "not for all: for i, (name, m) in _part(enumerate(model.named_modules()), step=-1)": "all of them, in the reverse "
    "order",
    "not for all: names = {m: n for n, m in model.named_modules() if any((True for _ in _part(": "one is enough",
    "not for all: if any((True for _ in _part(": "one is enough",
    "a list for a tuple: if tuple(m.": "only asked whether it is empty",
    "condition dropped: h = m.register_full_backward": "both kinds get the gradient of the output",
    "almost: if i % 3": "both kinds get the gradient of the output",
    "lost return: h = m.register_full_backward": "what is noted returns nothing",
}
