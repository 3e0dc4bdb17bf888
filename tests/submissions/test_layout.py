"""How platforms, courses and people lay out a class: whose each file is, and what is said where that is not certain."""

from __future__ import annotations

import io
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest

from graders.core import course
from graders.submissions.finding import FoundSubmissions, NoSubmissions, find_submissions
from graders.submissions.lms import BadNames, parse_name_pattern
from tests import notebooks
from tests.make_class import make_mixed_class

LESSONS = course.lesson_stems()[1:3]
FIRST, SECOND = (f"{lesson}.ipynb" for lesson in LESSONS)
A, B = LESSONS
STUB = "def branch_grads(w, x):\n    raise NotImplementedError"
WORK = "def branch_grads(w, x):\n    return {}"
MOODLE = "_assignsubmission_file_"
TIME = "Nov 24, 2026 603 PM"


@dataclass(frozen=True)
class Case:
    """Paths of a class, the students that they make, each with lessons, and words of what is said.

    A path ends in `/` for a folder, in `=blank` for an untouched notebook, in `#` for a notebook under another name.
    The name of a student may have lessons behind `:`, the first alone otherwise. `said` is empty where nothing is
    doubtful.
    """

    paths: tuple[str, ...]
    students: tuple[str, ...]
    said: str = ""
    names: str = ""
    single: bool = False


