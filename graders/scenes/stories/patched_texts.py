"""Stories for a function that patches each token behind each block of a model, and returns shares of a metric."""

from typing import Any

import torch
from torch import Tensor, nn

from graders.scenes.story import Call, Draw, Seen, told
from graders.scenes.watch import Watch

PATCHED = {
    "output": ("tuple", "tensor", "tuple of one"),
    "stream": ("new", "in place"),
    "blocks": (2, 3, 1),
    "batch": (2, 1, 3),
    "dtype": ("float32", "float64"),
    "grad": ("empty", "filled"),
    "hooks": ("none", "watching", "replacing"),
    "grad_mode": ("on", "off"),
    "failure": ("KeyError", "ValueError", "RuntimeError", "KeyboardInterrupt"),
}


def a_text(draw: Draw, case: Any, words: Any, count: int = 3) -> Tensor:
    """Some of these words in each row. A clean text and a corrupt one have none in common."""
    return torch.tensor([[draw.choice(words) for _ in range(count)] for _ in range(case.batch)])


@told
def a_small_model(draw: Draw, case: Any) -> Any:
    """A model whose blocks return the stream in another form, or write it over what they got."""

    class Block(nn.Linear):
        def forward(self, hidden: Tensor) -> Any:
            stream = hidden + super().forward(hidden.cumsum(1)).tanh()
            if case.stream == "in place":
                stream = hidden.copy_(stream)
            return stream if case.output == "tensor" else (stream,) if case.output == "tuple of one" else (stream, None)

    class Net(nn.ModuleDict):
        def forward(self: Any, tokens: Tensor) -> Any:
            hidden = self.embed(tokens)
            for block in self.blocks:
                hidden = block(hidden) if case.output == "tensor" else block(hidden)[0]
            return self.unembed(self.norm(hidden))

    torch.manual_seed(draw.choice(range(100)))
    blocks = nn.ModuleList(Block(4, 4) for _ in range(case.blocks))
    model = Net({"embed": nn.Embedding(6, 4), "blocks": blocks, "norm": nn.Softsign(), "unembed": nn.Linear(4, 6)})
    model.eval()
    return model


@told
def a_decoder(draw: Draw, case: Any) -> Any:
    """A decoder."""
    from graders.nets import Decoder

    torch.manual_seed(draw.choice(range(100)))
    model = Decoder(6, width=4, heads=2, blocks=case.blocks).eval()
    return model


@told
def a_model(draw: Draw, case: Any) -> Any:
    """A model, a clean and a corrupt text, and a metric of all their tokens."""
    if case.output == "tuple" and case.stream == "new":
        model = a_decoder(draw, case)
    else:
        model = a_small_model(draw, case)
    if draw.is_double:
        model.double()
    if case.grad == "filled":
        for p in model.parameters():
            p.grad = torch.ones_like(p)
    if case.hooks == "watching":
        model.blocks[0].register_forward_hook(lambda module, args, out: None)
    if case.hooks == "replacing" and case.output == "tensor":
        model.blocks[0].register_forward_hook(lambda module, args, out: out.cumsum(1))
    if case.hooks == "replacing" and case.output != "tensor":
        model.blocks[0].register_forward_hook(lambda module, args, out: (out[0].cumsum(1), *out[1:]))
    if case.hooks == "replacing":
        model.norm.register_forward_pre_hook(lambda module, args: (-args[0].cumsum(1),))
        model.register_forward_hook(lambda module, args, out: out.tanh())
    clean = a_text(draw, case, range(3))
    corrupt = a_text(draw, case, range(3, 6))
    metric = lambda logits: logits.gather(2, clean[..., None]).sum().item()  # noqa: E731 - a line of the program
    if case.grad_mode == "off":
        torch.set_grad_enabled(False)
    return model, clean, corrupt, metric


def shares(call: Call, draw: Draw, case: Any) -> Seen:
    """The share of the metric that comes back is right."""
    model, clean, corrupt, metric = a_model(draw, case)
    found = call(model, clean, corrupt, metric)
    yield "the result", found


def of_one_token(call: Call, draw: Draw, case: Any) -> Seen:
    """One token will do, and so will any metric of the logits."""
    model, clean, corrupt, metric = a_model(draw, case)
    found = call(model, clean[:, :1], corrupt[:, :1], lambda logits: logits[..., 0].sum().item())
    yield "the result for one token", found
    found = call(model, clean, corrupt, lambda logits: float(logits[-1, -1].softmax(0)[0]))
    yield "the result for the last token alone", found


