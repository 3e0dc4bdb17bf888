# %% [markdown]
# # Lesson 12. Beyond modules
#
# **The question.** How do I reach what no module hook sees?
#
# **The goal.** You can hook several gradients together, a node of the graph, the tensors that autograd keeps for
# backward, and every module of the process. And you can count how much memory and work a model needs.
#
# Forward and backward hooks belong to modules. Tensor hooks belong to tensors that you have in a variable. A lot happens
# in between: a `relu` that is only a function, a tensor that only autograd keeps. This lesson is about the hooks that
# reach those places.
#
# It is long. Take it in **two sittings**; the break is marked. The appendix is for the curious, and no exercise needs it.
# As always: guess, run, read on.

# %%
import gc
import weakref
from contextlib import nullcontext

import torch
import torch.nn.functional as F
from torch import fx, nn
from torch.autograd.graph import (
    get_gradient_edge,
    register_multi_grad_hook,
    save_on_cpu,
    saved_tensors_hooks,
)
from torch.func import functional_call
from torch.nn.modules.module import (
    register_module_forward_hook,
    register_module_parameter_registration_hook,
)
from torch.utils.flop_counter import FlopCounterMode

from graders import check, compare, guess, hint, progress, replay, solution
from graders.figures import BACKWARD, FORWARD, QUIET, arrow, caption, card, node, show
from graders.nets import resnet34

# Small tensors: one thread is fastest, and on a shared machine many wait for each
# other.
torch.set_num_threads(1)
print("PyTorch", torch.__version__)

# %% [markdown]
# ## Who sees what
#
# This network multiplies by weights three times, and applies relu once.


# %%
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(2, 2)
        self.second = nn.Linear(2, 2)
        self.more = [nn.Linear(2, 1)]

    def forward(self, x):
        h = F.relu(self.first(x))
        h = self.second.forward(h)
        return self.more[0](h)


# %% [markdown]
# **Predict.** We put a forward hook on each module in `net.named_modules()` and run the network once. Which hooks fire,
# and in which order? Write a list of some of `"first"`, `"second"`, `"more.0"`, `"net"` (the network itself).

# %%
guess("12-which-fire", fired=["first", "net"])

# %%
net = Net()
fired = []
handles = [
    module.register_forward_hook(
        lambda module, args, output, name=name: fired.append(name or "net")
    )
    for name, module in net.named_modules()
]
net(torch.ones(1, 2))
for handle in handles:
    handle.remove()
print("fired:", fired)
compare("12-which-fire", fired=fired)
assert fired == ["first", "net"]

# %% [markdown] explains="12-which-fire"
# Three operations are missing. `F.relu` is a function, not a module. `self.second.forward(h)` runs the layer but does
# not call the module, and hooks belong to the call. And `more` is a plain list, not an `nn.ModuleList`: its layer is not
# among the modules of `net`, so it got no hook. All three can be reached some other way.

# %% [markdown]
# Here is the plan of this lesson:
#
# | what you want to see | where to put the hook |
# |---|---|
# | several gradients of one pass, together | on a group of tensors: a multi-grad hook |
# | a function such as `F.relu`, in backward | on its node in the graph |
# | what autograd keeps in memory | on the saving: hooks on saved tensors |
# | modules that you cannot list | on all modules of the process: a global hook |
#
# ## One hook for several tensors
#
# A tensor hook gets one gradient. Some questions need several at once: the joint norm of all gradients, or the cosine
# between the gradients of two layers. With one hook per tensor, you would have to find out which gradient of the pass
# is the last. `register_multi_grad_hook(tensors, fn)` does this for you. It calls `fn` once for each backward pass, when
# all gradients have arrived, with a list of them in the order of `tensors`.
#
# **Predict.** The hook is on `a`, `b` and `c`, but the loss uses only `a` and `b`. How often is the hook called in this
# pass? If it is called, what does it get for `c`: `None`, `"zeros"`, or `"nothing"` (the list has two entries)?

# %%
guess("12-three-tensors", calls=1, for_c=None)

# %%
a, b, c = (torch.ones(2, requires_grad=True) for _ in range(3))
calls = []
handle = register_multi_grad_hook(
    [a, b, c],
    lambda grads: calls.append([g if g is None else g.tolist() for g in grads]),
)
(2 * a + 3 * b).sum().backward()
print("calls:", calls)
compare("12-three-tensors", calls=len(calls), for_c=calls[0][2])
assert calls == [[[2, 2], [3, 3], None]]

(4 * c).sum().backward()
print("the next pass uses only c:", calls[1:])
assert calls[1] == [None, None, [4, 4]]
(5 * torch.ones(1, requires_grad=True)).backward()
print("calls after a pass that reaches none of the three:", len(calls))
assert len(calls) == 2
handle.remove()
(2 * a).sum().backward()
print("calls after remove() and one more pass:", len(calls))
assert len(calls) == 2

# %% [markdown] explains="12-three-tensors"
# It is called once for each pass that reaches at least one of the tensors. A tensor that the pass does not reach has
# `None` in the list.

# %% [markdown]
# PyTorch knows before the pass starts which of the tensors it will reach, so it knows how many gradients to wait for.
# (This goes for `backward()`. `torch.autograd.grad` raises when you ask it for the gradient of a leaf among the
# tensors.) With `mode="any"` it does not wait: `fn` is called with the first gradient that arrives, and gets that one
# tensor, not a list.

# %%
first_ones = []
handle = register_multi_grad_hook(
    [a, b], lambda grad: first_ones.append(grad.tolist()), mode="any"
)
(2 * a + 3 * b).sum().backward()
handle.remove()
print("the first to arrive:", first_ones)
assert len(first_ones) == 1 and first_ones[0] in ([2, 2], [3, 3])

with register_multi_grad_hook([a, b], print):
    try:
        torch.autograd.grad((2 * a).sum(), a)
    except RuntimeError as error:
        print("RuntimeError:", str(error)[:99], "...")
        assert "A leaf node was passed" in str(error)


# %% exercise="12-joint-norm-log"
def joint_norm_log(tensors):
    """A list of the joint gradient norm of each pass, which a hook keeps filling,
    and its handle.
    """
    ### BEGIN SOLUTION
    log = []

    def hook(grads):
        squares = [grad.square().sum().item() for grad in grads if grad is not None]
        log.append(sum(squares) ** 0.5)

    return log, register_multi_grad_hook(tensors, hook)
    ### END SOLUTION