SURE = {
    "a folder each": Case((f"ada/{FIRST}", f"ben/{FIRST}", "cleo/"), ("ada", "ben", "cleo:-")),
    "a level deeper": Case((f"ada/work/{FIRST}", f"ben/a/b/{FIRST}"), ("ada", "ben")),
    "the class in a folder": Case((f"class/ada/{FIRST}", f"class/ben/{FIRST}", "README.md"), ("ada", "ben")),
    "the class two folders down": Case((f"x/y/ada/{FIRST}", f"x/y/ben/{FIRST}"), ("ada", "ben")),
    "one student, alone": Case((f"ada/work/{FIRST}",), ("ada",)),
    "one student's lessons in folders": Case((f"lesson1/{FIRST}", f"lesson2/{SECOND}"), ("class:12",)),
    "one group, alone": Case((f"team_1/{FIRST}", f"team_2/{SECOND}"), ("team_1", "team_2:2")),
    "one student's files": Case((FIRST, SECOND, "data.csv"), ("class:12",)),
    "one student's, some in a folder": Case((FIRST, f"more/{SECOND}"), ("class:12",)),
    "a template beside the folders": Case(
        (FIRST, f"ada/{FIRST}", f"ben/{FIRST}"), ("ada", "ben"), "nothing says whose"
    ),
    "canvas": Case((f"lovelaceada_12_345_{FIRST}", f"turing_LATE_13_346_{FIRST}"), ("lovelaceada", "turing")),
    "canvas, anonymous": Case(
        (f"anon_aB1cD_67890_{FIRST}", f"LATE_anon_xY2zW_67891_{FIRST}"), ("anon_aB1cD", "anon_xY2zW")
    ),
    "canvas, groups": Case((f"team_a_1234_67890_{FIRST}", f"team_b_x_1235_67891_{FIRST}"), ("team_a", "team_b_x")),
    "canvas, short numbers": Case((f"ada_5_12_{FIRST}", f"ben_6_13_{FIRST}"), ("ada", "ben")),
    "canvas, archives": Case((f"ada_12_345_work.zip!{FIRST}", f"ben_13_346_{FIRST}"), ("ada", "ben")),
    "canvas, attempts": Case(
        (f"ada_12_345_{FIRST}=blank", "ada_12_346_01_where_gradients_live-1.ipynb", f"ben_13_347_{FIRST}"),
        ("ada", "ben"),
    ),
    "moodle": Case(
        (f"Ada Lovelace_12{MOODLE}/{FIRST}", f"Ben_13{MOODLE}/{FIRST}", f"Cy_14{MOODLE}/"),
        ("Ada Lovelace", "Ben", "Cy:-"),
    ),
    "moodle, a folder uploaded": Case((f"Ada_12{MOODLE}/my work/{FIRST}", f"Ben_13{MOODLE}/{FIRST}"), ("Ada", "Ben")),
    "moodle, no folders": Case((f"Ada_12{MOODLE}{FIRST}", f"Ben_13{MOODLE}{FIRST}"), ("Ada", "Ben")),
    "moodle, blind": Case(
        (f"Participant_12{MOODLE}/{FIRST}", f"Participant_13{MOODLE}/{FIRST}"), ("Participant (12)", "Participant (13)")
    ),
    "blackboard": Case(
        (
            f"Lesson1_s1001_attempt_2026-11-24-18-03-21_{FIRST}",
            "Lesson1_s1001_attempt_2026-11-24-18-03-21.txt",
            f"Lesson1_s1002_attempt_2026-11-24-19-03-21_{FIRST}",
        ),
        ("s1001", "s1002"),
    ),
    "blackboard, two attempts": Case(
        (
            f"L1_s1_attempt_2026-11-24-18-03-21_{FIRST}",
            f"L1_s1_attempt_2026-11-25-18-03-21_{FIRST}=blank",
            f"L1_s2_attempt_2026-11-24-19-03-21_{FIRST}",
        ),
        ("s1", "s2"),
        "untouched, but another is not",
    ),
    "blackboard, logins with underscores": Case(
        (
            f"Lesson 1_ada_l_attempt_2026-11-24-18-03-21_{FIRST}",
            f"Lesson 1_ben_l_attempt_2026-11-24-19-03-21_{FIRST}",
        ),
        ("ada_l", "ben_l"),
    ),
    "what a browser called a text": Case((f"ada/{FIRST}.txt", f"ben/{FIRST}.json"), ("ada", "ben")),
    "notebooks under other names": Case(
        (f"ada/{A}.json#", f"ben/{A}.txt#", f"cy/{A}#", "dan/01. My work#", f"eve/{FIRST} (1)#", "fay/mine.JSON#"),
        ("ada", "ben", "cy", "dan", "eve", "fay"),
    ),
    "notebooks under other names, moodle": Case(
        (f"Ada_12{MOODLE}/{A}.json#", f"Ben_13{MOODLE}{A}.txt#"), ("Ada", "Ben")
    ),
    "what is no notebook under such a name": Case(
        (f"ada/{FIRST}", "ada/data.json", "ada/notes", f"ada/{FIRST}~#", f"ben/{FIRST}", "ben/01_notes.txt"),
        ("ada", "ben"),
    ),
    "brightspace": Case(
        (f"12-99 - Ada Lovelace - {TIME} - {FIRST}", f"13-99 - Ben O-Kri - {TIME} - {FIRST}", "index.html"),
        ("Ada Lovelace", "Ben O-Kri"),
    ),
    "brightspace, folders": Case(
        (
            f"12-99 - Ada - {TIME}/{FIRST}=blank",
            f"12-99 - Ada - Nov 25, 2026 803 AM/{FIRST}",
            f"13-99 - Ben - {TIME}/{FIRST}",
            "index.html",
        ),
        ("Ada", "Ben"),
    ),
    "autolab": Case(
        (f"ada_l@cs.edu_1_{FIRST}=blank", f"ada_l@cs.edu_2_{FIRST}", f"ben@cs.edu_1_{FIRST}"),
        ("ada_l@cs.edu", "ben@cs.edu"),
    ),
    "sakai": Case(
        (
            "Lesson 1/grades.csv",
            f"Lesson 1/Lovelace, Ada(s1)/Submission attachment(s)/{FIRST}",
            "Lesson 1/Lovelace, Ada(s1)/timestamp.txt",
            f"Lesson 1/Okri, Ben(s2)/Submission attachment(s)/{FIRST}",
        ),
        ("Lovelace, Ada", "Okri, Ben"),
    ),
    "gradescope's export": Case(
        (
            f"assignment_123_export/submission_4001/{FIRST}",
            f"assignment_123_export/submission_4002/{FIRST}",
            "assignment_123_export/submission_metadata.yml",
        ),
        ("submission_4001", "submission_4002"),
        "does not say whose these 2 folders are: submission_4001, submission_4002",
    ),
    "sakai, one handed in": Case(
        (
            "Lesson 1/grades.csv",
            f"Lesson 1/Costa, Ana(acosta)/Submission attachment(s)/{FIRST}",
            f"Lesson 1/Costa, Ana(acosta)/Feedback Attachment(s)/{FIRST}=blank",
            "Lesson 1/Costa, Ana(acosta)/timestamp.txt",
            "Lesson 1/Li, Bo(bli)/Bo_submissionText.html",
        ),
        ("Costa, Ana", "Li, Bo:-"),
        "not handed in",
    ),
    "nbgrader's whole course": Case(
        (f"submitted/acosta/lesson1/{FIRST}", f"source/lesson1/{FIRST}=blank", f"autograded/acosta/lesson1/{FIRST}"),
        ("acosta",),
        "not handed in",
    ),
    "teams, one handed in": Case(
        (f"Submitted files/Ana/Lesson 1/{FIRST}", f"Working files/Bo/Lesson 1/{FIRST}"), ("Ana",), "not handed in"
    ),
    "brightspace, the day first": Case(
        (
            f"12-67 - Ana Costa - 24 Nov., 2026 1803/{FIRST}=blank",
            f"12-67 - Ana Costa - 25 Nov., 2026 1803/{FIRST}",
            f"13-67 - Bo Li - 24 Nov., 2026 1803/{FIRST}",
        ),
        ("Ana Costa", "Bo Li"),
    ),
    "moodle, unpacked twice": Case(
        (f"Ana_12{MOODLE}/{FIRST}=blank", f"Ana_12{MOODLE} (1)/{FIRST}", f"Bo_13{MOODLE}/{FIRST}"), ("Ana", "Bo")
    ),
    "teams": Case(
        (
            f"Submitted files/Ada/Lesson 1/Version 1/{FIRST}=blank",
            f"Submitted files/Ada/Lesson 1/Version 2/{FIRST}",
            f"Submitted files/Ben/Lesson 1/Version 1/{FIRST}",
            f"Working files/Cy/Lesson 1/{FIRST}",
        ),
        ("Ada", "Ben"),
        "working files",
    ),
    "nbgrader": Case((f"submitted/ada/lesson1/{FIRST}", f"submitted/ben/lesson1/{FIRST}"), ("ada", "ben")),
    "github classroom": Case(
        (f"lesson1-ada/{FIRST}", "lesson1-ada/README.md", f"lesson1-ben/notebooks/{FIRST}"),
        ("lesson1-ada", "lesson1-ben"),
    ),
    "okpy": Case(
        (
            f"cal/cs1/lab1/ada@x.edu/20261124T180321/{FIRST}=blank",
            f"cal/cs1/lab1/ada@x.edu/20261125T180321/{FIRST}",
            f"cal/cs1/lab1/ben@x.edu/20261124T190321/{FIRST}",
        ),
        ("ada@x.edu", "ben@x.edu"),
    ),
    "sections": Case(
        (f"monday/ada/{FIRST}", f"monday/ben/{FIRST}", f"friday/cy/{FIRST}", f"friday/dan/{FIRST}"),
        ("ada", "ben", "cy", "dan"),
    ),
    "lessons with students": Case(
        (f"lesson1/ada/{FIRST}", f"lesson1/ben/{FIRST}", f"lesson2/ada/{SECOND}", f"lesson2/ben/{SECOND}"),
        ("ada:12", "ben:12"),
    ),
    "an archive for each lesson": Case(
        (
            f"lesson1.zip!ada_12_345_{FIRST}",
            f"lesson1.zip!ben_13_346_{FIRST}",
            f"lesson2.zip!ada_12_347_{SECOND}",
            f"lesson2.zip!ben_13_348_{SECOND}",
        ),
        ("ada:12", "ben:12"),
    ),
    "an archive for each student": Case((f"ada.zip!{FIRST}", f"ben.zip!x/{FIRST}"), ("ada", "ben")),
    "drafts in folders": Case((f"ada/final/{FIRST}", f"ada/draft/{FIRST}=blank", f"ben/{FIRST}"), ("ada", "ben")),
    "a pattern for files": Case(
        (f"x-ada-7-{FIRST}", f"x-ben-8-{FIRST}"), ("ada", "ben"), names="x-{student}-{id}-{lesson}"
    ),
    "a pattern for folders": Case(
        (f"lesson1-ada/{FIRST}", f"lesson1-ben/{FIRST}"), ("ada", "ben"), names="lesson1-{student}"
    ),
    "a pattern for paths": Case((f"a/ada/b/{FIRST}", f"c/ben/{FIRST}"), ("ada", "ben"), names="{any}/{student}/{file}"),
    "names behind the lesson": Case(
        ("01_where_gradients_live-ada.ipynb", "01_where_gradients_live-ben.ipynb"),
        ("ada", "ben"),
        names="{lesson}-{student}",
    ),
    "plain, confirmed": Case((f"ada_{FIRST}", f"ben_{FIRST}"), ("ada", "ben"), names="plain"),
    "gradescope": Case((f"lesson1/{FIRST}", f"lesson2/deep/{SECOND}", "notes.txt"), ("class:12",), single=True),
}

