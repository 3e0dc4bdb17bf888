from __future__ import annotations

import time

import pytest

from graders.report.similar import Pair, likeness, shingles, similar, tokens

LONG = '''
def watch(model, names):
    """What it does."""
    seen = {}
    def keep(name):
        def hook(module, args, output):
            seen.setdefault(name, []).append(output.detach().clone())
        return hook
    handles = [module.register_forward_hook(keep(name)) for name, module in model.named_modules() if name in names]
    return seen, handles
'''
RENAMED = LONG.replace("seen", "found").replace("What it does.", "Mine!").replace("    ", "  ") + "# done\n"
OTHER = """
def watch(model, names):
    class Watcher:
        def __init__(self):
            self.handles, self.data = [], {name: [] for name in names}
    watcher = Watcher()
    for name in names:
        module = model.get_submodule(name)
        watcher.handles += [module.register_forward_hook(lambda m, a, o, name=name: watcher.data[name].append(o.clone()))]
    return watcher.data, watcher.handles
"""  # noqa: E501


def pairs(texts: dict[str, str], *given: str) -> list[Pair]:
    return similar({"01-a": texts}, {"01-a": given})


def test_names_comments_docstrings_and_layout_do_not_count() -> None:
    assert tokens(LONG) == tokens(RENAMED)
    assert pairs({"ann": LONG, "bob": RENAMED}) == [Pair("ann", "bob", ("01-a",), 1.0)]


def test_another_way_to_write_it_is_not_alike() -> None:
    assert likeness(shingles(LONG), shingles(OTHER)) < 0.5
    assert pairs({"ann": LONG, "bob": OTHER}) == []


def test_what_everyone_was_given_tells_nothing() -> None:
    assert pairs({"ann": LONG, "bob": RENAMED}, "raise NotImplementedError", LONG) == []


def test_what_many_wrote_or_what_is_short_tells_nothing() -> None:
    assert pairs(dict.fromkeys(("ann", "bob", "cy", "di"), LONG)) == []
    assert len(pairs(dict.fromkeys(("ann", "bob", "cy"), LONG))) == 3
    assert pairs(dict.fromkeys(("ann", "bob"), "def f(x):\n    return x.register_hook(lambda grad: 2 * grad)")) == []


def test_those_with_the_most_in_common_come_first() -> None:
    found = similar(
        {"01-a": {"ann": LONG, "bob": LONG, "cy": OTHER, "di": OTHER}, "01-b": {"cy": LONG, "di": LONG}}, {}
    )
    assert [(pair.first, pair.second, pair.keys) for pair in found] == [
        ("cy", "di", ("01-a", "01-b")),
        ("ann", "bob", ("01-a",)),
    ]


@pytest.mark.parametrize("text", ["def f(:", '"""', "\x00", "  x\n y", "(" * 3000, "1__2 $ ?", "é" * 500, "\ud800"])
def test_text_that_is_no_python_is_compared_with_nothing(text: str) -> None:
    assert pairs({"ann": text, "bob": text}) == []


def test_a_cell_of_unusual_length_is_not_taken_apart() -> None:
    line = "def f(x):\n return (" + '"a" ' * 2000 + ")"
    assert tokens(line)
    started = time.process_time()
    assert tokens(line + '"a" ' * 500_000) == []
    assert time.process_time() - started < 1
