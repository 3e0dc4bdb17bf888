"""Lesson 2. Watching gradients: Tensor.register_hook."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from graders.box.probing import Boom, expecting_boom, removed, snapshot, tensor_hooks
from graders.core.exercise import Mistake, exercise
from graders.core.expect import close, expect

NONE_HAS_NO_GRADIENT = tuple(f"'NoneType' object has no attribute '{name}'" for name in ("clone", "detach", "data"))
"""What Python says when a hook reads `.grad` before it is written, and wants to copy it."""

LEFT_AFTER_EXCEPTION = (
    "The model raised an exception, and your `remove()` was skipped. Put it into `finally`, or use the handle as a "
    "context manager: `with tensor.register_hook(...):`."
)


def zero_in_place(grad: Tensor) -> None:
    """A hook with bad manners: it overwrites the gradient that it was given."""
    grad.mul_(0)


@exercise(
    "02-record-grad",
    points=1,
    title="Record every gradient that arrives",
    hints=(
        "Register a hook on `t` with `t.register_hook(fn)`. The hook receives the gradient and may simply append it.",
        "A hook that returns `None` changes nothing, and `list.append` returns `None`.",
        "Store a copy without a graph, `grad.detach().clone()`, and return the handle that `register_hook` gave you.",
    ),
    cases=(
        {"leaf": True, "dtype": torch.float32},
        {"leaf": False, "dtype": torch.float32},
        {"leaf": False, "dtype": torch.float64},
    ),
)
class TestRecordGrad:
    """Write `record_grad(t, store)`. `t` is a tensor that requires grad, leaf or not. `store` is a list.
    From now on, every gradient that arrives at `t` is appended to `store`, one entry for each backward pass,
    `torch.autograd.grad` included. Return the handle; after `handle.remove()` nothing is appended any more.

    Each entry is a copy that nothing later can change, with the dtype of the gradient and without a graph (even when
    the pass was run with `create_graph=True`). The gradients that flow through `t` stay as they are.

    **Example.** For `y = tensor([2.], requires_grad=True)` and `record_grad(y, store)`, the call
    `(y * y).sum().backward()` leaves `store == [tensor([4.])]`.
    """

    def draw(rng, leaf, dtype):
        return {"x": rng.tensor(2, 3, dtype=dtype), "up": rng.tensor(2, 3, dtype=dtype), "leaf": leaf}

    def probe(student, x, up, leaf):
        x.requires_grad_()
        t = x if leaf else 2 * x
        hooks = tensor_hooks(x, t)
        store = []
        handle = student.record_grad(t, store)
        hooked = tensor_hooks(x, t) - hooks
        (t * t).backward(gradient=up, retain_graph=True)
        (t**3).backward(gradient=up, retain_graph=True)
        flow = snapshot(x.grad)
        (with_graph,) = torch.autograd.grad((t * t).sum(), t, create_graph=True)
        bad = t.register_hook(zero_in_place)
        (t * t * up).sum().backward(retain_graph=True)
        bad.remove()
        seen = {"store": store[:20], "x.grad": flow, "graph_flows": with_graph.requires_grad, "hooked": hooked,
                "has_remove": removed(handle)}  # fmt: skip
        count = len(store)
        (t * t).backward(gradient=up)
        return {**seen, "after_remove": len(store) - count, "hooks_left": tensor_hooks(x, t) - hooks}

    mistakes = (
        Mistake("values-not-gradients", lambda seen, x, leaf: close(seen["store"][0], x if leaf else 2 * x)),
        Mistake(
            "stored-alias",
            lambda seen, x, up, leaf: (
                close(seen["store"][0], arriving(x, up, leaf)[0]) and close(seen["store"][3], 0.0)
            ),
        ),
        Mistake(
            "no-handle",
            lambda seen: seen["has_remove"].value is False,
            "Your function has to return the handle, so that the caller can remove the hook. It is what "
            "`register_hook` gives you.",
        ),
        Mistake(
            "hooked-a-copy",
            lambda seen: seen["has_remove"].value is True and seen["store"].value == [] and seen["hooked"].value == 0,
        ),
        Mistake(
            "reads-dot-grad",
            lambda seen, x, up, leaf: (
                seen["store"][0].value is None
                or (len(seen["store"]) > 1 and any(close(seen["store"][1], total) for total in totals(x, up, leaf)))
            ),
            raises=NONE_HAS_NO_GRADIENT,
        ),
    )

    def test_every_gradient_is_recorded(seen, x, up, leaf):
        expected = arriving(x, up, leaf)
        expect(seen["store"]).has_length(len(expected), "recorded gradients")
        for entry, gradient in list(zip(seen["store"], expected))[:2]:
            expect(entry).close_to(gradient, detached=False)

    def test_entries_are_copies_without_a_graph(seen, x, up, leaf):
        for entry, gradient in zip(seen["store"], arriving(x, up, leaf)):
            expect(entry).close_to(gradient)

    def test_the_flow_is_unchanged(seen, x, up, leaf):
        first, second, *_ = arriving(x, up, leaf)
        expect(seen["x.grad"]).close_to((first + second) * (1 if leaf else 2))
        expect(seen["graph_flows"]).is_true(
            "with create_graph=True the gradient that flowed on had lost its graph: the hook returned a detached one"
        )

    def test_the_handle_removes_the_hook(seen):
        expect(seen["has_remove"]).is_true("the function returned nothing that has a remove() method")
        expect(seen["after_remove"]).equals(0)
        expect(seen["hooks_left"]).equals(0)


def arriving(x: Tensor, up: Tensor, leaf: bool) -> list[Tensor]:
    """What arrives at t in the four passes of the probe, in closed form."""
    t = x if leaf else 2 * x
    return [2 * t * up, 3 * t**2 * up, 2 * t, 2 * t * up]


def totals(x: Tensor, up: Tensor, leaf: bool) -> list[Tensor]:
    """What `t.grad` may hold in or after the second pass, for a leaf."""
    first, second, *_ = arriving(x, up, leaf)
    return [first, first + second]


@exercise(
    "02-count-and-sum",
    points=1,
    title="Count the calls and add up the gradients",
    hints=(
        "How often is the hook of a tensor called that is used twice? Once for each backward pass, with the sum.",
        'At the first call there is no sum yet: `d["sum"]` is still `None`.',
        "Change the entries of the dict that you returned. A new dict would be invisible to the caller.",
    ),
    cases=({"dtype": torch.float32}, {"dtype": torch.float64}),
)
class TestCountAndSum:
    """Write `count_and_sum(t)`. `t` is a tensor that requires grad. Return the dict `{"n": 0, "sum": None}`
    at once. From then on a hook on `t` keeps this same dict up to date: `"n"` is the number of times that the hook
    was called, and `"sum"` is the sum of all gradients that it received.

    The sum is a tensor without a graph that nothing outside your hook changes. The gradients that flow through `t`
    stay as they are.

    **Example.** With `y = tensor([2.], requires_grad=True)` and `d = count_and_sum(y)`, the call
    `(3 * y + y * y).sum().backward()` leaves `d == {"n": 1, "sum": tensor([7.])}`: one call, although `y` is used
    in three places.
    """

    def draw(rng, dtype):
        return {
            "y": rng.tensor(3, dtype=dtype),
            "factors": [rng.tensor(3, dtype=dtype, low=0.5) for _ in range(3)],
        }

    def probe(student, y, factors):
        y.requires_grad_()
        t = 1 * y
        fan = student.count_and_sum(t)
        first = plain(fan)
        (3 * t + t * t).sum().backward()
        leaf = y.detach().clone().requires_grad_()
        passes = student.count_and_sum(leaf)
        for factor in factors:
            (factor * leaf).sum().backward()
        unused = student.count_and_sum(y.detach().clone().requires_grad_())
        overwritten = y.detach().clone().requires_grad_()
        copied = student.count_and_sum(overwritten)
        overwritten.register_hook(zero_in_place)
        (factors[0] * overwritten).backward(gradient=factors[1])
        curved = y.detach().clone().requires_grad_()
        with_graph = student.count_and_sum(curved)
        for _ in range(2):
            (curved**3).sum().backward(create_graph=True)
        graph_flows, curved.grad = curved.grad.requires_grad, None  # together they would be a reference cycle
        return {"start": first, "fan": plain(fan), "y.grad": y.grad, "passes": plain(passes), "leaf.grad": leaf.grad,
                "unused": plain(unused), "copied": plain(copied), "with_graph": plain(with_graph),
                "graph_flows": graph_flows}  # fmt: skip

    mistakes = (
        Mistake(
            "only-last-pass",
            lambda seen, factors: (
                (seen["passes"]["n"].value in (1, 3) and close(seen["passes"]["sum"], factors[2]))
                or (seen["passes"]["n"].value == 1 and close(seen["passes"]["sum"], sum(factors)))
            ),
            "After three passes your dict knows only one of them. Add to what is there instead of replacing it.",
        ),
        Mistake(
            "reads-dot-grad",
            lambda seen, factors: (
                seen["passes"]["n"].value == 3
                and (
                    (
                        seen["fan"]["n"].value == 1
                        and seen["fan"]["sum"].value is None
                        and seen["passes"]["sum"].tensor is not None
                    )
                    or close(seen["passes"]["sum"], factors[0] + factors[1])
                    or close(seen["passes"]["sum"], 2 * factors[0] + factors[1])
                )
            ),
            raises=NONE_HAS_NO_GRADIENT,
        ),
    )

    def test_the_gradients_add_up_over_passes(seen, factors):
        expect(seen["passes"]).has_keys("n", "sum")
        expect(seen["passes"]["n"]).equals(3)
        expect(seen["passes"]["sum"]).close_to(sum(factors))

    def test_a_tensor_with_two_uses_counts_once(seen, y):
        expect(seen["fan"]["n"]).equals(1)
        expect(seen["fan"]["sum"]).close_to(3 + 2 * y)

    def test_an_unused_tensor_stays_at_the_start(seen):
        for name in ("start", "unused"):
            expect(seen[name]["n"]).equals(0)
            expect(seen[name]["sum"]).equals(None)

    def test_the_sum_is_a_copy_without_a_graph(seen, y, factors):
        expect(seen["copied"]["sum"]).close_to(factors[0] * factors[1])
        expect(seen["with_graph"]["sum"]).close_to(6 * y * y)

    def test_the_flow_is_unchanged(seen, y, factors):
        expect(seen["y.grad"]).close_to(3 + 2 * y)
        expect(seen["leaf.grad"]).close_to(sum(factors))
        expect(seen["graph_flows"]).is_true(
            "with create_graph=True the gradient that flowed on had lost its graph: the hook returned a detached one"
        )


def plain(value: object) -> object:
    """A plain dict or list of a learner's own subclass; any other value as it is."""
    kind = next((kind for kind in (dict, list) if isinstance(value, kind)), None)
    return value if kind is None else kind(value)


