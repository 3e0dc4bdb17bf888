from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from graders.core import course
from graders.core.difference import Difference, Kind, Timelines
from graders.core.exercise import Exercise
from graders.core.results import CheckResult, ExerciseResult, Status
from graders.core.status_styles import STATUS_STYLES, StatusStyle
from graders.core.transcript import Outcome
from graders.learner.notebook import html, render
from graders.learner.notebook.html import INFO, backticks_to_code, table
from graders.learner.notebook.record import Record
from graders.learner.notebook.render import Panel
from graders.learner.notebook.standing import build_standing
from graders.marking.replaying import Replayed
from tests.sample import SCALE_SUM, WRAP


def result(status: Status, message: str = "", *checks: CheckResult, **parts: Any) -> ExerciseResult:
    """A result worth 1 of 3 points."""
    return ExerciseResult(
        key="90-scale-sum", status=status, score=1, max_score=3, message=message, checks=checks, **parts
    )


def found(*parts: Any, **more: Any) -> Panel:
    return render.result_panel(SCALE_SUM, result(*parts, **more))


def failed(name: str, difference: Difference) -> CheckResult:
    return CheckResult(name=name, passed=False, score=0, max_score=1, message=difference.text, difference=difference)


def text_of(html: str) -> str:
    words = re.sub(r"<[^>]*>", " ", html).replace("&quot;", '"').replace("&#x27;", "'")
    return " ".join(words.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&").split())


@pytest.mark.parametrize(
    ("status", "headline"),
    [
        (Status.PASSED, "✓ Passed: Scale, then add up (1 of 3 points)"),
        (Status.WRONG, "✗ Not yet right: Scale, then add up (1 of 3 points)"),
        (Status.NOT_ATTEMPTED, "· Not attempted yet: Scale, then add up (1 of 3 points)"),
        (Status.RAISED, "! An exception was raised: Scale, then add up (1 of 3 points)"),
        (Status.TIMED_OUT, "⧗ Did not come to an end: Scale, then add up (1 of 3 points)"),
        (Status.OVER_LIMIT, "▲ Went over a limit: Scale, then add up (1 of 3 points)"),
    ],
)
def test_the_headline_says_in_words_what_the_colour_says(status: Status, headline: str) -> None:
    assert found(status).text.split("\n")[0] == headline
    word = headline[2:].split(":")[0]
    assert f"aria-label='{word}: Scale, then add up'" in found(status).html
    assert f">{word}</strong>" in found(status).html


def test_both_forms_say_the_same() -> None:
    checks = (
        CheckResult(name="it holds", passed=True, score=1, max_score=1),
        failed("it does not", Difference(Kind.GRAPH, "a", note="it requires grad")),
        failed("neither does this", Difference(Kind.VALUE, "b", "", "17", "18", "one of 2")),
        failed("nor this", Difference(Kind.ORDER, "log", timelines=Timelines(("fwd a",), ("fwd b",)))),
    )
    wrong = result(Status.WRONG, "Return it.", *checks, mistake="forgot-return")
    panel = render.result_panel(SCALE_SUM, wrong, None, ["What to do now."], more=True)
    shown = text_of(panel.html)
    for part in (
        "Return it.", "it holds", "it does not", "a: it requires grad", "neither does this", "b", "17", "18",
        "one of 2", "log: the lists differ from entry 1 on", "→", "fwd a", "fwd b", "What to do now.",
    ):  # fmt: skip
        assert part in shown
        assert part in panel.text
    assert panel._repr_mimebundle_() == {"text/plain": panel.text, "text/html": panel.html}


def test_a_message_that_only_repeats_a_check_is_left_out() -> None:
    check = failed("the sum is right", Difference(Kind.VALUE, "total", "", "1", "2"))
    assert found(Status.WRONG, "total: expected 1, saw 2", check).text.count("total: expected 1, saw 2") == 1


def differing(name: str, place: str) -> CheckResult:
    return failed(name, Difference(Kind.VALUE, place, "", "1", "2"))


HELD = CheckResult(name="it holds", passed=True, score=1, max_score=1)


def test_of_recognised_mistakes_the_checks_that_show_them_are_told() -> None:
    shown, follows = differing("the sum is right", "total"), replace(differing("the rest", "x.grad"), follows=True)
    panel = found(Status.WRONG, "Return it.", shown, follows, HELD, mistake="forgot-return")
    open_part, _, rest = panel.html.partition("<details ")
    rest = rest.partition("</details>")[0]
    for check in (shown, follows, HELD):
        assert (check.row in text_of(open_part)) is (check is shown)
        assert (check.row in text_of(rest)) is (check is not shown)
        assert (check.row in panel.text) is (check is shown)
    assert "not judged: the rest" in rest
    assert "x.grad" not in panel.html


def test_a_second_mistake_is_said_after_the_first() -> None:
    both = {"mistake": "a", "second_mistake": "b", "second_message": "Remove it."}
    panel = found(Status.WRONG, "Return it.", differing("the sum is right", "total"), **both)
    assert "Return it.\n\nAlso: Remove it.\n" in panel.text
    assert "Return it. Also: Remove it." in text_of(panel.html)


def test_without_a_recognised_mistake_every_check_is_told() -> None:
    checks = (differing("the sum is right", "total"), HELD, differing("the example comes out", "x.grad"))
    panel = found(Status.WRONG, "total: expected 1, saw 2", *checks)
    assert "<details" not in panel.html
    assert all(check.row in panel.text for check in checks)


def test_a_name_that_says_what_has_to_hold_is_not_said_of_what_does_not() -> None:
    panel = found(Status.WRONG, "", differing("all four gradients are right", "x.grad"), HELD)
    assert [line for line in panel.text.split("\n") if line.startswith("  ✗")] == [
        "  ✗ not yet: all four gradients are right"
    ]
    assert "</span> not yet: all four gradients are right" in panel.html
    assert "</span> it holds" in panel.html


def test_what_is_folded_is_counted() -> None:
    wrong = replace(differing("the sum is right", "total"), follows=True)
    assert render.describe_other_checks([HELD, wrong, wrong]) == "3 other checks, 2 of them not judged"
    assert render.describe_other_checks([HELD, HELD]) == "2 other checks, none of them wrong"
    assert render.describe_other_checks([HELD]) == "1 other check"


def test_a_worked_answer_says_why() -> None:
    panel = render.solution_panel(
        replace(SCALE_SUM, why="So that `x` stays. `mul` would do."), "def scale_sum(x, k): ..."
    )
    assert panel.text.endswith("def scale_sum(x, k): ...\n\nSo that `x` stays. `mul` would do.")
    assert "So that <code>x</code> stays." in panel.html
    assert render.solution_panel(SCALE_SUM, "1").text.endswith("\n\n1")


def test_a_program_stands_below_the_sentence_that_it_shows() -> None:
    program, introduction = "w = 1\nif w:\n    print(w)  # expected 2", "Run this below your answer to see it, or call "
    checks = (differing("the sum is right", "total"), differing("the rest", "x.grad"), HELD)
    for mistake, order in (
        ("forgot-return", ("Return it.", introduction, "w = 1", "the sum is right", "More: ")),
        (None, ("the sum is right", "the rest", "it holds", introduction, "w = 1")),
    ):
        panel = found(Status.WRONG, "Return it.", *checks, program=program + "\n", mistake=mistake)
        at = [text_of(panel.html).index(part) for part in order]
        assert at == sorted(at)
        assert re.findall(r"<pre [^>]*>([^<]*)</pre>", panel.html) == [program]
        assert f'{introduction}`replay("90-scale-sum")`:\n\n{program}\n' in panel.text + "\n"
        at = [panel.text.index(part) for part in order if part != "More: "]
        assert at == sorted(at)
        assert "<button" not in panel.html


def test_checks_that_were_not_judged_are_not_listed() -> None:
    unjudged = CheckResult(name="the sum is right", passed=False, score=0, max_score=1, message="not judged")
    panel = found(Status.RAISED, "It raised.", unjudged)
    assert "not judged" not in panel.text + panel.html


def test_html_of_a_learner_is_never_live() -> None:
    bad = "<script>alert(1)</script>`<img src=x onerror=y>`'\""
    checks = (
        CheckResult(name="it holds", passed=False, score=0, max_score=1, message=bad),
        failed(bad, Difference(Kind.VALUE, bad, bad, bad, bad, bad)),
        failed(bad, Difference(Kind.ORDER, bad, timelines=Timelines((bad,), (bad, bad)))),
    )
    html = (
        found(Status.WRONG, bad, *checks, mistake="m").html
        + found(Status.RAISED, bad).html
        + render.note_panel(bad).html
        + found(Status.WRONG, program=bad).html
        + render.replayed_panel(SCALE_SUM, Replayed(bad, error=bad)).html
    )
    assert "<script" not in html
    assert "<img" not in html
    assert "&lt;script&gt;" in html


def test_signs_have_a_text_for_those_who_do_not_see_them() -> None:
    html = found(Status.WRONG, "", HELD, differing("the sum is right", "total")).html
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
    assert backticks_to_code(text) == html


def test_a_wrong_number_stands_beside_the_expected_one() -> None:
    difference = Difference(Kind.VALUE, "grads['a']", "[0][2]", "3", "1", "2 of 4 entries differ")
    check = failed("the sum is right", difference)
    html = found(Status.WRONG, "", check).html
    assert re.findall(r"<th scope='col'[^>]*>([^<]*)<", html) == ["expected", "yours"]
    assert re.findall(r"<th scope='row'[^>]*>([^<]*)<", html) == ["grads[&#x27;a&#x27;], entry [0][2]"]
    assert re.findall(r"<td style='[^']*monospace[^']*'>([^<]*)<", html) == ["3", "1"]
    assert "2 of 4 entries differ" in html


def test_a_name_has_room_however_long_the_values_are() -> None:
    rows = table(("yours",), [(("order", "a, " * 99), False), (("x" * 25, "1"), False)])
    assert re.findall(r"<th scope='row' style='[^']*;min-width:([^;]*);", rows) == ["min(7ch,12vw)", "min(27ch,12vw)"]


def test_timelines_stand_side_by_side_and_the_first_difference_is_marked_in_words() -> None:
    difference = Difference(Kind.ORDER, "order", timelines=Timelines(("a", "b", "c"), ("a", "c")))
    html = found(Status.WRONG, "", failed("in order", difference)).html
    assert re.findall(r"<th scope='row'[^>]*>([^<]*)<", html) == ["", "→ first difference", ""]
    assert re.findall(r"<td style='[^']*monospace[^']*'>([^<]*)<", html) == ["a", "a", "b", "c", "c", "(end)"]
    assert "the lists differ from entry 2 on" in text_of(html)


def test_an_exception_shows_the_line_and_the_call() -> None:
    outcome = Outcome(
        seen=None,
        status=Status.RAISED,
        error="ValueError",
        message="no",
        line="line 2 of its cell: return f(x)",
        call="scale_sum(1, 2)",
    )
    panel = render.result_panel(SCALE_SUM, result(Status.RAISED, "all in one"), outcome)
    assert panel.text.split("\n")[1:] == [
        "",
        "`scale_sum` raised ValueError: no",
        "  Your code, line 2 of its cell: return f(x)",
        "  The call: scale_sum(1, 2)",
    ]
    assert re.findall(r"<pre[^>]*>([^<]*)<", panel.html) == ["return f(x)", "scale_sum(1, 2)"]


def after(status: Status, passed: list[str], exercise: Exercise = SCALE_SUM) -> list[str]:
    course = build_standing([SCALE_SUM, WRAP], Record(dict.fromkeys(passed, "passed")))
    return render.next_steps(exercise, replace(result(status), key=exercise.key), 2, course)


def test_the_name_of_another_lesson_is_a_link() -> None:
    link = "<a href='02_watching.ipynb'>02_watching.ipynb</a>"
    assert html.link_lessons(html.paragraph("in 02_watching.ipynb, `x`")).count(link) == 1


def test_after_a_pass_comes_what_else_is_worth_knowing() -> None:
    held = "It held on 2 sets of inputs drawn just now; run the check again for new ones."
    compare = 'Compare with the worked answer: `solution("90-scale-sum")`'
    assert after(Status.PASSED, ["90-scale-sum"]) == [held, compare, "Next: `90-wrap`, Wrap"]
    last = "That was the last one. Still open: 1 exercise, see `progress()`"
    assert after(Status.PASSED, ["90-wrap"], WRAP)[-1] == last
    assert after(Status.PASSED, ["90-scale-sum", "90-wrap"]) == [
        held,
        compare,
        "This lesson is done: 4 of 4 points.",
        "That was the last one: every exercise of the course is passed.",
    ]


@pytest.mark.parametrize("status", [Status.WRONG, Status.RAISED, Status.NOT_ATTEMPTED])
def test_else_there_is_a_hint(status: Status) -> None:
    assert 'hint("90-scale-sum")' in after(status, [])[0]


def luminance(colour: tuple[int, ...]) -> float:
    """Relative luminance, as WCAG 2 defines it."""
    parts = [part / 255 / 12.92 if part <= 10 else ((part / 255 + 0.055) / 1.055) ** 2.4 for part in colour]
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]


