from __future__ import annotations

import argparse

import pytest

from graders.core.quantities import parse_jobs, parse_seconds, parse_size, parse_whole_number
from graders.instructor.pytest_plugin.errors import option_type


@pytest.mark.parametrize(
    ("parse", "text", "says"),
    [
        (parse_size, "2 parsecs", "'2 parsecs' is not a size; write it like 512M or 2G"),
        (parse_seconds, "-1", "'-1' is not a number of seconds above 0"),
        (parse_whole_number, "1.5", "'1.5' is not a whole number from 0 to below 2\\*\\*53"),
        (parse_jobs, "0", "at least 1 notebook has to run at a time"),
    ],
)
def test_a_wrong_value_of_an_option_says_how_to_write_it(parse: object, text: str, says: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match=f"^{says}$"):
        option_type(parse)(text)  # type: ignore[arg-type]


def test_a_right_value_is_read() -> None:
    assert option_type(parse_size)("2G") == 2 << 30
    assert option_type(parse_seconds)("1.5") == 1.5
    assert option_type(parse_jobs)("3") == 3
