"""A large class from start to finish: `python -m tests.benchmarks.bench_class [--students N | --synthetic N]`.

Each student hands in three lessons, most of them all three, with right, wrong and missing answers in a mix of their
own, and lines of their own above each, so that no two files are equal. What each answer is worth is known beforehand:
its status and mistake from the list of answers, its points from a notebook with that answer alone. The books have to
say the same of every student, or the program fails.

Prints the seconds, the memory of each kind of process over time, the size of what was written, and, where there is a
Chromium, how long it takes to open `class.html`, to sort it and to search it.

`--synthetic N` runs no notebook: the answers to the three lessons are compared as they are, and `class.html` is written
of verdicts at random. In a class of 2,000 the index has to find the pairs that comparing each with each finds.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

from graders.core import course
from graders.instructor.report_inputs import course_titles
from graders.report import class_page
from graders.report.names import file_names
from graders.report.similar import (
    MIN_SHARE,
    Answers,
    informative_answers,
    jaccard_similarity,
    pairs_above_share,
    similar_pairs,
)
from graders.sandbox.outside.memory import process_tree
from tests.answers import answers_of
from tests.batches import at_random
from tests.benchmarks.measuring import proportional
from tests.make_class import SETUP, hand_in

LESSONS = course.lesson_stems()[1:4]
SEED = 7
LOOK_EVERY = 5.0
"""Seconds between two looks at the memory."""
NOTHING = "later = 0"
HANDED_IN = 0.98
"""The share of notebooks that come."""


@dataclass(frozen=True)
class Answer:
    """An answer, and what is known of it: `mistake` is None where it is right or missing."""

    source: str
    status: str
    mistake: str | None = None


def answers() -> dict[str, list[Answer]]:
    """All answers to the exercises of the three lessons, by key: the one that is missing comes first."""
    found = {}
    for lesson in LESSONS:
        of = answers_of(lesson)
        for key, right in of.right.items():
            wrong = [Answer(source, "wrong", mistake) for mistake, source in sorted(of.wrong[key].items())]
            found[key] = [Answer(NOTHING, "not-attempted"), *(Answer(source, "passed") for source in right), *wrong]
    return found


def own_lines(rng: random.Random) -> str:
    """Lines that change nothing, and that nobody else has."""
    return f"numbers = {[rng.randrange(1000) for _ in range(rng.randrange(4, 60))]}\n"


def choose(rng: random.Random, skill: float, lesson: str, every: dict[str, list[Answer]]) -> dict[str, Answer]:
    given = {}
    for key in course.exercise_keys(lesson):
        status = rng.choices(("passed", "wrong", "not-attempted"), (0.2 + skill, 1 - skill, 0.2))[0]
        given[key] = rng.choice([answer for answer in every[key] if answer.status == status])
    return given


Mix = dict[tuple[str, str], dict[str, Answer]]
"""For each student and lesson the answers, by exercise; nothing where nothing was handed in."""


def make_class(folder: Path, students: int, every: dict[str, list[Answer]]) -> Mix:
    mix: Mix = {}
    for number in range(students):
        rng = random.Random(number)
        skill = rng.random()
        for lesson in LESSONS:
            student = f"student {number:05}"
            mix[student, lesson] = {}
            if rng.random() > HANDED_IN and lesson != LESSONS[0]:
                continue
            mix[student, lesson] = given = choose(rng, skill, lesson, every)
            cells = [own_lines(rng) + answer.source.strip("\n") for answer in given.values()]
            hand_in(folder / student, lesson, [SETUP, *cells])
    return mix


def alone(folder: Path, every: dict[str, list[Answer]]) -> dict[str, float]:
    """The points of each answer, in a notebook without any other, by its source."""
    of: dict[str, Answer] = {}
    for lesson in LESSONS:
        for key in course.exercise_keys(lesson):
            for number, answer in enumerate(every[key][1:]):
                of[f"{key} {number}"] = answer
                hand_in(folder / "alone" / f"{key} {number}", lesson, [SETUP, answer.source])
    grade(folder / "alone", folder / "alone-out", [])
    points = {NOTHING: 0.0}
    for submission in submissions(folder / "alone-out"):
        for exercise in submission["exercises"]:
            if submission["student"].startswith(f"{exercise['key']} "):
                points[of[submission["student"]].source] = exercise["score"]
    return points


def command(where: Path, out: Path, options: Sequence[str]) -> list[str]:
    return [sys.executable, "-m", "graders.cli", "grade", str(where), "--out", str(out), f"--seed={SEED}", *options]


def grade(where: Path, out: Path, options: Sequence[str]) -> None:
    subprocess.run(command(where, out, options), check=True, capture_output=True)


def submissions(out: Path) -> list[dict[str, Any]]:
    return list(json.loads((out / "results.json").read_text())["submissions"])


def watched(arguments: list[str], log: Path) -> tuple[float, list[tuple[float, dict[str, float]]]]:
    """Run a command: its seconds, and at times the megabytes of each kind of process."""
    started, looks = time.monotonic(), []
    with log.open("w") as output:
        process = subprocess.Popen(arguments, stdout=output, stderr=output)
        while True:
            try:
                code = process.wait(LOOK_EVERY)
                break
            except subprocess.TimeoutExpired:
                looks.append((time.monotonic() - started, memory(process.pid)))
    if code:
        raise SystemExit(f"exit code {code}: {log.read_text()[-2000:]}")
    return time.monotonic() - started, looks


def memory(root: int) -> dict[str, float]:
    """Megabytes of the command, of the warm process, and of the boxes; what they share counts in proportion."""
    every = process_tree(root)
    warm = every[1:2]
    return {
        "command": proportional([root]),
        "warm process": proportional(warm),
        "boxes": proportional(pid for pid in every[1:] if pid not in warm),
    }


def compare(out: Path, mix: Mix, points: dict[str, float]) -> None:
    """Fail unless the results and the gradebook say of everybody what is known."""
    found = {(one["student"], one["lesson"]): one for one in submissions(out)}
    assert found.keys() == mix.keys()
    for who, given in mix.items():
        assert found[who]["status"] == ("graded" if given else "missing"), who
        for exercise in found[who]["exercises"]:
            answer = given[exercise["key"]]
            # A mistake of which Python complains is raised and not wrong; it is recognised all the same.
            accepted = ("wrong", "raised") if answer.mistake else (answer.status,)
            seen = exercise["status"], exercise["mistake"], exercise["score"]
            assert seen[0] in accepted, (who, exercise["key"], seen)
            assert seen[1:] == (answer.mistake, points[answer.source]), (who, exercise["key"], seen)
    with (out / "gradebook.csv").open(encoding="utf-8-sig", newline="") as file:
        rows = {row["student"]: row for row in csv.DictReader(file)}
    assert rows.keys() == {student for student, _ in mix}
    for (student, lesson), given in mix.items():
        known = {key: round(points[answer.source], 2) for key, answer in given.items()}
        row = {key: rows[student][key] for key in course.exercise_keys(lesson)}
        assert {key: float(cell) for key, cell in row.items() if cell} == known, (student, row, known)


def megabytes(files: Iterable[Path]) -> float:
    return sum(file.stat().st_size for file in files if file.is_file()) / 1e6


def print_sizes(out: Path) -> None:
    for part in ("results.json", "gradebook.csv", "class.html", "feedback", "runs"):
        files = [out / part] if (out / part).is_file() else list((out / part).rglob("*"))
        print(f"{part:14} {megabytes(files):8.2f} MB")


def print_browser(page: Path) -> None:
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        print("no Chromium: class.html was not opened")
        return
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        shown = browser.new_page(viewport={"width": 1280, "height": 900})
        shown.set_default_timeout(120_000)
        for what, do in {
            "opened": lambda: shown.goto(page.as_uri()),
            "ordered": lambda: shown.get_by_label("Order").select_option("fewest points first"),
            "searched": lambda: shown.get_by_label("Find a student").fill("student 001"),
        }.items():
            started = time.monotonic()
            do()
            shown.evaluate("document.body.offsetHeight")
            rows = shown.locator(".matrix tbody tr:visible").count()
            print(f"class.html {what} in {time.monotonic() - started:.2f} s: {rows} rows")
        browser.close()


def written(students: int, every: dict[str, list[Answer]]) -> Iterator[Answers]:
    """The answers of a class to each exercise. Half are as given, one in ten is a copy, the rest have own lines."""
    for lesson in LESSONS:
        texts: dict[str, dict[str, str]] = {key: {} for key in course.exercise_keys(lesson)}
        for number in range(students):
            rng = random.Random(f"{number} {lesson}")
            for key, answer in choose(rng, rng.random(), lesson, every).items():
                lines, own = answer.source.strip("\n").split("\n"), f"value = {rng.randrange(10**6)}"
                if number % 10 in (5, 6):
                    for line in rng.sample(range(len(lines)), min(2, len(lines))):
                        lines[line] += f"; {own}"
                elif number % 10 in (7, 8):
                    lines.insert(0, own_lines(rng))
                elif number % 10 == 9:
                    lines = [texts[key][f"student {number - 1:05}"], own]
                texts[key][f"student {number:05}"] = "\n".join(lines)
        for exercise in course.lesson_exercises(lesson):
            yield Answers(exercise.key, texts[exercise.key], [course.worked_answer(exercise)])


def compare_ways(students: int, every: dict[str, list[Answer]]) -> None:
    """Fail unless the index finds the pairs that comparing each with each finds."""
    seconds, pairs = [0.0, 0.0], 0
    for exercise in written(students, every):
        sets = [frozenset(array("q", runs)) for runs in informative_answers(exercise)]
        times = [time.process_time()]
        by_index = sorted(pairs_above_share(sets))
        times.append(time.process_time())
        by_pairs = [
            (one, two, share)
            for (one, mine), (two, theirs) in combinations(enumerate(sets), 2)
            if min(len(mine), len(theirs)) >= MIN_SHARE * max(len(mine), len(theirs))
            and (share := jaccard_similarity(mine, theirs)) >= MIN_SHARE
        ]
        times.append(time.process_time())
        assert by_index == by_pairs, exercise.key
        seconds = [total + after - before for total, before, after in zip(seconds, times, times[1:])]
        pairs += len(by_pairs)
    print(
        f"{students} students: {pairs} pairs, by the index in {seconds[0]:.2f} s and one by one in {seconds[1]:.2f} s"
    )


def print_similar(students: int, every: dict[str, list[Answer]]) -> None:
    """How long it takes to make up the answers of a class and to find those that are alike."""
    started = time.process_time()
    found = similar_pairs(written(students, every))
    seconds = (time.process_time() - started) / len(every)
    print(f"{students} students: {len(found)} pairs, {seconds:.2f} s an exercise; {peak()}", flush=True)


def print_page(students: int, lessons: Sequence[str], folder: Path) -> None:
    found = at_random(students, {lesson: course.exercise_keys(lesson) for lesson in lessons})
    started = time.process_time()
    names = file_names(submission.student for submission in found.submissions)
    page = folder / "class.html"
    page.write_text(class_page.render(found, course_titles(lessons), names))
    seconds, size = time.process_time() - started, megabytes([page])
    print(f"{students} students, {len(lessons)} lessons: class.html has {size:.2f} MB, {seconds:.2f} s; {peak()}")
    print_browser(page)


def peak() -> str:
    """The most memory that this process has held."""
    return f"peak {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000:.0f} MB"


def synthetic(students: int, folder: Path) -> None:
    """Reports of a class without marking it."""
    every = answers()
    compare_ways(2000, every)
    for size in (2000, students):
        print_similar(size, every)
    for lessons in (LESSONS, course.lesson_stems()):
        print_page(students, lessons, folder)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--students", type=int, default=334, help="three notebooks each; default: 334")
    parser.add_argument("--synthetic", type=int, metavar="N", help="reports of so many students, without marking them")
    parser.add_argument("--jobs", type=int, default=2, help="notebooks at a time")
    parser.add_argument("--isolation", default="auto")
    parser.add_argument("--folder", type=Path, help="where the class and the results are left")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        if options.synthetic:
            synthetic(options.synthetic, folder)
            return
        every = answers()
        points = alone(folder, every)
        mix = make_class(folder / "class", options.students, every)
        notebooks = sum(bool(given) for given in mix.values())
        print(f"{options.students} students, {notebooks} notebooks, {len(points)} answers", flush=True)
        how = [f"--jobs={options.jobs}", f"--isolation={options.isolation}"]
        arguments = command(folder / "class", folder / "out", how)
        before = os.times()
        seconds, looks = watched(arguments, folder / "log")
        after = os.times()
        cpu = after.children_user + after.children_system - before.children_user - before.children_system
        print(f"marked in {seconds:.0f} s; of a core {cpu:.0f} s, {cpu / notebooks:.2f} s a notebook", flush=True)
        for share in (0.05, 0.25, 0.5, 0.75, 1.0):
            at, held = looks[max(0, round(share * len(looks)) - 1)]
            print(f"after {at:5.0f} s: " + ", ".join(f"{kind} {size:.0f} MB" for kind, size in held.items()))
        seconds, _ = watched(arguments, folder / "log")
        print(f"again, from what was kept: {seconds:.0f} s")
        compare(folder / "out", mix, points)
        print("The books say what is known.")
        print_sizes(folder / "out")
        print_browser(folder / "out/class.html")


if __name__ == "__main__":
    main()
