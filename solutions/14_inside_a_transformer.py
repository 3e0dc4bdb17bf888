# %% [markdown]
# # Lesson 14. Inside a transformer
#
# **The question.** A language model says "cow". How does it know, and where inside?
#
# **The goal.** You can read what flows through a transformer, look at its attention, switch off a head, steer what it
# says, find the path of an answer, and train a small addition: all with the forward hooks of lessons 5 and 6.
#
# As always: guess first, run the cell, then read on.

# %%
import contextlib
import itertools
import warnings

import matplotlib.pyplot as plt
import torch
import torch.nn.functional as F
from matplotlib.figure import Figure
from torch import nn

from graders import check, compare, guess, hint, progress, replay, solution
from graders.figures import (
    BACKWARD,
    CARD,
    FORWARD,
    INK,
    QUIET,
    arrow,
    caption,
    card,
    node,
    show,
)
from graders.nets import WORDS, complete, decode, draw_echoes, echo_decoder, encode

# small tensors: one thread is fastest, and on a shared machine many wait for each other
torch.set_num_threads(1)

# %% [markdown]
# ## A model that echoes
#
# Our model is built like the large ones, and is small enough to be understood. It read thousands of texts like these
# three, and learned to say what comes next. Its weights come with this course.
#
#     ! EWE OWL BEE PIG . ewe owl bee pig ! BEE PIG . pig .
#     . jay cow dog . jay cow dog . jay cow dog ! COW DOG .
#     ! PIG ELK DOG JAY KOI . jay koi ! JAY KOI . dog jay koi
#
# **Predict.** Find the rules. Which word should come after `. fox owl bee cow yak ! OWL BEE`?

# %%
guess("14-echo", word="COW")

# %%
model = echo_decoder()
with torch.no_grad():
    said = WORDS[model(encode(". fox owl bee cow yak ! OWL BEE"))[0, -1].argmax()]
print("next:", said)
compare("14-echo", word=said)
assert said == "COW"
assert [decode(echo) for seed in (0, 2) for echo in draw_echoes(2, seed, 16)[0]][
    1:
] == [
    "! EWE OWL BEE PIG . ewe owl bee pig ! BEE PIG . pig .",
    "! PIG ELK DOG JAY KOI . jay koi ! JAY KOI . dog jay koi",
    ". jay cow dog . jay cow dog . jay cow dog ! COW DOG .",
]

# %% [markdown] explains="14-echo"
# A dot begins a quiet round, an exclamation mark a loud one. The first round names some animals, and each later one names
# them again, in the same order. It may start at any of them.

# %% [markdown]
# From here on we study one text, `. fox owl bee cow yak . fox owl bee`, after which the model should say `cow`.

# %%
TEXT = ". fox owl bee cow yak . fox owl bee"
words, tokens = TEXT.split(), encode(TEXT)
COW = WORDS.index("cow")

with torch.no_grad():
    logits = model(tokens)
answer = logits[0, -1].softmax(0)
print("tokens:", tuple(tokens.shape), "  logits:", tuple(logits.shape))
print(
    "next:",
    {WORDS[k]: round(answer[k].item(), 3) for k in answer.topk(3).indices.tolist()},
)
print(decode(complete(model, tokens, 16)))
assert answer[COW] > 0.97
assert all(
    e[:, 1:][e[:, :-1] == WORDS.index("bee")].unique().numel() > 10
    for e in [draw_echoes(100, 77)[0]]
)

# %% [markdown]
# No animal always follows `bee`: the lists were drawn at random. So the model cannot know the answer from its weights.
# It must find the earlier `bee` in the text, and say what came after it there. How does it do that?

# %% [markdown]
# This is how the model is built:

# %% tags=["figure"]
figure, axes = card(8.2, 3.1)
caption(axes, 0.3, 2.85, "The stream of one token, from left to right", size=11)
node(axes, 0.85, 1.0, "embed\n+ position", kind="leaf", width=1.05, height=0.62)
arrow(axes, (1.4, 1.0), (7.15, 1.0))
for layer in range(3):
    left = 1.75 + 1.72 * layer
    axes.add_patch(
        plt.Rectangle(
            (left, 0.72),
            1.5,
            1.68,
            facecolor="#eeeeec",
            edgecolor=QUIET,
            linewidth=0.8,
            zorder=0,
        )
    )
    caption(axes, left + 0.75, 2.52, f"blocks[{layer}]", align="center", size=9.5)
    for place, (name, kind) in enumerate((("attention", "hook"), ("MLP", "non-leaf"))):
        x = left + 0.42 + 0.72 * place
        node(axes, x, 2.0, name, kind=kind, width=0.6, height=0.4)
        axes.texts[-1].set_fontsize(7.5)
        arrow(axes, (x - 0.16, 1.0), (x - 0.16, 1.78))
        arrow(axes, (x + 0.16, 1.78), (x + 0.16, 1.0), label="+")
for k in range(4):
    x = 1.6 + 1.72 * k
    axes.plot([x], [1.0], "o", color=BACKWARD, markersize=6, zorder=5)
    caption(axes, x, 0.5, f"stream[{k}]", align="center", size=9, colour=BACKWARD)
node(axes, 7.63, 1.0, "norm,\nunembed", kind="loss", width=0.9, height=0.62)
caption(
    axes,
    0.3,
    0.17,
    "Attention is the only part that looks at other tokens.",
    colour=QUIET,
    size=9.5,
)
show(
    figure,
    "The stream of one token as an arrow from left to right. It starts at embed + "
    "position, passes blocks[0], blocks[1] and blocks[2], and ends in norm and "
    "unembed. In each block attention and then an MLP read from the arrow and add to "
    "it. Points on the arrow are named stream[0], before the first block, to "
    "stream[3], behind the last. Attention is the only part that looks at other "
    "tokens.",
)

# %% [markdown]
# Each token has 64 numbers, its part of the **residual stream**. A block reads the stream, and *adds* to it what its
# attention and its MLP find. Nothing is overwritten. At the end a norm and a linear layer turn the stream into logits.
#
# ## What a block passes on
#
# A forward hook on a block should show the stream. Here is how the model calls its blocks, and how a block ends:
#
# ```python
# # in the forward of the model
# for index, block in enumerate(self.blocks):
#     hidden, seen = block(hidden, attn_mask=attn_mask, cache=cache[index] if cache else None)
#
# # the end of the forward of a block
# return hidden, None if cache is None else seen
# ```
#
# `hidden` is the stream. The cache holds what attention has read before; we come to it soon.
#
# **Predict.** We call `model(tokens)`, without a cache. What is `output` in a forward hook on `model.blocks[1]`:
# `"tensor"` or `"tuple"`? And how many *positional* arguments does the hook get in `args`?

# %%
guess("14-block-output", output="tuple", positional=1)


# %%
def look(module, args, kwargs, output):
    print("positional:", [tuple(a.shape) for a in args])
    print(
        "by keyword:",
        {
            name: value if value is None else tuple(value.shape)
            for name, value in kwargs.items()
        },
    )
    print(
        "output:    ",
        type(output).__name__,
        [o if o is None else tuple(o.shape) for o in output],
    )
    found.append((type(output).__name__, len(args)))


