"""A contract in two layers: its parts, and how a learner reads them."""

from __future__ import annotations

import pytest

from graders.verdict.contract import Contract, Step, count_words

DOCSTRING = """Double the gradient that arrives at `t`. Return the handle.

    **Example.** On a leaf:

    >>> w = torch.tensor([1.0], requires_grad=True)
    >>> for _ in range(2):
    ...     (3 * w).sum().backward()
    >>> w.grad
    tensor([12.])
    >>> events
    ['forward', 'backward',
     'forward']

    **Fine print.** `t` may be a leaf or not.
    """


def test_the_parts_of_a_contract() -> None:
    found = Contract.from_docstring(DOCSTRING)
    assert found.task == "Double the gradient that arrives at `t`. Return the handle."
    assert found.about == "On a leaf:"
    assert found.fine_print == "`t` may be a leaf or not."
    assert found.example == (
        Step("w = torch.tensor([1.0], requires_grad=True)", ""),
        Step("for _ in range(2):\n    (3 * w).sum().backward()", ""),
        Step("w.grad", "tensor([12.])"),
        Step("events", "['forward', 'backward',\n 'forward']"),
    )


def test_the_example_is_code_that_can_be_run_and_the_fine_print_is_folded() -> None:
    assert Contract.from_docstring(DOCSTRING).markdown == (
        "Double the gradient that arrives at `t`. Return the handle.\n\n"
        "**Example.** On a leaf:\n\n"
        "```python\n"
        "w = torch.tensor([1.0], requires_grad=True)\n"
        "for _ in range(2):\n"
        "    (3 * w).sum().backward()\n"
        "w.grad  # tensor([12.])\n"
        "events\n"
        "# ['forward', 'backward',\n"
        "#  'forward']\n"
        "```\n\n"
        "<details><summary>Fine print</summary>\n\n`t` may be a leaf or not.\n\n</details>"
    )


@pytest.mark.parametrize("code", ["double(x)  # as in the text", "double(" + 90 * "x" + ")"])
def test_what_shows_stands_below_a_line_that_is_long_or_has_a_comment(code: str) -> None:
    assert Contract.from_docstring(f"Do it.\n\n**Example.**\n\n>>> {code}\ntensor(2.)").code == f"{code}\n# tensor(2.)"


def test_a_contract_may_be_its_task_alone() -> None:
    assert Contract.from_docstring("Return `x`.").markdown == "Return `x`."


def test_a_piece_of_code_is_one_word() -> None:
    assert count_words("Return the handle that `t.register_hook(lambda grad: 2 * grad)` gave you.") == 7
