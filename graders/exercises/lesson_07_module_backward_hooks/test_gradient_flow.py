"""Exercise 07-gradient-flow."""

from itertools import combinations

from graders.exercises.authoring import exercise
from graders.scenes.scene import stories
from graders.scenes.stories import gradient_flows as flows


def blocks_as_they_like(mine, wanted):
    """A block, and the model itself, may come before or after the modules inside."""

    def inside(one, other):
        return one.startswith(f"{other}.") or not other

    fixed = [pair for pair in combinations(wanted, 2) if not inside(*pair) and not inside(*pair[::-1])]
    in_order = all(mine.index(first) < mine.index(second) for first, second in fixed)
    return sorted(mine) == sorted(wanted) and in_order and ("" not in wanted or "" in (mine[0], mine[-1]))


def with_parameters(model):
    """The modules that have parameters of their own, by name."""
    return {name: m for name, m in model.named_modules() if list(m.parameters(recurse=False))}


def mean(grad):
    """The number that is asked for."""
    return grad.abs().mean().item()


def measured(model, loss_fn, x, hook, modules=None, kind="register_full_backward_pre_hook"):
    """The dict that `hook(flow, name, module, *gradients)` fills in a pass."""
    flow, handles = {}, []
    try:
        for name, module in (modules or with_parameters(model)).items():
            handles.append(getattr(module, kind)(lambda *args, name=name: hook(flow, name, *args)))
        loss_fn(model(x)).backward()
    finally:
        for handle in handles:
            handle.remove()
    return flow


def note(flow, name, module, grad_output):
    """What a full backward pre-hook does that measures."""
    flow[name] = mean(grad_output[0])