found = []
with torch.no_grad(), model.blocks[1].register_forward_hook(look, with_kwargs=True):
    model(tokens)
compare("14-block-output", output=found[0][0], positional=found[0][1])
assert found == [("tuple", 1)]
assert (
    "hidden, seen = block(hidden, attn_mask=attn_mask, cache=cache[index] if cache "
    "else None)" in __import__("inspect").getsource(type(model).forward)
)
assert "return hidden, None if cache is None else seen" in __import__(
    "inspect"
).getsource(type(model.blocks[1]).forward)

# %% [markdown] explains="14-block-output"
# A tuple. Blocks of language models often return one: the stream, and beside it a cache, attention weights, and the
# like. Here the second is `None`. So in the hook the stream is `output[0]`. (The blocks of other models return a plain
# tensor. There, `output[0]` would be the first text of the batch: ask `isinstance(output, tuple)`.) And the mask and
# the cache come by keyword: an ordinary hook does not see them, `with_kwargs=True` shows them (lesson 6).

# %% [markdown]
# Now the cache. `complete` calls the model for one word after the other. After each call, the cache of a block holds one
# entry for each token that its attention has read so far, so that the next call need not read them again.
#
# **Predict.** `complete(model, tokens, 3)` adds three words to our 10 tokens, in three calls. In the third call, how many
# tokens of the stream does a block get? And how many entries does its cache hold after that call?

# %%
guess("14-calls", tokens=1, cache=12)

# %%
calls = []
with model.blocks[1].register_forward_hook(
    lambda module, args, output: calls.append(output)
):
    complete(model, tokens, 3)
for hidden, cache in calls:
    print("stream:", tuple(hidden.shape), "  cache:", tuple(cache.shape))
compare("14-calls", tokens=calls[2][0].shape[1], cache=calls[2][1].shape[1])
assert [hidden.shape[1] for hidden, cache in calls] == [10, 1, 1]
assert [cache.shape[1] for hidden, cache in calls] == [10, 11, 12]

# %% [markdown] explains="14-calls"
# Ten tokens in the first call, then one at a time: the word that was said last. (The third word is never read.) A hook that stores `output[0]` under one name would end up with a single token. And a hook
# that writes to `hidden[:, 9]` would raise in the second call. While you study a text, give the model all of it, in one
# call.

# %% [markdown]
# If a hook returns something, that takes the place of the tuple. This one returns `output[0]`, the stream alone, of
# shape `[texts, tokens, 64]`. The model unpacks what it gets: `hidden, seen = block(…)`.
#
# **Predict.** What happens when we give the model one text? And when we give it two? Write `"raises"` or `"goes on"`
# for each. (A tensor can be unpacked like a list of its rows.)

# %%
guess("14-lost-tuple", one="raises", two="goes on")

# %%
two = encode(TEXT, "! ANT APE BAT ! ANT APE BAT ! ANT")
what = {}
for name, batch in (("one", tokens), ("two", two)):
    with (
        torch.no_grad(),
        model.blocks[1].register_forward_hook(lambda module, args, output: output[0]),
    ):
        try:
            print(f"{name}: logits {tuple(model(batch).shape)}")
            what[name] = "goes on"
        except ValueError as error:
            print(f"{name}: ValueError:", error)
            what[name] = "raises"
compare("14-lost-tuple", one=what["one"], two=what["two"])
assert what == {"one": "raises", "two": "goes on"}

# %% [markdown] explains="14-lost-tuple"
# A tensor is unpacked along its first dimension, here the texts. One text is one value where two are wanted. With two
# texts, the first became the stream, the second became the cache, and the model went on. Its logits belong to the first text, and have
# no batch any more. So return `(new, *output[1:])`.

# %% [markdown]
# Our model is small, and we know its code. So we can also walk through it by hand. `change` may change the stream
# behind each block: we shall need that later.


# %%
@torch.no_grad()
def walk(tokens, change=lambda layer, hidden: hidden):
    """What model(tokens) does, written out: the stream before the first block and
    behind each, and the logits.
    """
    count = tokens.shape[1]
    # True: may not look there
    mask = torch.ones(count, count, dtype=torch.bool).triu(1)
    hidden = model.embed(tokens) + model.position(torch.arange(count))
    stream = [hidden]
    for layer, block in enumerate(model.blocks):
        hidden, _ = block(hidden, attn_mask=mask)
        hidden = change(layer, hidden)
        stream.append(hidden)
    return torch.stack(stream), model.unembed(model.norm(hidden))


stream, by_hand = walk(tokens)
print(
    "stream:",
    tuple(stream.shape),
    "  same logits:",
    torch.allclose(by_hand, logits, atol=1e-5),
)
assert torch.allclose(by_hand, logits, atol=1e-5) and stream.shape == (4, 1, 10, 64)

# %% [markdown]
# This works for one model, and breaks when somebody changes its `forward`. Hooks get the same out of any model that
# has blocks. Your turn.


# %% exercise="14-residual-stream"
def residual_stream(model, tokens):
    """What flows between the blocks of model(tokens): [blocks + 1, batch, token,
    width], without graph.
    """
    ### BEGIN SOLUTION
    stream = []

    def keep_input(module, args):
        stream.append(args[0].clone())

    def keep_output(module, args, output):
        hidden = output[0] if isinstance(output, tuple) else output
        stream.append(hidden.clone())

    with contextlib.ExitStack() as hooks, torch.no_grad():
        hooks.enter_context(model.blocks[0].register_forward_pre_hook(keep_input))
        for block in model.blocks:
            hooks.enter_context(block.register_forward_hook(keep_output))
        model(tokens)
    return torch.stack(stream)
    ### END SOLUTION


# %%
try:
    print(
        "as by hand:", torch.allclose(residual_stream(model, tokens), stream, atol=1e-5)
    )
    assert torch.allclose(residual_stream(model, tokens), stream, atol=1e-5)
except NotImplementedError:
    print("Solve 14-residual-stream, then run this cell again.")

# %% [markdown]
# ## What would it say here?
#
# The last norm and `unembed` turn the stream behind the last block into logits. All blocks add to the same stream. So
# we can put them behind *any* block, as if the model ended there. This is the **logit lens** (nostalgebraist, 2020).
#
# **Predict.** Look at the last token, `bee`. What is the most probable word in `stream[0]`, before any block has added
# anything? (`embed` and `unembed` have the same weights.) And in `stream[3]`, behind the last block?

# %%
guess("14-lens", first="bee", last="cow")

# %%
with torch.no_grad():
    lens = model.unembed(model.norm(stream))[:, 0].softmax(2)  # [4, token, word]
rows = ["embedded", *(f"block {k}" for k in range(3))]
for row, probabilities in zip(rows, lens[:, -1]):
    print(
        f"{row:9} bee {probabilities[WORDS.index('bee')]:.3f}   cow "
        f"{probabilities[COW]:.3f}"
    )
