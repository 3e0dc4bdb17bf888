"""Exercise 07-watch-module-grads."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from typing import Any

import torch
from torch import Tensor, nn

from graders.authoring import (
    ALL,
    FACTOR,
    MISSING,
    SILENT,
    CallersHooks,
    Circumstances,
    Kind,
    Mistake,
    Seen,
    Witness,
    abort,
    changes,
    close,
    exactly,
    exercise,
    expect,
    fill_grads,
    freeze_part,
    gradients,
    in_mode,
    laid_out,
    nothing_changed,
    paired,
    prepared,
    refuse,
    removed,
    shares_storage,
)
from graders.lesson_07_module_backward_hooks.judging import ON_ALL_MODULES, others_work
from graders.lesson_07_module_backward_hooks.shared import Gate, Squashed, copied, linear, listed, works_in_place

OF_ANOTHER = 1 - torch.tensor(0.5, dtype=torch.float64).tanh() ** 2
"""The slope of the other module that is watched, a tanh."""
A_PAIR = "a tuple of a dict and a handle"
NO_LIMIT = (float("inf"), float("nan"))
"""Gradients of one more pass each."""
MORE_PASSES = (0.0, -1.0, 0.5, 3.0, 512.0)
"""By what the gradient of the caller is multiplied in some more passes."""


class Several(nn.Module):
    """Three inputs, of which two are tensors, and three outputs, of which two are tensors."""

    def __init__(self, fc: nn.Linear) -> None:
        """Around this layer."""
        super().__init__()
        self.fc = fc

    def forward(self, input: Tensor, k: float, side: Tensor) -> tuple[Tensor, Tensor, str]:
        """The layer's output times a number, and a second input; five times the first input; a text."""
        return k * self.fc(input) + side, 5 * input, "a text"


class Summed(nn.Module):
    """A module to whose inputs and output one and the same gradient comes."""

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        """The sum."""
        return a + b


def watched(kind: str, weight: Tensor, bias: Tensor) -> nn.Module:
    """The module of a draw of 07-watch-module-grads."""
    return nn.Tanh() if kind == "tanh" else {"composite": Squashed, "several": Several}[kind](linear(weight, bias))


def caller(module: nn.Module, kind: str, passing: str, k: float, side: Tensor) -> Callable[[Tensor], tuple[Any, ...]]:
    """A function that calls the module with an input, and answers with a tuple of its outputs."""

    def call(x: Tensor) -> tuple[Any, ...]:
        others = {"k": k, "side": side} if kind == "several" else {}
        out = module(input=x, **others) if passing == "keyword" else module(x, *others.values())
        return out if isinstance(out, tuple) else (out,)

    return call


def shallow(record: object) -> object:
    """A dict with the same tensors as `record` holds now; any other value as it is."""
    return (
        {key: tuple(v) if isinstance(v, tuple) else v for key, v in record.items()}
        if isinstance(record, dict)
        else record
    )


def told(result: object) -> str:
    """What a function returned that was to return a pair, in words."""
    if isinstance(result, tuple):
        return A_PAIR if len(result) == 2 else f"a tuple of {len(result)}"
    return "None" if result is None else f"a {type(result).__name__}"


def zero_in_place(grad: Tensor) -> None:
    """A hook with bad manners: it overwrites the gradient that it was given."""
    grad.mul_(0)


def overwrite(grad: Tensor) -> None:
    """As `zero_in_place`, behind the back of autograd."""
    grad.detach().zero_()


def beside(student: Any, record: object) -> dict[str, Any]:
    """One pass through another module that is watched, too: float64, without any dimension."""
    before = shallow(record)
    other, z = nn.Tanh(), torch.tensor(0.5, dtype=torch.float64, requires_grad=True)
    result = student.watch_module_grads(other)
    other(z).backward()
    seen = {"of another": copied(parts(result)[0]), "before it": before, "beside it": shallow(record)}
    removed(parts(result)[1])
    return seen


def gated(student: Any, weight: Tensor, x: Tensor) -> Tensor | None:
    """The gradient of the weight of a module whose backward never comes to the input, and which is watched."""
    gate, x = Gate(weight), x.detach().clone().requires_grad_()
    _, handle = parts(student.watch_module_grads(gate))
    gate(x).sum().backward()
    removed(handle)
    return gate.weight.grad


