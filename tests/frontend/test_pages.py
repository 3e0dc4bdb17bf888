"""`class.html` and feedback pages in a real browser, by the rules of axe-core: at a desk, enlarged, and on a phone."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.frontend import axe
from tests.frontend.test_jupyterlab import CHROMIUM
from tests.make_class import make_class
from tests.notebooks import LESSON

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed: apt install chromium"),
    pytest.mark.skipif(not importlib.util.find_spec("playwright"), reason="no Playwright: pip install -e '.[browser]'"),
    pytest.mark.skipif(bool(axe.MISSING), reason=axe.MISSING),
]


def test_the_pages_break_no_rule_of_accessibility_and_fit_a_phone(tmp_path: Path) -> None:
    from playwright.sync_api import sync_playwright

    make_class(tmp_path / "class", (LESSON,))
    grade = [sys.executable, "-m", "graders.cli", "grade", str(tmp_path / "class"), "--out", str(tmp_path / "out")]
    subprocess.run(grade, check=True, capture_output=True)
    # A wrong answer, one that does not end, and a notebook that takes over what is beside it.
    feedback = [tmp_path / "out/feedback" / name / f"{LESSON}.html" for name in ("cleo", "finn", "gwen")]
    found: dict[tuple[str, str], list[str]] = {}
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        for scheme, width in (("light", 1280), ("dark", 640), ("light", 390)):  # 640 is what 200 % leave of 1280
            page = browser.new_page(viewport={"width": width, "height": 800}, color_scheme=scheme)
            for file in (tmp_path / "out/class.html", *feedback):
                page.goto(file.as_uri())
                wide = page.evaluate("document.documentElement.scrollWidth > innerWidth")
                problems = [*axe.violations(page, "html"), *(["wider than the window"] if wide else [])]
                if problems:
                    found[f"{file.parent.name}/{file.name}", f"{scheme}, {width}"] = problems
            page.close()
        ordered, wanted = order_and_find(browser.new_page(), tmp_path / "out/class.html")
        browser.close()
    assert found == {}
    assert (*ordered[:2], ordered[-1]) == ("gwen", "hana", "ben")  # no points, and all
    assert sorted(ordered) == ["ada", "ben", "cleo", "dev", "eli", "finn", "gwen", "hana"]
    assert wanted == ["cleo", "1 of 8"]


def order_and_find(page: Any, file: Path) -> tuple[list[str], list[str]]:
    """The students with the fewest points first, and what is left when one of them is looked for."""
    page.goto(file.as_uri())
    names = page.locator(".matrix tbody tr:visible th")
    page.get_by_label("Order").select_option("fewest points first")
    ordered = names.all_inner_texts()
    page.get_by_label("Find a student").fill("CLE")
    return ordered, [*names.all_inner_texts(), page.locator("#found").inner_text()]
