"""A learner's first exercise in a real browser: untouched, wrong, raised, right.

In JupyterLab and in Notebook 7, in a light and in a dark theme, at a desk, enlarged twice, and on a phone. Needs the
extra `[browser]` and a Chromium (`apt install chromium`). The screenshots lie in pytest's temporary folder.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from graders.learner.folder import copy_lessons
from tests.frontend import axe
from tests.learner.answers import FIRST
from tests.notebooks import BRANCH, LESSON_1

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
ROOT = Path(__file__).parent.parent.parent
TOKEN = "a-token-for-this-test"
SECONDS = 120_000
"""How long a browser waits for something, in milliseconds: the first check loads torch."""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed: apt install chromium"),
    pytest.mark.skipif(
        not all(map(importlib.util.find_spec, ("playwright", "jupyterlab", "notebook"))),
        reason="Playwright, JupyterLab or Notebook is missing: pip install -e '.[dev,browser]'",
    ),
]

SETTINGS = {
    "notebook-extension/tracker": {"windowingMode": "none"},  # every cell is in the page, also those out of sight
    "apputils-extension/notification": {"fetchNews": "false", "checkForUpdates": False},
}
WRONG = LESSON_1.wrong["01-branch-grads"]["retained-too-late"]
RAISES = "def branch_grads(w, x):\n    a = w + x\n    return a.gradient"


@dataclass(frozen=True)
class Front:
    """What a learner looks at: a program with a theme, in a window of so many pixels."""

    program: str
    page: str
    theme: str
    width: int = 1280
    height: int = 1000


LAB, ALONE, NOTEBOOK = ("jupyterlab", "lab/tree"), ("jupyterlab", "doc/tree"), ("notebook", "notebooks")
"""A small window has no room for a list of files beside the notebook: JupyterLab can show the notebook alone."""
FRONTS = {
    "lab light": Front(*LAB, "JupyterLab Light"),
    "lab on a phone": Front(*ALONE, "JupyterLab Dark", 390, 844),
    "notebook enlarged": Front(*NOTEBOOK, "JupyterLab Light", 640, 500),  # what 200 % leave of the window
    "notebook dark": Front(*NOTEBOOK, "JupyterLab Dark"),
}
"""Each program in each theme; a small window and a narrow one, in one of them."""


@pytest.fixture(params=FRONTS)
def front(request: pytest.FixtureRequest) -> Front:
    return FRONTS[request.param]


@pytest.fixture
def lab(front: Front, tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """The address of its server, and the learner's folder in which that was started."""
    folder, settings = tmp_path / "course", tmp_path / "settings" / "@jupyterlab"
    copy_lessons(folder)
    for name, values in {**SETTINGS, "apputils-extension/themes": {"theme": front.theme}}.items():
        file = settings / f"{name}.jupyterlab-settings"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(values))
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("JUPYTER")},
        "HOME": str(tmp_path),
        "PYTHONPATH": str(ROOT),
        "JUPYTERLAB_SETTINGS_DIR": str(settings.parent),
        "JUPYTERLAB_WORKSPACES_DIR": str(tmp_path / "workspaces"),
    }
    command = [sys.executable, "-m", front.program, "--no-browser", "--allow-root", f"--port={port}", "--ip=127.0.0.1",
               f"--IdentityProvider.token={TOKEN}", "--ServerApp.port_retries=0"]  # fmt: skip
    with (tmp_path / "lab.log").open("w") as log:
        server = subprocess.Popen(command, cwd=folder, env=environment, stdout=log, stderr=log)
    try:
        wait_for(f"http://127.0.0.1:{port}/api/status?token={TOKEN}", server, tmp_path / "lab.log")
        yield f"http://127.0.0.1:{port}", folder
    finally:
        server.terminate()
        try:
            server.wait(20)
        except subprocess.TimeoutExpired:
            server.kill()


