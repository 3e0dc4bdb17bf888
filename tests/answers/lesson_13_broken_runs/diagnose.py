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
    return own + [p._backward_hooks for p in module.parameters(recurse=False) if p._backward_hooks]

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
    for passed in (calls, run(model, x, y, loss_fn, state)):
        for name, output, _ in passed:
            if isinstance(modules[name], nn.ReLU) and (output == 0).all(0).double().mean() > 0.5:
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
    # `torch.autograd.grad` is asked; all facts first, then a table of rules
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
        wanted = [p for p in self.parameters.values() if p.requires_grad]
        into = [o for o in self.outputs if o.requires_grad]
        found = torch.autograd.grad(loss, wanted + into, allow_unused=True) if loss.requires_grad else []
        self.grad = {id(t): g for t, g in zip(wanted + into, found)}

    def wrap(self, name, part):
        def note(module, args, out):
            self.order.append(name)
            self.outputs.append(out)
        part.register_forward_hook(note)

    def of(self, tensor):
        return self.grad.get(id(tensor))

    def gradients(self):
        return [self.of(p) for p in self.parameters.values()]

    def sizes(self):
        pairs = [(n, self.of(o)) for n, o in zip(self.order, self.outputs)]
        return [(n, float(torch.linalg.vector_norm(g.double())) / g.numel() ** 0.5) for n, g in pairs if g is not None]

    def dead(self):
        for name, out in zip(self.order, self.outputs):
            if isinstance(self.parts[name], torch.nn.ReLU):
                channels = (out.detach() != 0).any(dim=0)
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
        for kind in ("_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks"):
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
            if p is not None and p._backward_hooks is not None:
                p._backward_hooks.clear()
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
        for module, out in records:
            if isinstance(module, torch.nn.ReLU) and (out.abs().amax(0) == 0).sum() * 2 > out.shape[1]:
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
        "the first label of the table above that fits",
        ("        module.training = training\n", "        module.train(training)\n"),
    ),
    wrong(
        "compares with the largest gradient",
        "the first label of the table above that fits",
        ("if size < last / 10000:", "if size < max(size for _, size in arriving) / 10000:"),
        check="test_each_call_begins_anew",
    ),
    wrong(
        "its own seed",
        "the state of the random number generator, are as before",
        ("    finally:\n        torch.set_rng_state(state)", "    finally:\n        torch.manual_seed(0)"),
        check=KEPT,
    ),
    wrong(
        "calls an error healthy",
        "rule 4: the caller of your function gets this exception",
        (
            "    finally:\n        torch.set_rng_state(state)",
            "    except Exception:\n        return 'healthy', None\n    finally:\n        torch.set_rng_state(state)",
        ),
        check="test_it_holds_when_the_loss_raises",
    ),
]

