"""Answers to 10-grad-cam."""

from graders.author.answers import Wrong, changed

CAM = """
import torch

def grad_cam(model, layer, x, cls):
    kept = {}
    def hook(module, args, output):
        kept["A"] = STORED
    with layer.register_forward_hook(hook):
        logits = model(x)
    A = kept["A"]
    gradient, = torch.autograd.grad(TARGET, A)
    weights = WEIGHTS
    return RESULT
"""


def cam(
    target: str = "logits[:, cls].sum()",
    weights: str = "gradient.mean((2, 3), keepdim=True)",
    result: str = "(weights * A).sum(1).relu().detach()",
    stored: str = "output",
) -> str:
    """An answer to 10-grad-cam that differs from a right one in one place."""
    source = CAM.replace("TARGET", target).replace("WEIGHTS", weights)
    return source.replace("RESULT", result).replace("STORED", stored)


RIGHT = [
    cam(),
    """
import torch

def grad_cam(model, layer, x, cls):
    kept = {}
    def add_nothing(module, args, output):
        # the gradient of a zero that is added is the gradient of the output
        kept["A"], kept["zero"] = output.detach().clone(), torch.zeros_like(output).requires_grad_()
        return output + kept["zero"]
    with layer.register_forward_hook(add_nothing):
        logits = model(x.detach())
    gradient = torch.autograd.grad(logits[:, cls].sum(), kept["zero"])[0]
    return torch.einsum("bk,bkhw->bhw", gradient.mean((2, 3)), kept["A"]).clamp(min=0)
""",
    """
import contextlib
import torch
import torch.nn.functional as F

@contextlib.contextmanager
def frozen(model):
    parameters = [p for p in model.parameters() if p.requires_grad]
    try:
        for p in parameters:
            p.requires_grad_(False)
        yield
    finally:
        for p in parameters:
            p.requires_grad_(True)

def grad_cam(model, layer, x, cls):
    kept = {}
    def keep(module, args, output):
        hook = lambda grads: kept.update(grad=grads[0].clone())
        kept.update(A=output, handle=torch.autograd.graph.register_multi_grad_hook((output,), hook))
    x = x.detach().clone().requires_grad_()
    with frozen(model), layer.register_forward_hook(keep):
        torch.autograd.grad(model(x)[:, cls].sum(), x)
    kept["handle"].remove()
    return F.relu((kept["grad"].mean((2, 3), True) * kept["A"].detach()).sum(1))
""",
    """
import torch

def grad_cam(model, layer, x, cls):
    kept = {}

    def hook(module, args, output):
        kept["A"] = output.detach().clone()
        kept["handle"] = output.register_hook(lambda grad: kept.update(grad=grad.detach().clone()))

    handle = layer.register_forward_hook(hook)
    try:
        logits = model(x)
    finally:
        handle.remove()
    torch.autograd.grad(logits[:, cls].sum(), list(model.parameters()), allow_unused=True)
    kept["handle"].remove()
    alpha = kept["grad"].flatten(2).mean(2)
    return torch.einsum("bk,bkhw->bhw", alpha, kept["A"]).clamp(min=0)
""",
    """
import torch
import torch.nn.functional as F

class GradCam:
    def __init__(self, layer):
        self.handle = layer.register_forward_hook(self)
    def __call__(self, module, args, output):
        output.retain_grad()
        self.A = output

def grad_cam(model, layer, x, cls):
    grads = [(p, p.grad) for p in model.parameters()]
    for p, _ in grads:
        p.grad = None
    catch = GradCam(layer)
    try:
        model(x.detach())[:, cls].sum().backward()
    finally:
        catch.handle.remove()
        for p, old in grads:
            p.grad = old
    B, K, h, w = catch.A.shape
    alpha = F.adaptive_avg_pool2d(catch.A.grad, 1).view(B, 1, K)
    return F.relu(torch.bmm(alpha, catch.A.detach().reshape(B, K, h * w)).view(B, h, w))
""",
    """
import torch

def grad_cam(model, layer, x, cls):
    maps = []
    for image in x.detach():
        kept = []
        with layer.register_forward_hook(lambda m, a, o: kept.append(o)):
            logits = model(image[None])
        g, = torch.autograd.grad(logits[0, cls], kept[-1])
        total = 0
        for k in range(g.shape[1]):
            total = total + g[0, k].mean() * kept[-1][0, k].detach()
        maps.append(torch.maximum(total, torch.zeros(())))
    return torch.stack(maps)
""",
    """
import torch

def grad_cam(model, layer, x, cls):
    # the layer's output plus an empty tensor, with respect to which we differentiate
    kept = {}
    def hook(module, args, output):
        kept["A"] = output.detach().clone()
        kept["zero"] = torch.zeros_like(output, requires_grad=True)
        return output + kept["zero"]
    with layer.register_forward_hook(hook, prepend=True):
        logits = model(x)
        logits[:, cls].sum().backward(inputs=[kept["zero"]])
    return (kept["zero"].grad.mean(dim=[2, 3], keepdim=True) * kept["A"]).sum(dim=1).clamp_(0)
""",
    """
import copy
import torch

def grad_cam(model, layer, x, cls):
    # a full backward hook needs a layer that does not work in place; so change a copy
    names = {m: n for n, m in model.named_modules()}
    twin = copy.deepcopy(model)
    for m in twin.modules():
        if hasattr(m, "inplace"):
            m.inplace = False
    got = {}
    target = twin.get_submodule(names[layer])
    target.register_forward_hook(lambda m, a, o: got.update(A=o.detach()))
    target.register_full_backward_hook(lambda m, gi, go: got.update(g=go[0].detach()))
    twin(x.detach())[:, cls].sum().backward()
    return torch.relu((got["g"].mean((-2, -1), keepdim=True) * got["A"]).sum(1))
""",
]

