"""What a probe needs: the learner's names, and small instruments that count and compare.

`Student` gives a probe the learner's functions by name. `answer_probe` runs one probe and turns whatever happens
into data: what was seen, or how it ended.
"""

from __future__ import annotations

import json
import linecache
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import CodeType, FunctionType, TracebackType
from typing import Any, TypeGuard

import torch
from torch import Tensor, nn

from graders.box.endless_results import (
    Clock,
    EndlessResult,
    alarm_for_endless_results,
    bounded_iterator,
    reads_result,
    traceback_frames,
)
from graders.box.known_state import count_global_hooks, known_state
from graders.box.limits import exceeded_limit
from graders.wire.data import DataError, encode

TEXT_LIMIT = 300
PRINTED_ROOM = 3 << 10
"""Characters of JSON: the head of a frame has 4 KiB beside the largest tree."""
_name_of_type = type.__dict__["__name__"].__get__
"""The name of a class, although its metaclass may answer otherwise."""


class NotAttempted(Exception):
    """The notebook does not define the name."""


@dataclass(frozen=True)
class Answer:
    """How one probe ended: the head and the body of the frame that says so.

    The head has "type": "seen" with a "tree", or "raised" with a "status" and texts; "defined" is false in it when
    the notebook does not have the name.
    """

    head: dict[str, Any]
    body: bytes = b""


class Student:
    """The learner's definitions: `student.scale_grad(w, 2.0)` calls the function of that name."""

    def __init__(self, namespace: Mapping[str, Any]) -> None:
        """Look names up in `namespace` at the time of the call."""
        self._namespace = namespace
        self._call = ""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        """The learner's callable of this name, which remembers how it was called.

        Raises `NotAttempted` when the notebook does not define it.
        """
        if name not in self._namespace:
            raise NotAttempted(f"the notebook defines no `{name}`")
        target = self._namespace[name]

        def call(*args: Any, **kwargs: Any) -> Any:
            given = [_describe_argument(arg) for arg in args] + [
                f"{key}={_describe_argument(arg)}" for key, arg in kwargs.items()
            ]
            self._call = f"{name}({', '.join(given)})"
            return bounded_iterator(target(*args, **kwargs))

        return call


def answer_probe(
    probe: Callable[..., Any],
    namespace: Mapping[str, Any],
    draw: dict[str, Any],
    seed: int,
    *,
    quiet: bool = True,
    clock: Clock | None = None,
) -> Answer:
    """Run `probe` in a known state on a draw; what the learner's code raises is data.

    With a `clock`, a result that is still being read when it rings is said to have no end.
    """
    with known_state(seed, quiet=quiet) as printed, alarm_for_endless_results(clock, namespace):
        found = _outcome_of_probe(probe, namespace, draw)
    return replace(found, head={**found.head, "printed": text}) if (text := _truncate_for_head(printed.text)) else found


def _outcome_of_probe(probe: Callable[..., Any], namespace: Mapping[str, Any], draw: dict[str, Any]) -> Answer:
    student = Student(namespace)
    try:
        tree, body = encode(probe(student, **draw))
        return Answer({"type": "seen", "tree": tree}, body)
    except NotAttempted as missing:
        head = {"type": "raised", "status": "not-attempted", "message": str(missing), "defined": False}
        return Answer(head)
    except EndlessResult as error:
        return _endless_answer(str(error))
    except DataError as error:
        return Answer({"type": "raised", "status": "over-limit", "message": f"the result is too large: {error}"})
    except BaseException as error:
        if isinstance(error, MemoryError) and reads_result(traceback_frames(error.__traceback__), namespace):
            return _endless_answer("the memory that there is")
        return _raised_answer(error, namespace, student._call)


def _endless_answer(within: str) -> Answer:
    message = f"its result does not come to an end within {within}; return a list"
    return Answer({"type": "raised", "status": "over-limit", "message": message})


