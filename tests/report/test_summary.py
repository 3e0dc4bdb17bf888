from __future__ import annotations

import io
from dataclasses import replace

from graders.core.results import Batch, HandMark, Status, SubmissionStatus
from graders.core.terminal import Terminal
from graders.report import summary
from tests.batches import batch, exercise, graded, ungraded


def printed(found: Batch, width: int = 160, brief: bool = False) -> list[str]:
    """The lines of the summary, without the frame of its table and spaces at their ends."""
    console = Terminal(io.StringIO(), width=width)
    console.print(summary.render(found, brief=brief))
    text = console.file.getvalue()  # type: ignore[attr-defined]
    return [" ".join(line.replace("│", " ").replace("┃", " ").split()) for line in text.split("\n")]


def test_each_student_has_a_row_with_marks_and_points() -> None:
    lines = printed(
        batch(
            graded("ann", exercise("01-a"), exercise("01-b", Status.WRONG, 0.5, 2)),
            graded("ann", exercise("02-a", Status.NOT_ATTEMPTED, 0), lesson="02_second"),
            graded("bob", exercise("01-a"), exercise("01-b", Status.TIMED_OUT, 0, 2)),
        )
    )
    assert "student 01_first 02_second points" in lines
    assert "ann ✓✗ 1.5 · 0 1.5 of 4" in lines
    assert "bob ✓⧗ 1 1 of 3" in lines
    assert "✓ passed ✗ wrong · not-attempted ⧗ timed-out" in lines


def test_every_status_has_a_mark_of_its_own() -> None:
    lines = printed(batch(graded("ann", *(exercise(f"01-{status.value}", status, 0) for status in Status))))
    assert "ann ✓✗·§!⧗▲†?– 0 0 of 10" in lines


LESSONS = [f"{number:02}_lesson" for number in range(1, 13)]


def test_a_course_of_one_student_has_a_row_for_each_lesson() -> None:
    lines = printed(batch(*(graded("ann", exercise(f"{lesson[:2]}-a"), lesson=lesson) for lesson in LESSONS)), 80)
    assert lines[0] == "Points of ann"
    assert "12_lesson ✓ 1 of 1" in lines
    assert "all lessons 12 of 12" in lines
    assert "✓ passed" in lines


def test_a_course_of_a_class_fits_a_terminal_by_its_points() -> None:
    work = [graded(name, exercise(f"{lesson[:2]}-a"), lesson=lesson) for name in ("ann", "bob") for lesson in LESSONS]
    lines = printed(batch(*work[:-1], ungraded("bob", SubmissionStatus.MISSING, "None.", lesson=LESSONS[-1])), 80)
    assert "student 01 02 03 04 05 06 07 08 09 10 11 12 points" in lines
    assert "ann 1 1 1 1 1 1 1 1 1 1 1 1 12 of 12" in lines
    assert not any("✓" in line for line in lines)


def test_what_is_not_passed_is_explained_whole_notebooks_first() -> None:
    lines = printed(
        batch(
            graded(
                "ann",
                exercise("01-a", Status.RAISED, 0, message="It raised."),
                exercise("01-b", Status.WRONG, 0, mistake="forgot-return", message="Return it."),
            ),
            ungraded("bob", SubmissionStatus.UNREADABLE, "The file is empty."),
        )
    )
    start = lines.index("What went wrong")
    assert lines[start + 1 : start + 4] == [
        "bob, 01: unreadable. The file is empty.",
        "ann, 01: 01-a raised. It raised.",
        "ann, 01: 01-b forgot-return. Return it.",
    ]
    assert "bob unreadable 0 of 3" in lines


def test_mistakes_are_counted_over_the_class_the_most_common_first() -> None:
    rare, common = (exercise("01-a", Status.WRONG, 0, mistake=name, message="m") for name in ("rare", "common"))
    lines = printed(batch(graded("ann", rare), graded("bob", common), graded("cy", common)))
    start = lines.index("Recognised mistakes")
    assert lines[start + 1 : start + 3] == ["01-a: common (2 students)", "01-a: rare (1 student)"]


def test_full_marks_need_no_explanation() -> None:
    lines = printed(batch(graded("ann", exercise("01-a"))))
    assert not {"What went wrong", "Recognised mistakes"} & set(lines)
    assert lines[-2] == "1 submission; seed 42 (repeat with --seed 42); torch 2.13.0; isolation D"


def test_what_could_not_be_graded_is_counted_apart() -> None:
    lines = printed(
        batch(
            graded("ann", exercise("01-a", Status.NOT_GRADED, 0, message="Disk full.")),
            ungraded("bob", SubmissionStatus.NOT_GRADED, "No kernel."),
            ungraded("cy", SubmissionStatus.MISSING),
        )
    )
    assert lines[-2] == (
        "3 submissions; seed 42 (repeat with --seed 42); torch 2.13.0; isolation D; "
        "2 submissions not graded, which is not the learners' fault"
    )


