"""The examples of guides print what the guides say. Each section runs alone, after the imports at the top of a page."""

from __future__ import annotations

import doctest
import re
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
import torch

DOCS = Path(__file__).parent.parent.parent / "docs"
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
COMPILED = ("`torch.compile`", "A hook that comes to a compiled model", "A hook on the compiled object")
SYMPTOMS, TOOLS, RECIPES = "hook-not-called.md", "which-tool.md", "recipes.md"
IMPORTS = re.compile(r"^>>> (?:from|import) (\w+)", re.M)
SCRIPT = re.compile(r"^```python\n(# (\w+)\.py\n.*?)^```\n.*?^```text\n(.*?)^```$", re.M | re.S)
"""A program for two processes, its name, and what it prints."""


def sections(page: str) -> dict[str, str]:
    """The sections of a page that have examples, by heading; the first has the imports of all."""
    text = re.sub(r"^```.*$", "", (DOCS / page).read_text(encoding="utf-8"), flags=re.M)
    parts = re.split(r"^#+ (.+)$", text, flags=re.M)
    return {title: body for title, body in zip(parts[1::2], parts[2::2]) if ">>> " in body}


def run(page: str, title: str) -> None:
    """Run the imports and the examples of a section; what is not as shown is printed."""
    texts = sections(page)
    test = doctest.DocTestParser().get_doctest(next(iter(texts.values())) + texts[title], {}, title, page, 0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # they are no output, and a page need not show them
        failed, tried = doctest.DocTestRunner(optionflags=FLAGS).run(test)
    assert failed == 0
    assert tried > 0


@pytest.mark.parametrize("title", sections(SYMPTOMS))
def test_a_symptom_is_as_shown(title: str) -> None:
    if title in COMPILED:
        if torch.__version__ < (2, 13):
            pytest.skip("an older PyTorch may call a hook that comes late: the page says so")
        try:
            torch.compile(torch.nn.Identity(), backend="eager")(torch.ones(1))
        except Exception as error:  # for example, a Python that is newer than this PyTorch knows
            pytest.skip(f"torch.compile does not run here: {error}")
    run(SYMPTOMS, title)


@pytest.mark.parametrize("title", sections(RECIPES))
def test_a_recipe_does_what_it_shows(title: str) -> None:
    run(RECIPES, title)


@pytest.mark.parametrize("title", sections(TOOLS))
def test_a_tool_answers_as_shown(title: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    for name in IMPORTS.findall(sections(TOOLS)[title]):
        pytest.importorskip(name, exc_type=Exception)  # a torchvision for another build of torch raises RuntimeError
    run(TOOLS, title)


@pytest.mark.slow
@pytest.mark.skipif(
    not torch.distributed.is_available() or torch.__version__ < (2, 6),
    reason="this PyTorch has no torch.distributed, or not yet fully_shard",
)
@pytest.mark.parametrize(
    ("source", "shown"),
    [
        pytest.param(source, shown, id=name)
        for page in (SYMPTOMS, RECIPES)
        for source, name, shown in SCRIPT.findall((DOCS / page).read_text(encoding="utf-8"))
    ],
)
def test_two_processes_print_what_is_shown(source: str, shown: str, tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(source, encoding="utf-8")
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "script.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    assert (done.returncode, done.stdout) == (0, shown), done.stderr
