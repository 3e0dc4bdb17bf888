"""Exercise 11-remove-all-hooks."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn.modules.module import register_module_forward_hook, register_module_full_backward_hook
from torch.nn.utils import prune

from graders.authoring import (
    ALL,
    SILENT,
    CallersHooks,
    Circumstances,
    Kind,
    Mistake,
    Seen,
    Witness,
    apart,
    changes,
    exercise,
    expect,
    fill_grads,
    freeze_part,
    nothing_changed,
    refuse,
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
    walk,
)
from graders.lesson_11_hygiene.shared import (
    all_counts,
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


@exercise(
    "11-remove-all-hooks",
    points=2,
    minutes=20,
    difficulty=2,
    title="Remove every hook of a model",
    hints=(
        "Torch has no public call for it. *A look inside* showed the four dicts in which a module keeps its hooks: "
        "forward pre-hooks, forward hooks, backward pre-hooks and backward hooks.",
        "`model.modules()` visits the model itself and every module below it, at any depth, and a shared module once.",
        "Add up the lengths of the dicts, and empty them with `clear()`. Do not put a new dict in their place: handles "
        "refer to the old one.",
    ),
    why=(
        "`clear()` empties the very dicts that old handles refer to, so those handles stay harmless and new hooks work "
        "as usual. A new `OrderedDict` in place of each would do as well; a plain `{}` would not, since a handle "
        "cannot refer to it weakly."
    ),
    circumstances=Circumstances(
        covers={"mode": ALL, "frozen": ALL, "hooks": ALL, "call": ALL, "grad_mode": ALL},
        excludes={
            "tensor": "it gets no tensor",
            "number": "no number is an argument",
            "collection": "there is no collection",
            "tied": "parameters are not looked at",
            "named": "it gets no name",
            "output": "it runs nothing",
            "follower": "it runs nothing",
            "passing": "it runs nothing",
            "registered": "a module that is not registered is not in the model",
            "layers": "every module has the same dicts",
            "hooked": "the hooks sit on modules of every kind, and the others on every parameter",
            "backward": "it runs no backward pass",
            "failure": "it calls nothing of the caller's",
        },
        own={"legacy": (False, True), "whole": ("net", "single layer")},
        pairs=[("hooks", "whole"), ("legacy", "whole")],
    ),
)
class TestRemoveAllHooks:
    """Write `remove_all_hooks(model)`. Remove all module hooks from `model` and from every module in it, at any
    depth. `model` may be a single layer. Return how many hooks you removed, as an `int`.

    Module hooks are forward pre-hooks, forward hooks, full backward pre-hooks and backward hooks (full ones, and those
    of the deprecated `register_backward_hook`), with whatever options they were registered. Use the private dicts that
    *a look inside* shows.

    - A function that was registered twice is two hooks. The hooks of a module that is in the model under two names
      count once.
    - Every call removes and counts the hooks that are there at that time; without any, the result is 0.
    - Afterwards the model behaves as if these hooks had never been there. New hooks of every kind can be registered as
      usual. Only the flag `_is_full_backward_hook` (*The flag that a legacy hook leaves*) may stay, or become `None`.
    - An old handle stays harmless: its `remove()` raises nothing and removes no new hook.
    - Hooks of other kinds stay: on parameters, of `state_dict` and `load_state_dict`, for all modules.

    **Example.** For `layer = nn.ReLU()` with two forward hooks, and `model = nn.Sequential(layer, layer)` with one
    forward pre-hook, `remove_all_hooks(model)` returns 3. A second call returns 0.
    """

    def draw(rng, mode, hooks, legacy, whole):
        child, block, inside, act, again, bag, deep, modal = rng.names(8)
        children = {
            child: linear(rng, values="full"),
            block: chain(
                {act: ["layer", "tanh"], inside: linear(rng, values="full"), again: ["same", act]}, [act, inside, again]
            ),
            modal: ["modal"],
            bag: ["list", [linear(rng, values="full"), chain({deep: linear(rng, values="full")}, [deep])]],
        }
        order = [child, block, modal, f"{bag}.0", f"{bag}.1"]
        places = {"child": child, "container": block, "inside": f"{block}.{inside}", "shared": f"{block}.{act}"}
        places |= {"never": bag, "entry": f"{bag}.0", "deep": f"{bag}.1.{deep}"}
        spec = chain({key: children[key] for key in rng.shuffled(list(children))}, order)
        if whole != "net":
            spec, places = linear(rng, values="full"), {}
        if mode == "mixed" and whole != "net":
            mode = "eval"
        listening = [] if hooks == "none" else some_hooks(rng, places, legacy)
        return {
            "spec": spec,
            "listening": listening,
            "shared": places.get("shared"),
            "refusing": [name for name, kind, *_ in listening if kind == "legacy"],
            "evaluating": in_eval_mode(rng, spec, mode),
            "x": rng.tensor(2, 3),
            "shift": rng.uniform(1, 2),
            "factor": rng.uniform(2, 4),
        }

    def alive(spec, evaluating, x, shift, factor):
        run = Run(evaluating)
        return apart(run.trace(spec, x)[-1].output, factor * run.trace(spec, x + shift)[-1].output)

    def oracle(spec, evaluating, x):
        return Run(evaluating).trace(spec, x)[-1].output

    def probe(student, spec, listening, refusing, evaluating, frozen, hooks, call, grad_mode, x, shift, factor):
        model, twin = (fill_grads(freeze_part(build(spec), frozen)) for _ in range(2))
        log, old = [], []
        for each in (twin, model):
            for name in evaluating:
                each.get_submodule(name).training = False
            old = register(each, listening, log)
            old += change_values(each, shift, factor) if hooks == "replacing" else []
            hook_state_dicts(each)
            for name, parameter in each.named_parameters():
                if parameter.requires_grad:
                    CallersHooks().on_parameter(parameter, name)
        with (
            register_module_forward_hook(lambda *args: None),
            register_module_full_backward_hook(lambda *args: None),
            torch.set_grad_enabled(grad_mode == "on"),
        ):
            witness, other, states = Witness(model=model), Witness(twin=twin), other_hooks(model)
            seen = {
                "before": hooks_by_kind(model),
                "flags before": flags_of(model),
                "result": student.remove_all_hooks(model),
            }
            seen |= {"left": hooks_by_kind(model), "flags": flags_of(model), "changed": witness.changes()}
            seen["state hooks"] = [place for place, ids in other_hooks(model).items() if ids != states[place]]
            seen["changed elsewhere"] = other.changes()
            if call == "in turn":
                seen["of another model"] = student.remove_all_hooks(twin)
            if call == "again":
                seen["again"] = student.remove_all_hooks(model)
        seen["output"], seen["fired"] = forward_backward(model, x), list(log)
        seen |= new_hooks(model, old, refusing, x)
        seen["there"] = sum(all_counts(hooks_by_kind(model)))
        seen["third"], seen["in the end"] = student.remove_all_hooks(model), sum(all_counts(hooks_by_kind(model)))
        seen["after new handles"] = 0
        if type(seen["new"]) is dict:
            new = register(model, [["", "pre", {}, "last"], ["", "forward", {"with_kwargs": True}, "last one"]], log)
            for handle in new:
                handle.remove()
            seen["after new handles"] = sum(all_counts(hooks_by_kind(model)))
        of_torch = torch.nn.utils.spectral_norm(torch.nn.Linear(2, 2))
        of_torch.register_module("nothing", None)
        of_torch.pruned = prune.l1_unstructured(torch.nn.Linear(2, 2), "weight", amount=0.5)
        seen["of torch"] = student.remove_all_hooks(of_torch)
        seen["left of torch"] = len(of_torch._forward_pre_hooks) + len(of_torch.pruned._forward_pre_hooks)
        layer = torch.nn.ReLU()
        example = torch.nn.Sequential(layer, layer)
        register(example, [["0", "forward", {}, "a"], ["0", "forward", {}, "b"], ["", "pre", {}, "c"]], log)
        return {**seen, "example": [student.remove_all_hooks(example), student.remove_all_hooks(example)]}

    mistakes = (
        Mistake(
            "one-kind-only",
            lambda seen: some_kinds_cleared(seen["before"].value, seen["left"].value),
            "Some kinds of hooks are gone, and others are still there. A module keeps four kinds, each in its own "
            "dict: forward pre-hooks, forward hooks, backward pre-hooks and backward hooks.",
        ),
        Mistake(
            "children-only",
            lambda seen, spec, whole: (
                left_below(left_on(seen["before"].value, seen["left"].value, spec), seen["before"].value, spec)
                if whole == "net"
                else SILENT
            ),
            "Some modules lost their hooks, and others kept theirs. `children()` yields only the next level, without "
            "the model itself. `modules()` yields the model and everything in it, at any depth.",
        ),
        Mistake(
            "legacy-left-out",
            lambda seen, spec, refusing: only_legacy_left(seen["left"], spec, refusing),
            "Backward hooks of the deprecated kind are still there. They are in `_backward_hooks`, too, where the flag "
            "`_is_full_backward_hook` is `False`, and they count.",
            rather_than=("children-only", "one-kind-only"),
        ),
        Mistake(
            "root-left-out",
            lambda seen, spec, whole: (
                left_on(seen["before"].value, seen["left"].value, spec) == [""]
                if whole == "net"
                else seen["left"].value == seen["before"].value
            ),
            ROOT_LEFT,
        ),
        Mistake(
            "leaves-only",
            lambda seen, spec, whole: (
                left_on_containers(left_on(seen["before"].value, seen["left"].value, spec), spec)
                if whole == "net"
                else SILENT
            ),
            CONTAINERS_LEFT,
        ),
        Mistake(
            "counted-twice",
            lambda seen, listening, shared, hooks: (
                gone(seen)
                and seen["result"].value == total(listening, hooks) + sum(hook[0] == shared for hook in listening)
                and seen["third"].value != seen["there"].value
            ),
            "You counted the hooks of a shared module twice, once for each of its names. It is one module: `modules()` "
            "yields it once.",
        ),
        Mistake(
            "counted-options",
            lambda seen, spec, listening, hooks: (
                gone(seen)
                and seen["result"].value in (total(listening, hooks) + n for n in option_counts(listening))
                and seen["third"].value - seen["there"].value >= len(modules_of(spec))
            ),
            "You counted entries that are no hooks. Dicts such as `_forward_hooks_with_kwargs` only note the options "
            "of hooks that are in the four dicts already.",
        ),
        Mistake(
            "counted-functions",
            lambda seen, listening, hooks: (
                gone(seen)
                and seen["result"].value == total(listening, hooks) - 1
                and seen["third"].value == seen["there"].value
            ),
            "One hook is missing in your count: a function that was registered twice on one module. Each registration "
            "is a hook of its own.",
        ),
        Mistake(
            "other-hooks-removed",
            lambda seen: gone(seen) and (len(seen["state hooks"]) > 0 or bool(other_changes(seen))),
            "You removed too much: hooks on parameters, hooks of `state_dict` and `load_state_dict`, and hooks for all "
            "modules have to stay. Touch only the four dicts of module hooks.",
        ),
        Mistake(
            "replaced-the-dict",
            lambda seen: gone(seen) and "weak reference" in str(seen["new"].value),
            PLAIN_DICTS,
        ),
        Mistake("flag-set", lambda seen: flag_set(seen["flags before"], seen["flags"]), FLAG_SET),
        Mistake(
            "no-count",
            lambda seen: gone(seen) and seen["result"].value is None,
            "The hooks are gone, but your function returned `None`. Return how many there were: add up the lengths of "
            "the dicts before you empty them.",
        ),
    )

    def test_all_module_hooks_are_removed(seen, spec, evaluating, x):
        if left := first_left(seen["left"], spec):
            refuse(left)
        expect(seen["output"]).close_to(Run(evaluating).trace(spec, x)[-1].output)
        if len(seen["fired"]) or type(seen["fired"].value) is not list:
            refuse("a hook that was there before your call still fired in a pass after it")

    def test_a_hook_that_torch_registered_is_removed_too(seen):
        of_torch = "`spectral_norm` and `prune` of `torch.nn.utils` register a forward pre-hook each: the number that "
        expect(Seen(seen["of torch"].value, of_torch + "the result tells")).equals(2)
        expect(Seen(seen["left of torch"].value, of_torch + "are left")).equals(0)

    def test_the_number_of_hooks_is_returned(seen, listening, hooks, call):
        expect(seen["result"]).equals(total(listening, hooks))
        if call == "in turn":
            expect(seen["of another model"]).equals(total(listening, hooks))
        if call == "again":
            expect(seen["again"]).equals(0)

    def test_hooks_that_come_later_can_be_removed_too(seen):
        if seen["in the end"].value != 0:
            refuse(f"after a call, new hooks were registered; another call left {seen['in the end'].value} of them")
        expect(seen["third"]).equals(seen["there"].value)

    def test_hooks_of_other_kinds_stay(seen):
        for place in expect(seen["state hooks"]).list_of(str):
            refuse(f"the hooks in {place} are not those of before", Kind.HOOK_GONE)
        for _, place in other_changes(seen):
            refuse(f"a hook on {'all modules' if place == 'torch' else f'`{place}`'} is gone", Kind.HOOK_GONE)

    def test_new_hooks_can_be_registered(seen, spec, refusing, x):
        all_new_hooks_fire(seen, spec, refusing, x)
        flags_free(seen["flags before"], seen["flags"], spec)
        if seen["after new handles"].value != 0:
            refuse("a new hook cannot be removed by its handle")

    def test_old_handles_stay_harmless(seen):
        if seen["old handles"].value != "harmless":
            refuse(f"an old handle is not harmless: {seen['old handles'].value}")

    def test_nothing_else_changes(seen, spec):
        kinds = ("hook-removed", "hook-dict", "hook-options")
        nothing_changed(seen["changed"], but=[f"{kind} {place}" for kind in kinds for place in modules_of(spec)])
        nothing_changed(seen["changed elsewhere"], when="on another model")

    def test_the_example_comes_out(seen):
        expect(seen["example"]).equals([3, 0])


def modules_of(spec: list[Any]) -> list[str]:
    """What a witness calls the modules of a model."""
    return [f"model.{name}" if name else "model" for name, _ in walk(spec)]


def other_changes(seen: Seen) -> list[list[str]]:
    """Hooks that are gone, and not from a module."""
    gone = changes(seen["changed"], "hook-removed *")
    return [[what, place] for what, place in gone if place == "torch" or place.endswith((".weight", ".bias"))]


def gone(seen: Seen) -> bool:
    """Whether no module hook is left."""
    return not any(counts_seen(seen["left"]))


def only_legacy_left(left: Seen, spec: list[Any], refusing: list[str]) -> bool:
    """Whether what is left are backward hooks of modules that have those of the deprecated kind."""
    kinds = [kind for kind in left.keys if any(expect(left[kind]).list_of(int))] if type(left.value) is dict else []
    if kinds != ["_backward_hooks"]:
        return False
    return all(name in refusing for (name, _), count in zip(walk(spec), left[kinds[0]].value) if count)


def total(listening: list[Any], hooks: str) -> int:
    """The number of module hooks: the listeners, and the two hooks that change values."""
    return len(listening) + 2 * (hooks == "replacing")


def option_counts(hooks: list[Any]) -> set[int]:
    """How many entries the dicts of options have, by what somebody may take for hooks."""
    count = {option: sum(option in hook[2] for hook in hooks) for option in ("with_kwargs", "always_call")}
    return {*count.values(), sum(count.values())} - {0}
