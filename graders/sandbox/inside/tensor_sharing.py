"""Let a notebook's processes, such as those of a DataLoader, pass tensors to each other without a socket.

torch passes a descriptor of their memory, through a socket that the receiver connects to. In a box it may not connect.
"""

from __future__ import annotations

from multiprocessing.reduction import ForkingPickler
from typing import Any

import torch
from torch import UntypedStorage
from torch.multiprocessing import reductions

_EMPTY = torch.empty(0).untyped_storage()


def send_tensors_by_value() -> None:
    """From here on, tensors on the CPU travel between processes as their bytes."""
    ForkingPickler.register(UntypedStorage, _reduce_storage)


def _reduce_storage(storage: UntypedStorage) -> tuple[Any, ...]:
    if storage.device.type != "cpu":
        return tuple(reductions.reduce_storage(storage))  # type: ignore[no-untyped-call]
    return _rebuild_storage, (torch.empty(0, dtype=torch.uint8).set_(storage).numpy().tobytes(),)


def _rebuild_storage(raw: bytes) -> UntypedStorage:
    return torch.frombuffer(bytearray(raw), dtype=torch.uint8).untyped_storage() if raw else _EMPTY