def test_a_brief_summary_names_only_what_somebody_should_look_at() -> None:
    found = batch(
        graded("ann", exercise("01-a", Status.WRONG, 0, message="Wrong."), exercise("01-b", Status.SUSPECT, 0)),
        graded("bob", exercise("01-a", Status.NOT_GRADED, 0), status=SubmissionStatus.NOT_GRADED, message="No kernel."),
        ungraded("cy", SubmissionStatus.MISSING, "Nothing."),
    )
    lines = printed(found, brief=True)
    start = lines.index("What somebody should look at")
    assert lines[start + 1 : start + 4] == ["bob, 01: not-graded. No kernel.", "ann, 01: 01-b suspect.", ""]


def test_a_note_is_shown_even_of_what_passed() -> None:
    lines = printed(batch(graded("ann", exercise("01-a", note="Cell 3 counts."), exercise("01-b"))))
    assert "ann, 01: 01-a passed. Cell 3 counts." in lines


def test_names_and_messages_cannot_steer_the_terminal() -> None:
    lines = printed(
        batch(graded("\x1b[2Jann [bold]x[/bold]", exercise("01-a", Status.WRONG, 0, message="[red]\x1b]0;t\x07")))
    )
    text = "\n".join(lines)
    assert "\x1b" not in text
    assert "\ufffd[2Jann [bold]x[/bold], 01: 01-a wrong. [red]\ufffd]0;t\ufffd" in text


def test_an_empty_batch_can_be_printed() -> None:
    assert "0 submissions; torch 2.13.0; isolation –" in printed(batch())


def test_what_leaves_a_whole_class_without_a_grade_is_said_once_and_first() -> None:
    why = "the process for the notebook did not start: open files: too many. Remedy: more."
    nobody = [ungraded(name, SubmissionStatus.NOT_GRADED, why) for name in ("ann", "bob")]
    lines = printed(batch(*nobody))
    assert lines[0] == f"Nothing was graded, all for one reason: {why}"
    assert not any(why in line for line in lines[1:])
    assert not any("ann" in line for line in lines)
    assert printed(batch(*nobody, ungraded("cy", SubmissionStatus.NOT_GRADED, "Another.")))[0] != lines[0]


def test_notebooks_that_took_far_longer_than_others_are_named() -> None:
    taken = {"ann": 3.0, "bob": 4.0, "cy": 61.6, "dan": 5.0, "eve": 25.0}
    found = [replace(graded(name, exercise("01-a")), seconds=seconds) for name, seconds in taken.items()]
    assert "Took longest: cy, 01: 62 s; eve, 01: 25 s (half of all took 5 s or less)" in printed(batch(*found))
    assert not [line for line in printed(batch(*found[:2], found[3])) if "longest" in line]
    assert not [line for line in printed(batch(found[2])) if "longest" in line]


def test_the_modules_that_notebooks_wanted_are_counted_by_students_the_most_wanted_first() -> None:
    wanted = {"ann": ("pandas", "utils"), "bob": ("pandas",), "cy": ()}
    found = [replace(graded(name, exercise("01-a")), missing_modules=names) for name, names in wanted.items()]
    again = replace(graded("ann", exercise("02-a"), lesson="02_second"), missing_modules=("pandas",))
    text = " ".join(printed(batch(*found, again)))
    assert "Not installed here: pandas (2 students), utils (1 student). Lines that need them were left out" in text
    assert "python -m pip install NAME" in text
    many = replace(found[0], missing_modules=tuple(f"m{number:02}" for number in range(11)))
    assert "m07 (1 student) and 3 more." in " ".join(printed(batch(many)))
    assert "Not installed" not in " ".join(printed(batch(found[2])))


def test_a_seed_is_named_only_where_it_repeats_what_is_shown() -> None:
    first, second = graded("ann", exercise("01-a"), seed=5), graded("bob", exercise("01-a"), seed=6)
    assert printed(batch(first))[-2].startswith("1 submission; seed 5 (repeat with --seed 5); torch")
    assert printed(batch(first, second))[-2].startswith("2 submissions; 2 seeds, each page names its own; torch")


def test_points_by_hand_stand_where_a_status_would() -> None:
    given = HandMark(computed=0, points=1.5)
    found = batch(
        replace(ungraded("ann", SubmissionStatus.MISSING), score=1.5, by_hand=given),
        replace(ungraded("bob", SubmissionStatus.UNREADABLE, "Empty."), score=1.5, by_hand=given),
        graded("cy", exercise("01-a", Status.SUSPECT, score=1.5, most=2, by_hand=given), by_hand=given),
    )
    text = "\n".join(printed(found))
    assert text.count("1.5 of ") == 3
    assert not {"missing", "Empty.", "What somebody should look at"} & {*text.split(), *text.splitlines()}