def wait_for(address: str, server: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + SECONDS / 1000
    while True:
        try:
            urllib.request.urlopen(address, timeout=5).close()
            return
        except OSError:
            assert server.poll() is None, log.read_text()
            assert time.monotonic() < end, log.read_text()
            time.sleep(0.5)


class Notebook:
    def __init__(self, page: Any, shots: Path) -> None:
        self.page, self.shots = page, shots
        self.answer = page.locator(".jp-CodeCell").filter(has=page.locator(".cm-content", has_text="def branch_grads"))
        self.check = page.locator(".jp-CodeCell").filter(
            has=page.locator(".cm-content", has_text='check("01-branch-grads")')
        )

    def run_all(self) -> None:
        """Choose Run > Run All Cells."""
        self.page.get_by_role("menuitem", name="Run", exact=True).click()
        self.page.get_by_role("menuitem", name="Run All Cells", exact=True).click()

    def cell(self, text: str) -> Any:
        return self.page.locator(".jp-CodeCell").filter(has=self.page.locator(".cm-content", has_text=text))

    def type_guess(self, key: str, values: str) -> None:
        """Replace the dots of a guess; it is not run."""
        self.cell(f'guess("{key}"').locator(".cm-content").click()
        self.page.keyboard.press("Control+A")
        self.page.keyboard.insert_text(f'guess("{key}", {values})')

    def type_answer(self, source: str) -> None:
        """Replace the answer, run it, and run the check below it."""
        self.answer.locator(".cm-content").click()
        self.page.keyboard.press("Control+A")
        self.page.keyboard.insert_text(source.strip("\n"))
        self.page.keyboard.press("Shift+Enter")
        self.check.locator(".cm-content").click()
        self.page.keyboard.press("Shift+Enter")

    def verdict(self, word: str) -> Any:
        """The card below the check, once it says `word`; its picture is kept."""
        return self.seen(self.check.get_by_role("group", name=f"{word}: The gradient of every branch"), word)

    def seen(self, card: Any, word: str) -> Any:
        """A card, once it is there: all of it can be read, and its picture is kept."""
        try:
            card.wait_for()
        except Exception as error:
            errors = self.page.locator("[data-mime-type='application/vnd.jupyter.error']").all_inner_texts()
            prompts = self.page.locator(".jp-CodeCell .jp-InputPrompt").all_inner_texts()
            raise AssertionError(f"no {word!r}; prompts: {prompts}; errors: {errors}") from error
        card.scroll_into_view_if_needed()
        name = word.lower().replace(" ", "-")
        card.screenshot(path=self.shots / f"{name}.png")
        self.page.screenshot(path=self.shots / f"{name}-page.png")
        assert card.evaluate("card => card.getBoundingClientRect().right <= innerWidth")
        assert card.evaluate("card => card.scrollWidth <= card.clientWidth"), "something is cut off"
        assert axe.MISSING or axe.violations(self.page, "[data-mime-type='text/html'] [role='group']") == []
        return card


@pytest.fixture
def notebook(front: Front, lab: tuple[str, Path], tmp_path: Path) -> Iterator[Notebook]:
    """Lesson 1, open, with a kernel that is ready."""
    from playwright.sync_api import sync_playwright

    shots = tmp_path / "screenshots"
    shots.mkdir()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": front.width, "height": front.height})
        page.set_default_timeout(SECONDS)
        # Where Run All comes before the kernel's connection, a dialog asks for a kernel. The sign for idle is no help:
        # it stands there sooner.
        with page.expect_websocket(lambda socket: "/channels" in socket.url):
            page.goto(f"{lab[0]}/{front.page}/{FIRST}?token={TOKEN}")
            page.locator(".jp-CodeCell").first.wait_for()
        try:
            yield Notebook(page, shots)
        finally:
            page.screenshot(path=shots / "last.png")
            browser.close()


def test_the_first_exercise_from_untouched_to_passed(notebook: Notebook, lab: tuple[str, Path]) -> None:
    notebook.type_guess("01-two-leaves", "w=5, x=3")
    notebook.type_guess("01-two-passes", "a=4, hook=[2, 2]")
    notebook.run_all()
    part = notebook.cell('compare("01-two-leaves"').get_by_role("group", name="1 of 2 as you predicted")
    rows = notebook.seen(part, "prediction").get_by_role("row").all_inner_texts()
    assert [row.split() for row in rows[1:]] == [["w", "5", "5", "✓"], ["x", "3", "2"]]
    right = notebook.cell('compare("01-two-passes"').get_by_role("group", name="As you predicted", exact=True)
    notebook.seen(right, "right prediction")
    assert notebook.cell('compare("01-five-steps"').get_by_role("group").count() == 0  # nothing was guessed
    untouched = notebook.verdict("Not attempted yet")
    assert "0 of 1 point" in untouched.inner_text()
    assert notebook.page.locator("[data-mime-type='application/vnd.jupyter.error']").count() == 0

    notebook.type_answer(WRONG)
    wrong = notebook.verdict("Not yet right")
    assert "a or b kept no gradient." in wrong.inner_text()
    refused = wrong.get_by_role("img", name="does not hold")
    assert refused.count() == 1
    assert "not yet: the example of the contract comes out" in wrong.inner_text()
    wrong.get_by_text("More: 4 other checks").click()
    assert refused.count() == 1
    # The task, the tensors of the caller and another call: they show nothing but the mistake that is named.
    assert wrong.get_by_role("img", name="not judged").count() == 3
    assert wrong.get_by_role("columnheader").all_inner_texts() == ["expected", "yours"]

    notebook.type_answer(RAISES)
    raised = notebook.verdict("An exception was raised")
    assert "line 3 of its cell" in raised.inner_text()
    assert "return a.gradient" in raised.inner_text()
    assert "branch_grads(tensor([" in raised.inner_text()

    notebook.type_answer(BRANCH)
    passed = notebook.verdict("Passed")
    assert "1 of 1 point" in passed.inner_text()
    assert "Next: 01-per-pass-grads" in passed.inner_text()
    record = json.loads((lab[1] / "hookwork-progress.json").read_text())
    assert record["exercises"] == {"01-branch-grads": "passed"}
    assert record["predictions"] == {"01-two-leaves": False, "01-two-passes": True}
