from __future__ import annotations

import pytest

from graders.verdict.program_lines import Line, shortened

TRY = "try:\n    f(model)\nexcept KeyError as caught:\n    came = repr(caught)"
PASSED_OVER = "try:\n    f(model)\nexcept BaseException:\n    pass"
COUNTED = "try:\n    f(model)\nexcept KeyError as caught:\n    came = repr(caught)\n    count(model)"


@pytest.mark.parametrize(
    ("lines", "kept"),
    [
        (["handle = model.register_forward_hook(g)", "f(model)", "print(model)"], [0, 1, 2]),
        (["other = 1", "f(model)", "print(model)"], [1, 2]),
        (["came = None", TRY, "print(came)"], [0, 1, 2]),
        (["came = None", COUNTED, "print(model)"], [0, 1, 2]),
    ],
    ids=["a hook acts", "what nobody uses", "a note that is asked for", "a handler that does more"],
)
def test_lines_on_which_the_last_may_depend_are_kept(lines: list[str], kept: list[int]) -> None:
    assert [line.text for line in shortened([*map(Line, lines)], "f")] == [lines[index] for index in kept]


def test_an_exception_that_nobody_asks_for_is_passed_over() -> None:
    found = shortened([*map(Line, ("came = None", TRY, "print(model)"))], "f")
    assert [line.text for line in found] == [PASSED_OVER, "print(model)"]
