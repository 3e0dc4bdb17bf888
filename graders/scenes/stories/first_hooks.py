"""Stories for a function that puts a forward hook of the caller before all others of a module."""

from typing import Any

from torch import nn

from graders.scenes.story import Call, Draw, Seen, told

HOOK = {"hooks": ("replacing", "watching", "none"), "returns": ("a tensor", "nothing")}


@told
def first_of_all(call: Call, draw: Draw, case: Any, module: Any) -> Any:
    """For `function(module, hook)`."""
    if case.returns == "a tensor":
        hook = lambda module, args, output: -1.7 * output + 0.6  # noqa: E731 - a line of the program
    else:
        hook = lambda module, args, output: None  # noqa: E731 - as above
    return call(module, hook)


@told
def runs_first_again(call: Call, draw: Draw, case: Any, module: Any) -> Any:
    """For a second call of it."""
    return call(module, lambda module, args, output: output - 2.3)


def called_as_a_forward_hook(call: Call, draw: Draw, case: Any) -> Seen:
    """It is called as any forward hook, and once."""
    given: list[Any] = []
    x = draw.tensor()
    module = nn.Identity()
    y = draw.tensor()
    call(module, lambda module, args, output: given.append([module, args, output]) or y)
    out = module(x)
    yield "the output", out
    yield "whether the hook got the output itself, in each call", [output is x for m, args, output in given]
    yield "what else it got", [[m is module, isinstance(args, tuple), len(args)] for m, args, output in given]


def called_inside(call: Call, draw: Draw, case: Any) -> Seen:
    """The hook may call the module, and is called then, too."""
    x = draw.tensor()
    more = [draw.tensor()]
    module = nn.Identity()
    call(module, lambda module, args, output: 3 * module(more.pop()) if more else 2 * output)
    out = module(x)
    yield "the output when the hook calls the module", out


def hooks_return_anything(call: Call, draw: Draw, case: Any) -> Seen:
    """Anything but None replaces the output, even what is false."""
    module = nn.Identity()
    x = draw.tensor()
    answer = {"a tensor": False, "nothing": 0}[case.returns]
    call(module, lambda module, args, output: answer)
    yield "the output", module(x)


def hooks_raise(call: Call, draw: Draw, case: Any) -> Seen:
    """An exception of the hook comes through and is forgotten."""
    x = draw.tensor()
    errors = [draw.error(case.failure)]

    def once(module: Any, args: Any, output: Any) -> Any:
        if errors:
            raise errors.pop()
        return output + 1

    module = nn.Identity()
    call(module, once)
    came = None
    try:
        module(x)
    except (Exception, KeyboardInterrupt) as caught:
        came = repr(caught)
    yield "the exception", came
    yield "the output of the next call", module(x)


def silent_when_forward_raises(call: Call, draw: Draw, case: Any) -> Seen:
    """The hook is not called when forward raises."""
    x = draw.tensor()
    calls: list[Any] = []

    class Fails(nn.Module):
        def forward(self: Any, x: Any) -> Any:
            raise RuntimeError

    module = Fails()
    call(module, lambda module, args, output: calls.append("called"))
    try:
        module(x)
    except RuntimeError:
        calls.append("forward raised")
    yield "the calls of the hook", calls


def one_takes_away(call: Call, draw: Draw, case: Any) -> Seen:
    """The handles of other hooks still remove them."""
    module = nn.Identity()
    x = draw.tensor()
    added = module.register_forward_hook(lambda module, args, output: output + 1)
    tripled = module.register_forward_hook(lambda module, args, output: 3 * output)
    call(module, lambda module, args, output: output - 5)
    yield "the output", module(x)
    added.remove()
    yield "the output after remove() of another hook", module(x)
    tripled.remove()
    yield "the output after remove() of both", module(x)
