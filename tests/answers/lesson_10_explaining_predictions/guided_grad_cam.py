"""Answers to 10-guided-grad-cam."""

from graders.author.answers import Wrong

BOTH = """
import torch
import torch.nn.functional as F
from torch import nn

def heat(model, layer, x, cls):
    kept = []
    with layer.register_forward_hook(lambda module, args, output: kept.append(output)):
        logits = model(x)
    gradient, = torch.autograd.grad(logits[:, cls].sum(), kept[0])
    return (gradient.mean((2, 3), keepdim=True) * kept[0]).sum(1)HEAT.detach()

def sharp(model, x, cls):
    def hook(module, grad_input, grad_output):
        return CLAMPED
    handles = [m.register_full_backward_hook(hook) for m in model.modules() if isinstance(m, nn.ReLU)]
    try:
        x = x.detach().clone().requires_grad_()
        gradient, = torch.autograd.grad(model(x)[:, cls].sum(), x)
    finally:
        for handle in handles:
            handle.remove()
    return gradient

def guided_grad_cam(model, layer, x, cls):
    cam = heat(model, layer, x, cls)
    guided = sharp(model, x, cls)
    cam = F.interpolate(cam[:, None], size=x.shape[2:], UPSAMPLING)
    return RESULT
"""


def both(
    heat: str = ".relu()",
    clamped: str = "(grad_input[0].clamp(min=0),)",
    upsampling: str = "mode='bilinear', align_corners=False",
    result: str = "guided * cam",
) -> str:
    """An answer to 10-guided-grad-cam that differs from a right one in one place."""
    source = BOTH.replace("HEAT", heat).replace("CLAMPED", clamped)
    return source.replace("UPSAMPLING", upsampling).replace("RESULT", result)


RIGHT = [
    both(),
    """
import contextlib
import torch
import torch.nn.functional as F
from torch import nn

class Switch(torch.autograd.Function):
    on = False
    @staticmethod
    def forward(ctx, x):
        return x.clone()
    @staticmethod
    def backward(ctx, grad):
        return grad.clamp(min=0) if Switch.on else grad

def guided_grad_cam(model, layer, x, cls):
    # one forward pass, two backward passes
    kept = []
    x = x.detach().clone().requires_grad_()
    with contextlib.ExitStack() as stack:
        for module in model.modules():
            if isinstance(module, nn.ReLU):
                stack.enter_context(module.register_forward_pre_hook(lambda m, args: Switch.apply(args[0])))
        stack.enter_context(layer.register_forward_hook(lambda m, args, output: kept.append(output)))
        total = model(x)[:, cls].sum()
    (gradient,) = torch.autograd.grad(total, kept, retain_graph=True)
    Switch.on = True
    try:
        (guided,) = torch.autograd.grad(total, x)
    finally:
        Switch.on = False
    cam = (gradient.mean((2, 3), True) * kept[0].detach()).sum(1, True).relu()
    return guided * F.interpolate(cam, x.shape[2:], mode="bilinear", align_corners=False)
""",
    """
import torch
from torch import nn
import torch.nn.functional as F

def guided_grad_cam(model, layer, x, cls):
    A = []
    with layer.register_forward_hook(lambda m, a, o: A.append(o)):
        out = model(x)
    g = torch.autograd.grad(out[:, cls].sum(), A[0])[0]
    cam = torch.relu((g.mean((2, 3), keepdim=True) * A[0]).sum(1, keepdim=True)).detach()

    def on_forward(module, args, output):
        output.register_hook(lambda grad: grad.clamp_min(0))

    handles = []
    try:
        for m in model.modules():
            if isinstance(m, nn.ReLU):
                handles.append(m.register_forward_hook(on_forward))
        x = x.detach().clone().requires_grad_()
        out = model(x)
    finally:
        for h in handles:
            h.remove()
    guided = torch.autograd.grad(out[:, cls].sum(), x)[0]
    return guided * nn.Upsample(x.shape[-2:], mode="bilinear")(cam).expand(-1, x.shape[1], -1, -1)
""",
    """
from contextlib import ExitStack
import torch
from torch import nn
import torch.nn.functional as F

def guided_grad_cam(model, layer, x, cls):
    # one forward pass, two backward passes; the clamps can be switched
    kept, guiding = {}, False

    def catch(module, args, output):
        kept["A"] = output

    def clamp(module, grad_input, grad_output):
        if guiding:
            return (grad_input[0].clamp(min=0),)

    x = x.detach().clone().requires_grad_()
    with ExitStack() as stack:
        stack.enter_context(layer.register_forward_hook(catch))
        for module in model.modules():
            if isinstance(module, nn.ReLU):
                stack.enter_context(module.register_full_backward_hook(clamp))
        logit = model(x)[:, cls].sum()
        grad, = torch.autograd.grad(logit, kept["A"], retain_graph=True)
        guiding = True
        guided, = torch.autograd.grad(logit, x)
    A = kept["A"].detach()
    cam = (grad.mean((2, 3), keepdim=True) * A).sum(1, keepdim=True).clamp(min=0)
    return guided * F.interpolate(cam, x.shape[2:], mode="bilinear", align_corners=False)
""",
    """
import copy
import torch
from torch import nn
import torch.nn.functional as F

def grad_cam(model, layer, x, cls):
    kept = []
    with layer.register_forward_hook(lambda m, a, o: kept.append(o)):
        logits = model(x)
    g, = torch.autograd.grad(logits[:, cls].sum(), kept[0])
    return (g.mean((2, 3), keepdim=True) * kept[0]).sum(1).relu().detach()

def guided_backprop(model, x, cls):
    twin = copy.deepcopy(model)
    for m in twin.modules():
        if isinstance(m, nn.ReLU):
            m.register_full_backward_hook(lambda m, gi, go: (gi[0].relu(),))
    x = x.detach().clone().requires_grad_()
    return torch.autograd.grad(twin(x)[:, cls].sum(), x)[0]

def guided_grad_cam(model, layer, x, cls):
    parts = []
    for image in x.detach().split(1):
        cam = grad_cam(model, layer, image, cls)
        big = F.interpolate(cam.unsqueeze(0), size=tuple(image.shape[-2:]), mode="bilinear")
        parts.append(torch.mul(guided_backprop(model, image, cls), big))
    return torch.cat(parts)
""",
]

