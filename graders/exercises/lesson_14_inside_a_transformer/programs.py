"""How people read what flows through a transformer: right steps, and what goes wrong in several exercises."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from graders.exercises.lesson_05_capturing_activations.programs import copied
from graders.exercises.lesson_10_explaining_predictions.programs import another_mode, another_mode__2

Program = Callable[..., Any]


def run(model: nn.Module, tokens: Tensor, handles: Sequence[Any]) -> Any:
    """Run a model, and take off the hooks of these handles."""
    try:
        return model(tokens)
    finally:
        for handle in handles:
            handle.remove()


def first_of(output: Any) -> Any:
    """What a block passes on."""
    return output[0] if isinstance(output, tuple) else output


def stream_of(
    model: Any, tokens: Tensor, *, run: Program = run, copy: Any = copied, take: Any = first_of, **options: Any
) -> Tensor:
    """What flows between the blocks, by forward hooks; `options` are those of `register_forward_hook`."""
    stream = []

    def keep_input(module: nn.Module, args: Any) -> None:
        stream.append(copy(args[0]))

    def keep_output(module: nn.Module, args: Any, output: Any) -> None:
        stream.append(copy(take(output)))

    handles = [block.register_forward_hook(keep_output, **options) for block in model.blocks]
    run(model, tokens, [model.blocks[0].register_forward_pre_hook(keep_input), *handles])
    return torch.stack(stream)


def inputs_of(modules: Sequence[nn.Module], model: nn.Module, tokens: Tensor) -> list[Tensor]:
    """What each of these modules gets, in the order of the run, by pre-hooks."""
    inputs = list[Tensor]()

    def keep(module: nn.Module, args: Any) -> None:
        inputs.append(copied(args[0]))

    run(model, tokens, [module.register_forward_pre_hook(keep) for module in modules])
    return inputs


def hook_left_behind(program: Program, *args: Any) -> Any:  # noqa: D103 - COMMON says it
    return program(*args, run=lambda model, tokens, handles: model(tokens))


def hook_left_after_exception(program: Program, *args: Any) -> Any:  # noqa: D103
    def off_in_the_end(model: nn.Module, tokens: Tensor, handles: Sequence[Any]) -> Any:
        found = model(tokens)
        for handle in handles:
            handle.remove()
        return found

    return program(*args, run=off_in_the_end)


def kept_graph(program: Program, *args: Any) -> Any:
    """Your result has a graph, which keeps alive everything that the run computed. Detach what you keep, or run the
    model under `torch.no_grad()`.
    """
    return program(*args, copy=torch.clone)


def stored_alias(program: Program, *args: Any) -> Any:
    """You kept the tensors themselves, and a block wrote its output over what it got: so some of your entries hold what
    flowed later. Keep copies: `.detach().clone()`.
    """
    return program(*args, copy=torch.detach)


def first_of_any(program: Program, *args: Any) -> Any:
    """`output[0]` is the stream when a block returns a tuple. Of a tensor it is the first row of the batch. Check with
    `isinstance(output, tuple)`.
    """
    return program(*args, take=lambda output: output[0])


def before_others(program: Program, *args: Any) -> Any:
    """You look before other people's hooks, which replace what a block returns: your hook runs first, or you changed
    `forward`. What flows on is what they leave: register a forward hook after them, without `prepend=True`.
    """
    return program(*args, prepend=True)


RUNS = (hook_left_behind, hook_left_after_exception, another_mode, another_mode__2)
STREAMS = (*RUNS, kept_graph, stored_alias, first_of_any, before_others)
