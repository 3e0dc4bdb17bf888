"""Exercise 11-remove-all-hooks."""

from collections import OrderedDict

from torch.nn.modules import module as module_file

from graders.exercises.authoring import exercise
from graders.exercises.lesson_11_hygiene.programs import KINDS, stripped, with_flag
from graders.scenes.scene import stories
from graders.scenes.stories import hooks_everywhere


def with_new_dicts(model, new):
    """Count the hooks, and put new dicts in the place of those in which they are."""
    count = sum(len(getattr(module, kind)) for module in model.modules() for kind in KINDS)
    for module in model.modules():
        for kind in KINDS:
            setattr(module, kind, new())
    return count


@exercise(
    "11-remove-all-hooks",
    points=2,
    minutes=20,
    difficulty=2,
    title="Remove every hook of a model",
    hints=(
        "PyTorch has no public call for this. *A look inside* showed the four dicts in which a module keeps its "
        "hooks: forward pre-hooks, forward hooks, backward pre-hooks and backward hooks.",
        "`model.modules()` visits the model itself and every module below it, at any depth, and a shared module once.",
        "Add up the lengths of the dicts, and empty them with `clear()`. Do not put a plain `{}` in their place: no "
        "handle can refer to it.",
    ),
    why=(
        "`clear()` empties the very dicts that old handles refer to, so those handles stay harmless and new hooks work "
        "as usual. A new `OrderedDict` in place of each would do as well; a plain `{}` would not, since a handle "
        "cannot refer to it weakly."
    ),
    scene=stories(
        promises={
            "all module hooks are removed": (hooks_everywhere.all_removed, hooks_everywhere.removed_everywhere),
            "the number of hooks is returned": hooks_everywhere.counted,
            "hooks of other kinds stay": (hooks_everywhere.others_stay, hooks_everywhere.global_hooks_stay),
            "new hooks can be registered": hooks_everywhere.new_ones,
            "old handles are harmless": hooks_everywhere.old_handles,
            "nothing else changes": hooks_everywhere.nothing_else,
        },
        axes=hooks_everywhere.REMOVED,
        impossible=(hooks_everywhere.both_backward,),
    ),
)
class TestRemoveAllHooks:
    """Write `remove_all_hooks(model)`: remove all module hooks of `model` and of every module in it: forward pre-hooks,
    forward hooks, backward pre-hooks and backward hooks. Return how many there were, as an `int`.

    **Example.**

    >>> layer = nn.ReLU()
    >>> model = nn.Sequential(layer, layer)
    >>> _ = layer.register_forward_hook(lambda module, args, output: 2 * output)
    >>> _ = model.register_forward_pre_hook(lambda module, args: None)
    >>> remove_all_hooks(model), remove_all_hooks(model)
    (2, 0)

    **Fine print.** A function that was registered twice is two hooks; a module with two names counts once. Those of
    `register_backward_hook` are backward hooks, too. Hooks on parameters, those of `state_dict` and `load_state_dict`,
    and global hooks, for all modules (as `register_module_forward_hook` registers them), stay and do not count. New
    hooks can be registered as usual; the flag `_is_full_backward_hook`, which refuses backward hooks of one kind, may
    stay, or become `None`. Old handles are harmless: `remove()` raises nothing and removes no new hook.
    """

    def reference(model):
        return stripped(model.modules())

    def reference_with_new_dicts(model):
        return with_new_dicts(model, OrderedDict)

    class Mistakes:
        def one_kind_only(model):
            return stripped(model.modules(), KINDS[1:2])

        def one_kind_only__2(model):
            return stripped(model.modules(), KINDS[:2])

        def one_kind_only__3(model):
            return stripped(model.modules(), [kind for kind in KINDS if kind != "_backward_pre_hooks"])

        def children_only(model):
            return stripped(model.children())

        def children_only__2(model):
            return stripped([model, *model.children()])

        def counted_twice(model):
            """You counted the hooks of a shared module more than once, because it stands in several places. It is one
            module: `modules()` yields it once.
            """
            modules = [module for _, module in model.named_modules(remove_duplicate=False)]
            count = sum(len(getattr(module, kind)) for module in modules for kind in KINDS)
            stripped(modules)
            return count

        def counted_twice__2(model):  # from level to level
            def count(module):
                return sum(len(getattr(module, kind)) for kind in KINDS) + sum(map(count, module.children()))

            before = count(model)
            stripped(model.modules())
            return before

        def counted_functions(model):
            """You count functions, and one that was registered twice counts once. Each registration is a hook: add up
            the lengths of the dicts.
            """
            count = sum(len(set(getattr(module, kind).values())) for module in model.modules() for kind in KINDS)
            stripped(model.modules())
            return count

        def other_hooks_removed(model):
            """You removed too much: hooks on parameters, hooks of `state_dict` and `load_state_dict`, and hooks for all
            modules have to stay. Touch only the four dicts of module hooks.
            """
            return stripped(model.modules(), [name for name in vars(model) if name.endswith("_hooks")])

        def other_hooks_removed__2(model):
            module_file._global_forward_hooks.clear()
            return stripped(model.modules())

        def other_hooks_removed__3(model):
            return stripped(model.modules()) + stripped([module_file], [f"_global{kind}" for kind in KINDS])

        def other_hooks_removed__4(model):
            of_parameters = [p._backward_hooks for p in model.parameters() if p._backward_hooks]
            count = stripped(model.modules()) + sum(map(len, of_parameters))
            for hooks in of_parameters:
                hooks.clear()
            return count

        def replaced_the_dict(model):
            return with_new_dicts(model, dict)

        def flag_set(model):
            return stripped(with_flag(model, True).modules())

        def flag_set__2(model):
            return stripped(with_flag(model, False).modules())

        def no_count(model):
            """The hooks are gone, but your function returned `None`. Return how many there were: add up the lengths of
            the dicts before you empty them.
            """
            stripped(model.modules())

        def counted_too_late(model):
            """You returned 0: you counted when the dicts were already empty. Add up their lengths before you empty
            them.
            """
            stripped(model.modules())
            return 0
