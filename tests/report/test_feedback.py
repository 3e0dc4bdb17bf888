from __future__ import annotations

import itertools
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from graders.core.difference import Difference, Kind, Timelines
from graders.core.results import CheckResult, ExerciseResult, HandMark, Status, SubmissionStatus
from graders.report import class_page, feedback
from graders.report.titles import Titles
from tests.batches import batch, exercise, graded, ungraded
from tests.test_hostile_text import TRAPS, traps

TITLES = Titles({"01_first": "1. The first"}, {"01-a": "Sum `x`", "01-b": "Order"})


class Page(HTMLParser):
    """A page, read: its tags with their attributes, and its visible text."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.words: list[str] = []
        self.feed(source)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "br", "input"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] not in ("style", "script"):
            self.words += data.split()

    @property
    def text(self) -> str:
        return " ".join(self.words)

    def named(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


def page(*exercises: ExerciseResult, student: str = "ann", **parts: object) -> Page:
    submission = graded(student, *exercises, **parts)  # type: ignore[arg-type]
    return Page(feedback.render(submission, batch(submission), TITLES))


def failed(difference: Difference, name: str = "the sum is right") -> CheckResult:
    return CheckResult(name=name, passed=False, score=0, max_score=1, message=difference.text, difference=difference)


def wrong(message: str, difference: Difference, **parts: object) -> ExerciseResult:
    """A wrong answer with one check that does not hold and one that does."""
    checks = (failed(difference), CheckResult(name="no hook is left", passed=True, score=0, max_score=1))
    return ExerciseResult(
        key="01-a", status=Status.WRONG, score=0, max_score=2, message=message, checks=checks, **parts
    )  # type: ignore[arg-type]


def test_verdict_points_mistake_numbers_and_place_are_there() -> None:
    found = page(
        wrong(
            "Return the new value.",
            Difference(Kind.VALUE, "x.grad", "[1]", "6", "2", "all entries differ"),
            mistake="forgot-return",
            cell=4,
        )
    )
    for part in (
        "1. The first", "ann", "0 of 2 points", "✗ Not yet right", "01-a", "Your answer: code cell 4 of the notebook",
        "Return the new value.", "✗ does not hold: the sum is right (0 of 1)",
        "where expected yours x.grad, entry [1] 6 2", "all entries differ",
        "✓ holds: no hook is left (0 of 1) The first check is the task itself. The others earn their points",
        'hint("01-a")', "Marked 2026-01-02 03:04 UTC, from the file 01_first.ipynb", "hookwork check 1 --seed 42",
    ):  # fmt: skip
        assert part in found.text, part


def test_a_message_that_only_repeats_a_check_is_said_once() -> None:
    found = page(wrong("the result: expected 6, saw 2", Difference(Kind.VALUE, "the result", "", "6", "2")))
    assert "the result: expected" not in found.text
    assert "the result 6 2" in found.text


def test_what_the_answer_printed_is_shown() -> None:
    shown = page(exercise("01-a", Status.WRONG, 0, printed="<b>w</b>\n  2\u202e"))
    assert "Your function printed <b>w</b> 2\ufffd" in shown.text
    assert "printed" not in page(exercise("01-a")).text


def test_a_program_stands_below_the_verdict_as_it_is() -> None:
    program = "if w:\n    print(w)  # yours: </pre><b>w</b>\u202e"
    wrong = exercise("01-a", Status.WRONG, 0, message="Return it.", mistake="m", program=program + "\n")
    submission = graded("ann", wrong)
    found = Page(source := feedback.render(submission, batch(submission), TITLES))
    assert "Return it. Run this below your answer to see it: if w: print(w) # yours: </pre><b>w</b>\ufffd" in found.text
    shown = "if w:\n    print(w)  # yours: &lt;/pre&gt;&lt;b&gt;w&lt;/b&gt;\ufffd"
    assert f'<pre class="keep">{shown}</pre>' in source
    assert "Run this" not in page(exercise("01-a")).text
    assert "print(w)" not in class_page.render(batch(submission), TITLES, {"ann": "ann"})


def test_timelines_stand_side_by_side_with_the_first_difference() -> None:
    found = page(wrong("", Difference(Kind.ORDER, "log", timelines=Timelines(("a", "b", "c"), ("a", "c"), 2))))
    assert (
        "log: the lists differ from entry 4 on: expected b, saw c Both lists, from top to bottom expected "
        "yours (2 equal) a a → first difference b c c (end)" in found.text
    )
    assert [row.get("class") for row in found.named("tr")].count("first") == 1


def test_results_of_an_earlier_version_show_their_text() -> None:
    check = CheckResult(name="in order", passed=False, score=0, max_score=1, message="x: expected 1, saw 2\n→ and more")
    found = page(
        ExerciseResult(
            key="01-a", status=Status.WRONG, score=0, max_score=1, mistake="m", message="Why.", checks=(check,)
        )
    )
    assert "✗ does not hold: in order (0 of 1) x: expected 1, saw 2 → and more" in found.text


def test_what_was_not_judged_shows_its_reason_and_no_checks() -> None:
    found = page(exercise("01-a", Status.TIMED_OUT, 0, message="`f` did not finish: 5 s."))
    assert "∞ Did not come to an end" in found.text
    assert "f did not finish: 5 s." in found.text
    assert "What was checked" not in found.text


@pytest.mark.parametrize(
    ("status", "says"),
    [
        (SubmissionStatus.UNREADABLE, "could not be read as a notebook"),
        (SubmissionStatus.MISSING, "No notebook was handed in for this lesson."),
        (SubmissionStatus.NOT_GRADED, "not your fault, and it does not count as zero"),
    ],
)
def test_a_submission_without_results_says_why(status: SubmissionStatus, says: str) -> None:
    submission = ungraded("ann", status, "Because.")
    text = Page(feedback.render(submission, batch(submission), TITLES)).text
    assert says in text
    assert "Because." in text
    assert "of 3 points" not in text


def test_late_work_says_what_it_costs_and_which_files_did_not_count() -> None:
    note = "Handed in at 2026-01-03 00:00 UTC; the deadline was 2026-01-02 00:00 UTC. Late work loses 10 %."
    late = {"late_note": note, "penalty": 0.2, "superseded": ("class/ann/old.ipynb",)}
    found = page(exercise("01-a"), **late)
    assert f"{note} So 0.2 of the 1.2 points reached are taken off." in found.text
    assert "kept, but not counted: old.ipynb" in found.text


def test_a_teachers_word_stands_beside_what_was_computed() -> None:
    word = HandMark(computed=1, points=2, comment="Said `one`\nand <b>two</b>.")
    submission = graded("ann", exercise("01-a", score=2, by_hand=word), by_hand=HandMark(computed=1))
    source = feedback.render(submission, batch(submission), TITLES)
    assert "2 of 1 points" in (text := Page(source).text)
    assert "Computed: 1. Your teacher changed the points of an exercise below." in text
    assert "2 points (computed: 1). Said <code>one</code>\nand &lt;b&gt;two&lt;/b&gt;.</p>" in source
    assert "From your teacher" not in page(exercise("01-a")).text


def test_lateness_is_told_from_what_was_computed_and_a_teacher_has_the_last_word() -> None:
    late = page(exercise("01-a"), penalty=0.5, late_note="Late.", by_hand=HandMark(computed=0.5, points=1)).text
    assert "Late. So 0.5 of the 1 points reached are taken off." in late
    assert "From your teacher: 1 point (computed: 0.5)." in late
    assert "Your teacher changed" not in late


def test_missing_work_with_points_by_hand_shows_them() -> None:
    missing = replace(ungraded("ann", SubmissionStatus.MISSING), score=2.0, by_hand=HandMark(computed=0, points=2))
    text = Page(feedback.render(missing, batch(missing), TITLES)).text
    assert "2 of 3 points From your teacher: 2 points (computed: 0)." in text
    assert "No notebook was handed in" not in text


def test_packages_that_were_not_installed_are_named() -> None:
    text = page(exercise("01-a"), missing_modules=("pandas", "seaborn")).text
    assert "Not installed where this was marked: pandas , seaborn ." in text
    assert "Not installed" not in page(exercise("01-a")).text


def test_an_answer_that_python_could_not_read_is_not_called_unattempted() -> None:
    why = "`one` was not defined, because code cell 3 failed with SyntaxError: invalid syntax."
    found = page(exercise("01-a", Status.NOT_ATTEMPTED, 0, message=why, defined=False))
    assert "Not defined" in found.text
    assert "Not attempted" not in found.text


def test_which_cell_counts_is_said_whatever_the_verdict() -> None:
    for status in (Status.PASSED, Status.NOT_ATTEMPTED):
        assert (
            "Cell 3 counts, and f is a copy."
            in page(exercise("01-a", status, note="Cell 3 counts, and `f` is a copy.")).text
        )


def test_where_nothing_ran_no_seed_is_named() -> None:
    submission = ungraded("ann", SubmissionStatus.UNREADABLE, "Because.")
    assert "seed" not in Page(feedback.render(submission, batch(submission), TITLES)).text


def test_the_page_can_be_read_without_seeing_it() -> None:
    found = page(wrong("m", Difference(Kind.VALUE, "x", "", "1", "2")), exercise("01-b", Status.NOT_ATTEMPTED, 0))
    assert found.open == []
    assert found.named("html") == [{"lang": "en"}]
    headings = [int(tag[1]) for tag, _ in found.tags if tag in ("h1", "h2", "h3")]
    assert headings[0] == 1
    assert all(after - before <= 1 for before, after in itertools.pairwise(headings))
    assert len(found.named("caption")) == len(found.named("table"))
    assert all(cell.get("scope") in ("row", "col") for cell in found.named("th"))
    ids = [attributes["id"] for _, attributes in found.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    assert {link["href"] for link in found.named("a")} <= {f"#{name}" for name in ids}


@pytest.mark.parametrize("trap", TRAPS, ids=lambda name: name.replace(" ", "-"))
def test_nothing_that_a_student_wrote_is_alive_on_the_page(trap: str) -> None:
    text = TRAPS[trap] + "\"'><img src=x onerror=alert(1)></style></code><svg onload=alert(1)>{{ 7*7 }}{% raw %}`x`"
    submission = graded(
        text,
        wrong(text, Difference(Kind.VALUE, text, text, text, text, text), mistake="m"),
        ExerciseResult(
            key="01-b",
            status=Status.WRONG,
            score=0,
            max_score=1,
            message=text,
            checks=(
                failed(Difference(Kind.ORDER, text, timelines=Timelines((text, "a"), ("a", text))), name=text),
                failed(Difference(Kind.CONDITION, note=text)),
                CheckResult(name=text, passed=False, score=0, max_score=1, message=f"{text}\n{text}"),
            ),
        ),
        exercise("01-c", Status.RAISED, 0, message=text),
        message=text,
        superseded=(text,),
        missing_modules=(text,),
    )
    source = feedback.render(submission, batch(submission), TITLES)
    found = Page(source)
    assert found.open == []
    assert not {tag for tag, _ in found.tags} & {"script", "img", "svg", "iframe", "object", "link", "form", "base"}
    assert not [name for _, attributes in found.tags for name in attributes if name.startswith("on")]
    assert not [attributes for _, attributes in found.tags if "style" in attributes]
    assert all((link["href"] or "").startswith("#") for link in found.named("a"))
    assert "{{ 7*7 }}" in source or len(TRAPS[trap]) > 100
    assert traps(source) == set()