# %% [markdown]
# ## The nodes of the graph
#
# Each operation in forward leaves a **node** in the graph. The node is the backward side of the operation: it takes the
# gradient of the operation's output and computes the gradients of its inputs.
#
# - `y.grad_fn` is the node that made `y`. Its `name()` is the name of the operation with `Backward0` at the end.
# - `node.next_functions` has one pair for each input of the operation. The first part of the pair is the node where
#   the gradient of this input goes next, or `None` if the input requires no grad.
# - A leaf that requires grad has a node called `AccumulateGrad`, which adds to its `.grad`.
#
# So from `y.grad_fn` you can walk to every operation, whether a module ran it or not.

# %%
w, x = torch.tensor(3.0, requires_grad=True), torch.tensor(2.0, requires_grad=True)
h = w * x  # 6
y = F.relu(h) + h.square()  # 6 + 36

add = y.grad_fn
relu, power = (after for after, _ in add.next_functions)
multiply = relu.next_functions[0][0]
for one in (add, relu, power, multiply):
    print(f"{one.name():14} next: {[after.name() for after, _ in one.next_functions]}")
print("relu and power lead to the same node:", power.next_functions[0][0] is multiply)
assert power.next_functions[0][0] is multiply  # both branches come to the same node
assert [one.name() for one in (add, relu, power, multiply)] == [
    *("AddBackward0", "ReluBackward0", "PowBackward0", "MulBackward0"),
]

# %% [markdown]
# ### A walk through the whole graph
#
# How do you visit *every* node? Keep a list of nodes to visit, take one out, and put its next nodes in. Watch out for two
# things. Branches meet again, so keep a **set** of the nodes that you have visited, or you will visit some twice. And do
# not write the walk as a function that calls itself: a graph can have thousands of nodes in a row, and Python does not
# nest calls that deep.
#
# **Predict.** The walk starts at `y.grad_fn`. How many nodes does it visit, those of the leaves included?

# %%
guess("12-walk", nodes=6)

# %%
visited, to_visit = set(), [y.grad_fn]
while to_visit:
    one = to_visit.pop()
    if one is None or one in visited:
        continue
    visited.add(one)
    to_visit += [after for after, _ in one.next_functions]
print(len(visited), "nodes:", sorted(one.name().split("::")[-1] for one in visited))
compare("12-walk", nodes=len(visited))
assert len(visited) == 6

# %% [markdown] explains="12-walk"
# Six: the four operations, the sum, the ReLU, the square and the product, and one node for each of the leaves `w` and
# `x`. The ReLU and the square both lead to the product, which the set keeps from being visited twice.

# %% [markdown]
# ### Hooks on a node
#
# Lesson 8 watched a node with two kinds of hooks:
#
# - `node.register_prehook(fn)`: `fn(grad_outputs)` is called before the node works. `grad_outputs` is a tuple with the
#   gradients that *arrive* at the node, one for each output of the operation.
# - `node.register_hook(fn)`: `fn(grad_inputs, grad_outputs)` is called after it. `grad_inputs` is a tuple with the
#   gradients that *leave* the node, one for each input of the operation.
#
# **Predict.** `h = w * x` is 6 (`w` is 3, `x` is 2), and `y = F.relu(h) + h.square()`. Which gradient arrives at the
# multiplication, the node of `h`? Which two leave it, for `w` and for `x`? Write a number and a list of two.

# %%
guess("12-multiply", arrives=13, leave=[26, 39])

# %%
records = {}
for one in (add, relu, power, multiply):
    name = one.name()

    def keep(grad_inputs, grad_outputs, name=name):
        records[name] = (
            [g.item() for g in grad_outputs],
            [g.item() for g in grad_inputs],
        )

    one.register_hook(keep)
y.backward()
for name, (arriving, leaving) in records.items():
    print(f"{name:14} arrives: {arriving}   leaves: {leaving}")
compare(
    "12-multiply", arrives=records["MulBackward0"][0], leave=records["MulBackward0"][1]
)

# %% tags=["figure"]
assert records == {
    "AddBackward0": ([1], [1, 1]),
    "ReluBackward0": ([1], [1]),
    "PowBackward0": ([1], [12]),
    "MulBackward0": ([13], [26, 39]),
}
assert (w.grad.item(), x.grad.item()) == (26, 39)

figure, axes = card(9.0, 4.0)
node(axes, 1.1, 3.0, "w = 3", kind="leaf", below="w.grad = 26", width=1.1)
node(axes, 1.1, 1.3, "x = 2", kind="leaf", below="x.grad = 39", width=1.1)
node(
    axes,
    3.4,
    2.15,
    "MulBackward0",
    kind="non-leaf",
    below="arrives: 1 + 12 = 13",
    width=1.5,
)
node(
    axes,
    5.9,
    3.0,
    "ReluBackward0",
    kind="non-leaf",
    note="no module made this one",
    below="arrives: 1",
    width=1.5,
)
node(axes, 5.9, 1.3, "PowBackward0", kind="non-leaf", below="arrives: 1", width=1.5)
node(
    axes,
    8.0,
    2.15,
    "AddBackward0",
    kind="loss",
    note="y.grad_fn",
    below="arrives: 1",
    width=1.5,
)
for start, end, number in (
    ((7.2, 2.35), (6.7, 2.95), "1"),
    ((7.2, 1.95), (6.7, 1.4), "1"),
    ((5.1, 2.95), (4.2, 2.35), "1"),
    ((5.1, 1.4), (4.2, 1.95), "12"),
    ((2.6, 2.35), (1.7, 2.95), "26"),
    ((2.6, 1.95), (1.7, 1.4), "39"),
):
    arrow(axes, start, end, label=number, backward=True)
caption(
    axes,
    0.3,
    0.3,
    "Arrows follow next_functions, from y to the leaves; the numbers on them are "
    "gradients.",
    size=9.5,
)
show(
    figure,
    "Graph of y = relu(h) + h squared with h = w times x, from right to left. At "
    "AddBackward0, which is y.grad_fn, 1 arrives. It sends 1 to ReluBackward0 and 1 "
    "to PowBackward0. ReluBackward0, which no module made, sends 1 on, and "
    "PowBackward0 sends 12. Both go to MulBackward0, where 1 + 12 = 13 arrives. "
    "MulBackward0 sends 26 to w = 3 and 39 to x = 2, where they become w.grad and "
    "x.grad.",
)

