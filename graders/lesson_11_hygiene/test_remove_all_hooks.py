"""Exercise 11-remove-all-hooks."""

from __future__ import annotations

from typing import Any

from torch.nn.modules.module import register_module_forward_hook

from graders.authoring import Mistake, Seen, apart, exercise, expect, model_unchanged
from graders.lesson_11_hygiene.judging import (
    all_new_hooks_fire,
    chain,
    counts_seen,
    linear,
    some_hooks,
    some_kinds_cleared,
    some_modules_cleared,
    trace,
)
from graders.lesson_11_hygiene.shared import (
    Witness,
    all_counts,
    build,
    change_values,
    forward_backward,
    hooks_by_kind,
    new_hooks,
    register,
)


@exercise(
    "11-remove-all-hooks",
    points=2,
    title="Remove every hook of a model",
    hints=(
        "Torch has no public call for it. *A look inside* showed the four dicts in which a module keeps its hooks: "
        "forward pre-hooks, forward hooks, backward pre-hooks and backward hooks.",
        "`model.modules()` visits the model itself and every module below it, at any depth, and a shared module once.",
        "Add up the lengths of the dicts, and empty them with `clear()`. Do not put a new dict in their place: handles "
        "refer to the old one.",
    ),
    cases=({"legacy": False}, {"legacy": True}, {"legacy": False}),
)
class TestRemoveAllHooks:
    """Write `remove_all_hooks(model)`. Remove all module hooks from `model` and from every module in it, at any depth.

    These are

    - forward pre-hooks and forward hooks,
    - full backward pre-hooks and backward hooks (those of `register_full_backward_hook`, and those of the deprecated
      `register_backward_hook`),

    with whatever options they were registered (`prepend`, `with_kwargs`, `always_call`). You get no handles: use the
    private dicts that *a look inside* shows. Return how many hooks you removed, as an `int`. A module that is in the
    model under two names is one module, and its hooks count once. On a model without such hooks the function returns 0.

    Afterwards the model behaves as if these hooks had never been there, and new hooks of every kind can be registered
    as usual. One thing is not asked for: the flag that a legacy hook leaves may stay as it is. Calling `remove()` on an
    old handle stays harmless: no exception, and no new hook disappears.

    Everything else stays: hooks on parameters, hooks of `load_state_dict`, global hooks, the values of the parameters
    and their `.grad`, and the mode of each module.

    Every call removes and counts the hooks that are there at that time.

    **Example.** For `layer = nn.ReLU()` with two forward hooks, and `model = nn.Sequential(layer, layer)` with one
    forward pre-hook, `remove_all_hooks(model)` returns 3. A second call returns 0.
    """

    def draw(rng, legacy):
        child, block, inside, act, again, bag, deep = rng.names(7)
        children = {
            child: linear(rng),
            block: chain({act: ["layer", "tanh"], inside: linear(rng), again: ["same", act]}, [act, inside, again]),
            bag: ["list", [linear(rng), chain({deep: linear(rng)}, [deep])]],
        }
        order = [child, block, f"{bag}.0", f"{bag}.1"]
        places = {"child": child, "container": block, "inside": f"{block}.{inside}", "shared": f"{block}.{act}"}
        places |= {"never": bag, "entry": f"{bag}.0", "deep": f"{bag}.1.{deep}"}
        return {
            "spec": chain({key: children[key] for key in rng.shuffled(list(children))}, order),
            "hooks": some_hooks(rng, places, legacy),
            "places": places,
            "x": rng.tensor(2, 3),
            "shift": rng.uniform(1, 2),
            "factor": rng.uniform(2, 4),
        }

    def alive(spec, x, shift, factor):
        plain, hooked = trace(spec, x)[-1].output, factor * trace(spec, x + shift)[-1].output
        return apart(plain, hooked)

    def probe(student, spec, hooks, places, x, shift, factor):
        model, log, kept = build(spec), [], []
        old = register(model, hooks, log) + change_values(model, shift, factor)
        child, deep = model.get_submodule(places["child"]), model.get_submodule(places["deep"])
        child.weight.register_hook(lambda grad: kept.append("a hook on a parameter"))
        deep.weight.register_post_accumulate_grad_hook(lambda p: kept.append("a post-accumulate-grad hook"))
        child.register_load_state_dict_post_hook(lambda module, keys: kept.append("a hook of load_state_dict"))
        deep.eval()
        witness, before = Witness(model), hooks_by_kind(model)
        with register_module_forward_hook(lambda module, args, output: kept.append("a global hook")):
            seen = {"before": before, "result": student.remove_all_hooks(model), "left": hooks_by_kind(model)}
            seen |= {key: value for key, value in witness.report().items() if key.endswith("_kept")}
            seen["output"], seen["fired"] = forward_backward(model, x), list(log)
            model.load_state_dict(model.state_dict())
        seen["others"] = sorted(set(kept))
        seen["second"] = student.remove_all_hooks(model)
        seen |= new_hooks(model, old, places["entry"], x)
        seen["there"] = sum(all_counts(hooks_by_kind(model)))
        seen["third"], seen["in the end"] = student.remove_all_hooks(model), sum(all_counts(hooks_by_kind(model)))
        return seen

    mistakes = (
        Mistake(
            "one-kind-only",
            lambda seen: some_kinds_cleared(seen["before"].value, seen["left"].value),
            "Some kinds of hooks are gone, and others are still there. A module keeps four kinds, each in its own "
            "dict: forward pre-hooks, forward hooks, backward pre-hooks and backward hooks.",
        ),
        Mistake(
            "children-only",
            lambda seen: some_modules_cleared(seen["before"].value, seen["left"].value),
            "Some modules lost their hooks, and others kept theirs. `children()` yields only the next level, without "
            "the model itself. `modules()` yields the model and everything in it, at any depth.",
        ),
        Mistake(
            "counted-twice",
            lambda seen, hooks, places: (
                gone(seen)
                and seen["result"].value == total(hooks) + sum(hook[0] == places["shared"] for hook in hooks)
                and seen["third"].value != seen["there"].value
            ),
            "You counted the hooks of a shared module twice, once for each of its names. It is one module: `modules()` "
            "yields it once.",
        ),
        Mistake(
            "counted-options",
            lambda seen, hooks: (
                gone(seen)
                and seen["result"].value in (total(hooks) + n for n in option_counts(hooks))
                and seen["third"].value == seen["there"].value  # the new hooks have no options
            ),
            "You counted entries that are no hooks. Dicts such as `_forward_hooks_with_kwargs` only note the options "
            "of hooks that are in the four dicts already.",
        ),
        Mistake(
            "other-hooks-removed",
            lambda seen: gone(seen) and seen["others"].value != OTHERS,
            "You removed too much: hooks on parameters, hooks of `load_state_dict` and global hooks have to stay. "
            "Touch only the four dicts of module hooks.",
        ),
        Mistake(
            "replaced-the-dict",
            lambda seen: gone(seen) and isinstance(seen["new"].value, str),
            "You put new dicts in the place of the old ones, and now no hook can be registered any more: a handle "
            "needs a weak reference to the dict, which a plain `{}` does not allow. Empty the old dict with `clear()`.",
        ),
        Mistake(
            "no-count",
            lambda seen: gone(seen) and seen["result"].value is None,
            "The hooks are gone, but your function returned `None`. Return how many there were: add up the lengths of "
            "the dicts before you empty them.",
        ),
    )

    def test_all_module_hooks_are_removed(seen, spec, x):
        if left := sum(counts_seen(seen["left"])):
            expect(seen["left"]).fail(f"{left} module hooks are still there")
        expect(seen["output"]).close_to(trace(spec, x)[-1].output)
        expect(seen["fired"]).equals([])

    def test_the_number_of_hooks_is_returned(seen, hooks):
        expect(seen["result"]).equals(total(hooks))

    def test_a_second_call_returns_0(seen):
        expect(seen["second"]).equals(0)

    def test_hooks_that_come_later_can_be_removed_too(seen):
        if seen["in the end"].value:
            expect(seen["in the end"]).fail(
                f"after a call, new hooks were registered; another call left {seen['in the end'].value} of them"
            )
        expect(seen["third"]).equals(seen["there"].value)

    def test_other_hooks_stay(seen):
        others = expect(seen["others"]).list_of(str)
        for kind in OTHERS:
            if kind not in others:
                expect(seen["others"]).fail(f"{kind} no longer fires")

    def test_new_hooks_can_be_registered(seen, spec, places, x):
        all_new_hooks_fire(seen, spec, places["entry"], x)

    def test_old_handles_stay_harmless(seen):
        expect(seen["old_handles"]).equals("harmless")

    def test_the_model_is_unchanged(seen):
        model_unchanged(seen)


OTHERS = ["a global hook", "a hook of load_state_dict", "a hook on a parameter", "a post-accumulate-grad hook"]


def gone(seen: Seen) -> bool:
    """Whether no module hook is left."""
    return not any(counts_seen(seen["left"]))


def total(hooks: list[Any]) -> int:
    """The number of module hooks: the listeners, and the two hooks that change values."""
    return len(hooks) + 2


def option_counts(hooks: list[Any]) -> set[int]:
    """How many entries the dicts of options have, by what somebody may take for hooks."""
    count = {option: sum(option in hook[2] for hook in hooks) for option in ("with_kwargs", "always_call")}
    return {*count.values(), sum(count.values())} - {0}
