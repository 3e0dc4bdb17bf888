"""The run cache: a notebook that was run before with the same probes, inputs and limits is not run again.

Checks, tolerances and messages are not part of a run, so after a change to them, marking again executes nothing. An
interrupted batch goes on where it stopped, and a new submission costs one run.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.machinery
import io
import json
import platform
import sys
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from graders.core.errors import HookworkError
from graders.core.files import read_own_file, write_atomically
from graders.core.missing_modules import missing_modules
from graders.core.seeds import SEED_LIMIT
from graders.sandbox.outside.box_modules import box_modules_version
from graders.wire import frames
from graders.wire.frames import Frame, FrameError
from graders.wire.limits import Limits

if TYPE_CHECKING:  # it imports torch, and `RunCache.is_empty` is asked before that
    from graders.sandbox.outside.conversation import Probe


_DIGEST = hashlib.sha256().digest_size


class Unkept(HookworkError):
    """Runs cannot be kept in the folder for them; the message says what is in the way."""


def digest_of_probes(probes: Sequence[Probe]) -> str:
    """The SHA-256 of the questions of a lesson, in hexadecimal."""
    asked = [vars(probe) | {"body": hashlib.sha256(probe.body).hexdigest()} for probe in probes]
    return hashlib.sha256(json.dumps(asked).encode()).hexdigest()


def installed_versions() -> tuple[str, ...]:
    """What a run depends on beside the notebook and the questions: torch, Python, and what of ours is in a box."""
    import torch

    return torch.__version__, platform.python_version(), box_modules_version()


def run_key(
    cells: Sequence[str],
    questions: str,
    limits: Limits,
    *,
    keep_outputs: bool = False,
    versions: Sequence[str] | None = None,
) -> str:
    """32 hexadecimal digits for what determines a run: code, questions (a digest), limits, `installed_versions`."""
    content = [list(cells), questions, limits.to_json(), *(installed_versions() if versions is None else versions)]
    content += ["outputs"] * keep_outputs
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:32]


class RunCache:
    """The transcripts in a folder. Each has a file named after the key of the run and its tier."""

    def __init__(self, folder: Path, *, fresh: bool = False) -> None:
        """The folder need not exist yet. With `fresh` nothing is found, and every run is kept anew."""
        self._folder, self._fresh = folder, fresh
        self.trouble = ""
        """Why a run could not be kept, in one sentence; empty if all could."""

    def batch_seed(self, new: int, spent: Collection[int] = ()) -> int:
        """The seed of the batch that was begun in this folder, so that its runs can be used again.

        If no batch was begun, or its seed is `spent`, it is `new`, which is written down here. A seed is spent once
        there are results, since students may have read it, or numbers that were drawn from it.
        """
        file = self._folder / "seed"
        if not self._fresh:
            with contextlib.suppress(OSError, ValueError):
                noted = int(self._read(file))
                if 0 <= noted < SEED_LIMIT and noted not in spent:
                    return noted
        with contextlib.suppress(OSError):  # reported when the results cannot be written either
            self._write(file, f"{new}\n")
        return new

    def check_folder(self) -> None:
        """Raise `Unkept` if there is something in the folder's place that is not a folder."""
        if self._folder.is_symlink() or (self._folder.exists() and not self._folder.is_dir()):
            what = "a link" if self._folder.is_symlink() else "not a folder"
            raise Unkept(f"{self._folder} should hold the runs of notebooks, but is {what}. Move it, or change --out.")

    def make_folder(self) -> None:
        """Make the folder before any notebook runs: only a folder that exists can be hidden from notebooks."""
        with contextlib.suppress(OSError):  # reported when the results cannot be written either
            self._folder.mkdir(parents=True, exist_ok=True)

    @property
    def is_empty(self) -> bool:
        """Whether no run can be found."""
        return self._fresh or self._folder.is_symlink() or not any(self._folder.glob("*.frames"))

    def find(self, name: str, tiers: Iterable[str]) -> tuple[str, list[Frame]] | None:
        """The tier and the transcript of the run with key `name`, if it ran in one of `tiers`; otherwise None.

        A run that failed to import a package which is installed by now does not count.
        """
        for tier in () if self._fresh else tiers:
            # If the file is missing, belongs to somebody else or was changed, the notebook is run again.
            with contextlib.suppress(OSError, FrameError):
                label, *transcript = transcript_from_bytes(self._read(self._run_file(name, tier))) or [Frame({})]
                # The label shows whether somebody renamed the file of another run.
                ours = label.head == _label_head(name, tier) and transcript and transcript[-1].type == "ended"
                if ours and not any(map(_is_installed, missing_modules(transcript))):
                    return tier, transcript
        return None

    def keep(self, name: str, tier: str, transcript: Sequence[Frame]) -> None:
        """Keep a run. If it cannot be written, `trouble` says why; its marks count all the same."""
        try:
            self._write(self._run_file(name, tier), transcript_to_bytes([Frame(_label_head(name, tier)), *transcript]))
        except OSError as error:
            self.trouble = f"Runs could not be kept in {self._folder}: {(error.strerror or str(error)).lower()}."

    def forget(self, name: str, tier: str) -> None:
        """Remove a run."""
        self._run_file(name, tier).unlink(missing_ok=True)

    def _read(self, file: Path) -> bytes:
        """Read a file that this user wrote. Raises `OSError` for any other, and if the folder is a link."""
        if self._folder.is_symlink():
            raise PermissionError(f"{self._folder} is a link")
        return read_own_file(file)

    def _write(self, file: Path, content: bytes | str) -> None:
        write_atomically(file, content, below=self._folder.parent)

    def _run_file(self, name: str, tier: str) -> Path:
        return self._folder / f"{name}.{tier}.frames"


def _is_installed(module: str) -> bool:
    """Whether a module is among the installed packages of this Python. Nothing is imported."""
    folders = [folder for folder in sys.path if Path(folder).name in ("site-packages", "dist-packages")]
    return "." not in module and importlib.machinery.PathFinder.find_spec(module, folders) is not None


def _label_head(name: str, tier: str) -> dict[str, str]:
    """The head of the first frame in a kept file, which says which run it is."""
    return {"type": "kept", "run": name, "tier": tier}


def transcript_to_bytes(transcript: Sequence[Frame]) -> bytes:
    """A transcript as bytes to keep. They start with a digest, by which damage and changes are noticed."""
    content = b"".join(frames.pack_frame(frame) for frame in transcript)
    return hashlib.sha256(content).digest() + content


def transcript_from_bytes(raw: bytes) -> list[Frame]:
    """The transcript in bytes from `transcript_to_bytes`. Raises `FrameError` for any other bytes."""
    digest, content = raw[:_DIGEST], raw[_DIGEST:]
    if digest != hashlib.sha256(content).digest():
        raise FrameError("a kept transcript was damaged or changed")
    stream, found = io.BytesIO(content), []
    # Our JSON can be longer than what came in: `1e9` becomes `1000000000.0`, and a character may become `\u007f`.
    while (frame := frames.read_frame(stream.read, max_head=8 * frames.MAX_HEAD)) is not None:
        found.append(frame)
    return found
