"""Exercise 11-clean-copy."""

import copy
from collections import OrderedDict

from torch import nn

from graders.exercises.authoring import exercise
from graders.exercises.lesson_11_hygiene.programs import KINDS, stripped, with_flag
from graders.scenes.scene import stories
from graders.scenes.stories import bare_copies
from graders.scenes.stories.hooks_everywhere import both_backward


def shallow(model):
    """A copy that shares everything but the dicts of hooks."""
    copied = copy.copy(model)
    for kind in KINDS:
        setattr(copied, kind, OrderedDict())
    return copied


def stripped_copy(model, modules=nn.Module.modules, **how):
    """A copy, and then its hooks are gone."""
    copied = copy.deepcopy(model)
    stripped(modules(copied), **how)
    return copied


@exercise(
    "11-clean-copy",
    points=2,
    minutes=20,
    difficulty=2,
    title="A copy without hooks",
    hints=(
        "`copy.deepcopy(model)` copies everything that counts: types, parameters, buffers and modes, and what is "
        "shared stays shared. It also copies the module hooks.",
        "So strip the copy afterwards. You wrote the function for that in the previous exercise.",
        "Strip the copy, not the original: the original keeps its hooks. Never run either of them.",
    ),
    why=(
        "`deepcopy` copies everything else as it should be, and clearing the hooks of the copy leaves the original "
        "alone. You could also take the hooks off the original while it is being copied, if you put them back into "
        "the same dicts, in the same order, in `finally`."
    ),
    scene=stories(
        promises={
            "the copy has no hooks and computes the same": (bare_copies.without_hooks, bare_copies.none_anywhere),
            "the copy has everything else": (bare_copies.everything_else, bare_copies.other_hooks_too),
            "what is shared inside the model is shared inside the copy": bare_copies.shared_inside,
            "copy and original share nothing": bare_copies.nothing_in_common,
            "the original stays as it was": bare_copies.ORIGINAL,
            "new hooks can be registered on the copy": bare_copies.new_on_the_copy,
            "an exception comes through and the original is unchanged": bare_copies.cannot_be_copied,
        },
        axes=bare_copies.COPIED,
        impossible=(both_backward,),
    ),
)
class TestCleanCopy:
    """Write `clean_copy(model)`: return a deep copy of `model`, as `copy.deepcopy` makes it, but without module hooks
    of any kind (the previous exercise lists them), on any of its `modules()`. The original keeps its hooks.

    **Example.**

    >>> model = nn.Linear(2, 1)
    >>> _ = model.register_forward_hook(lambda module, args, output: 2 * output)
    >>> copied, x = clean_copy(model), torch.tensor([[1.0, 3.0]])
    >>> torch.equal(model(x), 2 * copied(x))
    True

    **Fine print.** Whatever else `copy.deepcopy` copies is in the copy: modes, `requires_grad`, hooks of `state_dict`
    and `load_state_dict`; what is shared inside the model stays shared. `.grad` and hooks on parameters are not
    copied. Copy and original share no memory. No hook of the original fires while you copy. The copy takes new hooks;
    its flag `_is_full_backward_hook`, which refuses backward hooks of one kind, may be the original's, or `None`. Every
    hook can be copied; what `copy.deepcopy` raises for something else comes through.
    """

    reference = stripped_copy

    class Mistakes:
        def hooks_copied(model):
            """The copy still has the hooks. `deepcopy` copies module hooks, too, and a copied function is the same
            function: the copy writes into the log of the original. Strip the copy.
            """
            return copy.deepcopy(model)

        def cleared_original(model):
            """The original has lost its hooks. Make the deep copy first, then strip the copy, and leave the original
            alone.
            """
            stripped(model.modules())
            return copy.deepcopy(model)

        def shared_parameters(model):
            """The copy and the original share parameters, buffers or modules, so what changes one changes the other.
            `copy.copy` and `load_state_dict(..., assign=True)` share; `copy.deepcopy` does not.
            """
            return shallow(model)

        def shared_parameters__2(model):  # modules of its own
            def each(module):
                copied = shallow(module)
                copied._modules = {name: part and each(part) for name, part in module._modules.items()}
                return copied

            return each(model)

        def one_kind_only(model):
            return stripped_copy(model, kinds=KINDS[:2])

        def one_kind_only__2(model):
            return stripped_copy(model, kinds=[kind for kind in KINDS if kind != "_backward_pre_hooks"])

        def children_only(model):
            return stripped_copy(model, modules=nn.Module.children)

        def children_only__2(model):
            return stripped_copy(model, modules=lambda copied: [copied])

        def children_only__3(model):
            return stripped_copy(model, modules=lambda copied: [copied, *copied.children()])

        def replaced_the_dict(model):
            copied = copy.deepcopy(model)
            for module in copied.modules():
                for kind in KINDS:
                    setattr(module, kind, {})
            return copied

        def flag_set(model):
            return with_flag(stripped_copy(model), True)

        def flag_set__2(model):
            return with_flag(stripped_copy(model), False)

        def changed_the_mode(model):
            """A module of the copy is not in the mode of its original. A copy should be the same: leave out `eval()`
            and `train()`.
            """
            return stripped_copy(model).eval()

        def changed_the_mode__2(model):
            return stripped_copy(model).train()

        def returned_the_count(model):
            """You returned what your function from the previous exercise returns, the number of hooks. Keep the copy in
            a variable, strip it, and return the copy.
            """
            return stripped(copy.deepcopy(model).modules())

        def frozen(model):
            """Parameters of the copy do not require grad as those of the original do. Leave out `requires_grad_()`, and
            copy with `copy.deepcopy`.
            """
            return stripped_copy(model).requires_grad_(False)

        def other_hooks_removed(model):
            """You removed too much: the copy has lost hooks of `state_dict` or `load_state_dict`. Clear only the four
            dicts of module hooks, by their names.
            """
            return stripped_copy(model, kinds=[name for name in vars(model) if name.endswith("_hooks")])
