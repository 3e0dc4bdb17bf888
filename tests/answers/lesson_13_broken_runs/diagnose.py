"""Answers to 13-diagnose."""

from graders.author.answers import Wrong, changed

FIRST = """
import torch
from torch import nn

KINDS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")

def rms(t):
    return t.double().pow(2).mean().sqrt().item()

def run(model, x, y, loss_fn, state):
    torch.set_rng_state(state)
    names, calls = {m: n for n, m in model.named_modules()}, []
    def note(module, args, output):
        calls.append([names[module], output.detach().clone(), None])
        if output.requires_grad:
            output.register_hook(lambda grad, call=calls[-1]: call.__setitem__(2, grad.clone()))
    for module in model.modules():
        if not list(module.children()):
            module.register_forward_hook(note)
    loss = loss_fn(model(x), y)
    if loss.requires_grad:
        loss.backward()
    return calls

def grads(model):
    return {n: p.grad for n, p in model.named_parameters()}

def differ(ones, others):
    for name, one in ones.items():
        other = others[name]
        if (one is None) != (other is None):
            return True
        if one is not None and not torch.allclose(one, other, rtol=1e-4, atol=0):
            return True
    return False

def hooks_of(module):
    own = [getattr(module, kind) for kind in KINDS]
    for p in module.parameters(recurse=False):
        own += [hooks for hooks in (p._backward_hooks, p._post_accumulate_grad_hooks) if hooks]
    return own

def mode_matters(make, name, x, state):
    outputs = []
    for training in (True, False):
        model = make()
        module = model.get_submodule(name)
        module.training = training
        kept = []
        module.register_forward_hook(lambda m, a, o: kept.append(o.detach().clone()))
        torch.set_rng_state(state)
        model(x)
        outputs.append(kept)
    return any(not torch.equal(a, b) for a, b in zip(*outputs))

def look(make, x, y, loss_fn, lr, state):
    model = make()
    modules = dict(model.named_modules())
    calls = run(model, x, y, loss_fn, state)
    called = [name for name, _, _ in calls]
    for name, output, _ in calls:
        if not torch.isfinite(output).all():
            return "nan", name
    first = grads(model)
    for name, module in make().named_modules():
        if not any(hooks_of(module)):
            continue
        other = make()
        for hooks in hooks_of(other.get_submodule(name)):
            hooks.clear()
        run(other, x, y, loss_fn, state)
        if differ(first, grads(other)):
            return "hook", name
    for name, module in modules.items():
        if not module.training and mode_matters(make, name, x, state):
            return "mode", name
    own = {n: list(m.parameters(recurse=False)) for n, m in modules.items()}
    own = {n: ps for n, ps in own.items() if ps}
    without = [n for n, ps in own.items() if all(p.grad is None for p in ps)]
    for name in without:
        if name not in called:
            return "unused", name
    for name, ps in own.items():
        if not any(p.requires_grad for p in ps):
            return "frozen", name
    for name in reversed(called):
        if name in without:
            return "cut", name
    arriving = [(name, rms(grad)) for name, _, grad in calls[::-1] if grad is not None]
    last = arriving[0][1]
    for name, size in arriving:
        if size > 10000 * last:
            return "exploding", name
    with torch.no_grad():
        for p in model.parameters():
            if p.grad is not None:
                p -= lr * p.grad
    for passed in (list(calls), run(model, x, y, loss_fn, state)):
        silent = {}
        for name, output, _ in passed:
            if isinstance(modules[name], nn.ReLU):
                silent[name] = silent.get(name, True) & (output == 0).all(0)
        for name, channels in silent.items():
            if channels.double().mean() > 0.5:
                return "dead", name
    for name, size in arriving:
        if size < last / 10000:
            return "vanishing", name
    return "healthy", None

def diagnose(make, x, y, loss_fn, lr):
    state = torch.get_rng_state()
    try:
        return look(make, x.detach(), y.detach(), loss_fn, lr, state)
    finally:
        torch.set_rng_state(state)
"""

