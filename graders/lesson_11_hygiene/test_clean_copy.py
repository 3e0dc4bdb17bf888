"""Exercise 11-clean-copy."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from graders.authoring import (
    ALL,
    SILENT,
    CallersHooks,
    Circumstances,
    Failure,
    Kind,
    Mistake,
    Seen,
    Witness,
    apart,
    came_through,
    close,
    exercise,
    expect,
    fill_grads,
    freeze_part,
    nothing_changed,
    refuse,
    shares_storage,
    tie,
)
from graders.lesson_11_hygiene.judging import (
    CONTAINERS_LEFT,
    FLAG_SET,
    PLAIN_DICTS,
    ROOT_LEFT,
    Run,
    all_new_hooks_fire,
    chain,
    counts_seen,
    first_left,
    flag_set,
    flags_free,
    in_eval_mode,
    left_below,
    left_on,
    left_on_containers,
    linear,
    some_hooks,
    some_kinds_cleared,
)
from graders.lesson_11_hygiene.shared import (
    build,
    change_values,
    flags_of,
    forward_backward,
    hook_state_dicts,
    hooks_by_kind,
    new_hooks,
    other_hooks,
    register,
)


class Recorder:
    """A hook that is an object: a deep copy of a model copies it, too."""

    def __init__(self) -> None:
        """Nothing is recorded."""
        self.calls: list[int] = []

    def __call__(self, *args: Any) -> None:
        """Write into its own list."""
        self.calls.append(1)


class Uncopyable:
    """A part of a model that cannot be copied."""

    def __init__(self, failure: Failure) -> None:
        """Raises this in the middle of a copy."""
        self.failure = failure

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Whoever copies asks for this."""
        self.failure.strike()
        return super().__reduce_ex__(protocol)


