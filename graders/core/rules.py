"""The three rules of every exercise, and a page that explains them in eight points."""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass


@dataclass(frozen=True)
class Rule:
    """A rule, or a point that explains the rules, in words for learners. `title` and `text` are Markdown."""

    number: int
    title: str
    text: str


RULES = (
    Rule(
        1,
        "Any tensor, any number of calls.",
        "Your function works for tensors of any shape and in any layout (such as a slice, `t[:, 0]`), in `float32` "
        "and in `float64`; none is sparse. It works however often it is called, on one object or on several at the "
        "same time, and also when one call runs inside another: a loss that you evaluate may call your function.",
    ),
    Rule(
        2,
        "What you were given stays as it was.",
        "Tensors keep their values, their `requires_grad` and their `.grad`: if `p.grad` held a 9, it is that same "
        "tensor afterwards, and still 9. A model keeps its parameters, its buffers, the mode of each part and its "
        "`forward`. Lists and dicts keep their entries. Settings such as grad mode are as before, and you set no "
        "seed. What a model changes when it runs, like a running mean, may change.",
    ),
    Rule(
        3,
        "Other people's hooks stay; yours go.",
        "Hooks that were there before are there afterwards, in the same order. Where one of them doubles an output, "
        "the output is the double. When your function has returned or raised, none of your own hooks is left. A hook "
        "that is meant to stay changes what you were given and nothing else: in `t + u`, one on `t` that writes into "
        "the gradient would change that of `u`, too. If you return a handle, it removes exactly the hook that it "
        "stands for.",
    ),
    Rule(
        4,
        "Errors come through.",
        "When the model, the loss or `backward()` raises an exception, the caller of your function gets this "
        "exception, even the `KeyboardInterrupt` of somebody who stops the run. Points 2 and 3 hold then, too. Write "
        "`with` or `finally`.",
    ),
    Rule(
        5,
        "Every backward pass counts.",
        "`backward()`, `torch.autograd.grad`, a pass with `create_graph=True` (then gradients can be differentiated "
        "again, and a new gradient needs a graph), and a pass that goes well after one that an exception has stopped.",
    ),
    Rule(
        6,
        "What you return.",
        "A tuple is not a list, and a number is an `int` or a `float`; any kind of dict will do. A tensor that you "
        "return has no graph, and it shares its memory with no other tensor: `p.grad.clone()`, not `p.grad`.",
    ),
    Rule(
        7,
        'What "run the model" means (from lesson 5 on).',
        "`model(x)` is called as often as the contract says, to its end, with each part in its own mode. It computes "
        "the same as without you. Where no gradient is asked for, you may switch grad mode off, or use inference "
        "mode, and your caller may have done so. A part with two names has the one that `model.named_modules()` "
        "gives. What it returned is the value as it left the layer, even when an in-place ReLU behind it overwrites "
        "that.",
    ),
    Rule(
        8,
        "What you may count on.",
        "Where a gradient is asked for, grad mode is on when you are called. What you are given runs no backward pass "
        "of its own, and does not switch grad mode. No hook on a tensor gets `None`. A model that changes "
        "a buffer writes into it, and no model catches what a part of it raises. Nobody changes a list or dict that "
        "you were given or returned. Passes that you run may fill the `.grad` of leaves that the contract does not "
        "mention.",
    ),
)


INPUTS = (
    "A check calls your function with tensors of any shape and layout, in `float32` and `float64`, as often as it "
    "likes, even while another call runs."
)
"""What every exercise takes, before the three rules."""
BRIEF = (
    Rule(
        1,
        "Leave what you were given as you found it:",
        "values, `.grad`, modes, lists, PyTorch's settings, and what a model computes. Return copies without a graph. "
        "Contracts can say otherwise.",
    ),
    Rule(
        2,
        "Take your own hooks off, and leave everyone else's on:",
        "where one changes a value, the new value counts. Some contracts ask for a hook that stays; its handle removes "
        "that hook alone.",
    ),
    Rule(
        3,
        "Let errors through.",
        "When something that you call raises, your caller gets the exception, and the first two rules still hold.",
    ),
)
"""The rules as each lesson gives them at its first exercise. With the contract, they are all that a check asks for."""
RULES_FILE_NAME = "rules.md"
"""The page that explains them, a file next to the lessons."""
INTRODUCTION = """\
A check tests what the contract of its exercise says, and the three rules that stand below the first contract of each
lesson. These eight points explain them, for a day when a check puzzles you. Where a contract says otherwise, the
contract counts."""

UNBREAKABLE_SPACE = "\0"
"""Stands for a space at which a line must not be broken."""


def brief_rules() -> str:
    """What every exercise takes, and the three rules, as Markdown."""
    items = "\n".join(_rule_item(rule, "-") for rule in BRIEF)
    return f"{textwrap.fill(f'{INPUTS} Three rules hold in all exercises:', 118)}\n\n{items}"


def rules_page() -> str:
    """All rules as a page of Markdown, with at most 120 characters per line."""
    rules = "\n".join(_rule_item(rule, f"{rule.number}.") for rule in RULES)
    return f"# The rules of all exercises\n\n{INTRODUCTION}\n\n{rules}\n"


def _rule_item(rule: Rule, mark: str) -> str:
    """One item of a list. No line breaks inside code: a `+` at the start of the next line would begin a new item."""
    text = re.sub(
        r"`[^`]+`", lambda code: code[0].replace(" ", UNBREAKABLE_SPACE), f"{mark} **{rule.title}** {rule.text}"
    )
    indent = " " * (len(mark) + 1)
    return textwrap.fill(text, 118, subsequent_indent=indent, break_on_hyphens=False).replace(UNBREAKABLE_SPACE, " ")