best = lens[:, -1].argmax(1).tolist()
compare("14-lens", first=WORDS[best[0]], last=WORDS[best[3]])
assert model.embed.weight is model.unembed.weight and best[3] == COW
assert (
    best[1:].index(COW) == 1
    and WORDS[best[0]] == "bee"
    and lens[3, -1, COW] > lens[2, -1, COW]
)
assert [WORDS[k] for k in lens[1, 2:5].argmax(1)] == ["fox", "owl", "bee"]


# %% tags=["figure"]
def grid(axes, values, rows, columns, texts, title):
    """Numbers from 0 to 1 as shades of blue, the first row at the bottom."""
    axes.imshow(values, vmin=0, vmax=1, cmap="Blues", aspect="auto", origin="lower")
    for i, j in itertools.product(range(len(rows)), range(len(columns))):
        colour = "white" if values[i][j] > 0.6 else INK
        axes.text(j, i, texts[i][j], ha="center", va="center", fontsize=9, color=colour)
    axes.set_xticks(range(len(columns)), columns, fontsize=9, color=INK)
    axes.set_yticks(range(len(rows)), rows, fontsize=9, color=INK)
    axes.tick_params(length=0)
    axes.set_title(title, fontsize=10.5, color=INK, loc="left")


figure = Figure(figsize=(8.2, 2.7), facecolor=CARD)
best = lens.max(2)
grid(
    figure.add_axes((0.1, 0.12, 0.88, 0.74)),
    best.values.tolist(),
    rows,
    words,
    [[WORDS[k] for k in row] for row in best.indices.tolist()],
    "The most probable next word at each token (darker: more probable)",
)
show(
    figure,
    "A table of four rows and ten columns, one for each token of the text. In the "
    "lowest row, embedded, each token says itself. Behind block 0 some say the word "
    "before them: owl says fox, bee says owl, cow says bee. Behind block 1, and with "
    "more certainty behind block 2, the tokens of the second round say the right next "
    "word: fox at the dot, owl at fox, bee at owl, cow at bee. In the first round "
    "they say a dot, with a probability of about a half.",
)

# %% [markdown] explains="14-lens"
# Before any block the stream says the word itself, as the unembedding undoes the embedding. Behind the last one, the lens
# is the model. In between is what we did not know: the answer comes with block 1, and block 2 makes it surer. In the first round there is nothing to know: any animal may come, or
# the round may end.
#
# Behind block 0 there is something odd. `owl` says `fox`, `bee` says `owl`, `cow` says `bee`: the word *before* it.
# Nobody asked for that word. Remember it.

# %% [markdown]
# Do not forget the norm: `unembed` has learned to read what comes out of it.


# %% exercise="14-logit-lens"
def logit_lens(model, tokens):
    """What model would say before its first block, and after each: [blocks + 1,
    batch, token, vocabulary].
    """
    ### BEGIN SOLUTION
    stream = []

    def keep(hidden):
        stream.append(hidden.clone())

    with contextlib.ExitStack() as hooks, torch.no_grad():
        hooks.enter_context(
            model.blocks[0].register_forward_pre_hook(lambda _, args: keep(args[0]))
        )
        for block in model.blocks:
            hooks.enter_context(
                block.register_forward_hook(
                    lambda _, args, out: keep(out[0] if isinstance(out, tuple) else out)
                )
            )
        model(tokens)
    with torch.no_grad():
        return model.unembed(model.norm(torch.stack(stream)))
    ### END SOLUTION


# %% [markdown]
# ## Attention: computed and thrown away
#
# Something in block 1 carries the answer to the last token, and only attention can do that. For each token, each head
# computes weights that say how much it takes from each token up to this one. The weights of a token add up to 1.
# `block.attention` is an `nn.MultiheadAttention`, which returns two things: what the heads found, and the weights, or
# `None` unless they are asked for with `need_weights=True` (lesson 5).
#
# **Predict.** What weight does each head give to the first token, the dot, when the token that looks is the dot itself?

# %%
guess("14-weights", dot=1)

# %%
with torch.no_grad():
    kept = []
    with model.blocks[1].attention.register_forward_hook(
        lambda module, args, kwargs, output: kept.append((kwargs, output)),
        with_kwargs=True,
    ):
        model(tokens)
kwargs, output = kept[0]
print(
    "keyword arguments:",
    {name: value for name, value in kwargs.items() if name != "attn_mask"},
)
print("second output:", output[1])
assert output[1] is None and kwargs["need_weights"] is False

normed, later = (
    model.blocks[1].norm1(stream[1]),
    torch.ones(10, 10, dtype=torch.bool).triu(1),
)
with torch.no_grad():
    _, weights = model.blocks[1].attention(
        normed, normed, normed, attn_mask=later, average_attn_weights=False
    )
print(
    "weights, asked for:",
    tuple(weights.shape),
    "  the dot at the dot:",
    weights[0, :, 0, 0].tolist(),
)
compare("14-weights", dot=weights[0, :, 0, 0].unique())
assert weights.shape == (1, 4, 10, 10) and weights[0, :, 0, 0].tolist() == [1, 1, 1, 1]
assert torch.allclose(weights.sum(3), torch.ones(1, 4, 10))

# %% [markdown] explains="14-weights"
# 1 in each head: there is nothing else to look at. But a hook on the model as it runs gets `None`, since the block asks
# for `need_weights=False`. Then PyTorch may compute attention faster, and never stores the whole table. The block is
# right: it needs no weights. We do, and ask for them.

# %% [markdown]
# Here we do that for any text and block:


# %%
@torch.no_grad()
def attention_by_hand(text, layer):
    """The weights of each head of a block: [heads, token, token]."""
    stream, _ = walk(encode(text))
    block, count = model.blocks[layer], stream.shape[2]
    normed = block.norm1(stream[layer])
    mask = torch.ones(count, count, dtype=torch.bool).triu(1)
    return block.attention(
        normed, normed, normed, attn_mask=mask, average_attn_weights=False
    )[1][0]


LONG = ". fox owl bee cow yak ! FOX OWL BEE COW YAK . fox owl bee cow yak"
long = LONG.split()
patterns = torch.stack([attention_by_hand(LONG, layer) for layer in range(3)])
print("block, head, token that looks, token it looks at:", tuple(patterns.shape))
assert torch.allclose(patterns.sum(3), torch.ones(3, 4, 18))

# %% [markdown]
# By default the weights are the mean of all heads. `average_attn_weights=False` gives each head by itself.
#
# **Predict.** The text is now `. fox owl bee cow yak ! FOX OWL BEE COW YAK …`. Head 3 of block 1 helps to say what
# comes after `COW`. At which word of the first round should it look when the token is `COW`?

# %%
guess("14-stripe", word="yak")

# %%
head_3 = patterns[1, 3]
target = head_3[long.index("COW")].argmax()
print(
    f"COW looks at {long[target]}, number {target}, with weight "
    f"{head_3[long.index('COW'), target]:.3f}"
)
compare("14-stripe", word=long[target])
assert long[target] == "yak" and head_3[long.index("COW"), target] > 0.95