SHARED = """
import torch
import torch.nn.functional as F
from torch import nn

def guided_grad_cam(model, layer, x, cls):
    kept = []
    handles = [layer.register_forward_hook(lambda module, args, output: kept.append(output))]
    try:
        for m in model.modules():
            if isinstance(m, nn.ReLU):
                handles.append(m.register_full_backward_hook(lambda m, gi, go: (gi[0].clamp(min=0),)))
        x = x.detach().clone().requires_grad_()
        logits = model(x)
        guided, gradient = torch.autograd.grad(logits[:, cls].sum(), [x, kept[0]])
    finally:
        for handle in handles:
            handle.remove()
    cam = (gradient.mean((2, 3), keepdim=True) * kept[0]).sum(1, keepdim=True).relu().detach()
    return guided * F.interpolate(cam, size=x.shape[2:], mode="bilinear", align_corners=False)
"""
CAUGHT = """\
    with layer.register_forward_hook(lambda module, args, output: kept.append(output)):
        logits = model(x)
"""
BY_HAND = """\
    handle = layer.register_forward_hook(lambda module, args, output: kept.append(output))
    try:
        logits = model(x)
    CLEANED
"""
LATE = """\
    opened.append(layer.register_forward_hook(lambda module, args, output: kept.append(output)))
    try:
        logits = model(x)
    except BaseException:
        opened.pop().remove()
        raise
"""
SWALLOWED = """\
    try:
        cam = heat(model, layer, x, cls)
    except BaseException:
        return x.detach() * 0
"""
MODES = "    was = {m: m.training for m in model.modules()}\n    model.eval()\n"
BACK = "    for m in was:\n        m.training = was[m]\n"
DEF = "def guided_grad_cam(model, layer, x, cls):\n"

VALUES = "test_the_result_is_guided_backprop_times_the_upsampled_cam"
AGAIN = "test_another_call_and_the_example_come_out"
KEPT = "test_nothing_of_the_caller_is_touched_and_gradients_are_ordinary_afterwards"
FAILED = "test_an_exception_comes_through_and_leaves_nothing_behind"
PRODUCT = "the product of two things"
GUIDED = "what `guided_backprop(model, x, cls)` returns"
HEAT = "what `grad_cam(model, layer, x, cls)` returns"
ORDINARY = "from a backward pass without the guided rule"
UPSAMPLED = "It is upsampled to H by W with bilinear interpolation (`align_corners=False`)"


