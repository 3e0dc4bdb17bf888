from __future__ import annotations

import keyword

import torch

from graders.core.seeds import SEED_LIMIT, new_seed
from graders.wire.draws import Rng


def test_equal_entropy_draws_equal_values_on_every_machine() -> None:
    assert Rng(1).tensor(2, 3).tolist() == [[-1.625, -1.0, 1.375], [-1.5, -2.625, 0.375]]
    assert Rng(1).names(3) == ["ngtg", "nchum", "npaadb"]
    assert Rng(1).shuffled([1, 2, 3, 4]) == [3, 1, 2, 4]
    assert Rng(1, "key", 0).tensor(3).tolist() == Rng(1, "key", 0).tensor(3).tolist()


def test_another_entropy_draws_other_values() -> None:
    draws = {tuple(Rng(*entropy).tensor(8).tolist()) for entropy in ((1,), (2,), (1, "a"), (1, "b"), ("1",), (1, 1))}
    assert len(draws) == 6


def test_entries_lie_on_the_grid_of_eighths_inside_the_bounds_and_away_from_zero() -> None:
    drawn = Rng(3).tensor(2000, low=-1, high=0.5, away=0.25)
    assert sorted(set(drawn.tolist())) == [-1, -0.875, -0.75, -0.625, -0.5, -0.375, -0.25, 0.25, 0.375, 0.5]


def test_bounds_off_the_grid_are_never_exceeded() -> None:
    drawn = Rng(4).tensor(500, low=0.3, high=0.7)
    assert sorted(set(drawn.tolist())) == [0.375, 0.5, 0.625]
    assert {Rng(seed).uniform(0.3, 0.7) for seed in range(100)} == {0.375, 0.5, 0.625}


def test_a_tensor_has_the_shape_and_dtype_that_were_asked_for() -> None:
    assert Rng(5).tensor(2, 3).shape == (2, 3)
    assert Rng(5).tensor(2, 3).dtype == torch.float32
    assert Rng(5).tensor().shape == ()
    assert Rng(5).tensor(2, dtype=torch.float64).dtype == torch.float64
    assert not Rng(5).tensor(2).requires_grad


def test_a_tensor_as_circumstances_say() -> None:
    full = Rng(5).tensor(100, dtype="float64", values="full")
    assert full.dtype == torch.float64
    assert (full * 8 % 1 != 0).all()
    assert (full.abs() >= 0.25).all()
    assert (full.abs() <= 3).all()
    rows = Rng(5).tensor(3, 2, layout="expanded")
    assert rows.shape == (3, 2)
    assert (rows == rows[0]).all()
    assert [len(Rng(5).shape(rank)) for rank in range(5)] == [0, 1, 2, 3, 4]
    assert sorted(Rng(5).shape(4)) == [1, 2, 3, 4]
    assert sorted(Rng(5).shape(3)) == [2, 3, 4]


def test_a_number_as_circumstances_say() -> None:
    assert Rng(1).number("zero") == 0.0
    assert all(-3 <= Rng(seed).number("negative") <= -0.5 for seed in range(50))
    assert all(0 < Rng(seed).number("fraction") < 1 for seed in range(50))
    assert all(1.5 <= Rng(seed).number("large") <= 4 for seed in range(50))


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


def test_names_differ_and_can_name_variables_and_modules() -> None:
    names = Rng(9).names(200)
    assert len(set(names)) == 200
    assert {len(name) for name in names} == {3, 4, 5, 6}
    assert all(name.isidentifier() and not keyword.iskeyword(name) for name in names)
    assert not any(hasattr(torch.nn.Module, name) for name in names)
    assert not any(name[1] in "aeiou" for name in names), "a word such as `net` may be an attribute of a model"


def test_a_new_seed_is_exact_in_every_json_reader() -> None:
    seeds = {new_seed() for _ in range(100)}
    assert len(seeds) == 100
    assert all(0 <= seed < SEED_LIMIT == 2**53 for seed in seeds)