# %% [markdown] explains="12-multiply"
# 13 arrives at the multiplication: 1 from `relu` and 12 from `square`. **What arrives at a node is complete.** The node
# waits until the gradients of all uses are there, and gets their sum. One gradient for each input leaves it: 13 times
# `x` for `w`, 13 times `w` for `x`.

# %% [markdown]
# Both hooks may also change gradients. A pre-hook returns a new tuple of `grad_outputs`, a hook returns a new tuple of
# `grad_inputs`, and `None` keeps the old ones. As always, compute new tensors, and do not edit those that you get.

# %%
w.grad = x.grad = None
product = w * x
product.grad_fn.register_prehook(lambda grad_outputs: (10 * grad_outputs[0],))
product.grad_fn.register_hook(
    lambda grad_inputs, grad_outputs: (grad_inputs[0], 0 * grad_inputs[1])
)
product.backward()
print("w.grad:", w.grad.item(), "  x.grad:", x.grad.item())
assert (w.grad.item(), x.grad.item()) == (20, 0)

# %% [markdown]
# The pre-hook turns the gradient 1 into 10, so 20 leaves for `w` and 30 for `x`. Then the hook replaces the 30 by 0.
#
# A hook on a node lives as long as the node, and that is as long as the graph. A training loop builds a new graph for
# each batch, so you have to register the hook again each time.
#
# But a leaf stays when its graph goes. What about its node, `AccumulateGrad`? We walk to the node of `p` through the
# graph of `p * 1`, register a hook there, and throw this graph away.
#
# **Predict.** Does the hook fire in `(p * 2).backward()`? Write `True` or `False`.

# %%
guess("12-node-of-a-leaf", fires=False)

# %%
p = torch.ones(1, requires_grad=True)
calls = []
(p * 1).grad_fn.next_functions[0][0].register_hook(
    lambda *args: calls.append("through a graph")
)
(p * 2).backward()
print("calls:", calls)
compare("12-node-of-a-leaf", fires=bool(calls))
assert calls == []

node_of_p = get_gradient_edge(p).node  # as long as we keep it, it is the node of p
node_of_p.register_hook(lambda *args: calls.append("through get_gradient_edge"))
(p * 2).backward()
print("calls:", calls)
assert node_of_p.name().endswith("AccumulateGrad") and calls == [
    "through get_gradient_edge"
]

# %% [markdown] explains="12-node-of-a-leaf"
# The leaf does not own its node. When the last graph that uses the node goes, so does the node, and your hook with it.
# The next graph makes a new node. Keep the node in a variable, and it stays. (For a leaf, a hook on the tensor or a
# post-accumulate-grad hook is simpler: those belong to the tensor.)

# %% [markdown]
# `get_gradient_edge(t)` names the place in the graph where the gradient of `t` arrives: a node, and which of its outputs
# `t` is. `torch.autograd.grad` accepts such an edge in place of a tensor. So you can ask for the gradient of a tensor
# that you did not keep.

# %%
t = torch.tensor([1.0, 2.0], requires_grad=True)
u = 3 * t
edge = get_gradient_edge(u)
loss = (5 * u).sum()
del u  # the tensor may be gone; its place in the graph is not
(gradient,) = torch.autograd.grad(loss, edge)
print(edge.node.name(), edge.output_nr, gradient.tolist())
assert (
    edge.node.name() == "MulBackward0"
    and edge.output_nr == 0
    and gradient.tolist() == [5, 5]
)

# %% [markdown]
# Ask for one edge or tensor at a time. When you ask for several and the pass goes through one to reach another, you may
# get the gradient of the first as it was *before* the hooks on that tensor. Here a hook on `u` turns 5 into 15:

# %%
u = 3 * t
u.register_hook(lambda gradient: 3 * gradient)
loss = (5 * u).sum()
alone, *_ = torch.autograd.grad(loss, [u], retain_graph=True)
together, *_ = torch.autograd.grad(loss, [u, t])
print("alone:", alone.tolist(), "  together with t:", together.tolist())
assert alone.tolist() == [15, 15] and together.tolist() == [5, 5]


# %% exercise="12-grad-into-nodes"
def grad_into_nodes(y, node_names):
    """Name -> the gradient that arrives at this node of y's graph, after one
    y.backward().
    """
    ### BEGIN SOLUTION
    gradients, handles = {}, []
    visited, to_visit = set(), [y.grad_fn]
    while to_visit:
        node = to_visit.pop()
        if node is None or node in visited:
            continue
        visited.add(node)
        to_visit += [after for after, _ in node.next_functions]
        name = node.name()
        if name in node_names:

            def keep(grad_outputs, name=name):
                gradients[name] = grad_outputs[0].detach().clone()

            handles.append(node.register_prehook(keep))
    try:
        y.backward()
    finally:
        for handle in handles:
            handle.remove()
    return gradients
    ### END SOLUTION


# %% [markdown]
# ---
#
# ## A break
#
# This is the end of the first sitting. You can now reach several gradients at once, and every node of a graph. When you
# come back, first run all cells above this one.
#
# ---
#
# ## What autograd keeps for backward
#
# Many nodes need values from forward to compute their gradients, and autograd keeps these until backward. The **saved
# tensors** are why a training step needs so much more memory than the same model in evaluation.
#
# You can watch the saving. `saved_tensors_hooks(pack, unpack)` is a context manager with a pair of hooks:
#
# - `pack(tensor)` is called in forward, at the moment when a tensor is saved. What it returns is kept in place of the
#   tensor, and it may be anything.
# - `unpack(packed)` is called in backward, when the node needs the tensor. It gets what `pack` returned, and must
#   return a tensor.
#
# **Predict.** We run `y = w * x`, `z = relu(y)`, `s = z + 1`, then backward. How often is `pack` called? And which tensor
# is unpacked first: `"w"`, `"x"`, `"y"`, `"z"` or `"s"`?

# %%
guess("12-pack", packed=3, first="z")

# %%
names = {2.0: "x", 3.0: "w", 6.0: "z"}
events = []


def pack(tensor):
    events.append(f"pack({names[tensor.item()]})")
    return tensor.detach()


def unpack(packed):
    events.append(f"unpack({names[packed.item()]})")
    return packed


w, x = torch.tensor(3.0, requires_grad=True), torch.tensor(2.0, requires_grad=True)
with saved_tensors_hooks(pack, unpack):
    y = w * x
    events.append("y = w * x is done")
    z = F.relu(y)
    events.append("z = relu(y) is done")
    s = z + 1
    events.append("s = z + 1 is done")