def of_all_tokens(call: Call, draw: Draw, case: Any) -> Seen:
    """The metric gets the logits of all tokens."""
    model, clean, corrupt, metric = a_model(draw, case)
    shapes: list[Any] = []
    call(model, clean, corrupt, lambda logits: shapes.append(logits.shape) or metric(logits))
    yield "the shape of the logits that the metric gets", tuple(shapes[-1])
    yield "metric(model(clean))", metric(model(clean))


SHARES = (shares, of_one_token, of_all_tokens)


def afresh(call: Call, draw: Draw, case: Any) -> Seen:
    """A later call starts afresh."""
    model, clean, corrupt, metric = a_model(draw, case)
    first = call(model, clean, corrupt, metric)
    other = a_text(draw, case, range(3, 6), 2)
    later = call(model, clean[:, :2], other, lambda logits: logits[..., 0].sum().item())
    yield "the result of a later call", later
    yield "the result of the first call after that", first


def called_inside(call: Call, draw: Draw, case: Any) -> Seen:
    """Two calls at the same time do not disturb each other."""
    model, clean, corrupt, metric = a_model(draw, case)
    other = a_decoder(draw, case)
    other.double()  # a share is a quotient of two differences, and in float32 rows of a batch round another way
    inner: list[Any] = []

    def calls_inside(*args: Any) -> None:
        if not inner:
            inner.append(call(other, clean, corrupt, metric))

    model.blocks[-1].register_forward_hook(calls_inside)
    found = call(model, clean, corrupt, metric)
    yield "the result around another call", found
    yield "the result of the call inside", inner[0]


def nothing_else(call: Call, draw: Draw, case: Any) -> Seen:
    """Nothing of the caller changes."""
    model, clean, corrupt, metric = a_model(draw, case)
    before = Watch(model=model, clean=clean, corrupt=corrupt)
    call(model, clean, corrupt, metric)
    yield "by the call", before.differences()
    yield "the next random number", int(torch.randint(1000, ()))
    yield "the metric of the corrupt text", metric(model(corrupt))


@told
def that_fails(model: Any, error: Any, number: int) -> Any:
    """Lets the last block raise an error in the run of this number; returns the runs."""
    runs: list[str] = []

    def fails(*args: Any) -> None:
        runs.append("a run")
        if len(runs) == number:
            raise error

    model.blocks[-1].register_forward_pre_hook(fails)
    return runs


def first_run_raises(call: Call, draw: Draw, case: Any) -> Seen:
    """An exception in the first run comes through, and nothing is left."""
    model, clean, corrupt, metric = a_model(draw, case)
    error = draw.error(case.failure)
    runs = that_fails(model, error, 1)
    before = Watch(model=model, clean=clean, corrupt=corrupt)
    came = None
    try:
        call(model, clean, corrupt, metric)
    except (Exception, type(error)) as caught:
        came = repr(caught)
    yield "the exception in the first run", came
    yield "after an exception in the first run", before.differences()
    yield "the runs", runs


def third_run_raises(call: Call, draw: Draw, case: Any) -> Seen:
    """If there is a third run, an exception in it comes through, and nothing is left."""
    model, clean, corrupt, metric = a_model(draw, case)
    yield "the result of a call before that", call(model, clean, corrupt, metric)
    error = draw.error(case.failure)
    runs = that_fails(model, error, 3)
    before = Watch(model=model, clean=clean, corrupt=corrupt)
    came = None
    try:
        call(model, clean, corrupt, metric)
    except (Exception, type(error)) as caught:
        came = repr(caught)
    yield "whether the model ran", len(runs) > 0
    yield "an exception in the third run is swallowed", came is None and len(runs) >= 3
    yield "after an exception in the third run", before.differences()


def metric_raises(call: Call, draw: Draw, case: Any) -> Seen:
    """An exception of the metric comes through, and nothing is left."""
    model, clean, corrupt, metric = a_model(draw, case)
    error = draw.error(case.failure)
    calls: list[str] = []

    def fails(logits: Any) -> Any:
        calls.append("a call")
        if len(calls) == 4:
            raise error
        return metric(logits)

    before = Watch(model=model, clean=clean, corrupt=corrupt)
    came = None
    try:
        call(model, clean, corrupt, fails)
    except (Exception, type(error)) as caught:
        came = repr(caught)
    yield "the exception of the metric", came
    yield "after an exception of the metric", before.differences()


RAISES = (first_run_raises, metric_raises, third_run_raises)