def contrast(first: tuple[int, ...], other: tuple[int, ...]) -> float:
    low, high = sorted((luminance(first), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("look", [*STATUS_STYLES.values(), INFO])
def test_signs_and_edges_can_be_told_from_light_and_dark_pages(look: StatusStyle) -> None:
    assert contrast(look.colour, (255, 255, 255)) >= 4.5  # the sign on its disc, and the edge on a light page
    assert contrast(look.colour, (17, 17, 17)) >= 3  # the edge on a dark page


def test_progress_of_a_course_that_is_done_says_so() -> None:
    panel = render.progress_panel(
        build_standing([SCALE_SUM, WRAP], Record({"90-scale-sum": "passed", "90-wrap": "passed"})), {"tests": "Samples"}
    )
    assert panel.text.split("\n") == [
        "2 exercises of 2 passed (4 of 4 points)",
        "  Samples  ✓✓  4 of 4 points",
        "All exercises are passed.",
    ]
    assert "All exercises are passed." in text_of(panel.html)


def test_progress_shows_how_far_each_exercise_is() -> None:
    record = Record({"90-scale-sum": "timed-out", "90-old": "passed"})
    panel = render.progress_panel(build_standing([SCALE_SUM, WRAP], record), {})
    assert panel.text.split("\n") == [
        "0 exercises of 2 passed (0 of 4 points)",
        "→ tests  ⧗·  0 of 4 points",
        "    ⧗ 90-scale-sum  Scale, then add up (3 points · 15 min · medium · core path)",
        "    · 90-wrap  Wrap (1 point)",
        "Shorter ways through the course: core path, features, transformers, gradients, explaining predictions, "
        'debugging. `progress("core")` chooses one, and Next follows it.',
        "Next: `90-scale-sum`, Scale, then add up, in tests.ipynb",
    ]
    signs = re.findall(r"role='img' aria-label='([^']*)'", panel.html)
    assert signs == [
        "90-scale-sum: Did not come to an end",
        "90-wrap: Not attempted yet",
        "Did not come to an end",
        "Not attempted yet",
    ]
    assert "role='progressbar' aria-label='0 exercises of 2 passed, 0 of 4 points'" in panel.html


def test_at_the_end_of_a_way_nothing_off_it_is_named() -> None:
    every = course.every_exercise()
    core = [exercise for exercise in every if exercise.core]
    passed = {exercise.key: "passed" for exercise in core}
    last = replace(result(Status.PASSED), key=core[-1].key)
    says = [
        render.next_steps(core[-1], last, 3, build_standing(every, Record(done, way="core path")))[-1]
        for done in (passed, passed | {core[0].key: "wrong"})
    ]
    assert says == [
        "That was the last one: every exercise on your way is passed.",
        "That was the last one. Still open: 1 exercise, see `progress()`",
    ]