DOUBTFUL = {
    "numbers of students below tutors": Case(
        (f"Tutor Ana/ab123/{FIRST}", f"Tutor Ana/ab124/{FIRST}", f"Tutor Bo/ab125/{FIRST}"),
        ("ab123", "ab124", "ab125"),
        "taken as folders of groups",
    ),
    "a group of one": Case(
        (f"Section A/4711/{FIRST}", f"Section A/4712/{FIRST}", f"Section B/4713/{FIRST}"),
        ("4711", "4712", "4713"),
        "taken as folders of groups",
    ),
    "groups of one each": Case(
        (f"Section A/Ana Costa/{FIRST}", f"Section B/Bo Li/{FIRST}"), ("Ana Costa", "Bo Li"), "folders of groups"
    ),
    "two numbers that are no attempts": Case(
        (f"hw/1001/{FIRST}", f"hw/1002/{FIRST}", f"extra/{FIRST}"), ("extra", "hw"), "nothing says which"
    ),
    "a web page beside folders": Case(
        (f"Ana/{FIRST}", f"Bo/{FIRST}", "Eve_01_where_gradients_live.html"), ("Ana", "Bo", "Eve:-"), "'Eve'"
    ),
    "an unopened archive beside folders": Case(
        (f"Ana/{FIRST}", f"Bo/{FIRST}", "Dan.rar"), ("Ana", "Bo"), "nothing says whose it is"
    ),
    "copies of folders": Case(
        (f"Ana Costa/{FIRST}", f"Ana Costa (1)/{FIRST}", f"Bo/{FIRST}"),
        ("Ana Costa", "Ana Costa (1)", "Bo"),
        "may be one person's",
    ),
    "names in a lesson's folder": Case(
        (f"lesson1/Ana Costa - {FIRST}", f"lesson1/Jürgen Weiß - {FIRST}"),
        ("Ana Costa", "Jürgen Weiß"),
        "--names plain",
    ),
    "canvas beside a folder of late ones": Case(
        (f"costaana_101_9001_{FIRST}", f"libo_102_9002_{FIRST}", f"late/Cy/{FIRST}", f"late/Dan/{FIRST}"),
        ("costaana", "late", "libo"),
        "nothing says which",
    ),
    "old moodle, drive, by hand": Case(
        (f"Ada Lovelace_{FIRST}", f"Ben Okri_{FIRST}"), ("Ada Lovelace", "Ben Okri"), "taken as those of 2 students"
    ),
    "drive": Case((f"Ada Lovelace - {FIRST}", f"Ben Okri - {FIRST}"), ("Ada Lovelace", "Ben Okri"), "--names plain"),
    "files called after people": Case(("ada.ipynb", "ben.ipynb"), ("ada", "ben"), "--names plain"),
    "copies that may be several people's": Case(
        (FIRST, "01_where_gradients_live (1).ipynb", "01_where_gradients_live (2).ipynb"), ("class",), "--one-student"
    ),
    "one beside canvas": Case(
        (f"ada_12_345_{FIRST}", f"ben_13_346_{FIRST}", f"weil_ida_{FIRST}"), ("ada", "ben", "weil_ida"), "'weil_ida'"
    ),
    "a number claimed twice": Case((f"ada_12_345_{FIRST}", f"mallory_12_346_{FIRST}"), ("ada", "mallory"), "number 12"),
    "two answers, no order": Case(
        ("ada/01_a.ipynb", "ada/01_b.ipynb", f"ben/{FIRST}"), ("ada", "ben"), "nothing says which"
    ),
}


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
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as packed:
            for name, content in members.items():
                packed.writestr(name, content)


