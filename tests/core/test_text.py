from __future__ import annotations

from dataclasses import dataclass

import pytest

from graders.core.text import clean_fields, clean_text, format_count, format_points, format_share, shorten_text


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("plain text, ünïcode, 数, 🙂", "plain text, ünïcode, 数, 🙂"),
        ("\x1b[31mred\x07", "\ufffd[31mred\ufffd"),
        ("abc\u202edcba", "abc\ufffddcba"),
        ("zero\u200bwidth\ufeff", "zero\ufffdwidth\ufffd"),
        ("lone \udc80", "lone \ufffd"),
        ("new\nline\r\nand\ttab", "new line and    tab"),
        ("back\rwards", "back\ufffdwards"),
        ("line\u2028separator", "line\ufffdseparator"),
        ("not \u0378 assigned, \ue000 private", "not \ufffd assigned, \ufffd private"),
        (None, "None"),
        (12, "12"),
    ],
)
def test_text_becomes_visible_unicode_on_one_line(raw: object, shown: str) -> None:
    assert clean_text(raw) == shown


@pytest.mark.parametrize(
    "name",
    [
        "\u0639\u0644\u06cc\u200c\u0631\u0636\u0627",  # Persian: Alireza
        "\u0dc1\u0dca\u200d\u0dbb\u0dd3 Perera",  # Sinhala: Shri
        "\u0d28\u0d4d\u200d Kumar",  # Malayalam, a letter without a vowel at the end of a word
        "\u09b0\u200d\u09cd\u09af\u09be",  # Bengali, before the sign that mutes a vowel
    ],
)
def test_a_joiner_stays_where_a_script_needs_it(name: str) -> None:
    assert clean_text(name) == name
    assert clean_text(clean_text(name, 4), 4) == clean_text(name, 4)


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("Ada\u200dLovelace", "Ada\ufffdLovelace"),
        ("ann\u200c", "ann\ufffd"),
        ("\u200c\u0639\u0644", "\ufffd\u0639\u0644"),
        ("\u0639\u200c\u200c\u0644", "\u0639\ufffd\ufffd\u0644"),
        ("\u0639\u200b\u0644", "\u0639\ufffd\u0644"),
        ("\u0639\u202e\u0644", "\u0639\ufffd\u0644"),
        ("A\u3164B\u034f", "A\ufffdB\ufffd"),
    ],
)
def test_what_only_hides_or_reorders_does_not(raw: str, shown: str) -> None:
    assert clean_text(raw) == shown


def test_new_lines_are_kept_on_request() -> None:
    assert clean_text("a\r\nb\nc\td", lines=True) == "a\nb\nc    d"


def test_long_text_is_cut_and_marked() -> None:
    assert clean_text("x" * 300) == "x" * 300
    assert clean_text("x" * 301) == "x" * 299 + "…"
    assert clean_text("abcdef", 4) == "abc…"
    assert clean_text("\t\t", 6) == "     …"
    assert len(clean_text("\r\n" * 10_000)) == 300


def test_what_was_cleaned_is_clean() -> None:
    raw = "".join(map(chr, [*range(0x2100), *range(0xD7F0, 0xE010), *range(0xFFF0, 0x10010)]))
    once = clean_text(raw, 10_000, lines=True)
    assert clean_text(once, 10_000, lines=True) == once
    assert once.encode()


@pytest.mark.parametrize(
    ("value", "shown"), [(2, "2"), (2.0, "2"), (0.5, "0.5"), (4 / 3, "1.33"), (0, "0"), (10, "10"), (100.0, "100")]
)
def test_points_have_no_needless_digits(value: float, shown: str) -> None:
    assert format_points(value) == shown


def test_one_is_singular() -> None:
    assert [format_count(count, "point") for count in (0, 1, 2)] == ["0 points", "1 point", "2 points"]


def test_a_text_is_made_as_short_as_asked() -> None:
    assert [shorten_text(text, 3) for text in ("abc", "abcd", 12345)] == ["abc", "ab…", "12…"]


@dataclass(frozen=True)
class _Said:
    name: str
    rest: tuple[str, ...]
    lines: str

    def __post_init__(self) -> None:
        clean_fields(self, {"lines"}, name=3, rest=2, lines=4)


def test_the_fields_of_a_dataclass_are_cleaned() -> None:
    assert _Said("a\nbc", ("a\x1b", "abc"), "a\nb\x00") == _Said("a …", ("a\ufffd", "a…"), "a\nb\ufffd")


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0.1429, "1/7"), (0.2857, "2/7"), (1.3333, "1 1/3"), (100 / 3, "33 1/3"), (0.25, "0.25"), (0.5, "0.5"), (2, "2"),
     (0, "0"), (0.13, "0.13"), (0.123456, "0.12")],
)  # fmt: skip
def test_shares_of_points_add_up(value: float, shown: str) -> None:
    assert format_share(value) == shown
