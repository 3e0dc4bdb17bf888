"""Exercise 05-activation-store."""

from graders.exercises.authoring import exercise
from graders.scenes.scene import stories
from graders.scenes.stories import model_states, stores


class Store:
    """A right store. The wrong ones do one thing differently."""

    options = {}

    def __init__(self, model, names):
        self.model, self.names, self.handles = model, list(names), []
        self.data = {name: [] for name in self.names}

    def keep(self, name, output):
        self.data[name].append(output.detach().clone())

    def hook(self, name):
        return lambda module, args, output: self.keep(name, output)

    def __enter__(self):
        for name in self.names:
            register = self.model.get_submodule(name).register_forward_hook
            self.handles.append(register(self.hook(name), **self.options))
        return self

    def __exit__(self, kind, error, traceback):
        while self.handles:
            self.handles.pop().remove()

    def clear(self):
        for entries in self.data.values():
            entries.clear()


@exercise(
    "05-activation-store",
    points=3,
    minutes=40,
    difficulty=3,
    name="ActivationStore",
    title="A store for activations, as a context manager",
    hints=(
        "`__init__` only stores what it is given. Register the hooks in `__enter__`, and return `self` from it.",
        "Remove all handles in `__exit__`. Python also calls it when the block raises.",
        "Return `None` or `False` from `__exit__`, and the exception comes through. `True` would swallow it.",
    ),
    why=(
        "Hooks are registered in `__enter__` and removed in `__exit__`, which Python also calls when the block "
        "raises; it returns `None`, so the exception comes through. An `ExitStack` that takes the handles would do as "
        "well, and needs no list of them."
    ),
    scene=stories(
        promises={
            "every call in a block is recorded": stores.recorded,
            "nothing is recorded outside a block": stores.outside,
            "`with store as s` gives the store": stores.entered,
            "clear empties the record": stores.cleared,
            "the model goes on as it does without the store": stores.goes_on,
            "nothing of the caller changes": stores.left_alone,
            "an exception comes through and nothing is left": stores.RAISING,
            "each store has its own record": stores.OWN,
        },
        axes=stores.AXES,
        impossible=[model_states.no_odd_chain],
    ),
)
class TestActivationStore:
    """Write a class `ActivationStore(model, names)`, a context manager. Inside `with store:` it records the outputs of
    the modules `names`: `store.data` maps each name to a list with one copy, without a graph, for each call.
    `store.clear()` empties the record.

    **Example.**

    >>> model = nn.Sequential(nn.Flatten(), nn.ReLU())
    >>> store = ActivationStore(model, ["1"])
    >>> with store:
    ...     output = model(torch.tensor([[-1.0, 2.0]]))
    >>> store.data
    {'1': [tensor([[0., 2.]])]}

    **Fine print.** `with store as s` gives `s is store`. A second block adds to the record, even after an exception,
    which comes through; after `clear()` inside a block, recording goes on. Where nothing is recorded, `data` has an
    empty list or no entry. Two names of one module may hold the same copies. The outputs are tensors. Outside the block
    the model has none of the store's hooks. The model goes on as without it, gradients included.
    """

    reference = Store

    class Mistakes:
        class registered_too_early(Store):
            """Some of your hooks are on the model before the `with` block begins. Register them in `__enter__`, not in
            `__init__`.
            """

            def __init__(self, model, names):
                super().__init__(model, names)
                super().__enter__()

            def __enter__(self):
                return self

        class registered_too_early__2(Store):
            on = False

            def __init__(self, model, names):
                super().__init__(model, names)
                super().__enter__()

            def keep(self, name, output):
                if self.on:
                    super().keep(name, output)

            def __enter__(self):
                self.on = True
                return self

            def __exit__(self, kind, error, traceback):
                self.on = False

        class hook_left_after_exception(Store):
            """The block raised an exception, and your hooks stayed on the model. `__exit__` is called in that case,
            too: remove the handles there whatever its arguments say.
            """

            def __exit__(self, kind, error, traceback):
                if kind is None:
                    super().__exit__(kind, error, traceback)

        class hook_left_behind(Store):
            """Your hooks are still on the model after the block. Keep every handle in `self.handles`, and remove them
            all in `__exit__`.
            """

            def __exit__(self, kind, error, traceback):
                pass

        class clear_ends_the_recording(Store):
            """After `clear()` in a block nothing is recorded any more: you removed the hooks, or they write into the
            old lists, which `self.data` no longer has. Let a hook look up `self.data[name]` when it runs.
            """

            def clear(self):
                self.__exit__(None, None, None)
                super().clear()

        class empty_after_the_block(Store):
            """The record is empty after the block: `__exit__` clears it. It only removes the hooks; `clear()` is for
            the caller.
            """

            def __exit__(self, kind, error, traceback):
                super().__exit__(kind, error, traceback)
                self.clear()

        class last_handle_only(Store):
            """You removed one handle alone, the last of your loop: `self.handle` held only one at a time. Keep all of
            them in a list.
            """

            def __exit__(self, kind, error, traceback):
                self.handles.pop().remove()

        class one_list_for_all(Store):
            """All names share one list: `dict.fromkeys(names, [])` puts the same list under each. Make one for each
            name, `{name: [] for name in names}`.
            """

            def __init__(self, model, names):
                super().__init__(model, names)
                self.clear()

            def clear(self):
                self.data = dict.fromkeys(self.names, [])  # noqa: RUF024 - the mistake

        class one_list_for_all__2(Store):
            def clear(self):
                self.data = dict.fromkeys(self.names, [])  # noqa: RUF024 - the mistake

        class one_list_for_a_module(Store):
            """Each call is in your lists twice: two names of one module share a list, and the hooks of both append to
            it. Make a list for each name, `{name: [] for name in names}`.
            """

            def __init__(self, model, names):
                super().__init__(model, names)
                lists = {}
                self.data = {name: lists.setdefault(model.get_submodule(name), []) for name in self.names}

        class one_dict_for_all_stores(Store):
            """All your stores share one dict, such as `data = {}` in the body of the class. Make it in `__init__`:
            `self.data = {}`.
            """

            shared = {}

            def __init__(self, model, names):
                super().__init__(model, names)
                self.data = self.shared
                self.clear()

            def keep(self, name, output):
                self.data.setdefault(name, [])
                super().keep(name, output)

            def clear(self):
                self.data.clear()

        class forgets_after_exception(Store):
            """The block raised an exception, and what your store had recorded before that is lost. `__exit__` removes
            the hooks and leaves the record alone, whatever its arguments say.
            """

            def __exit__(self, kind, error, traceback):
                super().__exit__(kind, error, traceback)
                if kind:
                    self.clear()

        class one_name_for_a_module(Store):
            """A name is missing: two names may belong to one module, and a dict whose keys are the modules keeps only
            one of them. Go through the names, and make a hook for each.
            """

            def __init__(self, model, names):
                super().__init__(model, {model.get_submodule(name): name for name in names}.values())

        class only_last_call(Store):
            """Your store kept only the last call of a module. Append every output to a list."""

            def keep(self, name, output):
                self.data[name] = [output.detach().clone()]

        class clear_does_nothing(Store):
            """After `clear()` the old entries are still there. `data = {}` only binds a local name: empty the dict
            itself with `self.data.clear()`, or assign to `self.data`.
            """

            def clear(self):
                pass

        class clear_loses_the_lists(Store):
            """`clear()` threw away the lists, and the next call of a module in the block found none to append to. Empty
            each list, or make new ones: `self.data = {name: [] for name in self.names}`.
            """

            def clear(self):
                self.data = {}

        class clear_loses_the_handles(Store):
            """`clear()` in a block threw away the handles, too, so the hooks stayed when the block was over. It empties
            the record alone: do not call `__init__` again.
            """

            def clear(self):
                self.__init__(self.model, self.names)

        class late_binding(Store):
            def hook(self, name):
                return super().hook(self.names[-1])

        class stored_alias(Store):
            def keep(self, name, output):
                self.data[name].append(output.detach())

        class swallowed_exception(Store):
            """The exception from the block disappeared: `__exit__` returned something true. Return `None`."""

            def __exit__(self, kind, error, traceback):
                super().__exit__(kind, error, traceback)
                return True

        class reset_on_entry(Store):
            """The second `with` block erased what the first had recorded. The record grows until `clear()` is called:
            create `self.data` in `__init__` and leave it alone in `__enter__` and `__exit__`.
            """

            def __enter__(self):
                self.clear()
                return super().__enter__()

        class forgot_self(Store):
            """`with store as s` gives what `__enter__` returns: return `self`."""

            def __enter__(self):
                super().__enter__()
