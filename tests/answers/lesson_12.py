"""Answers to the exercises of lesson 12."""

RIGHT = {
    "12-joint-norm-log": [
        """
import torch
from torch.autograd.graph import register_multi_grad_hook

def joint_norm_log(tensors):
    log = []
    def hook(grads):
        squares = [grad.square().sum() for grad in grads if grad is not None]
        log.append(torch.stack(squares).sum().sqrt().item())
    return log, register_multi_grad_hook(tensors, hook)
""",
        """
import math
import torch

class JointNorm:
    def __init__(self):
        self.log = []
    def __call__(self, grads):
        self.log.append(math.hypot(*(float(torch.linalg.vector_norm(g)) for g in grads if g is not None)))

def joint_norm_log(tensors):
    joint = JointNorm()
    return [joint.log, torch.autograd.graph.register_multi_grad_hook(tuple(tensors), joint, mode="all")]
""",
        """
from torch.autograd import Variable

class Handles:
    def __init__(self, handles):
        self.handles = handles
    def remove(self):
        for handle in self.handles:
            handle.remove()

def joint_norm_log(tensors):
    log, this_pass = [], []
    def finish():
        log.append(sum(this_pass) ** 0.5)
        this_pass.clear()
    def hook(grad):
        if not this_pass:
            Variable._execution_engine.queue_callback(finish)
        this_pass.append((grad.detach() ** 2).sum().item())
    return log, Handles([t.register_hook(hook) for t in tensors])
""",
        """
from functools import partial
import torch
from torch.autograd.graph import register_multi_grad_hook

def note(log, grads):
    flat = torch.cat([grad.reshape(-1) for grad in grads if grad is not None])
    log += [flat.norm().tolist()]

def joint_norm_log(tensors):
    log = []
    handle = register_multi_grad_hook(tensors, partial(note, log))
    return log, handle
""",
    ],
    "12-grad-into-nodes": [
        """
import torch
from torch.autograd.graph import GradientEdge

def grad_into_nodes(y, node_names):
    # no hook: autograd.grad takes edges of the graph for inputs
    found, seen, todo = {}, set(), [y.grad_fn]
    while todo:
        node = todo.pop()
        if node is not None and node not in seen:
            seen.add(node)
            todo += [before for before, _ in node.next_functions]
            if node.name() in node_names:
                found[node.name()] = GradientEdge(node, 0)
    edges = list(found.values())
    grads = torch.autograd.grad(y, edges, retain_graph=True) if edges else ()
    y.backward()
    return {name: grad.detach().clone() for name, grad in zip(found, grads)}
""",
        """
def grad_into_nodes(y, node_names):
    result, handles, seen, todo = {}, [], set(), [y.grad_fn]
    while todo:
        node = todo.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if node.name() in node_names:
            def keep(grad_outputs, name=node.name()):
                result[name] = grad_outputs[0].detach().clone()
            handles.append(node.register_prehook(keep))
        todo += [after for after, _ in node.next_functions]
    try:
        y.backward()
    finally:
        for handle in handles:
            handle.remove()
    return result
""",
        """
from contextlib import ExitStack

def nodes_of(node, seen):
    if node is not None and node not in seen:
        seen[node] = None
        for after, _ in node.next_functions:
            nodes_of(after, seen)
    return seen

def grad_into_nodes(y, node_names):
    result = {}
    with ExitStack() as stack:
        for node in nodes_of(y.grad_fn, {}):
            if node.name() in node_names:
                def keep(grad_inputs, grad_outputs, node=node):
                    result[node.name()] = grad_outputs[0].clone()
                stack.callback(node.register_hook(keep).remove)
        y.backward()
    return dict(sorted(result.items()))
""",
        """
import torch
from torch.autograd.graph import GradientEdge

def grad_into_nodes(y, node_names):
    found, visited, queue = {}, {y.grad_fn}, [y.grad_fn]
    for node in queue:
        if node.name() in node_names:
            found[node.name()] = GradientEdge(node, 0)
        for after, _ in node.next_functions:
            if after is not None and after not in visited:
                visited.add(after)
                queue.append(after)
    grads = torch.autograd.grad(y, list(found.values()), retain_graph=True) if found else ()
    grads = [grad.clone() for grad in grads]
    y.backward()
    return dict(zip(found, grads))
""",
        """
def grad_into_nodes(y, node_names):
    result, handles = {}, []
    def visit(node):
        # every way to a node is walked, and a hook more does no harm: it writes the same value again
        if node.name() in node_names:
            handles.append(node.register_prehook(
                lambda grads, name=node.name(): result.update({name: grads[0].detach().clone()}) or None))
        for after, _ in filter(lambda pair: pair[0] is not None, node.next_functions):
            visit(after)
    visit(y.grad_fn)
    try:
        y.backward()
    finally:
        [handle.remove() for handle in handles]
    return result
""",
    ],
    "12-saved-bytes": [
        """
from torch.autograd.graph import saved_tensors_hooks

def saved_bytes(fn):
    total = 0
    def pack(tensor):
        nonlocal total
        total += tensor.numel() * tensor.element_size()
        return tensor.detach()
    with saved_tensors_hooks(pack, lambda tensor: tensor):
        fn()
    return total
""",
        """
import torch

class Scale:
    def __init__(self):
        self.sizes = []
    def pack(self, tensor):
        self.sizes.append(tensor.nbytes)
        return tensor
    def unpack(self, tensor):
        return tensor

def saved_bytes(fn):
    scale = Scale()
    with torch.autograd.graph.saved_tensors_hooks(scale.pack, scale.unpack):
        fn()
    return sum(scale.sizes)
""",
        """
from torch.autograd.graph import saved_tensors_hooks

class Counting(saved_tensors_hooks):
    def __init__(self):
        self.total = 0
        super().__init__(self.weigh, lambda number: self.kept[number])
        self.kept = {}
    def weigh(self, tensor):
        self.total += tensor.element_size() * tensor.shape.numel()
        number = len(self.kept)
        self.kept[number] = tensor.detach()
        return number

def saved_bytes(fn):
    counting = Counting()
    counting.__enter__()
    try:
        fn()
    finally:
        counting.__exit__()
    return counting.total
""",
        """
from collections import Counter
from torch.autograd.graph import saved_tensors_hooks

def saved_bytes(fn):
    sizes = Counter()
    def pack(tensor):
        sizes[tensor.dtype.itemsize] += tensor.numel()
        return lambda: tensor
    with saved_tensors_hooks(pack, lambda give: give()):
        fn()
    return sum(size * count for size, count in sizes.items())
""",
    ],
    "12-with-half-saved": [
        """
import numpy as np
import torch
from torch.autograd.graph import saved_tensors_hooks

def with_half_saved(fn):
    def pack(tensor):
        if tensor.is_floating_point():
            return tensor.dtype, tensor.detach().numpy().astype(np.float16)
        return tensor
    def unpack(packed):
        return torch.from_numpy(packed[1]).to(packed[0]) if isinstance(packed, tuple) else packed
    with saved_tensors_hooks(pack, unpack):
        return fn()
""",
        """
from torch.autograd.graph import saved_tensors_hooks

def with_half_saved(fn):
    def pack(tensor):
        return (tensor.dtype, tensor.detach().half()) if tensor.is_floating_point() else tensor.detach()
    def unpack(packed):
        return packed[1].to(packed[0]) if isinstance(packed, tuple) else packed
    with saved_tensors_hooks(pack, unpack):
        return fn()
""",
        """
import torch

class Halved:
    def __init__(self, tensor):
        self.dtype = tensor.dtype
        self.stored = tensor.detach().to(torch.float16) if tensor.dtype.is_floating_point else tensor
    @property
    def tensor(self):
        return self.stored.to(self.dtype)

def with_half_saved(fn):
    with torch.autograd.graph.saved_tensors_hooks(Halved, lambda halved: halved.tensor):
        result = fn()
    return result
""",
        """
import numpy as np
import torch
from torch.autograd.graph import saved_tensors_hooks

def pack(tensor):
    if not torch.is_floating_point(tensor):
        return tensor, None
    return tensor.detach().numpy().astype(np.float16), tensor.dtype

def unpack(packed):
    stored, dtype = packed
    return stored if dtype is None else torch.from_numpy(stored).to(dtype)

def with_half_saved(fn):
    context = saved_tensors_hooks(pack, unpack)
    context.__enter__()
    try:
        return fn()
    finally:
        context.__exit__(None, None, None)
""",
        """
from contextlib import ExitStack
from functools import partial
from torch.autograd.graph import saved_tensors_hooks

def back(dtype, stored):
    return stored.to(dtype)

def with_half_saved(fn):
    def pack(t):
        small = t.half() if t.is_floating_point() else t
        return partial(back, t.dtype, small.detach())
    with ExitStack() as stack:
        stack.enter_context(saved_tensors_hooks(pack, lambda restore: restore()))
        return fn()
""",
    ],
    "12-count-calls-by-type": [
        """
from collections import Counter
from torch import nn

def count_calls_by_type(model, x):
    counts, call = Counter(), nn.Module.__call__
    def counting(self, *args, **kwargs):
        counts[type(self).__name__] += 1
        return call(self, *args, **kwargs)
    nn.Module.__call__ = counting
    try:
        model(x)
    finally:
        nn.Module.__call__ = call
    return counts
""",
        """
from torch.nn.modules.module import register_module_forward_hook

def count_calls_by_type(model, x):
    counts = {}
    def count(module, args, output):
        name = type(module).__name__
        counts[name] = counts.get(name, 0) + 1
    handle = register_module_forward_hook(count)
    try:
        model(x)
    finally:
        handle.remove()
    return counts
""",
        """
from collections import Counter
from torch.nn.modules.module import register_module_forward_pre_hook

def count_calls_by_type(model, x):
    counter = Counter()
    with register_module_forward_pre_hook(lambda module, args: counter.update([module.__class__.__name__])):
        model(x)
    return counter
""",
        """
from collections import defaultdict
from unittest.mock import patch
from torch import nn

def count_calls_by_type(model, x):
    counts = defaultdict(int)
    call = nn.Module.__call__
    def counting(self, *args, **kwargs):
        counts[type(self).__name__] += 1
        return call(self, *args, **kwargs)
    with patch.object(nn.Module, "__call__", counting):
        model(x)
    return counts
""",
        """
import torch
from torch.nn.modules import module as everywhere

class Counting:
    def __init__(self):
        self.names = []
    def __call__(self, module, args, output):
        self.names.append(type(module).__name__)
    def __enter__(self):
        self.handle = everywhere.register_module_forward_hook(self)
        return self
    def __exit__(self, *error):
        self.handle.remove()

def count_calls_by_type(model, x):
    with torch.no_grad(), Counting() as counting:
        model(x)
    return {name: counting.names.count(name) for name in set(counting.names)}
""",
    ],
    "12-count-macs": [
        """
import torch
from torch.utils._python_dispatch import TorchDispatchMode

class Work(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.macs = 0
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        aten = torch.ops.aten
        if func._overloadpacket is aten.convolution:
            self.macs += out.numel() * args[1][0].numel()
        elif func._overloadpacket in (aten.mm, aten.addmm):
            self.macs += out.numel() * args[-1].shape[0]
        return out

def count_macs(model, x):
    with torch.no_grad(), Work() as work:
        model(x)
    return work.macs
""",
        """
from torch import nn

def count_macs(model, x):
    total, handles = 0, []
    def add(module, args, output):
        nonlocal total
        total += output.numel() * module.weight[0].numel()
    try:
        for module in model.modules():
            if isinstance(module, (nn.Conv2d, nn.Linear)):
                handles.append(module.register_forward_hook(add))
        model(x)
    finally:
        for handle in handles:
            handle.remove()
    return total
""",
        """
import torch
from torch.nn.modules.module import register_module_forward_hook

def count_macs(model, x):
    macs = []
    def hook(module, args, output):
        if isinstance(module, torch.nn.Linear):
            macs.append(output.numel() * module.in_features)
        elif isinstance(module, torch.nn.Conv2d):
            kh, kw = module.kernel_size
            macs.append(output.numel() * (module.in_channels // module.groups) * kh * kw)
    with register_module_forward_hook(hook), torch.no_grad():
        model(x)
    return sum(macs)
""",
        """
from torch.utils.flop_counter import FlopCounterMode

def count_macs(model, x):
    with FlopCounterMode(display=False) as counter:
        model(x)
    return counter.get_total_flops() // 2
""",
        """
from contextlib import ExitStack
from math import prod
import torch
from torch import nn

class Meter:
    def __init__(self):
        self.total = 0
    def conv(self, module, args, output):
        batch, out_channels, height, width = output.shape
        self.total += batch * out_channels * height * width * prod(module.weight.shape[1:])
    def linear(self, module, args, output):
        self.total += prod(args[0].shape) * module.out_features

def count_macs(model, x):
    meter = Meter()
    with ExitStack() as stack:
        for module in model.modules():
            if isinstance(module, nn.Conv2d):
                stack.enter_context(module.register_forward_hook(meter.conv))
            elif isinstance(module, nn.Linear):
                stack.enter_context(module.register_forward_hook(meter.linear))
        with torch.inference_mode():
            model(x)
    return meter.total
""",
    ],
}