# %% tags=["figure"]
figure = Figure(figsize=(8.2, 4.0), facecolor=CARD)
for place, (layer, head) in enumerate(((0, 1), (1, 3))):
    axes = figure.add_axes((0.075 + 0.5 * place, 0.15, 0.41, 0.76))
    axes.imshow(patterns[layer, head], vmin=0, vmax=1, cmap="Blues", aspect="auto")
    axes.set_xticks(range(len(long)), long, rotation=90, fontsize=7.5, color=INK)
    axes.set_yticks(range(len(long)), long, fontsize=7.5, color=INK)
    axes.tick_params(length=0)
    axes.set_title(f"block {layer}, head {head}", fontsize=10.5, color=INK)
show(
    figure,
    "Two tables: which token (row) looks at which (column). Block 0, head 1: in the "
    "first round, a dark stripe just below the diagonal, so each animal looks at the "
    "one before it; below it is smeared. Block 1, head 3: in the second and the third "
    "round a dark stripe each. Each animal looks at the word in the first round that "
    "came after the same animal: FOX at owl, OWL at bee, BEE at cow, COW at yak. Loud "
    "looks at quiet.",
)

# %% [markdown] explains="14-stripe"
# At `yak`: the word that came after the same animal. That is the answer, and the head copies it. It is called an
# **induction head** (Olsson et al., 2022). But how does it know that `yak` came after `cow`? The picture on the left
# shows it: in the first round, a head of block 0 makes each animal look at the word before it. So behind block 0 an
# animal also carries the word before it, which the lens has shown. Two heads in two blocks work together, as they do in
# large models.

# %% [markdown]
# In the exercise hooks ask for the weights, so that nobody has to know what happens before the block.


# %% exercise="14-attention-pattern"
def attention_pattern(model, tokens, layer):
    """Where each head of block `layer` looks in model(tokens): [batch, heads, token,
    token], without graph.
    """
    ### BEGIN SOLUTION
    attention, kept = model.blocks[layer].attention, []

    def ask(module, args, kwargs):
        return args, {**kwargs, "need_weights": True, "average_attn_weights": False}

    def keep(module, args, output):
        kept.append(output[1])
        return (output[0], None)  # as if nobody had asked

    with (
        attention.register_forward_pre_hook(ask, with_kwargs=True),
        attention.register_forward_hook(keep, prepend=True),
        torch.no_grad(),
    ):
        model(tokens)
    return kept[0]
    ### END SOLUTION


# %% [markdown]
# ## Which head does it?
#
# A pattern shows where a head *looks*. It does not show whether that matters. Here are all heads of block 1.

# %% tags=["figure"]
figure = Figure(figsize=(8.2, 2.4), facecolor=CARD)
for head in range(4):
    axes = figure.add_axes((0.02 + 0.245 * head, 0.06, 0.225, 0.78))
    axes.imshow(patterns[1, head], vmin=0, vmax=1, cmap="Blues", aspect="auto")
    axes.set(xticks=[], yticks=[])
    axes.set_title(f"block 1, head {head}", fontsize=10.5, color=INK)
assert all(
    patterns[1, head, long.index("COW")].argmax() == long.index("yak")
    for head in (1, 3)
)
show(
    figure,
    "The patterns of the four heads of block 1 on the same text. Heads 1 and 3 have "
    "the same two dark stripes. Heads 0 and 2 have none.",
)

# %% [markdown]
# Heads 1 and 3 both have the stripe. To see which one matters, switch it off, as you did with channels in lesson 6.
#
# Where? Inside `nn.MultiheadAttention`, the heads are put side by side and go through `out_proj`. But no hook gets in
# between: PyTorch reads the weight of `out_proj` and never calls it. So in our model `out_proj` does nothing, and a
# linear layer of our own, `block.mix`, does its work. It gets the heads side by side: each has 64 / 4 = 16 columns.
#
# But first, see how much each head adds. Here is the length of what it adds to the stream of the last token:

# %%
with torch.no_grad():
    beside = []  # the heads of block 1, side by side
    with model.blocks[1].mix.register_forward_pre_hook(
        lambda module, args: beside.append(args[0][0, -1])
    ):
        model(tokens)
    columns = zip(beside[0].split(16), model.blocks[1].mix.weight.split(16, dim=1))
    added = [(weight @ head).norm().item() for head, weight in columns]
print({f"head {head}": round(length, 2) for head, length in enumerate(added)})
assert [round(length, 1) for length in added] == [0, 1.0, 0, 2.5]

# %% [markdown]
# **Predict.** `p(cow)` is 0.98. One of the heads makes it fall below one half when it is off, the others hardly matter.
# Which one? Write its number.

# %%
guess("14-which-head", head=3)


# %%
@torch.no_grad()
def without_head(layer, head, measure):
    """`measure()` while this head adds nothing: its columns of the weight of `mix`
    are 0.
    """
    weight = model.blocks[layer].mix.weight
    before = weight.clone()
    weight[:, 16 * head : 16 * head + 16] = 0
    try:
        return measure()
    finally:
        weight.copy_(before)


def cow():
    return model(tokens)[0, -1].softmax(0)[COW].item()


single = [[without_head(layer, head, cow) for head in range(4)] for layer in range(3)]
for layer, row in enumerate(single):
    print(f"block {layer}: p(cow) without head 0, 1, 2, 3:", [round(p, 3) for p in row])
lost = [head for head in range(4) if single[1][head] < 0.5]
compare("14-which-head", head=lost[0])
assert lost == [3] and min(single[1][:3]) > 0.9 and abs(cow() - answer[COW]) < 1e-5

# %% [markdown] explains="14-which-head"
# Head 3. Head 1 looks at the right place, too, but adds little, and the answer hardly depends on it. **A pattern is not
# an effect.**
# Also, head 1 of block 0 is needed, the one that looks one word back: this is the other half of the pair.

# %% [markdown]
# One text is one text. Here are the same ablations over 100 others: how many animals are named right?

# %%
echoes, rounds = draw_echoes(100, 77)
# an animal after an animal, not in round 0
named = (rounds[:, 1:] > 0) & (echoes[:, 1:] > 1) & (echoes[:, :-1] > 1)


def named_right():
    return (
        (model(echoes[:, :-1]).argmax(2) == echoes[:, 1:])[named].float().mean().item()
    )


with torch.no_grad():
    all_heads = named_right()
    print(f"all heads: {all_heads:.2f}")
average = [
    [without_head(layer, head, named_right) for head in range(4)] for layer in range(3)
]
assert average[1][3] < 0.6 and average[0][1] < 0.45 and 0.7 < average[0][3] < 0.95
assert (
    min(average[2]) > all_heads - 0.01
    and average[1][3] > single[1][3]
    and average[0][1] > single[0][1]
)