def _truncate_for_head(text: str) -> str:
    """As much of a text as the head of a frame has room for beside the largest tree."""
    text = text.encode("utf-8", "replace").decode()
    while len(json.dumps(text)) > PRINTED_ROOM:
        text = text[: len(text) * 3 // 4]
    return text


def _raised_answer(error: BaseException, namespace: Mapping[str, Any], call: str) -> Answer:
    """The learner's exception as data: its type and message, their own line, the call that led to it."""
    own, innermost = _learners_lines(error.__traceback__, namespace, call.partition("(")[0])
    name, message = _name_of_type(type(error)), _exception_text(error)
    status = "raised"
    if type(error) is NotImplementedError and innermost:
        status = "not-attempted"
    elif limit := exceeded_limit("MemoryError" if isinstance(error, MemoryError) else str(name), message):
        status, message = "over-limit", f"{limit}: {message}"
    return Answer(
        {
            "type": "raised",
            "status": status,
            "error": str(name)[:100],
            "message": message[:TEXT_LIMIT],
            "line": own[:TEXT_LIMIT],
            "call": call[:TEXT_LIMIT],
            **_missing_names(error),
        }
    )


def _missing_names(error: BaseException) -> dict[str, str]:
    """The module or the name for want of which an exception was raised."""
    for kind, what in ((ModuleNotFoundError, "modules"), (NameError, "undefined")):
        if isinstance(error, kind) and type(error.name) is str:
            return {what: error.name[:TEXT_LIMIT]}
    return {}


def _learners_lines(trace: TracebackType | None, namespace: Mapping[str, Any], asked: str) -> tuple[str, bool]:
    """The innermost line of the learner's own code, and whether the exception arose in it.

    Code of the notebook is recognised by its globals, which are the notebook's namespace. `asked` is the function that
    was called; another one may stand in another cell, which has a file name of its own.
    """
    own, innermost, function = "", False, namespace.get(asked)
    home = function.__code__.co_filename if type(function) is FunctionType else None
    while trace is not None:
        innermost = trace.tb_frame.f_globals is namespace
        if innermost:
            code = trace.tb_frame.f_code
            source = linecache.getline(code.co_filename, trace.tb_lineno).strip()
            cell = "its cell" if home in (None, code.co_filename) else f"the cell of {_outermost_name(code)}"
            own = f"line {trace.tb_lineno} of {cell}" + (f": {source}" if source else "")
        trace = trace.tb_next
    return own, innermost


def _outermost_name(code: CodeType) -> str:
    """The name of the function or class at the top of a cell that code belongs to; before Python 3.11 its own name."""
    return str(getattr(code, "co_qualname", code.co_name)).partition(".")[0]


def _exception_text(error: BaseException) -> str:
    """`str(error)`, which is the learner's code when the class is."""
    try:
        text = str(error)
    except BaseException:
        return "(its message cannot be read)"
    return text[: 4 * TEXT_LIMIT].encode("utf-8", "replace").decode() if type(text) is str else ""


def _describe_argument(value: Any) -> str:
    """An argument in a few words."""
    kind = type(value)
    if kind in (Tensor, nn.Parameter):
        what = "Parameter" if kind is nn.Parameter else "tensor"
        if value.numel() <= 4 and value.dtype.is_floating_point:
            return f"{what}({[round(x, 4) for x in value.detach().reshape(-1).tolist()]}, {str(value.dtype)[6:]})"
        return f"{what} of shape {tuple(value.shape)}, {str(value.dtype)[6:]}"
    if kind in (list, tuple):
        inner = ", ".join(_describe_argument(item) for item in value[:4]) + (", …" if len(value) > 4 else "")
        return f"[{inner}]" if kind is list else f"({inner})"
    if kind is dict:
        return "{" + ", ".join(f"{key!r}: {_describe_argument(item)}" for key, item in list(value.items())[:4]) + "}"
    if kind in (bool, int, float, str, type(None)):
        return repr(value)[:80]
    if isinstance(value, nn.Module):
        return f"a {kind.__name__}"
    return "a function" if callable(value) else f"a {kind.__name__}"


# Instruments of probes. They read; they change nothing.


def count_tensor_hooks(*tensors: Tensor) -> int:
    """How many hooks these tensors carry: tensor hooks and post-accumulate-grad hooks.

    Torch has no public way to ask. A tensor whose `retain_grad()` was called counts nothing here.
    """
    kinds = ("_backward_hooks", "_post_accumulate_grad_hooks")
    return sum(len(getattr(tensor, kind, None) or ()) for tensor in tensors for kind in kinds)


def count_module_hooks(model: nn.Module) -> int:
    """How many hooks the modules of `model`, its parameters, and the global lists carry."""
    kinds = ("_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks")
    own = sum(len(getattr(module, kind)) for module in model.modules() for kind in kinds)
    return own + count_tensor_hooks(*model.parameters()) + count_global_hooks()


def detached_copy(value: Any) -> Any:
    """A copy of a tensor without its graph; any other value as it is."""
    return value.detach().clone() if isinstance(value, Tensor) else value


def shares_storage(first: Any, second: Any) -> bool:
    """Whether both are ordinary dense tensors that look at the same memory."""
    if not has_memory(first) or not has_memory(second) or not first.numel():
        return False
    return first.untyped_storage().data_ptr() == second.untyped_storage().data_ptr()


def has_memory(value: Any) -> TypeGuard[Tensor]:
    """Whether it is a tensor whose memory can be asked for: a sparse one has none, a class answers as it likes."""
    return type(value) in (Tensor, nn.Parameter) and value.layout is torch.strided


def remove_handle(handle: Any) -> bool:
    """Call `handle.remove()`; False when it is no handle: a list has a `remove` that takes an entry away."""
    if type(handle) in (list, tuple, set) or not callable(getattr(handle, "remove", None)):
        return False
    handle.remove()
    return True


def remove_all_handles(handles: Any) -> bool:
    """Call `remove()` of every handle in a list or a tuple; False when one is no handle."""
    return isinstance(handles, (list, tuple)) and all(list(map(remove_handle, handles)))
