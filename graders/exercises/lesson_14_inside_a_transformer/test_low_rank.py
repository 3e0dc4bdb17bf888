"""Exercise 14-low-rank."""

from types import SimpleNamespace

import torch
import torch.nn.functional as F
from torch import nn

from graders.exercises.authoring import exercise
from graders.scenes.scene import stories
from graders.scenes.stories import low_rank


def random(rank, layer):
    """Numbers for `low_rank_a`."""
    return torch.randn(rank, layer.in_features, dtype=layer.weight.dtype) / layer.in_features**0.5


def product(layer, x):
    """What goes through both parameters."""
    return x @ layer.low_rank_a.T @ layer.low_rank_b.T


def scaled(factor):
    """The hook that adds `factor` times the product."""
    return lambda layer, x, output: output + factor * product(layer, x)


def added(
    model, name, rank, add, *, a=None, b=None, keep=nn.Parameter, freeze=None, undo=("hook", "parameters", "frozen")
):
    """A right answer with `add(layer, x, output)` as its hook, of which other parts may be replaced, too."""
    layer, required = model.get_submodule(name), {p: p.requires_grad for p in model.parameters()}
    for parameter in required if freeze is None else freeze:
        parameter.requires_grad_(False)
    layer.low_rank_a = keep(random(rank, layer) if a is None else a)
    layer.low_rank_b = keep(torch.zeros(layer.out_features, rank, dtype=layer.weight.dtype) if b is None else b)
    hook = layer.register_forward_hook(lambda module, args, output: add(module, args[0], output))

    def remove():
        if "hook" in undo:
            hook.remove()
        if "parameters" in undo:
            del layer.low_rank_a, layer.low_rank_b
        for parameter, before in required.items() if "frozen" in undo else ():
            parameter.requires_grad_(before)

    return SimpleNamespace(remove=remove)


