"""`class.html` and feedback pages in a real browser, by the rules of axe-core: at a desk, enlarged, and on a phone."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from graders.report import class_page
from graders.report.names import file_names
from graders.report.titles import Titles
from tests.batches import at_random
from tests.frontend import axe
from tests.frontend.test_jupyterlab import CHROMIUM
from tests.make_class import make_class
from tests.notebooks import LESSON

SHOWN = "rows => rows.map(row => [...row.querySelectorAll('*')].map(one => [one.className, one.href, one.innerText]))"

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


def test_a_large_class_is_shown_a_page_at_a_time_and_searched_as_a_whole(tmp_path: Path) -> None:
    from playwright.sync_api import sync_playwright

    found = at_random(250, {"01_first": ["01-a", "01-b"], "02_second": ["02-a"]})
    folders = file_names(submission.student for submission in found.submissions)
    (tmp_path / "class.html").write_text(class_page.render(found, Titles(), folders))
    seen = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        still = browser.new_context(java_script_enabled=False).new_page()
        still.goto((tmp_path / "class.html").as_uri())
        page = browser.new_page()
        page.goto((tmp_path / "class.html").as_uri())
        rows = page.locator(".matrix tbody tr")
        written = still.locator(".matrix tbody tr").evaluate_all(SHOWN)
        assert rows.evaluate_all(SHOWN)[:25] == written
        assert (len(written), rows.count()) == (25, 100)
        assert still.locator("#part").inner_text() == "These are the first 25 students; 225 more are in gradebook.csv."
        assert page.locator("#part").count() == 0
        before, after = page.get_by_role("button", name="Previous"), page.get_by_role("button", name="Next")
        for press in (None, after, after, before):
            if press:
                press.press("Enter")
            seen.append((page.locator("#found").inner_text(), rows.count(), before.is_enabled(), after.is_enabled()))
        assert axe.violations(page, "html") == []
        page.get_by_label("Find a student").fill("student 0023")
        assert page.locator("#found").inner_text() == "10 of 250"
        assert rows.locator("th").all_inner_texts() == [f"student 0023{digit}" for digit in range(10)]
        assert not after.is_visible()
        page.get_by_label("Find a student").fill("")
        page.get_by_label("Order").select_option("most points first")
        best = max(float(text.split(" of ")[0]) for text in rows.locator(".points:nth-child(2)").all_inner_texts())
        after.click()
        after.click()
        worst = rows.locator(".points:nth-child(2)").last.inner_text()
        browser.close()
    assert seen == [
        ("1 to 100 of 250", 100, False, True),
        ("101 to 200 of 250", 100, True, True),
        ("201 to 250 of 250", 50, True, False),
        ("101 to 200 of 250", 100, True, True),
    ]
    assert (best, worst) == (6.0, "0 of 6")


def order_and_find(page: Any, file: Path) -> tuple[list[str], list[str]]:
    """The students with the fewest points first, and what is left when one of them is looked for."""
    page.goto(file.as_uri())
    names = page.locator(".matrix tbody tr:visible th")
    page.get_by_label("Order").select_option("fewest points first")
    ordered = names.all_inner_texts()
    page.get_by_label("Find a student").fill("CLE")
    return ordered, [*names.all_inner_texts(), page.locator("#found").inner_text()]
