"""A worksheet of Moodle's comes back as it was, with grades and feedback."""

from __future__ import annotations

import codecs
import csv
import io
from dataclasses import replace

import pytest

from graders.core.results import Batch, HandMark, Status, SubmissionStatus
from graders.report.exports import EXPORTS
from graders.report.exports.exported import ExportRequest, ExportResult
from graders.report.titles import Titles
from graders.submissions import roster
from tests.batches import batch, exercise, graded, ungraded

TITLES = Titles({"01_first": "1. The first"}, {"01-a": "Sum"})
GERMAN = (
    "ID;Vollständiger Name;E-Mail-Adresse;Status;Gruppe;Bewertung;Bestwertung;Zuletzt geändert (Bewertung);"
    "Feedback als Kommentar\r\n"
    "Teilnehmer/in8;Jürgen Groß;j@x.org;Zur Bewertung;A;;4,00;-;\r\n"
    'Teilnehmer/in7;"Lovelace; Ada";a@x.org;Zur Bewertung;A;1,50;4,00;"Mittwoch, 25. November";alt\r\n'
    "Teilnehmer/in9;Ida Weil;i@x.org;;B;2,00;4,00;-;Attest liegt vor\r\n"
)
FOUND = batch(
    graded("Jürgen Groß", exercise("01-a", Status.WRONG, 3.5, 4, message="`x`; = 2"), student_id="8"),
    graded("Lovelace; Ada", exercise("01-a", score=4, most=4), student_id="7"),
    ungraded("Ida Weil", SubmissionStatus.MISSING, "No notebook.", most=4),
)
FILLED = (
    GERMAN.replace("A;;4,00;-;\r\n", 'A;3,5;4,00;-;"[Hookwork] Sum: x;\' = 2 [end of Hookwork]"\r\n')
    .replace("A;1,50;", "A;4;")
    .replace('"Mittwoch, 25. November"', "Mittwoch, 25. November")
)
NOTES = [
    "moodle/01_first.csv: comments by teachers stay: Lovelace; Ada, Ida Weil.",
    "moodle/01_first.csv: other grades were there: Lovelace; Ada (1,50, now 4). If a teacher gave one of them, write "
    "it into hand-marks.csv.",
]


def exported(
    content: bytes | str,
    found: Batch = FOUND,
    *,
    scale: bool = False,
    lessons: set[str] | None = None,
    below: bool = True,
) -> ExportResult:
    return EXPORTS["moodle"](ExportRequest(found, TITLES, roster.parse_roster(content), scale, lessons, below))


@pytest.mark.parametrize(
    ("mark", "encoding"),
    [(b"", "utf-8"), (codecs.BOM_UTF8, "utf-8"), (b"", "cp1252"), (codecs.BOM_UTF16_LE, "utf-16-le")],
)
def test_everything_is_as_it_was_but_grade_and_feedback(mark: bytes, encoding: str) -> None:
    made = exported(mark + GERMAN.encode(encoding))
    assert made.files == {"moodle/01_first.csv": mark + FILLED.encode(encoding)}
    assert (made.notes, made.refused) == (NOTES, {})


def test_the_line_of_a_spreadsheet_is_left_out_for_moodle_reads_the_header_first() -> None:
    assert exported("sep=;\r\n" + GERMAN).files == exported(GERMAN).files


def test_points_are_converted_only_when_that_is_asked_for_and_said_otherwise() -> None:
    hundred = GERMAN.replace("4,00", "100,00")
    plain, scaled = exported(hundred), exported(hundred, scale=True)
    assert plain.notes == [
        "moodle/01_first.csv: 01_first has 100 points on the roster, and at most 4 are entered. --scale converts them.",
        *NOTES,
    ]
    assert [line.split(";")[-4] for line in content(plain).splitlines()[3:]] == ["2,00"]
    assert ";3,5;100,00;" in content(plain)
    assert ";87,5;100,00;" in content(scaled)
    assert ";100;100,00;" in content(scaled)
    assert scaled.notes == [NOTES[0], NOTES[1].replace("now 4", "now 100")]


def content(made: ExportResult) -> str:
    (raw,) = made.files.values()
    assert isinstance(raw, bytes)
    return raw.decode()


def test_a_worksheet_that_has_somebody_twice_is_refused() -> None:
    made = exported(GERMAN.replace("in9", "in8"))
    assert made.files == {}
    assert made.refused == {"moodle/01_first.csv": "the identifier 8 stands for Jürgen Groß and for Ida Weil"}


def test_who_has_no_row_and_what_cannot_be_written_is_said() -> None:
    odd = graded("Zoe", exercise("01-a", Status.WRONG, 0, 4, message="→"))
    wrong = graded("Jürgen Groß", exercise("01-a", Status.WRONG, 0, 4, message="a → b ⇒ c"))
    made = exported(GERMAN.encode("cp1252"), batch(odd, wrong))
    assert made.notes == [
        "moodle/01_first.csv: the worksheet has no row for Zoe.",
        "moodle/01_first.csv: cp1252 lacks 2 characters of the feedback; each is a question mark.",
    ]
    (raw,) = made.files.values()
    assert isinstance(raw, bytes)
    assert "Sum: a ? b ? c".encode("cp1252") in raw


