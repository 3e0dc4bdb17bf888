"""Scenes for functions that look inside a transformer, and the small decoders that they are given."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from graders.nets.decoder import Block, Decoder
from graders.probing.asking import detached_copy
from graders.scenes.inner_calls import calling_inside
from graders.scenes.instruments.callers_hooks import CallersHooks
from graders.scenes.instruments.failures import Failure
from graders.scenes.instruments.models import fill_grads
from graders.scenes.instruments.passes import grad_mode
from graders.scenes.instruments.witness import Witness
from graders.scenes.models import Drop
from graders.scenes.scene import Call, Sections, family
from graders.wire.draws import Rng

CONTEXT = 8
"""The most tokens that a model can read."""


class Part(Block):
    """A block with dropout behind its MLP. It may return the stream alone, and may overwrite its input with it."""

    def __init__(self, width: int, heads: int, output: str, in_place: bool) -> None:
        """`output` is "tuple", "tuple of one" or "tensor"."""
        super().__init__(width, heads)
        self.mlp.append(Drop(0.25))
        self.output, self.in_place = output, in_place

    def forward(self, hidden: Tensor, *, attn_mask: Tensor | None = None, cache: Tensor | None = None) -> Any:
        """The stream behind this block; in a "tuple", it is followed by what a `Block` returns there."""
        stream, *rest = super().forward(hidden, attn_mask=attn_mask, cache=cache)
        if self.in_place:
            stream = hidden.copy_(stream)
        return {"tuple": (stream, *rest), "tuple of one": (stream,), "tensor": stream}[self.output]


class Transformer(Decoder):
    """A small decoder with drawn parameters, and with dropout before and inside its blocks.

    Reads `dtype` of the case, and if it has them `heads`, `blocks`, `output` (of each block: see `Part`), `stream`
    ("in place" if each block overwrites its input, which makes a backward pass impossible), `mode` ("mixed" is training
    mode with the blocks in eval mode) and `grad` ("filled" if all `.grad` hold something).
    """

    def __init__(self, rng: Rng, case: Any) -> None:
        """Draw the sizes and parameters."""
        get = vars(case).get
        heads, vocabulary = get("heads", 2), rng.integer(7, 9)
        width = heads * rng.integer(3, 4)
        with torch.random.fork_rng(devices=[]):  # what new layers draw depends on their dtype
            super().__init__(vocabulary, width=width, heads=heads, blocks=0, context=CONTEXT)
            self.drop = Drop(0.25)
            self.output = get("output", "tuple")
            parts = (width, heads, self.output, get("stream") == "in place")
            self.blocks = nn.ModuleList(Part(*parts) for _ in range(get("blocks", 2)))
        self.to(getattr(torch, case.dtype))
        with torch.no_grad():
            for name, parameter in self.named_parameters():
                if "out_proj" not in name:  # the identity
                    size = 1.0 if "embed" in name or "in_proj" in name else 0.5  # heads must tell tokens apart
                    parameter.copy_(
                        rng.tensor(*parameter.shape, low=-size, high=size, away=0.125, dtype=case.dtype, values="full")
                    )
        self.train(get("mode", "eval") != "eval")
        if get("mode") == "mixed":
            self.blocks.eval()
        if get("grad") == "filled":
            fill_grads(self)

    def forward(self, tokens: Tensor) -> Tensor:  # type: ignore[override]  # without a cache
        """From tokens, int64 [B, T], to the logits of each next token, [B, T, vocabulary]."""
        count = tokens.shape[1]
        ahead = torch.ones(count, count, dtype=torch.bool).triu(1)
        hidden = self.drop(self.embed(tokens) + self.position(torch.arange(count)))
        for block in self.blocks:
            passed = block(hidden, attn_mask=ahead)
            if self.output == "tuple":
                hidden, _ = passed
            elif self.output == "tuple of one":
                (hidden,) = passed
            else:
                hidden = passed
        logits: Tensor = self.unembed(self.norm(hidden))
        return logits


def some_tokens(rng: Rng, model: Decoder, case: Any, count: int) -> Tensor:
    """Tokens, int64 [case.batch, count], laid out by columns; two rows if the case has no `batch`."""
    rows = vars(case).get("batch", 2)
    return torch.tensor([[rng.integer(0, model.embed.num_embeddings - 1) for _ in range(rows)] for _ in range(count)]).T


def add_callers_hooks(model: Transformer, hooks: str) -> CallersHooks:
    """Register the caller's hooks on each block and on the model; those inside a block only watch."""
    callers = CallersHooks(hooks)
    for index, block in enumerate(model.blocks):
        callers.on_module(block, f"block {index}")
    watching = CallersHooks("none" if hooks == "none" else "watching")
    for name, inner in model.named_modules():
        if name.endswith((".attention", ".mix")):
            watching.on_module(inner, name)
    callers.on_module(model, "the model")
    return callers


