"""Import modules in advance, and hide them until the notebook imports them.

A notebook that forgets `import matplotlib.pyplot` after `import matplotlib` fails at home, so it must fail here, too.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import sys
from collections.abc import Sequence
from types import ModuleType


class _Group:
    """Modules that were imported together, and the attributes of other modules that refer to them."""

    def __init__(self, modules: dict[str, ModuleType]) -> None:
        self.modules = modules
        self.edges: list[tuple[ModuleType, str, ModuleType]] = []
        for name, module in modules.items():
            parent, _, child = name.rpartition(".")
            if parent and parent not in modules:
                self.edges.append((sys.modules[parent], child, module))

    def hide(self) -> None:
        for name in self.modules:
            sys.modules.pop(name, None)
        for owner, child, module in self.edges:
            if vars(owner).get(child) is module:
                delattr(owner, child)

    def show(self) -> None:
        for name, module in self.modules.items():
            sys.modules.setdefault(name, module)
        for owner, child, module in self.edges:
            setattr(owner, child, module)


class Preloaded(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports modules now, hides them on `hide`, and shows a group again when one of its modules is imported."""

    def __init__(self, *names: str) -> None:
        """Import these modules in this order. Each forms a group with what it brings along of its own package."""
        self._groups: list[_Group] = []
        sys.meta_path.insert(0, self)
        self.add(*names)

    def add(self, *names: str) -> None:
        """Import these modules as well."""
        for name in names:
            before = set(sys.modules)
            importlib.import_module(name)
            package = name.partition(".")[0]
            new = {key: module for key, module in sys.modules.items() if key not in before}
            self._groups.append(
                _Group({key: module for key, module in new.items() if key.partition(".")[0] == package})
            )

    def hide(self) -> None:
        """Make the modules look as if nobody had imported them."""
        for group in self._groups:
            group.hide()

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Return a spec for a module that is hidden."""
        group = self._group_of(name)
        if group is None:
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=hasattr(group.modules[name], "__path__"))

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        """Return the module, which was executed long ago, and show the rest of its group."""
        group = self._group_of(spec.name)
        assert group is not None
        self._groups.remove(group)
        group.show()
        module = group.modules[spec.name]
        self._spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Restore the spec that the import machinery replaced; the module was executed long ago."""
        module.__spec__ = self._spec

    def _group_of(self, name: str) -> _Group | None:
        return next((group for group in self._groups if name in group.modules), None)
