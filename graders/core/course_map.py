"""The map of the course: what each lesson answers, how long it takes, and which lessons make a shorter course.

This is its only source: lesson 0 ends with the map, and the site uses it as the list of lessons.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from graders.core import course
from graders.core.effort import core_path, course_hours


@dataclass(frozen=True)
class LessonSummary:
    """A lesson on the map."""

    minutes: int
    """For reading the text, running the cells and doing the exercises, with three months of experience in PyTorch."""
    answers: str
    """The questions that it answers, in the words that people search for."""


LESSON_SUMMARIES = {
    "00": LessonSummary(10, "What is a hook? · how to see what happens inside a model"),
    "01": LessonSummary(90, "Why is `.grad` None? · `retain_grad()` · what is `zero_grad()` for?"),
    "02": LessonSummary(
        120, "How to print or log gradients during `backward()` · the gradient of an intermediate tensor"
    ),
    "03": LessonSummary(150, "How to scale, clip, reverse or block a gradient · how to freeze some rows of a weight"),
    "04": LessonSummary(
        120, "How to take the optimizer step inside `backward()` and save memory · gradients on the CPU"
    ),
    "05": LessonSummary(150, "How to get the output of a layer · extract features · why is my hook not called?"),
    "06": LessonSummary(
        150, "How to change the output or the input of a layer · ablation, activation patching, steering"
    ),
    "07": LessonSummary(150, "What are `grad_input` and `grad_output`? · where do my gradients vanish?"),
    "08": LessonSummary(150, "In which order do hooks run? · how long does each layer take in `backward()`?"),
    "09": LessonSummary(
        155, "How to show the feature maps of a CNN · statistics of activations over a data set, or over training"
    ),
    "10": LessonSummary(180, "Saliency maps, guided backprop, Grad-CAM · can I trust such a picture?"),
    "11": LessonSummary(120, "Why does memory grow? · how to remove all hooks · which layer made the first NaN?"),
    "12": LessonSummary(
        180, "Hooks on functions, on nodes of the graph, on saved tensors · how to count FLOPs and memory"
    ),
    "13": LessonSummary(180, "Why does my model not learn? · dead ReLU, vanishing gradients, a forgotten `eval()`"),
    "14": LessonSummary(180, "How does a transformer know? · attention weights, logit lens, steering, LoRA with hooks"),
}
"""The lessons on the map, by number."""

SHORT_COURSES = {
    "Only features": ("05", "09"),
    "Only transformers": ("05", "06", "14"),
    "Only gradients": ("01", "02", "03"),
    "Only explaining predictions": ("05", "09", "10"),
    "Only debugging": ("01", "02", "11", "13"),
}
"""Shorter courses by name, each with the numbers of its lessons in order."""


def as_markdown(lessons: Sequence[str] | None = None) -> str:
    """The map as Markdown: a table of these lessons, given by stem, and a list of the shorter courses that they make.

    None means all lessons, and then the core path is listed, too. A lesson that is not on the map is left out. Links
    assume that the lessons' notebooks are in the same folder as the page that shows the map.
    """
    there = {lesson[:2]: lesson for lesson in lessons or course.lesson_stems() if lesson[:2] in LESSON_SUMMARIES}
    rows = ["| lesson | time | what it answers |", "|---|---|---|"]
    for number, lesson in there.items():
        summary = LESSON_SUMMARIES[number]
        time = format_duration(summary.minutes).replace(" ", "\u00a0")  # no line break inside it in a narrow column
        rows.append(f"| [{course.lesson_title(lesson)}]({lesson}.ipynb) | {time} | {summary.answers} |")
    whole = {name: numbers for name, numbers in SHORT_COURSES.items() if set(numbers) <= set(there)}
    paths = [
        f"- **{name}**: lessons {_join_numbers(numbers)} ({_total_duration(numbers)})"
        for name, numbers in whole.items()
    ]
    everything = f"- **Everything**, in the order of the table ({_total_duration(there)})"
    if lessons is not None:
        return "\n".join([*rows, "", *paths, everything])
    hours, count = core_path(_all_minutes(), course.every_exercise())
    core = f"- **Core path**: {count} exercises, and the text of all lessons (about {hours} h)"
    choose = 'Choose one with `progress("core path")`, and *Next* follows it.'
    return "\n".join([*rows, "", core, *paths, everything, "", choose])


def whole_course_hours() -> str:
    """How long the whole course and its core path take, in words; see `course_hours`."""
    return course_hours(_all_minutes(), course.every_exercise())


def _all_minutes() -> int:
    return sum(summary.minutes for summary in LESSON_SUMMARIES.values())


def format_duration(minutes: int) -> str:
    """A time in minutes as people say it, rounded to half hours from one hour on: "10 min", "1½ h"."""
    hours, half = divmod(round(minutes / 30), 2)
    return f"{minutes} min" if minutes < 60 else f"{hours}{'½' if half else ''} h"


def _total_duration(numbers: Iterable[str]) -> str:
    return format_duration(sum(LESSON_SUMMARIES[number].minutes for number in numbers))


def _join_numbers(numbers: Sequence[str]) -> str:
    """The numbers of lessons as a list in words, as in "1, 2 and 11"."""
    *first, last = (str(int(number)) for number in numbers)
    return f"{', '.join(first)} and {last}"