PASSES = {
    "linear": lambda p, k: (k * p).sum(),
    "square": lambda p, k: k * (p * p).sum(),
    "flat": lambda p, k: (0 * p).sum() + k,
}


def pass_gradient(kind: str, k: float, p: Tensor) -> Tensor:
    """The gradient of a loss of `PASSES` in closed form."""
    return {"linear": torch.full_like(p, k), "square": 2 * k * p, "flat": torch.zeros_like(p)}[kind]


@exercise(
    "02-norm-log",
    points=2,
    title="Log the norm of every pass",
    hints=(
        "After the first pass `p.grad` is a sum over passes. It is not the gradient of this pass.",
        "A hook on `p` sees exactly the gradient of this pass.",
        "The handle is a context manager: `with p.register_hook(fn):` removes the hook at the end of the block, "
        "even when a loss raises.",
    ),
    cases=({"old": False}, {"old": True}, {"old": True}),
)
class TestNormLog:
    """Write `norm_log(p, losses)`. `p` is a leaf, and `losses` is a list of functions, each from `p` to a
    scalar tensor that depends on `p`. For each loss in order, run `loss(p).backward()` once. Return a list with one
    Python float for each: the L2 norm of the gradient of that pass alone.

    `p.grad` ends as the plain loop would leave it: it accumulates over all passes, on top of what it holds at the
    start. No hook of yours is left on `p`, even when a loss raises; the exception comes through.

    **Example.** For `p = tensor([1., 2.])` and `losses = [lambda p: (torch.tensor([3., 4.]) * p).sum(),
    lambda p: 2 * p[0]]` the result is `[5.0, 2.0]`, and `p.grad` ends as `tensor([5., 4.])`.
    """

    def draw(rng, old):
        kinds = [["linear", rng.uniform(1, 4)], ["square", rng.uniform(0.5, 2)], ["flat", 1.0]]
        kinds = [*rng.shuffled(kinds), ["linear", rng.uniform(1, 4)]]
        return {
            "p": rng.tensor(3),
            "losses": kinds,
            "old": rng.tensor(3, low=1) if old else None,
            "weight": rng.tensor(1, 1),
            "bias": rng.tensor(1),
            "points": rng.tensor(3),
            "targets": rng.tensor(3),
        }

    def alive(p, losses, old):
        # The norm of a sum must differ from the norm of its last part, and so must the sums themselves.
        norms, sums, last = pass_norms(p, losses), accumulated(p, losses, old), pass_gradient(*losses[-1], p)
        return min(abs(a - b.norm().item()) for a, b in zip(norms[1:], sums[1:])) > 0.05 and not torch.equal(
            sums[-1], last
        )

    def probe(student, p, losses, old, weight, bias, points, targets):
        p.requires_grad_()
        p.grad = None if old is None else old.clone()
        calls = []
        p.register_hook(lambda grad: calls.append(1))
        functions = [lambda q, kind=kind, k=k: PASSES[kind](q, k) for kind, k in losses]
        norms = plain(student.norm_log(p, functions))
        seen = {"norms": norms, "p.grad": snapshot(p.grad), "passes": len(calls), "hooks": tensor_hooks(p)}

        def failing(q):
            raise Boom

        with expecting_boom(seen):
            student.norm_log(p, [functions[0], failing])
        seen["hooks_after_exception"] = tensor_hooks(p)
        layer = nn.Linear(1, 1)
        layer.load_state_dict({"weight": weight, "bias": bias})
        squared = [lambda w, x=x, y=y: (layer(x.reshape(1)) - y).square().sum() for x, y in zip(points, targets)]
        return {**seen, "layer": plain(student.norm_log(layer.weight, squared))}

    mistakes = (
        Mistake(
            "accumulated-grad",
            lambda seen, p, losses, old: any(
                close(seen["norms"], [total.norm().item() for total in accumulated(p, losses, start)])
                for start in (None, old)
            ),
        ),
        Mistake(
            "cleared-callers-grad",
            lambda seen, p, losses, old: (
                close(seen["norms"], pass_norms(p, losses))
                and not close(seen["p.grad"], accumulated(p, losses, old)[-1])
            ),
            "The norms are right, but `p.grad` does not hold what the plain loop would leave there. Do not clear it, "
            "and run `backward()`: the caller needs the sum over all passes, on top of what `p.grad` held before.",
        ),
        Mistake(
            "hook-left-behind",
            lambda seen, losses: seen["hooks"].value != 1 or len(seen["norms"]) == len(losses) * (len(losses) + 1) // 2,
            "A hook is still registered after your function returned (or after each pass, so that the next one runs "
            "it again). Keep the handle and call its `remove()`.",
        ),
        Mistake(
            "hook-left-after-exception",
            lambda seen: seen["hooks"].value == 1 and seen["hooks_after_exception"].value != 1,
            LEFT_AFTER_EXCEPTION,
        ),
    )

    def test_each_pass_has_its_own_norm(seen, p, losses):
        expect(seen["norms"]).has_length(len(losses), "norms")
        for entry, norm in zip(seen["norms"], pass_norms(p, losses)):
            expect(entry).close_to(norm)
            if type(entry.value) is not float:
                expect(entry).fail("expected a Python float; `.item()` makes one of a tensor")

    def test_it_works_on_the_weight_of_a_layer(seen, weight, bias, points, targets):
        residuals = points * weight.item() + bias.item() - targets
        expect(seen["layer"]).has_length(len(points), "norms")
        for entry, norm in zip(seen["layer"], (2 * residuals * points).abs().tolist()):
            expect(entry).close_to(norm)

    def test_p_grad_accumulates_over_single_passes(seen, p, losses, old):
        expect(seen["p.grad"]).close_to(accumulated(p, losses, old)[-1])
        expect(seen["passes"]).equals(len(losses))

    def test_no_hook_is_left(seen):
        expect(seen["hooks"]).equals(1)  # the caller's own

    def test_no_hook_is_left_when_a_loss_raises(seen):
        expect(seen["exception"]).equals("propagated")
        expect(seen["hooks_after_exception"]).equals(1)


