"""The catalogue of strangers' notebooks in tiers A and B: what each gets, and what must not happen meanwhile.

Only the cases that `-k` selects are run, all of them as one class, with a neighbour whose work is right.
"""

from __future__ import annotations

import contextlib
import functools
import os
import platform
import select
import socket
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from graders.core.results import SubmissionResult
from graders.marking.batch import Marking
from graders.marking.questions import Questions
from graders.sandbox.outside.box_modules import box_modules_folder
from graders.sandbox.outside.runner import BoxRunner
from graders.sandbox.outside.tiers import missing_for_tier
from graders.sandbox.outside.warm_process import WarmProcess
from graders.submissions.finding import Submission
from tests import make_class
from tests.notebooks import LESSON
from tests.sandbox.outside.attack_cases import FULL, KEYS, RIGHT, Case
from tests.sandbox.outside.catalogue import CASES
from tests.sandbox.outside.further_attacks import BRIEF
from tests.sandbox.outside.one_notebook import processes_of

pytestmark = pytest.mark.slow  # about 340 notebooks, of which many run until a clock stops them


TIERS = ("A", "B with outputs")
"""Only in one of the two, what cells show is drawn."""
AT_A_WALL = ("ker_connection_key", "ker_comm_flood", "intro_probe_cache", "intro_probe_cache, the next student",
             "intro_detect_grading", "st_matplotlib_show", "st_many_figures", "st_multiprocessing")  # fmt: skip
"""Of those below, the ones that get to files, to other processes, or to what is drawn."""
WITHIN = [
    name
    for name in CASES
    if name.startswith(("ok_", "ker_", "mp_", "evil_", "intro_", "st_")) and name not in AT_A_WALL
]
"""What these do stays in their kernel, and no wall has a part in it: every second one is tried in the other tier."""
TURNS = list(zip(WITHIN[::2], WITHIN[1::2]))
IN_BOTH = [name for name in CASES if name not in {case for pair in TURNS for case in pair}]
"""All others are tried in both tiers."""


@dataclass
class Outcome:
    """What a tier made of the cases, and of the canaries."""

    tier: str
    results: dict[str, SubmissionResult] = field(default_factory=dict)
    visitors: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)


MADE_FOLDERS: list[str] = []
"""Temporary folders that this process has made: others on this machine, and the tests beside this one, make more."""


@functools.cache
def note_made_folders() -> None:
    """From now on, keep the path of each temporary folder in `MADE_FOLDERS`."""
    sys.addaudithook(lambda event, given: MADE_FOLDERS.append(given[0]) if event == "tempfile.mkdtemp" else None)


