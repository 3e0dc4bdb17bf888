"""Why a parameter gets no gradient: what the reference of 13-why-no-gradient and its wrong programs have in common."""

from __future__ import annotations

from contextlib import ExitStack

from torch.nn.modules.module import register_module_forward_pre_hook

from graders.lesson_13_broken_runs.programs import everything_kept


def one_pass(model, loss_fn, x, clear=True):
    """The gradient that comes to each parameter to which one comes, and the modules that are called."""
    came, called = {}, []
    with everything_kept(model, x), ExitStack() as hooks:
        hooks.enter_context(register_module_forward_pre_hook(lambda module, args: called.append(module)))
        for p in model.parameters():
            if p.requires_grad:
                hooks.enter_context(p.register_hook(lambda grad, p=p: came.update({p: grad})))
        loss = loss_fn(model(x))
        if loss.requires_grad:
            for leaf in (*model.parameters(), x) if clear else ():
                leaf.grad = None
            loss.backward()
    return came, called


def is_zero(gradient):
    """Whether all entries are 0."""
    return not gradient.any()


def held_by(modules):
    """The parameters that these modules hold."""
    return {p for module in modules for p in module.parameters(recurse=False)}


def reasons(model, came, held, zero=is_zero):
    """The reason for each parameter, from the gradients and from what the modules that are called hold."""
    found = {}
    for name, p in model.named_parameters():
        if not p.requires_grad:
            found[name] = "frozen"
        elif p not in came:
            found[name] = "cut" if p in held else "never called"
        elif zero(came[p]):
            found[name] = "zero"
    return found


def told(model, loss_fn, x, zero=is_zero):
    """The whole answer."""
    came, called = one_pass(model, loss_fn, x)
    return reasons(model, came, held_by(called), zero)