# %% tags=["figure"]
figure = Figure(figsize=(8.2, 2.3), facecolor=CARD)
for place, (values, title) in enumerate(
    ((single, "p(cow) in our text"), (average, "named right in 100 texts"))
):
    texts = [[f"{value:.2f}" for value in row] for row in values]
    axes = figure.add_axes((0.08 + 0.49 * place, 0.13, 0.42, 0.7))
    grid(
        axes,
        values,
        rows[1:],
        [f"head {k}" for k in range(4)],
        texts,
        f"{title}, without one head",
    )
listed = "; ".join(
    f"{name}: "
    + ", ".join(
        f"block {k} " + " ".join(f"{value:.2f}" for value in row)
        for k, row in enumerate(values)
    )
    for name, values in (
        ("p(cow) in our text without head 0 to 3", single),
        ("Share in 100 texts", average),
    )
)
show(
    figure,
    f"Two tables of three blocks and four heads. {listed}. Head 1 of block 0 and head "
    "3 of block 1 stand out.",
)

# %% [markdown]
# The same two heads stand out, but less: where they are missing, others do part of the work. Without any head of
# block 2, nothing is lost.
#
# We changed weights here, and put them back. That is dangerous: an exception at the wrong place, and the model is
# broken. With a hook the weights stay as they are. In the exercise you write a context manager, for use in a `with`. A
# handle is one: at the end of the `with`, also after an exception, it takes the hook off.


# %% exercise="14-ablate-head"
def ablate_head(model, layer, head):
    """A context manager; within it, this head of block `layer` adds nothing to the
    stream.
    """
    ### BEGIN SOLUTION
    block = model.blocks[layer]
    size = block.mix.in_features // block.attention.num_heads

    def silence(module, args):
        heads = args[0].clone()
        heads[..., head * size : (head + 1) * size] = 0
        return (heads,)

    return block.mix.register_forward_pre_hook(silence)
    ### END SOLUTION


# %%
try:
    with torch.no_grad(), ablate_head(model, 1, 3):
        mine = cow()
    print(f"p(cow) without head 3 of block 1: {mine:.3f}, by hand {single[1][3]:.3f}")
    assert abs(mine - single[1][3]) < 1e-5
except NotImplementedError:
    print("Solve 14-ablate-head, then run this cell again.")

# %% [markdown]
# ## Steering
#
# So far we took something away. Now we add something. Which part of the stream says "loud"? Take two texts that differ
# only in that, and subtract their streams: what they share cancels. The mean over the tokens is a **direction**.

# %%
quiet_text = ". fox owl bee cow yak . fox owl bee cow yak"
loud_text = "! FOX OWL BEE COW YAK ! FOX OWL BEE COW YAK"
difference = walk(encode(loud_text))[0] - walk(encode(quiet_text))[0]
louder = difference[2].mean((0, 1))  # stream[2] is what block 1 passes on
print("direction:", tuple(louder.shape))

# %% [markdown]
# **Predict.** The text is quiet. Behind block 1, the direction is added to every token. What comes next: the same
# animal `"quiet"`, the same animal `"loud"`, or `"another"` animal?

# %%
guess("14-steering", next="loud")


# %%
def with_louder(scale):
    return lambda layer, hidden: hidden + scale * louder if layer == 1 else hidden


def say(text, change, count=8):
    """The next words, one by one, and each from the whole text, without a cache."""
    read = encode(text)
    for _ in range(count):
        read = torch.cat([read, walk(read, change)[1][:, -1:].argmax(2)], 1)
    return decode(read[:, -count:])


LOUD = "! FOX OWL BEE COW YAK ! FOX OWL BEE"
for text, scale in ((TEXT, 0), (TEXT, 1), (LOUD, -1)):
    print(f"{text} | {scale:+} | {say(text, with_louder(scale))}")
first = say(TEXT, with_louder(1), 1)
compare("14-steering", next={"cow": "quiet", "COW": "loud"}.get(first, "another"))
assert first == "COW" and say(LOUD, with_louder(-1), 1) == "cow"
assert say(TEXT, with_louder(1)).isupper() and say(LOUD, with_louder(-1)).islower()

# %% tags=["figure"]
scales = [k / 10 for k in range(-10, 31)]
curves = [walk(tokens, with_louder(scale))[1][0, -1].softmax(0) for scale in scales]
# at a scale of 3 and of 1
assert curves[-1][WORDS.index("COW")] < 0.6 < 0.9 < curves[20][WORDS.index("COW")]
figure = Figure(figsize=(8.2, 2.5), facecolor=CARD)
axes = figure.add_axes((0.07, 0.2, 0.9, 0.66), facecolor=CARD)
for word, colour in (("cow", FORWARD), ("COW", BACKWARD)):
    axes.plot(
        scales,
        [curve[WORDS.index(word)].item() for curve in curves],
        color=colour,
        linewidth=1.8,
    )
axes.text(-0.95, 0.78, "p(cow)", color=FORWARD, fontsize=10)
axes.text(1.0, 0.85, "p(COW)", color=BACKWARD, fontsize=10)
axes.set_xlabel("scale", fontsize=9.5, color=INK)
axes.tick_params(labelsize=8.5, colors=INK)
axes.spines[["top", "right"]].set_visible(False)
axes.set_title(
    "The direction, added behind block 1", fontsize=10.5, color=INK, loc="left"
)
show(
    figure,
    "Two curves over the scale, from -1 to 3. p(cow) is close to 1 up to a scale of "
    "0.2, and falls to 0 at 0.8. p(COW) rises from 0 to nearly 1 in the same range, "
    "is highest at a scale of 1, and falls again, to 0.4 at 3.",
)

# %% [markdown] explains="14-steering"
# The model names the same animal, but loud. At the scale 1 it even goes on like that, though a dot begins a quiet
# round. A minus sign makes a loud text go on quietly. *Which* animal comes and *how* it is said are separate in the
# stream. A scale of 3 is too much: the stream leaves the range that the model knows.

# %% [markdown]
# To use it, a model has to be steered while it writes, call after call. A hook does this, without a change of its code.
# One warning: `output[0] += …` in a hook would change the tensor of the block itself, which somebody else may hold.
# Make a new one. And `start` leaves the first tokens alone: often only what follows a question should be steered.


# %% exercise="14-steer"
def steer(model, layer, direction, scale, start=0):
    """From now on, block `layer` passes on its stream plus scale * direction, from
    token `start` on.
    """

    ### BEGIN SOLUTION
    def push(module, args, output):
        hidden = output[0] if isinstance(output, tuple) else output
        pushed = torch.cat(
            [hidden[:, :start], hidden[:, start:] + scale * direction], 1
        )
        return (pushed, *output[1:]) if isinstance(output, tuple) else pushed

    return model.blocks[layer].register_forward_hook(push)
    ### END SOLUTION


# %%
try:
    with steer(model, 1, louder, 1.0):
        print("steered, with a cache:", decode(complete(model, tokens, 8)[:, 10:]))
    print("after that:           ", decode(complete(model, tokens, 8)[:, 10:]))
except NotImplementedError:
    print("Solve 14-steer, then run this cell again.")