in_forward = list(events)
events.clear()
s.backward()
print("forward: ", in_forward)
print("backward:", events)
compare(
    "12-pack",
    packed=sum("pack(" in event for event in in_forward),
    first=events[0][len("unpack(") : -1],
)

# %% tags=["figure"]
assert sorted(in_forward[:2]) == ["pack(w)", "pack(x)"]
assert in_forward[2:] == [
    "y = w * x is done",
    "pack(z)",
    "z = relu(y) is done",
    "s = z + 1 is done",
]
assert events[0] == "unpack(z)" and sorted(events[1:]) == ["unpack(w)", "unpack(x)"]
figure, axes = card(8.2, 2.9)
caption(
    axes,
    0.4,
    2.6,
    "A tensor is packed when it is saved, and unpacked when it is needed",
    size=11,
)
for x_position, operation, packed, unpacked in (
    (1.6, "y = w * x", "pack(x), pack(w)", "unpack(x), unpack(w)"),
    (4.2, "z = relu(y)", "pack(z)", "unpack(z)"),
    (6.8, "s = z + 1", "nothing is saved", "nothing is needed"),
):
    node(axes, x_position, 1.4, operation, kind="non-leaf", width=1.5)
    caption(
        axes,
        x_position,
        2.05,
        packed,
        colour=FORWARD if "(" in packed else QUIET,
        align="center",
    )
    caption(
        axes,
        x_position,
        0.75,
        unpacked,
        colour=BACKWARD if "(" in unpacked else QUIET,
        align="center",
    )
for start, end in ((2.4, 3.4), (5.0, 6.0)):
    arrow(axes, (start, 1.5), (end, 1.5))
    arrow(axes, (end, 1.3), (start, 1.3), backward=True)
caption(
    axes,
    0.4,
    0.25,
    "Blue: forward, from left to right. Orange: backward, from right to left.",
    size=9.5,
)
show(
    figure,
    "Three operations. In forward, from left to right: y = w * x packs x and w, z = "
    "relu(y) packs z, and s = z + 1 saves nothing. In backward, from right to left: s "
    "= z + 1 needs nothing, relu unpacks z, and the product unpacks x and w.",
)

# %% [markdown] explains="12-pack"
# `pack` is called three times. The product saves both factors, since each is needed for the gradient of the other. `relu`
# saves its result, which shows where its input was positive. The sum saves nothing, as its gradient does not depend on
# values. `unpack` is called only in backward, which goes through the operations in reverse order. That the `with` block
# is closed by then does not matter: what your hook packed, your hook unpacks.

# %% [markdown]
# Four rules:
#
# - `pack` sees every tensor that is saved inside the block, weights, masks and indices included, and the same tensor
#   again when it is saved again: `x * x` saves `x` twice.
# - Python numbers, like the 3 in `3 * x`, are not packed.
# - When such blocks are nested, only the innermost pair is called.
# - To keep a tensor as it is, return `tensor.detach()`, not `tensor`. `pack` can get the *output* of an operation, whose
#   graph contains the node that saves it. Node and output would keep each other alive until backward; without a
#   backward pass, they are never freed.

# %%
x = torch.ones(100, requires_grad=True)
sizes = {"outer": [], "inner": []}


def noting(name):
    """A block of hooks that notes the size of each saved tensor."""

    def pack(tensor):
        sizes[name].append(len(tensor))
        return tensor.detach()

    return saved_tensors_hooks(pack, lambda packed: packed)


with noting("outer"):
    x * x
    3 * x
    with noting("inner"):
        x * x
print("sizes packed in each block:", sizes)
assert sizes == {"outer": [100, 100], "inner": [100, 100]}


def lives_on(pack):
    """Whether the output of exp, which is saved, outlives the last variable that
    holds it.
    """
    with saved_tensors_hooks(pack, lambda packed: packed):
        y = x.exp()
    watch = weakref.ref(y)
    del y
    gc.collect()
    return watch() is not None


detached, plain = (
    lives_on(lambda tensor: tensor.detach()),
    lives_on(lambda tensor: tensor),
)
print("pack returns tensor.detach(): lives on:", detached)
print("pack returns tensor:          lives on:", plain)
assert not detached
if torch.__version__ >= (2, 13):
    assert plain

# %% [markdown]
# ### Overwritten between forward and backward
#
# `z = y * y` at `y = 1` has the gradient 2. But between forward and backward, somebody runs `y.fill_(7)`, in place.
#
# **Predict.** What is the gradient without hooks? With a `pack` that returns `tensor.detach()`? And with one that returns
# `tensor.detach().clone()`? Write a number, or `"raises"`, for each.

# %%
guess("12-overwritten", no_hooks="raises", detached=14, cloned=2)


# %%
def overwritten(block):
    """The gradient of y * y at 1 when y is overwritten by 7 between forward and
    backward.
    """
    leaf = torch.tensor(1.0, requires_grad=True)
    y = leaf * 1
    with block:
        z = y * y
    with torch.no_grad():
        y.fill_(7)
    try:
        z.backward()
    except RuntimeError as error:
        return error
    return leaf.grad.item()


blocks = {
    "no hooks": nullcontext(),
    "detach()": saved_tensors_hooks(
        lambda tensor: tensor.detach(), lambda packed: packed
    ),
    "detach().clone()": saved_tensors_hooks(
        lambda tensor: tensor.detach().clone(), lambda packed: packed
    ),
}
results = {name: overwritten(block) for name, block in blocks.items()}
for name, result in results.items():
    print(f"{name:17} {result if isinstance(result, float) else type(result).__name__}")
print("\nRuntimeError:", str(results["no hooks"]).split(":")[0])
compare(
    "12-overwritten",
    no_hooks=results["no hooks"],
    detached=results["detach()"],
    cloned=results["detach().clone()"],
)
assert "modified by an inplace operation" in str(results["no hooks"])
assert (results["detach()"], results["detach().clone()"]) == (14, 2)

# %% [markdown] explains="12-overwritten"
# Without hooks, autograd checks each saved tensor in backward, and raises if an in-place operation has changed it. With
# hooks, it no longer checks. `tensor.detach()` shares its memory with the tensor, so the gradient is wrong, 7 + 7,
# without a word. If such code may run between forward and backward, keep `tensor.detach().clone()`, which costs the
# memory of a copy.

# %% [markdown]
# ### The size of a tensor
#
# To get the size of a tensor in bytes, multiply its number of elements by the bytes of one:

# %%
for tensor in (x, x.double(), x > 0):
    number, each = tensor.numel(), tensor.element_size()
    print(
        f"{tensor.dtype}: {number} elements, {number} · {each} = {number * each} bytes"
    )
