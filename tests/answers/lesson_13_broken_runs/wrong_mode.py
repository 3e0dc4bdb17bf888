"""Answers to 13-wrong-mode."""

FIRST = """
import contextlib
import torch

def tensors(output):
    if isinstance(output, dict):
        output = tuple(output.values())
    if not isinstance(output, tuple):
        output = (output,)
    return [t.detach().clone() for t in output]

def wrong_mode(model, x):
    root, found = model.training, set()
    random, buffers = torch.get_rng_state(), [b.detach().clone() for b in model.buffers()]
    modes = {m: m.training for m in model.modules()}
    busy = False

    def reset(random, buffers):
        torch.set_rng_state(random)
        for b, old in zip(model.buffers(), buffers):
            b.detach().copy_(old)

    def before(module, args, kwargs):
        nonlocal busy
        if busy or module.training == root:
            return
        busy = True
        here, now = torch.get_rng_state(), [b.detach().clone() for b in model.buffers()]
        own, outputs = module.training, []
        for training in (True, False):
            reset(here, now)
            module.training = training
            inputs = [a.clone() if torch.is_tensor(a) else a for a in args]
            words = {k: a.clone() if torch.is_tensor(a) else a for k, a in kwargs.items()}
            outputs.append(tensors(module.forward(*inputs, **words)))
        module.training = own
        reset(here, now)
        busy = False
        if any(not torch.equal(a, b) for a, b in zip(*outputs)):
            found.add(module)

    handles = []
    try:
        for m in model.modules():
            handles.append(m.register_forward_pre_hook(before, with_kwargs=True))
        model(x)
    finally:
        for handle in handles:
            handle.remove()
        reset(random, buffers)
        for m, training in modes.items():
            m.training = training
    return [name for name, m in model.named_modules() if m in found]
"""

RUNS = """
import torch

def tensors(value):
    if isinstance(value, torch.Tensor):
        return [value.clone()]
    if isinstance(value, dict):
        value = list(value.values())
    return [t for v in value for t in tensors(v)] if isinstance(value, (tuple, list)) else []

def outputs_of(module, model, x):
    outputs = []
    with module.register_forward_hook(lambda m, a, out: outputs.extend(tensors(out))):
        model(x)
    return outputs

def wrong_mode(model, x):
    names = []
    saved = [(b, b.clone()) for b in model.buffers()]
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        state = torch.get_rng_state()
        def run(module):
            try:
                torch.set_rng_state(state)
                return outputs_of(module, model, x)
            finally:
                for b, old in saved:
                    b.copy_(old)
        for name, module in model.named_modules():
            if module.training == model.training:
                continue
            as_it_is = run(module)
            module.training = not module.training
            try:
                switched = run(module)
            finally:
                module.training = not module.training
            if not all(torch.allclose(a, b) for a, b in zip(as_it_is, switched)):
                names.append(name)
    return names
"""

