"""Export as JUnit XML, which CI systems read: a suite for each submission and a case for each check."""

from __future__ import annotations

from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

from graders.core.results import Batch, CheckResult, ExerciseResult, Status, SubmissionResult, SubmissionStatus
from graders.core.text import format_points
from graders.report.exports.exported import ExportRequest, ExportResult
from graders.report.teacher_words import teacher_words
from graders.report.titles import Titles


def export(wanted: ExportRequest) -> ExportResult:
    """Make `junit.xml`."""
    return ExportResult({"junit.xml": render(wanted.batch, wanted.titles)})


def render(batch: Batch, titles: Titles) -> str:
    """The text of the file. A failed check is a failure, ungraded work an error, and missing work is skipped."""
    root = Element("testsuites", name="hookwork")
    for submission in batch.submissions:
        root.append(_suite_element(submission, batch, titles))
    for count in ("tests", "failures", "errors"):
        root.set(count, str(sum(int(suite.get(count, "0")) for suite in root)))
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"


def _suite_element(submission: SubmissionResult, batch: Batch, titles: Titles) -> Element:
    student = submission.student
    suite = Element("testsuite", name=f"{titles.lesson(submission.lesson)}: {student}", timestamp=batch.created[:19])
    properties = SubElement(suite, "properties")
    for name, value in (
        ("student", student),
        ("lesson", submission.lesson),
        ("points", format_points(submission.score)),
        ("max_points", format_points(submission.max_score)),
        ("status", submission.status.value),
        *(("by_hand", word) for word in teacher_words(submission)),
    ):
        SubElement(properties, "property", name=name, value=value)
    if not submission.exercises:
        case = SubElement(
            suite, "testcase", classname=f"{submission.lesson}.{student}", name=submission.lesson, time="0"
        )
        kind = {SubmissionStatus.MISSING: "skipped", SubmissionStatus.UNREADABLE: "failure"}.get(
            submission.status, "error"
        )
        _add_outcome(case, kind, submission.status.value, submission.message)
    for exercise in submission.exercises:
        for check in exercise.checks:
            _add_case(suite, f"{submission.lesson}.{student}", exercise, check)
    cases = suite.findall("testcase")
    for name, tag in (("tests", ""), ("failures", "/failure"), ("errors", "/error"), ("skipped", "/skipped")):
        suite.set(name, str(len(cases if not tag else suite.findall(f"testcase{tag}"))))
    suite.set("time", f"{submission.seconds:.3f}")
    return suite


def _add_case(suite: Element, classname: str, exercise: ExerciseResult, check: CheckResult) -> None:
    name = f"{exercise.key}: {check.name}"
    case = SubElement(suite, "testcase", classname=classname, name=name, time="0")
    if check.passed:
        return
    judged = exercise.status is Status.WRONG
    kind = "error" if exercise.status is Status.NOT_GRADED else "failure"
    text = check.message if judged else exercise.explanation
    _add_outcome(case, kind, exercise.mistake or exercise.status.value, text)


def _add_outcome(case: Element, tag: str, kind: str, text: str) -> None:
    first = text.partition("\n")[0]
    found = (
        SubElement(case, tag, message=first) if tag == "skipped" else SubElement(case, tag, type=kind, message=first)
    )
    if text != first:
        found.text = text
