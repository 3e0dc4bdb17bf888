"""Exercise 13-dead-channels."""

from __future__ import annotations

from torch import nn

from graders.authoring import (
    Circumstances,
    Mistake,
    Witness,
    exercise,
    expect,
    nothing_changed,
)


@exercise(
    "13-dead-channels",
    points=2,
    title="Find the channels of a ReLU that never fire",
    hints=(
        "A forward hook on each `nn.ReLU` sees what it outputs (lesson 5).",
        "A channel is dead when it is 0 in all calls: keep one truth value for each channel, and join the calls with "
        "`|`. `output.movedim(1, 0).flatten(1)` has one row for each channel.",
    ),
    circumstances=Circumstances(
        covers={"dtype": ("float32", "float64")},
        excludes={
            "rank": "two dimensions",
            "layout": "contiguous",
            "place": "a leaf",
            "grad": "none",
            "values": "drawn so that the channels are known",
            "number": "no number is an argument",
            "collection": "two batches",
            "model": "a chain of layers",
            "hooks": "none yet",
            "call": "one call",
            "failure": "nothing fails",
        },
    ),
)
class TestDeadChannels:
    """Write `dead_channels(model, batches)`. Run `model(batch)` for each batch in `batches`. A channel of an `nn.ReLU`
    is dead when it is 0 for every input of every batch. Channels are counted along dimension 1 of the output.

    Return a dict: for each `nn.ReLU` in the model with a dead channel its name in `model.named_modules()`, and the
    ascending list of its dead channels, as `int`s.

    **Example.** For `nn.Sequential(nn.ReLU())` and `[torch.tensor([[-1.0, 2.0]]), torch.tensor([[0.0, -3.0]])]` the
    result is `{"0": [0]}`.
    """

    def draw(rng, dtype):
        size = rng.integer(3, 5)
        dead = sorted(rng.shuffled(list(range(size)))[:2])
        return {"name": rng.names(1)[0], "x": rng.tensor(2, size, dtype=dtype, low=1, high=2), "dead": dead}

    def probe(student, name, x, dead):
        first = x.clone()
        first[:, dead] *= -1
        model = nn.Sequential()
        model.add_module(name, nn.ReLU())
        witness = Witness(model=model, x=x, first=first)
        result = student.dead_channels(model, [first, -x])
        return {"result": result, "changed": witness.changes()}

    mistakes = (
        Mistake(
            "last-batch-only",
            lambda seen, name, x: seen["result"].value == {name: list(range(x.shape[1]))},
            "You listed every channel that is 0 in the last batch. A channel is dead when it is 0 in all batches.",
        ),
    )

    def test_the_dead_channels_are_found(seen, name, dead):
        expect(seen["result"]).equals({name: dead})

    def test_everything_else_is_as_it_was(seen):
        nothing_changed(seen["changed"])