def pass_norms(p: Tensor, losses: list[tuple[str, float]]) -> list[float]:
    """The L2 norm of the gradient of each loss."""
    return [pass_gradient(kind, k, p).norm().item() for kind, k in losses]


def accumulated(p: Tensor, losses: list[tuple[str, float]], start: Tensor | None) -> list[Tensor]:
    """What `p.grad` holds after each pass when it holds `start` at the beginning."""
    total, found = torch.zeros_like(p) if start is None else start, []
    for kind, k in losses:
        total = total + pass_gradient(kind, k, p)
        found.append(total)
    return found


@exercise(
    "02-grads-by-name",
    points=2,
    title="Gradients by name",
    hints=(
        "Register one hook for each name; the hook writes the gradient into a dict under that name.",
        "Mind the loop variable: a hook runs long after the loop has ended. Bind the name with a default argument.",
        "Call `remove()` on every handle in a `finally` block, so that it also happens when `backward()` raises.",
    ),
)
class TestGradsByName:
    """Write `grads_by_name(tensors, loss)`. `tensors` is a dict from names to tensors that require grad,
    leaves or not; a tensor may have two names. `loss` is a scalar. Run `loss.backward()` exactly once and return a
    dict from names to gradients, for those tensors that the gradient reached. Names of the others are absent. The order
    of the keys is free.

    Each gradient is a copy without a graph: nothing that happens to another tensor later changes it.
    Leaves accumulate their `.grad` as usual. Tensors that are not leaves get no `.grad`, and `retains_grad` stays
    `False`. No hook of yours is left, even when `backward()` raises; the exception comes through. Hooks that were
    there before stay.

    **Example.** With `b = tensor([3.], requires_grad=True)` and `c = b * b`, `grads_by_name({"b": b, "c": c}, c.sum())`
    returns `{"b": tensor([6.]), "c": tensor([1.])}`.
    """

    def draw(rng):
        return {"x": rng.tensor(3, low=-1.5, high=1.5), "names": rng.names(4), "old": rng.tensor(3)}

    def probe(student, x, names, old):
        x.requires_grad_()
        x.grad = old.clone()
        calls = []
        a = 2 * x
        b = torch.tanh(a)
        b.register_hook(lambda grad: calls.append(1))
        unreached = torch.ones(3, requires_grad=True) * 2
        tensors = dict(zip(names, (x, unreached, a, b)))
        hooks = tensor_hooks(x, a, b, unreached)
        seen = {"grads": plain(student.grads_by_name(dict(tensors), (b * b).sum()))}
        seen |= {
            "x.grad": snapshot(x.grad), "passes": len(calls), "hooks": tensor_hooks(x, a, b, unreached) - hooks,
            "retains_grad": [t.retains_grad for t in (a, b, unreached)],
            "dot_grad": [t.grad is not None for t in (a, b, unreached)],
        }  # fmt: skip
        c = 3 * x
        d = c + 1  # the same buffer is the gradient of both
        apart = plain(student.grads_by_name({"c": c, "d": d, "d once more": d}, (d * d).sum()))
        if isinstance(apart, dict) and isinstance(apart.get("c"), Tensor):
            apart["c"].detach().zero_()
        seen["overwritten"] = apart
        d = c * c

        def failing(grad):
            raise Boom

        c.register_hook(failing)
        hooks = tensor_hooks(x, c, d)
        with expecting_boom(seen):
            student.grads_by_name({"c": c, "d": d, "x": x}, d.sum())
        return {**seen, "hooks_after_exception": tensor_hooks(x, c, d) - hooks}

    mistakes = (
        Mistake("late-binding", lambda seen, names: seen["grads"].keys == [names[-1]]),
        Mistake(
            "dot-grad-on-non-leaf",
            lambda seen, names: (
                (names[1] in seen["grads"].keys and seen["grads"][names[1]].value is None)
                or any(seen["dot_grad"].value)
                or any(seen["retains_grad"].value)
            ),
            "`retain_grad()` leaves `.grad` behind on the caller's tensors, and `None` where no gradient came. "
            "A hook hands you the gradient and leaves nothing behind.",
        ),
        Mistake(
            "stored-alias",
            lambda seen, x, old: (
                close(seen["overwritten"]["d"], 0.0) and seen["passes"].value == 1 and not close(seen["x.grad"], old)
            ),
        ),
        Mistake("hook-left-behind", lambda seen: seen["hooks"].value > 0),
        Mistake(
            "hook-left-after-exception",
            lambda seen: seen["hooks"].value == 0 and seen["hooks_after_exception"].value > 0,
            LEFT_AFTER_EXCEPTION,
        ),
    )

    def test_every_reached_tensor_has_its_gradient(seen, x, names):
        b = torch.tanh(2 * x)
        leaf, _, first, second = names
        expect(seen["grads"]).has_keys(leaf, first, second)
        by_name = {second: 2 * b, first: 2 * b * (1 - b * b), leaf: 4 * b * (1 - b * b)}
        for name, gradient in by_name.items():
            expect(seen["grads"][name]).close_to(gradient)

    def test_every_gradient_is_a_copy(seen, x):
        for name in ("d", "d once more"):
            expect(seen["overwritten"][name]).close_to(2 * (3 * x + 1))

    def test_backward_runs_once_and_leaves_accumulate(seen, x, old):
        b = torch.tanh(2 * x)
        expect(seen["passes"]).equals(1)
        expect(seen["x.grad"]).close_to(old + 4 * b * (1 - b * b))

    def test_non_leaves_keep_nothing(seen):
        expect(seen["retains_grad"]).equals([False, False, False])
        expect(seen["dot_grad"]).equals([False, False, False])

    def test_no_hook_is_left(seen):
        expect(seen["hooks"]).equals(0)

    def test_no_hook_is_left_when_backward_raises(seen):
        expect(seen["exception"]).equals("propagated")
        expect(seen["hooks_after_exception"]).equals(0)