FULL_HOOK = """
import torch

def grad_cam(model, layer, x, cls):
    kept = {}
    first = layer.register_forward_hook(lambda m, a, o: kept.update(A=o.detach().clone()))
    second = layer.register_full_backward_hook(lambda m, gi, go: kept.update(g=go[0].detach().clone()))
    try:
        logits = model(x)
        torch.autograd.grad(logits[:, cls].sum(), list(model.parameters()), allow_unused=True)
    finally:
        first.remove()
        second.remove()
    return (kept["g"].mean((2, 3), keepdim=True) * kept["A"]).sum(1).relu()
"""

AT_THE_INPUT = """
import torch

def grad_cam(model, layer, x, cls):
    kept = {}
    def before(module, args):
        kept["in"] = args[0]
        args[0].register_hook(lambda grad: kept.update(grad=grad))
    def after(module, args, output):
        kept["A"] = output
    with layer.register_forward_pre_hook(before), layer.register_forward_hook(after):
        logits = model(x)
    torch.autograd.grad(logits[:, cls].sum(), list(model.parameters()), allow_unused=True)
    weights = kept["grad"].mean((2, 3), keepdim=True)
    return (weights * kept["A"]).sum(1).relu().detach()
"""

BY_BACKWARD = """
def grad_cam(model, layer, x, cls):
    kept = []
    def hook(module, args, output):
        output.retain_grad()
        kept.append(output)
    with layer.register_forward_hook(hook):
        model(x.detach())[:, cls].sum().backward()
    A = kept[0]
    return (A.grad.mean((2, 3), keepdim=True) * A).sum(1).relu().detach()
"""

BY_HAND = """\
    handle = layer.register_forward_hook(hook)
    try:
        logits = model(x)
    CLEANED
"""
MODES = "    was = {m: m.training for m in model.modules()}\n    model.eval()\n"
BACK = "    for m in was:\n        m.training = was[m]\n"

VALUES = "test_the_map_is_the_weighted_sum_of_the_channels"
AGAIN = "test_another_call_and_the_example_come_out"
DRAWINGS = "test_on_drawings_it_points_at_the_shape_as_often_as_plain_autograd"
KEPT = "test_nothing_of_the_caller_is_touched_and_gradients_are_ordinary_afterwards"
FAILED = "test_an_exception_comes_through_and_leaves_nothing_behind"
LOGIT = "the derivative of the logit [b, cls] with respect to A[b, k]"
MEAN = "the mean over the h · w positions"
SUM = "the sum over the channels k of alpha[b, k] · A[b, k]"


def swap(old: str, new: str) -> str:
    """The right answer with another text in one place."""
    assert old in cam()
    return cam().replace(old, new)


