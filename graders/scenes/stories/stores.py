"""Stories for a class `store(model, names)` that records outputs inside of its `with` blocks."""

from typing import Any

import torch

from graders.scenes.stories.captures import MODEL, a_model, names_of
from graders.scenes.story import Call, Draw, Seen, told
from graders.scenes.watch import Watch

AXES = {
    "layer": ("skip, norm; chain", "skip, norm", "block.pair, again, act", "loss, norm, skip2, block.pair, skip"),
    **MODEL,
    "failure": ("KeyError", "KeyboardInterrupt", "StopIteration", "RuntimeError"),
}


@told
def record_of(store: Any) -> Any:
    """What a store holds, without empty lists: they may be there or not."""
    return {name: calls for name, calls in store.data.items() if calls != []}


@told
def a_store(call: Call, draw: Draw, case: Any) -> Any:
    """A store for layers of a model, and two inputs."""
    model, x = a_model(draw, case)
    y = draw.tensor(3, 2)
    store = call(model, names_of(case))
    return model, x, y, store


def recorded(call: Call, draw: Draw, case: Any) -> Seen:
    """Every call in the block is recorded."""
    model, x, y, store = a_store(call, draw, case)
    with store:
        model(x)
    yield "the record after a block", record_of(store)
    with store:
        model(y)
        model(x)
    yield "the record after a second block", record_of(store)


def outside(call: Call, draw: Draw, case: Any) -> Seen:
    """Nothing is recorded outside a block, and hooks that the caller registers in it stay."""
    model, x, y, store = a_store(call, draw, case)
    model(x)
    yield "the record before a block", record_of(store)
    ran: list[str] = []
    with store:
        model(y)
        model.get_submodule(names_of(case)[0]).register_forward_hook(lambda *args: ran.append("the caller's"))
    model(x)
    yield "which hooks of the caller run after the block", ran
    yield "the record after a run outside", record_of(store)


def entered(call: Call, draw: Draw, case: Any) -> Seen:
    """`with store as s` gives the store."""
    model, x, y, store = a_store(call, draw, case)
    with store as s:
        model(x)
    yield "s is store", s is store
    yield "the record", record_of(store)


def cleared(call: Call, draw: Draw, case: Any) -> Seen:
    """`clear` empties the record, also inside a block, and leaves the hooks."""
    model, x, y, store = a_store(call, draw, case)
    with store:
        model(x)
    store.clear()
    yield "the record after clear()", record_of(store)
    with store:
        model(x)
        store.clear()
        model(y)
    model(x)
    yield "the record after clear() in a block", record_of(store)


def two_models(call: Call, draw: Draw, case: Any) -> Seen:
    """Each store has its own record."""
    import copy

    model, x, y, store = a_store(call, draw, case)
    other = copy.deepcopy(model)
    inner = call(other, names_of(case)[:1])
    with store:
        model(x)
        with inner:
            other(y)
        model(y)
    yield "the record of a store", record_of(store)
    yield "the record of a store for another model, inside", record_of(inner)


def two_stores(call: Call, draw: Draw, case: Any) -> Seen:
    """Two stores record one model."""
    model, x, y, store = a_store(call, draw, case)
    inner = call(model, names_of(case)[-1:])
    with store:
        with inner:
            model(x)
        model(y)
    yield "the record of an outer store", record_of(store)
    yield "the record of another store for this model, inside", record_of(inner)


OWN = (two_models, two_stores)


def goes_on(call: Call, draw: Draw, case: Any) -> Seen:
    """The model goes on as it does without the store."""
    model, x, y, store = a_store(call, draw, case)
    flows: list[Any] = []
    model.head.register_forward_hook(lambda module, args, out: flows.append([args[0].requires_grad, out.detach()]))
    with store:
        enabled = torch.is_grad_enabled()
        model(x)
    yield "whether gradients can flow into the head, and what comes out", flows
    yield "whether gradients are on in the block", enabled


def left_alone(call: Call, draw: Draw, case: Any) -> Seen:
    """Nothing of the caller changes."""
    model, x = a_model(draw, case)
    names = names_of(case)
    before = Watch(model=model, x=x, names=names)
    store = call(model, names)
    yield "by the call", before.differences()
    with store:
        model(x)
    yield "by a block", before.differences()


def block_raises(call: Call, draw: Draw, case: Any) -> Seen:
    """An exception of the block comes through, and nothing is left."""
    model, x, y, store = a_store(call, draw, case)
    error = draw.error(case.failure)

    def fails(*args: Any) -> None:
        raise error

    model.head.register_forward_pre_hook(fails)
    before = Watch(model=model, x=x)
    came = None
    try:
        with store:
            model(x)
    except (Exception, type(error)) as caught:
        came = repr(caught)
    yield "the exception", came
    yield "by a block that raised", before.differences()


def recorded_after_an_exception(call: Call, draw: Draw, case: Any) -> Seen:
    """What was recorded before an exception stays, and a later block adds to it."""
    model, x, y, store = a_store(call, draw, case)
    error = draw.error(case.failure)
    try:
        with store:
            model(x)
            raise error
    except (Exception, type(error)):
        pass
    with store:
        model(y)
    yield "the record after an exception and another block", record_of(store)


RAISING = (block_raises, recorded_after_an_exception)
