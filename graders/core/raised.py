"""Explain exceptions that say little about their cause, in ways that work for every exercise."""

from __future__ import annotations

import re

from graders.core.explanations import Explanation
from graders.core.mistakes import COMMON_MESSAGES

_RETURNED = Explanation(
    "returned-something",
    "What your hook returned took the place of what flows on, and does not fit there. A hook that only watches "
    "returns `None` (a lambda returns its value); one that changes something returns what it got, changed: a tensor "
    "for a tensor, a tuple for a tuple.",
)
_STEP = Explanation(
    "step-without-no-grad",
    "You changed a tensor that requires grad in place while autograd was recording. Put that line under "
    "`with torch.no_grad():`.",
)
_CUT = Explanation(
    "cut-between-steps",
    "You handed a leaf to a function that works in place. `detach().requires_grad_()` makes a leaf and cuts the graph: "
    "hand on the tensor itself, and call `retain_grad()` on it or give it a hook.",
)
_NO_VALUE = Explanation(
    "none-for-a-tensor",
    "Something is `None` where you use a tensor: `.grad` before a pass has filled it (a hook on a tensor runs before "
    "that), after it was set to `None`, or of a tensor that is no leaf; `.grad_fn` of a leaf; an entry that starts as "
    "`None`; or what a hook or a function should have returned.",
)
_NO_TENSOR = Explanation(
    "tuple-for-a-tensor",
    "A tuple, a list or a dict stands here in place of a tensor. A module may return one, and hooks get `args`, "
    "`grad_input` and `grad_output` as tuples: take the tensors out first.",
)
_NO_ATTRIBUTE = Explanation(
    "no-such-attribute",
    "The object has no attribute of this name. Is it spelled as in the task? `print(model)` shows what the parts of a "
    "model are called, and another model may call them otherwise.",
)
_NO_KEY = Explanation(
    "no-such-key",
    "Your dict has no entry under this key: what should have made it has not run, or used another key, or it was "
    "taken out before. And `d[key] += value` needs something to add to: `d.get(key, 0) + value` begins with 0.",
)
_NO_NAME = Explanation(
    "unknown-name",
    "Python knows nothing of that name there: is it spelled as where it was made, or imported? An argument exists only "
    "in its own function: what `__init__` gets and another method needs is kept with `self`, as in `self.lo = lo`.",
)
_OTHER_PARTS = Explanation(
    "another-number-of-parts",
    "The caller takes apart what your function returns, and it has another number of parts than was asked for.",
)
_NOT_CALLED = Explanation(
    "function-not-called",
    "You use a function as if it were what it returns. Call it first: `loss(p).backward()`, not `loss.backward()`.",
)
_BY_TEXT = (
    (
        r"(<locals>|<lambda>)(?!\S*\bforward\(\)).*(takes .*positional arguments? but|missing \d+ required positional)",
        "wrong-signature",
        "PyTorch calls your hook with other arguments: `(module, args, output)` for a forward hook, `(module, args)` "
        "for a pre-hook, `(module, grad_input, grad_output)` for a full backward hook, `(grad)` for a hook on a "
        "tensor.",
    ),
    (r"expected Variable, but hook returned", _RETURNED.id, _RETURNED.message),
    (r"hook .* has changed the type of value", "changed-dtype", COMMON_MESSAGES["changed-dtype"]),
    (
        r"grad can be implicitly created only for scalar outputs",
        "no-sum",
        "`backward()` without an argument starts at one number, and this tensor has more. Add them up first, as in "
        "`y.sum().backward()`.",
    ),
    (
        r"Tensor with \d+ elements cannot be converted to Scalar",
        "item-of-many",
        "`.item()` makes a Python number of a tensor with one element, and this one has more. Keep the tensor itself, "
        "or make one number of it first, as `.sum()` and `.norm()` do.",
    ),
    (
        r"mutated during iteration|changed size during iteration",
        "changed-while-looping",
        "You changed a dict in a loop over it. Loop over a copy, `list(entries)`, or empty it with `clear()`.",
    ),
    (
        r"object has no attribute '\w+\.[\w.]+'",
        "dotted-name",
        "`getattr` takes one name, and this is a path with dots: `model.get_submodule(path)` follows it.",
    ),
    (
        r"One of the differentiated Tensors does not require grad",
        "asked-what-needs-no-grad",
        "`torch.autograd.grad` was asked for the gradient of a tensor that does not require grad: data, something "
        "frozen, or what `detach()` returns. Ask for the tensor itself; of data, make a copy that requires it.",
    ),
    (
        r"through the graph a second time",
        "second-pass-of-a-graph",
        "A backward pass frees its graph, and you started a second one through it. One pass is often enough: hooks, "
        "`retain_grad()`, or `torch.autograd.grad` with a list give all gradients at once.",
    ),
    (
        r"post accumulate grad hooks cannot be registered on non-leaf tensors",
        "post-hook-on-a-non-leaf",
        "A post-accumulate-grad hook is for leaves only, and it sees `.grad`, the total of all passes. `register_hook` "
        "works on every tensor that requires grad, and its hook gets the gradient of this pass.",
    ),
    (
        r"cannot register a hook on a tensor that doesn't require grad",
        "hook-without-grad",
        "Only a tensor that requires grad takes a hook. A copy or a view that is made under `torch.no_grad()`, or of "
        "something that requires no grad, does not. Hook the tensor that you were given, or ask `t.requires_grad` "
        "first.",
    ),
    (
        r"cannot access local variable|local variable .* referenced before assignment",
        "assigned-inside",
        "A function that assigns to a name, as in `n += 1`, has a variable of its own by that name, still without a "
        "value. Write `nonlocal n` first, or change an object instead: `found.append(...)`, `d['n'] += 1`.",
    ),
    (
        r"Boolean value of Tensor with more than one value is ambiguous",
        "truth-of-a-tensor",
        "`if`, `and`, `or`, `min` and `max` ask whether a tensor is true, and one with several elements is neither "
        "true nor false. Ask `t is None` or `t.any()`; for each element use `clamp`, `torch.where` or `torch.maximum`.",
    ),
    (
        r"'(Tensor|Parameter)' object is not callable",
        "tensor-for-a-function",
        "A tensor stands where a function has to. `register_hook` takes the function itself, `hook` or `lambda grad: "
        "...`, and not what it returns, as in `hook(grad)`.",
    ),
    (
        r"hook .* has changed the size of value",
        "changed-shape",
        "Your hook returned a tensor of another shape. What a hook returns replaces the gradient, so it needs the "
        "shape of `grad`; a hook that only watches returns `None`.",
    ),
    (
        r"'RemovableHandle' object is not iterable",
        "one-handle",
        "You returned one handle, and a list of them was asked for: `[handle]`.",
    ),
    (
        r"returned an incorrect number of gradients",
        "a-gradient-for-each-argument",
        "`backward` of a `torch.autograd.Function` returns one value for each argument of `forward` after `ctx`, and "
        "`None` for an argument that is no tensor.",
    ),
    (
        r"save_for_backward can only save",
        "saved-a-number",
        "`ctx.save_for_backward` is for tensors. Anything else is kept as an attribute: `ctx.factor = factor`.",
    ),
    (
        r"append\(\) takes exactly one argument \(\d",
        "append-one-thing",
        "`append` takes one thing. A tuple needs parentheses of its own: `log.append((name, value))`.",
    ),
    (
        r"unexpected keyword argument 'prepend'",
        "no-prepend",
        "Hooks on tensors have no `prepend`: they run in the order in which they were registered.",
    ),
    (
        r"iteration over a 0-d tensor",
        "loops-over-a-tensor",
        "A loop over a tensor (and `extend`, `zip` or `*t`) goes along dimension 0, and a tensor of one number has "
        "none. Treat the tensor as a whole.",
    ),
    (
        r"too many indices for tensor of dimension",
        "too-many-indexes",
        "You gave more indexes than the tensor has dimensions: what stands between two commas is for one dimension. "
        "`t[i]` works for every tensor with one or more.",
    ),
    (
        r"BackwardHookFunction.* is a view and is being modified inplace",
        "full-hook-and-in-place",
        "A full backward hook does not get along with a layer that works in place, on this module or right after it. A "
        "tensor hook does: register it on `output` in a forward hook.",
    ),
    (
        r"more than one element of the written-to tensor refers to a single memory location",
        "in-place-on-a-gradient",
        "You changed a tensor in place whose entries share memory, as the gradient of a sum does. What a hook gets is "
        "not yours anyway: compute a new tensor, `grad.square()` in place of `grad.square_()`.",
    ),
    (
        r"Dimension out of range",
        "no-such-dimension",
        "A tensor here has fewer dimensions than you take it to have: `dim=1` is the second of two. Print its "
        "`.shape`; for any number of dimensions, count from the end (`dim=-1`), or `flatten` what comes behind.",
    ),
    (
        r"have the same dtype, but got|must have the same dtype|expected scalar type \w+ but found",
        "two-dtypes",
        "A float32 tensor meets a float64 one. What `torch.zeros`, `torch.randn` or `torch.tensor` make of floats is "
        "float32: say `dtype=other.dtype`, or use `torch.zeros_like(other)` or `other.new_zeros(...)`.",
    ),
    (
        r"stack expects each tensor to be equal size",
        "stacked-two-shapes",
        "`torch.stack` takes tensors of one shape, and your list has others in it. Print the `.shape` of each: "
        "something may be there that was not asked for, or that was reduced in another way.",
    ),
    (
        r"(index|indices?) (-?\d+ )?(is )?out of (range|bounds)",
        "no-such-entry",
        "You ask for an entry that is not there. Indexes begin at 0, so the last of `n` is `n - 1`; and a list that "
        "hooks fill is empty where they have not run.",
    ),
    (
        r"before Module\.__init__\(\) call",
        "no-super-init",
        "`__init__` has to begin with `super().__init__()`: only then can a module store children and parameters.",
    ),
    (
        r"does not require grad and does not have a grad_fn",
        "backward-without-a-graph",
        "`backward()` starts at a tensor that has no graph: something before it was detached, computed under "
        "`torch.no_grad()`, or needs no grad.",
    ),
)
"""What the message of an exception contains, and what explains it: an id and a message."""
_IN_OWN_LINE = (
    (
        r"The size of tensor a .* must match the size of tensor b",
        r"[-+*/|&^<>%]|[!=]=|torch\.\w|\bF\.",
        "shapes-do-not-fit",
        "Two tensors meet here whose shapes do not go together: print both. If they come from two calls, reduce what "
        "may differ from call to call, such as the batch, before you join them; if not, look at each `dim` and index.",
    ),
    (
        r"shapes cannot be multiplied|size mismatch, got input",
        r"@|matmul|\bmm\(|linear\(",
        "inner-sizes-do-not-fit",
        "In a product of matrices, the last size of the first is the first of the second. The weight of an `nn.Linear` "
        "is [out, in], so it computes `x @ weight.T + bias`; `F.linear(x, weight)` turns the weight round itself.",
    ),
)
"""The same for messages that are about a line of the learner only if this is found in it."""
_COLLECTIONS = ("tuple", "list", "dict")
_RUNS_A_MODEL = r"\b(model|module|layer|net|block)s?(\[\w+\])?\("
_NONE_USED = (
    r"unsupported operand type\(s\) for (\S+?)=?:.*NoneType|'NoneType' object (?:does not support|is not subscr)()"
)
"""A `None` in a calculation, with its operator, or before brackets."""