def by_hand(cleaned: str) -> str:
    """The right answer with a hook that is removed as `cleaned` says."""
    return swap(
        "    with layer.register_forward_hook(hook):\n        logits = model(x)\n", BY_HAND.replace("CLEANED", cleaned)
    )


WRONG = [
    Wrong(
        "every parameter has to be used",
        violates="A depends on at least one",
        check="raised",
        source=changed(RIGHT[3], (", allow_unused=True", "")),
    ),
    Wrong(
        "the layer in eval mode",
        violates="rule 7: with each part in its mode",
        check="test_another_call_and_the_example_come_out",
        source=cam()
        .replace("    with layer", "    mode, layer.training = layer.training, False\n    try:\n      with layer")
        .replace("        logits = model(x)", "        logits = model(x)\n    finally:\n      layer.training = mode"),
    ),
    Wrong(
        "a view of an output that lies in memory otherwise",
        violates="rule 1: in any layout",
        check="raised",
        source=cam(
            result="(weights.flatten(1)[:, None] @ A.view(*A.shape[:2], -1)).view(len(A), *A.shape[2:]).relu().detach()"
        ),
    ),
    Wrong(
        "a single channel stays as a dimension",
        violates="a tensor of shape [B, h, w]",
        check="test_another_call_and_the_example_come_out",
        source=cam(result="(weights * A).sum(1, keepdim=A.shape[1] == 1).relu().detach()"),
    ),
    Wrong(
        "a view of what does not lie in memory in one piece",
        violates="rule 1: in any layout",
        check="raised",
        source=cam(
            result="(A.detach().view(len(A), -1) * weights.expand_as(A).flatten(1)).view(A.shape).sum(1).relu()"
        ),
    ),
    Wrong(
        "a map that is one pixel wide loses a dimension",
        violates="a tensor of shape [B, h, w]",
        check="test_another_call_and_the_example_come_out",
        source=cam(result="(weights * A).sum(1).relu().detach().squeeze(-1)"),
    ),
    Wrong(
        "what is large is scaled",
        violates="not scaled",
        check="test_another_call_and_the_example_come_out",
        source=cam(
            result="(lambda m: torch.where(m.amax() > 100, m / m.amax(), m))((weights * A).sum(1).relu().detach())"
        ),
    ),
    Wrong(
        "the maps of the first call",
        violates="the weight alpha[b, k] is the mean",
        check="raised",
        source="""
import torch

def grad_cam(model, layer, x, cls, kept=[]):
    with layer.register_forward_hook(lambda module, args, output: kept.append(output)):
        logits = model(x)
    A = kept[-1]
    gradient, = torch.autograd.grad(logits[:, cls].sum(), A)
    maps = kept[0] if kept[0].shape == A.shape else A
    return (gradient.mean((2, 3), keepdim=True) * maps).sum(1).relu().detach()
""",
    ),
    Wrong(
        "the gradient of the first output of the node",
        violates="the derivative of the logit [b, cls] with respect to A[b, k]",
        check="raised",
        source="""
import torch

def grad_cam(model, layer, x, cls):
    kept = {}
    def hook(module, args, output):
        kept["A"] = output.detach().clone()
        kept["handle"] = output.grad_fn.register_prehook(lambda grads: kept.update(g=grads[0].clone()))
    with layer.register_forward_hook(hook):
        logits = model(x)
    torch.autograd.grad(logits[:, cls].sum(), list(model.parameters()), allow_unused=True)
    kept["handle"].remove()
    return (kept["g"].mean((2, 3), keepdim=True) * kept["A"]).sum(1).relu()
""",
    ),
    Wrong(
        "no ReLU",
        violates="with negative values replaced by 0",
        check=VALUES,
        mistake="forgot-relu",
        source=cam(result="(weights * A).sum(1).detach()"),
    ),
    Wrong(
        "absolute values",
        violates="with negative values replaced by 0",
        check=VALUES,
        source=cam(result="(weights * A).sum(1).abs().detach()"),
    ),
    Wrong(
        "the ReLU before the sum",
        violates="with negative values replaced by 0",
        check=VALUES,
        source=cam(result="(weights * A).relu().sum(1).detach()"),
    ),
    Wrong(
        "the ReLU on the weights",
        violates=SUM,
        check=VALUES,
        mistake="relu-on-weights",
        source=cam(weights="gradient.mean((2, 3), keepdim=True).relu()"),
    ),
    Wrong(
        "gradient times activation", violates=MEAN, check=VALUES, mistake="not-pooled", source=cam(weights="gradient")
    ),
    Wrong(
        "the sum over the positions",
        violates=MEAN,
        check=VALUES,
        mistake="sum-instead-of-mean",
        source=cam(weights="gradient.sum((2, 3), keepdim=True)"),
    ),
    Wrong(
        "the sum over the positions, divided by 20",
        violates=MEAN,
        check=VALUES,
        source=cam(weights="gradient.sum((2, 3), keepdim=True) / 20"),
    ),
    Wrong(
        "the largest gradient", violates=MEAN, check=VALUES, source=cam(weights="gradient.amax((2, 3), keepdim=True)")
    ),
    Wrong(
        "the mean of absolute values",
        violates=MEAN,
        check=VALUES,
        source=cam(weights="gradient.abs().mean((2, 3), keepdim=True)"),
    ),
    Wrong("the mean over a row", violates=MEAN, check=VALUES, source=cam(weights="gradient.mean(3, keepdim=True)")),
    Wrong(
        "the mean over the channels",
        violates="For each sample b and channel k",
        check=VALUES,
        source=cam(weights="gradient.mean(1, keepdim=True)"),
    ),
    Wrong(
        "the mean over the batch, too",
        violates="For each sample b and channel k",
        check=VALUES,
        mistake="mixed-batch",
        source=cam(weights="gradient.mean((0, 2, 3))[:, None, None]"),
    ),
    Wrong(
        "the weights of the first sample",
        violates="For each sample b and channel k",
        check=VALUES,
        mistake="mixed-batch",
        source=cam(weights="gradient[:1].mean((2, 3), keepdim=True)"),
    ),
    Wrong(
        "no weights", violates=SUM, check=VALUES, source=cam(weights="torch.ones(1, A.shape[1], 1, 1, dtype=A.dtype)")
    ),
    Wrong(
        "the mean over the channels at the end",
        violates=SUM,
        check=VALUES,
        source=cam(result="(weights * A).mean(1).relu().detach()"),
    ),
    Wrong(
        "the probability",
        violates=LOGIT,
        check=VALUES,
        mistake="softmax-target",
        source=cam("logits.softmax(1)[:, cls].sum()"),
    ),
    Wrong(
        "the logarithm of the probability",
        violates=LOGIT,
        check=VALUES,
        mistake="softmax-target",
        source=cam("logits.log_softmax(1)[:, cls].sum()"),
    ),
    Wrong(
        "the mean over the samples",
        violates=LOGIT,
        check=VALUES,
        mistake="batch-mean",
        source=cam("logits[:, cls].mean()"),
    ),
    Wrong("the winner", violates=LOGIT, check=VALUES, mistake="wrong-target", source=cam("logits.max(1).values.sum()")),
    Wrong("all logits", violates=LOGIT, check=VALUES, source=cam("logits.sum()")),
    Wrong("the first sample", violates=LOGIT, check=VALUES, source=cam("logits[0, cls]")),
    Wrong(
        "the gradient at the layer's input",
        violates=LOGIT,
        check=VALUES,
        mistake="grad-input-not-output",
        source=AT_THE_INPUT,
    ),
    Wrong(
        "the last convolution, whatever the layer",
        violates="its output A has the shape [B, K, h, w]",
        check=VALUES,
        source=swap(
            "    kept = {}",
            "    layer = [m for m in model.modules() if isinstance(m, torch.nn.Conv2d)][-1]\n    kept = {}",
        ),
    ),
    Wrong(
        "scaled",
        violates="not scaled",
        check=VALUES,
        mistake="scaled",
        source=cam(result="scaled((weights * A).sum(1).relu().detach())")
        + "\ndef scaled(heat):\n    return heat / heat.amax((1, 2), keepdim=True).clamp(min=1e-12)\n",
    ),
    Wrong(
        "upsampled",
        violates="a tensor of shape [B, h, w]",
        check=VALUES,
        mistake="upsampled",
        source=cam(
            result="F.interpolate((weights * A).sum(1, True).relu(), x.shape[2:], mode='bilinear')[:, 0].detach()"
        )
        + "\nimport torch.nn.functional as F\n",
    ),
    Wrong(
        "the channel stays as a dimension",
        violates="a tensor of shape [B, h, w]",
        check=VALUES,
        source=cam(result="(weights * A).sum(1, keepdim=True).relu().detach()"),
    ),
    Wrong(
        "height and width exchanged",
        violates="a tensor of shape [B, h, w]",
        check=VALUES,
        source=cam(result="(weights * A).sum(1).relu().detach().mT.clone()"),
    ),
    Wrong(
        "zeros",
        violates="a tensor of shape [B, h, w]",
        check=DRAWINGS,
        source="import torch\n\ndef grad_cam(model, layer, x, cls):\n    return torch.zeros(len(x), 2, 2)",
    ),
    Wrong(
        "a full backward hook on a layer that works in place",
        violates="The layer itself may work in place",
        check="raised",
        mistake="full-hook-and-in-place",
        source=FULL_HOOK,
    ),
    Wrong(
        "keeps the graph",
        violates="rule 6: A tensor that you return has no graph",
        check=VALUES,
        source=cam(result="(weights * A).sum(1).relu()"),
    ),
    Wrong(
        "in float32 in any case",
        violates="rule 1: in `float32` and in `float64`",
        check=VALUES,
        source=cam(result="(weights * A).sum(1).relu().detach().float()"),
    ),
    Wrong(
        "waits for a gradient of the input",
        violates="`x` may require grad or not",
        check="raised",
        source=swap("grad(logits[:, cls].sum(), A)", "grad(logits[:, cls].sum(), [A, x])[:1]"),
    ),
    Wrong(
        "the outputs of earlier calls count",
        violates="rule 1: however often it is called",
        check="raised",
        source=swap('kept["A"] = output', "outputs.append(output)")
        .replace('kept["A"]', "outputs[0]")
        .replace("import torch\n", "import torch\noutputs = []\n", 1),
    ),
    Wrong(
        "remembers maps by class",
        violates="rule 1: however often it is called",
        check=AGAIN,
        source=cam(result="known.setdefault(cls, (weights * A).sum(1).relu().detach())").replace(
            "import torch\n", "import torch\nknown = {}\n", 1
        ),
    ),
    Wrong(
        "in eval mode",
        violates="rule 7: with each part in its mode",
        check=VALUES,
        mistake="another-mode",
        source=swap("    with ", MODES + "    with ").replace("    A = ", BACK + "    A = "),
    ),
    Wrong(
        "in training mode",
        violates="rule 7: with each part in its mode",
        check=VALUES,
        mistake="another-mode",
        source=swap("    with ", MODES.replace("eval", "train") + "    with ").replace("    A = ", BACK + "    A = "),
    ),
    Wrong(
        "modes do not come back when something raises",
        violates="rule 4: Rules 2 and 3 hold then, too",
        check=FAILED,
        source=swap("    with ", MODES + "    with ").replace("    A = ", BACK + "    A = "),
    ),
    Wrong(
        "another mode",
        violates="rule 2: the mode of each part",
        check=KEPT,
        source=swap("    A = ", "    model.train(not model.training)\n    A = "),
    ),
    Wrong(
        "`backward` fills the parameters",
        violates="rule 2: their `.grad`",
        check=KEPT,
        mistake="polluted-grads",
        source=BY_BACKWARD,
    ),
    Wrong(
        "gradients of parameters cleared",
        violates="rule 2: their `.grad`",
        check=KEPT,
        mistake="polluted-grads",
        source=swap("    kept = {}", "    kept = {}\n    model.zero_grad()"),
    ),
    Wrong(
        "the caller's own input",
        violates="rule 2: Tensors keep their values, their `requires_grad` and their `.grad`",
        check=KEPT,
        mistake="input-touched",
        source=swap(
            "    kept = {}", "    kept = {}\n    if x.is_leaf:\n        x.grad = None\n        x.requires_grad_()"
        ),
    ),
    Wrong(
        "all hooks cleared",
        violates="rule 3: Hooks that were there before are there afterwards",
        check=KEPT,
        source=swap("    A = ", "    [m._forward_hooks.clear() for m in model.modules()]\n    A = "),
    ),
    Wrong(
        "the hooks of the layer cleared",
        violates="rule 3: Hooks that were there before are there afterwards",
        check=KEPT,
        source=by_hand("finally:\n        layer._forward_hooks.clear()"),
    ),
    Wrong(
        "the hook stays",
        violates="rule 3: none of your own hooks is left",
        check=KEPT,
        source=by_hand("finally:\n        pass"),
    ),
    Wrong(
        "the hook stays when something raises",
        violates="rule 4: Rules 2 and 3 hold then, too",
        check=FAILED,
        source=by_hand("except ZeroDivisionError:\n        pass\n    handle.remove()"),
    ),
    Wrong(
        "the hook stays on an interrupt",
        violates="rule 4: also for `KeyboardInterrupt`",
        check=FAILED,
        source=by_hand("except Exception:\n        handle.remove()\n        raise\n    handle.remove()"),
    ),
    Wrong(
        "the hook stays when the backward pass raises",
        violates="rule 4: the model, the loss or `backward()`",
        check=FAILED,
        source=by_hand("except BaseException:\n        handle.remove()\n        raise").replace(
            "    weights = ", "    handle.remove()\n    weights = "
        ),
    ),
    Wrong(
        "an exception is taken for a map of zeros",
        violates="rule 4: the caller of your function gets this exception",
        check=FAILED,
        source=by_hand(
            "except BaseException:\n        return torch.zeros(len(x), 1, 1)\n    finally:\n        handle.remove()"
        ),
    ),
    Wrong("nothing", violates=SUM, check=VALUES, source="def grad_cam(model, layer, x, cls):\n    pass"),
]