TAILS = {"linear": lambda t, c: (c * t).sum(), "square": lambda t, c: (c * t * t).sum()}


@exercise(
    "02-old-and-new-grad",
    points=2,
    title="Two gradients of one overwritten tensor",
    hints=(
        "A hook that is registered before an in-place operation stays with the old value.",
        "`retain_grad()` goes with the tensor: its `.grad` belongs to the new value.",
        "Two tensors work, too: `old = 3 * x`, then `new = old * k`, and a hook on each.",
    ),
    cases=({"kind": "linear", "sign": 1}, {"kind": "square", "sign": -1}, {"kind": "square", "sign": 1}),
)
class TestOldAndNewGrad:
    """Write `old_and_new_grad(x, k, loss_fn)`. `x` is a leaf and `k` a number. Compute `t = 3 * x`, then
    multiply the value of `t` by `k` (in the lesson this happens in place), then `loss = loss_fn(t)`, a scalar. Run
    backward once.

    Return a tuple of two gradients of the loss: with respect to `t` before the multiplication, and with respect to
    `t` after it. Neither requires grad. `x.grad` is written as by any backward pass. No hook of yours is left on `x`.

    **Example.** For `x = tensor([2.])`, `k = 10` and `loss_fn = lambda t: 7 * t.sum()` the result is
    `(tensor([70.]), tensor([7.]))`, and `x.grad` is `tensor([210.])`.
    """

    def draw(rng, kind, sign):
        return {"x": rng.tensor(3), "k": sign * rng.choice((2.0, 2.5, 3.0)), "kind": kind, "c": rng.tensor(3)}

    def probe(student, x, k, kind, c):
        x.requires_grad_()
        calls = []
        x.register_hook(lambda grad: calls.append(1))
        pair = student.old_and_new_grad(x, k, lambda t: TAILS[kind](t, c))
        if isinstance(pair, (tuple, list)):
            pair = list(pair)
        return {"pair": pair, "x.grad": x.grad, "passes": len(calls), "hooks": tensor_hooks(x)}

    mistakes = (
        Mistake(
            "hook-after-in-place",
            lambda seen, x, k, kind, c: (
                all(close(seen["pair"][i], after(x, k, kind, c)) for i in (0, 1))
                and close(seen["x.grad"], 3 * k * after(x, k, kind, c))
            ),
            "Both of your gradients belong to the new value. `retain_grad()` goes there, and so does a hook that is "
            "registered after the in-place operation. For the old value, register a hook before it.",
        ),
        Mistake(
            "multiplied-out-of-sight",
            lambda seen, x, k, kind, c: (
                all(close(seen["pair"][i], after(x, k, kind, c)) for i in (0, 1))
                and close(seen["x.grad"], 3 * after(x, k, kind, c))
            ),
            "Autograd did not see your multiplication: with `.data` or under `no_grad` it is not part of the graph. "
            "`x.grad` lacks the factor `k`, too. Write `t.mul_(k)` or `t * k`.",
        ),
        Mistake(
            "swapped-pair",
            lambda seen, x, k, kind, c: (
                close(seen["pair"][0], after(x, k, kind, c)) and close(seen["pair"][1], k * after(x, k, kind, c))
            ),
            "Both gradients are right, but the other way round: the one for the old value comes first.",
        ),
    )

    def test_the_old_and_the_new_gradient_are_right(seen, x, k, kind, c):
        expected = after(x, k, kind, c)
        expect(seen["pair"]).has_length(2, "gradients")
        expect(seen["pair"][0]).close_to(k * expected)
        expect(seen["pair"][1]).close_to(expected)

    def test_x_has_its_gradient_from_one_pass(seen, x, k, kind, c):
        expect(seen["x.grad"]).close_to(3 * k * after(x, k, kind, c))
        expect(seen["passes"]).equals(1)

    def test_no_hook_is_left(seen):
        expect(seen["hooks"]).equals(1)  # the caller's own


def after(x: Tensor, k: float, kind: str, c: Tensor) -> Tensor:
    """D loss / d t at the new value t = 3 k x, by autograd on a fresh leaf."""
    t = (3 * k * x).requires_grad_()
    (gradient,) = torch.autograd.grad(TAILS[kind](t, c), t)
    return gradient
