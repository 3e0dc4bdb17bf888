"""Answers to 10-saliency-map."""

from graders.author.answers import Wrong

SALIENCY = """
import torch

def saliency_map(model, x, classes):
    x = x.detach().clone().requires_grad_()
    logits = model(x)
    total = TARGET
    gradient, = torch.autograd.grad(total, x)
    return REDUCED
"""


def saliency(target: str = "logits.gather(1, classes[:, None]).sum()", reduced: str = "gradient.abs().amax(1)") -> str:
    """An answer to 10-saliency-map that differs from a right one in one place."""
    return SALIENCY.replace("TARGET", target).replace("REDUCED", reduced)


RIGHT = [
    """
import torch

def saliency_map(model, x, classes):
    def logit(image, wanted):
        return model(image[None])[0].gather(0, wanted[None])[0]
    maps = [torch.func.grad(logit)(image, wanted) for image, wanted in zip(x.detach(), classes)]
    return torch.stack(maps).abs().amax(1).detach()
""",
    saliency(),
    """
import torch

def saliency_map(model, x, classes):
    # one sample after the other
    maps = []
    for image, target in zip(x, classes.tolist()):
        image = image.detach()[None].clone().requires_grad_(True)
        (g,) = torch.autograd.grad(model(image)[0, target], image)
        maps.append(g[0].abs().max(dim=0).values)
    return torch.stack(maps)
""",
    """
import torch
import torch.nn.functional as F

def saliency_map(model, x, classes):
    x = x.detach().clone().requires_grad_()
    caught = []
    handle = x.register_hook(lambda g: caught.append(g.abs().amax(dim=1).clone()))
    logits = model(x)
    torch.autograd.grad(logits, x, grad_outputs=F.one_hot(classes, logits.shape[1]).to(logits.dtype))
    handle.remove()
    return caught[0]
""",
    """
import torch

def saliency_map(model, x, classes):
    x = x.detach().clone().requires_grad_()
    logits = model(x)
    logits[torch.arange(len(x)), classes].sum().backward(inputs=[x])
    return torch.maximum(x.grad, -x.grad).max(1)[0]
""",
    """
import copy
import torch

def saliency_map(model, x, classes):
    model = copy.deepcopy(model)
    x = x.detach().clone().requires_grad_()
    model(x).gather(1, classes.unsqueeze(1)).sum().backward()
    return x.grad.abs().amax(1)
""",
    """
import torch
from torch.func import functional_call, grad, vmap

def saliency_map(model, x, classes):
    params = {n: p.detach() for n, p in model.named_parameters()}
    def logit(image, target):
        logits = functional_call(model, params, (image[None],))[0]
        return logits.gather(0, target[None])[0]
    return vmap(grad(logit))(x.detach(), classes).abs().amax(1)
""",
]

FROZEN = """\
    live = [p for p in model.parameters() if p.requires_grad]
    for p in live:
        p.requires_grad_(False)
"""
THAWED = "    for p in live:\n        p.requires_grad_(True)\n"

VALUES = "test_each_pixel_has_its_largest_absolute_derivative"
AGAIN = "test_another_call_and_the_example_come_out"
KEPT = "test_nothing_of_the_caller_is_touched"
FAILED = "test_an_exception_comes_through_and_leaves_nothing_behind"

