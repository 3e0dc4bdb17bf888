"""Plans: how the first process of a box gets to where the notebook runs. Written outside, carried out inside.

They cross the border between us, who may be root, and the box. Only standard library here: it is read before anything
else is imported.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from graders.wire.limits import Limits

Pairs = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Walls:
    """What the files and system calls of a process are restricted to."""

    readable: tuple[str, ...]
    """None where something else has restricted the files."""
    writable: tuple[str, ...]
    hidden: tuple[str, ...] = ()
    """Folders within the readable ones that are not."""
    metadata: bool = True
    """Whether owners, modes and times of files may be changed."""

    @staticmethod
    def from_data(data: Mapping[str, Any]) -> Walls:
        """The walls that were written as JSON values."""
        readable, writable, hidden = (tuple(data[name]) for name in ("readable", "writable", "hidden"))
        return Walls(readable=readable, writable=writable, hidden=hidden, metadata=data["metadata"])


@dataclass(frozen=True)
class BoxPlan:
    """The process that runs the notebook: it makes its folders in `folder`, and raises the walls, if there are any."""

    folder: str
    walls: Walls | None = None

    def to_json(self) -> str:
        """As text, to be handed to a process."""
        return json.dumps(asdict(self))

    @staticmethod
    def from_json(text: str) -> BoxPlan:
        """The plan that `to_json` wrote."""
        return BoxPlan.from_data(json.loads(text))

    @staticmethod
    def from_data(data: Mapping[str, Any]) -> BoxPlan:
        """The plan that was written as JSON values."""
        walls = data["walls"]
        return BoxPlan(data["folder"], None if walls is None else Walls.from_data(walls))


@dataclass(frozen=True)
class System:
    """The read-only system that tier A sees, built at `root`, an empty folder."""

    root: str
    binds: Pairs
    """Files and folders, and their places."""
    links: Pairs
    """Texts, and the places of the links."""
    places: Mapping[str, str]
    """Small file systems to write to: the options of a tmpfs by its path."""
    hidden: tuple[str, ...] = ()
    """Folders in which there is nothing."""

    @staticmethod
    def from_data(data: Mapping[str, Any]) -> System:
        """The system that was written as JSON values."""
        return System(
            root=data["root"],
            binds=_string_pairs(data["binds"]),
            links=_string_pairs(data["links"]),
            places=data["places"],
            hidden=tuple(data["hidden"]),
        )


@dataclass(frozen=True)
class PrivatePlaces:
    """Tier B where the kernel allows it: all files read-only, and small file systems over what the box writes to."""

    box: BoxPlan
    """The plan of the box where it has such places; else the ordinary one holds."""
    mounts: Mapping[str, tuple[str, str]]
    """The kind and the options of the file systems that are mounted, by path."""
    size: str
    """The options of the tmpfs that the folder of the box becomes."""
    staying: tuple[str, ...]
    """Folders that stay where they are, although they may lie in one of `mounts`."""
    links: Pairs = ()
    """Texts, and the places of links that stay likewise."""

    @staticmethod
    def from_data(data: Mapping[str, Any]) -> PrivatePlaces:
        """The places that were written as JSON values."""
        return PrivatePlaces(
            box=BoxPlan.from_data(data["box"]),
            mounts={path: (kind, options) for path, (kind, options) in data["mounts"].items()},
            size=data["size"],
            staying=tuple(data["staying"]),
            links=_string_pairs(data["links"]),
        )


@dataclass(frozen=True)
class LaunchPlan:
    """The way from the first process of a box to the one that runs the notebook."""

    tier: str
    box: BoxPlan
    uid: int | None = None
    """The user that it becomes, when we are root."""
    keep_reading: bool = False
    """Whether root's right to read is kept, because that user could not reach what it has to read."""
    command: tuple[str, ...] = ()
    """The program that goes on with the box, where it is started and not forked."""
    stage: Pairs = ()
    """Folders that root has to bind first, so that another user can reach them, and their places."""
    system: System | None = None
    private: PrivatePlaces | None = None
    supervised: bool = False
    """Whether a parent stays that ends and reaps whatever the box leaves."""

    def to_json(self) -> str:
        """As text, to be handed to a process."""
        return json.dumps(asdict(self))

    @staticmethod
    def from_json(text: str) -> LaunchPlan:
        """The plan that `to_json` wrote."""
        return LaunchPlan.from_data(json.loads(text))

    @staticmethod
    def from_data(data: Mapping[str, Any]) -> LaunchPlan:
        """The plan that was written as JSON values."""
        system, private = data["system"], data["private"]
        return LaunchPlan(
            tier=data["tier"],
            box=BoxPlan.from_data(data["box"]),
            uid=data["uid"],
            keep_reading=data["keep_reading"],
            command=tuple(data["command"]),
            stage=_string_pairs(data["stage"]),
            system=None if system is None else System.from_data(system),
            private=None if private is None else PrivatePlaces.from_data(private),
            supervised=data["supervised"],
        )


@dataclass(frozen=True)
class BoxRequest:
    """What the warm process is told of a box that it is to fork: plan, folder at the start, variables and limits.

    `optimizes` is whether the notebook seems to make an optimizer.
    """

    plan: LaunchPlan
    folder: str
    environment: Mapping[str, str]
    limits: Limits = field(default_factory=Limits)
    optimizes: bool = False

    def to_data(self) -> dict[str, Any]:
        """As JSON values."""
        return asdict(self) | {"supervised": self.plan.supervised}

    @staticmethod
    def from_data(data: Mapping[str, Any]) -> BoxRequest:
        """The request that `to_data` wrote."""
        return BoxRequest(
            plan=LaunchPlan.from_data(data["plan"]),
            folder=data["folder"],
            environment=data["environment"],
            limits=Limits(**data["limits"]),
            optimizes=data["optimizes"],
        )


def _string_pairs(data: list[list[str]]) -> Pairs:
    return tuple((first, second) for first, second in data)