@pytest.fixture(scope="module", params=TIERS)
def outcome(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    """The selected cases, run once in a tier, two at a time; all, if only tests of the whole are selected."""
    tier: str = request.param[0]
    if reason := missing_for_tier(tier, warm=True):
        pytest.skip(f"tier {tier} cannot be tried here: {reason}")
    turn, selected = TIERS.index(request.param), set[str]()
    for item in request.session.items:
        chosen = getattr(getattr(item, "callspec", None), "params", {})
        if chosen.get("outcome") == request.param:
            selected |= {chosen["case"]} if "case" in chosen else set()
            selected |= {chosen["pair"][turn]} if "pair" in chosen else set()
    selected = selected or {*IN_BOTH, *(pair[turn] for pair in TURNS)}
    folder = tmp_path_factory.mktemp(f"tier{tier}")
    note_made_folders()
    before = len(MADE_FOLDERS)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOOKWORK_TEST_SECRET", "token")
        found = run_cases(
            tier, folder, {name: CASES[name] for name in selected}, keep_outputs="outputs" in request.param
        )
    made = MADE_FOLDERS[before:]
    assert any("hookwork-box-" in path for path in made)
    found.left += [path for path in made if os.path.exists(path)]
    # Others on this machine may have files there, too.
    cases = ("hookwork-test-left", "hookwork-cache", "x", "f0")
    found.left += [str(path) for path in (Path("/dev/shm", name) for name in cases) if path.exists()]
    return found


def run_cases(tier: str, folder: Path, cases: dict[str, Case], *, keep_outputs: bool) -> Outcome:
    """Mark the notebooks of these cases, and the neighbour's, among silent listeners and files that must not change."""
    folder.chmod(0o755)
    files = {name: folder / name for name in ("outside.txt", "secret.txt", "gradebook.csv")}
    for file in files.values():
        file.write_text("kept")
        file.chmod(0o666)
    keys = folder / "home/.ssh"
    keys.mkdir(0o700, parents=True)
    (keys / "id").write_text("kept")
    found = Outcome(tier)
    within = Path(sys.prefix, "share")
    with (
        listeners(folder, tier, found) as places,
        box_modules_folder() as box_modules,
        tempfile.TemporaryDirectory(dir=within if os.access(within, os.W_OK) else folder) as among_python,
    ):
        os.chmod(among_python, 0o755)
        make_class.hand_in(Path(among_python, "ada"), LESSON, [make_class.SETUP, *RIGHT])
        inner = Path(among_python, "gradebook.csv")
        inner.write_text("kept")
        inner.chmod(0o666)
        neighbour = make_class.hand_in(folder / "neighbour", LESSON, [make_class.SETUP, *RIGHT])
        canaries = {"OUTSIDE": str(files["outside.txt"]), "SECRET": str(files["secret.txt"]), "FOLDER": str(folder),
                    "GRADEBOOK": str(files["gradebook.csv"]), "NEIGHBOUR": str(neighbour),
                    "HOME": str(keys.parent), "GRADER": os.getpid(),
                    "AMONG_PYTHON": among_python,
                    "PACKAGE": str(Path(__file__).parents[3] / "graders"), **places}  # fmt: skip
        setup = make_class.SETUP + "".join(f"\n{name} = {value!r}" for name, value in canaries.items())
        by_limits: dict[object, dict[Path, str]] = {}
        for number, (name, case) in enumerate(cases.items()):
            file = make_class.hand_in(folder / f"case{number}", LESSON, [setup, *case.cells])
            by_limits.setdefault(case.limits, {})[file] = name
        by_limits.setdefault(BRIEF, {})[neighbour] = "neighbour"
        listed = set(folder.iterdir())
        with WarmProcess(box_modules) as warm:  # as `pytest graders` marks them
            for limits, names in by_limits.items():
                runner = BoxRunner(
                    box_modules,
                    tier,
                    limits,
                    warm,
                    slack_seconds=2.0,
                    keep_outputs=keep_outputs,
                    private=(among_python,),
                )
                marking = Marking(Questions(3), runner, jobs=2)
                submissions = [Submission(file.parent.name, LESSON, file) for file in names]
                marking.start(
                    submissions, lambda result, names=names: found.results.update({names[Path(result.file)]: result})
                )
                marking.close()
        found.left += map(str, processes_of(box_modules))
        found.changed += ["among Python's files"] * (inner.read_text() != "kept")
    found.changed += [name for name, file in files.items() if not file.exists() or file.read_text() != "kept"]
    found.changed += [path.name for path in set(folder.iterdir()) - listed]
    return found


@contextlib.contextmanager
def listeners(folder: Path, tier: str, found: Outcome) -> Iterator[dict[str, object]]:
    """Sockets at which nobody may arrive; those who did are noted in `found.visitors`."""
    abstract = f"\0hookwork-test-{os.getpid()}-{tier}"
    with contextlib.ExitStack() as stack:
        places = [folder]
        for outer in ("/run", "/var/tmp"):
            with contextlib.suppress(OSError):
                places.append(Path(stack.enter_context(tempfile.TemporaryDirectory(dir=outer))))
        streams, datagrams = (
            [listening(stack, place / kind.name, kind) for place in places]
            for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM)
        )
        tcp = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        udp, unnamed = (
            stack.enter_context(socket.socket(*kind))
            for kind in ((socket.AF_INET, socket.SOCK_DGRAM), (socket.AF_UNIX,))
        )
        port = tcp.getsockname()[1]
        udp.bind(("127.0.0.1", port))
        unnamed.bind(abstract)
        unnamed.listen()
        yield {"PORT": port, "ABSTRACT": abstract, "SOCKETS": [listener.getsockname() for listener in streams],
               "DATAGRAMS": [listener.getsockname() for listener in datagrams]}  # fmt: skip
        every = {"tcp": [tcp], "udp": [udp], "abstract": [unnamed], "stream": streams, "datagram": datagrams}
        found.visitors += [name for name, servers in every.items() if select.select(servers, [], [], 0.05)[0]]


def listening(stack: contextlib.ExitStack, path: Path, kind: socket.SocketKind) -> socket.socket:
    """A socket for everybody."""
    found = stack.enter_context(socket.socket(socket.AF_UNIX, kind))
    path.parent.chmod(0o755)
    found.bind(str(path))
    path.chmod(0o777)
    if kind is socket.SOCK_STREAM:
        found.listen()
    return found


@pytest.mark.parametrize("pair", TURNS, ids=" or ".join)
def test_a_notebook_that_stays_in_its_kernel_gets_what_it_deserves(outcome: Outcome, pair: tuple[str, str]) -> None:
    case = pair["AB".index(outcome.tier)]
    check_case(CASES[case], outcome.results[case])


@pytest.mark.parametrize("case", IN_BOTH)
def test_a_notebook_gets_what_it_deserves(outcome: Outcome, case: str) -> None:
    if "libc.syscall" in "".join(CASES[case].cells) and platform.machine() != "x86_64":
        pytest.skip("the numbers of system calls are those of another processor")
    check_case(CASES[case], outcome.results[case])


def check_case(case: Case, result: SubmissionResult) -> None:
    """Every exercise has a status that its notebook may get, the points of that status, and a harmless message."""
    assert result.status.value == "graded", result.message
    results = {exercise.key: exercise for exercise in result.exercises}
    for exercise, allowed in zip((results[key] for key in KEYS), case.statuses, strict=True):
        assert exercise.status.value in allowed.split("|"), (exercise.status.value, exercise.message)
        assert (exercise.score == exercise.max_score) == (exercise.status.value == "passed")
        assert not any(character in exercise.message for character in "\x1b\x07\u202e")


def test_the_neighbour_comes_out_right(outcome: Outcome) -> None:
    assert tuple(exercise.status.value for exercise in outcome.results["neighbour"].exercises) == FULL


def test_the_canaries_are_alive(outcome: Outcome) -> None:
    assert (outcome.visitors, outcome.changed) == ([], [])


def test_nothing_is_left(outcome: Outcome) -> None:
    assert outcome.left == []


@pytest.mark.parametrize("case", ["deletes stdout", "deletes stdout and stderr and fails"])
def test_a_cell_without_streams_is_answered_at_once(outcome: Outcome, case: str) -> None:
    assert outcome.results[case].seconds < CASES[case].limits.cell_seconds
