from __future__ import annotations

import base64
import hashlib
import json
import re
from typing import Any

import pytest

from graders.core.results import Batch, Status, SubmissionStatus
from graders.core.text import clean_text
from graders.report import class_page, plots
from graders.report.names import file_names
from graders.report.similar import SimilarPair
from graders.report.titles import Titles
from tests.batches import at_random, batch, exercise, graded, ungraded
from tests.report.test_class_numbers import CLASS
from tests.report.test_feedback import Page
from tests.test_hostile_text import TRAPS, traps


def source(found: Batch, *similar: SimilarPair) -> str:
    folders = file_names(submission.student for submission in found.submissions)
    return class_page.render(found, Titles({"01_first": "1. The first"}, {"01-a": "Sum"}), folders, similar)


def test_it_says_what_is_not_understood_and_who_needs_help() -> None:
    text = Page(source(CLASS)).text
    for part in (
        "7 students, 4 of 6 notebooks marked, 1 missing",
        "2 of 3 who tried 01-a : Return it.",
        "forgot-return: bob, cy",
        "Sum 01-a 1 3 0 33 %",
        "eve 0 of 3 0 0 0 1",
        "di 01-a not-graded Disk full.",
        "gil 01_first unreadable Empty.",
        "No two answers are similar enough",
    ):
        assert part in text, part


def test_the_packages_that_notebooks_wanted_are_counted() -> None:
    work = [graded(name, exercise("01-a"), missing_modules=("pandas",)) for name in ("ann", "bob")]
    text = Page(source(batch(*work))).text
    assert "Packages that are not installed" in text
    assert "pandas : 2 students" in text
    assert "Packages that are not installed" not in Page(source(CLASS)).text


def test_the_matrix_has_a_row_for_each_student_and_leads_to_the_pages() -> None:
    page = Page(source(CLASS))
    assert [link["href"] for link in page.named("a")][1:3] == [
        "feedback/ann/01_first.html", "feedback/bob/01_first.html",
    ]  # fmt: skip
    link = '<td class="points lesson"><a href="feedback/ann/01_first.html">2 of 2</a></td>'
    cells = '<td class="passed">✓</td><td class="passed">✓</td>'
    assert f'<tr><th scope="row">ann</th><td class="points">2 of 2</td>{link}{cells}</tr>' in source(CLASS)
    assert "eve 0 of 3 missing" in page.text