REASONS = {
    "`torch.autograd.grad` fills no `.grad`": (
        "lost statement: without x, y = (x.detach().clone(), y.detach().clone())",
    ),
    "a ReLU is never the root, whose name alone is empty": ("truth for None: if before",),
    "a graph is kept, and no `.grad` of the caller is filled": (
        "lost copy: calls.append([names[module], _not_detached(output).clone(), None])",
        "lost copy: channels = (_not_detached(out) != 0).any(dim=0)",
        "lost copy: module.register_forward_hook(lambda m, a, o: kept.append(_not_detached",
        "lost copy: module.register_forward_hook(lambda module, args, output: outputs.append(_not_detached",
        "lost copy: return next((n for n, o in calls if not bool(_not_detached(o)",
        "lost copy: x, y = (_not_detached(x).clone(), y.detach().clone())",
        "lost copy: x, y = (x.detach().clone(), _not_detached(y).clone())",
    ),
    "a hook behind it changes the outputs in both modes": (
        "prepend=True: module.register_forward_hook(lambda m",
        "prepend=True: with twin.register_forward_hook(lambda m, a, o: seen.append(o.detach().clone()), prepend=True)",
    ),
    "a leaf has no children to set": (
        "condition dropped: setattr(module, 'training', flag)",
        "lost copy: module.train(flag) if not _not_copied(module.children()) else setattr(module, 'training', flag)",
    ),
    "a mean is finite where the sum is: no sum of what is drawn overflows": (
        "another method: return next((n for n, o in calls if not bool(o.detach().double().abs().mean()",
    ),
    "a module is true": ("truth for None: if not next(part.children(), None)",),
    "a new model has no gradients": ("lost statement: without model.zero_grad()",),
    "a node of the graph is true, and `None` is not": (
        "truth for None: found = torch.autograd.grad(loss, wanted + into, allow_unused=True) if loss.grad_fn",
        "truth for None: if loss.grad_fn",
        "truth for None: if out.grad_fn",
        "truth for None: if output.grad_fn",
        "truth for None: into = [o for o in self.outputs if o.grad_fn]",
    ),
    "a parameter without a gradient stays where it is": (
        "condition dropped: stepper = torch.optim.SGD([p for p in model.parameters()], lr=lr)",
        "truth for None: stepper = torch.optim.SGD([p for p in model.parameters() if p.is_leaf]",
    ),
    "all layers but one have as many channels, and the bounds are far away": (
        "almost: return [(n, float(torch.linalg.vector_norm(g.double())) * g.numel() ** 0.5)",
        "almost: return [(n, float(torch.linalg.vector_norm(g.double())) / g.numel() ** 1.5)",
    ),
    "all numbers are far from the bounds": (
        "almost: flow = [(names[m], out.grad.double().norm() * out.numel() ** 0.5)",
        "almost: flow = [(names[m], out.grad.double().norm() / out.numel() ** 1.5)",
        "almost: if 2 * int(channels.sum()) <= len(channels)",
        "almost: if 3 * int(channels.sum()) < len(channels)",
        "almost: if isinstance(module, torch.nn.ReLU) and (out.abs().amax(0) == 0).sum() * 3 > out.shape[1]",
        "almost: if size < last / 10001",
        "almost: if size <= last / 10000",
        "almost: if size > 10001 * last",
        "almost: if size >= 10000 * last",
        "almost: return bool((p - q).abs().max() <= 0.0001 / q.abs().max())",
        (
            "almost: rules = {'nan': nan, 'hook': hook, 'mode': mode, 'unused': unused, 'frozen': frozen, 'cut': cut, "
            "'exploding': lambda: beyond(lambda size, last: size >= 10000.0"
        ),
        (
            "almost: rules = {'nan': nan, 'hook': hook, 'mode': mode, 'unused': unused, 'frozen': frozen, 'cut': cut, "
            "'exploding': lambda: beyond(lambda size, last: size > 10001.0"
        ),
        "almost: yield from (('exploding', n) for n, size in flow[::-1] if size / flow[-1][1] > 10001.0)",
        "almost: yield from (('vanishing', n) for n, size in flow[::-1] if size / flow[-1][1] <= 0.0001)",
        "another method: return t.double().pow(2).sum().sqrt().item()",
        "another method: return t.double().square().sum().sqrt().item()",
        "values that lose digits",
    ),
    "an empty dict has no hook to clear": ("truth for None: if p is not None and p._backward_hooks:",),
    "another seed is as good": (
        "almost: def __init__(self, model, x, y, loss_fn, seed=8)",
        "almost: torch.manual_seed(4)",
    ),
    "at most one thing is wrong, so that the order does not matter": (
        "not for all: calls, names = ([], {module: name for name, module in _part(model.named_modules(), step=-1)",
        "not for all: for flag in _part((False, True), step=-1)",
        "not for all: for flag in _part((True, False), step=-1)",
        "not for all: for hooks in _part(hooks_of(model.get_submodule(name)), step=-1)",
        "not for all: for hooks in _part(hooks_of(other.get_submodule(name)), step=-1)",
        (
            "not for all: for kind in _part(('_forward_hooks', '_forward_pre_hooks', '_backward_hooks', "
            "'_backward_pre_hooks'), step=-1)"
        ),
        (
            "not for all: for kind in _part(('_forward_pre_hooks', '_forward_hooks', '_backward_pre_hooks', "
            "'_backward_hooks'), step=-1)"
        ),
        "not for all: for module in _part(list(names), step=-1)",
        "not for all: for module in _part(model.modules(), step=-1)",
        "not for all: for module in _part(names, step=-1)",
        "not for all: for module, name in _part(names.items(), step=-1)",
        "not for all: for name in _part(own, step=-1)",
        "not for all: for name in _part(start.parts, step=-1)",
        "not for all: for name in _part(without, step=-1)",
        "not for all: for name, module in _part(make().named_modules(), step=-1)",
        "not for all: for name, module in _part(modules.items(), step=-1)",
        "not for all: for name, one in _part(ones.items(), step=-1)",
        "not for all: for name, part in _part(self.parts.items(), step=-1)",
        "not for all: for name, part in _part(start.parts.items(), step=-1)",
        "not for all: for name, ps in _part(own.items(), step=-1)",
        "not for all: for owner in _part(owners, step=-1)",
        "not for all: for passed in _part((calls, run(model, x, y, loss_fn, state)), step=-1)",
        "not for all: for training in _part((True, False), step=-1)",
        "not for all: found = [getattr(module, kind) for kind in _part(kinds, step=-1)",
        "not for all: handles = [module.register_forward_hook(keep) for module in _part(names, step=-1)",
        "not for all: names, calls = ({m: n for n, m in _part(model.named_modules(), step=-1)",
        (
            "not for all: needs = {m: [p for p in m._parameters.values() if p is not None and p.requires_grad] for m "
            "in _part(silent, step=-1)"
        ),
        "not for all: nothing = {n for n, ps in _part(owners.items(), step=-1)",
        "not for all: own = [getattr(module, kind) for kind in _part(KINDS, step=-1)",
        "not for all: own = {n: list(m.parameters(recurse=False)) for n, m in _part(modules.items(), step=-1)",
        "not for all: own = {n: ps for n, ps in _part(own.items(), step=-1)",
        "not for all: own = {name: list(module.parameters(recurse=False)) for name, module in _part(modules",
        "not for all: own = {name: parameters for name, parameters in _part(own.items(), step=-1)",
        (
            "not for all: owners = {n: [p for p in m._parameters.values() if p is not None] for n, m in "
            "_part(start.parts.items(), step=-1)"
        ),
        "not for all: owners = {n: ps for n, ps in _part(owners.items(), step=-1)",
        "not for all: return (model, {m: n for n, m in _part(model.named_modules(), step=-1)",
        "not for all: return next((n for n in _part(nothing, step=-1)",
        "not for all: return next((n for n, ps in _part(owners.items(), step=-1)",
        "not for all: return {n: p.grad for n, p in _part(model.named_parameters(), step=-1)",
        "not for all: silent = [m for m in _part(names, step=-1)",
        "not for all: without = [n for n, ps in _part(own.items(), step=-1)",
        "not for all: without = [name for name in _part(own, step=-1)",
        "not for all: yield from (('frozen', names[m]) for m in _part(silent, step=-1)",
        "not for all: yield from (('unused', names[m]) for m in _part(silent, step=-1)",
    ),
    "at most one thing is wrong: no second layer gets no gradient and is never called": (
        "not for all: for name in _part(without, stop=",
        "not for all: return next((n for n in _part(nothing, stop=",
        "not for all: yield from (('frozen', names[m]) for m in _part(silent, stop=",
        "not for all: yield from (('unused', names[m]) for m in _part(silent, stop=",
    ),
    "inputs have two dimensions": (
        "at least one dimension",
        "at most two dimensions",
    ),
    "it is unpacked": ("a list for a tuple: return [model,",),
    "modes are compared, and a hook of the root changes them in both": ("model.forward(x): model.forward(x)",),
    "nothing is as false": ("lost return: False",),
    "one pass more, without a hook less": (
        "almost: removed",
        "condition dropped: without if not any(hooks_of(module))",
    ),
    "only gone through, or asked whether it is empty": (
        "a list for a tuple: for module in tuple(names)",
        "a list for a tuple: handles",
        "a list for a tuple: if not tuple(",
        "a list for a tuple: module.train(flag) if not tuple(",
        "a list for a tuple: own",
    ),
    "the first of the parameters is never `None`": (
        (
            "not for all: silent = [m for m in names if m._parameters and any((p is not None for p in "
            "_part(m._parameters.values(), stop="
        ),
    ),
    "the gradient at the last call is not larger or smaller than itself": (
        "not for all: for name, size in _part(arriving, start=1)",
        "not for all: names = [n for n, size in _part(sizes, stop=-1)",
        "not for all: yield from (('exploding', n) for n, size in _part(flow[::-1], start=1)",
        "not for all: yield from (('vanishing', n) for n, size in _part(flow[::-1], start=1)",
    ),
    "the hooks of the first pass note the second one, too, so that `calls` holds both": (
        "not for all: for passed in _part((calls, run(model, x, y, loss_fn, state)), stop=",
        "not for all: for name, output, _ in _part(passed, stop=-1)",
    ),
    "the models are the answer's own, and what stays in them does no harm": (
        "clean-up not after an exception: with _only_when_well(contextlib.ExitStack()) as stack",
        "clean-up only after an `Exception`: with _not_after_interrupts(contextlib.ExitStack()) as stack",
        "lost statement: without handle.remove()",
        "lost statement: without other, _ = fresh()",
        "not for all: for handle in _part(handles,",
    ),
    "the root is no leaf, has no parameters of its own, and is in training mode": (
        "not for all: calls, names = ([], {module: name for name, module in _part(model.named_modules(), start=1)",
        "not for all: for module in _part(model.modules(), start=1)",
        "not for all: for module in _part(names, start=1)",
        "not for all: for module, name in _part(names.items(), start=1)",
        "not for all: for name, module in _part(modules.items(), start=1)",
        "not for all: for name, part in _part(self.parts.items(), start=1)",
        "not for all: for name, part in _part(start.parts.items(), start=1)",
        "not for all: handles = [module.register_forward_hook(keep) for module in _part(names, start=1)",
        "not for all: names, calls = ({m: n for n, m in _part(model.named_modules(), start=1)",
        "not for all: own = {n: list(m.parameters(recurse=False)) for n, m in _part(modules.items(), start=1)",
        "not for all: own = {n: ps for n, ps in _part(own.items(), start=1)",
        "not for all: own = {name: parameters for name, parameters in _part(own.items(), start=1)",
        (
            "not for all: owners = {n: [p for p in m._parameters.values() if p is not None] for n, m in "
            "_part(start.parts.items(), start=1)"
        ),
        "not for all: owners = {n: ps for n, ps in _part(owners.items(), start=1)",
        "not for all: silent = [m for m in _part(names, start=1)",
    ),
    "the state comes back when the context manager is collected": (
        "clean-up not after an exception: with _only_when_well(torch.random.fork_rng(devices=[]))",
        "clean-up only after an `Exception`: with _not_after_interrupts(torch.random.fork_rng(devices=[]))",
    ),
    "what is kept is not changed afterwards": (
        "lost copy: before = [None if p.grad is None else _not_copied",
        "lost copy: calls.append([names[module], _not_copied(output.detach()), None])",
        "lost copy: for module in _not_copied(names)",
        "lost copy: module.register_forward_hook(lambda m, a, o: kept.append(_not_copied",
        "lost copy: module.register_forward_hook(lambda m, a, o: outs.append(_not_copied",
        "lost copy: module.register_forward_hook(lambda module, args, output: outputs.append(_not_copied",
        "lost copy: output.register_hook(lambda grad, call=calls[-1]: call.__setitem__(2, _not_copied",
        "lost copy: with twin.register_forward_hook(lambda m, a, o: seen.append(_not_copied",
        "lost copy: x, y = (_not_copied(x.detach()), y.detach().clone())",
        "lost copy: x, y = (x.detach().clone(), _not_copied(y.detach()))",
    ),
}
"""Why mutants are right, and how their headlines begin."""
SURVIVORS = {headline: reason for reason, headlines in REASONS.items() for headline in headlines}
