"""Models as data, for draws: a tree of lists `[kind, details...]`.

The details of a container begin with its children: a dict by name, or a list, whose names are numbers. A child
`["same", name]` is the module of another name once more. A probe builds modules from such a tree; the judge computes
every call by functions, without a module and without a hook.
"""

from __future__ import annotations

from typing import Any

Spec = list[Any]


def resolve(spec: Spec, step: str) -> tuple[Spec, str]:
    """The child that a step such as "act" or "layers.0" names, and its first name."""
    path: list[str] = []
    for part in step.split("."):
        children = spec[1]
        if isinstance(children, dict):
            part = children[part][1] if children[part][0] == "same" else part
            spec = children[part]
        else:
            spec = children[int(part)]
        path.append(part)
    return spec, ".".join(path)


def module_names(spec: Spec, name: str = "") -> list[str]:
    """The names that `named_modules()` yields, in its order, which is that of definition."""
    found = [name]
    children = spec[1] if len(spec) > 1 else None
    if isinstance(children, dict):
        pairs = list(children.items())
    else:
        pairs = [(str(index), child) for index, child in enumerate(children)] if isinstance(children, list) else []
    for key, child in pairs:
        if child[0] != "same":
            found += module_names(child, f"{name}.{key}" if name else key)
    return found