# %% [markdown]
# ## The path of an answer
#
# Now the experiment to which all this leads. Two texts differ in one word:
#
# - **clean**: `. fox owl bee cow yak . fox owl bee`, and the model says `cow`.
# - **corrupt**: `. fox owl rat cow yak . fox owl bee`. There is no earlier `bee`: the model does not say `cow`.
#
# Run the corrupt text, and put *one* token behind *one* block as it was in the clean run: activation patching, as in
# lesson 6. Where this brings `cow` back, there was the information. Do it for each block and each token.
#
# **Predict.** Each place has a number, from 0 for the first dot to 9 for the last `bee`; the changed word is 3. Which
# place brings `cow` back behind block 0? And behind block 1?

# %%
guess("14-path", block_0=4, block_1=9)

# %%
CORRUPT = ". fox owl rat cow yak . fox owl bee"


def put(clean_stream, layer, token):
    """A change for `walk`: behind this block, this token is as in the clean run."""

    def change(current, hidden):
        if current == layer:
            hidden = hidden.clone()
            hidden[:, token] = clean_stream[layer + 1][:, token]
        return hidden

    return change


def path(corrupt):
    """The share of p(cow) that each place brings back: [block, token]."""
    p = [
        walk(encode(text))[1][0, -1].softmax(0)[COW].item() for text in (corrupt, TEXT)
    ]
    patched = [
        [
            walk(encode(corrupt), put(stream, layer, token))[1][0, -1]
            .softmax(0)[COW]
            .item()
            for token in range(10)
        ]
        for layer in range(3)
    ]
    return [[(value - p[0]) / (p[1] - p[0]) for value in row] for row in patched]


effects = path(CORRUPT)
for layer, row in enumerate(effects):
    print(f"block {layer}:", [round(value, 2) + 0.0 for value in row])
compare(
    "14-path",
    block_0=torch.tensor(effects[0]).argmax(),
    block_1=torch.tensor(effects[1]).argmax(),
)
assert (
    torch.tensor(effects).argmax(1).tolist() == [4, 9, 9]
    and sorted(effects[0])[-2] < 0.01
)

# %% tags=["figure"]
figure = Figure(figsize=(8.2, 2.5), facecolor=CARD)
columns = [
    word if word == other else f"{word}\n(not {other})"
    for word, other in zip(words, CORRUPT.split())
]
axes = figure.add_axes((0.09, 0.2, 0.89, 0.66))
shares = [[f"{abs(round(value, 2)):.2f}" for value in row] for row in effects]
grid(
    axes,
    effects,
    rows[1:],
    columns,
    shares,
    "The share of p(cow) that comes back when one place is as in the clean run",
)
for start, end in (((3, -0.45), (3.75, -0.15)), ((4.25, 0.3), (8.6, 0.8))):
    axes.annotate(
        "",
        end,
        start,
        arrowprops={"arrowstyle": "-|>", "color": BACKWARD, "linewidth": 1.6},
    )
show(
    figure,
    "A table of three blocks and ten tokens. Behind block 0, only the first cow, "
    "place 4, brings p(cow) back, by 1.00. Behind blocks 1 and 2 only the last token "
    "does, by 1.00. All other places: 0.00. Orange arrows show the way: from the "
    "changed word, place 3, to cow behind block 0, and from there to the last token "
    "behind block 1.",
)

# %% [markdown] explains="14-path"
# There it is, the whole path, in two hops. The word that differs is `bee`, place 3. Behind block 0, that place does not
# matter any more: what counts has moved on to `cow`, whose stream now says "I came after bee". Behind block 1 it has
# moved to the last token, which now says `cow`. The two hops fit the two heads that you met: one looks one word back,
# and the other finds the word that came after `bee`.
#
# Patching alone showed this. The same loop runs on a model of any size, and paths in GPT-2 were found like that (Wang
# et al., 2022).


# %% exercise="14-patch-path"
def patch_effects(model, clean, corrupt, metric):
    """The share of metric that comes back when one block passes on, at one token,
    what it did in the clean run.
    """
    ### BEGIN SOLUTION
    kept = {}

    def first_of(output):
        return output[0] if isinstance(output, tuple) else output

    def keep(layer):
        def hook(module, args, output):
            kept[layer] = first_of(output).clone()

        return hook

    def patch(layer, token):
        def hook(module, args, output):
            hidden = first_of(output).clone()
            hidden[:, token] = kept[layer][:, token]
            return (hidden, *output[1:]) if isinstance(output, tuple) else hidden

        return hook

    with torch.no_grad():
        with contextlib.ExitStack() as hooks:
            for layer, block in enumerate(model.blocks):
                hooks.enter_context(block.register_forward_hook(keep(layer)))
            best = metric(model(clean))
        worst = metric(model(corrupt))
        effects = torch.zeros(len(model.blocks), clean.shape[1])
        for layer, block in enumerate(model.blocks):
            for token in range(clean.shape[1]):
                with block.register_forward_hook(patch(layer, token)):
                    effects[layer, token] = (metric(model(corrupt)) - worst) / (
                        best - worst
                    )
    return effects
    ### END SOLUTION


# %%
try:
    mine = patch_effects(
        model,
        tokens,
        encode(CORRUPT),
        lambda logits: logits[0, -1].softmax(0)[COW].item(),
    )
    print("as by hand:", torch.allclose(mine, torch.tensor(effects), atol=1e-4))
    assert torch.allclose(mine, torch.tensor(effects), atol=1e-4)
except NotImplementedError:
    print("Solve 14-patch-path, then run this cell again.")

# %% [markdown]
# ## A small addition that learns
#
# Steering adds the same to every token. What if the addition is *learned*, and depends on what comes in? That is
# **LoRA** (Hu et al., 2021). A large model is frozen, and a linear layer gets an addition of low rank: `x @ a.T @ b.T`,
# where `a` maps the input to `rank` numbers and `b` maps these to the output. The sum is scaled by `alpha / rank`. `a`
# starts random and `b` starts at zero.
#
# **Predict.** `blocks[1].mlp[2]` maps 256 numbers to 64. How many trainable numbers does an addition of rank 1 have?
# And before any training, is the output of the layer `"changed"` or `"the same"`?

# %%
guess("14-addition", numbers=320, output="the same")

# %%
torch.manual_seed(0)
linear = model.blocks[1].mlp[2]
a, b, alpha, rank = torch.randn(1, 256), torch.zeros(64, 1), 1.0, 1
x = torch.randn(5, 256)
with torch.no_grad():
    before = linear(x)
    same = torch.equal(before, before + alpha / rank * x @ a.T @ b.T)
print(
    f"{a.numel() + b.numel()} of {sum(p.numel() for p in model.parameters())} numbers; "
    f"same output: {same}"
)
compare(
    "14-addition",
    numbers=a.numel() + b.numel(),
    output="the same" if same else "changed",
)
assert same and a.numel() + b.numel() == 320
assert not any(  # both zero: no gradient
    gradient.any()
    for zeros in [
        (
            torch.zeros(1, 256, requires_grad=True),
            torch.zeros(64, 1, requires_grad=True),
        )
    ]
    for gradient in torch.autograd.grad((x @ zeros[0].T @ zeros[1].T).sum(), zeros)
)

