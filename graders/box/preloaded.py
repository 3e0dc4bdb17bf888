"""Modules that are imported in advance, and stay unseen until the notebook imports them.

A notebook that forgets `import matplotlib.pyplot` after `import matplotlib` fails at home, so it has to fail here.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import sys
from collections.abc import Sequence
from types import ModuleType


class Preloaded(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports modules now, hides them on `hide`, and hands each group out when one of its modules is imported."""

    def __init__(self, *groups: str) -> None:
        """Import `groups`, each a module whose import brings others of its package along, in this order."""
        self._groups: list[dict[str, ModuleType]] = []
        for name in groups:
            before = set(sys.modules)
            importlib.import_module(name)
            package = name.partition(".")[0]
            own = {key: module for key, module in sys.modules.items()
                   if key not in before and key.partition(".")[0] == package}  # fmt: skip
            self._groups.append(own)

    def hide(self) -> None:
        """From now on the modules look as if nobody had imported them."""
        for group in self._groups:
            for name, module in group.items():
                if sys.modules.pop(name, None) is not None:
                    parent, _, child = name.rpartition(".")
                    owner = sys.modules.get(parent)
                    if owner is not None and vars(owner).get(child) is module:
                        delattr(owner, child)
        sys.meta_path.insert(0, self)

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """A spec for a module that is hidden."""
        for group in self._groups:
            if name in group:
                return importlib.machinery.ModuleSpec(name, self, is_package=hasattr(group[name], "__path__"))
        return None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        """The module itself, which was executed long ago."""
        group = next(one for one in self._groups if spec.name in one)
        self._groups.remove(group)
        self._spec = group[spec.name].__spec__
        for name, module in group.items():
            sys.modules.setdefault(name, module)
            parent, _, child = name.rpartition(".")
            owner = sys.modules.get(parent)
            if owner is not None and not hasattr(owner, child):
                setattr(owner, child, module)
        return group[spec.name]

    def exec_module(self, module: ModuleType) -> None:
        """Nothing is left to do but to undo what the import machinery noted down."""
        module.__spec__ = self._spec