RIGHT = [
    FIRST,
    # a run of the whole model for each suspect, and its outputs in both modes
    RUNS,
    # copies of the model do the work
    """
import copy
import torch

def flat(out):
    out = out if isinstance(out, (tuple, dict)) else (out,)
    values = out.values() if isinstance(out, dict) else out
    return [v.detach().clone() for v in values]

def outputs(model, name, x, mode):
    model = copy.deepcopy(model)
    module = model.get_submodule(name)
    module.training = mode
    kept = []
    module.register_forward_hook(lambda m, a, o: kept.append(flat(o)))
    with torch.random.fork_rng():
        torch.manual_seed(11)
        with torch.inference_mode():
            model(x)
    return kept

def differ(ones, others):
    return any(bool((a != b).any()) for one, other in zip(ones, others) for a, b in zip(one, other))

def wrong_mode(model, x):
    suspects = [n for n, m in model.named_modules() if m.training is not model.training]
    return [n for n in suspects if differ(outputs(model, n, x, True), outputs(model, n, x, False))]
""",
    # `forward` of each suspect is replaced for a while
    """
import contextlib
import torch

class Scales:
    def __init__(self, model):
        self.model, self.verdicts, self.depth = model, {}, 0

    def keep(self):
        return torch.get_rng_state(), {n: b.clone() for n, b in self.model.named_buffers()}

    @torch.no_grad()
    def restore(self, kept):
        torch.set_rng_state(kept[0])
        for n, b in self.model.named_buffers():
            b.copy_(kept[1][n])

    def weigh(self, module, forward, args, kwargs):
        kept, mode, outs = self.keep(), module.training, []
        self.depth += 1
        try:
            for flag in (mode, not mode):
                self.restore(kept)
                module.training = flag
                out = forward(*[c(a) for a in args], **{k: c(a) for k, a in kwargs.items()})
                out = list(out.values()) if hasattr(out, "values") and not torch.is_tensor(out) else out
                out = list(out) if isinstance(out, (list, tuple)) else [out]
                outs.append([c(o) for o in out])
        finally:
            self.depth -= 1
            module.training = mode
            self.restore(kept)
        return any(not torch.allclose(a, b, atol=1e-6) for a, b in zip(*outs))

    def wrap(self, module):
        forward = module.forward
        def wrapped(*args, **kwargs):
            if not self.depth and self.weigh(module, forward, args, kwargs):
                self.verdicts[id(module)] = True
            return forward(*args, **kwargs)
        return wrapped

def c(value):
    return value.clone() if torch.is_tensor(value) else value

def wrong_mode(model, x):
    scales = Scales(model)
    kept = scales.keep()
    with contextlib.ExitStack() as stack:
        stack.callback(scales.restore, kept)
        for module in model.modules():
            if module.training ^ model.training:
                module.__dict__["forward"] = scales.wrap(module)
                stack.callback(module.__dict__.pop, "forward")
        model(x)
    return [n for n, m in model.named_modules() if scales.verdicts.get(id(m), False)]
""",
    # notes the calls first, and calls the modules afterwards, with all their hooks
    """
import torch

def wrong_mode(model, x):
    calls, handles, off = [], [], {m: n for n, m in model.named_modules() if m.training != model.training}
    everything = list(model.buffers())
    copy = lambda v: v.detach().clone() if isinstance(v, torch.Tensor) else v
    def note(module, args, kwargs):
        calls.append((module, [copy(a) for a in args], {k: copy(v) for k, v in kwargs.items()},
                      torch.get_rng_state(), [b.clone() for b in everything]))
    def put(state, values):
        torch.set_rng_state(state)
        with torch.no_grad():
            for b, v in zip(everything, values):
                b.copy_(v)
    begin = torch.get_rng_state(), [b.clone() for b in everything]
    try:
        for module in off:
            handles.append(module.register_forward_pre_hook(note, with_kwargs=True))
        with torch.no_grad():
            model(x)
        while handles:
            handles.pop().remove()
        bad = []
        for module, args, kwargs, state, values in calls:
            result = {}
            mode = module.training
            for flag in (False, True):
                put(state, values)
                module.training = flag
                try:
                    with torch.no_grad():
                        out = module(*map(copy, args), **{k: copy(v) for k, v in kwargs.items()})
                finally:
                    module.training = mode
                parts = out if isinstance(out, tuple) else out.values() if isinstance(out, dict) else [out]
                result[flag] = [copy(p) for p in parts]
            for a, b in zip(result[False], result[True]):
                if (a - b).abs().max() > 1e-6:
                    bad.append(off[module])
    finally:
        for handle in handles:
            handle.remove()
        put(*begin)
    return [name for name in off.values() if name in bad]
""",
]

SURVIVORS = {
    "not for all: … step=-1": "the other order",
    "not for all: … odules(), start=1": "the model itself is in its own mode",
    "a hook that works at times: @_not_the_first_call": "the first call of all meets no module whose mode matters",
    "almost: torch.manual_seed(12)": "both calls begin with the same numbers all the same",
    "almost: if (a - b).abs().max() >= 1e-06": "no difference is so small",
    "a list for a tuple": "only its entries are used",
    "model.forward(x)": "hooks of the caller leave inputs alone, so that nothing hangs on those of the model itself",
    "prepend=True": "hooks of the caller leave inputs alone, so that nothing hangs on those of the model itself",
    "condition dropped": "a module gets one tensor, and nothing else",
    "lost copy: return [_not_copied(": "no other module runs between the two calls",
    "lost copy: out = _not_copied(out)": "the list is not changed",
    "lost statement: without self.restore(kept)": "the next call puts back first; the model may run with any numbers",
    "lost statement: without torch.manual_seed(11)": "both runs begin with the numbers of the caller",
    "lost copy: return [_not_detached(": "a graph that is kept costs memory, and no more",
    "one global slot: result = ": "both entries are written for each call",
    "clean-up … without try": "where an interrupt comes, nothing may be changed yet",
    "lost statement: … now)": "the next call puts back first; the model may run with any numbers",
    "… modes": "suspects that raise are not the last",
    "… busy": "a module in a container is only looked at once more, and found to be what it is",
    "not for all: here, now = … stop=3": "what a fourth buffer holds when a trial begins changes nothing in it",
    "not for all: calls.append(… _part(everything, stop=3": (
        "what a fourth buffer holds when a trial begins changes nothing in it"
    ),
}
