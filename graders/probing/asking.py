"""Run a probe, and give it what it needs: the learner's functions.

`Student` gives a probe the learner's functions by name. `answer_probe` runs one probe and turns whatever happens into
data: what was seen, or how it ended.
"""

from __future__ import annotations

import json
import linecache
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import CodeType, FunctionType, TracebackType
from typing import Any

from torch import Tensor, nn

from graders.probing.endless_results import EndlessResult, bounded_iterator
from graders.probing.known_state import known_state
from graders.probing.process_limits import exceeded_limit
from graders.wire.data import DataError, encode

TEXT_LIMIT = 300
"""Characters of a message, a line of code or a call."""
PRINTED_ROOM = 3 << 10
"""Characters of printed text as JSON: beside the largest tree, the head of a frame has room for 4 KiB."""
_name_of_type = type.__dict__["__name__"].__get__
"""Returns the real name of a class, whatever its metaclass says."""


class NotAttempted(Exception):
    """Raised when the notebook does not define the name."""


@dataclass(frozen=True)
class Answer:
    """How one probe ended: the head and the body of the frame that reports it.

    The head has the "type" "seen" and a "tree", or the "type" "raised", a "status" and texts. "defined" is false in it
    if the notebook does not define the name.
    """

    head: dict[str, Any]
    body: bytes = b""


class Student:
    """The learner's definitions: `student.scale_grad(w, 2.0)` calls the function of that name."""

    def __init__(self, namespace: Mapping[str, Any]) -> None:
        """`namespace` holds the notebook's names, which are looked up when a probe asks for them."""
        self._namespace = namespace
        self._call = ""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        """Return the learner's callable of this name, wrapped to remember its last call for messages.

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
            return ask(target, args, kwargs)

        return call


def ask(target: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Call what the learner defined. This function stands in the trace of whatever the call raises."""
    return bounded_iterator(target(*args, **kwargs))


def answer_probe(probe: Callable[..., Any], namespace: Mapping[str, Any], draw: dict[str, Any], seed: int) -> Answer:
    """Run `probe` on a draw, in a known state seeded with `seed`, and return its answer, whatever the code raises."""
    with known_state(seed) as printed:
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
        message = f"its result does not end within {error}; return a list"
        return Answer({"type": "raised", "status": "over-limit", "message": message})
    except DataError as error:
        message = f"the result is too large: {error}. A list in a default argument or a global grows from call to call"
        return Answer({"type": "raised", "status": "over-limit", "message": message})
    except BaseException as error:
        return _raised_answer(error, namespace, student._call)


def _truncate_for_head(text: str) -> str:
    """Cut a text to what the head of a frame has room for beside the largest tree."""
    text = text.encode("utf-8", "replace").decode()
    while len(json.dumps(text)) > PRINTED_ROOM:
        text = text[: len(text) * 3 // 4]
    return text


def _raised_answer(error: BaseException, namespace: Mapping[str, Any], call: str) -> Answer:
    """The learner's exception as data: its type and message, the learner's own line, and the call that led to it."""
    own, innermost = _learners_lines(error.__traceback__, namespace, call.partition("(")[0])
    name, message = describe_exception(error)
    status = "raised"
    if type(error) is NotImplementedError and innermost:
        status = "not-attempted"
    elif limit := exceeded_limit("MemoryError" if isinstance(error, MemoryError) else name, message):
        status, message = "over-limit", f"{limit}: {message}"
    return Answer(
        {
            "type": "raised",
            "status": status,
            "error": name,
            "message": message[:TEXT_LIMIT],
            "line": own[:TEXT_LIMIT],
            "call": call[:TEXT_LIMIT],
            **_place_in_story(error),
            **_missing_names(error),
        }
    )


def note_place(error: BaseException, story: int, line: int, from_line: int, plainest: Sequence[str]) -> None:
    """Note with an exception the number of the story that it ended, the line of its file, perhaps that of a helper, its
    own line, and the axes that had their plainest value when it came, unlike in the case that was asked for.
    """
    axes = " ".join(plainest)  # no list: a head holds few things
    found = {"story": story, "story_line": line, "story_from_line": from_line, "plainest": axes}
    BaseException.__getattribute__(error, "__dict__")["_place_in_story"] = found


def _place_in_story(error: BaseException) -> dict[str, Any]:
    found = BaseException.__getattribute__(error, "__dict__").get("_place_in_story")
    return found if type(found) is dict else {}


def _missing_names(error: BaseException) -> dict[str, str]:
    """The module or the name whose absence caused an exception; empty for any other cause."""
    for kind, what in ((ModuleNotFoundError, "modules"), (NameError, "undefined")):
        if isinstance(error, kind) and type(error.name) is str:
            return {what: error.name[:TEXT_LIMIT]}
    return {}


def _learners_lines(trace: TracebackType | None, namespace: Mapping[str, Any], asked: str) -> tuple[str, bool]:
    """The innermost line of the learner's own code, and whether the exception was raised in it.

    Code of the notebook is recognised by its globals, which are the notebook's namespace. `asked` names the function
    that was called; if the line belongs to a different cell, which has a file name of its own, its text says so.
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
    """The name of the top-level function or class of a cell that code is part of; before Python 3.11 its own name."""
    return str(getattr(code, "co_qualname", code.co_name)).partition(".")[0]


def describe_exception(error: BaseException) -> tuple[str, str]:
    """The real name of an exception's class and its message, either of which may be code of the learner that fails."""
    name = str(_name_of_type(type(error)))[:100]
    try:
        text = str(error)
    except BaseException:
        return name, "(its message cannot be read)"
    return name, text[: 4 * TEXT_LIMIT].encode("utf-8", "replace").decode() if type(text) is str else ""


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