GIVENS = [
    "Write `grad_cam(model, layer, x, cls)`.",
    "it treats each sample on its own",
    "`cls` is an int.",
    "nothing after it overwrites A",
    "Hooks of others on the layer only watch.",
    "You may run the model more than once.",
]

SURVIVORS = {
    "at least one dimension": "images have four",
    "one global slot: kept = ": "each call writes what it reads",
    "one global slot: got = ": "each call writes what it reads",
    "lost copy: kept['A']": "nothing after the layer overwrites its output",
    "lost copy: kept['handle']": "nobody overwrites the gradient",
    "lost copy: hook = lambda grads": "nobody overwrites the gradient",
    "lost copy: logits = model(_not_detached(x))": "only the gradient of the layer's output is asked for",
    "lost copy: x = _not_": "the model does not write into its input, and gradients are asked of that very tensor",
    "lost copy: for image in _not_detached(x)": "only the gradient of the layer's output is asked for",
    "lost copy: torch.autograd.grad(logits[:, cls].sum(), _not_copied(model.parameters())": "a generator will do",
    "a list for a tuple: torch.autograd.grad(": "torch takes either",
    "almost: with layer.register_forward_hook(hook, prepend=False)": "hooks of others on the layer only watch",
    "almost: return torch.relu((got['g'].mean((2, -1)": "2 is -2 in four dimensions",
    "not for all: for p in _part(parameters": "to freeze parameters saves time, and changes no result",
    "condition dropped: parameters = ": "all of them require grad",
    "lost statement: without p.requires_grad_(False)": "to freeze parameters saves time, and changes no result",
    "not for all: for k in _part(range(g.shape[1]), step=-1)": "the order of a sum",
    "not for all: for m in _part(twin.modules(), step=-1)": "the order does not matter",
    "not for all: for m in _part(twin.modules(), start=1)": "the model itself does not work in place",
    "condition dropped: m.inplace = False": "other modules do not look at it",
    "not for all: names = {m: n for n, m in _part(model.named_modules(), step=-1)": "the order does not matter",
    "not for all: names = {m: n for n, m in _part(model.named_modules(), start=1)": "the layer is not the model itself",
    "prepend=True": "hooks of others on the layer only watch",
    "lost statement: without kept['handle'].remove()": "the hook is on a tensor of this one pass",
    "almost: p.requires_grad_(True)": "to freeze parameters saves time, and changes no result",
    "not for all: parameters = [": "to freeze parameters saves time, and changes no result",
    "truth for None: parameters = [": "to freeze parameters saves time, and changes no result",
}
