"""Exercise 05-leaf-shapes."""

from functools import partial

from graders.exercises.authoring import exercise
from graders.exercises.lesson_05_capturing_activations.programs import (
    LAST_HANDLE,
    outputs,
    run_with_hooks,
    take_the_input,
    wrong_runs,
)
from graders.scenes.scene import stories
from graders.scenes.stories import captures, model_states


def leaves(model):
    """The names of all modules without children."""
    return [name for name, module in model.named_modules() if not list(module.children())]


def shape(output):
    """As a tuple of ints."""
    return tuple(output.shape)


def shapes(model, x, names=leaves, which=-1, shape=shape, **how):
    """Shapes by name, in the order of first calls."""
    found = outputs(model, names(model), x, copy=shape, **how)
    return {name: calls[which] for name, calls in found.items()}


@exercise(
    "05-leaf-shapes",
    points=2,
    minutes=20,
    difficulty=2,
    title="The output shape of every layer",
    hints=(
        "A module without children is one for which `list(module.children())` is empty.",
        "`model.named_modules()` yields the modules of all levels with their full names, each module once, under its "
        "first name.",
        "Write into the dict when the hook fires. A key that is already there keeps its place when its value is "
        "written again.",
    ),
    why=(
        "`named_modules()` goes through all levels and yields each module once, under its first name; a module "
        "without children is one for which `children()` yields nothing. The hook writes when the module runs, so the "
        "order takes care of itself. One function and `functools.partial` would do as well."
    ),
    scene=stories(
        promises={
            "every layer has its shape": (captures.returned, captures.alone),
            "the keys are in order of first calls": captures.in_order,
            "the model runs once, as it would without you": captures.run_once,
            "nothing of the caller changes": captures.left_alone,
            "an exception comes through and nothing is left": captures.model_raises,
            "two calls at the same time do not disturb each other": captures.called_inside,
        },
        axes={**captures.LEAVES, **captures.MODEL},
        impossible=[model_states.no_odd_chain],
        names=captures.no_name,
        function=captures.itself,
    ),
)
class TestLeafShapes:
    """Write `leaf_shapes(model, x)`: run the model once on `x` and return a dict. For every module in
    `model.named_modules()` that has no children and is called, it maps the name to the shape of its output, a tuple of
    ints, in the order of first calls.

    **Example.**

    >>> model = nn.Sequential(nn.Flatten(), nn.Sequential(nn.Linear(6, 4), nn.ReLU()))
    >>> leaf_shapes(model, torch.ones(1, 2, 3))
    {'0': (1, 6), '1.0': (1, 4), '1.1': (1, 4)}

    **Fine print.** A module without children is one for which `list(module.children())` is empty; it may be the model
    itself, whose name is `""`. One that is called more than once shows the shape of its last call. None of these
    modules calls another, and their outputs are tensors; those of others may be anything.
    """

    reference = shapes

    class Mistakes(wrong_runs(shapes, *LAST_HANDLE, without=("returned_the_copy__2",))):
        def only_sequential_recursed(model, x):
            """Layers inside a custom block or a `ModuleList` are missing: you looked only at the top level, or went
            down only into some kinds of container. `model.named_modules()` yields the modules of all levels.
            """
            return shapes(model, x, names=lambda model: [name for name in leaves(model) if name and "." not in name])

        def containers_included(model, x):
            """You hooked containers, too: modules that have children of their own (they may output anything). Register
            only on modules whose `children()` are empty.
            """
            return shapes(model, x, names=lambda model: [name for name, _ in model.named_modules()])

        def containers_included__2(model, x):
            return shapes(model, x, lambda model: [name for name, _ in model.named_modules() if name] or [""])

        def with_parameters_only(model, x):
            """Layers without parameters are missing, such as an activation. Every module without children counts: one
            for which `list(module.children())` is empty.
            """
            return shapes(
                model, x, lambda model: [name for name in leaves(model) if [*model.get_submodule(name).parameters()]]
            )

        def without_the_model(model, x):
            """A model may have no children: then it is such a module itself, and its name is `""`."""
            return shapes(model, x, lambda model: [name for name in leaves(model) if name])

        def every_name(model, x):
            every = [name for name, m in model.named_modules(remove_duplicate=False) if not list(m.children())]
            return shapes(model, x, names=lambda model: every)

        def every_name__2(model, x):
            def walk(module, name=""):
                inside = [leaf for part, child in module.named_children() for leaf in walk(child, f"{name}.{part}")]
                return inside or [name[1:]]

            return shapes(model, x, names=walk)

        def none_for_a_child(model, x):
            """A layer is missing that has `None` among its `_modules`, as `self.downsample = None` may put it there.
            That is no child: ask `list(module.children())`, which leaves it out.
            """
            return shapes(model, x, lambda model: [name for name, part in model.named_modules() if not part._modules])

        def minus_one_for_the_batch(model, x):
            """The first number of your shapes is -1, and an output without dimensions has no first number. The task
            asks for the shape as it is, `tuple(output.shape)`.
            """

            def without_a_size(output):
                size = list(output.shape)
                size[0] = -1
                return tuple(size)

            return shapes(model, x, shape=without_a_size)

        def minus_one_for_the_batch__2(model, x):
            return shapes(model, x, shape=lambda output: (-1, *output.shape[1:]))

        def without_the_batch(model, x):
            """The dimension of the batch is missing. The task asks for the whole shape: `tuple(output.shape)`."""
            return shapes(model, x, shape=lambda output: tuple(output.shape[1:]))

        def shapes_of_inputs(model, x):
            """These are the shapes of what goes into the layers. The task asks for those of their outputs. And where
            somebody calls a layer with `layer(input=x)`, `args` is empty.
            """
            return shapes(model, x, run=partial(run_with_hooks, hook=take_the_input))

        def order_of_last_calls(model, x):
            """A module that is called again goes to the end of your dict. The order is that of first calls: a key that
            is written again keeps its place, unless you take it out before.
            """
            last = {}

            def note(name, output):
                last.pop(name, None)
                last[name] = shape(output)

            run_with_hooks(model, {name: partial(note, name) for name in leaves(model)}, x)
            return last

        def definition_order(model, x):
            found = shapes(model, x)
            return {name: found[name] for name in leaves(model) if name in found}

        def late_binding(model, x):
            *_, last = model.named_modules()  # of the loop, which went through all
            *_, shape = shapes(model, x).values()
            return {last[0]: shape}

        def uncalled_included(model, x):
            """Your dict lists a module that the model never calls. Make an entry only when the hook fires."""
            return dict.fromkeys(leaves(model)) | shapes(model, x)

        def uncalled_included__2(model, x):
            found = shapes(model, x)
            return dict.fromkeys([*found, *leaves(model)]) | found

        def only_first_call(model, x):
            """A module that runs more than once shows the shape of its last call here, and yours shows the first. Write
            the entry again each time the hook fires.
            """
            return shapes(model, x, which=0)