@exercise(
    "11-clean-copy",
    points=2,
    minutes=20,
    difficulty=2,
    title="A copy without hooks",
    hints=(
        "`copy.deepcopy(model)` copies everything that counts: types, parameters, buffers, modes, and what is shared "
        "stays shared. It also copies the module hooks.",
        "So strip the copy afterwards. You wrote the function for that in the last exercise.",
        "Strip the copy, not the original: the original keeps its hooks. Never run either of them.",
    ),
    why=(
        "`deepcopy` copies everything else as it should be, and clearing the hooks of the copy leaves the original "
        "alone. You could also take the hooks off the original while it is copied, if you put them back into the same "
        "dicts, in the same order, in `finally`."
    ),
    circumstances=Circumstances(
        covers={
            "dtype": ALL, "values": ALL, "grad": ALL, "mode": ALL, "frozen": ALL, "tied": ALL, "hooks": ALL,
            "call": ALL, "grad_mode": ALL, "failure": ALL,
        },
        excludes={
            "tensor": "it gets no tensor; parameters are matrices and vectors",
            "number": "no number is an argument",
            "collection": "there is no collection",
            "named": "it gets no name",
            "output": "it runs nothing",
            "follower": "it runs nothing",
            "passing": "it runs nothing",
            "registered": "a module that is not registered is not in the model",
            "layers": "every module has the same dicts",
            "hooked": "the hooks sit on modules of every kind, and on the parameters",
            "backward": "it runs no backward pass",
            "failing_run": "it copies once",
        },
        own={"legacy": (False, True), "whole": ("net", "single layer")},
        pairs=[("hooks", "whole"), ("legacy", "whole"), ("tied", "hooks")],
    ),
)  # fmt: skip
class TestCleanCopy:
    """Write `clean_copy(model)`. `model` is an `nn.Module`; it may be a single layer. Return a deep copy of it, as
    `copy.deepcopy` makes it, but without module hooks of any kind (the last exercise lists them), on any of
    `model.modules()`.

    - The copy has the same types of modules under the same names, equal parameters and buffers, the same modes and the
      same `requires_grad`. It shares no memory with the original.
    - What is shared inside the model (a weight that two layers use, a module under two names, a buffer) is shared in
      the same way inside the copy.
    - Hooks of `state_dict` and `load_state_dict` are copied. Hooks on parameters and `.grad` are not, as with
      `copy.deepcopy`.
    - New hooks can be registered on the copy as usual. Only the flag `_is_full_backward_hook` (*The flag that a legacy
      hook leaves*) may be that of the original, or `None`.
    - None of the hooks of the original fires during the call (those of `state_dict` neither), nor when the copy runs.
      Their handles still work.
    - When a part of the model cannot be copied, the exception of `copy.deepcopy` comes through.

    **Example.** Let `model = nn.Linear(2, 1)` have a forward hook that returns `2 * output`. For
    `copied = clean_copy(model)`, `model(x)` is then twice `copied(x)`.
    """

    def draw(rng, dtype, values, mode, tied, hooks, legacy, whole):
        child, block, inside, other, act, again, modal, bag, deep, cut, hidden = rng.names(11)

        def layer() -> list[Any]:
            return linear(rng, dtype=dtype, values=values)

        weighted, by = layer(), rng.tensor(3, low=0.5, dtype=dtype)
        children = {
            child: weighted,
            block: chain({act: ["layer", "tanh"], inside: layer(), again: ["same", act]}, [act, inside, again]),
            other: ["linear", weighted[1], rng.tensor(3, low=-1, high=1, dtype=dtype)],
            modal: ["modal"],
            hidden: ["offset", rng.tensor(3, dtype=dtype, values=values)],
            bag: ["list", [["layer", "divide", by], chain({deep: layer(), cut: ["layer", "divide", by]}, [deep, cut])]],
        }
        order = [child, block, modal, hidden, f"{bag}.0", other, f"{bag}.1"]
        places = {"child": child, "container": block, "inside": f"{block}.{inside}", "shared": f"{block}.{act}"}
        places |= {"never": bag, "entry": f"{bag}.0", "deep": f"{bag}.1.{deep}"}
        spec = chain({key: children[key] for key in rng.shuffled(list(children))}, order)
        ties = [[f"{child}.weight", f"{other}.weight"], [f"{bag}.0.by", f"{bag}.1.{cut}.by"]]
        if whole != "net":
            spec, places, ties = layer(), {}, []
            mode = "eval" if mode == "mixed" else mode
        listening = [] if hooks == "none" else some_hooks(rng, places, legacy)
        return {
            "spec": spec,
            "ties": ties if tied == "yes" else [],
            "listening": listening,
            "never": places.get("never", "?"),
            "refusing": [name for name, kind, *_ in listening if kind == "legacy"],
            "evaluating": in_eval_mode(rng, spec, mode),
            "x": rng.tensor(4, 3, dtype=dtype),
            "shift": rng.uniform(1, 2),
            "factor": rng.uniform(2, 4),
        }

    def alive(spec, x, evaluating, shift, factor):
        plain, shifted = (Run(evaluating).trace(spec, t)[-1].output for t in (x, x + shift))
        return apart(plain, shifted, factor * plain, factor * shifted)

    def oracle(spec, x, evaluating, shift, factor):
        return [scale * Run(evaluating).trace(spec, t)[-1].output for t in (x, x + shift) for scale in (1, factor)]

    def probe(
        student, spec, ties, listening, refusing, evaluating, grad, frozen, hooks, call, grad_mode, failure, x, shift,
        factor,
    ):  # fmt: skip
        def model_of(log: list[str]) -> tuple[nn.Module, list[Any], list[str]]:
            model = build(spec)
            for buffer in model.buffers():
                buffer += not buffer.is_floating_point()  # a count that is not zero
            for first, second in ties:
                tie_up(model, first, second)
            freeze_part(model, frozen)
            for name in evaluating:
                model.get_submodule(name).training = False
            if grad == "filled":
                fill_grads(model)
            handles = register(model, listening, log)
            if hooks != "none":
                handles.append(model.register_forward_pre_hook(Recorder()))
            handles += change_values(model, shift, factor) if hooks == "replacing" else []
            states = hook_state_dicts(model)
            for name, parameter in model.named_parameters():
                if parameter.requires_grad:
                    CallersHooks().on_parameter(parameter, name)
            return model, handles, states

        log: list[str] = []
        model, old, states = model_of(log)
        passing = register(model, [] if hooks == "none" else [["", "forward", {}, "passing"]], [])
        with torch.set_grad_enabled(grad_mode == "on"):
            witness, before, described = Witness(model=model), hooks_by_kind(model), description(model)
            states.clear()
            copied = student.clean_copy(model)
            seen = {"changed": witness.changes(), "fired during the call": [*log, *states]}
            seen |= {
                "is a module": isinstance(copied, nn.Module),
                "hooks": {"before": before, "original": hooks_by_kind(model)},
            }
            if not isinstance(copied, nn.Module):
                return seen
            seen |= {"original": described, "copy": description(copied), "shares": shared(model, copied)}
            seen["hooks"]["copy"] = hooks_by_kind(copied)
            seen |= {"flags before": flags_of(model), "flags": flags_of(copied)}
            seen["hooks on parameters"] = [name for name, p in copied.named_parameters() if p._backward_hooks]
        log.clear()
        witness = Witness(model=model)
        seen["output"], seen["fired by the copy"] = attempted(copied, x), list(log)
        if type(seen["output"]) is str:
            return seen
        seen["changed by the copy"] = witness.changes()
        seen["new"] = new_hooks(copied, [], refusing, x)["new"]
        if call != "once":
            other = model if call == "again" else model_of([])[0]
            doubled(other, 2.0)
            for handle in passing:
                handle.remove()
            described, witness = description(other), Witness(model=model, other=other)
            second = student.clean_copy(other)
            seen["changed by the second call"] = witness.changes()
            seen |= {"second original": described, "second copy": description(second)}
            seen["shares with the second"] = shared(copied, second)
            doubled(other, 0.5)
        log.clear()
        seen["output of the original"], seen["fired by the original"] = forward_backward(model, x), sorted(set(log))
        for handle in [*old, *passing]:
            handle.remove()
        seen["left after remove"] = sum(map(sum, hooks_by_kind(model).values()))

        failing, broken = Failure(failure), model_of([])[0]
        list(broken.modules())[-1].part = Uncopyable(failing)
        witness = Witness(model=broken)
        seen["failure"] = failing.during(lambda: student.clean_copy(broken))
        seen["changed by failure"] = witness.changes()
        of_torch = student.clean_copy(torch.nn.utils.spectral_norm(nn.Linear(2, 2)))
        seen["of torch"] = len(getattr(of_torch, "_forward_pre_hooks", "x"))
        bare, held = nn.ReLU(), nn.Linear(2, 1)
        held.part = Recorder()
        held.register_forward_hook(held.part)
        seen["bare itself"] = student.clean_copy(bare) is bare
        seen["the same part"] = getattr(student.clean_copy(held), "part", None) is held.part
        example, one = nn.Linear(2, 1), torch.ones(1, 2)
        example.register_forward_hook(lambda module, args, output: 2 * output)
        copied = student.clean_copy(example)
        return {**seen, "example": [example(one), attempted(copied, one)]}

    mistakes = (
        Mistake(
            "hooks-copied",
            lambda seen, hooks: (
                SILENT
                if hooks == "none"
                else not len(seen["shares"])
                and seen["hooks"]["copy"].value == seen["hooks"]["before"].value == seen["hooks"]["original"].value
            ),
            "The copy still has the hooks. `deepcopy` copies module hooks along, and a copied function is the same "
            "function: the copy writes into the log of the original. Strip the copy.",
        ),
        Mistake(
            "cleared-original",
            lambda seen: (
                not len(seen["shares"])
                and sum(counts_seen(seen["hooks"]["original"])) < sum(counts_seen(seen["hooks"]["before"]))
            ),
            "The original has lost its hooks. Make the deep copy first, then strip the copy, and leave the original "
            "alone.",
        ),
        Mistake(
            "shared-parameters",
            lambda seen: len(seen["shares"]) > 0,
            "The copy and the original share tensors or other state, so what changes one changes the other. "
            "`copy.copy` and `load_state_dict(..., assign=True)` share; `copy.deepcopy` does not.",
        ),
        Mistake(
            "one-kind-only",
            lambda seen: (
                not len(seen["shares"])
                and some_kinds_cleared(seen["hooks"]["before"].value, seen["hooks"]["copy"].value)
            ),
            "Some kinds of hooks are still on the copy. There are four: forward pre-hooks, forward hooks, backward "
            "pre-hooks and backward hooks.",
        ),
        Mistake(
            "children-only",
            lambda seen, spec, whole: (
                left_below(still_hooked(seen, spec), seen["hooks"]["before"].value, spec) if whole == "net" else SILENT
            ),
            "Some modules of the copy still have their hooks. `modules()` yields the copy itself and everything in it, "
            "at any depth; `children()` only the next level.",
        ),
        Mistake(
            "root-left-out",
            lambda seen, spec, whole: (
                still_hooked(seen, spec) == [""]
                if whole == "net"
                else not len(seen["shares"]) and seen["hooks"]["copy"].value == seen["hooks"]["before"].value
            ),
            ROOT_LEFT,
        ),
        Mistake(
            "leaves-only",
            lambda seen, spec, whole: left_on_containers(still_hooked(seen, spec), spec) if whole == "net" else SILENT,
            CONTAINERS_LEFT,
        ),
        Mistake(
            "broken-ties",
            lambda seen: not len(seen["shares"]) and unlike(seen, "shared names") and not unlike(seen, "modules"),
            "What is shared inside the model is no longer shared inside the copy: two layers that used one weight now "
            "have a weight each. Copy the whole model with a single `deepcopy`.",
        ),
        Mistake(
            "changed-requires-grad",
            lambda seen, frozen: (
                unlike(seen, "requires grad") and not unlike(seen, "modules") if frozen == "part" else SILENT
            ),
            "A parameter of the copy requires grad and that of the original does not, or the other way round. Set "
            "nothing on the copy: `deepcopy` keeps `requires_grad`.",
        ),
        Mistake(
            "copied-gradients",
            lambda seen, grad: (
                len(seen["copy"]["grads"]) > 0 and not len(seen["shares"]) if grad == "filled" else SILENT
            ),
            "A parameter of the copy has a gradient in `.grad`. `deepcopy` leaves `.grad` behind, and the copy is to "
            "be as `deepcopy` makes it.",
        ),
        Mistake("replaced-the-dict", lambda seen: "weak reference" in str(seen["new"].value), PLAIN_DICTS),
        Mistake("flag-set", lambda seen: flag_set(seen["flags before"], seen["flags"]), FLAG_SET),
        Mistake(
            "changed-the-mode",
            lambda seen: unlike(seen, "modes") and not unlike(seen, "modules"),
            "A module of the copy is in another mode than its original. A copy is to be the same: leave out `eval()` "
            "and `train()`.",
        ),
    )

    def test_the_copy_has_no_hooks_and_computes_the_same(seen, spec, evaluating, x):
        expect(seen["is a module"]).is_true("your function did not return a module")
        if type(seen["output"].value) is str:
            refuse(f"the copy does not run as the original does: {seen['output'].value}")
        if left := first_left(seen["hooks"]["copy"], spec):
            refuse(f"on the copy, {left}")
        expect(seen["output"]).close_to(Run(evaluating).trace(spec, x)[-1].output)

    def test_a_hook_that_torch_registered_is_not_copied(seen):
        left = "`torch.nn.utils.spectral_norm` registers a forward pre-hook on a layer: the number of hooks on its copy"
        expect(Seen(seen["of torch"].value, left)).equals(0)

    def test_the_copy_has_everything_else(seen, call):
        as_the_original(seen["original"], seen["copy"])
        if names := expect(seen["hooks on parameters"]).list_of(str):
            refuse(f"on the copy, `{names[0]}` has a hook")
        if call != "once":
            as_the_original(seen["second original"], seen["second copy"])

    def test_what_is_shared_stays_shared_inside_the_copy(seen):
        if unlike(seen, "shared names"):
            refuse("a weight, buffer or module that the model has under two names is no longer one in the copy")

    def test_copy_and_original_share_nothing(seen, call):
        nothing_shared(seen["shares"], "the copy shares with the original")
        nothing_changed(seen["changed by the copy"], when="when the copy runs")
        expect(seen["bare itself"]).is_false("for `nn.ReLU()` without hooks you return the model itself")
        expect(seen["the same part"]).is_false("the object `model.part`, which is also a hook, is that of the original")
        if call != "once":
            nothing_shared(seen["shares with the second"], "two copies share")

    def test_the_original_stays_as_it_was(seen, call):
        nothing_changed(seen["changed"])
        if call != "once":
            nothing_changed(seen["changed by the second call"], when="by a second call")

    def test_the_hooks_of_the_original_fire_for_it_alone(
        seen, spec, listening, never, evaluating, hooks, x, shift, factor
    ):
        for when in ("fired during the call", "fired by the copy"):
            if fired := expect(seen[when]).list_of(str):
                kind = f" of `{fired[0]}`" if fired[0] in ("state_dict", "load_state_dict") else ""
                refuse(f"a hook{kind} of the original {when}")
        shift, factor = (shift, factor) if hooks == "replacing" else (0, 1)
        expect(seen["output of the original"]).close_to(factor * Run(evaluating).trace(spec, x + shift)[-1].output)
        expect(seen["fired by the original"]).equals(
            sorted({label for name, _, _, label in listening if name != never})
        )
        if seen["left after remove"].value != 0:
            refuse("a handle of the original no longer removes its hook", Kind.HOOK_GONE)

    def test_new_hooks_can_be_registered_on_the_copy(seen, spec, refusing, x):
        all_new_hooks_fire(seen, spec, refusing, x)
        flags_free(seen["flags before"], seen["flags"], spec)

    def test_it_holds_when_a_part_cannot_be_copied(seen):
        came_through(seen["failure"], "a part of the model")
        nothing_changed(seen["changed by failure"], when="after an exception")

    def test_the_example_comes_out(seen):
        copied = seen["example"][1].tensor
        if copied is None or not close(seen["example"][0], 2 * copied):
            refuse("in the example, `model(x)` is not twice `copied(x)`")