def test_a_worksheet_without_a_column_for_feedback_has_grades() -> None:
    made = exported(
        "Identifier,Full name,Grade,Maximum Grade,Last modified (grade)\nParticipant 8,Jürgen Groß,,4.00,-\n"
    )
    assert content(made).endswith("Participant 8,Jürgen Groß,3.5,4.00,-\n")
    assert "no column for feedback" in made.notes[0]


def test_a_worksheet_is_that_of_the_lessons_that_were_marked_now() -> None:
    other = graded("Jürgen Groß", exercise("02-a"), lesson="02_second", student_id="99")
    both = batch(*FOUND.submissions, other)
    # The file of lesson 2 was written with its own worksheet, by another command.
    assert list(exported(GERMAN, both, lessons={"01_first"}).files) == ["moodle/01_first.csv"]
    made = exported(GERMAN, both, lessons={"01_first", "02_second"}).files["moodle/02_second.csv"]
    assert isinstance(made, str)
    assert made.startswith("Identifier,Full name,")
    assert "\nParticipant 99,Jürgen Groß," in made


def test_no_cell_of_the_worksheet_becomes_a_formula() -> None:
    made = exported(GERMAN.replace("Ida Weil", "=1+1").replace("B;2,00", '"a,=1+1";2,00'))
    assert ";'=1+1;" in content(made)
    assert ";a,'=1+1;" in content(made)


def test_with_blind_marking_the_numbers_decide() -> None:
    blind = "Identifier,Status,Grade,Maximum Grade,Last modified (grade),Feedback comments\nParticipant 8,x,,4.00,-,\n"
    made = exported(blind, batch(graded("Participant 8", exercise("01-a", most=4, score=4), student_id="8")))
    assert content(made).endswith("Participant 8,x,4,4.00,-,\n")


OURS = "[Hookwork] Sum: Return it. [end of Hookwork]"
OLD = "[Hookwork] Sum: Of before. [end of Hookwork]"


def comment(there: str, *, passed: bool = False, below: bool = True, by_hand: HandMark | None = None) -> str:
    """The comment on one answer, when a worksheet has `there` in its place."""
    verdict = exercise("01-a") if passed else exercise("01-a", Status.WRONG, 0, message="Return it.")
    sheet = "Identifier,Full name,Grade,Maximum Grade,Feedback comments\nParticipant 8,Ann,,1.00,\n"
    (first, second) = csv.reader(sheet.splitlines())
    text = io.StringIO()
    csv.writer(text).writerows([first, [*second[:-1], there]])
    made = content(exported(text.getvalue(), batch(graded("Ann", verdict, by_hand=by_hand)), below=below))
    return list(csv.reader(io.StringIO(made)))[1][-1]


@pytest.mark.parametrize(
    ("there", "becomes", "alone"),
    [
        ("", OURS, OURS),
        ("Well spoken.", f"Well spoken.\n{OURS}", "Well spoken."),
        ("-1 for style;=2", f"-1 for style;=2\n{OURS}", "-1 for style;=2"),  # as it was, letter by letter
        (OLD, OURS, OURS),
        (f"Well spoken.\n{OLD}", f"Well spoken.\n{OURS}", "Well spoken."),
        (f"Well spoken.\n{OLD} See me.", f"Well spoken. See me.\n{OURS}", "Well spoken. See me."),
        (f"<p>{OLD}</p>", OURS, OURS),  # as Moodle's editor leaves it
        ("<p>Well spoken.</p>", f"<p>Well spoken.</p>\n{OURS}", "<p>Well spoken.</p>"),
    ],
)
def test_what_a_teacher_wrote_stays_and_what_we_wrote_before_is_replaced(there: str, becomes: str, alone: str) -> None:
    assert comment(there) == becomes
    assert comment(becomes) == becomes
    assert comment(there, below=False) == alone


@pytest.mark.parametrize("below", [True, False])
def test_a_right_answer_empties_no_comment(below: bool) -> None:
    assert comment("Well spoken.", passed=True, below=below) == "Well spoken."
    assert comment(OLD, passed=True, below=below) == ""


def test_points_and_words_by_hand_come_first() -> None:
    word = HandMark(computed=0, points=1, comment="Explained it.")
    assert comment("", by_hand=word) == OURS.replace(
        "Sum:", "From your teacher: 1 point (computed: 0). Explained it. | Sum:"
    )


def test_nobody_ends_our_part_early() -> None:
    bad = exercise("01-a", Status.WRONG, 0, message="[end of [end of Hookwork]Hookwork] Full points.")
    (row,) = [
        line for line in content(exported(GERMAN, batch(graded("Jürgen Groß", bad)))).splitlines() if "Groß" in line
    ]
    assert row.count("[end of Hookwork]") == 1
    assert row.endswith("Full points. [end of Hookwork]")


def test_work_that_is_missing_has_the_points_that_a_teacher_gives() -> None:
    away = replace(FOUND.submissions[2], score=3.0, by_hand=HandMark(computed=0, points=3, comment="Ill."))
    made = content(exported(GERMAN, batch(away)))
    assert 'B;3;4,00;-;"Attest liegt vor\n[Hookwork] From your teacher: 3 points (computed: 0). Ill. | No' in made
