"""Exercise 02-grads-by-name."""

from __future__ import annotations

import torch
from torch import Tensor

from graders.authoring import (
    ALL,
    CallersHooks,
    Circumstances,
    Failure,
    Mistake,
    Seen,
    Witness,
    came_through,
    changes,
    close,
    exercise,
    expect,
    nothing_changed,
    prepared,
    shares_storage,
    snapshot,
)
from graders.lesson_02_watching_gradients.judging import LEFT_AFTER_EXCEPTION, OLD, digits, factor
from graders.lesson_02_watching_gradients.shared import plain, zero_in_place

CHOSEN = {
    "empty": [],
    "one": ["b"],
    "many": ["off", "x", "still", "a", "b"],
    "repeated": ["x", "a", "off", "b", "a"],
}
"""The parts of the probe's graph that get a name."""


@exercise(
    "02-grads-by-name",
    points=2,
    minutes=20,
    difficulty=2,
    core=True,
    title="Gradients by name",
    hints=(
        "Register one hook for each name; the hook writes the gradient into a dict under that name.",
        "Mind the loop variable: a hook runs long after the loop has ended. Bind the name with a default argument.",
        "Call `remove()` on every handle in a `finally` block, so that it also happens when `backward()` raises.",
    ),
    why=(
        "The hook of a tensor is called only if the gradient reaches it, so the names of the others are absent "
        "without further ado. `name=name` binds each name at once; `functools.partial` does that, too, and an "
        "`ExitStack` can take the place of `try` and `finally`."
    ),
    circumstances=Circumstances(
        covers={
            "dtype": ALL,
            "rank": ALL,
            "layout": ALL,
            "values": ALL,
            "place": ("leaf", "parameter"),
            "grad": ALL,
            "collection": ALL,
            "hooks": ALL,
            "call": ALL,
            "grad_mode": ALL,
            "failure": ALL,
        },
        excludes={
            "number": "there is no number among the arguments",
            "model": "there is no model",
            "hooked": "there is no model; the hooks sit on tensors of the dict",
            "backward": "the function runs the pass itself",
            "failing_run": "there is one pass",
        },
        own={"retained": ("no", "yes")},
        pairs=[("dtype", "place")],
        at_least=5,
    ),
)
class TestGradsByName:
    """Write `grads_by_name(tensors, loss)`. `tensors` is a dict from names (any strings) to tensors that require grad:
    leaves or not, also `loss` itself, also one under two names. `loss` is a scalar. Run `loss.backward()` exactly once,
    without arguments, and return a dict from names to gradients, for those tensors that the gradient reached, even if
    it is zero. Names of the others are absent.

    Each gradient is a copy of its own with the dtype of its tensor, taken after the hooks that were on the tensor
    before. Leaves accumulate their `.grad` as usual, and so do tensors on which the caller called `retain_grad()`. The
    others get no `.grad`, and `retains_grad` stays as it is.

    **Example.** With `b = tensor([3.], requires_grad=True)` and `c = b * b`, `grads_by_name({"b": b, "c": c}, c.sum())`
    returns `{"b": tensor([6.]), "c": tensor([1.])}`.
    """

    def draw(rng, dtype, rank, layout, values):
        first, second = rng.names(2)
        # Names that differ in one sign only, and names that are no identifiers.
        names = rng.shuffled([f"{first}.{second}", f"{first}_{second}", f"{first} {second}", second, f"0.{first}"])
        shape = rng.shape(rank)
        return {
            "x": rng.tensor(*shape, dtype=dtype, layout=layout, values=digits(dtype, values), low=-1.5, high=1.5),
            "names": names,
            # The empty name, names that differ in white space only; a tensor without elements, and the loss itself.
            "odd_names": ["", first, f"{first}\n", "no elements", "the loss"],
        }

    def oracle(x, hooks):
        return [list(gradients_of(x, hooks).values()), 4 * x * x]

    def probe(student, x, names, odd_names, layout, place, grad, collection, hooks, call, grad_mode, failure, retained):
        values = x

        def graph():
            """A leaf and what is computed from it; a tensor off the path; one that a zero gradient reaches."""
            x = prepared(values, layout=layout, place=place, grad=grad)
            a = 2 * x
            b = torch.tanh(a)
            off, still = 2 * prepared(values), 2 * prepared(values)
            if retained == "yes":
                b.retain_grad()
            loss = (b * b).sum() + (0 * still).sum()
            passes = []
            loss.register_hook(lambda gradient: passes.append(1))
            CallersHooks(hooks).on_parameter(x, "x").on_tensor(b, "b")
            return {"x": x, "a": a, "b": b, "off": off, "still": still}, loss, passes

        (parts, loss, passes), other = graph(), graph()
        tensors = {name: parts[part] for name, part in zip(names, CHOSEN[collection])}
        with torch.set_grad_enabled(grad_mode == "on"):
            witness = Witness(**parts, loss=loss, tensors=tensors)
            grads = plain(student.grads_by_name(tensors, loss))
            seen = {"changed": witness.changes()}
        entries = list(grads.values()) if isinstance(grads, dict) else []
        tied = [shares_storage(entry, other) for index, entry in enumerate(entries) for other in entries[:index]]
        others = [
            shares_storage(entry, t.grad) for entry in entries for t in parts.values() if t.is_leaf or t.retains_grad
        ]
        seen |= {"passes": len(passes), "shared": any(tied) or any(others), "x.grad": snapshot(parts["x"].grad),
                 "b.grad": parts["b"].grad if retained == "yes" else None}  # fmt: skip
        try:
            loss.backward()
            seen["graph_freed"] = False
        except RuntimeError:
            seen["graph_freed"] = True
        seen["grads"] = grads
        if call == "again":
            x = parts["x"]
            seen["again"] = plain(student.grads_by_name({names[0]: x, names[1]: parts["off"]}, (x * x).sum()))
        elif call == "in turn":
            parts, loss, _ = other
            both = {name: parts[part] for name, part in zip(names[1:], ("b", "a"))}
            seen["in turn"] = plain(student.grads_by_name(both, loss))

        x = prepared(values, layout=layout)
        c = 3 * x
        d = c + 1  # the same buffer is the gradient of both
        c.register_hook(zero_in_place)
        seen["overwritten"] = plain(student.grads_by_name({"d": d, "d once more": d, "c": c, "x": x}, (d * d).sum()))

        unlike = [prepared(values, layout=layout) for _ in range(3)]
        for t in unlike:
            t.grad = torch.full_like(t, torch.inf)
        unlike.append(torch.zeros(0, 2, dtype=values.dtype, requires_grad=True))
        other_dtype = torch.float32 if values.dtype == torch.float64 else torch.float64
        loss = sum((k * t * t).sum() for k, t in enumerate(unlike, 1)).to(other_dtype)
        odd = dict(zip(odd_names, [*unlike, loss]))
        inner, within = torch.ones(2, requires_grad=True), []
        inner_loss = (3 * inner).sum()

        def call_within(grad):
            if not within:
                within.append(plain(student.grads_by_name({odd_names[0]: inner}, inner_loss)))

        unlike[1].register_hook(call_within)
        seen["entries of every kind"] = plain(student.grads_by_name(odd, loss))
        seen["of a call within the pass"] = within[0] if within else None

        c = 3 * x
        d, e = c * c, 2 * x
        boom = Failure(failure)
        CallersHooks(hooks).on_tensor(d, "d")
        c.register_hook(boom.strike)
        summed = d.sum()
        with torch.set_grad_enabled(grad_mode == "on"):
            witness = Witness(c=c, d=d, x=x, e=e)
            seen["failure"] = boom.during(lambda: student.grads_by_name({"c": c, "d": d, "x": x, "e": e}, summed))
            seen["changed_after"] = witness.changes()

        b, beside = (torch.tensor([3.0], requires_grad=True) for _ in range(2))
        student.grads_by_name({"b": b}, (b * beside).sum())
        seen["beside.grad"] = snapshot(beside.grad)
        b = torch.tensor([3.0], requires_grad=True)
        c = b * b
        return {**seen, "example": plain(student.grads_by_name({"b": b, "c": c}, c.sum()))}

    mistakes = (
        Mistake(
            "late-binding",
            lambda seen: seen["example"].keys == ["c"] and close(seen["example"]["c"], 6.0),  # that of b
        ),
        Mistake(
            "dot-grad-on-non-leaf",
            lambda seen: bool(changes(seen["changed"], "retains-grad *")),
            "`retain_grad()` leaves `.grad` behind on the caller's tensors, and `None` where no gradient came. "
            "A hook hands you the gradient and leaves nothing behind.",
        ),
        Mistake(
            "a-key-for-everybody",
            lambda seen: (
                any(entry.value is None for entry in (seen["grads"][key] for key in seen["grads"].keys))
                and not changes(seen["changed"], "retains-grad *")
            ),
            "Your dict has an entry for a tensor that no gradient reached. Its name has to be absent: let the hook "
            "make the entry.",
        ),
        Mistake(
            "stored-alias",
            lambda seen: close(seen["overwritten"]["d"], 0.0),
        ),
        Mistake(
            "zeros-left-out",
            lambda seen, x, names, collection, hooks: (
                "still" in CHOSEN[collection]
                and close(
                    seen["grads"],
                    {
                        name: gradient
                        for name, gradient in chosen_gradients(x, names, collection, hooks).items()
                        if gradient.any()
                    },
                )
            ),
        ),
        Mistake(
            "never-accumulated",
            lambda seen: seen["beside.grad"].value is None,
            "No pass wrote `.grad` of a leaf that is not in the dict: `torch.autograd.grad` writes none. Run "
            "`loss.backward()`, and let hooks collect the gradients.",
            rather_than=("stored-alias",),
        ),
        Mistake(
            "hook-left-behind",
            lambda seen: bool(changes(seen["changed"], "hook-left *")),
        ),
        Mistake(
            "hook-left-after-exception",
            lambda seen: not changes(seen["changed"], "hook-*") and bool(changes(seen["changed_after"], "hook-left *")),
            LEFT_AFTER_EXCEPTION,
        ),
    )

    def test_every_reached_tensor_has_its_gradient(seen, x, names, collection, hooks):
        expect_gradients(seen["grads"], chosen_gradients(x, names, collection, hooks))

    def test_another_call_has_its_own_gradients(seen, x, names, hooks, call):
        every = gradients_of(x, hooks)
        if call == "again":
            expect_gradients(seen["again"], {names[0]: factor(hooks) * 2 * x})
        elif call == "in turn":
            expect_gradients(seen["in turn"], {names[1]: every["b"], names[2]: every["a"]})
        expect_gradients(seen["of a call within the pass"], {"": torch.full((2,), 3.0)})

    def test_each_has_the_dtype_of_its_tensor_and_any_name(seen, x, odd_names):
        other_dtype = torch.float32 if x.dtype == torch.float64 else torch.float64
        expected = [*(2 * k * x for k in (1, 2, 3)), x.new_zeros(0, 2), torch.ones((), dtype=other_dtype)]
        expect_gradients(seen["entries of every kind"], dict(zip(odd_names, expected)))

    def test_every_gradient_is_a_copy(seen, x):
        for name in ("d", "d once more"):
            expect(seen["overwritten"][name]).close_to(2 * (3 * x + 1))
        for name in ("c", "x"):
            expect(seen["overwritten"][name]).close_to(torch.zeros_like(x))
        expect(seen["shared"]).is_false("an entry shares its memory with another entry or with a `.grad`")

    def test_backward_runs_once_and_leaves_accumulate(seen, x, grad, hooks, retained):
        every = gradients_of(x, hooks)
        expect(seen["passes"]).equals(1)
        expect(seen["graph_freed"]).is_true(
            "the graph is still alive: `retain_graph=True` and `create_graph=True` keep it; run it without arguments"
        )
        expect(seen["x.grad"]).close_to((OLD if grad == "filled" else 0.0) + every["x"])
        expect(Seen(seen["beside.grad"].value, "`.grad` of a leaf that is not in the dict")).close_to(
            torch.tensor([3.0])
        )
        if retained == "yes":
            expect(seen["b.grad"]).close_to(every["b"])

    def test_nothing_else_changes(seen, retained):
        nothing_changed(seen["changed"], but=["grad-* x"] + ["grad-filled b"] * (retained == "yes"))

    def test_an_exception_comes_through_and_nothing_is_left(seen):
        came_through(seen["failure"], "`backward()`")
        nothing_changed(seen["changed_after"], but=["grad-* x"], when="after an exception")

    def test_the_example_of_the_contract_comes_out(seen):
        expect_gradients(seen["example"], {"b": torch.tensor([6.0]), "c": torch.tensor([1.0])})


def gradients_of(x: Tensor, hooks: str) -> dict[str, Tensor]:
    """The gradients of the parts of the graph that the loss reaches, in closed form."""
    b = torch.tanh(2 * x)
    k = factor(hooks)
    a = k * 2 * b * (1 - b * b)
    return {"b": k * 2 * b, "a": a, "x": k * 2 * a, "still": torch.zeros_like(x)}


def chosen_gradients(x: Tensor, names: list[str], collection: str, hooks: str) -> dict[str, Tensor]:
    """The gradients that are expected by name."""
    every = gradients_of(x, hooks)
    return {name: every[part] for name, part in zip(names, CHOSEN[collection]) if part in every}


def expect_gradients(grads: Seen, expected: dict[str, Tensor]) -> None:
    """A dict with exactly these names and gradients."""
    expect(grads).has_keys(*expected)
    for name, gradient in expected.items():
        expect(grads[name]).close_to(gradient)