WALK = """
def walk(y):
    found, todo = [], [y.grad_fn]
    while todo:
        node = todo.pop()
        if node is not None and node not in found:
            found.append(node)
            todo += [after for after, _ in node.next_functions]
    return found
"""

MACS = """
from torch import nn

def run_with(model, x, hook):
    handles = [m.register_forward_hook(hook) for m in model.modules() if isinstance(m, (nn.Conv2d, nn.Linear))]
    try:
        model(x)
    finally:
        for handle in handles:
            handle.remove()
"""

HALF = """
from torch.autograd.graph import saved_tensors_hooks

def pack(tensor):
    return (tensor.dtype, tensor.detach().half() if tensor.is_floating_point() else tensor.detach())

def unpack(packed):
    return packed[1].to(packed[0])
"""

WRONG = {
    "12-joint-norm-log": {
        "no-handle": """
from torch.autograd.graph import register_multi_grad_hook

def joint_norm_log(tensors):
    log = []
    register_multi_grad_hook(
        tensors, lambda grads: log.append(sum(g.square().sum().item() for g in grads if g is not None) ** 0.5))
    return log
""",
        "one-entry-per-tensor": """
class Handles(list):
    def remove(self):
        for handle in self:
            handle.remove()

def joint_norm_log(tensors):
    log = []
    return log, Handles(t.register_hook(lambda grad: log.append(grad.norm().item())) for t in tensors)
""",
        "first-tensor-only": """
from torch.autograd.graph import register_multi_grad_hook

def joint_norm_log(tensors):
    log = []
    return log, register_multi_grad_hook(tensors, lambda grad: log.append(grad.norm().item()), mode="any")
""",
        "sum-of-norms": """
from torch.autograd.graph import register_multi_grad_hook

def joint_norm_log(tensors):
    log = []
    def hook(grads):
        log.append(sum(grad.norm().item() for grad in grads if grad is not None))
    return log, register_multi_grad_hook(tensors, hook)
""",
        "no-root": """
from torch.autograd.graph import register_multi_grad_hook

def joint_norm_log(tensors):
    log = []
    def hook(grads):
        log.append(sum(grad.square().sum().item() for grad in grads if grad is not None))
    return log, register_multi_grad_hook(tensors, hook)
""",
        "unused-is-none": """
from torch.autograd.graph import register_multi_grad_hook

def joint_norm_log(tensors):
    log = []
    def hook(grads):
        log.append(sum(grad.square().sum().item() for grad in grads) ** 0.5)
    return log, register_multi_grad_hook(tensors, hook)
""",
    },
    "12-grad-into-nodes": {
        "grad-leaving-the-node": WALK
        + """
def grad_into_nodes(y, node_names):
    result, handles = {}, []
    for node in walk(y):
        if node.name() in node_names:
            def keep(grad_inputs, grad_outputs, name=node.name()):
                result[name] = grad_inputs[0].detach().clone()
            handles.append(node.register_hook(keep))
    try:
        y.backward()
    finally:
        for handle in handles:
            handle.remove()
    return result
""",
        "top-node-only": """
def grad_into_nodes(y, node_names):
    result = {}
    node = y.grad_fn
    if node.name() in node_names:
        handle = node.register_prehook(lambda grads: result.update({node.name(): grads[0].clone()}))
    y.backward()
    return result
""",
        "first-branch-only": """
def grad_into_nodes(y, node_names):
    result, handles, node = {}, [], y.grad_fn
    while node is not None:
        if node.name() in node_names:
            def keep(grads, name=node.name()):
                result[name] = grads[0].detach().clone()
            handles.append(node.register_prehook(keep))
        node = node.next_functions[0][0] if node.next_functions else None
    try:
        y.backward()
    finally:
        for handle in handles:
            handle.remove()
    return result
""",
        "late-binding": WALK
        + """
def grad_into_nodes(y, node_names):
    result, handles = {}, []
    for node in walk(y):
        if node.name() in node_names:
            handles.append(node.register_prehook(lambda grads: result.update({node.name(): grads[0].clone()})))
    try:
        y.backward()
    finally:
        for handle in handles:
            handle.remove()
    return result
""",
        "absent-as-none": WALK
        + """
def grad_into_nodes(y, node_names):
    result, handles = dict.fromkeys(node_names), []
    for node in walk(y):
        if node.name() in node_names:
            def keep(grads, name=node.name()):
                result[name] = grads[0].detach().clone()
            handles.append(node.register_prehook(keep))
    try:
        y.backward()
    finally:
        for handle in handles:
            handle.remove()
    return result
""",
        "visited-twice": """
def grad_into_nodes(y, node_names):
    result, handles = {}, []
    def visit(node):
        if node is None:
            return
        if node.name() in node_names:
            def add(grads, name=node.name()):
                result[name] = result.get(name, 0) + grads[0].detach()
            handles.append(node.register_prehook(add))
        for after, _ in node.next_functions:
            visit(after)
    visit(y.grad_fn)
    try:
        y.backward()
    finally:
        for handle in handles:
            handle.remove()
    return result
""",
        "met-none": """
def grad_into_nodes(y, node_names):
    result, handles, seen = {}, [], set()
    def visit(node):
        if node in seen:
            return
        seen.add(node)
        if node.name() in node_names:
            def keep(grads, name=node.name()):
                result[name] = grads[0].detach().clone()
            handles.append(node.register_prehook(keep))
        for after, _ in node.next_functions:
            visit(after)
    visit(y.grad_fn)
    try:
        y.backward()
    finally:
        for handle in handles:
            handle.remove()
    return result
""",
        "leaves-without-grad": WALK
        + """
import torch
from torch.autograd.graph import GradientEdge

def grad_into_nodes(y, node_names):
    edges = {node.name(): GradientEdge(node, 0) for node in walk(y) if node.name() in node_names}
    return {name: grad.clone() for name, grad in zip(edges, torch.autograd.grad(y, list(edges.values())))}
""",
        "backward-twice": WALK
        + """
def grad_into_nodes(y, node_names):
    result, handles = {}, []
    for node in walk(y):
        if node.name() in node_names:
            def keep(grads, name=node.name()):
                result[name] = grads[0].detach().clone()
            handles.append(node.register_prehook(keep))
    try:
        y.backward(retain_graph=True)
    finally:
        for handle in handles:
            handle.remove()
    y.backward()
    return result
""",
        "stored-alias": WALK
        + """
def grad_into_nodes(y, node_names):
    result, handles = {}, []
    for node in walk(y):
        if node.name() in node_names:
            def keep(grads, name=node.name()):
                result[name] = grads[0]
            handles.append(node.register_prehook(keep))
    try:
        y.backward()
    finally:
        for handle in handles:
            handle.remove()
    return result
""",
        "hook-left-behind": WALK
        + """
def grad_into_nodes(y, node_names):
    result = {}
    for node in walk(y):
        if node.name() in node_names:
            def keep(grads, name=node.name()):
                result[name] = grads[0].detach().clone()
            node.register_prehook(keep)
    y.backward()
    return result
""",
        "hook-left-after-exception": WALK
        + """
def grad_into_nodes(y, node_names):
    result, handles = {}, []
    for node in walk(y):
        if node.name() in node_names:
            def keep(grads, name=node.name()):
                result[name] = grads[0].detach().clone()
            handles.append(node.register_prehook(keep))
    y.backward()
    for handle in handles:
        handle.remove()
    return result
""",
    },
    "12-saved-bytes": {
        "elements-not-bytes": """
from torch.autograd.graph import saved_tensors_hooks

def saved_bytes(fn):
    sizes = []
    def pack(tensor):
        sizes.append(tensor.numel())
        return tensor.detach()
    with saved_tensors_hooks(pack, lambda tensor: tensor):
        fn()
    return sum(sizes)
""",
        "four-bytes-each": """
from torch.autograd.graph import saved_tensors_hooks

def saved_bytes(fn):
    sizes = []
    def pack(tensor):
        sizes.append(4 * tensor.numel())
        return tensor.detach()
    with saved_tensors_hooks(pack, lambda tensor: tensor):
        fn()
    return sum(sizes)
""",
        "counted-in-unpack": """
from torch.autograd.graph import saved_tensors_hooks

def saved_bytes(fn):
    sizes = []
    def unpack(tensor):
        sizes.append(tensor.numel() * tensor.element_size())
        return tensor
    with saved_tensors_hooks(lambda tensor: tensor.detach(), unpack):
        fn()
    return sum(sizes)
""",
        "counted-once": """
from torch.autograd.graph import saved_tensors_hooks

def saved_bytes(fn):
    sizes = {}
    def pack(tensor):
        sizes[id(tensor)] = tensor.numel() * tensor.element_size()
        kept.append(tensor)
        return tensor.detach()
    kept = []
    with saved_tensors_hooks(pack, lambda tensor: tensor):
        fn()
    return sum(sizes.values())
""",
        "whole-storage": """
from torch.autograd.graph import saved_tensors_hooks

def saved_bytes(fn):
    sizes = []
    def pack(tensor):
        sizes.append(tensor.untyped_storage().nbytes())
        return tensor.detach()
    with saved_tensors_hooks(pack, lambda tensor: tensor):
        fn()
    return sum(sizes)
""",
        "packed-a-number": """
from torch.autograd.graph import saved_tensors_hooks

def saved_bytes(fn):
    sizes = []
    def pack(tensor):
        sizes.append(tensor.numel() * tensor.element_size())
    with saved_tensors_hooks(pack, lambda tensor: tensor):
        fn()
    return sum(sizes)
""",
        "ran-backward": """
from torch.autograd.graph import saved_tensors_hooks

def saved_bytes(fn):
    total = 0
    def unpack(tensor):
        nonlocal total
        total += tensor.nbytes
        return tensor
    with saved_tensors_hooks(lambda tensor: tensor.detach(), unpack):
        y = fn()
        if y.requires_grad:
            y.sum().backward()
    return total
""",
        "hook-left-behind": """
from torch.autograd.graph import saved_tensors_hooks

def saved_bytes(fn):
    sizes = []
    def pack(tensor):
        sizes.append(tensor.numel() * tensor.element_size())
        return tensor.detach()
    saved_tensors_hooks(pack, lambda tensor: tensor).__enter__()
    fn()
    return sum(sizes)
""",
        "hook-left-after-exception": """
from torch.autograd.graph import saved_tensors_hooks

def saved_bytes(fn):
    sizes = []
    def pack(tensor):
        sizes.append(tensor.numel() * tensor.element_size())
        return tensor.detach()
    context = saved_tensors_hooks(pack, lambda tensor: tensor)
    context.__enter__()
    fn()
    context.__exit__()
    return sum(sizes)
""",
    },
    "12-with-half-saved": {
        "halved-the-forward": """
from torch.autograd.graph import saved_tensors_hooks

def with_half_saved(fn):
    def pack(tensor):
        if not tensor.is_floating_point():
            return tensor
        tensor.data.copy_(tensor.half())
        return tensor.dtype, tensor.half()
    def unpack(packed):
        return packed[1].to(packed[0]) if isinstance(packed, tuple) else packed
    with saved_tensors_hooks(pack, unpack):
        return fn()
""",
        "nothing-packed": HALF
        + """
def with_half_saved(fn):
    result = fn()
    with saved_tensors_hooks(pack, unpack):
        return result
""",
        "float32-only": """
import torch
from torch.autograd.graph import saved_tensors_hooks

def with_half_saved(fn):
    def pack(tensor):
        return (tensor.dtype, tensor.detach().half()) if tensor.dtype == torch.float32 else tensor
    def unpack(packed):
        return packed[1].to(packed[0]) if isinstance(packed, tuple) else packed
    with saved_tensors_hooks(pack, unpack):
        return fn()
""",
        "casted-integers": """
from torch.autograd.graph import saved_tensors_hooks

def with_half_saved(fn):
    with saved_tensors_hooks(lambda t: (t.dtype, t.detach().half()), lambda packed: packed[1].to(packed[0])):
        return fn()
""",
        "dtype-not-restored": """
from torch.autograd.graph import saved_tensors_hooks

def with_half_saved(fn):
    def pack(tensor):
        return tensor.detach().half() if tensor.is_floating_point() else tensor
    def unpack(tensor):
        return tensor.float() if tensor.is_floating_point() else tensor
    with saved_tensors_hooks(pack, unpack):
        return fn()
""",
        "stored-in-full": """
from torch.autograd.graph import saved_tensors_hooks

def with_half_saved(fn):
    def pack(tensor):
        return tensor.detach().half().to(tensor.dtype) if tensor.is_floating_point() else tensor.detach()
    with saved_tensors_hooks(pack, lambda tensor: tensor):
        return fn()
""",
        "result-dropped": HALF
        + """
def with_half_saved(fn):
    with saved_tensors_hooks(pack, unpack):
        fn()
""",
        "hook-left-behind": HALF
        + """
def with_half_saved(fn):
    saved_tensors_hooks(pack, unpack).__enter__()
    return fn()
""",
        "hook-left-after-exception": HALF
        + """
def with_half_saved(fn):
    context = saved_tensors_hooks(pack, unpack)
    context.__enter__()
    result = fn()
    context.__exit__()
    return result
""",
    },
    "12-count-calls-by-type": {
        "counted-modules": """
from collections import Counter

def count_calls_by_type(model, x):
    model(x)
    return Counter(type(module).__name__ for module in model.modules())
""",
        "leaves-only": """
from collections import Counter
from torch.nn.modules.module import register_module_forward_hook

def count_calls_by_type(model, x):
    counts = Counter()
    def count(module, args, output):
        if not list(module.children()):
            counts[type(module).__name__] += 1
    with register_module_forward_hook(count):
        model(x)
    return counts
""",
        "registered-modules-only": """
from collections import Counter

def count_calls_by_type(model, x):
    counts = Counter()
    def count(module, args, output):
        counts[type(module).__name__] += 1
    handles = [module.register_forward_hook(count) for module in model.modules()]
    try:
        model(x)
    finally:
        for handle in handles:
            handle.remove()
    return counts
""",
        "hook-left-behind": """
from collections import Counter
from torch.nn.modules.module import register_module_forward_hook

def count_calls_by_type(model, x):
    counts = Counter()
    def count(module, args, output):
        counts[type(module).__name__] += 1
    register_module_forward_hook(count)
    model(x)
    return counts
""",
        "hook-left-after-exception": """
from collections import Counter
from torch.nn.modules.module import register_module_forward_hook

def count_calls_by_type(model, x):
    counts = Counter()
    def count(module, args, output):
        counts[type(module).__name__] += 1
    handle = register_module_forward_hook(count)
    model(x)
    handle.remove()
    return counts
""",
    },
    "12-count-macs": {
        "ignored-groups": MACS
        + """
def count_macs(model, x):
    macs = []
    def hook(module, args, output):
        if isinstance(module, nn.Conv2d):
            kh, kw = module.kernel_size
            macs.append(output.numel() * module.in_channels * kh * kw)
        else:
            macs.append(output.numel() * module.in_features)
    run_with(model, x, hook)
    return sum(macs)
""",
        "input-size-used": MACS
        + """
def count_macs(model, x):
    macs = []
    def hook(module, args, output):
        if isinstance(module, nn.Conv2d):
            batch, _, height, width = args[0].shape
            macs.append(batch * height * width * module.weight.numel())
        else:
            macs.append(output.numel() * module.in_features)
    run_with(model, x, hook)
    return sum(macs)
""",
        "square-kernel": MACS
        + """
def count_macs(model, x):
    macs = []
    def hook(module, args, output):
        if isinstance(module, nn.Conv2d):
            macs.append(output.numel() * module.in_channels // module.groups * module.kernel_size[0] ** 2)
        else:
            macs.append(output.numel() * module.in_features)
    run_with(model, x, hook)
    return sum(macs)
""",
        "only-last-call": MACS
        + """
def count_macs(model, x):
    macs = {}
    def hook(module, args, output):
        macs[module] = output.numel() * module.weight[0].numel()
    run_with(model, x, hook)
    return sum(macs.values())
""",
        "ignored-batch": MACS
        + """
def count_macs(model, x):
    macs = []
    def hook(module, args, output):
        macs.append(output[0].numel() * module.weight[0].numel())
    run_with(model, x, hook)
    return sum(macs)
""",
        "rows-not-counted": MACS
        + """
def count_macs(model, x):
    macs = []
    def hook(module, args, output):
        if isinstance(module, nn.Conv2d):
            macs.append(output.numel() * module.weight[0].numel())
        else:
            macs.append(len(output) * module.in_features * module.out_features)
    run_with(model, x, hook)
    return sum(macs)
""",
        "counted-weights": MACS
        + """
def count_macs(model, x):
    macs = []
    run_with(model, x, lambda module, args, output: macs.append(module.weight.numel()))
    return sum(macs)
""",
        "counted-bias": MACS
        + """
def count_macs(model, x):
    macs = []
    def hook(module, args, output):
        macs.append(output.numel() * (module.weight[0].numel() + (module.bias is not None)))
    run_with(model, x, hook)
    return sum(macs)
""",
        "flops-not-macs": """
from torch.utils.flop_counter import FlopCounterMode

def count_macs(model, x):
    with FlopCounterMode(display=False) as counter:
        model(x)
    return counter.get_total_flops()
""",
        "hook-left-behind": """
from torch import nn

def count_macs(model, x):
    macs = []
    def hook(module, args, output):
        macs.append(output.numel() * module.weight[0].numel())
    for module in model.modules():
        if isinstance(module, (nn.Conv2d, nn.Linear)):
            module.register_forward_hook(hook)
    model(x)
    return sum(macs)
""",
        "hook-left-after-exception": """
from torch import nn

def count_macs(model, x):
    macs = []
    def hook(module, args, output):
        macs.append(output.numel() * module.weight[0].numel())
    handles = [m.register_forward_hook(hook) for m in model.modules() if isinstance(m, (nn.Conv2d, nn.Linear))]
    model(x)
    for handle in handles:
        handle.remove()
    return sum(macs)
""",
    },
}

