"""Explain exceptions that say little about their cause, in ways that work for every exercise."""

from __future__ import annotations

import re

from graders.core.explanations import Explanation
from graders.core.mistakes import COMMON_MESSAGES

_SIGNATURES = Explanation(
    "wrong-signature",
    "PyTorch calls your hook with other arguments: `(module, args, output)` for a forward hook, `(module, args)` for a "
    "pre-hook, `(module, grad_input, grad_output)` for a full backward hook, `(grad)` for a hook on a tensor.",
)
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
    "Something is `None` where you use a tensor: `.grad` before the first backward pass, or of a tensor that is no "
    "leaf; or what a hook or a function should have returned.",
)
_BY_TEXT = (
    (r"(<locals>|<lambda>).*(takes .*positional arguments? but|missing \d+ required positional)", _SIGNATURES),
    (r"expected Variable, but hook returned", _RETURNED),
    (
        r"hook .* has changed the type of value",
        Explanation("changed-dtype", COMMON_MESSAGES["changed-dtype"]),
    ),
    (
        r"grad can be implicitly created only for scalar outputs",
        Explanation(
            "no-sum",
            "`backward()` without an argument starts at one number, and this tensor has more. Add them up first, as in "
            "`y.sum().backward()`.",
        ),
    ),
    (
        r"Tensor with \d+ elements cannot be converted to Scalar",
        Explanation(
            "item-of-many",
            "`.item()` makes a Python number of a tensor with one element, and this one has more. Keep the tensor "
            "itself, or make one number of it first, as `.sum()` and `.norm()` do.",
        ),
    ),
    (
        r"element 0 of tensors does not require grad and does not have a grad_fn",
        Explanation(
            "no-graph",
            "There is no graph to go back through: the tensor was computed under `torch.no_grad()`, detached, or from "
            "frozen parameters alone. Where that may be so, ask for its `requires_grad` first.",
        ),
    ),
    (
        r"cannot access local variable|referenced before assignment",
        Explanation(
            "nonlocal-missing",
            "An assignment (also `+=`) makes a name local to the function in which it stands. If a hook is to change a "
            "variable of the function around it, say `nonlocal name` first.",
        ),
    ),
    (
        r"mutated during iteration|changed size during iteration",
        Explanation(
            "changed-while-looping",
            "You changed a dict in a loop over it. Loop over a copy, `list(entries)`, or empty it with `clear()`.",
        ),
    ),
    (
        r"object has no attribute '\w+\.[\w.]+'",
        Explanation(
            "dotted-name",
            "`getattr` takes one name, and this is a path with dots: `model.get_submodule(path)` follows it.",
        ),
    ),
    (
        r"One of the differentiated Tensors does not require grad",
        Explanation(
            "asked-what-needs-no-grad",
            "`torch.autograd.grad` was asked for the gradient of a tensor that does not require grad: data, something "
            "frozen, or what `detach()` returns. Ask for the tensor itself; of data, make a copy that requires it.",
        ),
    ),
)


def explain_exception(error: str, message: str, line: str = "") -> Explanation | None:
    """What an exception is about; None if it says so itself, or if nobody can tell.

    `error` is its type, and `line` the last line of the learner that it went through, "" if it is not known.
    """
    for text, explanation in _BY_TEXT:
        if re.search(text, message):
            return explanation
    if "a leaf Variable that requires grad is being used in an in-place operation" in message:
        own = re.search(r"_\(|[-+*/]=|\]\s*=", line.partition(": ")[2])
        return _STEP if own else _CUT if line else None
    called = re.match(r"(\w+)\(\): argument '\w+' \(position \d+\) must be Tensor, not (?!NoneType)", message)
    if called and ": " in line and not line.endswith("…") and f"{called[1]}(" not in line:
        return _RETURNED  # a layer got what the learner's hook had returned
    missing = re.search(r"'(list|tuple|dict|str|int|float|bool|NoneType)' object has no attribute '(\w+)'", message)
    if missing is None or error != "AttributeError" or ": " not in line:
        return None
    if f".{missing[2]}" not in line and not line.endswith("…"):  # it is not the learner who uses it
        return _RETURNED if missing[1] != "NoneType" else None
    return _NO_VALUE if missing[1] == "NoneType" else None