def test_nothing_but_its_own_script_may_run() -> None:
    shown = source(CLASS)
    (script,) = re.findall("<script>(.*?)</script>", shown, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'\">" in shown


def rows(page: str) -> dict[str, Any]:
    (data,) = re.findall('<script type="application/json" id="rows">(.*?)</script>', page)
    found: dict[str, Any] = json.loads(data)
    return found


def test_the_script_has_the_rows_of_the_table() -> None:
    data = rows(source(CLASS))
    assert (data["size"], data["files"]) == (100, ["01_first.html"])
    shown = [(*row[:3], data["views"][row[3]]) for row in data["rows"]]
    assert shown == [
        ("ann", "ann", "2 of 2", "00 2 of 2"),
        ("bob", "bob", "0 of 2", "12 0 of 2"),
        ("cy", "cy", "0 of 2", "14 0 of 2"),
        ("di", "di", "0 of 2", "98 0 of 2"),
        ("eve", "eve", "0 of 3", "bb missing"),
        ("fay", "fay", "0 of 3", "bb not graded"),
        ("gil", "gil", "0 of 3", "bb unreadable"),
    ]
    assert data["signs"] == [
        ["✓", "passed"], ["✗", "wrong"], ["·", "not-attempted"], ["§", "syntax-error"], ["!", "raised"],
        ["∞", "timed-out"], ["▲", "over-limit"], ["†", "crashed"], ["?", "suspect"], ["–", "not-graded"],
        ["◐", "wrong"], ["", ""],
    ]  # fmt: skip


def test_ten_thousand_students_in_three_lessons_are_less_than_two_megabytes() -> None:
    lessons = ("01_some_lesson", "02_some_lesson", "03_some_lesson")
    shown = source(at_random(10_000, {lesson: [f"{lesson[:2]}-exercise-{k}" for k in range(5)] for lesson in lessons}))
    assert len(shown.encode()) < 2_000_000
    assert len(rows(shown)["rows"]) == 10_000
    page = Page(shown)
    assert "These are the first 25 students; 9975 more are in gradebook.csv ." in page.text
    assert "student 00024" in page.text
    assert "student 00025" not in page.text


def test_what_could_not_be_graded_is_listed_up_to_a_limit() -> None:
    found = [
        graded(f"student {number:03}", exercise("01-a", Status.SUSPECT, 0), missing_modules=(f"module{number}",))
        for number in range(203)
    ]
    text = Page(source(batch(*found))).text
    assert "And 3 more, in results.json ." in text
    assert "And 153 more, in results.json ." in text


def test_similar_answers_are_a_hint() -> None:
    text = Page(source(CLASS, SimilarPair("ann", "bob", ("01-a", "01-b"), 0.957))).text
    assert "A hint to take a look, never a verdict" in text
    assert "ann and bob 01-a 01-b 96 %" in text


def test_the_page_can_be_read_without_seeing_it() -> None:
    page = Page(source(CLASS))
    assert page.open == []
    assert all(svg.get("aria-label") for svg in page.named("svg"))
    assert len(page.named("caption")) == len(page.named("table"))
    assert all(region.get("aria-label") for _, region in page.tags if region.get("tabindex"))


@pytest.mark.parametrize("found", [batch(), batch(ungraded("ann", SubmissionStatus.MISSING)), batch(graded("ann"))])
def test_a_class_with_nothing_in_it_has_a_page(found: Batch) -> None:
    assert Page(source(found)).open == []


@pytest.mark.parametrize("trap", TRAPS, ids=lambda name: name.replace(" ", "-"))
def test_nothing_that_a_student_wrote_is_alive_on_the_page(trap: str) -> None:
    text = TRAPS[trap] + "\"'><img src=x onerror=alert(1)></style><script>alert(1)</script>"
    found = batch(
        graded(text, exercise("01-a", Status.SUSPECT, 0, message=text), message=text, missing_modules=(text,)),
        graded("bob", exercise("01-a", Status.WRONG, 0, mistake="m", message=text)),
        ungraded(text + "2", SubmissionStatus.UNREADABLE, text),
    )
    shown = source(found, SimilarPair(found.submissions[0].student, "bob", ("01-a",), 1.0))
    page = Page(shown)
    assert page.open == []
    assert len(page.named("script")) == 2  # the rows, and the page's own
    assert {row[0] for row in rows(shown)["rows"]} == {clean_text(text, 60), clean_text(text + "2", 60), "bob"}
    assert not {tag for tag, _ in page.tags} & {"img", "iframe", "object", "link", "form", "base"}
    assert not [name for _, attributes in page.tags for name in attributes if name.startswith("on")]
    assert all((link["href"] or "").startswith(("#", "feedback/")) for link in page.named("a"))
    assert traps(shown) == set()


def test_shares_are_counted_in_ten_bins_and_all_belongs_to_the_last() -> None:
    assert plots.count_in_bins([0, 0.05, 0.1, 0.3, 0.999, 1.0]) == [2, 1, 0, 1, 0, 0, 0, 0, 0, 2]


def test_a_bar_has_a_segment_for_each_count_that_is_not_zero() -> None:
    svg = str(plots.bar_chart([("<b>", (3, 0, 1, 0))], 'a "label"'))
    assert svg.count("<rect") == 2
    assert "<b>" not in svg
    assert 'aria-label="a &#34;label&#34;"' in svg
