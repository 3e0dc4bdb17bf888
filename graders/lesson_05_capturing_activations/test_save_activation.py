"""Exercise 05-save-activation."""

from __future__ import annotations

import io
import tempfile
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from graders.authoring import (
    ALL,
    FACTOR,
    SILENT,
    Circumstances,
    Mistake,
    Seen,
    apart,
    close,
    exactly,
    exercise,
    expect,
    refuse,
)
from graders.lesson_05_capturing_activations.judging import (
    BEFORE_THE_CALLERS_HOOK,
    MISTAKES,
    PLAIN,
    RETURNED_A_LIST,
    Layers,
    Twin,
    in_a_row,
    lookalike,
    net_of,
    of_any_shape,
    outputs_of,
    ran_once_as_it_is,
    result_of,
    run_of,
    same_numbers,
    scrambled,
    stays,
    stays_when_the_model_raises,
    varied,
    went_on,
)
from graders.lesson_05_capturing_activations.shared import (
    IN_PLACE,
    Shift,
    asked_in_a_row,
    asked_of_any_shape,
    asked_of_varied,
    assembled,
    observed,
    plain_tuple,
)


@exercise(
    "05-save-activation",
    points=2,
    minutes=15,
    difficulty=2,
    title="Save an activation to a file",
    hints=(
        "A view knows only where to look in the storage of another tensor, and `torch.save` writes that whole storage. "
        "`clone()` makes a tensor with a storage of its own.",
        "Only the first call counts. Keep what the hook stored first, and let later calls change nothing.",
        "Detach and clone inside the hook, before anything can rewrite the output. Write the file there or afterwards.",
    ),
    why=(
        "A view is saved with the whole storage that it looks into, so what goes to the file is a clone. The hook "
        "could also write the file itself and remove its own handle in the first call; then nothing has to be kept "
        "until the model is done."
    ),
    circumstances=Circumstances(
        covers={
            "dtype": ALL, "layout": ALL, "grad": ALL, "values": ALL, "mode": ALL, "frozen": ALL,
            "named": ("first", "last", "nested"), "output": ALL, "follower": ALL, "passing": ALL, "registered": ALL,
            "layers": ALL, "hooks": ALL, "hooked": ALL, "call": ALL, "grad_mode": ALL, "failure": ALL,
            "failing_run": ALL,
        },
        excludes={
            "rank": "the model says which: the inputs have 2 or 4 dimensions",
            "place": "the input is a leaf, or data",
            "number": "no number is an argument",
            "collection": "there is no collection",
            "tied": "parameters are not looked at",
            "backward": "it runs no backward pass",
        },
        own={
            "x_is": ("data", "a leaf"), "calls": (1, 2, 5), "view": ("columns", "rows"), "path_is": ("str", "Path"),
            "file": ("none", "an old one"),
        },
        pairs=[("hooks", "hooked"), ("calls", "follower"), ("calls", "file")],
        impossible=[lambda hooks, hooked: hooks == "none" and hooked != "root"],
    ),
)  # fmt: skip
class TestSaveActivation:
    """Write `save_activation(model, name, x, path)`. Run the model on `x`. Write the output of the *first* call of its
    submodule `name` (never `""`, the model itself) to the file `path` with `torch.save`, and return the shape of that
    output as a tuple of ints.

    - The submodule is called once or more often, and its outputs are `float32` or `float64` tensors.
    - The file holds one plain CPU tensor that does not require grad, with the values and the dtype of the output. It
      holds no values besides these: the output may be a small view into a large tensor.
    - `path` is a `str` or a `pathlib.Path`, and need not end in `.pt`. A file that is already there is overwritten. No
      other file is left behind. If the model raises, you may write the file or not.
    - The model goes on with the outputs themselves, as it does without you.

    **Example.** For `model = nn.Sequential(nn.Flatten(), nn.ReLU())` and `x = torch.tensor([[-1., 2.]])`,
    `save_activation(model, "1", x, "relu.pt")` returns `(1, 2)`. Then `torch.load("relu.pt")` gives
    `tensor([[0., 2.]])`.
    """

    tolerance = (1e-4, 1e-4)

    def draw(rng, named, calls, view, output, follower, passing, registered, **case):
        draws = Layers(rng, case)
        target, shift, norm, body, other, plain, window, layer = rng.names(8)
        in_place = [IN_PLACE] if follower == "in-place" else []
        children = {plain: draws.plain(), shift: draws.shift(registered), norm: draws.norm()}
        around = [plain, shift, norm]
        if named == "nested":
            inside = scrambled(rng, {target: draws.target("counting"), other: ["tanh"]}, [other, target])
            children[body] = ["net", inside, [target, *in_place, other], output, passing]
            name, rounds = f"{body}.{target}", [body] * calls
        else:
            children[target] = draws.target("counting")
            name, rounds = target, [target, *in_place] * calls
        steps = {"first": [*rounds, *around], "last": [*around, *rounds]}.get(named, [plain, shift, *rounds, norm])
        spec = ["net", {**lookalike(name), **scrambled(rng, children, steps)}, steps, output, passing]
        flat = Layers(rng, case, "linear")
        return {
            "net": net_of(spec, [name], case),
            "name": name,
            # Who removes the hook in the hook itself is seen where the module is not called at all.
            "run": run_of(case, name if case["failure"] == "KeyboardInterrupt" else norm, rounds=3),
            "x": draws.x(case["layout"]),
            "later": draws.x(case["layout"]),
            "wide": ["net", {window: ["window", view], layer: flat.plain()}, [layer, window], "tensor", "position"],
            "window": window,
            "page": flat.x(batch=4),
            "old": draws.x(),
            "shaped": draws.of_any_shape(),
            "plain": draws.plain_x(),
        }

    def alive(net, name, x, later, old):
        outputs = captured(net, name, x)
        return apart(*outputs, *(-0.5 * y for y in outputs), captured(net, name, later)[0], old)

    def oracle(net, name, x, later):
        twin = Twin(net)
        return [[call.y for call in twin.run(t)] for t in (x, later)] + [twin.statistics]

    def probe(student, net, name, x, later, run, wide, window, page, old, shaped, plain, path_is, file):
        with tempfile.TemporaryDirectory() as folder:
            paths, older = [], io.BytesIO()
            torch.save(old, older)

            def ask(model, named, t):
                paths.append(path := Path(folder) / (f"{len(paths)}.activation" if len(paths) % 2 else f"{len(paths)}"))
                if file == "an old one":
                    path.write_bytes(older.getvalue())
                shape = student.save_activation(model, named, t, str(path) if path_is == "str" else path)
                return {"path": path, "shape": plain_tuple(shape)}

            seen = observed(ask, net, name, x, later, **run)
            seen["view"] = ask(assembled(wide), window, page)
            seen["example"] = ask(nn.Sequential(nn.Flatten(), nn.ReLU()), "1", torch.tensor([[-1.0, 2.0]]))
            seen["of any shape"] = asked_of_any_shape(ask, shaped)
            seen["in a row"] = asked_in_a_row(ask, ["1", "2"], plain)
            seen["of varied"] = asked_of_varied(ask, plain)
            act = nn.ReLU()
            seen["zeros"] = ask(nn.Sequential(act, Shift(1.0), act), "0", -torch.ones(1, 2))
            answers = [
                seen[key] for key in ("result", "later", "afterwards", "view", "zeros", "example") if key in seen
            ]
            for answer in (*answers, *seen["of any shape"], *seen["in a row"], *seen["of varied"]):
                answer |= content(answer.pop("path"))
            used = paths[0]
            student.save_activation(assembled(wide), window, -page, str(used) if path_is == "str" else used)
            seen["at a path that was used"] = content(used)
            others = {path.name for path in Path(folder).iterdir()} - {path.name for path in paths}
        return {**seen, "other files": len(others)}

    mistakes = (
        Mistake(
            "saved-with-grad",
            lambda seen: getattr(seen["result"]["tensor"].value, "requires_grad", False),
            "The tensor in the file requires grad: whoever loads it would train on it by accident. "
            "Detach before saving.",
        ),
        Mistake(
            "stored-alias",
            lambda seen, net, name, x, follower: (
                (close(seen["result"]["tensor"], -0.5 * captured(net, name, x)[0]) and seen["goes on"].value is True)
                if follower == "in-place"
                else SILENT
            ),
        ),
        Mistake(
            "only-last-call",
            lambda seen, net, name, x: close(seen["result"]["tensor"], captured(net, name, x)[-1]),
            "The module ran more than once, and each call overwrote what you had saved. The task asks for the output "
            "of its first call.",
        ),
        Mistake(
            "saved-the-whole-storage",
            lambda seen, net, name, x: (
                close(seen["result"]["tensor"], captured(net, name, x)[0]) and (seen["view"]["unseen"].value or 0) > 0
            ),
            "The output was a small view into a large tensor, and `torch.save` wrote the whole storage behind the "
            "view. `clone()` makes a tensor that holds its own values only; `contiguous()` need not.",
        ),
        Mistake(
            "kept-the-old-file",
            lambda seen, old: close(seen["result"]["tensor"], old) and seen["other files"].value == 0,
            "A file was already there, and you kept it. Find out in another way whether this is the first call, and "
            "overwrite old files.",
        ),
        Mistake(
            "another-file",
            lambda seen: seen["other files"].value != 0,
            "There is a file of yours besides `path`. Hand `path` to `torch.save` as it is: the name need not end in "
            "`.pt`. If you need another file on the way, remove it.",
        ),
        *MISTAKES,
        RETURNED_A_LIST,
        Mistake(
            "before-the-callers-hook",
            lambda seen, net, name, x: (
                net["hooks"] == "replacing"
                and name in net["watched"]
                and close(seen["result"]["tensor"], captured(net, name, x)[0] / FACTOR)
            ),
            BEFORE_THE_CALLERS_HOOK,
        ),
    )

    def test_the_file_holds_the_first_output(seen, net, name, x, later, call):
        for key in ("result", "afterwards"):
            holds(result_of(seen, key), captured(net, name, x)[0])
        if call != "once":
            holds(result_of(seen, "later"), captured(net, name, later, after=x if call == "again" else None)[0])

    def test_the_file_holds_its_own_values_only(seen, wide, window, page):
        holds(seen["view"], view_of(wide, window, page))
        for key in ("view", "result"):
            if unseen := expect(seen[key]["unseen"]).of_type(int):
                refuse(
                    f"besides those of the tensor, the file holds {unseen} numbers of the memory that it is a part of"
                )

    def test_it_has_the_shape_of_any_output(seen, shaped):
        for file, output in of_any_shape(seen, shaped):
            holds(file, output)

    def test_it_is_a_copy_of_what_a_layer_hands_on(seen, plain):
        for found in exactly(2, seen["in a row"]):
            holds(found, in_a_row(plain))
        for found in exactly(2, seen["of varied"]):
            holds(found, varied(plain)[0])
        holds(seen["zeros"], torch.zeros(1, 2), "the tensor in the file, of a module that gives zeros first, then ones")

    def test_a_file_of_your_own_is_overwritten(seen, wide, window, page):
        holds(
            seen["at a path that was used"], view_of(wide, window, -page), "the tensor in the file after a second call"
        )

    def test_no_other_file_is_written(seen):
        expect(seen["other files"]).equals(0)

    def test_the_shape_is_returned(seen, net, name, x, wide, window, page, shaped, plain):
        returned(seen["result"], captured(net, name, x)[0])
        returned(seen["view"], view_of(wide, window, page))
        for file, output in of_any_shape(seen, shaped):
            returned(file, output)
        for file in exactly(2, seen["of varied"]):
            returned(file, varied(plain)[0])

    def test_the_model_runs_once_as_it_is(seen, net, x):
        ran_once_as_it_is(seen, net, x)

    def test_the_model_goes_on_with_the_outputs_themselves(seen):
        went_on(seen)

    def test_nothing_of_the_caller_changes(seen):
        stays(seen)

    def test_it_holds_when_the_model_raises(seen):
        stays_when_the_model_raises(seen)

    def test_the_example_comes_out(seen):
        returned(seen["example"], torch.zeros(1, 2))
        holds(seen["example"], torch.tensor([[0.0, 2.0]]))