def still_hooked(seen: Seen, spec: list[Any]) -> list[str] | None:
    """The names of the modules of the copy that have all their hooks, when the others have none."""
    return None if len(seen["shares"]) else left_on(seen["hooks"]["before"].value, seen["hooks"]["copy"].value, spec)


PARTS = {
    "modules": "the copy has other modules, or other names or types of modules",
    "settings": "a setting of a module of the copy is another one",
    "saved": "`state_dict()` of the copy has other names",
    "modes": "a module of the copy is in another mode (training or eval)",
    "requires grad": "a parameter of the copy has another `requires_grad`",
    "other hooks": "the copy has not the hooks of `state_dict` and `load_state_dict` that the original has",
}
"""What a copy has to have like its original, and what to say when it has not."""


def unlike(seen: Seen, part: str) -> bool:
    """Whether the copy and the original differ in one part of their descriptions."""
    return bool(seen["copy"][part].value != seen["original"][part].value)


def as_the_original(original: Seen, copied: Seen) -> None:
    """A copy has all that its original has, but the hooks and the gradients."""
    for part, sentence in PARTS.items():
        before, now = (expect(side[part]).list_of(str) for side in (original, copied))
        if before != now:
            new = [entry for entry in now if entry not in before] + [entry for entry in before if entry not in now]
            refuse(f"{sentence}: {', '.join(new[:1]) or 'in another order'}")
    for name in original["tensors"].keys:
        expect(copied["tensors"][name]).close_to(original["tensors"][name].tensor, rtol=0, atol=0)
    if names := expect(copied["grads"]).list_of(str):
        refuse(f"`{names[0]}.grad` of the copy is not `None`")


