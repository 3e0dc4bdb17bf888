"""The rules that apply to every exercise: three short ones for lesson 1, and exact ones to which contracts link."""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass


@dataclass(frozen=True)
class Rule:
    """A rule in words for learners. `title` and `text` are Markdown."""

    number: int
    title: str
    text: str


RULES = (
    Rule(
        1,
        "Any tensor, any number of calls.",
        "Your function works for tensors of any shape and in any layout (a slice such as `t[:, 0]` is not laid out in "
        "memory as a new tensor is), in `float32` and in `float64`; no tensor or gradient is sparse. It works however "
        "often it is called, on one object or on several at the same time, and also when one call runs inside "
        "another, on another object.",
    ),
    Rule(
        2,
        "What you were given stays as it was.",
        "Tensors keep their values, their `requires_grad` and their `.grad`: the same tensor with the same values. A "
        "model keeps its parameters, its buffers (tensors that it stores but does not train), the mode of each part "
        "(`train()` or `eval()`) and the `forward` of each part. Lists and dicts keep their entries. What a model or "
        "one of the caller's functions changes by itself while you run it, such as the running statistics of a batch "
        "norm, may change, unless the contract says otherwise. PyTorch's settings are afterwards as they were, such "
        "as grad mode (whether PyTorch records graphs at all; `torch.no_grad()` switches it off). Random numbers "
        "belong to your caller, too: set no seed.",
    ),
    Rule(
        3,
        "Other people's hooks stay; yours go.",
        "A hook is a function that PyTorch calls at a certain moment (lesson 0). Hooks that were there before "
        "are there afterwards, the same ones in the same order. They may watch or replace values, and may sit "
        'on any tensor, parameter or part of a model. "As it left the module" means the value that the next '
        "part of the model gets. When your function has returned, or raised, none of your own hooks is left. "
        "If the contract asks for hooks that stay, they act on what you were given and on nothing else: not on the "
        "gradient of a neighbour (in `t + u`, that of `u`), and not on a tensor that the caller hands to "
        "`backward(gradient=...)`. Your function then returns handles. A handle is an object whose `remove()` takes "
        "a hook away: it removes exactly the hook that it stands for. Nobody has to keep it for the hook to work.",
    ),
    Rule(
        4,
        "Errors come through.",
        "When the model, the loss or `backward()` raises an exception, the caller of your function gets this "
        "exception. That holds for every exception, including `KeyboardInterrupt` (you stopped the run). Rules 2 and "
        "3 hold then, too.",
    ),
    Rule(
        5,
        "Hooks and handles work in every pass:",
        "`backward()`, `backward(create_graph=True)` (then gradients can be differentiated again), "
        "`torch.autograd.grad`, and a pass that goes well after one that an exception has stopped.",
    ),
    Rule(
        6,
        "Types count.",
        "A tuple is a tuple: a namedtuple or a `torch.Size` is one, a list is not. Where a dict is asked for, "
        "any kind of dict is right. A number is an `int` or a `float`, as the contract says. A tensor that you "
        "return has no graph, and it shares its memory with no other tensor, unless the contract asks for the "
        "tensor object itself.",
    ),
    Rule(
        7,
        'What "run the model" means (from lesson 5 on).',
        "Call `model(x)` exactly once, to its end, and with each part in its own mode. It computes the same as "
        "without you. The name of a part of the model is the one that `model.named_modules()` gives it; if it has "
        "several, the first one counts. What it returned is the value as it left the module, even when a later layer "
        "overwrites this value in place. Where no gradient is asked for, you may switch grad mode off for the run, "
        "and your caller may have done so; the model does not switch it.",
    ),
    Rule(
        8,
        "What you may count on.",
        "Where a gradient is asked for, grad mode is on when you are called. The models, losses and functions that "
        "you are given run no backward pass, unless they call your function (rule 1). No hook on a tensor gets `None` "
        "for a gradient. Nobody changes a list or dict that you were given, or one that you returned. A leaf that the "
        "contract does not mention may get a `.grad` in the passes that you run.",
    ),
)


BRIEF = (
    Rule(
        1,
        "Leave what you were given as you found it:",
        "values, `.grad`, modes, lists, PyTorch's settings. The contract says what you may change.",
    ),
    Rule(
        2,
        "Take your own hooks off, and leave everyone else's on.",
        "Some contracts ask for a hook that stays.",
    ),
    Rule(
        3,
        "Let errors through.",
        "When something that you call raises, your caller gets the exception, and the first two rules still hold.",
    ),
)
"""The rules as lesson 1 gives them before its first exercise: enough to start with."""
RULES_FILE_NAME = "rules.md"
"""The page with all rules, a file next to the lessons."""
INTRODUCTION = """\
The check of an exercise tests what its contract says, and what is written here. You do not have to know it by heart:
come back when a check puzzles you. Where a contract says something different, the contract counts."""

UNBREAKABLE_SPACE = "\0"
"""Stands for a space at which a line must not be broken."""


def brief_rules() -> str:
    """The three rules of lesson 1 as a Markdown list. It has no numbers, which are those of the full rules."""
    return "\n".join(_rule_item(rule, "-") for rule in BRIEF)


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