RIGHT = [
    FIRST,
    # all facts first, then a table of rules
    """
import torch

class Trace:
    def __init__(self, model, x, y, loss_fn, seed=7):
        self.model, self.outputs, self.order = model, [], []
        self.parts = dict(model.named_modules())
        for name, part in self.parts.items():
            if next(part.children(), None) is None:
                self.wrap(name, part)
        torch.manual_seed(seed)
        loss = loss_fn(model(x), y)
        self.parameters = dict(model.named_parameters())
        if loss.requires_grad:
            loss.backward()

    def wrap(self, name, part):
        def note(module, args, out):
            self.order.append(name)
            self.outputs.append(out)
            if out.requires_grad:
                out.retain_grad()
        part.register_forward_hook(note)

    def of(self, tensor):
        return tensor.grad

    def gradients(self):
        return [self.of(p) for p in self.parameters.values()]

    def sizes(self):
        pairs = [(n, self.of(o)) for n, o in zip(self.order, self.outputs)]
        return [(n, float(torch.linalg.vector_norm(g.double())) / g.numel() ** 0.5) for n, g in pairs if g is not None]

    def dead(self):
        fired = {}
        for name, out in zip(self.order, self.outputs):
            if isinstance(self.parts[name], torch.nn.ReLU):
                fired.setdefault(name, []).append((out.detach() != 0).any(dim=0))
        for name, calls in fired.items():
            channels = torch.stack(calls).any(0)
            if 2 * int(channels.sum()) < len(channels):
                return name

def equal(a, b):
    def near(p, q):
        if p is None or q is None:
            return p is q
        return bool((p - q).abs().max() <= 1e-4 * q.abs().max())
    return all(map(near, a, b))

def bare(module):
    removed = 0
    owners = [module, *module.parameters(recurse=False)]
    for owner in owners:
        for kind in ("_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks",
                     "_post_accumulate_grad_hooks"):
            table = getattr(owner, kind, None)
            if table:
                removed += len(table)
                table.clear()
    return removed

def diagnose(make, x, y, loss_fn, lr):
    with torch.random.fork_rng(devices=[]):
        x, y = x.detach().clone(), y.detach().clone()
        trace = lambda model: Trace(model, x, y, loss_fn)
        start = trace(make())

        def nan():
            calls = zip(start.order, start.outputs)
            return next((n for n, o in calls if not bool(o.detach().double().abs().sum().isfinite())), None)

        def hook():
            for name in start.parts:
                model = make()
                if bare(model.get_submodule(name)) and not equal(start.gradients(), trace(model).gradients()):
                    return name

        def mode():
            for name, part in start.parts.items():
                if part.training:
                    continue
                kept = {}
                for flag in (False, True):
                    model = make()
                    module = model.get_submodule(name)
                    module.train(flag) if not list(module.children()) else setattr(module, "training", flag)
                    torch.manual_seed(3)
                    outs = kept.setdefault(flag, [])
                    module.register_forward_hook(lambda m, a, o: outs.append(o.detach().clone()))
                    with torch.no_grad():
                        model(x)
                if any((a != b).any() for a, b in zip(kept[True], kept[False])):
                    return name

        owners = {n: [p for p in m._parameters.values() if p is not None] for n, m in start.parts.items()}
        owners = {n: ps for n, ps in owners.items() if ps}
        nothing = {n for n, ps in owners.items() if all(start.of(p) is None for p in ps)}

        def unused():
            return next((n for n in nothing if n not in start.order), None)

        def frozen():
            return next((n for n, ps in owners.items() if all(not p.requires_grad for p in ps)), None)

        def cut():
            missing = [n for n in start.order if n in nothing]
            return missing[-1] if missing else None

        def beyond(is_beyond):
            sizes = start.sizes()
            names = [n for n, size in sizes if is_beyond(size, sizes[-1][1])]
            return names[-1] if names else None

        def dead():
            before = start.dead()
            if before is not None:
                return before
            model = make()
            with torch.no_grad():
                for p, g in zip(model.parameters(), start.gradients()):
                    if g is not None:
                        p.sub_(g, alpha=lr)
            return trace(model).dead()

        rules = {
            "nan": nan, "hook": hook, "mode": mode, "unused": unused, "frozen": frozen, "cut": cut,
            "exploding": lambda: beyond(lambda size, last: size > 1e4 * last),
            "dead": dead,
            "vanishing": lambda: beyond(lambda size, last: size < 1e-4 * last),
        }
        for label, rule in rules.items():
            where = rule()
            if where is not None:
                return label, where
        return "healthy", None
""",
    # one generator of findings; a step by torch's optimizer; hooks with `with`
    """
import contextlib
import torch

def findings(make, x, y, loss_fn, lr, state):
    def fresh():
        model = make()
        return model, {m: n for n, m in model.named_modules()}

    def watched(model, names):
        records = []
        with contextlib.ExitStack() as stack:
            for module in names:
                if not module._modules:
                    def keep(module, args, out):
                        if out.requires_grad:
                            out.retain_grad()
                        records.append((module, out))
                    stack.enter_context(module.register_forward_hook(keep))
            torch.set_rng_state(state)
            model.zero_grad()
            loss = loss_fn(model(x), y)
            if loss.grad_fn is not None:
                loss.backward()
        return records

    model, names = fresh()
    records = watched(model, names)
    for module, out in records:
        if out.isnan().any() or out.isinf().any():
            yield "nan", names[module]

    before = [None if p.grad is None else p.grad.clone() for p in model.parameters()]
    for module in list(names):
        other, others = fresh()
        twin = other.get_submodule(names[module])
        for kind in ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks"):
            getattr(twin, kind).clear()
        for p in twin._parameters.values():
            for hooks in () if p is None else (p._backward_hooks, p._post_accumulate_grad_hooks):
                if hooks is not None:
                    hooks.clear()
        watched(other, others)
        for old, p in zip(before, other.parameters()):
            if (old is None) is not (p.grad is None):
                yield "hook", names[module]
            if old is not None and (old - p.grad).abs().max() > 1e-3 * old.abs().max():
                yield "hook", names[module]

    for module, name in names.items():
        if module.training:
            continue
        seen = []
        for flag in (True, False):
            other, _ = fresh()
            twin = other.get_submodule(name)
            twin.training = flag
            with twin.register_forward_hook(lambda m, a, o: seen.append(o.detach().clone())), torch.no_grad():
                torch.set_rng_state(state)
                other(x)
        half = len(seen) // 2
        if any(not torch.equal(a, b) for a, b in zip(seen[:half], seen[half:])):
            yield "mode", name

    called = [module for module, _ in records]
    silent = [m for m in names if m._parameters and any(p is not None for p in m._parameters.values())
              and all(p is None or p.grad is None for p in m._parameters.values())]
    yield from (("unused", names[m]) for m in silent if m not in called)
    needs = {m: [p for p in m._parameters.values() if p is not None and p.requires_grad] for m in silent}
    yield from (("frozen", names[m]) for m in silent if not needs[m])
    yield from (("cut", names[m]) for m in called[::-1] if m in silent)

    flow = [(names[m], out.grad.double().norm() / out.numel() ** 0.5) for m, out in records if out.grad is not None]
    yield from (("exploding", n) for n, size in flow[::-1] if size / flow[-1][1] > 1e4)

    def dead(records):
        largest = {}
        for module, out in records:
            if isinstance(module, torch.nn.ReLU):
                largest[module] = out.abs().amax(0) + largest.get(module, 0)
        for module, sizes in largest.items():
            if (sizes == 0).sum() * 2 > len(sizes):
                yield "dead", names[module]

    yield from dead(records)
    stepper = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=lr)
    stepper.step()
    yield from dead(watched(model, names))
    yield from (("vanishing", n) for n, size in flow[::-1] if size / flow[-1][1] < 1e-4)
    yield "healthy", None

def diagnose(make, x, y, loss_fn, lr):
    state = torch.get_rng_state()
    try:
        return next(findings(make, x.detach(), y.detach(), loss_fn, lr, state))
    finally:
        torch.set_rng_state(state)
""",
]

