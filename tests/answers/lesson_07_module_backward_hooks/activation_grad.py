"""Answers to 07-activation-grad."""

RIGHT = [
    """
def activation_grad(model, name, x, loss_fn, pick=lambda out: out):
    grads = []
    def hook(module, args, output):
        pick(output).register_hook(lambda grad: grads.append(grad.detach().clone()))
    with model.get_submodule(name).register_forward_hook(hook):
        loss = loss_fn(model(x))
    loss.backward()
    return grads[0]
""",
    """
import torch

def activation_grad(model, name, x, loss_fn, pick=lambda out: out):
    edges = []
    handle = model.get_submodule(name).register_forward_hook(
        lambda m, a, out: edges.append(torch.autograd.graph.get_gradient_edge(pick(out))))
    try:
        loss = loss_fn(model(x))
    finally:
        handle.remove()
    return torch.autograd.grad(loss, edges)[0].clone()
""",
    """
class Catcher:
    def __init__(self, pick):
        self.pick = pick
        self.grad = None
    def forward(self, module, args, output):
        self.handle = self.pick(output).register_hook(self.backward)
    def backward(self, grad):
        self.grad = grad.clone().detach()

def activation_grad(model, name, x, loss_fn, pick=lambda out: out):
    catcher = Catcher(pick)
    module = dict(model.named_modules())[name]
    handle = module.register_forward_hook(catcher.forward)
    try:
        out = model(x)
        loss_fn(out).backward()
    finally:
        handle.remove()
    return catcher.grad
""",
    """
import torch

def activation_grad(model, name, x, loss_fn, pick=lambda out: out):
    kept = {}
    def hook(module, args, output):
        def at_node(grad_outputs):
            kept["grad"] = grad_outputs[0].detach().clone()
        pick(output).grad_fn.register_prehook(at_node)
    handle = model.get_submodule(name).register_forward_hook(hook)
    try:
        loss_fn(model(x)).backward()
    finally:
        handle.remove()
    return kept["grad"]
""",
    """
def activation_grad(model, name, x, loss_fn, pick=lambda out: out):
    module, store = model.get_submodule(name), {}
    original = module.forward
    def forward(*args, **kwargs):
        out = original(*args, **kwargs)
        pick(out).register_hook(lambda g: store.update(g=g.clone()))
        return out
    module.forward = forward
    try:
        loss_fn(model(x)).backward()
    finally:
        del module.forward
    return store["g"]
""",
    """
import copy
def activation_grad(model, name, x, loss_fn, pick=lambda out: out):
    twin, got = copy.deepcopy(model), []
    def f(m, a, out): pick(out).register_hook(lambda g: got.append(g.clone()))
    twin.get_submodule(name).register_forward_hook(f)
    loss_fn(twin(x)).backward()
    return got[0]
""",
    """
import torch
def activation_grad(model, name, x, loss_fn, pick=lambda out: out):
    kept = []
    def f(m, a, out):
        t = pick(out)
        kept.append(t)
        if out is t: return t.clone()
    h = model.get_submodule(name).register_forward_hook(f)
    try: loss = loss_fn(model(x))
    finally: h.remove()
    return torch.autograd.grad(loss, kept[0])[0].clone()
""",
    """
import torch

def activation_grad(model, name, x, loss_fn, pick=lambda out: out):

    from torch.autograd.graph import get_gradient_edge

    edges = []
    with model.get_submodule(name).register_forward_hook(
        lambda m, a, o: edges.append(get_gradient_edge(pick(o)))
    ):
        loss = loss_fn(model(x))
    return torch.autograd.grad(loss, edges)[0].clone()
""",
    """
def activation_grad(model, name, x, loss_fn, pick=lambda out: out):

    got = []
    handles = []

    def fwd(m, a, k, o):
        t = pick(o)
        index = t.output_nr
        handles.append(t.grad_fn.register_prehook(lambda gs: got.append(gs[index].clone())))

    handles.append(model.get_submodule(name).register_forward_hook(fwd, with_kwargs=True))
    try:
        loss_fn(model(x)).backward()
    finally:
        for h in handles:
            h.remove()
    return got[0]
""",
]

