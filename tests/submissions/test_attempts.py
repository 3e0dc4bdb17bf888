"""Which of a student's files counts, asked of `choose_attempt` itself."""

from __future__ import annotations

import math
from pathlib import Path

from graders.submissions.attempts import Choice, HandedIn, choose_attempt
from graders.submissions.layout import Place
from graders.submissions.lms import Owner
from graders.submissions.tree import Entry
from tests.notebooks import LESSON


def handed_in(name: str, at: float = 0.0, folder: str = "ada") -> HandedIn:
    return HandedIn(Entry((folder, name), Path(folder, name), name, at), Place(Owner("ada"), name), LESSON)


def choose(*files: HandedIn, unreadable: str, deadline: float = math.inf) -> Choice:
    """The choice among files in which somebody worked; those whose names begin with `unreadable` cannot be read."""
    return choose_attempt(
        files,
        deadline,
        (LESSON,),
        lambda file, lesson: False,
        lambda file: "" if file.name.startswith(unreadable) else file.name,
    )


def test_a_file_that_cannot_be_read_loses_even_if_it_is_the_last_one_in_time() -> None:
    good, broken = handed_in("work.ipynb", at=100.0), handed_in("a_broken.ipynb", at=200.0)
    choice = choose(broken, good, unreadable="a_broken", deadline=1000.0)
    assert (choice.file, choice.others, choice.why, choice.doubt) == (good, (broken,), "the other cannot be read", "")


def test_of_two_files_that_cannot_be_read_nobody_says_that_they_are_the_same() -> None:
    first, second = handed_in("one.ipynb"), handed_in("two.ipynb")
    choice = choose(first, second, unreadable="")
    assert choice.why == choice.doubt == "nothing says which one is later"


def test_a_part_of_a_second_is_not_late() -> None:
    at_the_last_second, after_it = handed_in("work.ipynb", at=100.9), handed_in("work.ipynb", at=101.0)
    assert (at_the_last_second.seconds_late(100.0), after_it.seconds_late(100.0)) == (0.0, 1.0)


def test_numbers_of_folders_are_compared_only_if_the_rest_of_their_names_is_the_same() -> None:
    for folders, why in (
        (("attempt 2", "attempt 3"), "its folder has the later number"),
        (("draft 3", "final 1"), "nothing says which one is later"),
    ):
        files = [handed_in("work.ipynb", folder=folder) for folder in folders]
        choice = choose_attempt(files, math.inf, (LESSON,), lambda *_: False, lambda file: file.parts[0])
        assert choice.why == why
