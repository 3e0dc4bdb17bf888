"""A wrong program that keeps things from call to call is proved with nothing kept from the seed before."""

# mypy: ignore-errors
# An exercise class is a namespace of plain functions: there is no self.
from __future__ import annotations

from graders.author.prove_scenes import draws_by_seed, unrecognised_mistakes
from graders.scenes.scene import stories
from graders.verdict.scene_exercise import exercise


def sums(call, draw, case):
    for number in range(2):
        yield f"sum {number}", call(draw.tensor(draw.choice([2, 3, 4])))


def first_of_all(x, kept=[]):  # noqa: B006 - the mistake
    """You return what the first call returned."""
    kept.append(x.sum())
    return kept[0]


def test_nothing_is_kept_from_the_seed_before() -> None:
    mistakes = type("Mistakes", (), {"first_of_all": first_of_all})
    contract = "Add.\n\n**Example.**\n\n>>> made(torch.ones(2))\ntensor(2.)"
    body = type("Made", (), {"__doc__": contract, "reference": lambda x: x.sum(), "Mistakes": mistakes})
    scene = stories(promises=[sums], axes={"dtype": ("float32", "float64")})
    made = exercise("99-made", points=1, title="Made", hints=("a", "b"), scene=scene)(body)
    assert list(unrecognised_mistakes(made, draws_by_seed(made, range(3)))) == []
    assert first_of_all.__defaults__ == ([],)
