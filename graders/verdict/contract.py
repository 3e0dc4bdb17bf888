"""Read a contract, the docstring that says what an exercise asks for: a task, an example to run, and fine print.

    '''Multiply by `s`, in every backward pass from now on, the gradient that arrives at `t`. Return the handle.

    **Example.**

    >>> w = torch.tensor([1.0], requires_grad=True)
    >>> handle = scale_grad(w, 10.0)
    >>> (3 * w).sum().backward()
    >>> w.grad
    tensor([30.])

    **Fine print.** `t` may be a leaf or not.
    '''

Everything before the example is the task.
"""

from __future__ import annotations

import doctest
import inspect
import re
from dataclasses import dataclass

EXAMPLE, FINE_PRINT = "**Example.**", "**Fine print.**"
TASK_WORDS, FINE_PRINT_WORDS = 45, 80
"""The most words that a task and its fine print may have."""
LONGEST_LINE = 100
"""The most characters of a line of code that a notebook shows without a scroll bar."""


@dataclass(frozen=True)
class Step:
    """A statement of an example and the output that it shows; empty if it shows nothing."""

    code: str
    shows: str


@dataclass(frozen=True)
class Contract:
    """The task, an example, and the fine print, which says what even a careful reader would not expect."""

    task: str
    about: str
    """The text between `EXAMPLE` and the example's first line."""
    example: tuple[Step, ...]
    fine_print: str

    @classmethod
    def from_docstring(cls, docstring: str) -> Contract:
        """The contract in a docstring. Without example or fine print, that part is empty."""
        task, _, rest = inspect.cleandoc(docstring).partition(EXAMPLE)
        example, _, fine_print = rest.partition(FINE_PRINT)
        steps = doctest.DocTestParser().get_examples(example)
        about = example.partition(">>>")[0]
        return cls(
            task.strip(),
            about.strip(),
            tuple(Step(step.source.strip(), step.want.strip()) for step in steps),
            fine_print.strip(),
        )

    @property
    def markdown(self) -> str:
        """The contract as a learner reads it: the example as a block of code, and the fine print folded away."""
        parts = [self.task]
        if self.example:
            parts += [f"{EXAMPLE} {self.about}".strip(), f"```python\n{self.code}\n```"]
        if self.fine_print:
            parts.append(f"<details><summary>Fine print</summary>\n\n{self.fine_print}\n\n</details>")
        return "\n\n".join(parts)

    @property
    def code(self) -> str:
        """The example as code, with its output in comments."""
        return "\n".join(f"{step.code}{_output_comment(step)}" for step in self.example)


def _output_comment(step: Step) -> str:
    """The output as a comment beside the code, or below it if the line would get too long or has a comment already."""
    lines = step.shows.splitlines()
    beside = "".join(f"  # {line}" for line in lines)
    if len(lines) < 2 and "  # " not in step.code and len(step.code) + len(beside) <= LONGEST_LINE:
        return beside
    return "".join(f"\n# {line}" for line in lines)


def count_words(text: str) -> int:
    """The number of words in `text`; each `piece of code` counts as one."""
    return len(re.sub(r"`[^`]*`", "x", text).split())