@exercise(
    "07-gradient-flow",
    points=2,
    minutes=20,
    difficulty=2,
    core=True,
    title="Gradient flow through every layer",
    hints=(
        "`module.parameters(recurse=False)` gives the parameters of the module itself, without those of the modules "
        "inside it. `named_modules()` gives every module with its name.",
        "A full backward pre-hook, `hook(module, grad_output)`, runs at the moment when the gradient of the output is "
        "complete. If it fills the dict, the order takes care of itself.",
        "The mean of the absolute values: `grad_output[0].abs().mean().item()`. Remove every handle in a `finally` "
        "block, so that it also happens when something raises.",
    ),
    why=(
        "A full backward pre-hook runs when the gradient of its module's output is complete, and so in the backward "
        "order that the keys should have. A forward hook that registers a tensor hook on the output would do as well."
    ),
    scene=stories(
        promises={
            "every layer has its mean gradient": flows.MEASURED,
            "the keys are in backward order": flows.in_backward_order,
            "each call and each model is measured anew": flows.measured_anew,
            "one pass accumulates the gradients": flows.one_pass,
            "two calls at the same time do not disturb each other": flows.called_inside,
            "nothing else changes": flows.nothing_else,
            "an exception comes through and nothing is left": flows.something_raises,
        },
        axes=flows.MODEL,
        impossible=flows.IMPOSSIBLE,
    ),
)
class TestGradientFlow:
    """Write `gradient_flow(model, loss_fn, x)`. Run `loss = loss_fn(model(x))` and `loss.backward()`, each once. Return
    a dict: for each module that has parameters of its own, its name and the mean of |d loss / d output|, a float. The
    module that is called last comes first.

    **Example.**

    >>> model = torch.nn.Sequential(torch.nn.Linear(1, 1), torch.nn.Linear(1, 1))
    >>> for p in model.parameters(): p.data.fill_(2.0)
    >>> gradient_flow(model, lambda out: -3 * out.sum(), torch.ones(1, 1))
    {"1": 3.0, "0": 6.0}

    **Fine print.** Names are those of `model.named_modules()`, `""` for the model itself. Frozen and shared parameters
    count; those of the modules inside do not, so a plain `Sequential` has no entry. A block may come
    before or after the modules inside it. `.grad` accumulates as usual. Each of these modules is called once and
    returns one new tensor. A gradient reaches that tensor, and the module's input if it requires grad. Nothing works in
    place. Your hooks may stay on outputs.
    """

    def reference(model, loss_fn, x):
        def after(flow, name, module, args, output):
            output.register_hook(lambda grad: flow.update({name: mean(grad)}))

        return measured(model, loss_fn, x, after, kind="register_forward_hook")

    may_differ = {"the keys": blocks_as_they_like}

    class Mistakes:
        def signed_mean(model, loss_fn, x):
            """Positive and negative gradients cancel in your mean. Take `abs()` first, then the mean."""
            return measured(model, loss_fn, x, lambda flow, name, m, go: flow.update({name: go[0].mean().item()}))

        def signed_mean__2(model, loss_fn, x):
            return measured(model, loss_fn, x, lambda flow, name, m, go: flow.update({name: go[0].mean().abs().item()}))

        def took_grad_input(model, loss_fn, x):
            """You took `grad_input`, what the module sends back, which is `None` where its input needs no gradient.
            The task asks for the gradient of its output: `grad_output`.
            """
            return measured(
                model,
                loss_fn,
                x,
                lambda flow, name, m, gi, go: flow.update({name: mean(gi[0])}),
                kind="register_full_backward_hook",
            )

        def not_the_mean(model, loss_fn, x):
            """These are not the means: you took a sum, a norm, a largest entry or squares. The task asks for the mean
            of the absolute values, over all elements.
            """
            return measured(model, loss_fn, x, lambda flow, name, m, go: flow.update({name: go[0].abs().sum().item()}))

        def not_the_mean__2(model, loss_fn, x):
            return measured(model, loss_fn, x, lambda flow, name, m, go: flow.update({name: go[0].norm().item()}))

        def parameter_grads(model, loss_fn, x):
            loss_fn(model(x)).backward()
            own = {name: next(m.parameters(recurse=False)).grad for name, m in with_parameters(model).items()}
            return {name: mean(grad) for name, grad in own.items()}

        def definition_order(model, loss_fn, x):
            """The numbers are right, but your keys are in the order of `named_modules()`. Fill the dict when the
            gradient arrives.
            """
            flow = measured(model, loss_fn, x, note)
            return {name: flow[name] for name in with_parameters(model)}

        def containers_included(model, loss_fn, x):
            """Your dict has modules that only contain other modules. `parameters()` includes the parameters of all
            modules inside; `parameters(recurse=False)` gives only the module's own.
            """
            every = {name: m for name, m in model.named_modules() if list(m.parameters())}
            return measured(model, loss_fn, x, note, every)

        def leaves_only(model, loss_fn, x):
            """A block that has other modules inside is missing, although it has a parameter of its own. Ask for
            `parameters(recurse=False)`, not for modules without children, or of one kind.
            """
            own = {name: m for name, m in with_parameters(model).items() if not list(m.children())}
            return measured(model, loss_fn, x, note, own)

        def late_binding(model, loss_fn, x):
            *_, last = with_parameters(model)
            return measured(model, loss_fn, x, lambda flow, name, m, go: flow.update({last: mean(go[0])}))

        def all_leaves(model, loss_fn, x):
            """Layers without parameters do not belong in the dict: ask for `list(module.parameters(recurse=False))`."""
            leaves = {name: m for name, m in model.named_modules() if not [*m.children()]}
            return measured(model, loss_fn, x, note, leaves)

        def trainable_only(model, loss_fn, x):
            """Layers whose parameters are all frozen are missing. They count, too."""
            trainable = {
                n: m for n, m in with_parameters(model).items() if any(p.requires_grad for p in m.parameters())
            }
            return measured(model, loss_fn, x, note, trainable)

        def without_shared(model, loss_fn, x):
            """A layer whose parameters belong to an earlier one, too, is missing. Shared parameters count: ask
            `list(module.parameters(recurse=False))` of each module by itself.
            """
            owners = {p: m for m in reversed(list(model.modules())) for p in m.parameters(recurse=False)}
            first = {name: m for name, m in with_parameters(model).items() if m in owners.values()}
            return measured(model, loss_fn, x, note, first)

        def cleared_grads(model, loss_fn, x):
            """You cleared the gradients of the model. They are the caller's, and add up as usual: leave out
            `zero_grad()`.
            """
            model.zero_grad()
            return measured(model, loss_fn, x, note)

        def reversed_definition(model, loss_fn, x):
            """You turned the order of the names or of the definition round. Modules may run in another order: fill the
            dict when the gradient arrives, and leave it in that order.
            """
            flow = measured(model, loss_fn, x, note)
            return {name: flow[name] for name in reversed(with_parameters(model))}

        def children_only(model, loss_fn, x):
            """Modules inside blocks are missing: `named_children()` yields one level, `named_modules()` all of them."""
            children = {name: m for name, m in model.named_children() if name in with_parameters(model)}
            return measured(model, loss_fn, x, note, children)

        def without_the_model(model, loss_fn, x):
            """The model itself may have parameters of its own. Then it has an entry, under its name `""`."""
            return measured(model, loss_fn, x, note, {name: m for name, m in with_parameters(model).items() if name})