def call_with_tokens(call: Call, model: Transformer, tokens: Tensor) -> dict[str, Any]:
    """For `function(model, tokens)`."""
    return {"the result": call(model, tokens)}


def call_for_each_block(call: Call, model: Transformer, tokens: Tensor) -> dict[str, Any]:
    """For `function(model, tokens, layer)`."""
    return {f"the result for block {layer}": call(model, tokens, layer) for layer in range(len(model.blocks))}


@family(
    sections=(
        "{task}",
        "{runs}",
        "a later call starts afresh",
        "a call inside a call changes nothing",
        "nothing of the caller changes",
        "an exception comes through and nothing is left",
    ),
    axes={
        "dtype": ("float32", "float64"),
        "batch": (2, 1, 3),
        "heads": (2, 3),
        "blocks": (3, 2, 1),
        "output": ("tuple", "tensor", "tuple of one"),
        "stream": ("new", "in place"),
        "mode": ("mixed", "eval", "train"),
        "grad": ("filled", "empty"),
        "hooks": ("watching", "replacing", "none"),
        "grad_mode": ("on", "off"),
        "failure": ("KeyboardInterrupt", "own", "RuntimeError"),
    },
)
def reads_transformers(
    call: Call,
    rng: Rng,
    case: Any,
    seen: Sections,
    ask: Callable[[Call, Transformer, Tensor], dict[str, Any]],
    fails: Sequence[int] = (1,),
) -> None:
    """`ask` calls the function, once or for each block. `fails` numbers the runs of the model that raise, in turn."""
    task, runs, later, inside, same, failing = seen.values()
    model, other = Transformer(rng, case), Transformer(rng, case)
    add_callers_hooks(model, case.hooks)
    gave: list[Tensor] = []
    model.register_forward_hook(lambda module, args, output: gave.append(detached_copy(output)))
    first, second, third = (some_tokens(rng, model, case, rng.integer(3, 5)) for _ in range(3))
    with grad_mode(case.grad_mode):
        before = Witness(model=model, tokens=first)
        task |= ask(call, model, first)
        runs["the logits of the model, run by run"] = gave[:20]
        same["the next random number"] = int(torch.randint(1 << 20, ()))
        same["changed"] = before.changes()
        later |= ask(call, model, second)

        def ask_inside() -> Any:
            return ask(call, other, some_tokens(rng, other, case, 4))

        with calling_inside(model.blocks[-1].register_forward_hook, ask_inside) as found:
            inside["around"] = ask(call, model, third)
        inside["inside"] = found

        for run in fails:
            failure = Failure(case.failure)
            breaking = model.blocks[-1].register_forward_pre_hook(in_run(run, failure.raise_if_due))
            before = Witness(model=model, tokens=first)
            failing[f"an exception in run {run}"] = failure.outcome_during(lambda: ask(call, model, first))
            failing[f"changed after an exception in run {run}"] = before.changes()
            breaking.remove()
        failing["after an exception"] = ask(call, model, second)


def in_run(number: int, do: Callable[[], None]) -> Callable[..., None]:
    """A hook that calls `do` in its call of this number."""
    left = iter(range(number - 1, -1, -1))

    def hook(*args: Any) -> None:
        if next(left, -1) == 0:
            do()

    return hook