FIRST_CHECK = "test_the_label_and_the_module_are_found"
KEPT = "test_nothing_of_the_caller_changes"


def wrong(
    what: str, violates: str, *places: tuple[str, str], mistake: str | None = None, check: str = FIRST_CHECK
) -> Wrong:
    """The first right answer, changed in a few places."""
    return Wrong(what, violates=violates, check=check, mistake=mistake, source=changed(FIRST, *places))


WRONG = [
    wrong(
        "other random numbers without the hook",
        "What a dropout draws decides nothing",
        ("        run(other, x, y, loss_fn, state)", "        run(other, x, y, loss_fn, torch.get_rng_state())"),
    ),
    wrong(
        "a mode with the modes of all that is in it",
        "the first that\n    fits of",
        ("        module.training = training\n", "        module.train(training)\n"),
    ),
    wrong(
        "compares with the largest gradient",
        "the first that\n    fits of",
        ("if size < last / 10000:", "if size < max(size for _, size in arriving) / 10000:"),
    ),
    wrong(
        "its own seed",
        "the random state, are as before",
        ("    finally:\n        torch.set_rng_state(state)", "    finally:\n        torch.manual_seed(0)"),
        check=KEPT,
    ),
    wrong(
        "calls an error healthy",
        "your caller gets the exception",
        (
            "    finally:\n        torch.set_rng_state(state)",
            "    except Exception:\n        return 'healthy', None\n    finally:\n        torch.set_rng_state(state)",
        ),
        check="test_an_exception_comes_through_and_nothing_is_left",
    ),
]

