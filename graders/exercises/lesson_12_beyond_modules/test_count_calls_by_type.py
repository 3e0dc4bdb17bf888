"""Exercise 12-count-calls-by-type."""

from collections import Counter

from torch import nn
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

from graders.exercises.authoring import exercise
from graders.scenes.scene import stories
from graders.scenes.stories import counted_calls


def calls(model, x):
    """The modules that are called in a run, in turn."""
    called = []
    with register_module_forward_hook(lambda module, args, output: called.append(module)):
        model(x)
    return called


RUNNING = []
"""The runs in progress, the innermost last."""


def by_class(modules):
    """How many there are of each class name."""
    return Counter(type(module).__name__ for module in modules)


@exercise(
    "12-count-calls-by-type",
    points=2,
    minutes=15,
    difficulty=1,
    title="Count every module call, by class",
    hints=(
        "A module in a plain Python list is not in `model.modules()`, and a module that `forward` makes on the way is "
        "not there before the call. A global hook, `register_module_forward_hook` from `torch.nn.modules.module`, "
        "fires for every module in the process.",
        "The hook gets the module first; its class name is `type(module).__name__`.",
        "Global hooks outlive your function: remove yours in `finally`, or use the handle in a `with` statement.",
    ),
    why=(
        "A global hook needs no list of modules, so it also sees those in a plain Python list and those made inside "
        "`forward`. A global forward pre-hook would do as well, and a `collections.Counter` saves the line with `get`."
    ),
    scene=stories(
        promises={
            "every call is counted": counted_calls.counted,
            "each call begins anew": counted_calls.anew,
            "two calls at the same time do not disturb each other": counted_calls.called_inside,
            "the model runs once, as it would without you": counted_calls.run_once,
            "nothing of the caller changes": counted_calls.left_alone,
            "an exception comes through and nothing is left": counted_calls.model_raises,
        },
        axes={**counted_calls.CALLS, **counted_calls.MODEL},
        impossible=counted_calls.IMPOSSIBLE,
        made=counted_calls.a_model_of_calls,
    ),
)
class TestCountCallsByType:
    """Write `count_calls_by_type(model, x)`: run the model once, and return a dict that says for each class name how
    many times modules of this class were called.

    **Example.**

    >>> model = nn.Sequential(nn.Linear(2, 2), nn.Tanh(), nn.Linear(2, 1))
    >>> count_calls_by_type(model, torch.ones(1, 2))
    {'Sequential': 1, 'Linear': 2, 'Tanh': 1}

    **Fine print.** Each call `module(...)` counts: that of the model itself, of containers, of a module that is used
    again, and of modules that are not in `model.modules()`, because they are in a plain Python list or are made inside
    `forward`. `module.forward(...)` is not such a call, and neither is a function such as `F.relu`. The class name is
    `type(module).__name__`; classes of the same name count together, and one without a call is not in the dict.
    """

    def reference(model, x):
        names = []
        with register_module_forward_pre_hook(lambda module, args: names.append(type(module).__name__)):
            model(x)
        return {name: names.count(name) for name in names}

    def reference_of_its_own_run(model, x):  # it leaves out a run of another model in the middle of this one
        counts = Counter()

        def count(module, args, output):
            if RUNNING[-1] is counts:
                counts[type(module).__name__] += 1

        RUNNING.append(counts)
        try:
            with register_module_forward_hook(count):
                model(x)
        finally:
            RUNNING.pop()
        return counts

    class Mistakes:
        def counted_modules(model, x):
            """You counted modules. The task counts calls: a module that is used twice counts twice, and one that is
            never called does not count. Count in a hook while the model runs.
            """
            model(x)
            return by_class(model.modules())

        def leaves_only(model, x):
            """The calls of containers are missing. The model itself and the containers in it are modules, too, and
            their calls count here.
            """
            return by_class(module for module in calls(model, x) if not list(module.children()))

        def registered_modules_only(model, x):
            """You hooked the modules of `model.modules()`. Modules in a plain list, or made inside `forward`, are not
            among them. A global hook fires for every module: `register_module_forward_hook`.
            """
            registered = list(model.modules())
            return by_class(module for module in calls(model, x) if module in registered)

        def one_class_of_a_name(model, x):
            """Two classes of the same name have to count together, but your dict keeps only one of them. Count by name,
            not by class.
            """
            return {kind.__name__: count for kind, count in Counter(map(type, calls(model, x))).items()}

        def classes_as_keys(model, x):
            """The keys of your dict are classes. The task asks for their names: `type(module).__name__`."""
            return Counter(map(type, calls(model, x)))

        def another_name(model, x):
            """Every call is counted, but some under a name other than `type(module).__name__`. That is neither the
            `__qualname__` nor the name of a base class.
            """

            def of_torch(module):
                kinds = [kind for kind in type(module).__mro__ if kind.__module__.startswith("torch.nn.modules.")]
                return type(module) if kinds[0] is nn.Module else kinds[0]

            return Counter(of_torch(module).__name__ for module in calls(model, x))

        def zeros_for_others(model, x):
            """Your dict has classes that are never called. List only classes that are called: let the hook add the
            entry.
            """
            return {type(module).__name__: 0 for module in model.modules()} | by_class(calls(model, x))

        def hook_left_after_exception(model, x):
            """The model raised an exception, and your `remove()` was skipped. Put it in `finally`, or use the handle in
            a `with` statement.
            """
            called = []
            handle = register_module_forward_hook(lambda module, args, output: called.append(module))
            model(x)
            handle.remove()
            return by_class(called)

        def names_of_modules(model, x):
            """The keys of your dict are names of modules in the model. The task asks for those of classes:
            `type(module).__name__`.
            """
            names = {module: name for name, module in model.named_modules()}
            return Counter(names.get(module, "") for module in calls(model, x))

        def each_module_once(model, x):
            """You counted each module once, however often it was called. Count in every call of the hook."""
            return by_class(dict.fromkeys(calls(model, x)))