def nothing_shared(shares: Seen, sentence: str) -> None:
    """No tensor, module or list is part of both."""
    for what in expect(shares).list_of(str):
        refuse(f"{sentence} {what}", Kind.ALIASED)


def attempted(model: nn.Module, x: Tensor) -> Tensor | str:
    """The output of a forward and backward pass through a model, or the exception that it raises."""
    try:
        return forward_backward(model, x)
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def doubled(model: nn.Module, factor: float) -> None:
    """Every parameter and buffer times a power of 2, in place."""
    with torch.no_grad():
        for tensor in (*model.parameters(), *model.buffers()):
            tensor.copy_(tensor * factor)


def tie_up(model: nn.Module, first: str, second: str) -> None:
    """The parameter or buffer called `second` becomes the one called `first`."""
    name = first.rpartition(".")[2]
    if name == "weight":
        tie(model, first, second)
    else:
        setattr(model.get_submodule(second.rpartition(".")[0]), name, model.get_buffer(first))


def description(model: Any) -> dict[str, Any]:
    """All that a copy must have like its original, part by part."""
    modules = list(model.named_modules(remove_duplicate=False))
    tensors = [*model.named_parameters(remove_duplicate=False), *model.named_buffers(remove_duplicate=False)]
    first: dict[int, str] = {}
    return {
        "modules": [f"{name or 'the model itself'}: {type(module).__name__}" for name, module in modules],
        "settings": [
            f"{name}.{key} = {value!r}"
            for name, module in modules
            for key, value in vars(module).items()
            if type(value) in (bool, int, float, str, list) and key not in ("training", "_is_full_backward_hook")
        ],
        "saved": list(model.state_dict()),
        "modes": [f"{name}: {module.training}" for name, module in modules],
        "requires grad": [f"{name}: {tensor.requires_grad}" for name, tensor in tensors],
        "shared names": [[name, first.setdefault(id(part), name)] for name, part in [*modules, *tensors]],
        "other hooks": [f"{len(hooks)} in {place}" for place, hooks in other_hooks(model).items()],
        "tensors": {name: tensor.detach().clone() for name, tensor in tensors},
        "grads": [name for name, tensor in tensors if tensor.grad is not None],
    }


def shared(first: Any, other: Any) -> list[str]:
    """The modules, tensors and lists of settings that two models have in common."""
    own = {id(part) for module in first.modules() for part in (module, *lists_of(module))}
    tensors = [*first.parameters(), *first.buffers()]
    tensors += [t.grad for t in tensors if t.grad is not None]
    found = []
    for name, module in other.named_modules():
        if id(module) in own or any(id(part) in own for part in lists_of(module)):
            found.append(f"the module `{name}`, or a list in it" if name else "the model itself, or a list in it")
    for name, tensor in (*other.named_parameters(), *other.named_buffers()):
        if any(shares_storage(part, own_part) for part in (tensor, tensor.grad) for own_part in tensors):
            found.append(f"the memory of `{name}`")
    return found


def lists_of(module: nn.Module) -> list[Any]:
    """The lists among the attributes of a module."""
    return [value for value in vars(module).values() if type(value) is list]