def swap(old: str, new: str) -> str:
    """The right answer with another text in one place."""
    assert old in both()
    return both().replace(old, new)


def by_hand(cleaned: str) -> str:
    """The right answer with a hook for the Grad-CAM that is removed as `cleaned` says."""
    return swap(CAUGHT, BY_HAND.replace("CLEANED", cleaned))


WRONG = [
    Wrong(
        "LeakyReLU is guided, too",
        violates=GUIDED,
        check=VALUES,
        source=both().replace("isinstance(m, nn.ReLU)", "isinstance(m, (nn.ReLU, nn.LeakyReLU))"),
    ),
    Wrong(
        "a large Grad-CAM is scaled",
        violates=HEAT,
        check="test_another_call_and_the_example_come_out",
        source=both(result="guided * torch.where(cam.amax() > 100, cam / cam.amax(), cam)"),
    ),
    Wrong(
        "a very small Grad-CAM counts as 0",
        violates=PRODUCT,
        check="test_another_call_and_the_example_come_out",
        source=both(result="guided * torch.where(cam < 1e-7, 0, cam)"),
    ),
    Wrong("one backward pass for both", violates=ORDINARY, check=VALUES, mistake="shared-pass", source=SHARED),
    Wrong(
        "guided backprop only",
        violates=PRODUCT,
        check=VALUES,
        mistake="one-factor-missing",
        source=both(result="guided"),
    ),
    Wrong(
        "Grad-CAM only",
        violates=PRODUCT,
        check=VALUES,
        mistake="one-factor-missing",
        source=both(result="cam.expand_as(x).clone()"),
    ),
    Wrong(
        "one channel of Grad-CAM",
        violates="of the shape of `x`",
        check=VALUES,
        mistake="one-factor-missing",
        source=both(result="cam"),
    ),
    Wrong("the sum", violates=PRODUCT, check=VALUES, source=both(result="guided + cam")),
    Wrong(
        "blocks",
        violates=UPSAMPLED,
        check=VALUES,
        mistake="nearest-upsampling",
        source=both(upsampling="mode='nearest'"),
    ),
    Wrong(
        "corners aligned",
        violates=UPSAMPLED,
        check=VALUES,
        mistake="align-corners",
        source=both(upsampling="mode='bilinear', align_corners=True"),
    ),
    Wrong("bicubic", violates=UPSAMPLED, check=VALUES, source=both(upsampling="mode='bicubic', align_corners=False")),
    Wrong(
        "twice the size, whatever the image",
        violates=UPSAMPLED,
        check="raised",
        source=swap("size=x.shape[2:]", "scale_factor=2"),
    ),
    Wrong("W by H", violates=UPSAMPLED, check="raised", source=swap("size=x.shape[2:]", "size=x.shape[2:][::-1]")),
    Wrong("the ordinary gradient", violates=GUIDED, check=VALUES, mistake="no-guidance", source=both(clamped="None")),
    Wrong(
        "the rule of deconvnets", violates=GUIDED, check=VALUES, source=both(clamped="(grad_output[0].clamp(min=0),)")
    ),
    Wrong(
        "Tanh is guided, too",
        violates=GUIDED,
        check=VALUES,
        source=swap("isinstance(m, nn.ReLU)", "isinstance(m, (nn.ReLU, nn.Tanh))"),
    ),
    Wrong("children only", violates=GUIDED, check=VALUES, source=swap("in model.modules()", "in model.children()")),
    Wrong(
        "only ReLUs before the layer",
        violates="they may come before and after `layer`",
        check=VALUES,
        source=swap("    handles = [", "    steps = list(getattr(model, 'steps', model))\n    handles = [").replace(
            "in model.modules() if isinstance(m, nn.ReLU)]", "in steps[:-1] if isinstance(m, nn.ReLU)]"
        ),
    ),
    Wrong("no ReLU in the Grad-CAM", violates=HEAT, check=VALUES, mistake="forgot-relu", source=both(heat="")),
    Wrong("absolute values in the Grad-CAM", violates=HEAT, check=VALUES, source=both(heat=".abs()")),
    Wrong(
        "the Grad-CAM is scaled",
        violates=HEAT,
        check=VALUES,
        mistake="scaled",
        source=both(
            result="guided * cam / heat(model, layer, x, cls).amax((1, 2)).clamp(min=1e-9).reshape(-1, 1, 1, 1)"
        ),
    ),
    Wrong(
        "the Grad-CAM of the winner",
        violates=HEAT,
        check=VALUES,
        source=swap("logits[:, cls].sum(), kept", "logits.amax(1).sum(), kept"),
    ),
    Wrong(
        "the Grad-CAM of the last convolution",
        violates=HEAT,
        check=VALUES,
        source=swap(
            "    cam = heat(",
            "    layer = [m for m in model.modules() if isinstance(m, nn.Conv2d)][-1]\n    cam = heat(",
        ),
    ),
    Wrong("a ReLU at the end", violates=PRODUCT, check=VALUES, source=both(result="(guided * cam).clamp(min=0)")),
    Wrong(
        "the largest absolute value of the channels",
        violates="multiplied with every channel",
        check=VALUES,
        source=both(result="(guided * cam).abs().amax(1)"),
    ),
    Wrong(
        "the first channel only",
        violates="multiplied with every channel",
        check=VALUES,
        source=both(result="torch.cat([guided[:, :1] * cam, guided[:, 1:]], 1)"),
    ),
    Wrong(
        "keeps a graph",
        violates="rule 6: A tensor that you return has no graph",
        check=VALUES,
        source=both(heat=".relu()").replace("HEAT.detach()", "").replace(".relu().detach()", ".relu()"),
    ),
    Wrong(
        "in float32 in any case",
        violates="rule 1: in `float32` and in `float64`",
        check=VALUES,
        source=both(result="(guided * cam).float()"),
    ),
    Wrong(
        "remembers results by class",
        violates="rule 1: however often it is called",
        check=AGAIN,
        source="known = {}\n" + both(result="known.setdefault(cls, guided * cam)"),
    ),
    Wrong(
        "the Grad-CAM in eval mode",
        violates=HEAT,
        check=VALUES,
        mistake="another-mode",
        source=swap("    cam = heat(model, layer, x, cls)\n", MODES + "    cam = heat(model, layer, x, cls)\n" + BACK),
    ),
    Wrong(
        "another mode",
        violates="rule 2: the mode of each part",
        check=KEPT,
        source=swap(DEF, DEF + "    model.train(not model.training)\n"),
    ),
    Wrong(
        "the mode of the model comes back, not that of its parts",
        violates="rule 2: the mode of each part",
        check=KEPT,
        source=swap(
            "    return RESULT".replace("RESULT", "guided * cam"),
            "    model.train(model.training)\n    return guided * cam",
        ),
    ),
    Wrong(
        "`backward` fills the parameters",
        violates="rule 2: their `.grad`",
        check=KEPT,
        mistake="polluted-grads",
        source=swap(
            "gradient, = torch.autograd.grad(model(x)[:, cls].sum(), x)",
            "model(x)[:, cls].sum().backward()\n        gradient = x.grad",
        ),
    ),
    Wrong(
        "the caller's own input",
        violates="rule 2: Tensors keep their values, their `requires_grad` and their `.grad`",
        check=KEPT,
        mistake="input-touched",
        source=swap(
            "x = x.detach().clone().requires_grad_()",
            "x = x if x.grad_fn else x.requires_grad_()\n        x.grad = None",
        ),
    ),
    Wrong(
        "guided hooks stay",
        violates="rule 3: none of your own hooks is left",
        check=KEPT,
        mistake="guided-hooks-stay",
        source=swap("            handle.remove()", "            pass"),
    ),
    Wrong(
        "the hooks of the layer are cleared",
        violates="rule 3: Hooks that were there before are there afterwards",
        check=KEPT,
        source=by_hand("finally:\n        layer._forward_hooks.clear()"),
    ),
    Wrong(
        "the hook for the Grad-CAM stays when its run raises",
        violates="rule 4: Rules 2 and 3 hold then, too",
        check=FAILED,
        source=by_hand("except ZeroDivisionError:\n        pass\n    handle.remove()"),
    ),
    Wrong(
        "the hook for the Grad-CAM stays on an interrupt",
        violates="rule 4: also for `KeyboardInterrupt`",
        check=FAILED,
        source=by_hand("except Exception:\n        handle.remove()\n        raise\n    handle.remove()"),
    ),
    Wrong(
        "the hook for the Grad-CAM stays when the second run raises",
        violates="rule 4: Rules 2 and 3 hold then, too",
        check=FAILED,
        source=swap(
            CAUGHT,
            LATE,
        )
        .replace(
            "    guided = sharp(model, x, cls)\n", "    guided = sharp(model, x, cls)\n    opened.pop().remove()\n"
        )
        .replace("import torch\n", "import torch\nopened = []\n", 1),
    ),
    Wrong(
        "guided hooks stay when something raises",
        violates="rule 4: Rules 2 and 3 hold then, too",
        check=FAILED,
        source=swap("    finally:", "    except ZeroDivisionError:\n        raise\n    else:"),
    ),
    Wrong(
        "an exception is taken for zeros",
        violates="rule 4: the caller of your function gets this exception",
        check=FAILED,
        source=swap(
            "    cam = heat(model, layer, x, cls)\n",
            SWALLOWED,
        ),
    ),
    Wrong(
        "a switch stays on when something raises",
        violates="rule 1: however often it is called",
        check=AGAIN,
        source=RIGHT[1]
        .replace("    try:\n", "")
        .replace("        (guided,)", "    (guided,)")
        .replace("    finally:\n    ", ""),
    ),
    Wrong(
        "zeros",
        violates=PRODUCT,
        check=VALUES,
        source="def guided_grad_cam(model, layer, x, cls):\n    return x.detach() * 0",
    ),
    Wrong(
        "enlarges by factors",
        violates="It is upsampled to H by W with bilinear interpolation",
        check="raised",
        source=both(upsampling="mode='bilinear', align_corners=False").replace(
            "size=x.shape[2:]", "scale_factor=(x.shape[2] / cam.shape[1], x.shape[3] / cam.shape[2])"
        ),
    ),
    Wrong(
        "no rule inside the layer",
        violates=GUIDED,
        check="test_another_call_and_the_example_come_out",
        source=both()
        .replace("sharp(model, x, cls)", "sharp(model, layer, x, cls)")
        .replace("isinstance(m, nn.ReLU)]", "isinstance(m, nn.ReLU) and m not in [*layer.children()]]"),
    ),
]