WRONG = [
    Wrong(
        "flattens the gradient by `view`",
        violates="rule 1: in any layout",
        check="raised",
        source=saliency(reduced="gradient.abs().view(*x.shape[:2], -1).amax(1).view(len(x), *x.shape[2:])"),
    ),
    Wrong(
        "one map for each class, and not for each sample",
        violates="one\n    class for each sample",
        check=VALUES,
        source=saliency(
            reduced="torch.stack([gradient[classes.tolist().index(c)].abs().amax(0) for c in classes.tolist()])"
        ),
    ),
    Wrong(
        "the sign stays where there is a single channel",
        violates="the largest\n    absolute value, over the channels c",
        check="test_another_call_and_the_example_come_out",
        source=saliency(reduced="gradient.abs().amax(1) if x.shape[1] > 1 else gradient[:, 0]"),
    ),
    Wrong(
        "the first three channels, as if images had no more",
        violates="the largest\n    absolute value, over the channels c",
        check="test_another_call_and_the_example_come_out",
        source=saliency(reduced="gradient[:, :3].abs().amax(1)"),
    ),
    Wrong(
        "a view of a gradient that lies in memory otherwise",
        violates="rule 1: in any layout",
        check="raised",
        source=saliency(reduced="gradient.view(-1).abs().view(x.shape).amax(1)"),
    ),
    Wrong(
        "what is very small counts as 0",
        violates="the largest\n    absolute value, over the channels c",
        check="test_another_call_and_the_example_come_out",
        source=saliency(reduced="torch.where(gradient.abs() < 1e-7, 0, gradient.abs()).amax(1)"),
    ),
    Wrong(
        "the mean of the channels",
        violates="the largest\n    absolute value, over the channels c",
        check=VALUES,
        mistake="mean-over-channels",
        source=saliency(reduced="gradient.abs().mean(1)"),
    ),
    Wrong(
        "the sum of the channels",
        violates="the largest\n    absolute value, over the channels c",
        check=VALUES,
        mistake="mean-over-channels",
        source=saliency(reduced="gradient.abs().sum(1)"),
    ),
    Wrong(
        "the norm of the channels",
        violates="the largest\n    absolute value, over the channels c",
        check=VALUES,
        source=saliency(reduced="gradient.norm(dim=1)"),
    ),
    Wrong(
        "signed",
        violates="absolute value, over the channels",
        check=VALUES,
        mistake="forgot-abs",
        source=saliency(reduced="gradient.amax(1)"),
    ),
    Wrong(
        "the absolute value of the maximum",
        violates="absolute value, over the channels",
        check=VALUES,
        mistake="abs-after-max",
        source=saliency(reduced="gradient.amax(1).abs()"),
    ),
    Wrong(
        "all pairs of samples and classes",
        violates="the logit [b, classes[b]]",
        check=VALUES,
        mistake="indexed-all-pairs",
        source=saliency("logits[:, classes].sum()"),
    ),
    Wrong(
        "one class for all",
        violates="one\n    class for each sample",
        check=VALUES,
        mistake="same-class-for-all",
        source=saliency("logits[:, classes[0]].sum()"),
    ),
    Wrong(
        "the winner",
        violates="the logit [b, classes[b]]",
        check=VALUES,
        mistake="wrong-target",
        source=saliency("logits.amax(1).sum()"),
    ),
    Wrong("all logits", violates="the logit [b, classes[b]]", check=VALUES, source=saliency("logits.sum()")),
    Wrong(
        "the first sample", violates="the logit [b, classes[b]]", check=VALUES, source=saliency("logits[0, classes[0]]")
    ),
    Wrong(
        "the mean over the batch",
        violates="the derivative of the logit",
        check=VALUES,
        mistake="batch-mean",
        source=saliency("logits.gather(1, classes[:, None]).mean()"),
    ),
    Wrong(
        "the probability",
        violates="the derivative of the logit",
        check=VALUES,
        mistake="softmax-target",
        source=saliency("logits.softmax(1).gather(1, classes[:, None]).sum()"),
    ),
    Wrong(
        "the logarithm of the probability",
        violates="the derivative of the logit",
        check=VALUES,
        mistake="softmax-target",
        source=saliency("logits.log_softmax(1).gather(1, classes[:, None]).sum()"),
    ),
    Wrong(
        "the mean over the batch",
        violates="the derivative of the logit",
        check=VALUES,
        source=saliency("logits.gather(1, classes[:, None]).mean()"),
    ),
    Wrong(
        "gradient times input",
        violates="the derivative of the logit",
        check=VALUES,
        source=saliency(reduced="(gradient * x).abs().amax(1).detach()"),
    ),
    Wrong(
        "scaled",
        violates="the derivative of the logit",
        check=VALUES,
        source=saliency(reduced="gradient.abs().amax(1) / gradient.abs().max()"),
    ),
    Wrong(
        "the channel stays as a dimension",
        violates="a tensor of shape [B, H, W]",
        check=VALUES,
        source=saliency(reduced="gradient.abs().amax(1, keepdim=True)"),
    ),
    Wrong(
        "no maximum", violates="a tensor of shape [B, H, W]", check=VALUES, source=saliency(reduced="gradient.abs()")
    ),
    Wrong(
        "height and width exchanged",
        violates="Its entry at [b, i, j]",
        check=VALUES,
        source=saliency(reduced="gradient.abs().amax(1).mT.clone()"),
    ),
    Wrong(
        "in float64 in any case",
        violates="rule 1: in `float32` and in `float64`",
        check=VALUES,
        source=saliency(reduced="gradient.abs().amax(1).double()"),
    ),
    Wrong(
        "in float32 in any case",
        violates="rule 1: in `float32` and in `float64`",
        check=VALUES,
        source=saliency(reduced="gradient.abs().amax(1).float()"),
    ),
    Wrong(
        "keeps a graph",
        violates="rule 6: A tensor that you return has no graph",
        check=VALUES,
        source=saliency().replace("(total, x)", "(total, x, create_graph=True)"),
    ),
    Wrong(
        "the input of a caller who asks for no gradient",
        violates="`x` and each parameter may require grad or not",
        check="raised",
        source=saliency().replace("    x = x.detach().clone().requires_grad_()\n", ""),
    ),
    Wrong(
        "waits for gradients of all parameters",
        violates="`x` and each parameter may require grad or not",
        check="raised",
        source=saliency().replace(
            "torch.autograd.grad(total, x)", "torch.autograd.grad(total, [x, *model.parameters()])[:1]"
        ),
    ),
    Wrong(
        "remembers maps by shape",
        violates="rule 1: however often it is called",
        check=AGAIN,
        source=saliency(reduced="known.setdefault(gradient.shape, gradient.abs().amax(1))").replace(
            "import torch", "import torch\nknown = {}"
        ),
    ),
    Wrong(
        "`backward` fills the parameters",
        violates="rule 2: Tensors keep their values, their `requires_grad` and their `.grad`",
        check=KEPT,
        mistake="polluted-grads",
        source=saliency().replace(
            "gradient, = torch.autograd.grad(total, x)", "total.backward()\n    gradient = x.grad"
        ),
    ),
    Wrong(
        "gradients of parameters cleared",
        violates="rule 2: their `.grad`",
        check=KEPT,
        mistake="polluted-grads",
        source=saliency().replace("    return", "    model.zero_grad()\n    return"),
    ),
    Wrong(
        "the caller's own input",
        violates="rule 2: Tensors keep their values, their `requires_grad` and their `.grad`",
        check=KEPT,
        mistake="input-touched",
        source=saliency().replace(
            "x = x.detach().clone().requires_grad_()", "x = x if x.grad_fn else x.requires_grad_()\n    x.grad = None"
        ),
    ),
    Wrong(
        "in eval mode",
        violates="rule 7: with each part in its mode",
        check=VALUES,
        mistake="another-mode",
        source=saliency()
        .replace("    logits", "    was = [m for m in model.modules() if m.training]\n    model.eval()\n    logits")
        .replace("    return", "    for m in was:\n        m.training = True\n    return"),
    ),
    Wrong(
        "leaves training mode",
        violates="rule 2: the mode of each part",
        check=KEPT,
        source=saliency().replace("    return", "    model.eval()\n    model.train()\n    return"),
    ),
    Wrong(
        "the mode of the model comes back, not that of its parts",
        violates="rule 2: the mode of each part",
        check=KEPT,
        source=saliency().replace(
            "    return", "    was = model.training\n    model.eval()\n    model.train(was)\n    return"
        ),
    ),
    Wrong(
        "a frozen parameter requires grad afterwards",
        violates="rule 2: their `requires_grad`",
        check=KEPT,
        source=saliency()
        .replace("    logits", "    model.requires_grad_(False)\n    logits")
        .replace("    return", "    model.requires_grad_(True)\n    return"),
    ),
    Wrong(
        "parameters stay frozen when something raises",
        violates="rule 4: Rules 2 and 3 hold then, too",
        check=FAILED,
        source=saliency().replace("    logits", FROZEN + "    logits").replace("    return", THAWED + "    return"),
    ),
    Wrong(
        "an exception is taken for a map of zeros",
        violates="rule 4: the caller of your function gets this exception",
        check=FAILED,
        source=saliency().replace(
            "    logits = model(x)",
            "    try:\n        logits = model(x)\n    except BaseException:\n        return torch.zeros_like(x[:, 0])",
        ),
    ),
    Wrong(
        "the input itself",
        violates="the derivative of the logit",
        check=VALUES,
        source="def saliency_map(model, x, classes):\n    return x.detach().abs().amax(1)",
    ),
]

GIVENS = [
    "Write `saliency_map(model, x, classes)`.",
    "it treats each sample on its own",
    "You may run the model more than once.",
]

SURVIVORS = {
    "at least one dimension": "images have four",
    "lost copy": "the model does not write into its input, and gradients are asked of that very tensor",
    "lost statement: without handle.remove()": "the hook is on a tensor of the function's own",
    "not for all: params = ": "only the input's gradient is asked for, so the parameters get none either way",
}
