"""Exercise 04-sgd-in-backward."""

from functools import partial

from graders.exercises.authoring import exercise
from graders.exercises.lesson_04_after_accumulation.programs import hooked
from graders.scenes.scene import stories
from graders.scenes.stories import steps_in_backward as steps


@exercise(
    "04-sgd-in-backward",
    points=2,
    minutes=15,
    difficulty=2,
    core=True,
    title="Step during backward",
    hints=(
        "When is the gradient of a parameter complete? A post-accumulate-grad hook runs at exactly that moment.",
        "Register the same function on every parameter. It receives the parameter: subtract `lr * p.grad` from it in "
        "place, under `torch.no_grad()`.",
        "Set `p.grad = None` at the end of the hook. A gradient of zeros still takes memory, and one that stays would "
        "be added to the next.",
    ),
    why=(
        "When a post-accumulate-grad hook runs, the gradient of this parameter is complete, so the step can be "
        "taken and the memory freed at once. An optimizer for each parameter does the same, and lets you use Adam "
        "instead of plain descent: call its `step()` and `zero_grad()` in the hook."
    ),
    scene=stories(
        promises={
            "every backward takes one step": (steps.stepped_in_every_pass, steps.stepped_in_place),
            "no gradient is left": steps.no_gradient_left,
            "a pass moves only the parameters that it reaches": steps.through_a_part,
            "a second model steps by itself": steps.a_second_model,
            "autograd grad takes no step": steps.no_step_for_autograd_grad,
            "nothing else changes": steps.only_steps,
            "the handles remove the hooks": steps.HANDLES,
        },
        axes=steps.MODEL,
    ),
)
class TestSgdInBackward:
    """Write `sgd_in_backward(model, lr)`. From then on, whenever `backward()` returns, each parameter that it reached
    has taken one step of plain gradient descent in place, `p = p - lr * gradient`, and its `.grad` is `None`. Return a
    list of all handles.

    **Example.**

    >>> model = nn.Linear(1, 1, bias=False)
    >>> model.weight.data.fill_(2.0)
    tensor([[2.]])
    >>> handles = sgd_in_backward(model, 0.1)
    >>> model(torch.tensor([[3.0]])).sum().backward()
    >>> model.weight.data, model.weight.grad
    (tensor([[1.7]]), None)

    **Fine print.** All parameters of `model` count, at any depth. Each requires grad and has no `.grad` yet. One that
    is used in several places takes one step in each pass, with the sum of its gradients. `torch.autograd.grad` changes
    nothing. A pass may have `create_graph=True`. Your function is called once for each model. The caller removes
    all handles or none; after that, `backward()` takes no step and stores `.grad` again.
    """

    def reference(model, lr):
        return hooked(model.parameters(), partial(step, lr=lr))

    class Mistakes:
        def wrong_hook_kind(model, lr):
            """A tensor hook runs before `.grad` is written, so it cannot free it, and it also runs under
            `torch.autograd.grad`. Use `register_post_accumulate_grad_hook`.
            """

            def hook(grad, p):
                p.data -= lr * grad
                p.grad = None

            return [p.register_hook(lambda grad, p=p: hook(grad, p)) for p in model.parameters()]

        def step_on_arrival(model, lr):
            """`torch.autograd.grad` moved the parameters: a tensor hook runs under it, too. Take the step in a
            post-accumulate-grad hook, which only `backward()` calls.
            """

            def step(grad, p):
                p.data.sub_(lr * grad.detach())

            arriving = [p.register_hook(partial(step, p=p)) for p in model.parameters()]
            return arriving + hooked(model.parameters(), lambda p: setattr(p, "grad", None))

        def grad_not_freed(model, lr):
            """The first step is right, the second is not: the gradient of the first pass is still in `.grad`, and the
            second was added to it. Set `p.grad = None` after the step.
            """
            return hooked(model.parameters(), lambda p: moved(p, lr))

        def zeroed_not_freed(model, lr):
            return hooked(model.parameters(), lambda p: moved(p, lr).zero_())

        def rebound_name(model, lr):
            """The parameters did not move. If your hook says `p = p - ...`: that makes a new tensor and calls it `p`;
            the parameter stays as it was. Change it in place, `p -= lr * p.grad`, under `torch.no_grad()`.
            """
            return hooked(model.parameters(), lambda p: None)

        def rebound_name__2(model, lr):
            return hooked(model.parameters(), lambda p: setattr(p, "grad", None))

        def step_without_no_grad(model, lr):
            """In a pass with `create_graph=True`, hooks run with gradients switched on, and then a leaf cannot be
            changed in place. Take the step under `torch.no_grad()`.
            """
            return hooked(model.parameters(), lambda p: (p.sub_(lr * p.grad), setattr(p, "grad", None)))

        def late_binding(model, lr):
            """You use a `.grad` that is `None`. Take the step in the hook and with its argument `p` (the variable of a
            loop has its last value by then), in a post-accumulate-grad hook of each parameter, and free `.grad` last.
            """
            handles = []
            for p in model.parameters():
                handles += hooked([p], lambda _: step(p, lr))  # noqa: B023 - the mistake
            return handles

        def missed_parameters(model, lr):
            """Some parameters took no step. `model.parameters()` visits all of them: those of nested modules, and those
            that belong to the model itself.
            """
            found = dict.fromkeys(p for layer in model.children() for p in layer.parameters())
            return hooked(found, lambda p: step(p, lr))

        def returned_a_value(model, lr):
            return [p.register_post_accumulate_grad_hook(lambda p: moved(p, lr)) for p in model.parameters()]

        def took_values_for_a_gradient(model, lr):
            return hooked(model.parameters(), lambda p: (p.data.sub_(lr * p.data), setattr(p, "grad", None)))

        def uphill(model, lr):
            """Your step goes the wrong way: subtract `lr * p.grad`."""
            return hooked(model.parameters(), lambda p: step(p, -lr))

        def a_handle_is_missing(model, lr):
            """The caller removed all handles of your list, and a step is still taken. The list needs the handle of
            every hook that you register.
            """
            return hooked(model.parameters(), lambda p: step(p, lr))[-1:]

        def waits_for_all(model, lr):
            """Your hook waits until all parameters have their gradient, and a pass may reach only some of them: then no
            step is taken. Let each hook take the step of its own parameter.
            """
            params = [*model.parameters()]
            return hooked(params, lambda _: all(p.grad is not None for p in params) and [step(p, lr) for p in params])

        def registered_twice(model, lr):
            """A parameter got your hook more than once, and the second time its `.grad` is `None`. A parameter may be
            in several modules: go through `model.parameters()`, where each is once, whatever its depth.
            """
            return hooked((p for part in model.modules() for p in part.parameters()), lambda p: step(p, lr))

        def registered_twice__2(model, lr):
            parts = model.modules()
            return hooked((p for part in parts for p in part.parameters(recurse=False)), lambda p: step(p, lr))

        def not_in_place(model, lr):
            """The parameter has new memory: `p.data = ...` puts another tensor there. Change what is there:
            `p -= lr * p.grad`, under `torch.no_grad()`.
            """

            def move(p):
                p.data = p.data - lr * p.grad
                p.grad = None

            return hooked(model.parameters(), move)

        def zeros_left_out(model, lr):
            """A gradient of zeros is left in `.grad`. Zeros are a gradient, too: free it like any other."""
            return hooked(model.parameters(), lambda p: p.grad.any() and step(p, lr))

        def missed_parameters__2(model, lr):
            own = (p for layer in (model, *model.children()) for p in layer.parameters(recurse=False))
            return hooked(dict.fromkeys(own), lambda p: step(p, lr))

        def missed_parameters__3(model, lr):
            return hooked((p for name, p in model.named_parameters() if "weight" in name), lambda p: step(p, lr))


def moved(p, lr):
    """Take a step, and return the gradient."""
    p.data -= lr * p.grad
    return p.grad.detach()


def step(p, lr):
    """Take a step, and free the gradient."""
    moved(p, lr)
    p.grad = None
