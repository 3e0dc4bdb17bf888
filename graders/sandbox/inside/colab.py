"""A stub of `google.colab`, in which every call does nothing.

Only a notebook that imports it outside of any `try` gets it. One that uses `try` to find out whether it runs on Colab
gets an `ImportError`, and goes on as it would elsewhere.
"""

from __future__ import annotations

import ast
import functools
import importlib.abc
import importlib.machinery
import sys
from collections.abc import Iterator, Sequence
from types import ModuleType
from typing import Any

COLAB_NAME = "google.colab"


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds `google.colab` and all modules below it, if no other finder does."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Return a spec for a module of Colab, or for the package `google`."""
        if name == "google" or f"{name}.".startswith(f"{COLAB_NAME}."):
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> Any:
        """Return an object that has every attribute. What notebooks compute with has the type that Colab returns."""
        if spec.name == "google":
            return None  # an ordinary module
        if spec.name != COLAB_NAME:
            return functools.reduce(getattr, spec.name.split(".")[2:], sys.modules[COLAB_NAME])
        from unittest.mock import MagicMock

        module = MagicMock(name=COLAB_NAME)
        module.files.upload.return_value = {}
        module.userdata.get.return_value = ""
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Do nothing: a stub has no code to run."""


@functools.cache
def make_colab_importable() -> None:
    """From here on, `import google.colab` finds the stub, unless the real package is installed."""
    sys.meta_path.append(_Finder())


def imports_colab(statement: ast.stmt) -> bool:
    """Whether a statement, or one within it, imports a module of Colab outside of any `try`."""
    return any(f"{name}.".startswith(f"{COLAB_NAME}.") for name in _imported_names(statement))


def _imported_names(node: ast.AST) -> Iterator[str]:
    """The full names of modules that are imported outside of any `try`."""
    match node:
        case ast.Import(names=names):
            yield from (name.name for name in names)
        case ast.ImportFrom(module=str(module), names=names, level=0):
            yield from (f"{module}.{name.name}" for name in names)
        case ast.stmt() if not isinstance(node, ast.Try):
            for part in ast.iter_child_nodes(node):
                yield from _imported_names(part)