def content(path: Path) -> dict[str, Any]:
    """What `torch.load` reads from a file, or why it does not, and how many numbers it holds that the tensor lacks."""
    found = {"tensor": None, "unseen": None}
    if not path.exists():
        return {**found, "error": "there is no file at `path`"}
    try:
        tensor = torch.load(path, weights_only=True)
    except Exception as error:
        return {**found, "error": f"`torch.load(path, weights_only=True)` raised {type(error).__name__}"}
    if not isinstance(tensor, Tensor):
        return {**found, "tensor": tensor, "error": ""}
    unseen = tensor.untyped_storage().nbytes() // tensor.element_size() - tensor.numel()
    parameter = "the file holds an `nn.Parameter`, not a plain tensor" * isinstance(tensor, nn.Parameter)
    return {"tensor": tensor, "unseen": unseen, "error": parameter}


def captured(net: dict[str, Any], name: str, x: Tensor, after: Tensor | None = None) -> list[Tensor]:
    """The outputs of all calls of the module; `after` a run on another input."""
    twin = Twin(net)
    if after is not None:
        twin.run(after)
    return outputs_of(twin.run(x), name)


def view_of(wide: list[Any], window: str, page: Tensor) -> Tensor:
    """The small view into a large tensor."""
    net = net_of(wide, [], PLAIN)
    return captured(net, window, page)[0]


def holds(file: Seen, expected: Tensor, what: str = "the tensor in the file") -> None:
    """The file is there, `torch.load` reads it, and it holds this tensor."""
    if file["error"].value:
        refuse(str(file["error"].value))
    same_numbers(Seen(file["tensor"].value, what), expected)


def returned(file: Seen, expected: Tensor) -> None:
    """The shape of this tensor was returned."""
    expect(Seen(file["shape"].value, "the returned shape")).equals(tuple(expected.shape))