def explain_exception(error: str, message: str, line: str = "") -> Explanation | None:
    """What an exception is about; None if it says so itself, or if nobody can tell.

    `error` is its type, and `line` the last line of the learner that it went through, "" if it is not known.
    """
    for text, id, explanation in _BY_TEXT:
        if re.search(text, message):
            return Explanation(id, explanation)
    if "a leaf Variable that requires grad is being used in an in-place operation" in message:
        own = re.search(r"_\(|[-+*/]=|\]\s*=", line.partition(": ")[2])
        return _STEP if own else _CUT if line else None
    if not line and re.search(r"^list\.remove\(\) takes exactly one|object has no attribute 'remove'", message):
        return Explanation("no-handle", COMMON_MESSAGES["no-handle"])
    if not line and re.search(r"values to unpack \(expected \d", message):
        return _OTHER_PARTS
    used_as = re.search(r"'([\w.]+)' object has no attribute '(detach|to|grad|requires_grad)'", message)
    if not line and used_as:
        kind = "`None`" if used_as[1] == "NoneType" else f"`{used_as[1]}`"
        return Explanation(
            "not-a-tensor", f"In this line of the caller a tensor is expected, and what comes is {kind}."
        )
    if error == "NameError" and line:
        return _NO_NAME
    if error == "KeyError" and re.search(r"\[|\.pop\(", line):
        return _NO_KEY
    used = re.search(_NONE_USED, message)
    if used and line:
        return _NO_VALUE if (used[1] or "[") in line or line.endswith("…") else None
    if re.search(r"got \(.*NoneType", message) and line:
        return _NO_VALUE
    if "'function' object has no attribute" in message and line:
        return _NOT_CALLED
    return _by_line(error, message, line) if ": " in line else None