# %% [markdown] explains="14-addition"
# 256 + 64 numbers, and at first nothing changes, since `b` is 0. (Were both zero, neither would get a gradient: the
# gradient of each is a multiple of the other.)

# %% [markdown]
# And after training? The addition is linear in `x`, as the layer is. So both fit into one weight:
# `W + alpha / rank * b @ a`. The hook can go, and the model is as fast as before.

# %%
b = torch.randn(64, 1)
with torch.no_grad():
    added = linear(x) + alpha / rank * x @ a.T @ b.T
    merged = F.linear(x, linear.weight + alpha / rank * b @ a, linear.bias)
print("merged weights give the same output:", torch.allclose(added, merged, atol=1e-4))
assert torch.allclose(added, merged, atol=1e-4) and not torch.allclose(
    added, before, atol=1e-2
)


# %% exercise="14-low-rank"
def add_low_rank(model, name, rank, alpha):
    """Freeze model, and give its linear layer `name` an addition of low rank that
    can be trained.
    """
    ### BEGIN SOLUTION
    layer = model.get_submodule(name)
    required = {parameter: parameter.requires_grad for parameter in model.parameters()}
    for parameter in required:
        parameter.requires_grad_(False)
    weight = layer.weight
    layer.low_rank_a = nn.Parameter(
        torch.randn_like(weight[:rank]) / weight.shape[1] ** 0.5
    )
    layer.low_rank_b = nn.Parameter(torch.zeros_like(weight[:, :rank]))

    def add(module, args, output):
        return (
            output + alpha / rank * args[0] @ module.low_rank_a.T @ module.low_rank_b.T
        )

    hook = layer.register_forward_hook(add)

    class Handle:
        def remove(self):
            hook.remove()
            del layer.low_rank_a, layer.low_rank_b
            for parameter, before in required.items():
                parameter.requires_grad_(before)

    return Handle()
    ### END SOLUTION


# %% [markdown]
# Now teach our model a new manner with yours: *always answer loud*. The task is what it was, but each animal that it
# should say is replaced by the loud one. 30 steps of Adam, on 16 texts each, train 320 numbers.

# %%
loud = torch.arange(len(WORDS))
# quiet animals are the words 2 to 25, the loud ones follow in the same order
loud[2:26] += 24
torch.manual_seed(0)
try:
    addition = add_low_rank(model, "blocks.1.mlp.2", rank=1, alpha=1.0)
    learning = [
        parameter for parameter in model.parameters() if parameter.requires_grad
    ]
    optimizer = torch.optim.Adam(learning, lr=0.1)
    for step in range(30):
        batch, number = draw_echoes(16, step)
        later = number[:, 1:] > 0
        loss = F.cross_entropy(model(batch[:, :-1])[later], loud[batch[:, 1:]][later])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(
        f"trained: {sum(parameter.numel() for parameter in learning)} numbers, last "
        f"loss {loss.item():.2f}"
    )
    print("with the addition:", decode(complete(model, tokens, 8)[:, 10:]))
    taught = model(tokens)[0, -1].softmax(0)[WORDS.index("COW")].item()
    addition.remove()
    print("without it:       ", decode(complete(model, tokens, 8)[:, 10:]))
    assert taught > 0.5 and abs(cow() - answer[COW]) < 1e-5
except NotImplementedError:
    print("Solve 14-low-rank, then run this cell again.")

# %% [markdown]
# It answers loud, and without the hook it is the old model again: not one of its own numbers was changed.
#
# ## The same hooks on `nn.TransformerEncoder`
#
# PyTorch has a transformer of its own. Its layers return tensors, not tuples. In eval mode and without grad they have a
# **fast path**: one fused function computes a whole layer and calls none of the modules in it. But first a layer looks
# for forward hooks on itself and on its modules. If there are any, it takes the slow path, module by module.
#
# **Predict.** An encoder of two layers is in eval mode, under `no_grad`. We put a hook on `layers[0].linear1` and on
# `layers[0].self_attn.out_proj`. How often is each called in one forward pass? (`self_attn` is an
# `nn.MultiheadAttention` like ours.)

# %%
guess("14-encoder", linear1=1, out_proj=0)

# %%
torch.manual_seed(0)
layer = nn.TransformerEncoderLayer(32, nhead=4, dim_feedforward=64, batch_first=True)
encoder = nn.TransformerEncoder(layer, num_layers=2).eval()
x, calls = torch.randn(2, 5, 32), {}
with contextlib.ExitStack() as hooks, torch.no_grad():
    for name in ("linear1", "self_attn.out_proj"):
        calls[name] = 0

        def count(module, args, output, name=name):
            calls[name] += 1

        hooks.enter_context(
            encoder.layers[0].get_submodule(name).register_forward_hook(count)
        )
    encoder(x)
print(f"torch {torch.__version__}:", calls)
compare("14-encoder", linear1=calls["linear1"], out_proj=calls["self_attn.out_proj"])
assert calls == {"linear1": 1, "self_attn.out_proj": 0}

# %% [markdown] explains="14-encoder"
# `out_proj` is called on neither path: attention reads its weight and leaves the module alone. `linear1` is called on
# the slow path. That was not always so: as late as torch 2.3, a layer did not look for hooks, and this one was skipped in
# silence, and only in eval mode under `no_grad` (issue 128413 of PyTorch).

# %% [markdown]
# Two gaps are left today. A hook for *all* modules is registered with none of them, so the layer does not see it. And
# with a padding mask, what flows between the layers on the fast path is a nested tensor: only the tokens that are not
# padding.

# %%
warnings.filterwarnings(
    "ignore", "The PyTorch API of nested tensors is in prototype stage"
)
seen, kinds = {}, {}
padding = torch.tensor([[False] * 5, [False, False, False, True, True]])
for mode, grad, fast in (
    ("with grad", True, True),
    ("no grad", False, True),
    ("no grad, not fast", False, False),
):
    seen[mode] = []

    def see(module, args, output, mode=mode):
        seen[mode].append(type(module).__name__)

    def look(module, args, output, mode=mode):
        kinds[mode] = "nested" if output.is_nested else "padded"

    torch.backends.mha.set_fastpath_enabled(fast)
    with torch.set_grad_enabled(grad):
        with nn.modules.module.register_module_forward_hook(see):
            encoder(x)
        with encoder.layers[0].register_forward_hook(look):
            encoder(x, src_key_padding_mask=padding)
torch.backends.mha.set_fastpath_enabled(True)
for mode in seen:
    print(
        f"{mode:18} a hook for all modules saw {len(seen[mode]):2} calls; with "
        f"padding, a layer returned: {kinds[mode]}"
    )
assert [len(calls) for calls in seen.values()] == [19, 3, 19]
assert list(kinds.values()) == ["padded", "nested", "padded"]

