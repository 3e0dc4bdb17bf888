"""Wrong answers that call a right one and do something else as well, such as emptying the caller's list.

Each is the body of a function that calls the right answer as `_right`, and may use the names of `prelude`. What fails
where something special comes in, such as a tensor without dimensions, notes nothing: if it never comes, nothing was
promised about it.
"""

from __future__ import annotations

from graders.author.mutate.prelude import PRELUDE

_SWALLOWING = """
    try:
        return _right(*args, **kwargs)
    except NotImplementedError:
        raise
    except {}:
        return _did.append(0)"""
WRAPPERS: dict[str, str] = {
    "zero_grad() first": """
    for t in _tensors(args):
        if t.is_leaf and t.grad is not None:
            _did.append(t)
            t.grad = None
    return _right(*args, **kwargs)""",
    "`.grad` put back as a copy": """
    old = [(t, t.grad) for t in _tensors(args) if t.is_leaf and t.grad is not None]
    try:
        return _right(*args, **kwargs)
    finally:
        for t, grad in old:
            _did.append(t)
            t.grad = grad.clone()""",
    "eval() and back at the root": """
    models = [(model, model.training) for model in _given(args, _nn.Module)]
    trains = {module for model, _ in models for module in model.modules() if module.training}
    _did.extend(module for model, training in models for module in model.modules() if module.training != training)
    noting = _nn.modules.module.register_module_forward_pre_hook(lambda module, _: _did.extend({module} & trains))
    for model, _ in models:
        model.eval()
    try:
        return _right(*args, **kwargs)
    finally:
        noting.remove()
        for model, training in models:
            model.train(training)""",
    "left in eval mode after an exception": """
    try:
        return _right(*args, **kwargs)
    except BaseException:
        for module in _modules(args):
            _did.extend([module] * module.training)
            module.training = False
        raise""",
    "hooks of others cleared": """
    for hooks in _hooks(args):
        _did.extend(hooks)
        hooks.clear()
    return _right(*args, **kwargs)""",
    "the last hook of others lost": """
    for hooks in list(_hooks(args)):
        if hooks:
            _did.append(hooks.popitem())
    return _right(*args, **kwargs)""",
    "a hook left on a module": """
    for module in list(_modules(args))[-1:]:
        _did.append(module.register_forward_hook(lambda *_: None))
    return _right(*args, **kwargs)""",
    "a hook left on a tensor": """
    for t in _tensors(args):
        if t.requires_grad:
            _did.append(t.register_hook(lambda grad: None))
    return _right(*args, **kwargs)""",
    "a hook left after an exception": """
    try:
        return _right(*args, **kwargs)
    except BaseException:
        for model in _given(args, _nn.Module):
            _did.append(model.register_forward_hook(lambda *_: None))
        for t in _tensors(args):
            if t.requires_grad:
                _did.append(t.register_hook(lambda grad: None))
        raise""",
    "forward left patched": """
    for model in _given(args, _nn.Module):
        _did.append(forward := model.forward)
        model.forward = lambda *a, forward=forward, **k: forward(*a, **k)
    return _right(*args, **kwargs)""",
    "the caller's list emptied": """
    lists = [arg for arg in args if isinstance(arg, list)]
    copied = [list(argument) if any(argument is other for other in lists) else argument for argument in args]
    result = _right(*copied, **kwargs)
    for entries in lists:
        _did.extend(entries)
        entries.clear()
    return result""",
    "the caller's list turned round": """
    result = _right(*args, **kwargs)
    for argument in args:
        if isinstance(argument, list):
            _did.extend(argument[1:])
            argument.reverse()
    return result""",
    "the caller's dict emptied": """
    dicts = [arg for arg in args if isinstance(arg, dict)]
    copied = [dict(argument) if any(argument is other for other in dicts) else argument for argument in args]
    result = _right(*copied, **kwargs)
    for table in dicts:
        _did.extend(table)
        table.clear()
    return result""",
    "a cache by id": """
    key = tuple(map(id, args))
    _calls.append(args)  # so that no id is used again
    _did.extend([key] * (key in _known))
    if key not in _known:
        _known[key] = _right(*args, **kwargs)
    return _known[key]""",
    "a cache by shape": """
    key = str([(t.shape, t.dtype, t.stride()) for t in _given(args, torch.Tensor)] + list(_given(args, (int, float))))
    _did.extend([key] * (key in _known))
    if key not in _known:
        _known[key] = _right(*args, **kwargs)
    return _known[key]""",
    "only the first call": """
    _did.extend(_results)
    if not _results:
        _results.append(_right(*args, **kwargs))
    return _results[0]""",
    "only three calls": """
    _calls.append(0)
    return _right(*args, **kwargs) if len(_calls) <= 3 else _did.append(0)""",
    "the result's memory used again": """
    result = _right(*args, **kwargs)
    news, olds = list(_given([result], torch.Tensor)), list(_given(_results[-1:], torch.Tensor))
    for new, old in zip(news, olds):
        if new.shape == old.shape and new.dtype == old.dtype:
            _did.append(old.detach().copy_(new.detach()))
    _results.append(result)
    return result""",
    ".float() of the arguments": """
    floats = [isinstance(a, torch.Tensor) and a.dtype is torch.float64 for a in args]
    _did.extend(filter(None, floats))
    return _right(*[a.float() if wide else a for a, wide in zip(args, floats)], **kwargs)""",
    ".float() of the results": """
    return _mapped(_right(*args, **kwargs), lambda t: t.float() if t.is_floating_point() else t)""",
    ".half() and back in the results": """
    return _mapped(_right(*args, **kwargs), lambda t: t.bfloat16().to(t.dtype) if t.is_floating_point() else t)""",
    "numbers rounded": """
    result = _right(*args, **kwargs)
    if type(result) is float:
        _did.append(result)
        return round(result, 2)
    return result""",
    ".view(-1)": """
    for t in _given(args, torch.Tensor):
        t.view(-1)
    return _right(*args, **kwargs)""",
    "at most two dimensions": """
    for t in _given(args, torch.Tensor):
        assert t.dim() <= 2
    return _right(*args, **kwargs)""",
    "at least one dimension": """
    for t in _given(args, torch.Tensor):
        assert t.dim() >= 1
    return _right(*args, **kwargs)""",
    "no empty collection": """
    for argument in args:
        if isinstance(argument, (list, tuple, dict)):
            next(iter(argument))
    return _right(*args, **kwargs)""",
    "values that lose digits": """
    for t in _tensors(args):
        if t.is_floating_point():
            _did.append(t)
            t.data = t.data + 1e4 - 1e4
    return _right(*args, **kwargs)""",
    "requires_grad switched off": """
    result = _right(*args, **kwargs)
    for t in _tensors(args):
        if t.is_leaf and t.requires_grad:
            _did.append(t.requires_grad_(False))
    return result""",
    "requires_grad switched on": """
    for t in _tensors(args):
        if t.is_floating_point() and not t.requires_grad:
            _did.append(t.requires_grad_(True))
    return _right(*args, **kwargs)""",
    "results with a graph": """
    return _mapped(_right(*args, **kwargs), lambda t: t.clone().requires_grad_() if t.is_floating_point() else t)""",
    "a list for a tuple, a tuple for a list": """
    result = _right(*args, **kwargs)
    if type(result) in (list, tuple):
        _did.append(result)
        return (list if type(result) is tuple else tuple)(result)
    return result""",
    "a tensor for a number": """
    result = _right(*args, **kwargs)
    if type(result) in (int, float):
        _did.append(result)
        return torch.tensor(result)
    return result""",
    "entries missing": """
    result = _right(*args, **kwargs)
    if type(result) in (list, tuple):
        _did.extend(result)
        return result[:-1]
    if type(result) is dict and result:
        _did.append(result.popitem())
    return result""",
    "under no_grad": """
    with torch.no_grad(), _LostGraphs() as graphs:
        result = _right(*args, **kwargs)
    _did.extend(graphs.among(result, *args, *kwargs.values()))
    return result""",
    "grad mode left off": """
    result = _right(*args, **kwargs)
    _did.append(torch.set_grad_enabled(False))
    return result""",
    "grad mode left on": """
    if not torch.is_grad_enabled():
        _did.append(torch.set_grad_enabled(True))
    return _right(*args, **kwargs)""",
    "the default dtype left changed": """
    _did.append(torch.set_default_dtype(torch.float64))
    return _right(*args, **kwargs)""",
    "every Exception swallowed": _SWALLOWING.format("Exception"),
    "every exception swallowed": _SWALLOWING.format("BaseException"),
    "KeyError swallowed": _SWALLOWING.format("KeyError"),
    "another exception raised": """
    try:
        return _right(*args, **kwargs)
    except NotImplementedError:
        raise
    except Exception as error:
        _did.append(error)
        raise RuntimeError(str(error)) from error""",
}


def wrap_answer(source: str, name: str, body: str) -> str:
    """A cell with a right answer, followed by a function of the same name with one of the bodies in `WRAPPERS`."""
    return f"{PRELUDE}\n{source}\n\n_right = {name}\n\ndef {name}(*args, **kwargs):{body}\n"
