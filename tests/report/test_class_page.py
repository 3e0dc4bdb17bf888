from __future__ import annotations

import base64
import hashlib
import re

import pytest

from graders.core.results import Batch, Status, SubmissionStatus
from graders.report import class_page, plots
from graders.report.names import file_names
from graders.report.similar import Pair
from graders.report.titles import Titles
from tests.batches import batch, exercise, graded, ungraded
from tests.report.test_class_numbers import CLASS
from tests.report.test_feedback import Page
from tests.test_hostile_text import TRAPS, traps


def source(found: Batch, *similar: Pair) -> str:
    folders = file_names(submission.student for submission in found.submissions)
    return class_page.render(found, Titles({"01_first": "1. The first"}, {"01-a": "Sum"}), folders, similar)


def test_it_says_what_is_not_understood_and_who_needs_help() -> None:
    text = Page(source(CLASS)).text
    for part in (
        "7 students, 4 notebooks of 7 marked",
        "2 of 3 who tried 01-a : Return it.",
        "forgot-return: bob, cy",
        "Sum 01-a 1 3 0 33 %",
        "eve 0 of 3 0 0 0 1",
        "di 01-a not-graded Disk full.",
        "gil 01_first unreadable Empty.",
        "No two answers are so alike",
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


def test_a_thousand_students_in_three_lessons_are_a_few_hundred_kilobytes() -> None:
    statuses = (Status.PASSED, Status.WRONG, Status.NOT_ATTEMPTED, Status.RAISED)
    found = batch(
        *(
            graded(
                f"student {number:04}",
                *(exercise(f"{lesson}-exercise-{k}", statuses[(number + k) % 4]) for k in range(5)),
                lesson=f"{lesson}_some_lesson",
            )
            for number in range(1000)
            for lesson in ("01", "02", "03")
        )
    )
    assert len(source(found)) < 800_000


def test_similar_answers_are_a_hint() -> None:
    text = Page(source(CLASS, Pair("ann", "bob", ("01-a", "01-b"), 0.957))).text
    assert "A hint to look, never a verdict" in text
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
    shown = source(found, Pair(text, "bob", ("01-a",), 1.0))
    page = Page(shown)
    assert page.open == []
    assert len(page.named("script")) == 1  # the page's own
    assert not {tag for tag, _ in page.tags} & {"img", "iframe", "object", "link", "form", "base"}
    assert not [name for _, attributes in page.tags for name in attributes if name.startswith("on")]
    assert all((link["href"] or "").startswith(("#", "feedback/")) for link in page.named("a"))
    assert traps(shown) == set()


def test_shares_are_counted_in_ten_bins_and_all_belongs_to_the_last() -> None:
    assert plots.count_in_bins([0, 0.05, 0.1, 0.3, 0.999, 1.0]) == [2, 1, 0, 1, 0, 0, 0, 0, 0, 2]


def test_a_bar_has_a_segment_for_each_count_that_is_not_zero() -> None:
    svg = str(plots.bars([("<b>", (3, 0, 1, 0))], 'a "label"'))
    assert svg.count("<rect") == 2
    assert "<b>" not in svg
    assert 'aria-label="a &#34;label&#34;"' in svg