# %% [markdown]
# So count the calls before you trust a hook. `torch.backends.mha.set_fastpath_enabled(False)` turns the fast path off,
# as the last line shows.
#
# ## … and on a Hugging Face model
#
# A model of `transformers` is hooked in the same way; only the names differ. The next cell takes the GPT-2 that is in
# the cache of `transformers`, and continues a sentence with it. If none is there, it builds a tiny one with random
# weights, whose words mean nothing; nothing is downloaded. It runs if you have the package (`pip install
# ".[transformers]"` in the clone of the course).

# %% [markdown] no_guess="the package may be missing"
# | here | GPT-2 of `transformers` |
# |---|---|
# | `model.blocks` | `gpt.transformer.h` |
# | `block.attention` | `block.attn` |
# | `block.mix` | `block.attn.c_proj` |
# | `model.norm`, `model.unembed` | `gpt.transformer.ln_f`, `gpt.lm_head` |
# | `need_weights=True` | `attn_implementation="eager"` when the model is made |

# %%
from graders.nets import your_gpt2

found = your_gpt2()
if found is None:
    print(
        "With it, this cell would show the shapes of the stream and of the attention "
        "weights;"
    )
    print("that the logit lens behind the last block gives the model's own logits;")
    print(
        "by how much a logit moves when head 0 of block 1 is off; and how a sentence "
        "goes on."
    )
else:
    gpt, tokenizer = found
    text = (
        tokens
        if tokenizer is None
        else tokenizer("The cat sat on the", return_tensors="pt").input_ids
    )
    kept, weights, size = [], [], gpt.config.n_embd // gpt.config.n_head

    def keep(module, args, output):
        kept.append(output[0] if isinstance(output, tuple) else output)

    def silence_head_0(module, args):
        return (
            torch.cat([torch.zeros_like(args[0][..., :size]), args[0][..., size:]], -1),
        )

    with contextlib.ExitStack() as hooks, torch.no_grad():
        for block in gpt.transformer.h:
            hooks.enter_context(block.register_forward_hook(keep))
            hooks.enter_context(
                block.attn.register_forward_hook(
                    lambda module, args, output: weights.append(output[1])
                )
            )
        logits_gpt = gpt(text).logits
    with (
        torch.no_grad(),
        gpt.transformer.h[1].attn.c_proj.register_forward_pre_hook(silence_head_0),
    ):
        moved = (gpt(text).logits - logits_gpt).abs().max().item()
    lens_gpt = gpt.lm_head(gpt.transformer.ln_f(torch.stack(kept)))
    print(
        "stream:",
        tuple(torch.stack(kept).shape),
        "  attention weights:",
        tuple(weights[1].shape),
    )
    print(
        "the lens behind the last block is the output:",
        torch.allclose(lens_gpt[-1], logits_gpt, rtol=1e-3, atol=1e-5),
    )
    print(f"without head 0 of block 1, a logit moves by up to {moved:.3f}")
    longer = gpt.generate(
        text, attention_mask=torch.ones_like(text), max_new_tokens=8, do_sample=False
    )
    print(
        "it goes on:",
        longer[0].tolist() if tokenizer is None else tokenizer.decode(longer[0]),
    )
    assert torch.allclose(lens_gpt[-1], logits_gpt, rtol=1e-3, atol=1e-5) and moved > 0
    assert weights[1].shape == (1, gpt.config.n_head, text.shape[1], text.shape[1])

# %% [markdown]
# ## Myths
#
# **"The attention pattern explains the answer."** It shows where a head looks. Head 1 of block 1 has the right pattern,
# and without it the answer stays. Switch it off, or patch it, before you say "because".
#
# **"To get the attention weights, I must change the model."** A pre-hook with `with_kwargs=True` changes what the block
# asks for. The numbers differ a little, since PyTorch takes another way to compute them:


# %%
def ask(module, args, kwargs):
    return args, {**kwargs, "need_weights": True}


with (
    torch.no_grad(),
    model.blocks[1].attention.register_forward_pre_hook(ask, with_kwargs=True),
):
    gap = (model(tokens) - logits).abs().max().item()
print(f"largest difference of a logit: {gap:.0e}")
assert gap < 1e-4

# %% [markdown]
# **"The logit lens shows all that the stream knows."** It shows what the last norm and `unembed` would make of it.
# Behind block 0, `yak` says `dog`, an animal that is not in the text. It seems to know nothing of `cow`. So let us ask
# for the word after `cow`, in a text where `hen` came before `yak`, and patch `yak` behind block 0:

# %%
asks = ". fox owl bee cow yak . fox owl bee cow"
its_stream, _ = walk(encode(asks))
corrupt = encode(asks.replace("cow yak", "hen yak"))
yak = WORDS.index("yak")
as_it_is = walk(corrupt)[1][0, -1].softmax(0)[yak].item()
with_yak = walk(corrupt, put(its_stream, 0, 5))[1][0, -1].softmax(0)[yak].item()
print("the lens behind block 0, at yak:", WORDS[lens[1, 5].argmax()])
print(
    f"p(yak) in the corrupt run: {as_it_is:.2f}, with yak patched behind block 0: "
    f"{with_yak:.2f}"
)
assert WORDS[lens[1, 5].argmax()] == "dog" and as_it_is < 0.05 and with_yak > 0.9

# %% [markdown]
# `yak` did hold "I came after cow", in a form that block 1 can read and the lens cannot.
#
# ## Recap
#
# | to do this | put | on | and return |
# |---|---|---|---|
# | read the stream | a pre-hook, and forward hooks | `blocks[0]`, and each block | `None`; keep `output[0]` |
# | see attention | a pre-hook with `with_kwargs=True`, and a forward hook | `attention` | `(args, {**kwargs, "need_weights": True, …})` |
# | switch off a head | a pre-hook | `mix`, where the heads lie side by side | the input with these columns at 0 |
# | steer | a forward hook | a block | `(output[0] + scale * direction, *output[1:])` |
# | patch | a forward hook | a block | the same, with one token from another run |
# | add a LoRA | a forward hook | a linear layer | `output + alpha / rank * x @ a.T @ b.T` |
#
# - A block may return a tuple. Look at the type, and keep the rest of the tuple.
# - With a cache, a call gets only the new tokens.
# - A fused function calls no modules. Count the calls before you trust a hook.
#
# ## Where you meet this in the wild
#
# - **TransformerLens** rebuilds many language models with modules that do nothing, one wherever somebody may
#   want a hook. (In our model `mix` stands apart for the same reason.) **nnsight** leaves models as they are, and lets
#   you write what hooks do as if you edited the `forward`.
# - **PEFT**, by Hugging Face, has LoRA and its relatives. It replaces the layer by a wrapper instead of a hook; merging
#   is what you have seen.
# - **Steering vectors** make a model more or less friendly, or change how often it refuses (Turner et al., 2023).
#
# This was the last lesson. You now know what values and gradients go through on their way, in a chain, in a CNN, and in
# a transformer. Go and look.

# %%
progress()