GIVENS = [
    "Write `guided_grad_cam(model, layer, x, cls)`.",
    "The arguments are such as in `grad_cam`",
    "You may call functions of earlier exercises, and run the model more than once.",
]

SURVIVORS = {
    "at least one dimension": "images have four",
    "one global slot: kept = ": "each call writes what it reads",
    "one global slot: handles = ": "to remove a handle once more does no harm",
    "another method: g, = torch.autograd.grad(logits[:, cls].mean(), kept[0])": "it gets one image at a time",
    "another method: return torch.autograd.grad(twin(x)[:, cls].mean(), x)[0]": "it gets one image at a time",
    "not for all: for module in _part(model.modules(), start=1)": "the model itself is no ReLU",
    "not for all: for module in _part(model.modules(), step=-1)": "the order does not matter",
    "not for all: handles = [m.register_full_backward_hook(hook) for m in _part(model.modules(), start=1)": "as above",
    "not for all: handles = [m.register_full_backward_hook(hook) for m in _part(model.modules(), step=-1)": "as above",
    "not for all: for m in _part(model.modules(), start=1)": "the model itself is no ReLU",
    "not for all: for m in _part(model.modules(), step=-1)": "the order does not matter",
    "not for all: for m in _part(twin.modules(), start=1)": "the model itself is no ReLU",
    "not for all: for m in _part(twin.modules(), step=-1)": "the order does not matter",
    "lost copy: own = _not_": "the model does not write into its input, and gradients are asked of that very tensor",
    "lost copy: x = _not_detached": "as above",
    "lost copy: return _not_copied(x)": "no ReLU works in place",
    "lost copy: for image in _not_detached(x).split(1)": "gradients are asked of tensors of the function's own",
    "lost copy: big = F.interpolate(": "a size is as good as its copy",
    "a hook that works at times: @_not_the_first_call def forward(ctx, x)": "its first call is in the pass for the "
    "Grad-CAM, in which nothing is clamped",
    "a hook that works at times: @_not_the_first_call def backward(ctx, grad)": "as above",
    "a hook that works at times: @_not_the_first_call def clamp(module, grad_input, grad_output)": "as above",
    "almost: return guided * nn.Upsample(x.shape[2:], mode='bilinear')": "`align_corners` is then False",
    "almost: big = F.interpolate(": "`align_corners` is then False, and `size` may be any sequence",
    "a list for a tuple": "PyTorch takes either from a hook",
    "prepend=True": "hooks of others on the layer only watch",
    "lost copy: x = _not_copied(x.detach())": "the model does not write into its input",
}
