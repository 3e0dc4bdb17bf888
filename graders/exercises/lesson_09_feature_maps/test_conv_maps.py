"""Exercise 09-conv-maps."""

from torch import nn
from torch.nn.modules import module as for_all
from torch.nn.modules.conv import _ConvNd

from graders.exercises.authoring import exercise
from graders.exercises.lesson_05_capturing_activations.programs import run_with_hooks, stored_the_input, wrong_runs
from graders.scenes.scene import stories
from graders.scenes.stories import captures, conv_nets


def convolutions(model):
    """The names of all `nn.Conv2d` of a model."""
    return [name for name, module in model.named_modules() if isinstance(module, nn.Conv2d)]


def maps(model, x, run=run_with_hooks, names=convolutions, copy=lambda output: output.detach().clone()):
    """What several modules put out, copied, in the order in which they ran."""
    found = {}

    def note(name, output):
        found[name] = copy(output)
        return found[name]

    run(model, {name: lambda output, name=name: note(name, output) for name in names(model)}, x)
    return found


@exercise(
    "09-conv-maps",
    points=2,
    minutes=10,
    difficulty=1,
    core=True,
    title="The maps of every convolution",
    hints=(
        "`isinstance(module, nn.Conv2d)` is true for Conv2d and its subclasses, and for no other convolution. "
        "`model.named_modules()` visits every level.",
        "Store `output.detach().clone()`. An in-place operation after the convolution rewrites anything else.",
        "Let each hook fill the dict when it fires: then the keys are in the order of execution. Bind the name with a "
        "default argument, and remove all handles in a `finally` block.",
    ),
    why=(
        "The dict is filled when hooks fire, so its keys are in the order of execution, and each copy is made before "
        "the next layer can overwrite the output. One hook for all modules, with a dict from modules to names, would "
        "do as well, and so would `functools.partial` in place of `name=name`."
    ),
    scene=stories(
        promises={
            "every nn.Conv2d has the output that it returned": captures.returned,
            "the keys are in order of execution": captures.in_order,
            "the model runs once, as it would without you": captures.run_once,
            "nothing of the caller changes": captures.left_alone,
            "an exception comes through and nothing is left": captures.model_raises,
            "two calls at the same time do not disturb each other": captures.called_inside,
            "a model that is a convolution works": conv_nets.a_convolution_alone,
        },
        axes={**captures.MODEL, **conv_nets.NETS},
        names=captures.no_name,
        function=captures.itself,
    ),
)
class TestConvMaps:
    """Write `conv_maps(model, x)`: run the model once on `x` and return a dict that maps the name of every `nn.Conv2d`
    in it to a copy of what this convolution returned. The keys are in the order in which the convolutions ran.

    **Example.**

    >>> model = nn.Sequential(nn.Conv2d(1, 1, 1, bias=False), nn.ReLU(inplace=True))
    >>> _ = nn.init.ones_(model[0].weight)
    >>> conv_maps(model, torch.tensor([[[[-1.0, 2.0]]]]))
    {'0': tensor([[[[-1.,  2.]]]])}

    **Fine print.** Subclasses of `nn.Conv2d` count. Other convolutions, such as `nn.Conv1d` and `nn.ConvTranspose2d`,
    do not, and neither do modules that the model calls although they are not part of it (from a plain list, say). If
    the model itself is an `nn.Conv2d`, its name is `""`; one with two names gets the one that `model.named_modules()`
    lists. Each `nn.Conv2d` is called once, and none contains another. Other people's hooks on a convolution only watch.
    """

    reference = maps

    class Mistakes(wrong_runs(maps, stored_the_input, without=["before_the_callers_hook"])):
        def only_sequential_recursed(model, x):
            return maps(model, x, names=lambda model: [name for name in convolutions(model) if "." not in name])

        def all_kinds_of_convolutions(model, x):
            """Your result holds a convolution of another kind, such as `nn.ConvTranspose2d`. Only `nn.Conv2d` and its
            subclasses count: ask `isinstance(module, nn.Conv2d)`.
            """
            every = [name for name, module in model.named_modules() if isinstance(module, _ConvNd)]
            return maps(model, x, names=lambda model: every)

        def every_name(model, x):
            every = [name for name, m in model.named_modules(remove_duplicate=False) if isinstance(m, nn.Conv2d)]
            return maps(model, x, names=lambda model: every)

        def chosen_by_name(model, x):
            """You chose the modules by their names, but a convolution may have any name. Ask
            `isinstance(module, nn.Conv2d)`.
            """
            named = [name for name, module in model.named_modules() if "conv" in name.lower()]
            return maps(model, x, names=lambda model: named)

        def only_the_first_sample(model, x):
            """You kept only the first sample of the batch: `output[0]`. Keep a copy of the whole output."""
            return maps(model, x, copy=lambda output: output[0].detach().clone())

        def weights_not_maps(model, x):
            """These are the weights of the convolutions. A map is what a convolution returns when the model runs: take
            `output` in a forward hook.
            """
            return {name: model.get_submodule(name).weight.detach().clone() for name in convolutions(model)}

        def ran_the_children(model, x):
            """You ran the children of the model one after another. But only the model knows in which order it calls
            them, how they are connected, and what is inside them: call `model(x)`, and let hooks record.
            """
            found = {}
            for name, module in model.named_children():
                x = module(x)
                if isinstance(module, nn.Conv2d):
                    found[name] = x.detach().clone()
            return found

        def hooked_strangers(model, x):
            """A hook for all modules also fires for modules that the model calls although they are not part of it, and
            these have no name in it. Leave out what `model.named_modules()` does not give.
            """
            names, found = {module: name for name, module in model.named_modules()}, {}

            def hook(module, args, output):
                if isinstance(module, nn.Conv2d):
                    found[names[module]] = output.detach().clone()

            with for_all.register_module_forward_hook(hook):
                model(x)
            return found

        def named_strangers(model, x):
            """You gave a name to a convolution that the model calls although it is not part of it: a hook for all
            modules fires for it, too. Leave out what `model.named_modules()` does not give.
            """
            names, found = {module: name for name, module in model.named_modules()}, {}

            def hook(module, args, output):
                if isinstance(module, nn.Conv2d):
                    found[names.get(module, f"conv{len(found)}")] = output.detach().clone()

            with for_all.register_module_forward_hook(hook):
                model(x)
            return found

        def named_strangers__2(model, x):
            names, found = {module: name for name, module in model.named_modules()}, {}

            def hook(module, args, output):
                if isinstance(module, nn.Conv2d):
                    found[names.get(module)] = output.detach().clone()

            with for_all.register_module_forward_hook(hook):
                model(x)
            return found

        def late_binding(model, x):
            """All your hooks wrote under one name. They read the loop variable when they run, and by then it has its
            last value. Bind it with a default argument: `def hook(module, args, output, name=name):`.
            """
            last = [name for name, _ in model.named_modules()][-1]  # of the loop, which went through all
            return {last: list(maps(model, x).values())[-1]}

        def stored_alias(model, x):
            return maps(model, x, copy=lambda output: output.detach())

        def definition_order(model, x):
            found = maps(model, x)
            return {name: found[name] for name in convolutions(model)}

        def subclass_missed(model, x):
            """A convolution of a subclass of `nn.Conv2d` is missing. `isinstance(module, nn.Conv2d)` is true for
            subclasses, too; `type(module) is nn.Conv2d` is not.
            """
            exact = [name for name, module in model.named_modules() if type(module) is nn.Conv2d]
            return maps(model, x, names=lambda model: exact)