def _by_line(error: str, message: str, line: str) -> Explanation | None:
    """What an exception is about, by the line of the learner that it went through: did it come from there?"""
    code, whole = line.partition(": ")[2], not line.endswith("…")
    for text, own, id, explanation in _IN_OWN_LINE:
        if re.search(text, message) and re.search(own, code) and not re.search(_RUNS_A_MODEL, code):
            return Explanation(id, explanation)
    called = re.match(r"(\w+)\(\): argument '\w+' \(position \d+\) must be Tensor, not (?!NoneType)(\w+)", message)
    if called and whole and f"{called[1]}(" not in code:
        return _RETURNED  # a layer got what the learner's hook had returned
    if called and whole and called[2] in _COLLECTIONS:
        return _NO_TENSOR
    keyword = re.search(r"unexpected keyword argument '(\w{1,40})'", message)
    if keyword:
        return Explanation(
            "no-such-keyword",
            f"The function that gets the keyword argument `{keyword[1]}` knows none of this name: look up how it is "
            "spelled there. What a pre-hook returns as keyword arguments goes to the module's `forward`.",
        )
    missing = re.search(r"'(\w+)' object has no attribute '(\w+)'", message)
    if missing is None or error != "AttributeError":
        return None
    kind, own_use = missing[1], f".{missing[2]}" in code or not whole
    if kind == "NoneType":
        return _NO_VALUE if own_use else None
    if kind in _COLLECTIONS:
        return _NO_TENSOR if own_use else _RETURNED
    if kind in ("str", "int", "float", "bool"):
        return None if own_use else _RETURNED
    return _NO_ATTRIBUTE if own_use else None