ALSO_WRONG = {
    "12-joint-norm-log": [
        """
from torch.autograd.graph import register_multi_grad_hook

def joint_norm_log(tensors):
    log = []
    def hook(grads):
        log.append(sum(t.grad.square().sum().item() for t in tensors if t.is_leaf and t.grad is not None) ** 0.5)
    return log, register_multi_grad_hook(tensors, hook)
""",
        """
from torch.autograd.graph import register_multi_grad_hook

def joint_norm_log(tensors):
    log, arrived = [], []
    def hook(grad):
        arrived.append(grad.square().sum().item())
        if len(arrived) == len(tensors):  # a pass may reach fewer
            log.append(sum(arrived) ** 0.5)
            arrived.clear()
    handles = [tensor.register_hook(hook) for tensor in tensors]
    class All:
        def remove(self):
            for handle in handles:
                handle.remove()
    return log, All()
""",
        """
from torch.autograd.graph import register_multi_grad_hook

def joint_norm_log(tensors):
    log = []
    def hook(grads):
        log.append(sum(grad.square().sum().item() for grad in grads if grad is not None) ** 0.5)
    handle = register_multi_grad_hook(tensors, hook)
    return list(log), handle
""",
        """
from torch.autograd.graph import register_multi_grad_hook

def joint_norm_log(tensors):
    log = []
    def hook(grads):
        norm = sum(grad.square().sum().item() for grad in grads if grad is not None) ** 0.5
        if norm:
            log.append(norm)
    return log, register_multi_grad_hook(tensors, hook)
""",
        """
from torch.autograd.graph import register_multi_grad_hook

def joint_norm_log(tensors):
    log = []
    def hook(grads):
        log.append(sum(grad.square().sum() for grad in grads if grad is not None) ** 0.5)
    return log, register_multi_grad_hook(tensors, hook)
""",
        """
from torch.autograd.graph import register_multi_grad_hook

def joint_norm_log(tensors):
    log = []
    def hook(grads):
        log.append(max(grad.abs().max().item() for grad in grads if grad is not None))
    return log, register_multi_grad_hook(tensors, hook)
""",
        """
from torch.autograd.graph import register_multi_grad_hook

class Nothing:
    def remove(self):
        pass

def joint_norm_log(tensors):
    log = []
    def hook(grads):
        log.append(sum(grad.square().sum().item() for grad in grads if grad is not None) ** 0.5)
    register_multi_grad_hook(tensors, hook)
    return log, Nothing()
""",
        """
def joint_norm_log(tensors):
    log = []
    return log, tensors[0].register_hook(lambda grad: log.append(grad.norm().item()))
""",
        """
from torch.autograd.graph import register_multi_grad_hook

def joint_norm_log(tensors):
    log = []
    def hook(grads):
        log.append(sum(grad.pow_(2).sum().item() for grad in grads if grad is not None) ** 0.5)
    return log, register_multi_grad_hook(tensors, hook)
""",
        """
def joint_norm_log(tensors):
    return [], None
""",
        """
import torch
from torch.autograd.graph import register_multi_grad_hook

def joint_norm_log(tensors):
    log = []
    handle = register_multi_grad_hook(tensors, lambda grads: log.append(
        sum(g.square().sum().item() for g in grads if g is not None) ** 0.5))
    return handle, log
""",
    ],
    "12-grad-into-nodes": [
        # the gradients of the leaves have a graph
        WALK
        + """
def grad_into_nodes(y, node_names):
    result, handles = {}, []
    for node in walk(y):
        if node.name() in node_names:
            def before(grads, name=node.name()):
                result[name] = grads[0].detach().clone()
            handles.append(node.register_prehook(before))
    try:
        y.backward(create_graph=True)
    finally:
        for handle in handles:
            handle.remove()
    return result
""",
        """
def grad_into_nodes(y, node_names):
    y.backward()
    return {}
""",
        """
def grad_into_nodes(y, node_names):
    return None
""",
        WALK
        + """
def grad_into_nodes(y, node_names):
    result, handles = {}, []
    for node in walk(y):
        if node.name() in node_names:
            def keep(grads, name=node.name()):
                result[name] = grads
            handles.append(node.register_prehook(keep))
    y.backward()
    return result
""",
        WALK
        + """
def grad_into_nodes(y, node_names):
    result, handles = {}, []
    for node in walk(y):
        def keep(grads, name=node.name()):
            result[name] = grads[0].detach().clone()
        handles.append(node.register_prehook(keep))
    y.backward()
    for handle in handles:
        handle.remove()
    return result
""",
        WALK
        + """
def grad_into_nodes(y, node_names):
    result, handles = {}, []
    for node in walk(y):
        if node.name() in node_names:
            def keep(grads, name=node.name()):
                result[name] = sum(grad.sum() for grad in grads)
            handles.append(node.register_prehook(keep))
    y.backward()
    for handle in handles:
        handle.remove()
    return result
""",
        WALK
        + """
def grad_into_nodes(y, node_names):
    result, handles = {}, []
    for node in walk(y):
        if node.name() in node_names:
            def keep(grads, name=node.name()):
                result[name] = grads[0].detach().clone()
                return tuple(grad * 0 for grad in grads)
            handles.append(node.register_prehook(keep))
    y.backward()
    for handle in handles:
        handle.remove()
    return result
""",
        WALK
        + """
def grad_into_nodes(y, node_names):
    result, handles = {}, []
    for node in walk(y):
        if node.name() in node_names:
            def keep(grads, name=node.name()):
                result[name] = grads[0].detach().clone()
            handles.append(node.register_prehook(keep))
    try:
        y.backward()
    except Exception:
        pass
    for handle in handles:
        handle.remove()
    return result
""",
    ],
    "12-saved-bytes": [
        # parameters are saved like other tensors
        """
import torch
from torch.autograd.graph import saved_tensors_hooks

def saved_bytes(fn):
    sizes = []
    def pack(tensor):
        if not isinstance(tensor, torch.nn.Parameter):
            sizes.append(tensor.numel() * tensor.element_size())
        return tensor
    with saved_tensors_hooks(pack, lambda tensor: tensor):
        fn()
    return sum(sizes)
""",
        """
import torch
from torch.autograd.graph import saved_tensors_hooks

def saved_bytes(fn):
    sizes = []
    def pack(tensor):
        sizes.append(tensor.nbytes)
        return tensor.detach()
    with torch.enable_grad(), saved_tensors_hooks(pack, lambda tensor: tensor):
        fn()
    return sum(sizes)
""",
        """
def saved_bytes(fn):
    result = fn()
    return result.numel() * result.element_size()
""",
        """
from torch.autograd.graph import saved_tensors_hooks

def saved_bytes(fn):
    sizes = []
    def pack(tensor):
        sizes.append(float(tensor.nbytes))
        return tensor.detach()
    with saved_tensors_hooks(pack, lambda tensor: tensor):
        fn()
    return sum(sizes)
""",
        """
from torch.autograd.graph import saved_tensors_hooks

def saved_bytes(fn):
    sizes = []
    def pack(tensor):
        sizes.append(tensor.numel() * tensor.element_size())
        return tensor.detach()
    fn()
    with saved_tensors_hooks(pack, lambda tensor: tensor):
        fn()
    return sum(sizes)
""",
        """
from torch.autograd.graph import saved_tensors_hooks

def saved_bytes(fn):
    sizes = []
    def pack(tensor):
        sizes.append(tensor.numel() * tensor.element_size())
        return tensor.detach()
    with saved_tensors_hooks(pack, lambda tensor: tensor):
        try:
            fn()
        except Exception:
            pass
    return sum(sizes)
""",
        """
import torch
from torch.autograd.graph import saved_tensors_hooks

def saved_bytes(fn):
    sizes = []
    def pack(tensor):
        sizes.append(tensor.numel() * tensor.element_size())
        return tensor.detach()
    with torch.enable_grad(), saved_tensors_hooks(pack, lambda tensor: torch.zeros_like(tensor)):
        fn()
    return sum(sizes)
""",
        """
from torch.autograd.graph import saved_tensors_hooks

def saved_bytes(fn):
    shapes = {}
    def pack(tensor):
        shapes[tensor.shape] = tensor.numel() * tensor.element_size()
        return tensor.detach()
    with saved_tensors_hooks(pack, lambda tensor: tensor):
        fn()
    return sum(shapes.values())
""",
    ],
    "12-with-half-saved": [
        # tensors without dimensions are saved as they are
        HALF.replace("if tensor.is_floating_point()", "if tensor.is_floating_point() and tensor.dim()")
        + """
def with_half_saved(fn):
    with saved_tensors_hooks(pack, unpack):
        return fn()
""",
        # the dtypes are good for one backward pass
        """
from torch.autograd.graph import saved_tensors_hooks

def with_half_saved(fn):
    dtypes = []
    def pack(tensor):
        dtypes.append(tensor.dtype)
        return tensor.detach().half() if tensor.is_floating_point() else tensor
    with saved_tensors_hooks(pack, lambda stored: stored.to(dtypes.pop())):
        return fn()
""",
        HALF
        + """
def with_half_saved(fn):
    fn()
    with saved_tensors_hooks(pack, unpack):
        return fn()
""",
        """
def with_half_saved(fn):
    return fn()
""",
        """
import torch

def with_half_saved(fn):
    with torch.autocast("cpu", dtype=torch.float16):
        return fn()
""",
        """
from torch.autograd.graph import saved_tensors_hooks

def with_half_saved(fn):
    with saved_tensors_hooks(lambda t: t.half(), lambda t: t.float()):
        return fn()
""",
        """
import torch
from torch.autograd.graph import saved_tensors_hooks

def with_half_saved(fn):
    def pack(t):
        return (t.dtype, t.detach().bfloat16()) if t.is_floating_point() else t
    def unpack(p):
        return p[1].to(p[0]) if isinstance(p, tuple) else p
    with saved_tensors_hooks(pack, unpack):
        return fn()
""",
        HALF
        + """
def with_half_saved(fn):
    with saved_tensors_hooks(pack, unpack):
        fn()
    return fn()
""",
        HALF
        + """
def with_half_saved(fn):
    with saved_tensors_hooks(pack, unpack):
        return fn()["out"]
""",
        """
from torch.autograd.graph import saved_tensors_hooks

def with_half_saved(fn):
    def pack(t):
        small = t.detach().half() if t.is_floating_point() else t.detach()
        return lambda: small.to(t.dtype)
    with saved_tensors_hooks(pack, lambda restore: restore()):
        return fn()
""",
        """
from torch.autograd.graph import saved_tensors_hooks

def with_half_saved(fn):
    def pack(t):
        return t.detach(), t.dtype
    def unpack(p):
        return p[0].half().to(p[1]) if p[0].is_floating_point() else p[0]
    with saved_tensors_hooks(pack, unpack):
        return fn()
""",
    ],
    "12-count-calls-by-type": [
        """
from collections import Counter
from torch.nn.modules.module import register_module_forward_hook

def count_calls_by_type(model, x):
    counts = Counter()
    with register_module_forward_hook(lambda module, *_: counts.update([type(module).__qualname__])):
        model(x)
    return counts
""",
        """
from collections import Counter
from torch.nn.modules.module import register_module_forward_hook

def count_calls_by_type(model, x):
    counts = Counter()
    with register_module_forward_hook(lambda module, *_: counts.update([type(module).__name__])):
        model(x.requires_grad_())
    return counts
""",
        """
from collections import Counter
from torch.nn.modules.module import register_module_forward_pre_hook

def count_calls_by_type(model, x):
    called = set()
    with register_module_forward_pre_hook(lambda module, args: called.add(module)):
        model(x)
    return dict(Counter(type(module).__name__ for module in called))
""",
        """
from collections import Counter
from torch.nn.modules import module as shared

def count_calls_by_type(model, x):
    counts = Counter()
    shared.register_module_forward_pre_hook(lambda module, args: counts.update([type(module).__name__]))
    try:
        model(x)
    finally:
        shared._global_forward_pre_hooks.clear()
    return dict(counts)
""",
        """
from collections import Counter
from torch.nn.modules.module import register_module_forward_hook

def count_calls_by_type(model, x):
    counts = Counter()
    with register_module_forward_hook(lambda module, *_: counts.update([type(module).__name__])):
        model(x)
        model(x)
    return counts
""",
        """
from torch.nn.modules.module import register_module_forward_hook

def count_calls_by_type(model, x):
    counts = {}
    with register_module_forward_hook(lambda module, *_: counts.update({type(module).__name__: 1})):
        model(x)
    return counts
""",
        """
from collections import Counter
from torch.nn.modules.module import register_module_forward_hook

def count_calls_by_type(model, x):
    counts = Counter()
    with register_module_forward_hook(lambda module, *_: counts.update([type(module)])):
        model(x)
    return counts
""",
        """
from collections import Counter
from torch.nn.modules.module import register_module_forward_hook

def count_calls_by_type(model, x):
    counts = Counter()
    with register_module_forward_hook(lambda module, *_: counts.update([type(module).__name__])):
        model.eval()(x)
    return counts
""",
        """
from collections import Counter
from torch import nn

def count_calls_by_type(model, x):
    counts = Counter()
    def find(value):
        if isinstance(value, nn.Module):
            counts[type(value).__name__] += 1
            for inner in vars(value).values():
                find(inner)
        elif isinstance(value, dict):
            for inner in value.values():
                find(inner)
        elif isinstance(value, (list, tuple)):
            for inner in value:
                find(inner)
    find(model)
    model(x)
    return counts
""",
    ],
    "12-count-macs": [
        # modules of other kinds have weights of two dimensions, too
        MACS.replace("isinstance(m, (nn.Conv2d, nn.Linear))", "getattr(getattr(m, 'weight', None), 'ndim', 0) > 1")
        + """
def count_macs(model, x):
    macs = []
    run_with(model, x, lambda m, args, output: macs.append(output.numel() * m.weight[0].numel()))
    return sum(macs)
""",
        # a module that has two names gets two hooks
        MACS.replace("m in model.modules()", "_, m in model.named_modules(remove_duplicate=False)")
        + """
def count_macs(model, x):
    macs = []
    run_with(model, x, lambda m, args, output: macs.append(output.numel() * m.weight[0].numel()))
    return sum(macs)
""",
        # runs the model on one sample
        MACS
        + """
def count_macs(model, x):
    macs = []
    run_with(model, x[:1], lambda m, args, output: macs.append(output.numel() * m.weight[0].numel()))
    return sum(macs) * len(x)
""",
        """
from torch import nn

def count_macs(model, x):
    macs = []
    handles = [
        m.register_forward_hook(lambda m, args, out: macs.append(out.numel() * m.weight[0].numel()))
        for m in model.children()
        if isinstance(m, (nn.Conv2d, nn.Linear))
    ]
    try:
        model(x)
    finally:
        for handle in handles:
            handle.remove()
    return sum(macs)
""",
        """
def count_macs(model, x):
    macs = []
    handles = [
        m.register_forward_hook(lambda m, args, out: macs.append(out.numel() * m.weight[0].numel()))
        for m in model.modules()
        if hasattr(m, "weight")
    ]
    try:
        model(x)
    finally:
        for handle in handles:
            handle.remove()
    return sum(macs)
""",
        MACS
        + """
def count_macs(model, x):
    macs = []
    def hook(module, args, output):
        if type(module) in (nn.Conv2d, nn.Linear):
            macs.append(output.numel() * module.weight[0].numel())
    run_with(model, x, hook)
    return sum(macs)
""",
        MACS
        + """
def count_macs(model, x):
    macs = []
    def hook(module, args, output):
        macs.append(output.numel() * module.weight[0].numel() / 1.0)
    run_with(model, x, hook)
    return sum(macs)
""",
        MACS
        + """
def count_macs(model, x):
    macs = []
    def hook(module, args, output):
        macs.append(output.numel() * module.weight[0].numel())
    run_with(model.train(), x, hook)
    return sum(macs)
""",
        MACS
        + """
def count_macs(model, x):
    macs = []
    def hook(module, args, output):
        if isinstance(module, nn.Conv2d):
            macs.append(output.numel() * module.weight[0].numel())
    run_with(model, x, hook)
    return sum(macs)
""",
        MACS
        + """
def count_macs(model, x):
    macs = []
    def hook(module, args, output):
        if isinstance(module, nn.Conv2d):
            kh, kw = (d * (k - 1) + 1 for d, k in zip(module.dilation, module.kernel_size))
            macs.append(output.numel() * module.in_channels // module.groups * kh * kw)
        else:
            macs.append(output.numel() * module.in_features)
    run_with(model, x, hook)
    return sum(macs)
""",
        """
import torch
from torch.utils.flop_counter import FlopCounterMode

def count_macs(model, x):
    with FlopCounterMode(display=False) as counter:
        model(x).sum().backward()
    return counter.get_total_flops() // 6
""",
        """
def count_macs(model, x):
    model(x)
    return sum(p.numel() for p in model.parameters()) * len(x)
""",
    ],
}