def shown(found: FoundSubmissions) -> list[str]:
    """The students, with the numbers of their lessons where these are not the first alone."""
    lessons: dict[str, str] = {}
    for submission in found.submissions:
        lessons[submission.student] = lessons.get(submission.student, "") + (
            submission.lesson[1] if submission.file else "-"
        )
    return [student if had == "1" else f"{student}:{had}" for student, had in lessons.items()]


def looked_for(folder: Path, case: Case) -> FoundSubmissions:
    return find_submissions(
        folder / "class",
        LESSONS,
        folder / "scratch",
        names=parse_name_pattern(case.names) if case.names else None,
        single=case.single,
    )


@pytest.mark.parametrize("case", [*SURE.values(), *DOUBTFUL.values()], ids=[*SURE, *DOUBTFUL])
def test_each_file_is_its_students_or_stands_among_those_that_are_nobodys(case: Case, tmp_path: Path) -> None:
    (tmp_path / "scratch").mkdir()
    lay_out(tmp_path / "class", case.paths)
    found = looked_for(tmp_path, case)
    assert shown(found) == sorted(case.students)
    said = " ".join([*found.doubts, *(account.fate for account in found.open_accounts)])
    assert case.said in said
    assert bool(case.said) == bool(said), said
    assert len(found.accounts) == sum(not path.endswith("/") for path in case.paths)
    for submission in found.submissions:
        if submission.file and submission.superseded:  # what counts is the work, and what is said otherwise is doubted
            assert "raise NotImplementedError" not in submission.file.read_text() or "untouched" in said


