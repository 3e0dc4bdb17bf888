"""The web site in a real browser: links, anchors, alt texts, the console, what is loaded, search, a phone's width.

Needs the extras `[docs,browser]` and a Chromium (`apt install chromium`).
"""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote, urldefrag, urlparse

import pytest

from graders.core import course
from graders.learner.explain import sections

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
ROOT = Path(__file__).parent.parent.parent

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed: apt install chromium"),
    pytest.mark.skipif(
        not all(importlib.util.find_spec(name) for name in ("playwright", "sphinx", "myst_nb", "furo")),
        reason="Playwright or Sphinx is missing: pip install -e '.[docs,browser]'",
    ),
]

LOOK = """() => ({
    links: [...document.querySelectorAll("a[href]")].map(a => a.href),
    anchors: [...document.querySelectorAll("[id]")].map(e => e.id),
    bare: [...document.querySelectorAll("img")].filter(i => !i.alt.trim() || !i.naturalWidth).map(i => i.src),
    wide: document.documentElement.scrollWidth - document.documentElement.clientWidth,
})"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built from a copy of what makes it: a build writes the lessons' pages beside the guides."""
    folder = tmp_path_factory.mktemp("site")
    for name in ("docs", "graders", "lessons", "solutions"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.rmtree(folder / "docs" / "lessons", ignore_errors=True)  # what a build by hand left
    shutil.copy(ROOT / "pyproject.toml", folder)
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html", "docs", "html"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "html"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


def test_every_page_is_sound_on_a_phone(site: Path, browser: Any) -> None:
    page = browser.new_page(viewport={"width": 390, "height": 800})
    complaints: list[str] = []
    requests: list[str] = []
    page.on("console", lambda message: complaints.append(f"{page.url}: {message.text}"))
    page.on("pageerror", lambda error: complaints.append(f"{page.url}: {error}"))
    page.on("request", lambda request: requests.append(request.url))
    seen = {}
    for file in sorted(site.rglob("*.html")):
        page.goto(file.as_uri())
        for picture in page.locator("img").all():
            picture.evaluate("i => { i.loading = 'eager'; return i.decode() }")
        seen[file] = page.evaluate(LOOK)
    assert {f"lessons/{lesson}.html" for lesson in course.lesson_stems()} <= {
        str(file.relative_to(site)) for file in seen
    }
    assert complaints == []
    assert [address for address in requests if not address.startswith(("file:", "data:"))] == []
    assert {file.name: found["bare"] for file, found in seen.items() if found["bare"]} == {}
    assert {file.name: found["wide"] for file, found in seen.items() if found["wide"]} == {}
    lost, inside = [], 0
    for file, found in seen.items():
        for link in found["links"]:
            address, anchor = urldefrag(link)
            if urlparse(address).scheme == "file":
                inside += 1
                target = Path(unquote(urlparse(address).path))
                known = seen.get(target, {"anchors": []})["anchors"]
                if not target.is_file() or (anchor and unquote(anchor) not in known):
                    lost.append(f"{file.name}: {link}")
    print(f"{len(seen)} pages, {inside} links inside")
    assert lost == []
    assert inside > 500


def test_search_works_from_a_folder(site: Path, browser: Any) -> None:
    page = browser.new_page()
    page.goto((site / "index.html").as_uri())
    page.get_by_label("Search").first.fill("retain_grad")
    page.keyboard.press("Enter")
    page.locator("#search-results li a").first.wait_for(timeout=20_000)
    assert any("lessons/01_" in link.get_attribute("href") for link in page.locator("#search-results li a").all())


def test_a_message_that_is_pasted_into_the_search_leads_to_its_section(site: Path, browser: Any) -> None:
    page = browser.new_page()
    page.goto((site / "messages.html").as_uri())
    anchors = page.evaluate(LOOK)["anchors"]
    lost = []
    for section in sections():
        text = (section.messages or (section.title.replace("`", ""),))[0].replace("…", " something 17 ")
        page.goto(f"{(site / 'search.html').as_uri()}?q={quote(text)}")
        link = page.locator("#message-found a")
        link.wait_for(timeout=20_000)
        address, anchor = urldefrag(link.get_attribute("href"))
        shown = link.text_content(), address, unquote(anchor) in anchors
        if shown != (section.title, "messages.html", True):
            lost.append((section.title, shown))
    assert lost == []


def test_hints_are_folded_and_open_by_a_click(site: Path, browser: Any) -> None:
    page = browser.new_page()
    page.goto((site / "lessons" / f"{course.lesson_stems()[0]}.html").as_uri())
    hint = page.locator("details.hint").first
    assert not hint.locator("p").last.is_visible()
    hint.locator("summary").click()
    assert hint.locator("p").last.is_visible()


def test_no_answer_is_anywhere(site: Path, browser: Any) -> None:
    page = browser.new_page()
    for lesson in course.lesson_stems():
        page.goto((site / "lessons" / f"{lesson}.html").as_uri())
        text = page.locator("[role=main]").evaluate("main => main.textContent")
        for exercise in course.lesson_exercises(lesson):
            assert course.worked_answer(exercise).strip() not in text
    notebooks = [json.loads(file.read_text(encoding="utf-8")) for file in site.rglob("*.ipynb")]
    assert len(notebooks) == len(course.lesson_stems())  # those that a reader may take are the learner's
    assert [cell for content in notebooks for cell in content["cells"] if cell.get("outputs")] == []
