"""Runs kept by content: a notebook that was run before, with the same probes, draws and limits, is not run again.

A change to a check, a tolerance or a message changes nothing here, so marking again executes nothing; an interrupted
batch goes on where it stopped; one new submission costs one run.
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
from graders.core.seeds import SEED_LIMIT
from graders.run.box_modules import box_modules_version
from graders.run.missing_modules import missing_modules
from graders.wire import frames
from graders.wire.frames import Frame, FrameError
from graders.wire.limits import Limits

if TYPE_CHECKING:  # whether there are runs has to be known before anything imports torch
    from graders.run.conversation import Probe


_DIGEST = hashlib.sha256().digest_size


class Unkept(HookworkError):
    """No run can be kept where runs belong; the message says what stands in the way."""


def digest_of_probes(probes: Sequence[Probe]) -> str:
    """The questions of a lesson as hexadecimal digits."""
    asked = [
        [
            probe.key,
            probe.name,
            probe.case,
            probe.source,
            probe.tree,
            hashlib.sha256(probe.body).hexdigest(),
            probe.seed,
        ]
        for probe in probes
    ]
    return hashlib.sha256(json.dumps(asked).encode()).hexdigest()


def run_key(cells: Sequence[str], questions: str, limits: Limits, *, keep_outputs: bool = False) -> str:
    """What decides over a run, as 32 digits: the code, the digest of the questions, the limits, the programs."""
    import torch

    content = [
        list(cells),
        questions,
        limits.to_json(),
        torch.__version__,
        platform.python_version(),
        box_modules_version(),
    ]
    content += ["outputs"] * keep_outputs
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:32]


class RunCache:
    """The transcripts in a folder, each in a file named by its run and the tier in which it ran."""

    def __init__(self, folder: Path, *, fresh: bool = False) -> None:
        """The folder need not be there yet. A `fresh` batch finds nothing that is there already."""
        self._folder, self._fresh = folder, fresh
        self.trouble = ""
        """Why a run could not be kept, in one sentence."""

    def batch_seed(self, new: int, spent: Collection[int] = ()) -> int:
        """The seed of the batch that was begun in this folder; `new`, noted down, when none was, or it is `spent`.

        Without the same questions the runs of an interrupted batch would be of no use. A seed is spent when there are
        results: students may have read it, or the numbers that were drawn from it.
        """
        file = self._folder / "seed"
        if not self._fresh:
            with contextlib.suppress(OSError, ValueError):
                noted = int(self._read(file))
                if 0 <= noted < SEED_LIMIT and noted not in spent:
                    return noted
        with contextlib.suppress(OSError):  # said, with the remedy, when the results cannot be written either
            self._write(file, f"{new}\n")
        return new

    def check_folder(self) -> None:
        """Raises `Unkept` where something else than a folder has its place."""
        if self._folder.is_symlink() or (self._folder.exists() and not self._folder.is_dir()):
            what = "a link" if self._folder.is_symlink() else "no folder"
            raise Unkept(f"{self._folder} is for the runs of notebooks, and is {what}. Move it away, or change --out.")

    def make_folder(self) -> None:
        """Make the folder, so that it can be closed to notebooks: none is to see it appear."""
        with contextlib.suppress(OSError):  # said, with the remedy, when the results cannot be written either
            self._folder.mkdir(parents=True, exist_ok=True)

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to be found."""
        return self._fresh or self._folder.is_symlink() or not any(self._folder.glob("*.frames"))

    def find(self, name: str, tiers: Iterable[str]) -> tuple[str, list[Frame]] | None:
        """The tier and the transcript of a kept run that ran in one of `tiers`; None when there is none.

        A run that asked in vain for a package which is installed by now does not count.
        """
        for tier in () if self._fresh else tiers:
            # Not there, not ours, or not as we wrote it: then it is run again.
            with contextlib.suppress(OSError, FrameError):
                label, *transcript = transcript_from_bytes(self._read(self._run_file(name, tier))) or [Frame({})]
                # A file that somebody moved to another's name holds another's run.
                ours = label.head == _label_head(name, tier) and transcript and transcript[-1].type == "ended"
                if ours and not any(map(_is_installed, missing_modules(transcript))):
                    return tier, transcript
        return None

    def keep(self, name: str, tier: str, transcript: Sequence[Frame]) -> None:
        """Keep a run. When it cannot be written there is `trouble`: its marks count all the same."""
        try:
            self._write(self._run_file(name, tier), transcript_to_bytes([Frame(_label_head(name, tier)), *transcript]))
        except OSError as error:
            self.trouble = f"Runs could not be kept in {self._folder}: {(error.strerror or str(error)).lower()}."

    def forget(self, name: str, tier: str) -> None:
        """Do not keep a run any longer."""
        self._run_file(name, tier).unlink(missing_ok=True)

    def _read(self, file: Path) -> bytes:
        """A file of ours. Raises `OSError` for one that is not, and where the folder is a link."""
        if self._folder.is_symlink():
            raise PermissionError(f"{self._folder} is a link")
        return read_own_file(file)

    def _write(self, file: Path, content: bytes | str) -> None:
        write_atomically(file, content, below=self._folder.parent)

    def _run_file(self, name: str, tier: str) -> Path:
        return self._folder / f"{name}.{tier}.frames"


def _is_installed(module: str) -> bool:
    """Whether a module lies among the packages of this Python. Nothing is imported."""
    folders = [folder for folder in sys.path if Path(folder).name in ("site-packages", "dist-packages")]
    return "." not in module and importlib.machinery.PathFinder.find_spec(module, folders) is not None


def _label_head(name: str, tier: str) -> dict[str, str]:
    """The first frame of a kept file: which run it is."""
    return {"type": "kept", "run": name, "tier": tier}


def transcript_to_bytes(transcript: Sequence[Frame]) -> bytes:
    """A transcript as it is kept in a file: behind its digest, so that what was cut or changed is not taken for it."""
    content = b"".join(frames.pack_frame(frame) for frame in transcript)
    return hashlib.sha256(content).digest() + content


def transcript_from_bytes(raw: bytes) -> list[Frame]:
    """The transcript in a file that `transcript_to_bytes` wrote. Raises `FrameError` for any other bytes."""
    digest, content = raw[:_DIGEST], raw[_DIGEST:]
    if digest != hashlib.sha256(content).digest():
        raise FrameError("a kept transcript is not as it was written")
    stream, found = io.BytesIO(content), []
    # JSON as we write it can be longer than as it came: `1e9` becomes `1000000000.0`, a character becomes `\u007f`.
    while (frame := frames.read_frame(stream.read, max_head=8 * frames.MAX_HEAD)) is not None:
        found.append(frame)
    return found