SURVIVORS = {
    "not for all: … step=-1": "at most one thing is wrong, so that the order does not matter",
    "not for all: … start=1": "the root is no leaf, and the last call is not beyond itself",
    "not for all: … stop=-1": (
        "the last module is at most unused, and the last call at most not finite: no other rule finds anything there"
    ),
    "not for all: needs = … stop=1": "a layer is frozen as a whole",
    "not for all: silent = [m for m in names if … _part(m._parameters.values(), stop": "the first one is not `None`",
    "not for all: for handle in _part(handles,": "the models are the answer's own, and what stays in them does no harm",
    "lost statement: without other, _ = fresh()": (
        "the models are the answer's own, and what stays in them does no harm"
    ),
    "lost statement: without model.zero_grad()": "a new model has no gradients",
    "clean-up": "what is not taken off stays in models of the answer's own; a context that is forgotten is left",
    "lost copy: … _not_detached": "a graph is kept, and no `.grad` of the caller is filled",
    "lost copy: … _not_copied": "what is kept is not changed afterwards",
    "truth for None": "what is compared with None here is never false, or empty",
    "a list for a tuple": "only gone through, or asked whether it is empty",
    "almost: def __init__(": "another seed is as good",
    "almost: torch.manual_seed(4)": "another seed is as good",
    "almost: removed": "one pass more, without a hook less",
    "condition dropped: setattr(module, 'training', flag)": "a leaf has no children to set",
    "condition dropped: stepper": "a parameter without a gradient stays where it is",
    "almost: flow": "all numbers are far from the bounds",
    "almost: if 2 * int": "all numbers are far from the bounds",
    "almost: if 3 * int": "all numbers are far from the bounds",
    "almost: if size": "all numbers are far from the bounds",
    "almost: return [(n, float(": "all numbers are far from the bounds",
    "almost: rules": "all numbers are far from the bounds",
    "almost: yield": "all numbers are far from the bounds",
    "another method": "a mean for a sum, or the reverse; all numbers are far from the bounds",
    "model.forward(x)": "a hook behind it changes the outputs in both modes",
    "condition dropped: owners = ": "no module has a `None` for a parameter",
    "a hook that works at times: @_not_the_first_call def dead": "what is dead before a step is dead after it",
    "a hook that works at times: @_not_the_first_call def of": "the first layer has another parameter",
    "a hook that works at times: @_only_above_tiny def of": "nothing hangs on the gradient of an output of zeros",
    "a hook that works at times: @_only_in_training": "a leaf in eval mode has no other fault",
    "a hook that works at times: @_only_the_first_call": "a later call of a part shows nothing new",
    "a hook that works at times: @_only_three_calls": "a later call of a part shows nothing new",
    "a hook that works at times: rules = ": "the last call is not beyond itself",
    "a cache by id": "each call gets another `make`",
    "not for all: … _part([… if … stop=": "at most one thing is wrong, and the first that is found is it",
    "condition dropped: relus": "nothing but a ReLU puts out zeros alone",
    "condition dropped: silent[name]": "nothing but a ReLU puts out zeros alone",
    "condition dropped: fired.": "nothing but a ReLU puts out zeros alone",
    "condition dropped: largest[module]": "nothing but a ReLU puts out zeros alone",
    "condition dropped: arriving =": "where nothing is cut, a gradient arrives at each call",
    "condition dropped: flow =": "where nothing is cut, a gradient arrives at each call",
    "condition dropped: return [(n, float(": "where nothing is cut, a gradient arrives at each call",
    "condition dropped: for hooks in (p._backward_hooks": "no module has a `None` for a parameter",
    "almost: if (sizes == 0).sum()": "all numbers are far from the bounds",
    "almost: largest[module] = out.abs().amax(0) - ": "two calls put out no equal numbers but 0",
}
