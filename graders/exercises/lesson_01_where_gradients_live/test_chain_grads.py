"""Exercise 01-chain-grads."""

import torch

from graders.exercises.authoring import exercise
from graders.scenes.scene import stories
from graders.scenes.stories import passes, steps


@exercise(
    "01-chain-grads",
    points=2,
    minutes=20,
    difficulty=2,
    core=True,
    title="The gradient at every step of a chain",
    hints=(
        "Run the functions one after the other and keep every intermediate result in a list. Call `retain_grad()` on "
        "each as soon as it exists.",
        "A function that works in place overwrites what you give it: then two steps are one tensor. What could you "
        "give it instead of `h` itself?",
        "`fn(h.clone())`: the copy may be overwritten, and gradients pass through `clone()` unchanged. One "
        "`backward()` on the sum of the last result fills every `.grad`, including that of `x`.",
    ),
    why=(
        "Each function gets a copy, so one that works in place overwrites the copy and not the step before; "
        "`clone()` passes gradients on as they are. `torch.autograd.grad` with the whole list of steps would do as "
        "well, if you put the gradient of `x` into `x.grad` yourself."
    ),
    scene=stories(
        promises={
            "every step has its gradient": steps.of_each_step,
            "each function is called once and x gets its gradient": steps.CALLED_ONCE,
            "nothing else changes": steps.around_a_chain,
            "an exception comes through and nothing is left": steps.a_function_raises,
            "another call starts afresh": steps.CHAINS_AFRESH,
        },
        axes=steps.CHAIN,
        impossible=passes.IMPOSSIBLE,
    ),
)
class TestChainGrads:
    """Write `chain_grads(fns, x)`. Call each function of the list `fns` once, in a chain: `h_1 = fns[0](x)`,
    `h_2 = fns[1](h_1)`, up to `h_n`. Return a list with the gradients of `h_n.sum()` with respect to `h_1`, …, `h_n`,
    and leave the one with respect to the leaf `x` in `x.grad`.

    **Example.**

    >>> x = torch.tensor([2.0], requires_grad=True)
    >>> chain_grads([lambda t: 3 * t, lambda t: t * t], x)
    [tensor([12.]), tensor([1.])]
    >>> x.grad
    tensor([36.])

    **Fine print.** `x.grad` is `None` when you are called. Any function, even the first one, may mix the elements of
    its argument, change its shape, return it as it is, or overwrite it in place. Equal gradients may be one and the
    same tensor, `x.grad` included. Hooks on an `h` may stay. No hook on `x` changes a gradient.
    """

    def reference(fns, x):
        steps = [x]
        for fn in fns:
            steps.append(fn(steps[-1].clone()))
        x.grad, *rest = (grad.clone() for grad in torch.autograd.grad(steps[-1].sum(), steps))
        return rest

    class Mistakes:
        def overwritten_in_place(fns, x):
            """A function worked in place: it overwrote the tensor that you gave it, which may be `x` itself, or a step
            whose values or `.grad` are still needed. Give it a copy: `fn(h.clone())`.
            """
            return kept(fns, x, lambda h: h)

        def overwritten_in_place__2(fns, x):
            return kept(fns, x.clone(), lambda h: h)

        def retained_on_the_copy(fns, x):
            """You kept the gradient of the copy that the next function gets and may overwrite: then it belongs to the
            new value. Call `retain_grad()` on what a function returns, and give the next one a `clone()` of that.
            """
            return kept([lambda h, fn=fn: fn(h).clone() for fn in fns], x.clone(), lambda h: h)

        def cut_between_steps(fns, x):
            """A `detach()` (or `.data`, or a new leaf) between the steps cut the chain, and no gradient got any further
            back. Pass each result on as it is, or a `clone()` of it.
            """
            return kept(fns, x, lambda h: h.detach().requires_grad_().clone())

        def retained_only_last(fns, x):
            """Only the last result kept its gradient. Call `retain_grad()` on the result of every step."""
            h = x
            for fn in fns:
                h = fn(h.clone())
            h.retain_grad()
            h.sum().backward()
            return [None] * (len(fns) - 1) + [h.grad]

        def no_grad_for_x(fns, x):
            """The list is right, but `x.grad` is still `None`. `torch.autograd.grad` writes none: ask it for that of
            `x`, too, and put it there. And `backward()` fills that of `x` only if the chain begins with `x`, not with
            `x.detach()`.
            """
            before = x.detach().clone().requires_grad_()
            return kept(fns, before, torch.clone)

        def reversed_list(fns, x):
            """All gradients are there, but from the last step to the first. Begin with the gradient of `h_1`."""
            return kept(fns, x, torch.clone)[::-1]

        def values_not_gradients(fns, x):
            """You returned the steps and not their gradients. Return `[h.grad for h in steps]`."""
            return kept(fns, x, torch.clone, of=lambda h: h)

        def begins_with_x(fns, x):
            """Your list begins with the gradient of `x`. That one belongs in `x.grad` alone: the list begins with
            `h_1`, which `fns[0]` returns, and ends with `h_n`.
            """
            rest = kept(fns, x, torch.clone)
            return [x.grad, *rest]

        def begins_with_x__2(fns, x):
            arguments, h = [], x
            for fn in fns:
                arguments.append(h.clone())
                arguments[-1].retain_grad()
                h = fn(arguments[-1])
            h.sum().backward()
            return [argument.grad for argument in arguments]

        def a_pass_for_each_step(fns, x):
            """You ran `backward()` from every step, and what these passes leave in `.grad` adds up. Only `h_n.sum()`
            counts: one pass, after the loop.
            """
            return kept(fns, x, torch.clone, lambda steps: sum(step.sum() for step in steps))

        def averaged(fns, x):
            """Your gradients are too small by the number of elements of `h_n`: they are those of its mean. Take
            `h_n.sum()`.
            """
            return kept(fns, x, torch.clone, lambda steps: steps[-1].mean())

        def late_binding(fns, x):
            rest = kept(fns, x, torch.clone)
            return [*[None] * (len(fns) - 1), rest[0]]

        def one_entry_for_a_function(fns, x):
            """Two steps have one and the same entry: a function may be in `fns` twice, and a dict whose keys are the
            functions keeps one gradient for each. Keep the steps in a list.
            """
            by_function = dict(zip(fns[::-1], kept(fns, x, torch.clone)[::-1]))
            return [by_function[fn] for fn in fns]

        def one_entry_for_a_function__2(fns, x):
            by_function = dict(zip(fns, kept(fns, x, torch.clone)))
            return [by_function[fn] for fn in fns]

        def all_from_x(fns, x):
            """You gave `x` to every function. In a chain each gets what the one before has returned."""
            steps = [fn(x.clone()) for fn in fns]
            for step in steps:
                step.retain_grad()
            steps[-1].sum().backward()
            return [step.grad for step in steps]


def kept(fns, h, argument, loss=lambda steps: steps[-1].sum(), of=lambda h: h.grad):
    """The gradients that the steps of a chain keep, or what `of` takes, when each function gets `argument(h)`."""
    steps = []
    for fn in fns:
        h = fn(argument(h))
        h.retain_grad()
        steps.append(h)
    loss(steps).backward()
    return [of(h) for h in steps]
