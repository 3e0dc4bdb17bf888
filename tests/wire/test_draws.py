from __future__ import annotations

from graders.core.seeds import SEED_LIMIT, new_seed
from graders.wire.draws import Rng


def drawn(*entropy: int | str) -> tuple[int, ...]:
    rng = Rng(*entropy)
    return tuple(rng.integer(0, 1000) for _ in range(8))


def test_equal_entropy_draws_equal_values_on_every_machine() -> None:
    assert drawn(1)[:3] == (240, 349, 711)
    assert Rng(1).shuffled([1, 2, 3, 4]) == [3, 1, 2, 4]
    assert drawn(1, "key", 0) == drawn(1, "key", 0)


def test_another_entropy_draws_other_values() -> None:
    assert len({drawn(*entropy) for entropy in ((1,), (2,), (1, "a"), (1, "b"), ("1",), (1, 1))}) == 6


def test_both_ends_of_an_integer_range_are_drawn() -> None:
    rng = Rng(6)
    assert {rng.integer(2, 4) for _ in range(100)} == {2, 3, 4}
    assert rng.integer(7, 7) == 7


def test_every_option_can_be_chosen() -> None:
    rng = Rng(7)
    assert {rng.choice("abc") for _ in range(100)} == {"a", "b", "c"}


def test_shuffling_keeps_the_items_and_the_list_given() -> None:
    items = list(range(20))
    shuffled = Rng(8).shuffled(items)
    assert items == list(range(20))
    assert shuffled != items
    assert sorted(shuffled) == items


def test_a_new_seed_is_exact_in_every_json_reader() -> None:
    seeds = {new_seed() for _ in range(100)}
    assert len(seeds) == 100
    assert all(0 <= seed < SEED_LIMIT == 2**53 for seed in seeds)
