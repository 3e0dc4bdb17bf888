# %% [markdown]
# # Lesson 8. Event order
#
# **The question.** In which order do all these hooks run, and what does that order depend on?
#
# **The goal.** You can predict the exact order of every hook of a forward and a backward pass: for nested modules,
# for several hooks on one module, and at a single tensor.
#
# There are two ways to prove an order. Either each hook writes its name to a list, or each does a little arithmetic:
# `(5 + 1) * 100` is 600, and `5 * 100 + 1` is 501, so the result says which of two hooks ran first. This lesson does
# both. To predict an order, write a list of events, or one string with commas: `"first, second"`.

# %%
import itertools
import warnings

import torch
from torch import nn
from torch.autograd.graph import get_gradient_edge
from torch.nn.modules.module import (
    register_module_forward_hook,
    register_module_forward_pre_hook,
    register_module_full_backward_hook,
)
from torch.utils.checkpoint import checkpoint

from graders import check, compare, guess, hint, progress, replay, solution
from graders.figures import (
    BACKWARD,
    FORWARD,
    QUIET,
    arrow,
    caption,
    card,
    node,
    show,
    timeline,
)

# %% [markdown]
# ## A network with three levels
#
# The module `Outer` holds `inner` and `head`, and `inner` holds `fc` and `act`. In `named_modules()` these are called
# `inner`, `inner.fc`, `inner.act` and `head`. The outermost module has the empty name there; we call it `net`.


