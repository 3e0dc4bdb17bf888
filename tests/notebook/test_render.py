from __future__ import annotations

import re

import pytest

from graders.core.results import CheckResult, ExerciseResult, Status
from graders.notebook import render
from graders.notebook.render import Panel, code
from tests.sample import TestScaleSum as SCALE_SUM
from tests.sample import TestWrap as WRAP


def found(status: Status, message: str = "", *checks: CheckResult, mistake: str | None = None) -> Panel:
    """The panel of a result worth 1 of 3 points."""
    return render.result(SCALE_SUM, ExerciseResult("90-scale-sum", status, 1, 3, mistake, message, checks))


def text_of(html: str) -> str:
    """What a person reads on a page."""
    words = re.sub(r"<[^>]*>", " ", html).replace("&quot;", '"').replace("&#x27;", "'")
    return " ".join(words.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&").split())


@pytest.mark.parametrize(
    ("status", "headline"),
    [
        (Status.PASSED, "✓ Passed: Scale, then add up (1 of 3 points)"),
        (Status.WRONG, "✗ Not yet right: Scale, then add up (1 of 3 points)"),
        (Status.NOT_ATTEMPTED, "· Not attempted yet: Scale, then add up (1 of 3 points)"),
        (Status.RAISED, "! An exception was raised: Scale, then add up (1 of 3 points)"),
        (Status.TIMED_OUT, "! timed-out: Scale, then add up (1 of 3 points)"),
        (Status.OVER_LIMIT, "! over-limit: Scale, then add up (1 of 3 points)"),
    ],
)
def test_the_headline_says_in_words_what_the_colour_says(status: Status, headline: str) -> None:
    assert found(status).text.split("\n")[0] == headline
    assert "role='status'" in found(status).html


def test_both_forms_say_the_same() -> None:
    checks = (CheckResult("it holds", True, 1, 1), CheckResult("it does not", False, 0, 1, "a: expected 1, saw 2\n→ x"))
    panel = found(Status.WRONG, "Return it.", *checks, mistake="forgot-return")
    shown = text_of(panel.html)
    for part in ("Return it.", "it holds", "it does not", "a: expected 1, saw 2", "→ x", 'hint("90-scale-sum")'):
        assert part in shown
        assert part in panel.text
    assert panel._repr_mimebundle_() == {"text/plain": panel.text, "text/html": panel.html}


def test_a_message_that_only_repeats_a_check_is_left_out() -> None:
    check = CheckResult("the sum is right", False, 0, 1, "total: expected 1, saw 2")
    assert found(Status.WRONG, "total: expected 1, saw 2", check).text.count("total: expected 1, saw 2") == 1


def test_checks_that_were_not_judged_are_not_listed() -> None:
    panel = found(Status.RAISED, "It raised.", CheckResult("the sum is right", False, 0, 1, "not judged"))
    assert "not judged" not in panel.text + panel.html


def test_html_of_a_learner_is_never_live() -> None:
    bad = "<script>alert(1)</script>`<img src=x onerror=y>`'\""
    checks = (CheckResult("it holds", False, 0, 1, f"{bad}\n{bad}"),)
    html = found(Status.WRONG, bad, *checks, mistake="m").html + found(Status.RAISED, bad).html + render.note(bad).html
    assert "<script" not in html
    assert "<img" not in html
    assert "&lt;script&gt;" in html


def test_signs_have_a_text_for_those_who_do_not_see_them() -> None:
    html = found(Status.WRONG, "", CheckResult("a", True, 1, 1), CheckResult("b", False, 0, 1)).html
    assert re.findall(r"role='img' aria-label='([^']*)'", html) == ["holds", "does not hold"]


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("plain", "plain"),
        ("call `f()` twice", "call <code>f()</code> twice"),
        ("`a` and `b`", "<code>a</code> and <code>b</code>"),
        ("an odd ` stays", "an odd ` stays"),
        ("`<b>`", "<code>&lt;b&gt;</code>"),
        ("", ""),
    ],
)
def test_backticks_become_code(text: str, html: str) -> None:
    assert code(text) == html


def test_progress_of_a_course_that_is_done_says_so() -> None:
    panel = render.progress([SCALE_SUM, WRAP], {"90-scale-sum": "passed", "90-wrap": "passed"})
    assert panel.text.split("\n") == [
        "2 exercises of 2 passed (4 of 4 points)",
        "sample",
        "  ✓ 90-scale-sum  Scale, then add up (3 points)",
        "  ✓ 90-wrap  Wrap (1 point)",
        "All exercises are passed.",
    ]
    assert "All exercises are passed." in text_of(panel.html)


def test_progress_shows_how_far_each_exercise_is() -> None:
    panel = render.progress([SCALE_SUM, WRAP], {"90-scale-sum": "timed-out", "90-old": "passed"})
    assert panel.text.split("\n")[2:] == [
        "  ! 90-scale-sum  Scale, then add up (3 points)",
        "  · 90-wrap  Wrap (1 point)",
        "Next: 90-scale-sum, Scale, then add up",
    ]
