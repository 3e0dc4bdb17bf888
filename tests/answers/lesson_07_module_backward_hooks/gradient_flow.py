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
]

WRONG = [
    Wrong(
        "the largest of each column, in three dimensions",
        violates="the mean of |d loss / d output|",
        check="test_every_layer_has_its_mean_gradient",
        source=changed(
            TAUGHT,
            (
                "grad_output[0].abs().mean()",
                "(grad_output[0].abs().amax(1) if grad_output[0].dim() == 3 else grad_output[0].abs()).mean()",
            ),
        ),
    ),
    Wrong(
        "one dict for all calls, copied in the end",
        violates="even while another call runs",
        check="test_two_calls_at_the_same_time_do_not_disturb_each_other",
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
        "x requires grad for the pass",
        violates="`.grad` accumulates as usual",
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
        "what left before the caller's hook",
        violates="the mean of |d loss / d output|",
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
        "nothing where the gradient is zero",
        violates="for each module that has parameters of its own",
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
]

SURVIVORS = {
    "one global slot: handles": "its hooks are removed already",
}
