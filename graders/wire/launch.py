"""Launch plans: the steps from the first process of a box to the one that runs the notebook.

A plan is written outside, where we may be root, and carried out inside. Only the standard library is imported here,
because a plan is read before anything else is imported.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, TypeVar

from graders.wire.limits import Limits

T = TypeVar("T")
Pairs = tuple[tuple[str, str], ...]
TERMINALS = "newinstance,ptmxmode=0666,mode=0620,max=16"
"""The options of a file system of pseudo-terminals. All of them together have room for 3,000 on a machine."""


@dataclass(frozen=True)
class Walls:
    """What a process may do with files, and which system calls it may make."""

    readable: tuple[str, ...]
    """Files and folders; empty where the files are restricted in another way."""
    writable: tuple[str, ...]
    hidden: tuple[str, ...] = ()
    """Folders within the readable ones that must not be read."""
    metadata: bool = True
    """Whether owners, modes and times of files may be changed."""


@dataclass(frozen=True)
class BoxPlan:
    """How the process that runs the notebook begins: it makes its folders in `folder`, then sets up `walls`, if any."""

    folder: str
    walls: Walls | None = None

    def to_json(self) -> str:
        """Return the plan as text, to be passed to a process."""
        return json.dumps(asdict(self))

    @staticmethod
    def from_json(text: str) -> BoxPlan:
        """Return the plan that `to_json` wrote."""
        return _made(BoxPlan, json.loads(text))


@dataclass(frozen=True)
class System:
    """The read-only file system that tier A sees, built at `root`, an empty folder."""

    root: str
    binds: Pairs
    """Files and folders, each with the place where it appears."""
    links: Pairs
    """Symbolic links: what each points to, and its place."""
    places: Mapping[str, str]
    """Small file systems to write to: the options of each tmpfs by its path."""
    hidden: tuple[str, ...] = ()
    """Folders that appear empty."""


@dataclass(frozen=True)
class PrivatePlaces:
    """Tier B where it can mount: all files are read-only, and small file systems cover what the box writes to."""

    box: BoxPlan
    """The plan of the box if mounting succeeds; otherwise that of the `LaunchPlan` holds."""
    mounts: Mapping[str, tuple[str, str]]
    """The type and options of each file system to mount, by its path."""
    size: str
    """The options of the tmpfs that is mounted on the folder of the box."""
    staying: tuple[str, ...]
    """Folders that stay visible, although one of `mounts` may cover them."""
    links: Pairs = ()
    """Symbolic links that stay visible likewise: what each points to, and its place."""


@dataclass(frozen=True)
class LaunchPlan:
    """The steps from the first process of a box to the one that runs the notebook."""

    tier: str
    box: BoxPlan
    uid: int | None = None
    """The user that the process becomes; None unless we are root."""
    keep_reading: bool = False
    """Whether to keep root's right to read, because that user could not reach the files that it needs."""
    command: tuple[str, ...] = ()
    """The program that goes on as the box, if it is started rather than forked."""
    stage: Pairs = ()
    """Folders that root binds to other places first, where another user can reach them."""
    system: System | None = None
    private: PrivatePlaces | None = None
    supervised: bool = False
    """Whether a parent stays that ends and reaps whatever the box leaves behind."""

    def to_json(self) -> str:
        """Return the plan as text, to be passed to a process."""
        return json.dumps(asdict(self))

    @staticmethod
    def from_json(text: str) -> LaunchPlan:
        """Return the plan that `to_json` wrote."""
        return _made(LaunchPlan, json.loads(text))


LATE_MODULES = {"torch._dynamo": "optim", "matplotlib": "matplotlib"}
"""Modules that take long to import and that only some notebooks need, and a word in such a notebook. Every optimizer
imports torch's compiler."""


def late_modules(texts: Iterable[str]) -> tuple[str, ...]:
    """Those of `LATE_MODULES` that some of these cells or notebooks seem to need."""
    found: set[str] = set()
    for text in texts:
        found |= {name for name, word in LATE_MODULES.items() if word in text}
        if len(found) == len(LATE_MODULES):
            break
    return tuple(name for name in LATE_MODULES if name in found)


@dataclass(frozen=True)
class BoxRequest:
    """Asks the warm process to fork a box: its plan, first working folder, environment variables and limits.

    `modules` are those of `LATE_MODULES` that the notebook seems to need.
    """

    plan: LaunchPlan
    folder: str
    environment: Mapping[str, str]
    limits: Limits = field(default_factory=Limits)
    modules: tuple[str, ...] = ()

    def to_data(self) -> dict[str, Any]:
        """Return the request as JSON values."""
        return asdict(self) | {"supervised": self.plan.supervised}

    @staticmethod
    def from_data(data: Mapping[str, Any]) -> BoxRequest:
        """Return the request that `to_data` wrote."""
        return _made(BoxRequest, {name: value for name, value in data.items() if name != "supervised"})


_PARTS: dict[str, type] = {
    "walls": Walls, "box": BoxPlan, "system": System, "private": PrivatePlaces, "plan": LaunchPlan, "limits": Limits
}  # fmt: skip
"""The types of those fields, whatever class they belong to, that are dataclasses themselves."""


def _made(kind: type[T], data: Mapping[str, Any]) -> T:
    """What `asdict` made these JSON values of."""
    return kind(
        **{
            name: _made(_PARTS[name], value) if name in _PARTS and value is not None else _with_tuples(value)
            for name, value in data.items()
        }
    )


def _with_tuples(value: Any) -> Any:
    """JSON values with tuples in place of their lists."""
    if isinstance(value, dict):
        return {name: _with_tuples(part) for name, part in value.items()}
    return tuple(map(_with_tuples, value)) if isinstance(value, list) else value