assert (x.element_size(), x.double().element_size(), (x > 0).element_size()) == (
    4,
    8,
    1,
)


# %% exercise="12-saved-bytes"
def saved_bytes(fn):
    """How many bytes autograd saves for backward while fn() runs."""
    ### BEGIN SOLUTION
    total = 0

    def pack(tensor):
        nonlocal total
        total += tensor.numel() * tensor.element_size()
        return tensor.detach()

    with saved_tensors_hooks(pack, lambda tensor: tensor):
        fn()
    return total
    ### END SOLUTION


# %% [markdown]
# ## Keep it elsewhere, or keep less
#
# What `pack` returns is kept, and the tensor itself may go. So `pack` can put the tensor somewhere else, and `unpack` can
# fetch it back. PyTorch has this built in as `save_on_cpu()`: saved tensors wait in CPU memory while forward goes on. It
# is for models that do not fit into the memory of a GPU, and it costs the time of the journey there and back.

# %%
x = torch.ones(1000, requires_grad=True)
with save_on_cpu(pin_memory=torch.cuda.is_available()):
    (x * x).sum().backward()
print("the gradient is the same, 2 everywhere:", x.grad.unique().tolist())
assert x.grad.unique().item() == 2

if torch.cuda.is_available():

    def held_on_gpu():
        """Bytes of GPU memory that the graph of fifty steps holds."""
        before = torch.cuda.memory_allocated()
        h = torch.ones(1_000_000, device="cuda", requires_grad=True)
        for _ in range(50):
            h = torch.sin(h)
        return torch.cuda.memory_allocated() - before

    plain = held_on_gpu()
    with save_on_cpu(pin_memory=True):
        offloaded = held_on_gpu()
    print(
        f"on the GPU after forward: {plain / 1e6:.0f} MB, with save_on_cpu: "
        f"{offloaded / 1e6:.0f} MB"
    )

# %% [markdown]
# The other way is to keep less: round the saved tensors to float16 in `pack`, and turn them back in `unpack`. That halves
# their memory. What does it cost? To see it clearly, we round brutally: here `pack` returns ones, whatever it gets.
#
# **Predict.** `y = w * w` at `w = 3`. What are `y` and `w.grad`?

# %%
guess("12-only-ones", y=9, grad=2)

# %%
w = torch.tensor(3.0, requires_grad=True)
with saved_tensors_hooks(lambda tensor: torch.ones_like(tensor), lambda packed: packed):
    y = w * w
y.backward()
print("y:", y.item(), "  w.grad:", w.grad.item())
compare("12-only-ones", y=y, grad=w.grad)
assert y.item() == 9 and w.grad.item() == 2

# %% [markdown] explains="12-only-ones"
# Forward is exact: 3 · 3 is 9. The price is in the gradients. Backward computes `1 · w + 1 · w` with what it finds in
# place of `w`, and that is 1. The gradient is 2 instead of 6, and no error says so.

# %% [markdown]
# So be careful about what you change:
#
# - float16 has few digits: 1.0004 becomes 1. Its largest number is 65504; larger ones become infinity.
# - Indices and masks are saved, too. float16 has no odd numbers above 2048, so an index would point somewhere else, and
#   a float cannot be an index at all. Round only tensors for which `tensor.is_floating_point()` is `True`, and leave all
#   others as they are.
# - A tensor has to come back with the dtype that it had. A float32 matrix cannot be multiplied by a float64 gradient.

# %%
print("the largest number of float16:", torch.finfo(torch.float16).max)
for number in (1.0004, 2051, 70000.0):
    print(number, "->", torch.tensor(number).half().item())
assert (
    torch.tensor(1.0004).half().item() == 1 and torch.tensor(2051).half().item() == 2052
)
assert torch.tensor(70000.0).half().isinf()
for tensor in (
    torch.tensor(1.5, dtype=torch.float64),
    torch.tensor(2),
    torch.tensor(True),
):
    print(tensor.dtype, "is floating point:", tensor.is_floating_point())
assert torch.ones(1).is_floating_point() and not torch.tensor(2).is_floating_point()
assert torch.finfo(torch.float16).max == 65504
for refused in (
    lambda: torch.ones(3)[torch.ones(1)],
    lambda: torch.ones(1, 1) @ torch.ones(1, 1).double(),
):
    try:
        refused()
    except (IndexError, RuntimeError) as error:
        print(f"{type(error).__name__}:", error)
        assert "must be long, int, byte or bool" in str(
            error
        ) or "to have the same dtype" in str(error)


# %% exercise="12-with-half-saved"
def with_half_saved(fn):
    """The result of fn(), while floating-point tensors are saved for backward as
    float16.
    """

    ### BEGIN SOLUTION
    def pack(tensor):
        if not tensor.is_floating_point():
            return tensor.dtype, tensor.detach()
        return tensor.dtype, tensor.detach().half()

    def unpack(packed):
        dtype, tensor = packed
        return tensor.to(dtype)

    with saved_tensors_hooks(pack, unpack):
        return fn()
    ### END SOLUTION


# %% [markdown]
# ## Every module of the process
#
# **Global hooks** fire for every module that is called anywhere in the process. Lesson 8 showed that they run before all
# hooks of the module itself. They are registered by functions of `torch.nn.modules.module`:
#
# - `register_module_forward_pre_hook(fn)`, with `fn(module, args)`
# - `register_module_forward_hook(fn)`, with `fn(module, args, output)`
# - `register_module_full_backward_pre_hook(fn)`, with `fn(module, grad_output)`
# - `register_module_full_backward_hook(fn)`, with `fn(module, grad_input, grad_output)`
#
# Here is the `forward` of the network from the beginning again:
#
# ```python
# h = F.relu(self.first(x))
# h = self.second.forward(h)
# return self.more[0](h)
# ```
#
# **Predict.** How many calls does a global forward hook see in `net(x)`?

# %%
guess("12-global", calls=3)

# %%
seen = []
with register_module_forward_hook(
    lambda module, args, output: seen.append(type(module).__name__)
):
    net(torch.ones(1, 2))
print("seen:", seen)
compare("12-global", calls=len(seen))
assert seen == ["Linear", "Linear", "Net"]

nn.Tanh()(torch.ones(1))
print("after the block and one more call of a module:", seen)
assert len(seen) == 3

# %% [markdown] explains="12-global"
# Three: `first`, the layer in the plain list, and `net`. Two things are still missing: `second` was not *called*, and
# `F.relu` is not a module.