def parts(result: object) -> tuple[Any, Any]:
    """Both entries of a tuple, or of a named one; of anything else, nothing."""
    return (result[0], result[1]) if isinstance(result, tuple) and len(result) == 2 else (None, None)


@exercise(
    "07-watch-module-grads",
    points=1,
    minutes=15,
    difficulty=1,
    core=True,
    title="Watch the gradients of a module",
    hints=(
        "The hook that you need is `module.register_full_backward_hook(hook)`. It is called as "
        "`hook(module, grad_input, grad_output)`.",
        "An entry of `grad_input` or `grad_output` may be `None`. Keep it as `None`, and store "
        "`entry.detach().clone()` for a tensor.",
        'Change the dict that you return (`d["gi"] = ...`) instead of making a new one. Let the hook return nothing, '
        "so that the gradients stay as they are.",
    ),
    why=(
        "The hook changes the entries of the dict that was returned, and returns nothing, so the gradients stay as "
        "they are. An object with `__call__` would do as well; `None` entries belong to inputs or outputs that "
        "have no gradient, and stay."
    ),
    circumstances=Circumstances(
        covers={
            "dtype": ALL, "rank": ALL, "layout": ALL, "values": ALL, "grad": ALL, "mode": ALL,
            "frozen": ALL, "output": ("tensor", "tuple"), "passing": ALL, "hooks": ALL, "call": ("in turn",),
            "grad_mode": ALL, "backward": ALL,
        },
        excludes={
            "place": "what the module gets and returns are non-leaves to autograd, whatever the caller has",
            "number": "no number is an argument",
            "collection": "there is no collection",
            "tied": "the function looks at no parameter",
            "named": "the function gets the module itself",
            "follower": "PyTorch forbids steps in place on what a module with a full backward hook gets and returns",
            "registered": "the function gets the module itself",
            "layers": "the hook is the same for all; three modules of our own are an axis",
            "hooked": "there is one module for all hooks",
            "failure": "the function calls nothing of the caller",
        },
        own={"kind": ("tanh", "composite", "several")},
        pairs=[("kind", "passing")],
        impossible=[
            lambda kind, rank: kind != "tanh" and rank == 0,
            lambda kind, frozen: kind == "tanh" and frozen == "part",
            lambda kind, grad: kind == "tanh" and grad == "filled",  # it has no parameter whose `.grad` could be filled
            lambda kind, mode: kind == "tanh" and mode == "mixed",
            lambda kind, output: (kind == "several") != (output == "tuple"),
        ],
    ),
)  # fmt: skip
class TestWatchModuleGrads:
    """Write `watch_module_grads(module)`. Return a tuple of a dict and a handle.

    The dict is new, and empty at first. Whenever PyTorch calls full backward hooks of `module`, the dict holds
    afterwards two entries of that pass:

    - `"gi"`: the gradients of the loss with respect to the inputs of the module,
    - `"go"`: the gradients of the loss with respect to its outputs.

    Both are tuples with the entries that PyTorch gives to a full backward hook, in the same order, `None` where it
    gives `None`. (Where a hook of others replaces entries, those before and those after are both right.) Each tensor in
    them is a copy without a graph: nothing that happens later changes it. In one pass the module is called once.

    No gradient changes. `handle.remove()` ends the watching: later calls of the module change nothing in the dict.

    **Example.** For `module = torch.nn.Tanh()`, `d, handle = watch_module_grads(module)` and
    `x = tensor([0.], requires_grad=True)`, the call `(3 * module(x)).sum().backward()` leaves
    `d == {"gi": (tensor([3.]),), "go": (tensor([3.]),)}`, since the slope of tanh at 0 is 1.
    """

    def draw(rng, kind, dtype, rank, layout, values):
        lead = rng.shape(rank - 1) if rank else None
        like = {"dtype": dtype, "values": values}
        ins, outs = ((), ()) if lead is None else ((*lead, 3), (*lead, 3 if kind == "tanh" else 2))
        return {
            "weight": rng.tensor(2, 3, low=-0.5, high=0.5, **like),
            "bias": rng.tensor(2, low=-0.5, high=0.5, **like),
            "x": rng.tensor(*ins, low=-1, high=1, **like),
            "up": rng.tensor(*outs, layout=layout, **like),
            "k": rng.choice((1.5, -2.5)),
            "side": rng.tensor(*outs, **like),
        }

    def alive(kind, weight, bias, x, up, k, hooks):
        (gi, *_), (go, *_) = module_gradients(kind, weight, bias, x, up, k, hooks)
        (other, *_), _ = module_gradients(kind, weight, bias, x / 2, -up, k, hooks)
        return bool((gi - other).abs().max() > 0.05) and (gi.shape != go.shape or bool((gi - go).abs().max() > 0.05))

    def oracle(kind, weight, bias, x, up, k, hooks):
        both = [module_gradients(kind, weight, bias, value, up, k, hooks)[0][0] for value in (x, x / 2)]
        return [*both, *parameter_gradients(kind, weight, bias, x, up, k, hooks)]

    def probe(
        student, kind, weight, bias, x, up, k, side, layout, mode, frozen, grad, passing, hooks, grad_mode, backward
    ):
        module = in_mode(watched(kind, weight, bias), mode)
        if kind != "tanh":
            freeze_part(module, frozen)
        if grad == "filled":
            fill_grads(module)
        params = [p for p in module.parameters() if p.requires_grad]
        CallersHooks(hooks).on_module(module, "module", backward=True)
        data, x, up = x, prepared(x, grad=grad), laid_out(up, layout)
        before = Witness(module=module, x=x, up=up, side=side)
        with torch.set_grad_enabled(grad_mode == "on"):
            witness = Witness(module=module, x=x, up=up, side=side)
            result = student.watch_module_grads(module)
            record, handle = parts(result)
            seen = {"start": copied(record), "changed": witness.changes(), "in place elsewhere": works_in_place()}
        call = caller(module, kind, passing, k, side)

        seen["grads"] = gradients(lambda: (up * call(x)[0]).sum(), [x, *params], backward)
        seen["first"], first = copied(record), shallow(record)
        # Somebody overwrites the gradients, those of the input and those of the output, as soon as they are used.
        other, other_up = data / 2, laid_out(-up, "contiguous")
        other.requires_grad_()
        inner = 1 * other
        inner.register_hook(zero_in_place)
        call(inner)[0].backward(gradient=other_up)
        other_up.zero_()
        seen |= {"second": copied(record), "more": []}
        for scale in MORE_PASSES:
            torch.autograd.grad(call(x)[0], x, grad_outputs=scale * up)
            seen["more"].append(copied(record))
        seen["first later"] = copied(first)
        call(x)[0].backward(gradient=up)
        seen["the caller's gradient"] = copied(record)

        # A graph that can be differentiated again; all outputs in use; an input that needs no gradient.
        again = (3 * up).requires_grad_()
        (found,) = torch.autograd.grad(call(x)[0], x, grad_outputs=again, create_graph=True)
        seen["graph"] = shallow(record)
        overwritten = 1 * data.clone().requires_grad_()
        overwritten.register_hook(overwrite)
        torch.autograd.grad(call(overwritten)[0], overwritten, grad_outputs=2 * up, create_graph=True)
        seen["overwritten in a graph"] = copied(record)
        if found.requires_grad:
            seen["differentiated"] = torch.autograd.grad(found.sum(), again, allow_unused=True)[0]
        if kind == "several":
            torch.autograd.backward(call(x)[:2], [up, x.detach()])
            seen["both outputs"] = copied(record)
        if params:
            call(data.detach())[0].backward(gradient=up)
            seen["no input gradient"] = copied(record)
        seen["gate"] = gated(student, weight[0], weight[1])

        # Two modules at a time, two hooks on one module.
        seen |= beside(student, record)
        second, second_handle = parts(student.watch_module_grads(module))
        seen |= {"second dict at first": copied(second)}
        torch.autograd.grad(call(x)[0], x, grad_outputs=up)
        seen |= {"both dicts": [copied(record), copied(second)]}
        seen |= {"handles": [removed(handle)]}
        torch.autograd.grad(call(x)[0], x, grad_outputs=-up)
        seen |= {"one removed": [copied(record), copied(second)]}
        seen["handles"].append(removed(second_handle))
        torch.autograd.grad(call(x)[0], x, grad_outputs=2 * up)
        seen |= {"both removed": [copied(record), copied(second)], "in the end": before.changes()}
        seen["returned"] = told(result)

        doubled, x = nn.Tanh(), torch.tensor([0.0], requires_grad=True)
        doubled.register_full_backward_pre_hook(lambda module, grad_output: (2 * grad_output[0],))
        d, _kept = parts(student.watch_module_grads(doubled))
        (3 * doubled(x)).sum().backward()
        seen["beside a pre-hook"] = copied(d)

        layer = linear(torch.tensor([[5.0]]), torch.tensor([0.0]))
        d, _kept = parts(student.watch_module_grads(layer))
        (3 * layer(torch.ones(1, 1))).sum().backward()
        seen["of data"] = copied(d)
        tanh = nn.Tanh()
        d, _kept = parts(student.watch_module_grads(tanh))
        tanh(torch.zeros(0, 3, requires_grad=True)).sum().backward()
        seen["empty"] = copied(d)

        summed, y = Summed(), torch.tensor([0.0], requires_grad=True)
        d, _kept = parts(student.watch_module_grads(summed))
        (3 * summed(1 * y, 2 * y)).sum().backward()
        found = [*d.get("gi", ()), *d.get("go", ())] if isinstance(d, dict) else []
        seen["same memory"] = any(shares_storage(a, b) for a, b in combinations(found, 2))

        layer, z = nn.Linear(1, 1, bias=False), torch.tensor([[2.0]], requires_grad=True)
        layer.weight.data.fill_(5.0)
        d, _kept = parts(student.watch_module_grads(layer))
        abort(lambda: layer(z).sum(), layer.weight)  # behind the backward pre-hooks and before the backward hooks
        (3 * layer(z)).sum().backward()
        seen["after a pass that was stopped"] = copied(d)

        tanh, x = nn.Tanh(), torch.tensor([0.0], requires_grad=True)
        d, handle = parts(student.watch_module_grads(tanh))
        seen["no limit"] = []
        out = tanh(x)  # one graph for two passes
        for up in NO_LIMIT:
            (up * out).sum().backward(retain_graph=True)
            seen["no limit"].append(listed([d[key] for key in ("gi", "go") if key in d] if isinstance(d, dict) else d))
        x.grad = None
        (3 * tanh(x)).sum().backward()
        return {**seen, "example": copied(d)}

    mistakes = (
        ON_ALL_MODULES,
        Mistake(
            "deprecated-hook",
            lambda seen, kind, up, x: (
                kind != "tanh"
                and close(seen["first"]["go"][0], up)
                and seen["first"]["gi"][0].tensor is not None
                and seen["first"]["gi"][0].tensor.shape != x.shape
            ),
            "`grad_input` has the shape of an operation inside the module, not of the module's input. That is what the "
            "deprecated `register_backward_hook` reports. Use `register_full_backward_hook`.",
            raises="Cannot use both regular backward hooks and full backward hooks",
        ),
        Mistake(
            "swapped-arguments",
            lambda seen, kind, weight, bias, x, up, k, hooks, passing: same_entries(
                seen["first"],
                *module_gradients(kind, weight, bias, x, up, k, hooks, passing)[::-1],
            ),
            "You took the arguments in the wrong order: a full backward hook is called with the module, then "
            "`grad_input`, then `grad_output`.",
        ),
        Mistake(
            "wrong-hook-kind",
            lambda seen, up: close(seen["first"]["gi"][0], up) and close(seen["first"]["go"][0], up),
            "Your `gi` equals `go`: this hook saw only the gradient that arrives at the output. A pre-hook runs before "
            "the gradient of the input exists. Use `register_full_backward_hook`.",
        ),
        Mistake(
            "returned-something",
            lambda seen: seen["first"].value is not None and seen["differentiated"].value is MISSING,
            "Your hook returned something, and PyTorch took it for a new `grad_input`. A hook that only watches "
            "returns `None`.",
            raises=("invalid number of grad_input", "changed the size of value", "None for all gradients"),
        ),
        Mistake(
            "changed-the-gradient",
            lambda seen, kind, weight, bias, x, up, k, hooks: (
                seen["differentiated"].value is not MISSING
                and seen["grads"][0].tensor is not None
                and not close(seen["grads"][0], module_gradients(kind, weight, bias, x, up, k, hooks)[0][0])
            ),
            "The gradient that goes on is not the one that PyTorch computed: your hook wrote into it, or returned "
            "another one. A hook that only watches does neither.",
        ),
        Mistake(
            "copied-none",
            raises="NoneType",
            message="An entry of `grad_input` or `grad_output` is `None` where there is no gradient, and `None` cannot "
            "be copied: keep it as it is.",
        ),
        Mistake(
            "values-not-gradients",
            lambda seen, x, passing: SILENT if passing == "keyword" else close(seen["first"]["gi"][0], x),
            "These are the values that went into the module and came out of it, as a forward hook sees them. "
            "The task asks for their gradients.",
        ),
        Mistake(
            "stored-alias",
            lambda seen, kind, weight, bias, x, up, k, hooks, passing: (
                same_entries(seen["first"], *module_gradients(kind, weight, bias, x, up, k, hooks, passing))
                and seen["differentiated"].value is not MISSING
                and (
                    any(close(seen["second"][key][0], 0.0) for key in ("gi", "go"))
                    or not same_entries(
                        seen["first later"], *module_gradients(kind, weight, bias, x, up, k, hooks, passing)
                    )
                )
            ),
        ),
        Mistake(
            "only-the-first-pass",
            lambda seen, kind, weight, bias, x, up, k, hooks, passing: (
                same_entries(seen["first"], *module_gradients(kind, weight, bias, x, up, k, hooks, passing))
                and all(
                    same_entries(record, *module_gradients(kind, weight, bias, x, up, k, hooks, passing))
                    for record in (seen["second"], *seen["more"])
                )
            ),
            "The dict holds the first pass for good. In each pass both entries have to be written anew.",
        ),
        Mistake(
            "one-dict-for-all",
            lambda seen: (
                not changes(seen["changed"], "hook-left torch")
                and (seen["second dict at first"].keys or close(seen["beside it"]["gi"][0], OF_ANOTHER))
            ),
            "All calls of your function share one dict: a pass through one module shows in that of another. Make the "
            "dict inside the function.",
        ),
        Mistake(
            "rebound-dict",
            lambda seen: (
                seen["second"].value == {} and seen["example"].value == {} and changes(seen["changed"], "hook-left *")
            ),
            "The dict that you returned stays empty. Inside the hook, `d = {...}` makes a new dict that nobody else "
            'sees. Change the returned one: `d["gi"] = ...`.',
        ),
    )

    def test_the_gradients_of_inputs_and_outputs_are_recorded(seen, kind, weight, bias, x, up, k, hooks, passing):
        if seen["returned"].value != A_PAIR:
            expect(Seen(None)).differs(A_PAIR, str(seen["returned"].value), Kind.TYPE)
        expect(Seen(seen["start"].value, "the new dict")).has_keys()
        expect_record(seen["first"], *module_gradients(kind, weight, bias, x, up, k, hooks, passing), "after a pass")
        example = torch.tensor([3.0])
        expect_record(seen["example"], (example,), (example,), "after the example")
        data = "after a pass through `Linear(1, 1)` whose input needs no gradient"
        expect_record(seen["of data"], (None,), (torch.tensor([[3.0]]),), data)
        none = "after a pass through tanh with an input of shape (0, 3)"
        expect_record(seen["empty"], (torch.zeros(0, 3),), (torch.zeros(0, 3),), none)
        pre_hook = "after the example with a pre-hook of the caller that doubles `grad_output`"
        expect_record(seen["beside a pre-hook"], (2 * example,), (2 * example,), pre_hook)
        stopped = "after a good pass that followed one which an exception stopped within the module"
        expect_record(
            seen["after a pass that was stopped"], (15.0 * torch.ones(1, 1),), (3 * torch.ones(1, 1),), stopped
        )

    def test_the_latest_pass_is_kept(seen, kind, weight, bias, x, up, k, hooks, passing):
        for record, scale in paired(seen["more"], MORE_PASSES):
            expected = module_gradients(kind, weight, bias, x, scale * up, k, hooks, passing)
            expect_record(record, *expected, f"after a pass with {scale} times the gradient", max(1.0, scale))
        for record, limit in paired(seen["no limit"], NO_LIMIT):
            path = f"`gi` and `go` after one of two passes through one graph, of tanh at 0, whose gradient is {limit}"
            expect(Seen(record.value, path)).equals(f"[[[{limit}]], [[{limit}]]]")
        expected = module_gradients(kind, weight, bias, x, up, k, hooks, passing)
        expect_record(seen["the caller's gradient"], *expected, "after backward(gradient=...)")

    def test_the_entries_are_copies_without_a_graph(seen, kind, weight, bias, x, up, k, hooks, passing):
        expect_record(
            seen["second"],
            *module_gradients(kind, weight, bias, x / 2, -up, k, hooks, passing),
            when="when somebody has written zeros into the gradients of the pass",
        )
        expected = module_gradients(kind, weight, bias, x, up, k, hooks, passing)
        expect_record(seen["first later"], *expected, when="when more passes have followed")
        for key, factor, text in (
            ("graph", 3, "under `create_graph=True`"),
            (
                "overwritten in a graph",
                2,
                "when somebody has written zeros into the gradient of the input, under `create_graph=True`",
            ),
        ):
            with_a_graph = module_gradients(kind, weight, bias, x, factor * up, k, hooks, passing)
            expect_record(seen[key], *with_a_graph, when=text, scale=factor)
        expect(seen["same memory"]).is_false(
            "two tensors in the dict have the same memory, for a module that adds its two inputs: each is a copy"
        )

    def test_a_missing_gradient_is_none(seen, kind, weight, bias, x, up, k, hooks, passing):
        if "no input gradient" in seen.keys:
            gi, go = module_gradients(kind, weight, bias, x, up, k, hooks, passing)
            expect_record(seen["no input gradient"], tuple(None for _ in gi), go, "when no input needs a gradient")
        if kind == "several":
            gi, go = module_gradients(kind, weight, bias, x, up, k, hooks, passing, second_up=x)
            expect_record(seen["both outputs"], gi, go, "when the loss uses two outputs")

    def test_each_call_has_a_dict_of_its_own(seen, kind, weight, bias, x, up, k, hooks, passing):
        expect_record(seen["of another"], (OF_ANOTHER,), (torch.ones_like(OF_ANOTHER),), "for another module")
        before, now = (
            [entry.tensor for key in ("gi", "go") for entry in seen[when][key]] for when in ("before it", "beside it")
        )
        same = len(before) == len(now) and all(
            (a is None and b is None) or (a is not None and b is not None and torch.equal(a, b))
            for a, b in zip(before, now)
        )
        if not same:
            refuse("a pass through another watched module changed the dict of the first one")
        expect(Seen(seen["second dict at first"].value, "the dict of a second call")).has_keys()
        expected = module_gradients(kind, weight, bias, x, up, k, hooks, passing)
        for record in exactly(2, seen["both dicts"]):
            expect_record(record, *expected, "with two hooks on one module")

    def test_the_gradients_stay_as_they_are(seen, kind, weight, bias, x, up, k, hooks, passing, frozen):
        (gi, *_), _ = module_gradients(kind, weight, bias, x, up, k, hooks)
        expect(seen["grads"][0]).close_to(gi)
        if kind != "tanh" and frozen == "nothing":
            for name, mine, right in zip(
                ("weight", "bias"), list(seen["grads"])[1:], parameter_gradients(kind, weight, bias, x, up, k, hooks)
            ):
                expect(Seen(mine.value, f"the gradient of the {name}")).close_to(right)
        expect(seen["gate"]).close_to((weight[1] > 0).to(weight.dtype))
        if seen["differentiated"].value is MISSING:
            expect(seen["differentiated"]).fail(
                "under `create_graph=True` the gradient of the input has to keep its graph, and it has none: your hook "
                "returned a copy, which took the place of the gradient"
            )
        (slopes, *_), _ = module_gradients(kind, weight, bias, x, torch.ones_like(up), k, hooks)
        if kind == "tanh":
            expect(seen["differentiated"]).close_to(slopes)
        nothing_changed(seen["changed"], but=["hook-left *"])
        others_work(seen["in place elsewhere"])

    def test_the_handle_ends_the_watching_and_nothing_else(seen, kind, weight, bias, x, up, k, hooks, passing):
        for has_remove in exactly(2, seen["handles"]):
            expect(has_remove).is_true("the second thing that the function returned has no remove() method")
        expected, turned = (
            module_gradients(kind, weight, bias, x, gradient, k, hooks, passing) for gradient in (up, -up)
        )
        for when, text in (("one removed", "after remove()"), ("both removed", "after remove() on both handles")):
            expect_record(seen[when][0], *expected, when=text)
            expect_record(
                seen[when][1], *turned, when="after remove() on another handle" if when == "one removed" else text
            )
        nothing_changed(seen["in the end"], but=["grad-* *"], when="after remove()")