@pytest.mark.parametrize("name", [name for name, case in SURE.items() if not case.single])
def test_a_zip_of_the_same_class_is_the_same_class(name: str, tmp_path: Path) -> None:
    case = SURE[name]
    (tmp_path / "scratch").mkdir()
    lay_out(tmp_path / "class", case.paths)
    for wrapper in ("", "wrapped/"):
        raw = io.BytesIO()
        with zipfile.ZipFile(raw, "w", zipfile.ZIP_DEFLATED) as packed:
            for path in sorted((tmp_path / "class").rglob("*")):
                packed.write(path, wrapper + str(path.relative_to(tmp_path / "class")))
        (tmp_path / "class.zip").write_bytes(raw.getvalue())
        if wrapper and (case.names or name.startswith(("one student", "gradescope"))):
            continue
        scratch = tmp_path / "scratch" / (wrapper or "plain")
        scratch.mkdir(parents=True)
        names = parse_name_pattern(case.names) if case.names else None
        assert shown(find_submissions(tmp_path / "class.zip", LESSONS, scratch, names=names)) == sorted(case.students)


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
    ("name", "cells", "lesson"),
    [
        ("homework.ipynb", ["def branch_grads(w, x):\n    return 1"], A),
        ("homework.ipynb", ['check("02-grads-by-name")'], B),
        ("homework.ipynb", ["x = 1"], None),
        (
            "homework.ipynb",
            ["def branch_grads(): 1", 'check("02-grads-by-name")'],
            None,
        ),  # as much of one as of the other
        ("week1.ipynb", ["import torch", "def chain_grads(): 1", "class branch_grads: 1"], A),
    ],
)
def test_a_renamed_notebook_is_known_by_its_functions_and_checks(
    name: str, cells: list[str], lesson: str | None, tmp_path: Path
) -> None:
    (tmp_path / "ada").mkdir()
    (tmp_path / "ada" / name).write_text(notebooks.text(*cells))
    if lesson is None:
        with pytest.raises(NoSubmissions, match="belongs to no known lesson"):
            find_submissions(tmp_path, LESSONS)
    else:
        assert [one.lesson for one in find_submissions(tmp_path, LESSONS).submissions] == [lesson]


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
def test_names_in_the_code_page_of_a_system_are_read(page: str, names: list[str], tmp_path: Path) -> None:
    marks = {f"{number:02}" * 12: name for number, name in enumerate(names)}
    raw = io.BytesIO()
    with zipfile.ZipFile(raw, "w") as packed:
        for mark, name in marks.items():
            packed.writestr(f"{mark[: len(name.encode(page))]}/{FIRST}", notebooks.text(WORK))
    content = raw.getvalue()
    for mark, name in marks.items():
        encoded = name.encode(page)
        content = content.replace(mark[: len(encoded)].encode() + b"/", encoded + b"/")
    (tmp_path / "class.zip").write_bytes(content)
    (tmp_path / "scratch").mkdir()
    found = find_submissions(tmp_path / "class.zip", LESSONS, tmp_path / "scratch")
    assert sorted(one.student for one in found.submissions) == sorted(names)
    assert bool(found.notes) == (page != "utf-8")
    if found.notes:
        assert f"were read as {page}" in found.notes[0]


def test_in_a_class_of_200_in_all_layouts_at_once_every_file_has_an_account(tmp_path: Path) -> None:
    (tmp_path / "scratch").mkdir()
    became = make_mixed_class(tmp_path / "class", A)
    found = find_submissions(tmp_path / "class", [A], tmp_path / "scratch")
    assert len(became) == 200
    assert {one.student: "right" if one.file else "unreadable" for one in found.submissions} == became
    files = [path for path in (tmp_path / "class").rglob("*") if path.is_file()]
    assert len(found.accounts) == len(files) == 206
    assert sum(account.fate == "It counts." for account in found.accounts) == 190
    assert len(found.choices) == 6
    assert found.open_accounts == []
    # What nobody worked in does not count where something else was handed in.
    assert not [one for one in found.submissions if one.file and "NotImplementedError" in one.file.read_text()]
