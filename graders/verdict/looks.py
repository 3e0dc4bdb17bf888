"""How a program shows what a watch of a story reported: an expression for each kind of change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch import nn

LOOK = {
    "values": "{0}", "buffer": "{0}", "requires-grad": "{0}.requires_grad", "retains-grad": "{0}.retains_grad",
    "grad-filled": "{0}.grad", "grad-emptied": "{0}.grad", "grad-replaced": "{0}.grad", "grad-changed": "{0}.grad",
    "mode": "{0}.training", "class": "str(type({0}))", "forward": "{0}.forward", "entries": "[*map(id, {0})]",
    "parameters": "{0}._parameters", "buffers": "dict({0}.named_buffers())",
    "modules": "dict({0}.named_children())", "attribute": "vars({0})",
    "attribute-left": "sorted(set(vars({0})) - set(vars(nn.Module())))",
    "autograd-mode": "torch.is_grad_enabled()", "default-dtype": "torch.get_default_dtype()",
    "anomaly-mode": "torch.is_anomaly_enabled()", "module-call": "nn.Module.__call__",
}  # fmt: skip
"""An expression that shows a change, by its kind; `{0}` is the thing that changed. A parameter may be left as `None`,
which `named_parameters()` does not show.
"""
TENSOR_HOOKS = "len({0}._backward_hooks or ()) + len({0}._post_accumulate_grad_hooks or ())"
MODULE_HOOKS = '{{name: len(hooks) for name, hooks in vars({0}).items() if name.endswith("_hooks") and hooks}}'
GLOBAL_HOOKS = (
    '{name: len(hooks) for name, hooks in vars(nn.modules.module).items() if name.endswith("_hooks") and hooks}'
)


def look_at(kind: str, thing: str, path: Sequence[str], space: Mapping[str, Any]) -> str:
    """An expression that shows a change of this kind in a thing of the program, or in the part to which `path` leads.

    `space` has the values of the program's names.
    """
    for part in path:
        thing += part if part.startswith("[") else f"[{part}]" if part.isdigit() else f".{part}"
    if not kind.startswith("hook"):
        return LOOK.get(kind, "{0}").format(thing)
    if thing == "torch":
        return GLOBAL_HOOKS
    return (MODULE_HOOKS if isinstance(eval(thing, dict(space)), nn.Module) else TENSOR_HOOKS).format(thing)