# %% [markdown]
# A global hook sees every module that runs in the process: in your other model, in the library that you use, in the next
# cell of this notebook. Make sure that it is removed, with `with` or in `finally`.


# %% exercise="12-count-calls-by-type"
def count_calls_by_type(model, x):
    """Class name -> number of calls of modules of this class in model(x)."""
    ### BEGIN SOLUTION
    counts = {}

    def count(module, args, output):
        name = type(module).__name__
        counts[name] = counts.get(name, 0) + 1

    with register_module_forward_hook(count):
        model(x)
    return counts
    ### END SOLUTION


# %% [markdown]
# ## How much work is a model?
#
# The number of weights says how large a model is, not how much it has to compute. The usual unit of work is the **MAC**, the
# multiply-add: one weight times one input, added to a sum. A dot product of length n takes n MACs. Linear layers and
# convolutions are nothing but dot products, so
#
# > MACs of a call = numbers in the output · MACs for one of these numbers
#
# and the second factor is the number of weights that one number of the output sees.
#
# | layer | numbers in the output | MACs for each |
# |---|---|---|
# | `Linear(10, 4)`, input (3, 10) | 3 · 4 = 12 | 10 |
# | `Linear(10, 4)`, input (3, 7, 10) | 3 · 7 · 4 = 84 | 10 |
# | `Conv2d(2, 6, 3)`, input (1, 2, 5, 5) | 6 · 3 · 3 = 54 | 2 · 3 · 3 = 18 |
# | `Conv2d(2, 6, 3, groups=2)`, same input | 54 | 1 · 3 · 3 = 9 |
#
# With groups, an output channel sees only its own group of the input channels. Padding, stride and dilation change how
# many numbers there are in the output; the cost of each stays the same. Adding the bias does not count.
#
# PyTorch can count, too: `FlopCounterMode` watches every operation, not only modules. It counts FLOPs: the
# multiplication and the addition of a MAC are two of them.
#
# **Predict.** Which number does `FlopCounterMode` report for the last row of the table?

# %%
guess("12-flops", flops=972)

# %%
conv, image = nn.Conv2d(2, 6, 3, groups=2), torch.zeros(1, 2, 5, 5)
with FlopCounterMode(display=False) as counter:
    conv(image)
print("FLOPs:", counter.get_total_flops())
compare("12-flops", flops=counter.get_total_flops())
assert counter.get_total_flops() == 2 * 54 * 9 == 972
for layer, x, macs in (
    (nn.Linear(10, 4), torch.zeros(3, 10), 12 * 10),
    (nn.Linear(10, 4), torch.zeros(3, 7, 10), 84 * 10),
    (nn.Conv2d(2, 6, 3), image, 54 * 18),
):
    with FlopCounterMode(display=False) as counter:
        layer(x)
    print(f"{layer}: {counter.get_total_flops()} FLOPs, and {macs} MACs by the table")
    assert counter.get_total_flops() == 2 * macs

# %% [markdown] explains="12-flops"
# Twice the MACs, 2 · 54 · 9 = 972: a multiplication and an addition for each.

# %% [markdown]
# Now a real network. ResNet-34 starts with a convolution, `conv1`; then come four stages, `layer1` to `layer4`, and one
# linear layer, `fc`. The stages have 6, 8, 12 and 6 convolutions of 3 by 3 (and a few small ones). From each stage to the
# next, the maps get half as wide and half as high, and there are twice as many channels.
#
# **Predict.** Which of these six has the most work, and which the most weights?

# %%
guess("12-resnet", work="layer3", weights="layer4")

# %%
model, h = resnet34().eval(), torch.zeros(1, 3, 224, 224)
macs, weights, maps = {}, {}, {}
with torch.no_grad():
    for name, stage in model.named_children():
        h = h.flatten(1) if name == "fc" else h
        with FlopCounterMode(display=False) as counter:
            h = stage(h)
        if counter.get_total_flops():
            macs[name] = counter.get_total_flops() // 2
            weights[name] = sum(parameter.numel() for parameter in stage.parameters())
            maps[name] = " by ".join(str(size) for size in h.shape[2:]) or "none"
for name in macs:
    work, size = (
        f"{macs[name] / 1e6:7.1f} million MACs",
        f"{weights[name] / 1e6:6.2f} million parameters",
    )
    print(f"{name:7} {work} {size}   maps: {maps[name]}")
compare(
    "12-resnet", work=max(macs, key=macs.get), weights=max(weights, key=weights.get)
)
assert [
    sum(
        isinstance(m, nn.Conv2d) and m.kernel_size == (3, 3)
        for m in getattr(model, f"layer{number}").modules()
    )
    for number in (1, 2, 3, 4)
] == [6, 8, 12, 6]
assert [
    getattr(model, f"layer{number}")[-1].conv2.out_channels for number in (1, 2, 3, 4)
] == [64, 128, 256, 512]
assert [maps[f"layer{number}"] for number in (1, 2, 3, 4)] == [
    "56 by 56",
    "28 by 28",
    "14 by 14",
    "7 by 7",
]

# %% [markdown] explains="12-resnet"
# From stage to stage, a convolution has four times as many weights, and each of them works at a quarter as many positions.
# So each convolution does the same work, and `layer3` has the most of them. `layer4` has half as many, and the most
# weights: twice as many as `layer3`.

# %% tags=["figure"]
millions = {
    name: (round(macs[name] / 1e6, 1), round(weights[name] / 1e6, 2)) for name in macs
}
assert millions == {
    "conv1": (118.0, 0.01),
    "layer1": (693.6, 0.22),
    "layer2": (873.5, 1.12),
    "layer3": (1335.9, 6.82),
    "layer4": (642.3, 13.11),
    "fc": (0.5, 0.51),
}
assert round(sum(macs.values()) / 1e9, 2) == 3.66

figure, axes = card(8.6, 3.5)
caption(
    axes,
    0.3,
    3.2,
    "ResNet-34, one image of 224 by 224: where the work is, and where the weights are",
    size=11.5,
)
caption(axes, 1.3, 2.8, "million MACs", colour=FORWARD)
caption(axes, 5.2, 2.8, "million parameters")
for row, (name, (work, size)) in enumerate(millions.items()):
    height = 2.45 - 0.4 * row
    caption(axes, 0.4, height, name)
    for left, value, most, colour in (
        (1.3, work, 1335.9, FORWARD),
        (5.2, size, 13.11, QUIET),
    ):
        axes.barh(
            height, max(2.5 * value / most, 0.02), left=left, height=0.24, color=colour
        )
        caption(
            axes,
            left + 2.5 * value / most + 0.08,
            height,
            f"{value}",
            size=9,
            colour=QUIET,
        )