WRONG = {
    "full-hook-and-in-place": """
def activation_grad(model, name, x, loss_fn, pick=lambda out: out):
    grads = []
    module = model.get_submodule(name)
    with module.register_full_backward_hook(lambda m, gi, go: grads.append(go[0].detach().clone())):
        loss_fn(model(x)).backward()
    return grads[0]
""",
    "retain-grad-follows-in-place": """
def activation_grad(model, name, x, loss_fn, pick=lambda out: out):
    kept = []
    def hook(module, args, output):
        t = pick(output)
        t.retain_grad()
        kept.append(t)
    with model.get_submodule(name).register_forward_hook(hook):
        loss_fn(model(x)).backward()
    return kept[0].grad
""",
    "values-not-gradients": """
def activation_grad(model, name, x, loss_fn, pick=lambda out: out):
    kept = []
    def hook(module, args, output):
        kept.append(pick(output).detach().clone())
    with model.get_submodule(name).register_forward_hook(hook):
        loss_fn(model(x)).backward()
    return kept[0]
""",
    "stored-alias": """
def activation_grad(model, name, x, loss_fn, pick=lambda out: out):
    grads = []
    def hook(module, args, output):
        pick(output).register_hook(grads.append)
    with model.get_submodule(name).register_forward_hook(hook):
        loss_fn(model(x)).backward()
    return grads[0]
""",
    "hook-left-behind": """
def activation_grad(model, name, x, loss_fn, pick=lambda out: out):
    grads = []
    def hook(module, args, output):
        pick(output).register_hook(lambda grad: grads.append(grad.detach().clone()))
    model.get_submodule(name).register_forward_hook(hook)
    loss_fn(model(x)).backward()
    return grads[0]
""",
    "hook-left-after-exception": """
def activation_grad(model, name, x, loss_fn, pick=lambda out: out):
    grads = []
    def hook(module, args, output):
        pick(output).register_hook(lambda grad: grads.append(grad.detach().clone()))
    handle = model.get_submodule(name).register_forward_hook(hook)
    loss_fn(model(x)).backward()
    handle.remove()
    return grads[0]
""",
    "ignored-pick": """
def activation_grad(model, name, x, loss_fn, pick=lambda out: out):
    grads = []
    def hook(module, args, output):
        output.register_hook(lambda grad: grads.append(grad.detach().clone()))
    with model.get_submodule(name).register_forward_hook(hook):
        loss_fn(model(x)).backward()
    return grads[0]
""",
}

