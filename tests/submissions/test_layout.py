"""How platforms, courses and people lay out a class: whose each file is, and what is said where that is not certain."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from graders.submissions.finding import FoundSubmissions, find_submissions
from graders.submissions.lms import BadNames, parse_name_pattern
from tests import notebooks
from tests.make_class import make_mixed_class
from tests.submissions.layouts import DOUBTFUL, FIRST, LESSONS, SECOND, STUB, SURE, WORK, A, Case
from tests.submissions.packing import patched, zipped


def lay_out(folder: Path, paths: tuple[str, ...]) -> None:
    """Write the files of a case; `x.zip!y` is y in the archive x.zip."""
    archives: dict[Path, dict[str, str]] = {}
    for number, path in enumerate(paths):
        path, _, blank = path.partition("=")
        cell = STUB if blank else WORK + f"  # {number}"
        is_notebook = path.endswith((".ipynb", ".ipynb.txt", ".ipynb.json", "#"))
        path = path.removesuffix("#")
        if SECOND in path or path.rpartition("/")[2].startswith("02_"):
            cell = cell.replace("branch_grads", "record_grad")
            content = notebooks.text(cell, 'check("02-record-grad")') if is_notebook else "text"
        else:
            content = notebooks.text(cell, 'check("01-branch-grads")') if is_notebook else "text"
        archive, _, inner = path.rpartition("!")
        if archive:
            archives.setdefault(folder / archive, {})[inner] = content
        elif path.endswith("/"):
            (folder / path).mkdir(parents=True)
        else:
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(content)
    for file, members in archives.items():
        file.parent.mkdir(parents=True, exist_ok=True)
        zipped(file, *((name, content.encode()) for name, content in members.items()))


def shown(found: FoundSubmissions) -> list[str]:
    """The students, with the numbers of their lessons where these are not the first alone."""
    lessons: dict[str, str] = {}
    for submission in found.submissions:
        lessons[submission.student] = lessons.get(submission.student, "") + (
            submission.lesson[1] if submission.file else "-"
        )
    return [student if had == "1" else f"{student}:{had}" for student, had in lessons.items()]


def looked_for(where: Path, case: Case, scratch: Path) -> FoundSubmissions:
    names = parse_name_pattern(case.names) if case.names else None
    return find_submissions(where, LESSONS, scratch, names=names, single=case.single)


@pytest.mark.parametrize("case", [*SURE.values(), *DOUBTFUL.values()], ids=[*SURE, *DOUBTFUL])
def test_each_file_is_its_students_or_stands_among_those_that_are_nobodys(
    case: Case, tmp_path: Path, scratch: Path
) -> None:
    lay_out(tmp_path / "class", case.paths)
    found = looked_for(tmp_path / "class", case, scratch)
    assert shown(found) == sorted(case.students)
    said = " ".join([*found.doubts, *(account.fate for account in found.open_accounts)])
    assert case.said in said
    assert bool(case.said) == bool(said), said
    assert len(found.accounts) == sum(not path.endswith("/") for path in case.paths)
    for submission in found.submissions:
        if submission.file and submission.superseded:  # what counts is the work, and what is said otherwise is doubted
            assert "raise NotImplementedError" not in submission.file.read_text() or "untouched" in said


@pytest.mark.parametrize("name", [name for name, case in SURE.items() if not case.single])
def test_a_zip_of_the_same_class_is_the_same_class(name: str, tmp_path: Path, scratch: Path) -> None:
    case = SURE[name]
    lay_out(tmp_path / "class", case.paths)
    for wrapped in (False, True):
        if wrapped and (case.names or name.startswith(("one student", "gradescope"))):
            continue
        shutil.make_archive(
            str(tmp_path / "class"), "zip", *((tmp_path, "class") if wrapped else (tmp_path / "class",))
        )
        unpacked = scratch / str(wrapped)
        unpacked.mkdir()
        assert shown(looked_for(tmp_path / "class.zip", case, unpacked)) == sorted(case.students)


def test_whose_a_file_is_is_not_the_students_to_choose(tmp_path: Path) -> None:
    paths = (
        f"studentb_11111_67890_22222_assignsubmission_file_{FIRST}",
        f"studentc_33333_67891_{FIRST}",
        f"studentd_44444_67892_studentc_33333_67891_{FIRST}",
    )
    lay_out(tmp_path / "class", paths)
    found = find_submissions(tmp_path / "class", LESSONS)
    assert [(one.student, one.student_id) for one in found.submissions] == [
        ("studentb", "11111"), ("studentc", "33333"), ("studentd", "44444"),
    ]  # fmt: skip
    only = tmp_path / "only"
    lay_out(only, paths[:1])
    assert [(one.student, one.student_id) for one in find_submissions(only, LESSONS).submissions] == [
        ("studentb", "11111")
    ]


def test_what_is_no_notebook_is_listed_with_what_was_handed_in(tmp_path: Path) -> None:
    lay_out(
        tmp_path / "class",
        (
            f"ada/{FIRST}",
            f"ben/{FIRST}",
            "cleo/01_where_gradients_live.html",
            "dora/work.py",
            "eve/01.pdf",
            "ada/notes.txt",
        ),
    )
    found = find_submissions(tmp_path / "class", LESSONS)
    said = {one.student: one.problem for one in found.submissions if one.problem}
    assert {student: problem.partition(",")[0] for student, problem in said.items()} == {
        "cleo": "01_where_gradients_live.html is a web page",
        "dora": "work.py is a Python program",
        "eve": "01.pdf is a PDF",
    }
    assert found.open_accounts == []  # each is a submission, whose summary says why


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{lesson}", "does not say where a student's name is"),
        ("{student}_{topic}", "there is no field {topic}"),
        ("{student}_{student}", "names a field twice"),
        ("{student}_{file}_{lesson}", "names a field twice"),
    ],
)
def test_a_pattern_that_cannot_be_read_says_how_to_write_one(text: str, why: str) -> None:
    with pytest.raises(BadNames, match="Write it like") as caught:
        parse_name_pattern(text)
    assert why in str(caught.value)


@pytest.mark.parametrize(
    ("page", "names"),
    [
        ("utf-8", ["Jürgen Groß"]),
        ("cp437", ["Jürgen Groß", "Élodie"]),
        ("cp850", ["Óscar", "Jürgen"]),
        ("gbk", ["李雷", "Ada"]),
    ],
)
def test_names_in_the_code_page_of_a_system_are_read(
    page: str, names: list[str], tmp_path: Path, scratch: Path
) -> None:
    encoded = [name.encode(page) for name in names]
    marks = [(f"{number:02}" * 12)[: len(name)] for number, name in enumerate(encoded)]
    members = [(f"{mark}/{FIRST}", notebooks.text(WORK).encode()) for mark in marks]
    zipped(tmp_path / "class.zip", *members)
    patched(tmp_path / "class.zip", *((mark.encode() + b"/", name + b"/") for mark, name in zip(marks, encoded)))
    found = find_submissions(tmp_path / "class.zip", LESSONS, scratch)
    assert sorted(one.student for one in found.submissions) == sorted(names)
    assert bool(found.notes) == (page != "utf-8")
    if found.notes:
        assert f"were read as {page}" in found.notes[0]


def test_in_a_class_of_200_in_all_layouts_at_once_every_file_has_an_account(tmp_path: Path, scratch: Path) -> None:
    became = make_mixed_class(tmp_path / "class", A)
    found = find_submissions(tmp_path / "class", [A], scratch)
    assert len(became) == 200
    assert {one.student: "right" if one.file else "unreadable" for one in found.submissions} == became
    files = [path for path in (tmp_path / "class").rglob("*") if path.is_file()]
    assert len(found.accounts) == len(files) == 206
    assert sum(account.fate == "It counts." for account in found.accounts) == 190
    assert len(found.choices) == 6
    assert found.open_accounts == []
    # What nobody worked in does not count where something else was handed in.
    assert not [one for one in found.submissions if one.file and "NotImplementedError" in one.file.read_text()]
