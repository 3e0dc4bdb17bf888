"""What `import pip` finds in a box: pip itself, after a notice that it cannot install anything.

This file becomes `pip/__init__.py` there, in the first folder on the path, so it serves `pip`, `python -m pip` and
`%pip` alike. Environment variables of the box tell pip not to use the network; it still finds what is installed.
"""

from __future__ import annotations

import importlib.machinery
import importlib.metadata
import os
import re
import sys

_stub_folder = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
_pip_spec = importlib.machinery.PathFinder.find_spec(
    "pip", [path for path in sys.path if os.path.realpath(path) != _stub_folder]
)
_SWITCHES = {"-q", "--quiet", "-U", "--upgrade", "--user", "--no-cache-dir", "--no-deps"}


def _missing_packages(arguments: list[str]) -> list[str]:
    """Which packages among these arguments are not installed; none if there are arguments that only pip understands."""
    names = [argument for argument in arguments if argument not in _SWITCHES]
    if not all(re.fullmatch(r"\w[\w.-]*", name) for name in names):
        return []
    missing = []
    for name in names:
        try:
            importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            missing.append(name)
    return missing


if sys.argv[1:2] == ["install"]:
    print("No network: nothing can be installed while a notebook is marked. Use what is installed.", file=sys.stderr)
    if _missing := _missing_packages(sys.argv[2:]):  # pip itself would take half a second to say so
        sys.exit(f"ERROR: not installed here: {', '.join(_missing)}")
if _pip_spec is None or _pip_spec.origin is None:
    raise ModuleNotFoundError("No module named 'pip'", name="pip")
__path__ = list(_pip_spec.submodule_search_locations or ())
__file__ = _pip_spec.origin
with open(_pip_spec.origin, encoding="utf-8") as _file:
    exec(compile(_file.read(), _pip_spec.origin, "exec"))
