"""Answers to 07-gradient-flow."""

RIGHT = [
    """
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
""",
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
        if len(module._parameters) > 0:
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

WRONG = {
    "signed-mean": """
def gradient_flow(model, loss_fn, x):
    flow, handles = {}, []
    try:
        for name, module in model.named_modules():
            if list(module.parameters(recurse=False)):
                def hook(module, grad_output, name=name):
                    flow[name] = grad_output[0].mean().item()
                handles.append(module.register_full_backward_pre_hook(hook))
        loss_fn(model(x)).backward()
    finally:
        for handle in handles:
            handle.remove()
    return flow
""",
    "parameter-grads": """
def gradient_flow(model, loss_fn, x):
    loss_fn(model(x)).backward()
    flow = {}
    for name, module in reversed(list(model.named_modules())):
        if list(module.parameters(recurse=False)):
            flow[name] = module.weight.grad.abs().mean().item()
    return flow
""",
    "forward-order": """
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
    "definition-order": """
def gradient_flow(model, loss_fn, x):
    flow, handles = {}, []
    try:
        for name, module in model.named_modules():
            if list(module.parameters(recurse=False)):
                flow[name] = None
                def hook(module, grad_output, name=name):
                    flow[name] = grad_output[0].abs().mean().item()
                handles.append(module.register_full_backward_pre_hook(hook))
        loss_fn(model(x)).backward()
    finally:
        for handle in handles:
            handle.remove()
    return flow
""",
    "grad-input-not-output": """
def gradient_flow(model, loss_fn, x):
    flow, handles = {}, []
    try:
        for name, module in model.named_modules():
            if list(module.parameters(recurse=False)):
                def hook(module, grad_input, grad_output, name=name):
                    flow[name] = grad_input[0].abs().mean().item()
                handles.append(module.register_full_backward_hook(hook))
        loss_fn(model(x)).backward()
    finally:
        for handle in handles:
            handle.remove()
    return flow
""",
    "containers-included": """
def gradient_flow(model, loss_fn, x):
    flow, handles = {}, []
    try:
        for name, module in model.named_modules():
            if list(module.parameters()):
                def hook(module, grad_output, name=name):
                    flow[name] = grad_output[0].abs().mean().item()
                handles.append(module.register_full_backward_pre_hook(hook))
        loss_fn(model(x)).backward()
    finally:
        for handle in handles:
            handle.remove()
    return flow
""",
    "leaves-only": """
def gradient_flow(model, loss_fn, x):
    flow, handles = {}, []
    try:
        for name, module in model.named_modules():
            if list(module.parameters()) and not list(module.children()):
                def hook(module, grad_output, name=name):
                    flow[name] = grad_output[0].abs().mean().item()
                handles.append(module.register_full_backward_pre_hook(hook))
        loss_fn(model(x)).backward()
    finally:
        for handle in handles:
            handle.remove()
    return flow
""",
    "late-binding": """
def gradient_flow(model, loss_fn, x):
    flow, handles = {}, []
    try:
        for name, module in model.named_modules():
            if list(module.parameters(recurse=False)):
                def hook(module, grad_output):
                    flow[name] = grad_output[0].abs().mean().item()
                handles.append(module.register_full_backward_pre_hook(hook))
        loss_fn(model(x)).backward()
    finally:
        for handle in handles:
            handle.remove()
    return flow
""",
    "hook-left-behind": """
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
    "hook-left-after-exception": """
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
}

ALSO_WRONG = [
    "def gradient_flow(model, loss_fn, x):\n    return {}",
    """
def gradient_flow(model, loss_fn, x):
    loss_fn(model(x)).backward()
    return {name: 0.0 for name, m in model.named_modules() if list(m.parameters(recurse=False))}
""",
    """
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
    """
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
    """
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
    """
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
    """
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
    """
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
    """
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
    """
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
    """
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
    """
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
    """
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
    """
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
]