def module_gradients(
    kind: str, weight: Tensor, bias: Tensor, x: Tensor, up: Tensor, k: float, hooks: str, passing: str = "position",
    second_up: Tensor | None = None,
) -> tuple[tuple[Tensor | None, ...], tuple[Tensor | None, ...]]:  # fmt: skip
    """(gi, go) when `up` arrives at the first output and `second_up` at the second, by the chain rule."""
    at_out = up * FACTOR if hooks == "replacing" else up
    if kind == "tanh":
        gi, go = (at_out * (1 - torch.tanh(x) ** 2),), (up,)
    elif kind == "composite":
        y = torch.tanh(2 * (x @ weight.T + bias))
        gi, go = ((2 * at_out * (1 - y * y)) @ weight,), (up,)
    else:
        second = 0 if second_up is None else 5 * second_up * (FACTOR if hooks == "replacing" else 1)
        gi, go = (k * at_out @ weight + second, None, torch.zeros_like(up)), (up, second_up, None)
    return ((), go) if passing == "keyword" else (gi, go)


def parameter_gradients(
    kind: str, weight: Tensor, bias: Tensor, x: Tensor, up: Tensor, k: float, hooks: str
) -> list[Tensor]:
    """The gradients of weight and bias; none for a tanh."""
    if kind == "tanh":
        return []
    y = torch.tanh(2 * (x @ weight.T + bias))
    at_out = up * FACTOR if hooks == "replacing" else up
    rows = (2 * at_out * (1 - y * y) if kind == "composite" else k * at_out).reshape(-1, 2)
    return [rows.T @ x.reshape(-1, 3), rows.sum(0)]


def expect_record(
    record: Seen, gi: tuple[Tensor | None, ...], go: tuple[Tensor | None, ...], when: str, scale: float = 1.0
) -> None:
    """A record with these gradients, None where there is none. `when` begins what is said about a difference.

    `scale` is by what the numbers, and so their rounding, are larger than usual.
    """
    record = Seen(record.value, f"{when}, the dict")
    expect(record).has_keys("gi", "go")
    for key, expected in (("gi", gi), ("go", go)):
        expect(record[key]).has_length(len(expected), container=tuple)
        for entry, gradient in paired(record[key], expected):
            if gradient is None:
                expect(entry).equals(None)
            else:
                expect(entry).close_to(gradient, atol=scale * (1e-5 if gradient.dtype == torch.float32 else 1e-10))


def same_entries(record: Seen, gi: tuple[Tensor | None, ...], go: tuple[Tensor | None, ...]) -> bool:
    """Whether a record holds these gradients, wherever they are not None."""
    return all(
        len(list(record[key])) == len(expected)
        and all(gradient is None or close(entry, gradient) for entry, gradient in zip(record[key], expected))
        for key, expected in (("gi", gi), ("go", go))
    )
