"""Exercise 12-count-calls-by-type."""

from __future__ import annotations

from collections import Counter

import torch
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

from graders.authoring import exercise
from graders.scenes.counted_runs import a_layer, a_workshop, counts_a_run


def name_of(module):
    """The name of its class."""
    return type(module).__name__


def counted(model, x, named=name_of, which=lambda module: True):
    """The calls of those modules in a run."""
    calls = []
    with register_module_forward_hook(lambda module, args, output: calls.append(module)):
        model(x)
    return Counter(named(module) for module in calls if which(module))


@exercise(
    "12-count-calls-by-type",
    points=2,
    minutes=15,
    difficulty=1,
    title="Count every module call, by class",
    hints=(
        "A module in a plain Python list is not in `model.modules()`, and a module that `forward` makes on the way is "
        "not there before the call. A global hook, `register_module_forward_hook` from `torch.nn.modules.module`, "
        "fires for every module of the process.",
        "The hook gets the module first; its class name is `type(module).__name__`.",
        "Global hooks outlive your function: remove yours in `finally`, or use the handle in a `with` statement.",
    ),
    why=(
        "A global hook needs no list of modules, so it also sees those in a plain Python list and those made inside "
        "`forward`. A global forward pre-hook would do as well, and a `collections.Counter` saves the line with `get`."
    ),
    scene=counts_a_run(model=a_workshop, alone=a_layer, words={"counted": "every call is counted"}),
)
class TestCountCallsByType:
    """Write `count_calls_by_type(model, x)`: run the model, and return a dict that says for each class name how many
    calls of modules of this class took place.

    **Example.**

    >>> model = nn.Sequential(nn.Linear(2, 2), nn.Tanh(), nn.Linear(2, 1))
    >>> count_calls_by_type(model, torch.ones(1, 2))
    {'Sequential': 1, 'Linear': 2, 'Tanh': 1}

    **Fine print.** Each call `module(...)` counts: that of the model itself, of containers, of a module that is used
    again, and of modules that are not in `model.modules()`, because they are in a plain Python list or are made inside
    `forward`. `module.forward(...)` is no such call, and neither is a function such as `F.relu`. The class name is
    `type(module).__name__`; classes of the same name count together, and one without a call is not in the dict.
    """

    def reference(model, x):
        names = []
        with register_module_forward_pre_hook(lambda module, args: names.append(type(module).__name__)):
            model(x)
        return {name: names.count(name) for name in names}

    class Mistakes:
        def counted_modules(model, x):
            """You counted modules. The task counts calls: a module that is used twice counts twice, and one that is
            never called does not count. Count in a hook while the model runs.
            """
            model(x)
            return Counter(map(name_of, model.modules()))

        def counted_modules__2(model, x):
            model(x)
            return Counter(name_of(module) for module in model.modules() if not list(module.children()))

        def counted_modules__3(model, x):
            called = []

            def first_time(module):
                called.append(module)
                return called.count(module) == 1

            return counted(model, x, which=first_time)

        def counted_modules__4(model, x):
            return dict.fromkeys(counted(model, x), 1)

        def leaves_only(model, x):
            """The calls of containers are missing. The model itself and the containers in it are modules, too, and
            their calls count here.
            """
            return counted(model, x, which=lambda module: not list(module.children()))

        def registered_modules_only(model, x):
            """You hooked the modules of `model.modules()`. Modules in a plain list, or made inside `forward`, are not
            among them. A global hook fires for every module: `register_module_forward_hook`.
            """
            registered = list(model.modules())
            return counted(model, x, which=lambda module: module in registered)

        def one_class_of_a_name(model, x):
            """Two classes of the same name have to count together, and your dict keeps only one of them. Count by the
            name, and not by the class.
            """
            return {kind.__name__: count for kind, count in counted(model, x, type).items()}

        def model_left_out(model, x):
            """The call of the model itself is missing. It is a module, too, and you call it."""
            return counted(model, x, which=lambda module: module is not model)

        def another_name(model, x):
            """Every call is counted, and some under another name than `type(module).__name__`. Neither the
            `__qualname__` nor the class that it derives from is meant.
            """
            return counted(model, x, lambda module: type(module).__qualname__)

        def another_name__2(model, x):
            def of_torch(module):
                kinds = [kind for kind in type(module).__mro__ if kind.__module__.startswith("torch.nn.modules.")]
                return name_of(module) if kinds[0] is torch.nn.Module else kinds[0].__name__

            return counted(model, x, of_torch)

        def another_mode(model, x):
            modes = [(module, module.training) for module in model.modules()]
            try:
                return counted(model.eval(), x)
            finally:
                for module, mode in modes:
                    module.training = mode

        def hook_left_behind(model, x):
            """Your hook is still registered, and a global one fires from now on for every module of this process. Keep
            the handle and call `remove()`.
            """
            names = []
            register_module_forward_hook(lambda module, args, output: names.append(name_of(module)))
            model(x)
            return dict(Counter(names))

        def hook_left_after_exception(model, x):
            """The model raised an exception, and your `remove()` was skipped. Put it into `finally`, or use the handle
            in a `with` statement.
            """
            names = []
            handle = register_module_forward_hook(lambda module, args, output: names.append(name_of(module)))
            model(x)
            handle.remove()
            return Counter(names)

        def one_slot_for_all(model, x, names=[]):  # noqa: B006 - the mistake
            with register_module_forward_hook(lambda module, args, output: names.append(name_of(module))):
                model(x)
            return Counter(names)
