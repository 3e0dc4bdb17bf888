"""Explain exceptions that say little about their cause, in ways that work for every exercise."""

from __future__ import annotations

import re

from graders.core.exception_texts import BY_TEXT, RETURNED
from graders.core.explanations import Explanation
from graders.core.mistakes import COMMON_MESSAGES

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
_NO_VALUE = (
    (
        r"\.grad\b(?!\()",  # the attribute, and not `torch.autograd.grad(...)`
        "`.grad` is `None` here: no pass has filled it yet (a hook on a tensor runs before that), no gradient "
        "reaches the tensor, it is no leaf, or somebody set it to `None`.",
    ),
    (r"\.grad_fn\b", "`.grad_fn` is `None` here, as that of every leaf is."),
    (
        "",
        "Something is `None` where you use a tensor: a gradient that has not come yet, an entry that starts as `None`, "
        "or what a hook or a function should have returned.",
    ),
)
"""What is `None`, by what stands in the line."""
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
    "Your dict has no entry under this key: what should have made it has not run or used another key, or `pop` or "
    "`clear` took it out before. `d[key] += value` needs something to add to: `d.get(key, 0) + value` begins with 0.",
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
_UNPACKED = Explanation(
    "unpacked-another-number",
    "A tuple has another number of entries than your line takes out of it. `first, *others = args` takes any number.",
)
_IN_A_BLOCK = Explanation(
    "children-only",
    "There is no such key: a name with dots is that of a module inside of a block, and `named_children()` yields one "
    "level. `model.get_submodule(name)` follows the dots.",
)
_WITHOUT_IT = "The caller uses `.{0}`, and what you made has no such thing: is it missing in your class, or misspelled?"
_NO_SEQUENTIAL = Explanation(
    "only-for-a-sequential",
    "You use a model like a list of layers, and only some kinds, such as `nn.Sequential`, are one. Run any model as a "
    "whole, `model(x)`, with hooks on the layers in question; `model.modules()` yields all of its parts.",
)
_NOT_CALLED = Explanation(
    "function-not-called",
    "You use a function as if it were what it returns. Call it first: `loss(p).backward()`, not `loss.backward()`.",
)
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
"""What a message contains, what stands in the learner's line if it is about that line, an id and a message."""
_COLLECTIONS = ("tuple", "list", "dict")
_OF_TENSORS = (
    "detach|clone|shape|size|abs|mean|sum|norm|clamp|flatten|numel|reshape|view|grad|register_hook|requires_grad|mul_?"
)
"""Matches attributes of tensors that a list, tuple or dict has not."""
_MODEL = r"\b(model|module|layer|net|block)s?"
_RUNS_A_MODEL = _MODEL + r"(\[\w+\])?\("
_NO_LIST = r"'(?!NoneType|\w*Handle')[A-Z]\w*' (object is not (iterable|subscriptable|reversible)|has no len\(\))"
_AS_A_LIST = rf"(\bin |\*|\b(list|tuple|len|iter|reversed|enumerate)\(){_MODEL}\b(?!\()|{_MODEL}(\.\w+)*\["
"""What Python says of an object that is no list, and how a model stands in a line that takes it for one."""
_NONE_USED = (
    r"unsupported operand type\(s\) for (\S+?)=?:.*NoneType|'NoneType' object (?:does not support|is not subscr)()"
)
"""A `None` in a calculation, with its operator, or before brackets."""


def explain_exception(error: str, message: str, line: str = "") -> Explanation | None:
    """What an exception is about; None if it says so itself, or if nobody can tell.

    `error` is its type, and `line` the last line of the learner that it went through, "" if it is not known.
    """
    code = line.partition(": ")[2]
    for text, in_line, id, explanation in _IN_OWN_LINE:
        if re.search(text, message) and re.search(in_line, code) and not re.search(_RUNS_A_MODEL, code):
            return Explanation(id, explanation)
    for text, id, explanation in BY_TEXT:
        if re.search(text, message):
            return Explanation(id, explanation)
    if "a leaf Variable that requires grad is being used in an in-place operation" in message:
        own = re.search(r"_\(|[-+*/]=|\]\s*=", code)
        return _STEP if own else _CUT if line else None
    if not line and re.search(r"^list\.remove\(\) takes exactly one|object has no attribute 'remove'", message):
        return Explanation("no-handle", COMMON_MESSAGES["no-handle"])
    if re.search(r"values to unpack \(expected \d", message):
        return _UNPACKED if line else _OTHER_PARTS
    used_as = re.search(r"'([\w.]+)' object has no attribute '(detach|to|grad|requires_grad)'", message)
    if not line and used_as:
        kind = "`None`" if used_as[1] == "NoneType" else f"`{used_as[1]}`"
        return Explanation(
            "not-a-tensor", f"In this line of the caller a tensor is expected, and what comes is {kind}."
        )
    unknown = re.search(r"object has no attribute '(\w+)'", message)
    if not line and unknown:
        return Explanation("no-such-attribute", _WITHOUT_IT.format(unknown[1]))
    if error == "NameError" and line:
        return _NO_NAME
    if error == "KeyError" and re.search(r"\[|\.pop\(", line):
        return _IN_A_BLOCK if re.fullmatch(r"'[\w.]+\.\w+'", message) else _NO_KEY
    used = re.search(_NONE_USED, message)
    if used and line:
        return _explain_none(line) if (used[1] or "[") in line or line.endswith("…") else None
    if re.search(r"got \(.*NoneType", message) and line:
        return _explain_none(line)
    if "'function' object has no attribute" in message and line:
        return _NOT_CALLED
    if re.search(_NO_LIST, message) and re.search(_AS_A_LIST, code):
        return _NO_SEQUENTIAL
    return _by_line(error, message, line) if ": " in line else None


def _explain_none(line: str) -> Explanation:
    return Explanation("none-for-a-tensor", next(text for part, text in _NO_VALUE if re.search(part, line)))


def _by_line(error: str, message: str, line: str) -> Explanation | None:
    """What an exception is about, by the line of the learner that it went through: did it come from there?"""
    code, whole = line.partition(": ")[2], not line.endswith("…")
    called = re.match(r"(\w+)\(\): argument '\w+' \(position \d+\) must be Tensor, not (?!NoneType)(\w+)", message)
    if called and whole and f"{called[1]}(" not in code:
        return RETURNED  # a layer got what the learner's hook had returned
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
        return _explain_none(line) if own_use else None
    if kind in _COLLECTIONS and own_use:
        return _NO_TENSOR if re.fullmatch(_OF_TENSORS, missing[2]) else None
    if kind in _COLLECTIONS:
        return RETURNED
    if kind in ("str", "int", "float", "bool"):
        return None if own_use else RETURNED
    return _NO_ATTRIBUTE if own_use else None
