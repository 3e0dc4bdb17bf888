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


DEAD = FIRST[FIRST.index("    for passed in") : FIRST.index("    for name, size in arriving:\n        if size < last")]
VANISHING = FIRST[
    FIRST.index("    for name, size in arriving:\n        if size < last") : FIRST.index('    return "healthy"')
]
CUT = FIRST[FIRST.index("    for name in reversed(called)") : FIRST.index("    arriving = [")]
FROZEN = FIRST[FIRST.index("    for name, ps in own.items():") : FIRST.index("    for name in reversed(called)")]
EXPLODING = FIRST[
    FIRST.index("    for name, size in arriving:\n        if size > 10000") : FIRST.index(
        "    with torch.no_grad():\n        for p in"
    )
]
FLOW = FIRST[FIRST.index("    arriving = [") : FIRST.index("    with torch.no_grad():\n        for p in")]
MODE = FIRST[FIRST.index("    for name, module in modules.items()") : FIRST.index("    own = {n: list")]
NAN = FIRST[FIRST.index("    for name, output, _ in calls:") : FIRST.index("    first = grads")]

WRONG = [
    wrong(
        "NaN only, and no Inf",
        "a NaN or an infinite entry",
        ("not torch.isfinite(output).all()", "output.isnan().any()"),
        mistake="infinite-is-no-number",
    ),
    wrong(
        "the last module that shows a NaN",
        "It starts at the first such call.",
        ("for name, output, _ in calls:", "for name, output, _ in reversed(calls):"),
        mistake="another-module",
    ),
    wrong(
        "the NaN of the output of the model",
        "the output of a call of a leaf has a NaN",
        (
            "not torch.isfinite(output).all()",
            "not torch.isfinite(calls[-1][1]).all() and not torch.isfinite(output).all()",
        ),
    ),
    wrong(
        "no NaN in the first call",
        "the output of a call of a leaf has a NaN",
        ("    for name, output, _ in calls:", "    for name, output, _ in calls[1:]:"),
        mistake="another-module",
    ),
    wrong(
        "nothing explodes at the first call",
        "the gradient at the output of a call of a leaf is more than 10000 times as large",
        (EXPLODING, EXPLODING.replace("in arriving:", "in arriving[:-1]:")),
        mistake="missed",
    ),
    wrong(
        "nothing vanishes at the first call",
        "as in 7, but less than 1/10000 as large",
        (VANISHING, VANISHING.replace("in arriving:", "in arriving[:-1]:")),
        mistake="missed",
    ),
    wrong(
        "the first parameter stands for all, where a gradient is missing",
        "a leaf with parameters is called, and none of them gets a gradient",
        ("all(p.grad is None for p in ps)", "ps[0].grad is None"),
    ),
    wrong(
        "outputs before the hooks that are there",
        'rule 3: "As it left the module" means the value that the next part of the model gets',
        (
            "            module.register_forward_hook(note)",
            "            module.register_forward_hook(note, prepend=True)",
        ),
    ),
    wrong(
        "the last ReLU that is dead",
        "It starts at the first such ReLU that is called.",
        ("        for name, output, _ in passed:", "        for name, output, _ in passed[::-1]:"),
        mistake="another-module",
    ),
    wrong(
        "looks for NaN at the end",
        "So the **first label that fits** is the answer.",
        (NAN, ""),
        ('    return "healthy", None\n', NAN + '    return "healthy", None\n'),
        mistake="named-the-consequence",
    ),
    wrong(
        "each hook is a fault",
        "without one of the hooks, and all else equal, a parameter would get another gradient",
        ("        if differ(first, grads(other)):", "        if True:"),
        mistake="hooks-that-watch",
    ),
    wrong(
        "hooks of modules only",
        "on itself or on a parameter of its own",
        (
            "    return own + [p._backward_hooks for p in module.parameters(recurse=False) if p._backward_hooks]",
            "    return own",
        ),
        mistake="hooks-of-parameters",
    ),
    wrong(
        "hooks of parameters only",
        "on itself or on a parameter of its own",
        ("    own = [getattr(module, kind) for kind in KINDS]\n", "    own = []\n"),
    ),
    wrong(
        "the parameter and not its module",
        "It starts at the module that has this hook",
        (
            '            return "hook", name\n',
            '            return "hook", next((n for n, p in model.named_parameters() if p._backward_hooks), name)\n',
        ),
    ),
    wrong(
        "other random numbers without the hook",
        "and all else equal",
        ("        run(other, x, y, loss_fn, state)", "        run(other, x, y, loss_fn, torch.get_rng_state())"),
    ),
    wrong(
        "each module in eval mode",
        "and its mode matters",
        ("if not module.training and mode_matters(make, name, x, state):", "if not module.training:"),
        mistake="modes-that-do-not-matter",
    ),
    Wrong(
        "modes by class",
        violates="and its mode matters",
        check=FIRST_CHECK,
        source=changed(
            FIRST,
            (
                "and mode_matters(make, name, x, state):",
                "and isinstance(module, (nn.Dropout, nn.BatchNorm1d)) and getattr(module, 'p', 1):",
            ),
        ),
    ),
    wrong(
        "a gradient comes to y",
        "rule 2: Tensors keep their values, their `requires_grad` and their `.grad`",
        ("x.detach(), y.detach(), loss_fn", "x.detach(), y, loss_fn"),
        check="test_nothing_of_the_caller_changes",
    ),
    wrong(
        "modes in a pass with other random numbers",
        "as in `13-wrong-mode`",
        ("        torch.set_rng_state(state)\n        model(x)", "        model(x)"),
    ),
    wrong(
        "watching hooks are faults",
        "a parameter would get another gradient",
        ("        if differ(first, grads(other)):", "        if name in modules:"),
    ),
    wrong(
        "a gradient of zeros is none",
        "Without a gradient, `.grad` is `None`; calls where none arrives do not count in 7 and 9.",
        ("all(p.grad is None for p in ps)]", "all(p.grad is None or not p.grad.any() for p in ps)]"),
    ),
    wrong(
        "asks for frozen modules before unused ones",
        "So the **first label that fits** is the answer.",
        (
            """    for name in without:
        if name not in called:
            return "unused", name
    for name, ps in own.items():
        if not any(p.requires_grad for p in ps):
            return "frozen", name
""",
            """    for name, ps in own.items():
        if not any(p.requires_grad for p in ps):
            return "frozen", name
    for name in without:
        if name not in called:
            return "unused", name
""",
        ),
    ),
    wrong(
        "parameters of children, too",
        "Only leaves have parameters of their own.",
        (
            "{n: list(m.parameters(recurse=False)) for n, m in modules.items()}",
            "{n: list(m.parameters()) for n, m in modules.items()}",
        ),
    ),
    wrong(
        "calls of containers, too",
        "A leaf is a module without children.",
        (
            "        if not list(module.children()):\n            module.register",
            "        if True:\n            module.register",
        ),
    ),
    wrong(
        "looks at a model that has taken a step",
        "*This pass*, which all labels are about, is the first one of a new model",
        (
            "    modules = dict(model.named_modules())\n",
            "    modules = dict(model.named_modules())\n    run(model, x, y, loss_fn, state)\n"
            "    torch.optim.SGD(model.parameters(), lr).step()\n    model.zero_grad()\n"
            "    for m in modules.values():\n        for hooks in hooks_of(m):\n"
            "            hooks.clear()\n",
        ),
    ),
    wrong(
        "what is never called is unused",
        "and none of them gets a gradient",
        ("    for name in without:\n", "    for name in own:\n"),
    ),
    wrong(
        "one frozen parameter is enough",
        "and none of them requires grad",
        ("not any(p.requires_grad for p in ps)", "not all(p.requires_grad for p in ps)"),
    ),
    wrong(
        "cut before frozen",
        "So the **first label that fits** is the answer.",
        (FROZEN, ""),
        (CUT, CUT + FROZEN),
        mistake="named-the-consequence",
    ),
    wrong(
        "the first module without a gradient",
        "It starts at the one called last.",
        ("for name in reversed(called):", "for name in called:"),
        mistake="another-module",
    ),
    wrong(
        "modules in the order of their first calls",
        "It starts at the one called last.",
        ("for name in reversed(called):", "for name in reversed(list(dict.fromkeys(called))):"),
        mistake="another-module",
    ),
    wrong(
        "no label for what is cut",
        '`"cut"`: a leaf with parameters is called',
        (CUT, ""),
        ("last = arriving[0][1]", "last = arriving[0][1] if arriving else 0.0"),
    ),
    wrong(
        "explodes at the first call of all",
        "It starts at the last call for which this holds.",
        (
            "    for name, size in arriving:\n        if size > 10000",
            "    for name, size in arriving[::-1]:\n        if size > 10000",
        ),
        mistake="the-first-call-of-all",
    ),
    wrong(
        "vanishes at the first call of all",
        "It starts at the last call for which this holds.",
        (
            "    for name, size in arriving:\n        if size < last",
            "    for name, size in arriving[::-1]:\n        if size < last",
        ),
        mistake="the-first-call-of-all",
    ),
    wrong(
        "a bound that knows no loss",
        "as in 7, but less than 1/10000 as large",
        ("if size < last / 10000:", "if size < 1e-6:"),
    ),
    wrong(
        "a bound that knows no loss, above",
        "as large as at the last call of a leaf",
        ("if size > 10000 * last:", "if size > 100:"),
    ),
    wrong("a bound of 10", "but less than 1/10000 as large", ("if size < last / 10000:", "if size < last / 3:")),
    wrong(
        "in the order of definition",
        "at the last call of a leaf",
        (
            "    arriving = [",
            "    calls = sorted(calls, key=lambda call: list(modules).index(call[0]))\n    arriving = [",
        ),
    ),
    wrong(
        "looks at dead ReLUs last",
        "So the **first label that fits** is the answer.",
        (DEAD, ""),
        (VANISHING, VANISHING + DEAD),
        mistake="named-the-consequence",
    ),
    wrong(
        "the first pass only",
        "or in the one after a step of SGD",
        ("    for passed in (calls, run(model, x, y, loss_fn, state)):", "    for passed in (calls,):"),
        mistake="only-the-first-pass",
    ),
    wrong(
        "the second pass only",
        "in this pass or in the one after a step of SGD",
        (
            "    for passed in (calls, run(model, x, y, loss_fn, state)):",
            "    for passed in (run(model, x, y, loss_fn, state),):",
        ),
        mistake="missed",
    ),
    wrong(
        "dead before exploding",
        "So the **first label that fits** is the answer.",
        (EXPLODING, ""),
        (VANISHING, EXPLODING + VANISHING),
        mistake="named-the-consequence",
    ),
    wrong(
        "compares with the last layer that has parameters",
        "as large as at the last call of a leaf",
        ("    last = arriving[0][1]", "    last = next(size for name, size in arriving if name in own)"),
    ),
    wrong(
        "a gradient of zeros does not arrive",
        "but less than 1/10000 as large",
        (
            "for name, _, grad in calls[::-1] if grad is not None]",
            "for name, _, grad in calls[::-1] if grad is not None and grad.any()]",
        ),
    ),
    wrong(
        "modes of leaves only",
        "a module is in eval mode, and its mode matters",
        (
            "        if not module.training and mode",
            "        if not module.training and not list(module.children()) and mode",
        ),
    ),
    wrong(
        "a module whose gradient a hook changes",
        "It starts at the module that has this hook",
        (
            '            return "hook", name\n',
            "            changed = [n for n, p in first.items() if differ({n: p}, {n: grads(other)[n]})]\n"
            '            return "hook", changed[0].rpartition(".")[0]\n',
        ),
        mistake="changed-and-not-hooked",
    ),
    wrong(
        "a mode with the modes of all that is in it",
        "a module is in eval mode, and its mode matters (as in `13-wrong-mode`)",
        ("        module.training = training\n", "        module.train(training)\n"),
    ),
    wrong(
        "no ReLU can be the last call",
        "more than half of the channels of an `nn.ReLU` are 0 for all of `x`",
        (
            "        for name, output, _ in passed:\n            if ",
            "        for name, output, _ in passed:\n            if name != passed[-1][0] and ",
        ),
        mistake="named-the-consequence",
    ),
    wrong(
        "the last output of each module",
        "It starts at the first such call.",
        (
            "    for name, output, _ in calls:\n        if not torch",
            "    for name, output in {name: output for name, output, _ in calls}.items():\n        if not torch",
        ),
        mistake="another-module",
    ),
    wrong(
        "a mode in the first call alone",
        "a module is in eval mode, and its mode matters (as in `13-wrong-mode`)",
        ("for a, b in zip(*outputs))", "for a, b in list(zip(*outputs))[:1])"),
        mistake="missed",
    ),
    wrong(
        "a tolerance that knows no loss",
        "tiny ones count",
        ("rtol=1e-4, atol=0)", "rtol=1e-4)"),
        mistake="missed",
    ),
    wrong(
        "one gradient for each module, that of its first call",
        "the gradient at the output of a call of a leaf is more than 10000 times as large",
        (
            "[(name, rms(grad)) for name, _, grad in calls[::-1] if grad is not None]",
            "list({name: (name, rms(grad)) for name, _, grad in calls[::-1] if grad is not None}.values())",
        ),
        mistake="missed",
    ),
    wrong(
        "one gradient for each module, that of its last call, in the order of first calls",
        "It starts at the last call for which this holds.",
        (
            "[(name, rms(grad)) for name, _, grad in calls[::-1] if grad is not None]",
            "list({name: (name, rms(grad)) for name, _, grad in calls if grad is not None}.values())[::-1]",
        ),
        mistake="the-first-call-of-all",
    ),
    wrong(
        "a step without the last parameter",
        "moves each parameter `p` that has a gradient",
        ("        for p in model.parameters():", "        for p in list(model.parameters())[:-1]:"),
        mistake="only-the-first-pass",
    ),
    wrong(
        "compares gradients only where there are two",
        "or one where it now has none",
        (
            "            return True\n        if one is not None and",
            "            continue\n        if one is not None and",
        ),
        mistake="named-the-consequence",
    ),
    wrong(
        "no NaN can be at the last call",
        "the output of a call of a leaf has a NaN or an infinite entry",
        (
            "    for name, output, _ in calls:\n        if not torch",
            "    for name, output, _ in calls[:-1]:\n        if not torch",
        ),
        mistake="named-the-consequence",
    ),
    wrong(
        "frozen where the last parameter is",
        "a leaf has parameters, and none of them requires grad",
        ("        if not any(p.requires_grad for p in ps):", "        if not ps[-1].requires_grad:"),
    ),
    wrong(
        "a step of its own",
        "moves each parameter `p` that has a gradient by `-lr * p.grad`",
        ("p -= lr * p.grad", "p -= 0.01 * p.grad"),
        mistake="only-the-first-pass",
    ),
    wrong(
        "a step uphill",
        "by `-lr * p.grad`",
        ("p -= lr * p.grad", "p += lr * p.grad"),
        mistake="only-the-first-pass",
    ),
    wrong(
        "one dead channel is enough",
        "more than half of the channels",
        ("(output == 0).all(0).double().mean() > 0.5", "(output == 0).all(0).any()"),
    ),
    wrong(
        "inputs for channels",
        "are 0 for all of `x`",
        ("(output == 0).all(0).double().mean() > 0.5", "(output == 0).all(1).double().mean() > 0.5"),
    ),
    wrong(
        "many zeros",
        "are 0 for all of `x`",
        ("(output == 0).all(0).double().mean() > 0.5", "(output == 0).double().mean() > 0.4"),
    ),
    wrong(
        "each leaf that gives zeros",
        "of an `nn.ReLU` are 0",
        ("isinstance(modules[name], nn.ReLU) and (output == 0).all(0)", "(output == 0).all(0)"),
    ),
    wrong(
        "a step of another size",
        "moves each parameter `p` that has a gradient by `-lr * p.grad`",
        ("p -= lr * p.grad", "p -= 0.1 * p.grad"),
        mistake="only-the-first-pass",
    ),
    wrong(
        "compares with the largest gradient",
        "as in 7, but less than 1/10000 as large",
        ("if size < last / 10000:", "if size < max(size for _, size in arriving) / 10000:"),
    ),
    wrong(
        "asks for modes behind cuts",
        "So the **first label that fits** is the answer.",
        (MODE, ""),
        (CUT, CUT + MODE),
        mistake="named-the-consequence",
    ),
    wrong(
        "no answer where the loss has no graph",
        '`"cut"`: a leaf with parameters is called',
        (
            "    first = grads(model)\n",
            "    first = grads(model)\n    if all(grad is None for grad in first.values()):\n"
            "        return 'healthy', None\n",
        ),
    ),
    wrong(
        "takes all hooks away at once",
        "without one of the hooks",
        (
            "        for hooks in hooks_of(other.get_submodule(name)):\n            hooks.clear()\n",
            "        for part in other.modules():\n            for hooks in hooks_of(part):\n"
            "                hooks.clear()\n",
        ),
    ),
    wrong(
        "compares norms of gradients",
        "a parameter would get another gradient",
        ("not torch.allclose(one, other, rtol=1e-4, atol=0)", "not torch.allclose(one.norm(), other.norm(), atol=0)"),
    ),
    wrong(
        "NaN after the step, too",
        "*This pass*, which all labels are about, is the first one of a new model",
        (NAN, ""),
        (
            "    first = grads(model)\n",
            "    other = make()\n    run(other, x, y, loss_fn, state)\n    for _ in range(3):\n"
            "        with torch.no_grad():\n            for p in other.parameters():\n"
            "                if p.grad is not None:\n                    p -= lr * p.grad\n"
            "        calls += run(other, x, y, loss_fn, state)\n"
            + NAN
            + "    calls = calls[:len(called)]\n    first = grads(model)\n",
        ),
    ),
    wrong(
        "a list",
        "Return a tuple",
        ("        return look(make", "        return list(look(make"),
        ("loss_fn, lr, state)\n    finally", "loss_fn, lr, state))\n    finally"),
    ),
    wrong("the root, when all is well", '`("healthy", None)`', ('return "healthy", None', 'return "healthy", ""')),
    wrong("a label alone, when all is well", '`("healthy", None)`', ('return "healthy", None', 'return ("healthy",)')),
    wrong(
        "fills `x.grad`",
        "rule 2: Tensors keep their values, their `requires_grad` and their `.grad`",
        ("x.detach(), y.detach()", "x, y"),
        check=KEPT,
    ),
    wrong(
        "its own seed",
        "the state of PyTorch's random number\n      generator are as before.",
        ("    finally:\n        torch.set_rng_state(state)", "    finally:\n        torch.manual_seed(0)"),
        check=KEPT,
    ),
    wrong(
        "random numbers are put back when all went well",
        "rule 4: Rules 2 and 3 hold then, too",
        (
            "    try:\n        return look(make, x.detach(), y.detach(), loss_fn, lr, state)\n"
            "    finally:\n        torch.set_rng_state(state)",
            "    found = look(make, x.detach(), y.detach(), loss_fn, lr, state)\n"
            "    torch.set_rng_state(state)\n    return found",
        ),
        check="test_it_holds_when_the_loss_raises",
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
    Wrong(
        "always healthy",
        violates="the label of what is wrong with it",
        check=FIRST_CHECK,
        mistake="missed",
        source="def diagnose(make, x, y, loss_fn, lr):\n    return 'healthy', None",
    ),
]

GIVENS = [
    "Write `diagnose(make, x, y, loss_fn, lr)`.",
    "`make()` returns a new model, an equal one each time.",
    "At most one thing is wrong, but other labels may fit what follows from it.",
    "It gets one tensor and returns one, both of shape (inputs, channels), and may be called several times, an "
    "`nn.ReLU` once.",
    "Nothing is changed in place.",
    "A gradient is as large as its RMS, the root of the mean square.",
    "The root is in training mode.",
    "There are no post-accumulate-grad hooks.",
    "All numbers are far from the bounds, and what a dropout draws decides nothing.",
    "Do with the models what you like.",
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