@exercise(
    "14-low-rank",
    name="add_low_rank",
    points=3,
    minutes=25,
    difficulty=3,
    title="A small addition that can be trained",
    hints=(
        "Note the `requires_grad` of all parameters, and freeze them, before you make new ones.",
        "`layer.low_rank_a = nn.Parameter(...)` registers a parameter, and `del layer.low_rank_a` takes it off. "
        "`layer.weight` is [out, in], and tells you the dtype.",
        "The forward hook returns `output + alpha / rank * args[0] @ module.low_rank_a.T @ module.low_rank_b.T`.",
        "The handle is an object of a small class of yours, whose `remove()` undoes all three steps.",
    ),
    why=(
        "The hook reads both parameters in every call, so training them changes the layer, and `low_rank_b` of zeros "
        "makes the start harmless. `F.linear(x, weight + alpha / rank * b @ a, bias)` in the hook gives the same "
        "numbers, but multiplies by a whole matrix twice, and loses what other hooks made of the output."
    ),
    scene=stories(
        promises={
            "there are two new parameters and nothing is added yet": low_rank.begun,
            "the layer adds alpha / rank times the product": low_rank.added,
            "training moves only the two": low_rank.trained,
            "remove() leaves the model as it was": low_rank.removed,
            "merged weights give the same outputs": low_rank.merged,
            "nothing else changes": low_rank.NOTHING_ELSE,
        },
        axes=low_rank.AXES,
    ),
)
class TestLowRank:
    """Write `add_low_rank(model, name, rank, alpha)`, known as LoRA: freeze all parameters, give the linear layer
    `name` new ones, `low_rank_a` [rank, in] and `low_rank_b` [out, rank], and let a hook add
    `alpha / rank * x @ low_rank_a.T @ low_rank_b.T` to its output. Return a handle.

    **Example.**

    >>> model = nn.Sequential(nn.Linear(3, 2), nn.ReLU())
    >>> handle = add_low_rank(model, "0", 1, 10.0)
    >>> [name for name, parameter in model.named_parameters() if parameter.requires_grad]
    ['0.low_rank_a', '0.low_rank_b']
    >>> x, before = torch.ones(3), model[0](torch.ones(3))
    >>> _ = torch.nn.init.ones_(model[0].low_rank_a), torch.nn.init.ones_(model[0].low_rank_b)
    >>> (model[0](x) - before).detach().round()  # 10 / 1 * (1 + 1 + 1)
    tensor([30., 30.])
    >>> handle.remove()
    >>> [name for name, parameter in model.named_parameters() if parameter.requires_grad]
    ['0.weight', '0.bias']

    **Fine print.** To begin with, `low_rank_a` is random and `low_rank_b` zero, so nothing is added yet. Each is an
    `nn.Parameter` of the layer, in the dtype of its weight. `handle.remove()` takes off the hook and both parameters,
    and gives each other parameter the `requires_grad` that it had. The output of the layer is not written into. A model
    has one addition at a time, and calls that layer with its input by position.
    """

    def reference(model, name, rank, alpha):
        return added(model, name, rank, scaled(alpha / rank))

    class Mistakes:
        def nothing_added(model, name, rank, alpha):
            """What the layer returns does not depend on the two parameters. Your hook has to compute the sum anew in
            each call, and return it.
            """
            return added(model, name, rank, lambda layer, x, output: None)

        def tensors_not_parameters(model, name, rank, alpha):
            """Your hook computes with the tensors of which you made the parameters, so no gradient reaches these, and
            new values of them may not reach your hook. Read `module.low_rank_a` and `module.low_rank_b` in the hook.
            """
            layer = model.get_submodule(name)
            a, b = random(rank, layer), torch.zeros(layer.out_features, rank, dtype=layer.weight.dtype)
            return added(model, name, rank, lambda layer, x, out: out + alpha / rank * x @ a.T @ b.T, a=a, b=b)

        def nothing_frozen(model, name, rank, alpha):
            """The parameters that were there can still be trained. Freeze all of them: `requires_grad_(False)`."""
            return added(model, name, rank, scaled(alpha / rank), freeze=[])

        def nothing_frozen__2(model, name, rank, alpha):
            return added(model, name, rank, scaled(alpha / rank), freeze=[model.get_submodule(name).weight])

        def nothing_frozen__3(model, name, rank, alpha):
            return added(model, name, rank, scaled(alpha / rank), freeze=list(model.get_submodule(name).parameters()))

        def new_ones_frozen(model, name, rank, alpha):
            """The two new parameters are frozen, too. Freeze those that are there before you make new ones."""

            def frozen(t):
                return nn.Parameter(t, requires_grad=False)

            return added(model, name, rank, scaled(alpha / rank), keep=frozen)

        def layer_anew(model, name, rank, alpha):
            """Your hook computes the layer anew, so what somebody else's hook made of its output is lost. Add to the
            output that your hook gets.
            """

            def merged(layer, x, output):
                return F.linear(x, layer.weight + alpha / rank * layer.low_rank_b @ layer.low_rank_a, layer.bias)

            return added(model, name, rank, merged)

        def of_the_output(model, name, rank, alpha):
            """You multiplied the output of the layer. The product is of what goes in, `args[0]`."""
            return added(model, name, rank, lambda layer, x, output: output + alpha / rank * product(layer, output))

        def without_scale(model, name, rank, alpha):
            """You added the product itself. Multiply it by `alpha / rank`."""
            return added(model, name, rank, scaled(1))

        def not_by_rank(model, name, rank, alpha):
            """You multiplied by `alpha`, or divided with `//`, which rounds down. The factor is `alpha / rank`."""
            return added(model, name, rank, scaled(alpha))

        def not_by_rank__2(model, name, rank, alpha):
            return added(model, name, rank, scaled(alpha // rank))

        def b_random(model, name, rank, alpha):
            """`low_rank_b` is not zero, so the layer gives something else from the start. It has to begin as zeros."""
            layer = model.get_submodule(name)
            b = torch.randn(layer.out_features, rank, dtype=layer.weight.dtype)
            return added(model, name, rank, scaled(alpha / rank), b=b)

        def both_zero(model, name, rank, alpha):
            """Your `low_rank_a` is zero. It has to be random and `low_rank_b` zero; with two zeros the gradient of each
            is zero, too, and they never learn.
            """
            a = torch.zeros_like(random(rank, model.get_submodule(name)))
            return added(model, name, rank, scaled(alpha / rank), a=a)

        def both_zero__2(model, name, rank, alpha):
            layer = model.get_submodule(name)
            b = torch.randn(layer.out_features, rank, dtype=layer.weight.dtype)
            a = torch.zeros_like(random(rank, layer))
            return added(model, name, rank, scaled(alpha / rank), a=a, b=b)

        def no_parameters(model, name, rank, alpha):
            """`low_rank_a` and `low_rank_b` are plain tensors, which the model does not know about and no optimizer
            gets. Make each an `nn.Parameter`.
            """
            return added(model, name, rank, scaled(alpha / rank), keep=lambda t: t.requires_grad_())

        def cut_the_graph(model, name, rank, alpha):
            """No gradient reaches the two parameters: leave out `detach()`, `.data` and `torch.no_grad()`."""
            return added(model, name, rank, lambda layer, x, output: output + alpha / rank * product(layer, x).detach())

        def cut_the_input(model, name, rank, alpha):
            """The layers before this one get a wrong gradient: none comes through your addition. Leave out `detach()`,
            and multiply `args[0]` itself.
            """
            return added(model, name, rank, lambda layer, x, out: out + alpha / rank * product(layer, x.detach()))

        def written_into(model, name, rank, alpha):
            """Your hook wrote into the output of the layer, and one of the caller's hooks had kept it. `output += ...`
            does that: return `output + ...`.
            """
            return added(model, name, rank, lambda layer, x, output: output.add_(product(layer, x), alpha=alpha / rank))

        def hook_stays(model, name, rank, alpha):
            """After `remove()` your hook is still there. It has to take off the hook, too."""
            return added(model, name, rank, scaled(alpha / rank), undo=("parameters", "frozen"))

        def parameters_stay(model, name, rank, alpha):
            """After `remove()` the layer still has the two parameters: `del layer.low_rank_a, layer.low_rank_b`."""
            return added(model, name, rank, scaled(alpha / rank), undo=("hook", "frozen"))

        def parameters_stay__2(model, name, rank, alpha):  # as None
            handle, layer = added(model, name, rank, scaled(alpha / rank)), model.get_submodule(name)
            none = {"low_rank_a": None, "low_rank_b": None}
            return SimpleNamespace(remove=lambda: (handle.remove(), layer._parameters.update(none)))

        def stays_frozen(model, name, rank, alpha):
            """After `remove()` parameters are still frozen. Give each one the `requires_grad` that it had. If you pair
            parameters and flags with `zip`, delete the two new ones first: they come in between.
            """
            return added(model, name, rank, scaled(alpha / rank), undo=("hook", "parameters"))

        def stays_frozen__2(model, name, rank, alpha):
            flags = [p.requires_grad for p in model.parameters()]
            handle = added(model, name, rank, scaled(alpha / rank), undo=("hook", "parameters"))

            def remove():
                for p, flag in zip(model.parameters(), flags):
                    p.requires_grad_(flag)
                handle.remove()

            return SimpleNamespace(remove=remove)

        def all_thawed(model, name, rank, alpha):
            """After `remove()` every parameter requires grad, even one that did not. Note which ones did before you
            freeze them.
            """
            handle = added(model, name, rank, scaled(alpha / rank), undo=("hook", "parameters"))
            return SimpleNamespace(remove=lambda: (handle.remove(), model.requires_grad_(True)))

        def no_handle(model, name, rank, alpha):
            """Your function has to return a handle: an object whose `remove()` undoes it all."""
            added(model, name, rank, scaled(alpha / rank))

        def divided_by_alpha(model, name, rank, alpha):
            """You multiplied by `rank / alpha`. The factor is `alpha / rank`."""
            return added(model, name, rank, scaled(rank / alpha))

        def output_replaced(model, name, rank, alpha):
            """Your hook returned the product alone, in place of the layer's output. Return the sum: `output + ...`."""
            return added(model, name, rank, lambda layer, x, output: alpha / rank * product(layer, x))

        def not_random(model, name, rank, alpha):
            """Your `low_rank_a` has the same numbers each time. It has to begin at random: `torch.randn`, without a
            seed.
            """
            layer = model.get_submodule(name)
            return added(model, name, rank, scaled(alpha / rank), a=torch.ones_like(random(rank, layer)))

        def sizes_swapped(model, name, rank, alpha):
            """A parameter has its sizes the other way round. `low_rank_a` is [rank, in], and `low_rank_b` [out, rank];
            so the product is `x @ low_rank_a.T @ low_rank_b.T`.
            """
            layer = model.get_submodule(name)
            a, b = random(rank, layer).T, torch.zeros(rank, layer.out_features, dtype=layer.weight.dtype)
            return added(
                model, name, rank, lambda layer, x, output: output + x @ layer.low_rank_a @ layer.low_rank_b, a=a, b=b
            )

        def hook_handle_alone(model, name, rank, alpha):
            """You returned the handle of the hook, whose `remove()` takes off the hook alone. Return an object of
            yours, whose `remove()` also deletes the two parameters and gives each other one its `requires_grad`.
            """
            return added(model, name, rank, scaled(alpha / rank), undo=("hook",))