ALSO_WRONG = [
    "def activation_grad(model, name, x, loss_fn, pick=lambda out: out):\n    return None",
    """
def activation_grad(model, name, x, loss_fn, pick=lambda out: out):
    kept = []
    def hook(module, args, output):
        copy = pick(output).clone()
        copy.retain_grad()
        kept.append(copy)
    with model.get_submodule(name).register_forward_hook(hook):
        loss_fn(model(x)).backward()
    return kept[0].grad
""",
    """
import torch
def activation_grad(model, name, x, loss_fn, pick=lambda out: out):
    kept = []
    with model.get_submodule(name).register_forward_hook(lambda m, a, o: kept.append(pick(o))):
        loss = loss_fn(model(x))
    return torch.autograd.grad(loss, kept)[0]
""",
    """
def activation_grad(model, name, x, loss_fn, pick=lambda out: out):
    grads = []
    def hook(module, args, output):
        pick(output).register_hook(lambda grad: grads.append(grad.detach().clone()))
    with model.get_submodule(name).register_forward_hook(hook):
        loss = loss_fn(model(x))
    loss.backward(retain_graph=True)
    loss.backward()
    return grads[0]
""",
    """
def activation_grad(model, name, x, loss_fn, pick=lambda out: out):
    for module in model.modules():
        if hasattr(module, "inplace"):
            module.inplace = False
    grads = []
    with model.get_submodule(name).register_full_backward_hook(lambda m, gi, go: grads.append(go[0].clone())):
        loss_fn(model(x)).backward()
    return grads[0]
""",
    """
def activation_grad(model, name, x, loss_fn, pick=lambda out: out):
    grads = []
    def hook(module, args, output):
        pick(output).register_hook(lambda grad: grads.append(grad.detach().clone()))
    with model.get_submodule(name).register_forward_hook(hook):
        loss = loss_fn(model(x))
    loss.backward()
    model.zero_grad()
    return grads[0]
""",
    """
def activation_grad(model, name, x, loss_fn, pick=lambda out: out):
    got, extra = [], []
    model.eval()
    def hook(m, a, out):
        pick(out).register_hook(lambda g: got.append(g.clone()))
    h = model.get_submodule(name).register_forward_hook(hook)
    try:
        loss_fn(model(x)).backward()
    finally:
        h.remove()
    model.train(); return got[-1]
""",
    """
def activation_grad(model, name, x, loss_fn, pick=lambda out: out):
    got, extra = [], []
    [setattr(m, 'inplace', False) for m in model.modules() if hasattr(m, 'inplace')]
    def hook(m, a, out):
        pick(out).register_hook(lambda g: got.append(g.clone()))
    h = model.get_submodule(name).register_forward_hook(hook)
    try:
        loss_fn(model(x)).backward()
    finally:
        h.remove()
    return got[-1]
""",
    """
def activation_grad(model, name, x, loss_fn, pick=lambda out: out):
    got, extra = [], []
    x.requires_grad_()
    def hook(m, a, out):
        pick(out).register_hook(lambda g: got.append(g.clone()))
    h = model.get_submodule(name).register_forward_hook(hook)
    try:
        loss_fn(model(x)).backward()
    finally:
        h.remove()
    return got[-1]
""",
    """
def activation_grad(model, name, x, loss_fn, pick=lambda out: out):
    got, extra = [], []

    def hook(m, a, out):
        t = pick(out); t.register_hook(lambda g: got.append(g * (t > 0)))
    h = model.get_submodule(name).register_forward_hook(hook)
    try:
        loss_fn(model(x)).backward()
    finally:
        h.remove()
    return got[-1]
""",
    """
import torch
def activation_grad(model, name, x, loss_fn, pick=lambda out: out):
    got, extra = [], []

    def hook(m, a, out):
        got.append(pick(out).detach().requires_grad_())
        if torch.is_tensor(out):
            return got[-1].clone()
        return {k: (got[-1] if v is pick(out) else v) for k, v in out.items()}
    h = model.get_submodule(name).register_forward_hook(hook)
    try:
        loss_fn(model(x)).backward()
    finally:
        h.remove()
    return got[-1].grad.clone()
""",
    """
import torch
def activation_grad(model, name, x, loss_fn, pick=lambda out: out):
    got, extra = [], []

    def hook(m, a, out):
        t = out if torch.is_tensor(out) else next(iter(out.values())); t.register_hook(lambda g: got.append(g.clone()))
    h = model.get_submodule(name).register_forward_hook(hook)
    try:
        loss_fn(model(x)).backward()
    finally:
        h.remove()
    return got[-1]
""",
    """
def activation_grad(model, name, x, loss_fn, pick=lambda out: out):

    got = []

    def fwd(m, a, o):
        pick(o).register_hook(lambda g: got.append(g.clone()))

    h = model.get_submodule(name).register_forward_hook(fwd)
    out = model(x)
    h.remove()
    loss_fn(out).backward()
    return got[0]
""",
    """
_got = {}

def activation_grad(model, name, x, loss_fn, pick=lambda out: out):

    def fwd(m, a, o):
        pick(o).register_hook(lambda g: _got.setdefault(name, g.clone()) is None and None or None)

    with model.get_submodule(name).register_forward_hook(fwd):
        loss_fn(model(x)).backward()
    return _got[name]
""",
]