# %%
class Inner(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(2, 2)
        self.act = nn.Tanh()

    def forward(self, x):
        return self.act(self.fc(x))


class Outer(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Inner()
        self.head = nn.Linear(2, 1)

    def forward(self, x):
        return self.head(self.inner(x))


# %% [markdown]
# A module can have four kinds of hooks. The function `watch` registers one of each on one module. Each hook appends
# the name of the module and the kind of the event to a list. `append` returns `None`, so nothing is changed.


# %%
def watch(module, name, events):
    """Register four hooks on one module; each appends one text to `events` when it
    fires.
    """
    module.register_forward_pre_hook(lambda module, args: events.append(f"{name}.fpre"))
    module.register_forward_hook(
        lambda module, args, output: events.append(f"{name}.fwd")
    )
    module.register_full_backward_pre_hook(
        lambda module, grad_output: events.append(f"{name}.bpre")
    )
    module.register_full_backward_hook(
        lambda module, grad_input, grad_output: events.append(f"{name}.bwd")
    )


def watched_net(events):
    """A new network whose five modules are watched."""
    net = Outer()
    watch(net, "net", events)
    watch(net.inner, "inner", events)
    watch(net.inner.fc, "inner.fc", events)
    watch(net.inner.act, "inner.act", events)
    watch(net.head, "head", events)
    return net


def reveal(events):
    """Print the events in order, numbered."""
    for number, event in enumerate(events, 1):
        print(f"{number:2}  {event}")


# %% [markdown]
# **Predict.** We call `net(x)`. Ten events happen, `fpre` and `fwd` for each of the five modules `net`, `inner`,
# `inner.fc`, `inner.act` and `head`. The first is `net.fpre`. In which order do they come? Write down all ten.

# %%
guess(
    "08-forward-order",
    order=[
        *(
            "net.fpre",
            "inner.fpre",
            "inner.fc.fpre",
            "inner.fc.fwd",
            "inner.act.fpre",
            "inner.act.fwd",
            "inner.fwd",
        ),
        *("head.fpre", "head.fwd", "net.fwd"),
    ],
)

# %%
torch.manual_seed(0)
events = []
net = watched_net(events)
x = torch.randn(3, 2, requires_grad=True)
out = net(x)
forward = list(events)
reveal(forward)
compare("08-forward-order", order=forward)

# %% [markdown] explains="08-forward-order"
# A pre-hook fires when a call begins, and a forward hook fires when it ends. The call of `net` begins first and ends
# last, because all other calls happen inside it. Between `inner.fpre` and `inner.fwd` lie the four events of `fc` and
# `act`, which `inner` calls. So **forward goes from the outside in, and back out.**

# %% [markdown]
# ## Backward, when the input requires grad
#
# **Predict.** `x` requires grad. What are the ten events of `out.sum().backward()`, `bpre` and `bwd` for each module?

# %%
guess(
    "08-backward-order",
    order=[
        *(
            "net.bpre",
            "head.bpre",
            "head.bwd",
            "inner.bpre",
            "inner.act.bpre",
            "inner.act.bwd",
        ),
        *("inner.fc.bpre", "inner.fc.bwd", "inner.bwd", "net.bwd"),
    ],
)

# %%
events.clear()
out.sum().backward()
backward = list(events)
reveal(backward)
mirror = [
    event.replace(".fwd", ".bpre").replace(".fpre", ".bwd")
    for event in reversed(forward)
]
print("\nthe mirror image of forward:", backward == mirror)
compare("08-backward-order", order=backward)
assert backward == mirror

# %% [markdown] explains="08-backward-order"
# This is the mirror image of forward: read the forward list backwards, with `bpre` for `fwd` and `bwd` for `fpre`.
# `bpre` fires when the gradient arrives at the output of a module, `bwd` when the gradient of its input is complete,
# and everything inside the module happens in between.


# %% tags=["figure"]
def spans(trace, title, note):
    """One row for each module: a bar from fpre to fwd and one from bpre to bwd, over
    the numbers of the events.
    """
    names = list(dict.fromkeys(event.rpartition(".")[0] for event in trace))
    step, left, column = 0.42, 1.35, 0.36
    height = 1.75 + step * len(names)
    figure, axes = card(9.0, height)
    caption(axes, 0.3, height - 0.28, title, size=11.5)
    half = left + column * (len(trace) // 2)
    caption(axes, left - 0.1, height - 0.68, "forward", colour=FORWARD)
    caption(axes, half - 0.1, height - 0.68, "backward", colour=BACKWARD)
    axes.plot([half - column / 2] * 2, [0.5, height - 0.55], color=QUIET, linewidth=0.8)
    for row, name in enumerate(names):
        y = height - 1.1 - step * row
        caption(axes, 0.3, y, name)
        for first, last, colour in (
            ("fpre", "fwd", FORWARD),
            ("bpre", "bwd", BACKWARD),
        ):
            start, end = (
                left + column * trace.index(f"{name}.{what}") for what in (first, last)
            )
            axes.plot(
                [start, end],
                [y, y],
                color=colour,
                linewidth=9,
                solid_capstyle="butt",
                alpha=0.35,
            )
            axes.plot(
                [start], [y], marker="o", color=colour, markersize=6, clip_on=False
            )
            axes.plot([end], [y], marker="s", color=colour, markersize=6, clip_on=False)
    for index in range(len(trace)):
        caption(
            axes,
            left + column * index,
            0.62,
            str(index + 1),
            colour=QUIET,
            size=8.5,
            align="center",
        )
    caption(axes, 0.3, 0.62, "event", colour=QUIET, size=8.5)
    caption(axes, 0.3, 0.25, note, size=9.5)
    return figure


assert forward == [
    *(
        "net.fpre",
        "inner.fpre",
        "inner.fc.fpre",
        "inner.fc.fwd",
        "inner.act.fpre",
        "inner.act.fwd",
        "inner.fwd",
    ),
    *("head.fpre", "head.fwd", "net.fwd"),
]
assert backward == [
    *("net.bpre", "head.bpre", "head.bwd"),
    *(
        "inner.bpre",
        "inner.act.bpre",
        "inner.act.bwd",
        "inner.fc.bpre",
        "inner.fc.bwd",
        "inner.bwd",
        "net.bwd",
    ),
]

show(
    spans(
        forward + backward,
        "x requires grad: backward is the mirror image of forward",
        "Circle: fpre (blue) or bpre (orange). Square: fwd (blue) or bwd (orange).",
    ),
    "Chart with one row for each module and the twenty events from left to right. "
    "Forward, events 1 to 10: the bar of net covers all ten, that of inner covers 2 "
    "to 7, inner.fc 3 to 4, inner.act 5 to 6, head 8 to 9. Backward, events 11 to 20, "
    "is the mirror image: net covers 11 to 20, head 12 to 13, inner 14 to 19, "
    "inner.act 15 to 16, inner.fc 17 to 18.",
)

# %% [markdown]
# ## Backward, when the input requires no grad
#
# In training, the input is a batch of data, and data usually requires no grad.
#
# **Predict.** We run the same network with such an `x`. Again there are ten events of backward, and again the first is
# `net.bpre`. Which is the second, and which is the last?

# %%
guess("08-no-grad-at-x", second="net.bwd", last="inner.fc.bwd")

# %%
torch.manual_seed(0)
events = []
net = watched_net(events)
x = torch.randn(3, 2)  # requires no grad
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    out = net(x)
    print("forward is as before:", events == forward, "\n")
    assert events == forward
    events.clear()
    out.sum().backward()
reveal(events)
for message in {str(warning.message)[:111] for warning in caught}:
    print("\nPyTorch warns:", message, "...")
compare("08-no-grad-at-x", second=events[1], last=events[-1])

# %% tags=["figure"]
assert events == [
    *("net.bpre", "net.bwd", "head.bpre", "head.bwd", "inner.bpre", "inner.bwd"),
    *("inner.act.bpre", "inner.act.bwd", "inner.fc.bpre", "inner.fc.bwd"),
]
show(
    spans(
        forward + events,
        "x requires no grad: net.bwd and inner.bwd no longer wait for what is inside",
        "Circle: fpre (blue) or bpre (orange). Square: fwd (blue) or bwd (orange).",
    ),
    "The same chart for an input that requires no grad. Forward, events 1 to 10, is "
    "as before. In backward, the two events of each module are neighbours: net 11 and "
    "12, head 13 and 14, inner 15 and 16, inner.act 17 and 18, inner.fc 19 and 20. "
    "The bars of net and inner no longer contain those of the modules inside them.",
)

# %% [markdown] explains="08-no-grad-at-x"
# The forward half is the same. In backward, `net.bwd` is now the second event: the hook that should come last fires
# before anything inside `net` has run backward. (That is what the warning is about.)
#
# The reason is how PyTorch knows when to call `bwd`. When a module with full backward hooks is called, PyTorch puts a
# **gate** behind its output: a node in the graph that passes on what it gets, values and gradients, and calls the
# hooks when a gradient comes by. (It is the identity function of lesson 7.) If an input requires grad, PyTorch puts a
# second gate in front of the module. The gradient reaches the gate at the output first, and `bpre` fires. It leaves
# through the gate at the input, and `bwd` fires.
#
# If no input requires grad, no gradient will ever leave the module on that side, so there is no second gate, and no
# later moment to wait for. PyTorch calls `bwd` at once, at the gate of the output, right after `bpre`.

# %% [markdown]
# The gates have a price, which you know from lesson 7: nothing may change in place what has just come through one. An
# `nn.ReLU(inplace=True)` behind a hooked layer raises an error.

# %% tags=["figure"]
figure, axes = card(8.6, 4.4)
for top, needs in ((3.2, True), (1.15, False)):
    title = "x requires grad: two gates" if needs else "x requires no grad: one gate"
    caption(axes, 0.3, top + 0.95, title, size=11)
    node(axes, 0.9, top, "x", kind="leaf" if needs else "plain", width=0.7)
    node(axes, 4.2, top, "the module", kind="plain", width=1.7)
    node(axes, 6.4, top, "gate", kind="hook", width=0.8)
    node(axes, 7.9, top, "output", kind="non-leaf", width=0.9)
    if needs:
        node(axes, 2.3, top, "gate", kind="hook", width=0.8)
        arrow(axes, (2.7, top + 0.12), (3.35, top + 0.12))
        arrow(axes, (3.35, top - 0.12), (2.7, top - 0.12), backward=True)
        arrow(axes, (1.25, top + 0.12), (1.9, top + 0.12))
        arrow(axes, (1.9, top - 0.12), (1.25, top - 0.12), backward=True)
        caption(
            axes, 2.3, top - 0.5, "2: bwd fires here", colour=BACKWARD, align="center"
        )
    else:
        arrow(axes, (1.25, top), (3.35, top))
        caption(
            axes,
            2.3,
            top - 0.5,
            "no gradient comes this way",
            colour=QUIET,
            align="center",
        )
    arrow(axes, (5.05, top + 0.12), (6.0, top + 0.12))
    arrow(axes, (6.0, top - 0.12), (5.05, top - 0.12), backward=True)
    arrow(axes, (6.8, top + 0.12), (7.45, top + 0.12))
    arrow(axes, (7.45, top - 0.12), (6.8, top - 0.12), backward=True)
    where = "1: bpre fires here" if needs else "1: bpre fires here, 2: bwd at once"
    caption(axes, 6.4, top - 0.5, where, colour=BACKWARD, align="center")
caption(axes, 0.3, 0.22, "Blue arrows: values. Orange arrows: gradients.", size=9.5)
show(
    figure,
    "Two diagrams. Above, x requires grad: values flow from x through a gate, the "
    "module and another gate to the output; gradients flow back the same way. At the "
    "gate behind the module bpre fires first; at the gate in front of it bwd fires "
    "second. Below, x requires no grad: there is only the gate behind the module. "
    "There bpre fires first, and bwd fires at once after it. No gradient goes back to "
    "x.",
)

# %% [markdown]
# That `bwd` can come so early has consequences. It is tempting to read `module.weight.grad` in a full backward hook.
#
# **Predict.** A full backward hook looks at `layer.weight.grad`. Does it find a gradient if the input requires grad?
# And if the input does not? Write `True` or `False` for each.

# %%
guess("08-weight-grad-in-hook", requires_grad=True, requires_no_grad=False)

# %%
# from here on we know
warnings.filterwarnings("ignore", message="Full backward hook is firing")


def where_weight_grad_is(needs_grad):
    """Two hooks, in the order in which they fire, and whether each finds the
    gradient of the weight.
    """
    layer = nn.Linear(2, 2)
    found = {}
    layer.register_full_backward_hook(
        lambda module, *_: found.update(bwd=module.weight.grad is not None)
    )
    layer.weight.register_post_accumulate_grad_hook(
        lambda p: found.update(post_acc=p.grad is not None)
    )
    layer(torch.ones(1, 2, requires_grad=needs_grad)).sum().backward()
    return found


with_grad, without_grad = where_weight_grad_is(True), where_weight_grad_is(False)
print("x requires grad:   ", with_grad)
print("x requires no grad:", without_grad)
compare(
    "08-weight-grad-in-hook",
    requires_grad=with_grad["bwd"],
    requires_no_grad=without_grad["bwd"],
)
assert list(with_grad.items()) == [("post_acc", True), ("bwd", True)]
assert list(without_grad.items()) == [("bwd", False), ("post_acc", True)]

# %% [markdown] explains="08-weight-grad-in-hook"
# If the input requires no grad, `bwd` comes before the gradient of the weight, and the hook finds `None`. If it
# requires grad, the gradient of the weight is there. But no rule promises that: `bwd` waits for the gradients of the
# *inputs*, not for those of the parameters. If you need the `.grad` of a parameter, use a post-accumulate-grad hook
# (lesson 4). It finds the gradient in both cases.

# %% [markdown]
# If you need the `bwd` of every module in its natural place, to measure times for example, make the input require grad.
# This costs one more gradient, that of the input.
#
# There is a third case. `net` is now `nn.Sequential(nn.Tanh(), nn.Linear(2, 1))`, whose parts are called `0` and `1`.
# It receives an `x` that requires no grad.
#
# **Predict.** What are the events of backward, in order?

# %%
guess("08-tanh-first", order=["net.bpre", "net.bwd", "1.bpre", "1.bwd"])

# %%
events = []
model = nn.Sequential(nn.Tanh(), nn.Linear(2, 1))
watch(model, "net", events)
watch(model[0], "0", events)
watch(model[1], "1", events)
out = model(torch.ones(1, 2))
events.clear()
out.sum().backward()
print("in the order of the calls:", events)
compare("08-tanh-first", order=events)
assert events == ["net.bpre", "net.bwd", "1.bpre", "1.bwd"]

# %% [markdown] explains="08-tanh-first"
# The tanh is missing. Its *output* requires no grad, so no gradient ever arrives there, and it has no backward events.
# That happens to a module without parameters, or with frozen ones, at the start of a network.
#
# The three cases in one table. "Input" and "output" are the tensors that enter and leave one call of one module. An
# inner module has its own: `inner.act` gets what `inner.fc` made, and that requires grad even if `x` does not.
#
# | input requires grad | output requires grad | backward events of this call |
# |---|---|---|
# | yes | yes | `bpre`, then all that is inside, then `bwd`, if a gradient reaches the input |
# | no | yes | `bpre`, `bwd`, then all that is inside |
# | no | no | none |
#
# "If a gradient reaches the input": a module that computes `self.weight * (x > 0)` has an output that requires grad,
# and `x > 0` has no derivative. No gradient passes the gate at the input, and `bwd` never fires (lesson 7).


# %%
class Positive(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(2))

    def forward(self, x):
        return self.weight * (x > 0)


events = []
model = Positive()
watch(model, "net", events)
out = model(torch.ones(1, 2, requires_grad=True))
events.clear()
out.sum().backward()
print("in the order of the calls:", events)
assert events == ["net.bpre"]

# %% [markdown]
# ## Several hooks on one module
#
# So far each module has had one hook of each kind. With several, three rules apply. You know two of them from lesson 6:
# hooks run in the order of registration, and `prepend=True` puts a hook in front of those that are on the module
# already.
#
# The third is about **global hooks**, and you will find it yourself. Global hooks belong to no module and fire for
# every module in the process. The functions that register them are in `torch.nn.modules.module`:
#
# - `register_module_forward_pre_hook`
# - `register_module_forward_hook`
# - `register_module_full_backward_pre_hook`
# - `register_module_full_backward_hook`
#
# A global hook receives the module, so it knows which one it was called for.
#
# **Predict.** A global forward hook notes the type of each module. What does it note, in order, for
# `nn.Sequential(nn.Linear(2, 2), nn.ReLU())`? Write a list of names, such as `["Linear"]`.

# %%
guess("08-global-hook", noted=["Linear", "ReLU", "Sequential"])

# %%
events = []
model = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
with register_module_forward_hook(
    lambda module, *_: events.append(type(module).__name__)
):
    model(torch.ones(1, 2))
model(torch.ones(1, 2))
print("the global hook noted:", events)
compare("08-global-hook", noted=events)
assert events == ["Linear", "ReLU", "Sequential"]

# %% [markdown] explains="08-global-hook"
# Containers are modules, too: the `Sequential` comes last, because its call ends last.

# %% [markdown]
# Mind the `with`. A global hook that is left behind fires for every module that runs later in this process, in your
# model and in all others. (Above, the model ran once more after the `with`, and nothing was noted.) Keep its handle,
# and use it as a context manager wherever you can.
#
# What if a module has hooks of all three sorts: a global one (G), one that was prepended (P) and one that was appended
# (A)? And in backward, where the modules are visited in the reverse order: are the hooks of *one* module reversed as
# well? Write down what you think, and let the check tell you. Or let your function measure the order; then make sure
# that it leaves none of its hooks behind. (PyTorch also remembers, in a flag, that there were global full backward
# hooks. That is no hook and does not count.)


# %% exercise="08-predict-module-order"
def predict_module_order():
    """The twelve labels in the order in which the hooks fire."""
    ### BEGIN SOLUTION
    return [
        f"{hook}.{kind}"
        for kind in ("pre", "fwd", "bpre", "bwd")
        for hook in ("G", "P", "A")
    ]
    ### END SOLUTION


# %% [markdown]
# ## One level deeper: the nodes
#
# Backward knows nothing of modules. It walks a graph of **nodes**, and each node is one operation. The node of a
# non-leaf tensor is its `grad_fn`. A leaf has a node as well, which adds the arriving gradient to `.grad`. It is
# called `AccumulateGrad`, and `get_gradient_edge(x).node` returns it.

# %%
x = torch.tensor([1.0], requires_grad=True)
y = 3 * x
print("node of y:", y.grad_fn.name())
print("node of x:", get_gradient_edge(x).node.name())
assert y.grad_fn.name() == "MulBackward0"
assert get_gradient_edge(x).node.name() == "torch::autograd::AccumulateGrad"

# %% [markdown]
# Nodes have hooks, too. Here they tell us about the order; lesson 12 does more with them.
#
# - `node.register_prehook(fn)` calls `fn(grad_outputs)` before the node runs.
# - `node.register_hook(fn)` calls `fn(grad_inputs, grad_outputs)` after the node has run.
#
# Both receive tuples. `grad_outputs` are the gradients that arrive at the node, `grad_inputs` are those that it
# computed. A pre-hook may return a tuple that replaces `grad_outputs`, and a hook may return one that replaces
# `grad_inputs`. The hooks of a *tensor* work on its gradient before it goes into the node.
#
# **Predict.** The gradient 5 arrives at `y = 3 * x`. A pre-hook of the node multiplies by 100. A tensor hook, which is
# registered later, adds 1. Does 600 or 501 arrive at the node?

# %%
guess("08-tensor-hook-or-node", arrived=600)

# %%
x = torch.tensor([1.0], requires_grad=True)
y = 3 * x
seen = {}


def after(grad_inputs, grad_outputs):
    seen["arrived"], seen["computed"] = grad_outputs[0].item(), grad_inputs[0].item()


y.grad_fn.register_hook(after)
y.grad_fn.register_prehook(lambda grad_outputs: (grad_outputs[0] * 100,))
y.register_hook(lambda grad: grad + 1)
(5 * y).backward()
print("arrived at the node:", seen["arrived"], "  computed by it:", seen["computed"])
compare("08-tensor-hook-or-node", arrived=seen["arrived"])
assert seen == {"arrived": 600, "computed": 1800} and x.grad.item() == 1800

# %% [markdown] explains="08-tensor-hook-or-node"
# 600 is `(5 + 1) * 100`. The tensor hook ran first, then the pre-hook of the node, then the node (times 3), and then
# its hook, which saw both numbers.
#
# The order of registration does not matter here. It decides only between hooks of the *same* kind.

# %% [markdown]
# One trap: hold on to the node of a leaf. If no variable refers to it and no graph uses it yet, it is thrown away, and
# your hook with it. Of the two hooks below, only one is called.

# %%
calls = []
x = torch.tensor([1.0], requires_grad=True)
get_gradient_edge(x).node.register_hook(
    lambda grad_inputs, grad_outputs: calls.append("dropped")
)
(2 * x).backward()
assert calls == []
held = get_gradient_edge(x).node
held.register_hook(lambda grad_inputs, grad_outputs: calls.append("held"))
(2 * x).backward()
print("called:", calls)
assert calls == ["held"]


# %% [markdown]
# Two events still need a place: the moment at which `retain_grad` writes the `.grad` of a non-leaf, and the
# post-accumulate-grad hook of a leaf. Think first, then measure: with hooks that add 1 and multiply by 100, the number
# in `.grad` tells you which of them had run before it was written.


# %% exercise="08-predict-autograd-order"
def predict_autograd_order(kind):
    """The four labels of this kind in the order in which the events happen."""
    ### BEGIN SOLUTION
    if kind == "non-leaf":
        return ["tensor", "retain_grad", "node_pre", "node_post"]
    if kind == "leaf":
        return ["tensor", "node_pre", "post_acc", "node_post"]
    raise ValueError(f"kind is 'leaf' or 'non-leaf', not {kind!r}")
    ### END SOLUTION


# %% [markdown]
# ## A module that is called twice
#
# One `nn.Linear` with the weight 3 and no bias is called twice: `lin(lin(x))` with `x = 2`. A forward hook notes each
# output, a full backward hook each `grad_input`, and a tensor hook on the weight each gradient.
#
# **Predict.** Which numbers does each hook note, and in which order? Write a list for each, with one number for each
# time that the hook is called.

# %%
guess("08-called-twice", forward=[6, 18], backward=[3, 9], weight=[12])

# %%
lin = nn.Linear(1, 1, bias=False)
nn.init.constant_(lin.weight, 3.0)
outputs, leaving, at_weight = [], [], []
lin.register_forward_hook(lambda module, args, output: outputs.append(output.item()))
lin.register_full_backward_hook(
    lambda module, grad_input, grad_output: leaving.append(grad_input[0].item())
)
lin.weight.register_hook(lambda grad: at_weight.append(grad.item()))
x = torch.tensor([[2.0]], requires_grad=True)
lin(lin(x)).sum().backward()
print("forward hook: ", outputs)
print("backward hook:", leaving)
print("weight hook:  ", at_weight)
compare("08-called-twice", forward=outputs, backward=leaving, weight=at_weight)
assert outputs == [6, 18] and leaving == [3, 9] and at_weight == [12]

# %% [markdown] explains="08-called-twice"
# The forward hook sees 6, then 18: the order of the calls. The backward hook sees 3, which leaves the *second* call,
# and then 9, which leaves the first. Module hooks fire once for each call. The hook on the weight fires only once,
# with the sum over both calls: 6 from the second call plus 6 from the first.

# %% [markdown]
# Now build the instrument itself: a tracer for any model. `watch` has to be called for each module, and never removes
# its hooks. Your tracer finds all modules, and leaves nothing behind.


# %% exercise="08-trace-events"
def trace_events(model, x):
    """The events of all modules during one `model(x).sum().backward()`."""
    ### BEGIN SOLUTION
    kinds = {
        "fpre": "register_forward_pre_hook",
        "fwd": "register_forward_hook",
        "bpre": "register_full_backward_pre_hook",
        "bwd": "register_full_backward_hook",
    }
    events, handles = [], []
    try:
        for name, module in model.named_modules():
            for kind, register in kinds.items():
                event = f"{name or 'net'}.{kind}"
                handles.append(
                    getattr(module, register)(
                        lambda *args, event=event: events.append(event)
                    )
                )
        model(x).sum().backward()
    finally:
        for handle in handles:
            handle.remove()
    return events
    ### END SOLUTION


# %% [markdown]
# ## A profiler
#
# How long does the backward pass of each module take? Read a clock at `bpre` and at `bwd`: everything inside the module
# happens between the two. But you have seen what happens when the input requires no grad, as in ordinary training:
# `bwd` fires right after `bpre`, as if the model took no time at all. And a profiler should not change its users'
# data. What can you hand to the model instead of `x`, so that `x` stays as it is?
#
# Others may have hooks on a module, too, and these may be slow. What do you know about the order of hooks of one kind?


# %% exercise="08-backward-times"
def backward_times(model, x, clock):
    """Seconds of the backward pass for each module, with all that is inside it."""
    ### BEGIN SOLUTION
    names = {module: name or "net" for name, module in model.named_modules()}
    times = dict.fromkeys(names.values(), 0.0)
    started, handles = {}, []

    def start(module, grad_output):
        started[module] = clock()

    def stop(module, grad_input, grad_output):
        times[names[module]] += clock() - started[module]

    try:
        for module in names:
            # after all pre-hooks that are there
            handles.append(module.register_full_backward_pre_hook(start))
            # before all hooks that are there
            handles.append(module.register_full_backward_hook(stop, prepend=True))
        model(x if x.requires_grad else x.detach().requires_grad_()).sum().backward()
    finally:
        for handle in handles:
            handle.remove()
    return times
    ### END SOLUTION


# %% [markdown]
# ## Checkpointing
#
# `torch.utils.checkpoint.checkpoint(model, x, use_reentrant=False)` saves memory. It runs the model without keeping
# what backward will need, and when backward needs it, it runs the forward part of the model again. This second run is
# the **recomputation**. It stops as soon as it has all that backward needs. (A linear layer needs its input, a tanh its
# output: lesson 6.)
#
# **Predict.** The model has three modules in a row: a linear layer, a tanh, and another linear layer. How often is the
# forward hook of the first called, in forward and backward together? How often is the full backward hook of each
# called? And one of the three forward hooks is called less often than the others: `"first"`, `"second"` or `"third"`?

# %%
guess("08-recomputation", first_fwd=2, each_bwd=1, less_often="third")

# %%
events = []
model = nn.Sequential(nn.Linear(2, 2), nn.Tanh(), nn.Linear(2, 1))
for name, module in model.named_children():
    module.register_forward_hook(lambda *args, name=name: events.append(f"{name}.fwd"))
    module.register_full_backward_pre_hook(
        lambda *args, name=name: events.append(f"{name}.bpre")
    )
    module.register_full_backward_hook(
        lambda *args, name=name: events.append(f"{name}.bwd")
    )
out = checkpoint(model, torch.ones(1, 2, requires_grad=True), use_reentrant=False)
in_forward = list(events)
events.clear()
out.sum().backward()
print("forward: ", in_forward)
print("backward:", events)
times = [
    (in_forward + events).count(f"{name}.fwd") for name, _ in model.named_children()
]
each = [events.count(f"{name}.bwd") for name, _ in model.named_children()]
less_often = ["first", "second", "third"][times.index(min(times))]
compare(
    "08-recomputation", first_fwd=times[0], each_bwd=max(each), less_often=less_often
)

# %% tags=["figure"]
assert in_forward == ["0.fwd", "1.fwd", "2.fwd"] and times == [2, 2, 1]
assert events == [
    "2.bpre",
    "0.fwd",
    "1.fwd",
    "2.bwd",
    "1.bpre",
    "1.bwd",
    "0.bpre",
    "0.bwd",
] and each == [1, 1, 1]
# a hook that doubles must stay until backward has run, or the second layer gets half of
# its gradient
assert [
    round(
        [
            doubles := pair[0].register_forward_hook(
                lambda module, args, output: 2 * output
            ),
            answer := checkpoint(pair, torch.ones(1, 1), use_reentrant=False),
            stays or doubles.remove(),
            answer.backward(),
            doubles.remove(),
            pair[1].weight.grad.item() / pair[0](torch.ones(1, 1)).item(),
        ][-1],
        3,
    )
    for stays in (True, False)
    for pair in [nn.Sequential(nn.Linear(1, 1), nn.Linear(1, 1))]
] == [2, 1]
lanes = {"checkpoint(model, x)": FORWARD, "backward()": BACKWARD}
rows = [(event, "checkpoint(model, x)") for event in in_forward]
for event in events:
    again = event.endswith(".fwd")
    rows.append(
        (f"      {event} (recomputation)", "backward()", FORWARD)
        if again
        else (event, "backward()")
    )
show(
    timeline(
        rows,
        title="Checkpointing: the forward hooks of modules 0 and 1 fire twice",
        lanes=lanes,
    ),
    "Timeline in two columns. During checkpoint(model, x): 1 0.fwd, 2 1.fwd, 3 2.fwd. "
    "During backward(): 4 2.bpre, then, still in backward(), the recomputation with 5 "
    "0.fwd and 6 1.fwd, then 7 2.bwd, 8 1.bpre, 9 1.bwd, 10 0.bpre, 11 0.bwd.",
)

# %% [markdown] explains="08-recomputation"
# The forward hooks of modules 0 and 1 fire twice, the second time in the middle of backward. The backward hooks fire
# once. So under checkpointing a list of activations that a forward hook fills gets too many entries, and a counter
# counts too many calls.
#
# `2.fwd` is missing in the recomputation: the last tensor that backward needs is the input of module 2. The
# recomputation stops inside module 2, so the call of module 2 is never completed, and its forward hook does not fire again. In a
# larger model that is hard to foresee, so count calls rather than compute their number.

# %% [markdown]
# A hook that *changes* the output has to be there both times. If it was removed before `backward()`, for example at the
# end of a `with` block, the recomputation is that of another model: the gradients are wrong, and often nothing is raised.
#
# What about a layer that is different each time, such as dropout?
#
# **Predict.** A forward hook on a dropout layer keeps its outputs, one from the forward pass and one from the
# recomputation. Are the two equal? Write `True` or `False`.

# %%
guess("08-dropout-twice", equal=True)

# %%
kept = []
model = nn.Sequential(nn.Dropout(0.5), nn.Linear(8, 1))
model[0].register_forward_hook(
    lambda module, args, output: kept.append(output.detach().clone())
)
checkpoint(model, torch.ones(1, 8), use_reentrant=False).sum().backward()
print("what the hook kept in each of its two calls:", kept[0], kept[1], sep="\n")
compare("08-dropout-twice", equal=torch.equal(kept[0], kept[1]))
assert len(kept) == 2 and torch.equal(kept[0], kept[1])
assert any(
    checkpoint(model, torch.ones(1, 8), use_reentrant=False, preserve_rng_state=False)
    .sum()
    .backward()
    is None
    and not torch.equal(*kept[-2:])
    for _ in range(8)
)

# %% [markdown] explains="08-dropout-twice"
# The recomputation has to drop the same entries as the forward pass did, or the gradients would belong to another
# network. So `checkpoint` saves the state of the random number generator before the forward pass, and restores it for
# the recomputation. (`preserve_rng_state=False` switches that off.)


# %% exercise="08-count-hook-calls"
from torch.utils.checkpoint import checkpoint


def count_hook_calls(model, x, n, ckpt):
    """How often a forward hook and a full backward hook on model[0] are called in n
    passes.
    """
    ### BEGIN SOLUTION
    calls = {"fwd": 0, "bwd": 0}

    def on_forward(module, args, output):
        calls["fwd"] += 1

    def on_backward(module, grad_input, grad_output):
        calls["bwd"] += 1

    first = model[0]
    with (
        first.register_forward_hook(on_forward),
        first.register_full_backward_hook(on_backward),
    ):
        for _ in range(n):
            out = checkpoint(model, x, use_reentrant=False) if ckpt else model(x)
            out.sum().backward()
    return calls
    ### END SOLUTION


# %% [markdown]
# ## The two orders, proved
#
# In two exercises you gave an order. Here is the proof of both.
#
# First the hooks of one module. `nn.Identity` returns what it gets. A local pre-hook adds 1, a global pre-hook
# multiplies by 10. The local one is registered first, and with `prepend=True`. The input is 2: the output is either
# (2 + 1) · 10 = 30 or 2 · 10 + 1 = 21.

# %%
layer = nn.Identity()
layer.register_forward_pre_hook(lambda module, args: args[0] + 1, prepend=True)
with register_module_forward_pre_hook(lambda module, args: args[0] * 10):
    out = layer(torch.tensor(2.0))
print("with the global hook:   ", out.item())
print("after the with block:   ", layer(torch.tensor(2.0)).item())
assert out.item() == 21 and layer(torch.tensor(2.0)).item() == 3

# %% [markdown]
# **Global hooks run before the hooks of the module**, whenever they were registered, and `prepend` does not change
# that. And in backward the hooks of one module are *not* reversed: the order is the same.

# %%
order = []
layer = nn.Linear(1, 1)
layer.register_full_backward_hook(lambda *_: order.append("appended"))
layer.register_full_backward_hook(lambda *_: order.append("prepended"), prepend=True)
with register_module_full_backward_hook(lambda *_: order.append("global")):
    layer(torch.ones(1, 1, requires_grad=True)).sum().backward()
print("in the order of the calls:", order)
assert order == ["global", "prepended", "appended"]
assert torch.nn.modules.module._global_is_full_backward_hook  # the flag stays

# %% [markdown]
# Now the events at one tensor. The gradient 5 arrives at `y`, which retains it, and at a leaf. A tensor hook adds 1, a
# pre-hook of the node multiplies by 100.

# %%
x = torch.tensor([1.0], requires_grad=True)
y = 3 * x
y.retain_grad()
y.grad_fn.register_prehook(lambda grad_outputs: (grad_outputs[0] * 100,))
y.register_hook(lambda grad: grad + 1)
(5 * y).backward()

leaf = torch.tensor([1.0], requires_grad=True)
accumulate = get_gradient_edge(leaf).node
accumulate.register_prehook(lambda grad_outputs: (grad_outputs[0] * 100,))
leaf.register_hook(lambda grad: grad + 1)
(5 * leaf).backward()

print("non-leaf:", y.grad.item(), "  leaf:", leaf.grad.item())
assert y.grad.item() == 6 and leaf.grad.item() == 600

# %% [markdown]
# They differ. The retained gradient of the non-leaf is written after the tensor hooks (6, not 5) and **before** the
# pre-hooks of the node (6, not 600). For a leaf, writing `.grad` is what its node does, so both hooks have run by
# then: 600.
#
# Here is the whole story of one gradient on its way through `y = 3 * x`. Each hook writes down what `.grad` holds when
# it is called. For `y` and for `x`, we set everything up in each of the 24 possible orders: the story stays the same.


# %%
def one_gradient(order):
    """Set everything up on y = 3 * x and on x in the given order; return the events
    of backward.
    """
    x = torch.tensor([1.0], requires_grad=True)
    y = 3 * x
    node_of_x = get_gradient_edge(x).node
    events = []

    def note(label, t):
        return lambda *_: events.append(
            (label, None if t.grad is None else t.grad.item())
        )

    on_y = [
        lambda: y.retain_grad(),
        lambda: y.register_hook(note("y: tensor", y)),
        lambda: y.grad_fn.register_prehook(note("y: node_pre", y)),
        lambda: y.grad_fn.register_hook(note("y: node_post", y)),
    ]
    on_x = [
        lambda: x.register_post_accumulate_grad_hook(note("x: post_acc", x)),
        lambda: x.register_hook(note("x: tensor", x)),
        lambda: node_of_x.register_prehook(note("x: node_pre", x)),
        lambda: node_of_x.register_hook(note("x: node_post", x)),
    ]
    for index in order:
        on_y[index]()
        on_x[index]()
    (5 * y).backward()
    return events


story = one_gradient([0, 1, 2, 3])
for event, value in story:
    print(f"{event:12}  .grad = {value}")
same = [one_gradient(order) == story for order in itertools.permutations([0, 1, 2, 3])]
print("\nthe same in", sum(same), "of", len(same), "orders of registration")
assert len(same) == 24 and all(same)
assert story == [
    ("y: tensor", None),
    ("y: node_pre", 5),
    ("y: node_post", 5),
    ("x: tensor", None),
    ("x: node_pre", None),
    ("x: post_acc", 15),
    ("x: node_post", 15),
]

# %% tags=["figure"]
show(
    timeline(
        [
            ("tensor hooks of y", "at the non-leaf y = 3x"),
            ("y.grad is written (retain_grad)", "at the non-leaf y = 3x"),
            ("pre-hooks of the node of y", "at the non-leaf y = 3x"),
            ("the node runs: 3 times 5 is 15", "at the non-leaf y = 3x"),
            ("hooks of the node of y", "at the non-leaf y = 3x"),
            ("tensor hooks of x", "at the leaf x"),
            ("pre-hooks of the node of x", "at the leaf x"),
            ("the node runs: x.grad += 15", "at the leaf x"),
            ("post-accumulate-grad hooks of x", "at the leaf x"),
            ("hooks of the node of x", "at the leaf x"),
        ],
        title="One gradient on its way through y = 3x",
        lanes={"at the non-leaf y = 3x": BACKWARD, "at the leaf x": BACKWARD},
    ),
    "Timeline of ten events. At the non-leaf y: 1 tensor hooks of y, 2 y.grad is "
    "written because of retain_grad, 3 pre-hooks of the node of y, 4 the node runs "
    "and makes 15 of 5, 5 hooks of the node of y. At the leaf x: 6 tensor hooks of x, "
    "7 pre-hooks of the node of x, 8 the node runs and adds 15 to x.grad, 9 "
    "post-accumulate-grad hooks of x, 10 hooks of the node of x.",
)

# %% [markdown]
# ## Myths
#
# **"Pre-hooks of the node run before the retained `.grad` is written."** PyTorch's own note says so ("Autograd
# mechanics", section "Backward Hooks execution": first tensor hooks, second the pre-hooks of the node, third the
# `.grad` of tensors that retain it). The engine does the second and the third in the other order. With a pre-hook that
# multiplies by 100, `y.grad` would have to be 500. It is 5, while 1500 arrives at `x`, so the pre-hook did run.

# %%
x = torch.tensor([1.0], requires_grad=True)
y = 3 * x
y.retain_grad()
y.grad_fn.register_prehook(lambda grad_outputs: (grad_outputs[0] * 100,))
(5 * y).backward()
print("y.grad:", y.grad.item(), "  x.grad:", x.grad.item())
assert y.grad.item() == 5 and x.grad.item() == 1500

# %% [markdown]
# The note and the engine disagree, and it is the engine that trains your model. When an order matters to you, keep a
# test with numbers like these: it will fail when a new version changes the order.
#
# **"Backward hooks run inside `__call__`."** They are only bound there. None of them fires before the call ends; they
# fire in `backward()`. And a module that is run through `module.forward(x)` binds none, because `forward` is only the
# inner part of the call.

# %%
events = []
layer = nn.Linear(2, 2)
watch(layer, "layer", events)
x = torch.ones(1, 2, requires_grad=True)
out = layer(x)
events.append("(the call is over)")
out.sum().backward()
print("through the call:", events)
assert events == [
    "layer.fpre",
    "layer.fwd",
    "(the call is over)",
    "layer.bpre",
    "layer.bwd",
]

events.clear()
layer.forward(x).sum().backward()
print("through forward:", events)
assert events == []

# %% [markdown]
# ## Recap
#
# First the two backward hooks of a module, then the events at one tensor and its node, in the order of backward:
#
# | call | the hook gets | when it fires | what it may return |
# |---|---|---|---|
# | `m.register_full_backward_pre_hook` | `module, grad_output` | at the output of `m` | new `grad_output` |
# | `m.register_full_backward_hook` | `module, grad_input, grad_output` | at the input of `m`\* | new `grad_input` |
# | `t.register_hook` | `grad` | first of all at `t` | a new gradient |
# | `t.retain_grad()` (no hook) | | writes `.grad` after the tensor hooks | |
# | `node.register_prehook` | `grad_outputs` | before the node runs | new `grad_outputs` |
# | `p.register_post_accumulate_grad_hook` | `p`, a leaf | its node has written `.grad` | only `None` |
# | `node.register_hook` | `grad_inputs, grad_outputs` | after the node has run | new `grad_inputs` |
#
# \* Right after the pre-hook, if no input of `m` requires grad. Never, if one does and no gradient reaches it.
#
# Between hooks of one kind on one module: first the global ones (`register_module_forward_hook` and its three
# relatives, with the same signatures), then the prepended, then the appended; in forward and in backward.
#
# ## Where you meet this in the wild
#
# - **Profilers.** A profiler that opens a span at `bpre` and closes it at `bwd` gets nested spans if the input requires
#   grad, and wrong ones if not, unless it does what yours does. See
#   [issue 100528 of PyTorch](https://github.com/pytorch/pytorch/issues/100528).
# - **Sharded training (FSDP).** A block's parameters have to be collected from all machines before its backward runs.
#   FSDP records the order of forward, and fetches the next block's parameters in the reverse order.
# - **Distributed data parallel (DDP).** It waits for the gradient of each parameter at the parameter's own node, and
#   sends gradients away in buckets. The buckets are filled from the last parameters to the first, because that is
#   roughly the order in which backward finishes them.
#
# Next: lesson 9, where forward hooks give you feature maps: numbers first, then pictures.

# %%
progress()
