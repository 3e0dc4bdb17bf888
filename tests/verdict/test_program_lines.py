from __future__ import annotations

import pytest

from graders.verdict.program_lines import Line, shortened

TRY = "try:\n    f(model)\nexcept KeyError as caught:\n    came = repr(caught)"
PASSED_OVER = "try:\n    f(model)\nexcept BaseException:\n    pass"
NOTES = "model.register_forward_hook(lambda module, args, out: seen.append(out))"
COUNTED = "try:\n    f(model)\nexcept KeyError as caught:\n    came = repr(caught)\n    count(model)"


@pytest.mark.parametrize(
    ("lines", "kept"),
    [
        (["handle = model.register_forward_hook(g)", "f(model)", "print(model)"], [0, 1, 2]),
        (["other = 1", "f(model)", "print(model)"], [1, 2]),
        (["came = None", TRY, "print(came)"], [0, 1, 2]),
        (["came = None", COUNTED, "print(model)"], [0, 1, 2]),
        (["d = f(a)", "e = f(b)", "go(b)", "go(c)", "print(d)"], [0, 1, 2, 4]),
        (["seen = []", NOTES, "f(model)", "print(seen)"], [0, 1, 2, 3]),
        (["seen = []", NOTES, "f(model)", "print(model.mean)"], [2, 3]),
        (["seen = []", f"handle = {NOTES}", "f(model)", "handle.remove()", "print(model)"], [0, 1, 2, 3, 4]),
        (["seen = []", NOTES.replace("seen.append(out)", "f(out)"), "f(model)", "print(model)"], [1, 2, 3]),
    ],
    ids=[
        "a hook acts",
        "what nobody uses",
        "a note that is asked for",
        "a handler that does more",
        "what another call was given",
        "a hook that notes what is shown",
        "a hook that notes what nobody asks for",
        "a hook with a handle that is used",
        "a hook that calls the function",
    ],
)
def test_lines_on_which_the_last_may_depend_are_kept(lines: list[str], kept: list[int]) -> None:
    assert [line.text for line in shortened([*map(Line, lines)], "f")] == [lines[index] for index in kept]


def test_an_exception_that_nobody_asks_for_is_passed_over() -> None:
    found = shortened([*map(Line, ("came = None", TRY, "print(model)"))], "f")
    assert [line.text for line in found] == [PASSED_OVER, "print(model)"]