axes.set(xlim=(0, 8.6), ylim=(0, 3.5))
show(
    figure,
    "Two groups of bars for the parts of ResNet-34. Million MACs: conv1 118.0, layer1 "
    "693.6, layer2 873.5, layer3 1335.9, layer4 642.3, fc 0.5. Million parameters: "
    "conv1 0.01, layer1 0.22, layer2 1.12, layer3 6.82, layer4 13.11, fc 0.51.",
)

# %% [markdown]
# Now as shares of the whole:

# %%
all_macs, all_weights = sum(macs.values()), sum(weights.values())
print(f"{all_macs / 1e9:.2f} billion MACs, {all_weights / 1e6:.1f} million parameters")
for name in macs:
    print(
        f"{name:7} {macs[name] / all_macs:6.1%} of the MACs "
        f"{weights[name] / all_weights:6.1%} of the parameters"
    )
assert (
    round(100 * weights["layer1"] / all_weights) == 1
    and round(100 * macs["layer1"] / all_macs) == 19
)
assert (
    round(100 * weights["layer4"] / all_weights) == 60
    and macs["layer4"] < macs["layer1"]
)
assert maps["layer1"] == "56 by 56"

# %% [markdown]
# `layer1` has 1 % of the parameters and does 19 % of the work, because each of its weights is used at 56 · 56 places of
# a map. A weight of `fc` is used once. `layer4` has 60 % of the parameters, and does less work than `layer1`.


# %% exercise="12-count-macs"
def count_macs(model, x):
    """The multiply-adds of all Conv2d and Linear calls in model(x)."""
    ### BEGIN SOLUTION
    total = 0

    def add(module, args, output):
        nonlocal total
        total += output.numel() * module.weight[0].numel()

    handles = []
    try:
        for module in model.modules():
            if isinstance(module, nn.Conv2d | nn.Linear):
                handles.append(module.register_forward_hook(add))
        model(x)
    finally:
        for handle in handles:
            handle.remove()
    return total
    ### END SOLUTION


# %% [markdown]
# ## Myths
#
# **"Hooks see everything."** They see what passes the place where they sit. You have seen functions without a module,
# and in lesson 5 a module whose weight is used without a call (`out_proj` of `nn.MultiheadAttention`). And there are
# **fast paths**. In evaluation without grad, `nn.TransformerEncoderLayer` computes everything in one fused operation and
# calls none of the modules inside it. On PyTorch 2.4, a hook on an inner module stays silent then. On 2.13, the layer
# first looks for hooks on its modules, and leaves the fast path if it finds one. It does not look for global hooks:
# these see a single call, that of the layer itself.

# %%
encoder, query = (
    nn.TransformerEncoderLayer(4, 2, 8, batch_first=True).eval(),
    torch.ones(1, 3, 4),
)


def with_and_without_grad(register):
    """The classes of the calls that a forward hook sees, with grad and without."""
    seen = {}
    for grad in (True, False):
        calls = seen["grad" if grad else "no grad"] = []
        with register(
            lambda module, args, output, calls=calls: calls.append(
                type(module).__name__
            )
        ):
            with torch.set_grad_enabled(grad):
                encoder(query)
    return seen


local = with_and_without_grad(encoder.linear1.register_forward_hook)
everywhere = with_and_without_grad(register_module_forward_hook)
print("a hook on linear1:", local)
print("a global hook:    ", everywhere)
assert local["grad"] == ["Linear"]
if torch.__version__ < (2, 5):
    assert local["no grad"] == []
elif torch.__version__ >= (2, 13):
    assert local["no grad"] == ["Linear"]
assert len(everywhere["grad"]) > 1 and everywhere["no grad"] == [
    "TransformerEncoderLayer"
]

# %% [markdown]
# So trust a hook only after you have seen it fire: count its calls once, in the mode in which you will use it.
#
# **"A multi-grad hook can replace gradients, like a tensor hook."** No: its return value is ignored. It can only look.

# %%
x = torch.ones(1, requires_grad=True)
handle = register_multi_grad_hook([x], lambda grads: [100 * grad for grad in grads])
(2 * x).backward()
handle.remove()
print("x.grad:", x.grad.item())
assert x.grad.item() == 2

# %% [markdown]
# ## Recap
#
# | call | the hook gets | when it fires | what it may return |
# |---|---|---|---|
# | `register_multi_grad_hook(tensors, fn)` | list of gradients, `None` if unused | once for each pass | anything: it is ignored |
# | `node.register_prehook(fn)` | `grad_outputs` | before the node works | new `grad_outputs` |
# | `node.register_hook(fn)` | `grad_inputs, grad_outputs` | after the node has worked | new `grad_inputs` |
# | `saved_tensors_hooks(pack, unpack)` | `pack`: a tensor | a tensor is saved, in forward | what is kept |
# | | `unpack`: what was kept | the tensor is needed, in backward | the tensor |
# | `register_module_forward_hook(fn)` | `module, args, output` | after the call of *any* module | new output |
# | `optimizer.register_step_pre_hook(fn)` (appendix) | `optimizer, args, kwargs` | before `step()` | new `args, kwargs` |
#
# `FlopCounterMode()` and `get_gradient_edge(t)` are not hooks, but they belong here: the first counts work, the second
# names the place of a gradient in the graph.
#
# ## Where you meet this in the wild
#
# - **Activation offloading and checkpointing.** `save_on_cpu` is a pair of `pack` and `unpack`. So is
#   `torch.utils.checkpoint` with `use_reentrant=False`: its `pack` keeps almost nothing, and its `unpack` runs the
#   forward again. That is why forward hooks fired in backward in lesson 8.
# - **Sharded training (FSDP)**, in its first version, hooks the `AccumulateGrad` node of each parameter, to send a
#   gradient away as soon as it is complete. It keeps these nodes, for the reason that you have seen.
# - **Profilers.** `FlopCounterMode` can list its counts by module, also for backward. To know which module is at work, it
#   uses global forward hooks and multi-grad hooks.
#
# ## The whole course on one page
#
# | call | lesson | when it fires | what its return does |
# |---|---|---|---|
# | `t.retain_grad()` (no hook) | 1 | `.grad` is written after the tensor hooks | |
# | `t.register_hook(fn)` | 2, 3 | the complete gradient arrives at `t` | replaces it for all that is upstream |
# | `p.register_post_accumulate_grad_hook(fn)` | 4 | `.grad` of the leaf has been written | nothing may be returned |
# | `m.register_forward_pre_hook(fn)` | 6 | before `forward` of `m` | replaces the input |
# | `m.register_forward_hook(fn)` | 5, 6 | after `forward` of `m` | replaces the output |
# | `m.register_full_backward_pre_hook(fn)` | 7 | the gradient arrives at the output of `m` | replaces it |
# | `m.register_full_backward_hook(fn)` | 7 | the gradients of the inputs of `m` are complete\* | replaces them |
# | `register_module_forward_hook(fn)`, ... | 8, 12 | as the four above, for every module | as above |
# | `node.register_prehook(fn)` | 8, 12 | the gradient arrives at the node | replaces it |
# | `node.register_hook(fn)` | 8, 12 | the node has worked | replaces what leaves it |
# | `register_multi_grad_hook(ts, fn)` | 12 | all gradients of the pass have arrived | nothing: it is ignored |
# | `saved_tensors_hooks(pack, unpack)` | 12 | a tensor is saved; it is needed | is kept in its place; is used |
#
# \* If no input requires grad, right after the pre-hook (lesson 8).
#
# And what holds for all of them:
#
# - A hook changes something by *returning* it, not by editing its argument. `None` keeps the old value. (Only `pack` and
#   `unpack` have to return something.)
# - Keep the handle, and remove the hook in `finally` or with `with`.
# - Keep copies, detached: `.detach().clone()`.
# - A hook that you have not seen fire proves nothing. Predict, run, and compare.
#
# You started with a gradient that was `None`. Now you can follow a value all the way, forward and back, stop it anywhere,
# look at it and change it, and prove in which order that happens.
#
# Next: lesson 13 puts all of it to work, on runs that do not learn as they should.

