"""The rules that hold in every exercise. Lesson 1 states them to learners; contracts link to them by their number."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Rule:
    """A rule in the words of learners. `sentences` are its demands, one by one."""

    number: int
    title: str
    sentences: tuple[str, ...]

    @property
    def text(self) -> str:
        """The rule as Markdown."""
        return f"**{self.title}** {' '.join(self.sentences)}"


RULES = (
    Rule(1, "It works for every input.", (
        "Unless the contract says less, a function works for tensors of any shape, however they lie in memory, and for "
        "float32 and float64.",
        "It can be called any number of times, on the same object or on several objects in turn, and one call knows "
        "nothing of another.",
    )),
    Rule(2, "What it was given stays as it was.", (
        "Values stay, `requires_grad` stays, and `.grad` stays the same tensor with the same values.",
        "Each module keeps its mode (training or eval), its parameters, its buffers and its submodules.",
        "Lists and dicts of the caller keep their entries.",
        "Autograd is on or off as before, and nothing else that is global changes.",
        "What the contract asks for is the exception: if it says \"call `backward()`\", then `.grad` is filled.",
    )),
    Rule(3, "Hooks of the caller stay, yours go.", (
        "A tensor, module or parameter may have hooks already, which watch or which replace a value.",
        "They stay, the same ones in the same order, and are called as always.",
        "When your function has returned, no hook of yours is left, unless it returns a handle for it.",
        "`handle.remove()` removes what the handle stands for, and nothing else.",
    )),
    Rule(4, "Exceptions come through.", (
        "A model, a loss or `backward()` may raise any exception, even `KeyboardInterrupt`.",
        "It reaches the caller as it is, and rules 2 and 3 hold then, too.",
    )),
    Rule(5, "A hook works in every pass.", (
        "`backward()` with and without `create_graph=True`, `torch.autograd.grad`, and a pass after one that ended in "
        "an exception.",
    )),
    Rule(6, "Results are what they are called.", (
        "A list is a list, a tuple is a tuple, a number is a Python `int` or `float`, as the contract says.",
        "A tensor in a result has the dtype that belongs to it and no graph, and nothing that happens later changes "
        "it, unless the contract asks for the object itself.",
    )),
)  # fmt: skip


def as_markdown() -> str:
    """All rules as a numbered list, for lesson 1."""
    return "\n".join(f"{rule.number}. {rule.text}" for rule in RULES)


def rule(number: int) -> Rule:
    """The rule with this number. Raises `KeyError`."""
    return {one.number: one for one in RULES}[number]
