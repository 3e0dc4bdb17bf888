"""Exercise 07-activation-grad."""

import torch

from graders.exercises.authoring import exercise, wrong_ways
from graders.exercises.lesson_10_explaining_predictions.programs import another_mode, another_mode__2
from graders.scenes.scene import stories
from graders.scenes.stories import inner_activations as activations


def with_hook(model, name, x, loss_fn, hook, **options):
    """The loss, in a run in which the module has this forward hook."""
    with model.get_submodule(name).register_forward_hook(hook, **options):
        return loss_fn(model(x))


def at_output(model, name, x, loss_fn, pick=lambda out: out, keep=lambda grad: grad.detach().clone(), **options):
    """A right way: the gradient as a tensor hook gets it."""
    found = []

    def hook(module, args, output):
        pick(output).register_hook(lambda grad: found.append(keep(grad)))

    with_hook(model, name, x, loss_fn, hook, **options).backward()
    return found[0]


@exercise(
    "07-activation-grad",
    points=3,
    minutes=25,
    difficulty=3,
    title="The gradient at an activation, whatever follows",
    hints=(
        "A full backward hook fails before an in-place operation and stays silent for a dict. The output itself is an "
        "ordinary tensor, and a tensor can carry a hook.",
        "Register a forward hook on `model.get_submodule(name)`. Inside it, call `pick(output).register_hook(...)`.",
        "The forward hook runs before any later in-place operation. A tensor hook that is registered there belongs to "
        "the old value, and that is the one you want. `retain_grad()` would move on to the new one.",
    ),
    why=(
        "The forward hook reaches the output before anything can overwrite it, and a tensor hook stays with that "
        "value. `torch.autograd.graph.get_gradient_edge` inside the forward hook names the same place; "
        "`torch.autograd.grad` then takes it as an input."
    ),
    scene=stories(
        promises={
            "it is the gradient at the value that left the module": activations.AT_THE_MODULE,
            "each call computes afresh": activations.ANEW,
            "one run and one pass, which reaches all parameters or none": activations.one_pass,
            "two calls at the same time do not disturb each other": activations.called_inside,
            "it is a copy without a graph": activations.OF_ITS_OWN,
            "nothing else changes": activations.nothing_else,
            "an exception comes through and nothing is left": activations.something_raises,
        },
        axes=activations.MODEL,
        impossible=activations.IMPOSSIBLE,
    ),
)
class TestActivationGrad:
    """Write `activation_grad(model, name, x, loss_fn, pick=lambda out: out)`. With `loss = loss_fn(model(x))`, return
    the gradient of the loss with respect to `pick(output)`, where `output` is what the module called `name` returns, as
    it leaves the module.

    **Example.**

    >>> model = torch.nn.Sequential(torch.nn.Linear(1, 2), torch.nn.ReLU(inplace=True))
    >>> model[0].weight.data, model[0].bias.data = torch.tensor([[-1.0], [4.0]]), torch.zeros(2)
    >>> activation_grad(model, "0", torch.ones(1, 1), lambda out: 7 * out.sum())
    tensor([[0., 7.]])

    **Fine print.** The output is a tensor, a tuple or a dict; `pick` returns one tensor in it, which requires grad and
    is not a leaf. Later operations may change it in place: what counts is the value before that. The result is a copy
    of what arrives there. Run the model once, and one backward pass: it adds to the `.grad` of every parameter, or to
    none. The model calls the module once. Your hook may stay on the tensor.
    """

    def reference(model, name, x, loss_fn, pick=lambda out: out):
        edges = []

        def hook(module, args, output):
            edges.append(torch.autograd.graph.get_gradient_edge(pick(output)))

        return torch.autograd.grad(with_hook(model, name, x, loss_fn, hook), edges)[0].clone()

    def reference_that_accumulates(model, name, x, loss_fn, pick=lambda out: out):
        return at_output(model, name, x, loss_fn, pick)

    class Mistakes(wrong_ways(at_output, (another_mode, another_mode__2))):
        def full_hook_and_in_place(model, name, x, loss_fn, pick=lambda out: out):
            """A full backward hook makes the module's output a view, and a view like this cannot be changed in place.
            For a dict it never fires. Hook the tensor instead, inside a forward hook.
            """
            found = []
            module = model.get_submodule(name)
            with module.register_full_backward_hook(lambda module, gi, go: found.append(go[0].detach().clone())):
                loss_fn(model(x)).backward()
            return found[0]

        def full_hook_and_in_place__2(model, name, x, loss_fn, pick=lambda out: out):
            found = {}

            def hook(module, go):
                found["grad"] = pick(go if len(go) > 1 else go[0]).detach().clone()

            with model.get_submodule(name).register_full_backward_pre_hook(hook):
                loss_fn(model(x)).backward()
            return found["grad"]

        def attribute_by_name(model, name, x, loss_fn, pick=lambda out: out):
            """`getattr(model, name)` and `named_children()` find what lies directly in the model: neither a name with
            dots, of a module that is inside another, nor `""`, the model itself. `model.get_submodule(name)` finds any.
            """
            getattr(model, name)
            return at_output(model, name, x, loss_fn, pick)

        def attribute_by_name__2(model, name, x, loss_fn, pick=lambda out: out):
            dict(model.named_children())[name]
            return at_output(model, name, x, loss_fn, pick)

        def retain_grad_follows_in_place(model, name, x, loss_fn, pick=lambda out: out):
            """You got the gradient after the in-place operation: a tensor that you keep goes on to its new value, and
            so do `retain_grad()` and `autograd.grad`. A tensor hook that you register in the forward hook stays with
            the old one.
            """
            kept = []

            def hook(module, args, output):
                kept.append(pick(output))
                kept[0].retain_grad()

            with_hook(model, name, x, loss_fn, hook).backward()
            return kept[0].grad.clone()

        def hooked_after_the_run(model, name, x, loss_fn, pick=lambda out: out):
            """You hooked the tensor after the run, and an in-place operation had changed it by then: its gradient is
            that of the new value. Register the tensor hook inside the forward hook.
            """
            kept, found = [], []
            out = with_hook(model, name, x, lambda out: out, lambda module, args, output: kept.append(output))
            pick(kept[0]).register_hook(lambda grad: found.append(grad.detach().clone()))
            loss_fn(out).backward()
            return found[0]

        def returned_the_pick(model, name, x, loss_fn, pick=lambda out: out):
            """Your forward hook returned `pick(output)`, and the model went on with that in place of the whole output.
            A hook that only watches returns `None`.
            """
            found = []

            def hook(module, args, output):
                picked = pick(output)
                picked.register_hook(lambda grad: found.append(grad.detach().clone()))
                return picked

            with_hook(model, name, x, loss_fn, hook).backward()
            return found[0]

        def values_not_gradients(model, name, x, loss_fn, pick=lambda out: out):
            kept = []
            with_hook(
                model, name, x, loss_fn, lambda module, args, output: kept.append(pick(output).detach().clone())
            ).backward()
            return kept[0]

        def cleared_grads(model, name, x, loss_fn, pick=lambda out: out):
            """You cleared the gradients of the model. They are the caller's, and a pass adds to them: leave out
            `zero_grad()`.
            """
            model.zero_grad()
            return at_output(model, name, x, loss_fn, pick)

        def cleared_grads__2(model, name, x, loss_fn, pick=lambda out: out):
            found = at_output(model, name, x, loss_fn, pick)
            model.zero_grad()
            return found

        def hooked_a_copy(model, name, x, loss_fn, pick=lambda out: out):
            """You looked at a copy of the output, which the loss does not use. Hook `pick(output)` itself."""
            kept = []

            def hook(module, args, output):
                kept.append(pick(output).clone())

            return torch.autograd.grad(with_hook(model, name, x, loss_fn, hook), kept)[0]

        def stored_alias(model, name, x, loss_fn, pick=lambda out: out):
            return at_output(model, name, x, loss_fn, pick, keep=lambda grad: grad)

        def copied_too_late(model, name, x, loss_fn, pick=lambda out: out):
            """You kept the gradient itself and copied it after the pass, when somebody had written into it. Copy it in
            the hook, as it arrives: `grad.detach().clone()`.
            """
            return at_output(model, name, x, loss_fn, pick, keep=lambda grad: grad).detach().clone()

        def before_the_callers_hooks(model, name, x, loss_fn, pick=lambda out: out):
            """One of the caller's forward hooks replaced this value before it left the module, and you took it before
            that. Hooks of one module run in the order of registration, those for all modules first: register yours on
            the module, without `prepend`.
            """
            return at_output(model, name, x, loss_fn, pick, prepend=True)

        def ignored_pick(model, name, x, loss_fn, pick=lambda out: out):
            """The output of this module is a tuple or a dict, which cannot carry a hook. `pick(output)` gives you the
            tensor in it.
            """
            return at_output(model, name, x, loss_fn, lambda output: output)

        def no_retain_grad(model, name, x, loss_fn, pick=lambda out: out):
            """Your result is `None`: an activation is no leaf, and its `.grad` is filled only if `retain_grad()` was
            called on it; and a detached copy gets nothing. A hook on the activation itself is given the gradient.
            """
            kept = []
            with_hook(model, name, x, loss_fn, lambda module, args, output: kept.append(pick(output))).backward()
            return kept[0].grad