# %% [markdown]
# ## Appendix: at the border
#
# For the curious: four short visits to places where hooks end, or go by another name.
#
# **`torch.func.grad` ignores hooks on parameters.** It computes gradients of a *function* of the parameters. The values
# that it puts in place of the parameters are other tensors, without your hooks. Forward hooks on a module do fire,
# because the module is called. Full backward hooks and pre-hooks make the call raise: they rest on an old kind of
# `torch.autograd.Function`, which `torch.func.grad` does not support. (`vmap` alone does not raise, and never calls them.)

# %%
layer = nn.Linear(2, 1)
calls = []
layer.register_forward_hook(lambda module, args, output: calls.append("forward hook"))
layer.weight.register_hook(lambda grad: 100 * grad)


def loss_of(parameters):
    return functional_call(layer, parameters, (torch.ones(1, 2),)).sum()


gradients = torch.func.grad(loss_of)(dict(layer.named_parameters()))
print("gradient:", gradients["weight"].tolist(), "  calls:", calls)
# not [[100, 100]]
assert gradients["weight"].tolist() == [[1, 1]] and calls == ["forward hook"]

for register in (
    layer.register_full_backward_hook,
    layer.register_full_backward_pre_hook,
):
    with register(lambda *args: calls.append("backward hook")):
        try:
            torch.func.grad(loss_of)(dict(layer.named_parameters()))
            raise AssertionError("it did not raise")
        except RuntimeError as error:
            print(register.__name__, "-> RuntimeError:", str(error)[:87], "...")
            assert "autograd.Function with functorch transforms" in str(error)
assert "backward hook" not in calls

# %% [markdown]
# **`torch.fx` sees functions in forward.** Node hooks reach a functional `relu` in backward only. To get its *output*,
# let `fx.symbolic_trace` record the operations of `forward`, and run them one by one with an `fx.Interpreter`. This works
# for models whose `forward` does not branch on values.


# %%
class Small(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 4)

    def forward(self, x):
        return F.relu(self.fc(x)).sum()


class Capture(fx.Interpreter):
    """Runs a traced model and keeps the result of every step."""

    def __init__(self, traced):
        super().__init__(traced)
        self.results = {}

    def run_node(self, n):
        result = super().run_node(n)
        self.results[n.name] = result.detach().clone()
        return result


small, x = Small(), torch.randn(2, 3)
capture = Capture(fx.symbolic_trace(small))
out = capture.run(x)
print("steps:", list(capture.results))
print(
    "relu gives what F.relu gives:",
    torch.equal(capture.results["relu"], F.relu(small.fc(x))),
)
assert list(capture.results) == ["x", "fc", "relu", "sum_1", "output"]
assert torch.equal(out, small(x)) and torch.equal(
    capture.results["relu"], F.relu(small.fc(x))
)

# %% [markdown]
# **Optimizers have hooks, too:** before and after `step()`. They get the optimizer and the arguments of `step`.

# %%
p = nn.Parameter(torch.ones(1))
optimizer = torch.optim.SGD([p], lr=1.0)
events = []
optimizer.register_step_pre_hook(
    lambda optimizer, args, kwargs: events.append(("before", p.item()))
)
optimizer.register_step_post_hook(
    lambda optimizer, args, kwargs: events.append(("after", p.item()))
)
p.grad = torch.ones(1)
optimizer.step()
print("value of p around the step:", events)
assert events == [("before", 1.0), ("after", 0.0)]

# %% [markdown]
# **Saving, loading and building a model** can be hooked as well: before and after `state_dict()` collects the values,
# before and after `load_state_dict()` puts them in, and, for all modules of the process, when a parameter is registered.
# The hook before loading may change the dict, and so read old checkpoints: below, one in which the bias was called `b`.
# The one after it comes too late for that, but can tell what is missing.

# %%
layer = nn.Linear(2, 1)
events = []
layer.register_state_dict_pre_hook(
    lambda module, prefix, keep_vars: events.append("saving")
)
layer.register_load_state_dict_post_hook(
    lambda module, keys: events.append(("loaded, missing", keys.missing_keys))
)
layer.register_load_state_dict_pre_hook(
    lambda module, state, *rest: state.update(bias=state.pop("b"))
)
layer.load_state_dict({"b": layer.state_dict()["bias"]}, strict=False)
with register_module_parameter_registration_hook(
    lambda module, name, parameter: events.append(name)
):
    nn.Linear(2, 1)
print("in the order of the calls:", events)
assert events == ["saving", ("loaded, missing", ["weight"]), "weight", "bias"]

# %%
progress()
