"""Settings of Sphinx: `sphinx-build -W docs build/site`, or `pipx run nox -s site`."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

project = "Hookwork"
author = "The Hookwork authors"
copyright = f"2026 {author}"

extensions = ["docs.lesson_pages", "docs.matrix_page", "docs.message_search", "myst_nb", "sphinx_copybutton"]
exclude_patterns: list[str] = []
nb_execution_mode = "off"  # what cells show is in the notebooks; see lesson_pages.py
nb_merge_streams = True
nb_render_markdown_format = "myst"  # what `compare` shows is the text of a lesson, tables included
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 4

myst_heading_slug_func = "docs.lesson_pages.anchor"

html_theme = "furo"
html_title = "Hookwork"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False
html_theme_options = {"navigation_with_keys": False}
copybutton_exclude = ".linenos, .gp, .go"
