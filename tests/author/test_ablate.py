"""Which observations and wrong answers an exercise could do without."""

from __future__ import annotations

from graders.author.ablate import superfluous_observations, unneeded_answers


def shown(*programs: str) -> list[frozenset[str]]:
    return [frozenset(program.split()) for program in programs]


def test_an_observation_stays_when_a_program_shows_itself_in_no_other_one() -> None:
    assert superfluous_observations(["a", "b", "c"], shown("a", "a b")) == ["b", "c"]
    assert superfluous_observations(["a", "b"], shown("a", "b")) == []


def test_of_two_observations_that_show_the_same_the_one_stays_in_which_more_is_seen() -> None:
    assert superfluous_observations(["a", "b"], shown("a b", "a b c", "b c")) == ["a"]


def test_what_is_left_out_together_still_shows_every_program() -> None:
    programs = shown("a b", "b c", "c a")
    gone = superfluous_observations(["a", "b", "c"], programs)
    assert len(gone) == 1
    assert all(program - set(gone) for program in programs)


def test_a_wrong_answer_is_needed_when_nothing_known_shows_itself_in_a_part_of_the_same() -> None:
    wrong = dict(zip(["covered", "same", "own", "passes"], shown("a b", "a", "b", "")))
    assert unneeded_answers(wrong, shown("a", "b c")) == ["covered", "same"]
