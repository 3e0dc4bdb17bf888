"""Exercise 13-diagnose."""

from functools import partial

from graders.exercises.authoring import exercise
from graders.exercises.lesson_11_hygiene.programs import KINDS
from graders.exercises.lesson_13_broken_runs.faults import BROKEN
from graders.exercises.lesson_13_broken_runs.labels import (
    RULES,
    after_a_step,
    answer,
    changes,
    dead,
    exploding,
    first,
    hook,
    hooks_of,
    mode,
    nan,
    size_of,
    vanishing,
)
from graders.scenes.scene import stories
from graders.scenes.stories import diagnoses


@exercise(
    "13-diagnose",
    points=4,
    minutes=60,
    difficulty=3,
    title="Which layer, and why?",
    hints=(
        "Go down the list, and return at the first label that fits. Nearly all of it is in one pass: a hook on every "
        "leaf keeps each output in the order of the calls, and `retain_grad()` on these tensors (lesson 2) keeps what "
        "arrives at them. It raises for a tensor that needs no gradient.",
        "Each label is an exercise: `11-first-nonfinite`, `13-changed-by-hooks`, `13-wrong-mode`, "
        "`13-why-no-gradient`, `13-signal-report`, `13-dead-channels`. You may call your functions here; but "
        "`wrong_mode` compares with the mode of the model, and here the whole model may be in eval mode.",
        "To learn which hook it is, make one more model, take the hooks off one module and its parameters "
        "(`11-remove-all-hooks` knows where they are), run the pass with the same random numbers, and compare the "
        "gradients.",
    ),
    why=(
        "What could spoil the other answers comes first, and each experiment has a new model, so nothing has to be "
        "put back. Tensor hooks on the outputs would do as well, in place of `retain_grad()`; `torch.autograd.grad` "
        "in place of `backward()` would not: it leaves out post-accumulate-grad hooks."
    ),
    scene=stories(
        promises=[diagnoses.diagnosed, diagnoses.diagnosed_anew, diagnoses.nothing_else, diagnoses.something_raises],
        axes=diagnoses.RUNS,
        pairs=[("stories", "x_is"), ("stories", "failure")],
    ),
    planted=BROKEN,
)
class TestDiagnose:
    """Write `diagnose(make, x, y, loss_fn, lr)`. `make()` returns new, equal models. Return a tuple: the first that
    fits of `"nan"`, `"hook"`, `"mode"`, `"unused"`, `"frozen"`, `"cut"`, `"exploding"`, `"dead"` and `"vanishing"` (see
    the lesson's table), and the name of the module where it starts; or `("healthy", None)`.

    **Example.**

    >>> def make():
    ...     model = nn.Sequential(nn.Linear(2, 2), nn.Tanh(), nn.Linear(2, 1))
    ...     model[0].requires_grad_(False)
    ...     return model
    >>> diagnose(make, torch.ones(3, 2), torch.zeros(3, 1), F.mse_loss, 0.1)
    ('frozen', '0')

    **Fine print.** All labels but `"dead"` are about one pass of a new model: `loss_fn(model(x), y)` and its
    `backward()`. At most one thing is wrong; other labels may fit what follows. A leaf is a module without children;
    only leaves have parameters, and each gets and returns one tensor of shape (inputs, channels). What a dropout draws
    decides nothing; all numbers are far from the bounds. Afterwards `.grad` of `x` and `y`, and the random state, are
    as before.
    """

    def reference(make, x, y, loss_fn, lr):
        return answer(make, x, y, loss_fn, lr)

    class Mistakes:
        def infinite_is_no_number(*args):
            """Here an output becomes infinite, some calls before the first NaN. An infinite entry counts just as a NaN
            does: `isnan` does not see it, `isfinite` does.
            """
            return answer(*args, nan=partial(nan, good=lambda output: ~output.isnan()))

        def named_the_consequence(*args):
            """The label fits, and one before it in the list fits, too. The first that fits is the answer; the others
            follow from it. If you do go through the labels in order, you are missing the earlier one.
            """
            return answer(*args, order=list(RULES)[::-1])

        def hooks_that_watch(*args):
            """The hook changes no gradient: it watches, or returns what it got. Compare the gradients with it and
            without it, all else being equal: the other hooks stay, and a dropout draws the same random numbers.
            """
            return answer(*args, hook=partial(hook, matters=lambda run, without: True))

        def all_hooks_at_once(*args):
            """You took all hooks off together, and named the first module that has some. That one may only watch: take
            the hooks off one module at a time.
            """

            def clear(model):
                for hooks in [each for module in model.modules() for each in hooks_of(module)]:
                    hooks.clear()

            return answer(*args, hook=partial(hook, matters=lambda run, without: changes(run, run.again(clear))))

        def accumulated_missed(*args):
            """You miss a post-accumulate-grad hook, which changes `.grad` itself. Such hooks are in
            `_post_accumulate_grad_hooks` of a parameter, and `torch.autograd.grad` does not call them.
            """
            return answer(*args, hook=partial(hook, places=lambda module: hooks_of(module, accumulated=False)))

        def hooks_of_modules_alone(*args):
            """You miss a hook on a parameter. Such hooks change its gradient, too: look at the parameters of the module
            as well as at the module.
            """
            return answer(*args, hook=partial(hook, places=lambda module: [getattr(module, kind) for kind in KINDS]))

        def hooks_of_parameters_alone(*args):
            """You miss a hook on a module, which keeps its hooks in four dicts; a copy has them, too. Take those off as
            well, one module at a time.
            """
            return answer(*args, hook=partial(hook, places=lambda module: hooks_of(module)[len(KINDS) :]))

        def hooks_of_parameters_alone__2(*args):
            forward = lambda module: [module._forward_pre_hooks, module._forward_hooks]  # noqa: E731
            places = lambda module: forward(module) + hooks_of(module)[len(KINDS) :]  # noqa: E731
            return answer(*args, hook=partial(hook, places=places))

        def part_of_the_name(*args):
            """The label is right, but you returned only a part of the name. Take the whole of it, as it is in
            `model.named_modules()`.
            """
            label, where = answer(*args)
            return label, where and where.split(".")[0]

        def part_of_the_name__2(*args):
            label, where = answer(*args)
            return label, where and where.split(".")[-1]

        def last_dead_of_several(*args):
            """The label is right, but you named the last dead ReLU. Name the first that is called."""
            last = partial(dead, pick=lambda names: first(list(names)[::-1]))
            return answer(*args, dead=lambda run, lr: last(run) or last(after_a_step(run, lr)))

        def silent_in_one_call(*args):
            """You call a ReLU dead that is called several times, and is silent in only one of its calls. A channel is
            dead if it is 0 in every call.
            """
            silent = partial(dead, join=lambda calls: any(calls.double().mean(1) > 0.5))
            return answer(*args, dead=lambda run, lr: silent(run) or silent(after_a_step(run, lr)))

        def modes_that_do_not_matter(*args):
            """The module is in eval mode, and computes the same in both modes: with the same random numbers, and with
            the modes of all that is in it as they are. So its mode does not matter.
            """
            return answer(*args, mode=lambda run, lr: first(n for n, m in run.modules.items() if not m.training))

        def the_first_of_those_cut(*args):
            """The label is right. But of the layers that no gradient reaches, you did not name the one that is called
            last: the graph is cut after that one.
            """
            return answer(*args, cut=lambda run, lr: first(name for name in run.called if name in run.without))

        def the_first_of_those_cut__2(*args):
            """The label is right. But you took the first or the last one in the order of `named_modules()`, and a model
            may call its layers in another order. Of those that no gradient reaches, name the one that is called last.
            """
            return answer(*args, cut=lambda run, lr: first(run.without[::-1]))

        def the_first_of_those_cut__3(*args):
            return answer(*args, cut=lambda run, lr: first(run.without))

        def the_first_call_of_all(*args):
            """The label is right. You named a layer far from the loss, where the gradient is smallest or largest. Going
            back from the loss, it starts where the bound is passed: the last call beyond it. A leaf that is called
            several times has a gradient for each call.
            """
            forward = lambda sizes: [*sizes[-2::-1], sizes[-1]]  # noqa: E731
            return answer(
                *args, exploding=partial(exploding, among=forward), vanishing=partial(vanishing, among=forward)
            )

        def the_first_call_of_all__2(*args):
            return answer(*args, vanishing=partial(vanishing, among=lambda sizes: [*sizes[-2::-1], sizes[-1]]))

        def compared_with_the_first_call(*args):
            """You compared with the gradient at the first call. Gradients come from the loss: compare each with that at
            the *last* call, where the pass back begins.
            """
            turned = lambda sizes: [*sizes[1:], sizes[0]]  # noqa: E731
            return answer(*args, exploding=partial(exploding, among=turned), vanishing=partial(vanishing, among=turned))

        def only_the_first_pass(*args):
            """In the first pass all is well, but one step of SGD with this `lr` is too large, and kills a ReLU. You
            miss that: it shows in the pass after the step. Or you step with another `lr`.
            """
            return answer(*args, dead=lambda run, lr: dead(run))

        def one_frozen_parameter(*args):
            """You call a layer frozen although one of its parameters requires grad. It is frozen if none does."""
            some = lambda run, lr: first(n for n, own in run.owned.items() if not all(p.requires_grad for p in own))  # noqa: E731
            return answer(*args, frozen=some)

        def one_dead_channel(*args):
            """You call a ReLU dead because some of its channels are. It is dead if more than half are."""
            some = partial(dead, join=lambda calls: bool(calls.all(0).any()))
            return answer(*args, dead=lambda run, lr: some(run) or some(after_a_step(run, lr)))

        def every_channel_dead(*args):
            """You call a ReLU sound as long as one channel fires. It is dead if more than half never do."""
            every = partial(dead, join=lambda calls: bool(calls.all()))
            return answer(*args, dead=lambda run, lr: every(run) or every(after_a_step(run, lr)))

        def absolute_bounds(*args):
            """You compared the gradients with 1e4 and 1e-4 themselves. The bounds are for the ratio to the gradient at
            the last call.
            """
            large = lambda run, lr: first(name for name, size in reversed(run.sizes) if size > 1e4)  # noqa: E731
            small = lambda run, lr: first(name for name, size in reversed(run.sizes) if size < 1e-4)  # noqa: E731
            return answer(*args, exploding=large, vanishing=small)

        def in_the_mode_of_the_model(*args):
            """Here the whole model is in eval mode. `13-wrong-mode` compares with the mode of the model, and finds
            nothing then: look at each leaf in eval mode.
            """
            return answer(*args, mode=lambda run, lr: mode(run, lr) if run.modules[""].training else None)

        def by_hand_is_unused(*args):
            """You call a layer unused because it is never called. But other code uses its parameters, and they get
            gradients.
            """
            return answer(*args, unused=lambda run, lr: first(n for n in run.owned if n not in run.called))

        def frozen_before_unused(*args):
            """The layer is frozen and never called. In the list, `"unused"` comes before `"frozen"`."""
            return answer(*args, order=["nan", "hook", "mode", "frozen", *RULES])

        def no_gradient_is_unused(*args):
            """You call a layer unused because it gets no gradient, but it is called. Note in hooks which leaves are."""
            return answer(*args, unused=lambda run, lr: first(run.without))

        def none_is_zero(*args):
            """You took 0 where no gradient arrives, and call that vanishing. Nothing before that call has a parameter,
            so nothing there needs a gradient: leave such a call out.
            """

            def small(run, lr):
                sizes = [(n, 0.0 if output.grad is None else size_of(output.grad)) for n, output in run.calls]
                return first(name for name, size in reversed(sizes) if size < 1e-4 * sizes[-1][1])

            return answer(*args, vanishing=small)

        def dead_in_both_passes(*args):
            """You call a ReLU dead only if its channels are silent in both passes. One is enough: either this pass, or
            the one after a step of SGD. Look at each by itself.
            """

            def silent(run, lr):
                after = after_a_step(run, lr)
                after.calls += run.calls
                return dead(after)

            return answer(*args, dead=silent)
