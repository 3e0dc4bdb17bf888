"""Exercise 02-norm-log."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

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
    fill_grad,
    laid_out,
    nothing_changed,
    prepared,
    snapshot,
)
from graders.lesson_02_watching_gradients.judging import LEFT_AFTER_EXCEPTION, OLD, digits, factor, without_zeros
from graders.lesson_02_watching_gradients.shared import plain

PASSES = {
    "linear": lambda p, k: k * p.sum(),
    "square": lambda p, k: k * (p * p).sum(),
    "flat": lambda p, k: (0 * p).sum() + k,
}


def pass_gradient(kind: str, k: float, p: Tensor) -> Tensor:
    """The gradient of a loss of `PASSES` in closed form."""
    return {"linear": torch.full_like(p, k), "square": 2 * k * p, "flat": torch.zeros_like(p)}[kind]


@exercise(
    "02-norm-log",
    points=2,
    minutes=15,
    difficulty=2,
    core=True,
    title="Log the norm of every pass",
    hints=(
        "After the first pass `p.grad` is a sum over passes. It is not the gradient of this pass.",
        "A hook on `p` sees exactly the gradient of this pass. The L2 norm of a tensor of any shape is `grad.norm()`.",
        "The handle is a context manager: `with p.register_hook(fn):` removes the hook at the end of the block, "
        "even when a loss raises.",
    ),
    why=(
        "A hook sees the gradient of one pass, whatever `p.grad` held before, and the `with` block removes it even "
        "when a loss raises. You could also put `p.grad` aside for each pass and add it again afterwards, with "
        "`try` and `finally` in case a loss raises."
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
            "failure": ALL,
            "failing_run": ALL,
        },
        excludes={
            "number": "there is no number among the arguments",
            "model": "it gets the weight of a layer, and no model",
            "hooked": "there is no model; the hooks sit on p",
            "grad_mode": "`backward()` needs it switched on, as in the plain loop",
            "backward": "the function runs the passes itself",
        },
        own={"spoilt": ("no", "yes"), "raised_in": ("loss", "backward")},
        impossible=[lambda grad, spoilt: grad == "empty" and spoilt == "yes"],
        pairs=[("dtype", "place")],
        at_least=5,
    ),
)
class TestNormLog:
    """Write `norm_log(p, losses)`. `p` is a leaf that requires grad, and `losses` is a list of functions, each from `p`
    to a scalar tensor that depends on `p`. For each loss in order, run `loss(p).backward()` once. Return a list with
    one Python float for each: the L2 norm of the gradient of that pass alone, as the hooks that were on `p` have left
    it. The L2 norm is the square root of the sum of all squared entries.

    `p.grad` may hold anything at the start, even `inf`, and ends as the plain loop would leave it, also when a loss
    raises: each pass adds to it.

    **Example.** For `p = tensor([1., 2.])` and
    `losses = [lambda p: (torch.tensor([3., 4.]) * p).sum(), lambda p: 2 * p[0]]` the result is `[5.0, 2.0]`, and
    `p.grad` ends as `tensor([5., 4.])`.
    """

    def draw(rng, dtype, rank, layout, values, collection):
        kinds = [["linear", rng.uniform(1, 4)], ["square", rng.uniform(0.5, 2)], ["flat", 1.0]]
        kinds = [*rng.shuffled(kinds), ["linear", rng.uniform(1, 4)]]
        which = {"empty": [], "one": [3], "many": [0, 1, 2, 3], "repeated": [0, 1, 0, 2, 3, 1]}[collection]
        rows, inner, outer = rng.integer(2, 4), rng.integer(2, 4), rng.integer(2, 4)
        return {
            "p": rng.tensor(*rng.shape(rank), dtype=dtype, values=digits(dtype, values), layout=layout),
            "losses": [kinds[index] for index in which],
            "which": which,
            "weight": rng.tensor(outer, inner, dtype=dtype, low=-1.0, high=1.0),
            "bias": rng.tensor(outer, dtype=dtype),
            "points": [rng.tensor(rows, inner, dtype=dtype, low=-2.0, high=2.0) for _ in range(2)],
            "targets": [rng.tensor(rows, outer, dtype=dtype) for _ in range(2)],
        }

    def alive(p, losses, grad, spoilt):
        # The norm of a sum must differ from the norm of its last part.
        norms, sums = norms_of(pass_gradients(p, losses)), accumulated(p, losses, grad, spoilt)
        return all(abs(a - b.norm().item()) > 0.05 for a, b in zip(norms[1:], sums[2:]))

    def oracle(p, losses, hooks, weight, bias, points, targets):
        gradients = [factor(hooks) * gradient for gradient in pass_gradients(p, losses)]
        layer = layer_gradients(weight, bias, points, targets)
        return [norms_of(gradients), sum(gradients, torch.zeros_like(p)), norms_of([w for w, _ in layer]), layer]

    def probe(
        student,
        p,
        losses,
        which,
        layout,
        place,
        grad,
        spoilt,
        hooks,
        call,
        failure,
        failing_run,
        raised_in,
        weight,
        bias,
        points,
        targets,
    ):
        values = p
        p = prepared(values, layout=layout, place=place, grad=grad)
        if spoilt == "yes":
            p.grad.view(-1)[0] = math.inf
        CallersHooks(hooks).on_parameter(p, "p")
        log = []

        def counted(index, kind, k):
            def function(q):
                log.append(f"loss {index}")
                loss = PASSES[kind](q, k)
                loss.register_hook(lambda gradient: log.append(f"backward {index}"))
                return loss

            return function

        made = {index: counted(index, kind, k) for index, (kind, k) in zip(which, losses)}
        functions = [made[index] for index in which]
        witness = Witness(p=p, losses=functions)
        seen = {"norms": plain(student.norm_log(p, functions)), "log": log[:60], "p.grad": snapshot(p.grad),
                "changed": witness.changes()}  # fmt: skip
        if call == "again":
            seen["again"], seen["p.grad again"] = plain(student.norm_log(p, functions)), snapshot(p.grad)

        fresh = prepared(values, layout=layout, place=place, grad=grad)
        CallersHooks(hooks).on_parameter(fresh, "p")
        boom = Failure(failure, failing_run)

        def failing(q):
            if raised_in == "loss":
                boom.strike()
            loss = (2 * q).sum()
            if raised_in == "backward":
                loss.register_hook(boom.strike)
            return loss

        witness = Witness(p=fresh)
        seen["failure"] = boom.during(lambda: student.norm_log(fresh, [failing, failing, failing]))
        seen |= {"p.grad after an exception": snapshot(fresh.grad), "changed_after": witness.changes()}

        layer = nn.Linear(weight.shape[1], weight.shape[0], dtype=weight.dtype)
        layer.load_state_dict({"weight": weight, "bias": bias})
        layer.weight = nn.Parameter(laid_out(weight, "transposed"))
        fill_grad(layer.bias)
        squared = [lambda w, x=x, y=y: (layer(x) - y).square().mean() for x, y in zip(points, targets)]
        seen["layer"] = plain(student.norm_log(layer.weight, squared))
        seen |= {"weight.grad": layer.weight.grad, "bias.grad": layer.bias.grad}
        times = []

        def growing(q):
            times.append(1)
            return len(times) * q.sum()

        seen["one loss three times"] = plain(student.norm_log(prepared(values, layout=layout), [growing] * 3))
        two = torch.tensor([1.0, 2.0], requires_grad=True)
        unknown = student.norm_log(two, [lambda p: (torch.tensor([3.0, math.nan]) * p).sum()])
        seen["nan"] = [str(norm) for norm in unknown] if isinstance(unknown, list) else unknown
        seen["empty"] = plain(student.norm_log(torch.zeros(0, 2, requires_grad=True), [torch.sum]))
        two.grad = None
        example = student.norm_log(two, [lambda p: (torch.tensor([3.0, 4.0]) * p).sum(), lambda p: 2 * p[0]])
        return {**seen, "example": plain(example), "example.grad": two.grad}

    mistakes = (
        Mistake("accumulated-grad", lambda seen: close(seen["example"], [5.0, 41**0.5])),
        Mistake(
            "zeros-left-out",
            lambda seen, p, losses, hooks: (
                len(without_zeros(pass_gradients(p, losses))) < len(losses)
                and close(
                    seen["norms"],
                    norms_of([factor(hooks) * gradient for gradient in without_zeros(pass_gradients(p, losses))]),
                )
            ),
        ),
        Mistake(
            "difference-of-sums",
            lambda seen, spoilt: (
                spoilt == "yes"
                and close(seen["example"], [5.0, 2.0])
                and any(type(entry.value) is float and not math.isfinite(entry.value) for entry in seen["norms"])
            ),
            "You subtract what `p.grad` held before from what it holds after the pass. With large numbers in `p.grad` "
            "the digits of the gradient are lost, and `inf - inf` is NaN. A hook gets the gradient itself.",
        ),
        Mistake(
            "cleared-callers-grad",
            lambda seen: close(seen["example"], [5.0, 2.0]) and close(seen["example.grad"], torch.tensor([2.0, 0.0])),
            "The norms are right, but `p.grad` holds the last gradient alone. Do not clear it: the caller needs the "
            "sum over all passes, on top of what `p.grad` held before.",
        ),
        Mistake(
            "never-accumulated",
            lambda seen: close(seen["example"], [5.0, 2.0]) and seen["example.grad"].value is None,
            "The norms are right, but no pass wrote `p.grad`. Run `backward()`: the caller needs the sum over all "
            "passes, on top of what `p.grad` held before.",
        ),
        Mistake(
            "only-p-accumulates",
            lambda seen: close(seen["bias.grad"], OLD) and seen["example.grad"].value is not None,
            "`p.grad` was filled, and that of another leaf in a loss was not: `torch.autograd.grad` writes none. "
            "Run `loss(p).backward()`, and let a hook on `p` take the norm.",
        ),
        Mistake(
            "spectral-norm",
            lambda seen, weight, bias, points, targets: close(
                seen["layer"],
                [torch.linalg.matrix_norm(w, 2).item() for w, _ in layer_gradients(weight, bias, points, targets)],
            ),
            "For a matrix, `torch.linalg.norm(grad, 2)` is the largest singular value. The L2 norm is that of all "
            "entries, whatever the shape: `grad.norm()`, or `torch.linalg.vector_norm(grad)`.",
        ),
        Mistake(
            "hook-left-behind",
            lambda seen: (
                bool(changes(seen["changed"], "hook-left *")) and not changes(seen["changed"], "hook-removed *")
            ),
            "A hook is still registered after your function returned (or after each pass, so that the next one runs "
            "it again). Keep the handle and call its `remove()`.",
        ),
        Mistake(
            "hook-left-after-exception",
            lambda seen: not changes(seen["changed"], "hook-*") and bool(changes(seen["changed_after"], "hook-left *")),
            LEFT_AFTER_EXCEPTION,
        ),
    )

    def test_each_pass_has_its_own_norm(seen, p, losses, hooks):
        expect_norms(seen["norms"], norms_of([factor(hooks) * gradient for gradient in pass_gradients(p, losses)]), p)

    def test_one_loss_may_differ_from_call_to_call(seen, p):
        expect_norms(seen["one loss three times"], [k * p.numel() ** 0.5 for k in (1, 2, 3)], p)

    def test_a_gradient_with_nan_has_the_norm_nan(seen):
        expect(seen["nan"]).equals(["nan"])

    def test_a_gradient_without_entries_has_the_norm_0(seen):
        expect_norms(seen["empty"], [0.0], torch.zeros(1))

    def test_another_call_starts_afresh(seen, p, losses, grad, spoilt, hooks, call):
        if call == "again":
            gradients = pass_gradients(p, losses)
            expect_norms(seen["again"], norms_of([factor(hooks) * gradient for gradient in gradients]), p)
            expect_sum(seen["p.grad again"], accumulated(p, [*losses, *losses], grad, spoilt, hooks), grad)

    def test_it_works_on_the_weight_of_a_layer(seen, weight, bias, points, targets):
        gradients = layer_gradients(weight, bias, points, targets)
        expect_norms(seen["layer"], norms_of([gradient for gradient, _ in gradients]), weight)
        expect(seen["weight.grad"]).close_to(sum(gradient for gradient, _ in gradients))
        expect(seen["bias.grad"]).close_to(OLD + sum(gradient for _, gradient in gradients))

    def test_p_grad_accumulates_over_single_passes(seen, p, losses, which, grad, spoilt, hooks):
        expect_sum(seen["p.grad"], accumulated(p, losses, grad, spoilt, hooks), grad)
        expect(seen["log"]).timeline([event for index in which for event in (f"loss {index}", f"backward {index}")])

    def test_nothing_else_changes(seen):
        nothing_changed(seen["changed"], but=["grad-* p"])

    def test_an_exception_comes_through_and_leaves_what_the_plain_loop_leaves(seen, p, grad, hooks, failing_run):
        came_through(seen["failure"], "a loss or its `backward()`")
        nothing_changed(seen["changed_after"], but=["grad-* p"], when="after an exception")
        done = [] if failing_run == "first" else [["linear", 2.0]]
        expect_sum(seen["p.grad after an exception"], accumulated(p, done, grad, "no", hooks), grad)

    def test_the_example_of_the_contract_comes_out(seen):
        expect_norms(seen["example"], [5.0, 2.0], torch.zeros(1))
        expect(seen["example.grad"]).close_to(torch.tensor([5.0, 4.0]))


def pass_gradients(p: Tensor, losses: list[tuple[str, float]]) -> list[Tensor]:
    """The gradient of each loss."""
    return [pass_gradient(kind, k, p) for kind, k in losses]


def norms_of(gradients: list[Tensor]) -> list[float]:
    """The L2 norm of each."""
    return [gradient.square().sum().sqrt().item() for gradient in gradients]


def accumulated(
    p: Tensor, losses: list[tuple[str, float]], grad: str, spoilt: str, hooks: str = "none"
) -> list[Tensor]:
    """What `p.grad` holds at the start, and after each pass."""
    total = torch.full_like(p, OLD if grad == "filled" else 0.0)
    if spoilt == "yes":
        total.view(-1)[0] = math.inf
    found = [total]
    for gradient in pass_gradients(p, losses):
        found.append(found[-1] + factor(hooks) * gradient)
    return found


def layer_gradients(
    weight: Tensor, bias: Tensor, points: list[Tensor], targets: list[Tensor]
) -> list[tuple[Tensor, Tensor]]:
    """The gradients of the mean squared error for weight and bias, in closed form, for each batch."""
    found = []
    for x, y in zip(points, targets):
        errors = 2 * (x @ weight.T + bias - y) / y.numel()
        found.append((errors.T @ x, errors.sum(0)))
    return found


def expect_norms(norms: Seen, expected: list[float], p: Tensor) -> None:
    """A list of Python floats."""
    expect(norms).has_length(len(expected), "norms")
    limit = 1e-9 if p.dtype == torch.float64 else None
    for entry, norm in zip(norms, expected):
        expect(entry).close_to(norm, rtol=limit, atol=limit)
        if type(entry.value) is not float:
            expect(entry).fail("expected a Python float; `.item()` makes one of a tensor")


def expect_sum(seen: Seen, totals: list[Tensor], grad: str) -> None:
    """What `.grad` holds at the end; with no pass, what it held at the start."""
    if grad == "empty" and len(totals) == 1:
        expect(seen).equals(None)
    else:
        expect(seen).close_to(totals[-1])
