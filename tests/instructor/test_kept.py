from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from graders.core.file_notes import FileNotes
from graders.core.results import Batch, Status, SubmissionResult, SubmissionStatus
from graders.instructor.kept import join_results, under_roster_names
from graders.instructor.naming import did_you_mean
from graders.report import outputs
from graders.report.titles import Titles
from graders.submissions.roster import Person, Roster
from tests.batches import batch, exercise, graded, ungraded

PASSED, WRONG = exercise("01-a"), exercise("01-a", Status.WRONG, 0)
MISSING = SubmissionStatus.MISSING


def scores(found: Batch) -> dict[tuple[str, str], float | str]:
    """The score or status by student and number of the lesson."""
    return {
        (one.student, one.lesson[:2]): one.score if one.status is SubmissionStatus.GRADED else one.status.value
        for one in found.submissions
    }


def elsewhere(result: SubmissionResult) -> SubmissionResult:
    """The result of another file in another folder."""
    return replace(result, sha256="b" * 64, file=f"B/{result.student}/{result.lesson}.ipynb")


def test_only_another_file_takes_the_place_of_a_mark() -> None:
    before = batch(graded("ann", PASSED), graded("bob", PASSED), graded("cy", PASSED), ungraded("di", MISSING))
    again = replace(graded("bob", WRONG), sha256="b" * 64)
    failed = replace(graded("cy"), status=SubmissionStatus.NOT_GRADED, message="The disk is full.")
    new = batch(ungraded("ann", MISSING), again, failed, graded("di", PASSED), graded("eve", PASSED))
    joined = join_results(before, new)
    assert scores(joined.batch) == {(name, "01"): 1 - (name == "bob") for name in ("ann", "bob", "cy", "di", "eve")}
    assert joined.kept == [
        "01_first: kept from before, as DIR has nothing of theirs: ann.",
        "Has somebody left? --forget NAME takes them out.",
    ]
    assert joined.notes == ["Not marked again, so the earlier mark stays: cy, 01. The disk is full."]
    assert joined.doubts == []


def test_a_file_from_elsewhere_that_takes_the_place_of_a_mark_is_said() -> None:
    joined = join_results(batch(graded("Kim Lee", PASSED)), batch(elsewhere(graded("Kim Lee", WRONG))))
    assert joined.kept == ["Another file than before counts now: Kim Lee, 01."]
    assert scores(joined.batch) == {("Kim Lee", "01"): 0}


def test_namesakes_with_other_numbers_stay_two_people() -> None:
    first = graded("Kim Lee", PASSED, student_id="101")
    second = elsewhere(graded("Kim Lee", WRONG, student_id="202"))
    both = {("Kim Lee", "01"): 1, ("Kim Lee (202)", "01"): 0}
    joined = join_results(batch(first), batch(second))
    assert scores(joined.batch) == both
    later = batch(replace(second, lesson="02_second"))
    found = join_results(joined.batch, later).batch
    assert scores(found) == both | {("Kim Lee (202)", "02"): 0}
    assert scores(join_results(found, batch(first)).batch) == scores(found)
    # Whom the roster lists is one person, whichever number a platform gives.
    assert scores(join_results(batch(first), batch(second), (), Roster([Person("Kim Lee")])).batch) == {
        ("Kim Lee", "01"): 0
    }


def test_results_of_earlier_versions_get_the_seed_of_their_batch() -> None:
    before = replace(batch(graded("ann", PASSED), ungraded("bob", MISSING)), seed=7)
    found = join_results(before, replace(batch(graded("cy", PASSED, seed=8)), seed=8)).batch
    assert (found.seed, [one.seed for one in found.submissions]) == (8, [7, None, 8])


@pytest.mark.parametrize(
    ("person", "name"),
    [
        (Person("Lovelace, Ada", ids=("101",)), "Lovelace, Ada"),
        (Person("Turing, Alan", ids=("101",)), "Turing, Alan"),  # a number of the same platform
        (Person("Turing, Alan", ids=("101",), participant="101"), "ada lovelace"),  # Moodle's in another assignment
    ],
)
def test_earlier_results_get_the_names_of_the_roster(person: Person, name: str) -> None:
    before = batch(graded("ada lovelace", PASSED, student_id="101"))
    assert scores(under_roster_names(before, Roster([person]))) == {(name, "01"): 1}


def test_nobody_gets_the_mark_of_another_who_may_be_the_same_person() -> None:
    ada = Roster([Person("Lovelace, Ada")])
    two = batch(graded("Ada Lovelace", PASSED), graded("adalovelace", WRONG))
    assert scores(under_roster_names(two, ada)) == {("Ada Lovelace", "01"): 1, ("adalovelace", "01"): 0}
    marked = batch(graded("Ada Lovelace", PASSED), graded("Lovelace, Ada", WRONG))
    assert scores(under_roster_names(marked, ada)) == {("Ada Lovelace", "01"): 1, ("Lovelace, Ada", "01"): 0}
    missing = batch(graded("Ada Lovelace", PASSED), ungraded("Lovelace, Ada", MISSING))
    assert scores(under_roster_names(missing, ada)) == {("Lovelace, Ada", "01"): 1}


def test_pages_of_people_who_have_another_folder_now_are_not_left_there(tmp_path: Path) -> None:
    first, titles, file_notes = batch(graded("a b", PASSED)), Titles({}, {}), FileNotes()
    outputs.write_pages(first, tmp_path, titles, file_notes)
    (tmp_path / "feedback" / "a_b" / "mine.txt").write_text("mine")
    both = batch(*first.submissions, graded("a_b", PASSED, lesson="02_second"))
    outputs.write_pages(both, tmp_path, titles, file_notes)
    outputs.remove_old_pages(first, both, tmp_path, file_notes)
    assert {str(file.relative_to(tmp_path / "feedback")) for file in tmp_path.glob("feedback/*/*")} == {
        "a_b-2/01_first.html", "a_b/02_second.html", "a_b/mine.txt"
    }  # fmt: skip
    (tmp_path / "feedback" / "a_b-2").rename(tmp_path / "elsewhere")
    (tmp_path / "feedback" / "a_b-2").symlink_to(tmp_path / "elsewhere")
    outputs.remove_old_pages(both, batch(), tmp_path, file_notes)
    assert (tmp_path / "elsewhere" / "01_first.html").exists()
    assert not (tmp_path / "feedback" / "a_b" / "02_second.html").exists()


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("Ada Lovelace", "Did you mean Lovelace, Ada?"),
        ("Lovelase, Ada", "Did you mean Lovelace, Ada?"),
        ("an", "Did you mean Turing, Alan or Zoe Mann?"),
        ("xyz", ""),
        ("", ""),
    ],
)
def test_a_name_that_is_almost_right_is_suggested(name: str, said: str) -> None:
    assert did_you_mean(name, ["Lovelace, Ada", "Turing, Alan", "Zoe Mann"]) == said
