"""A Sphinx extension: whoever pastes a message of PyTorch into the site's search is led to its section.

Sphinx finds pages that have every word, and a message has names and numbers of its own. So the search page gets the
parts that never differ, of each message, as `hookwork explain` knows them, and `static/message_search.js` looks there.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from docs.lesson_pages import anchor
from graders.learner.explain import sections

if TYPE_CHECKING:
    from sphinx.application import Sphinx


def setup(app: Sphinx) -> dict[str, bool]:
    """Add the two scripts to the search page."""
    app.connect("html-page-context", add_scripts)
    return {"parallel_read_safe": True}


def add_scripts(app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: object) -> None:
    """Give the search page what it needs; the others go without."""
    if pagename == "search":
        app.add_js_file(None, body=f"const MESSAGES = {known_messages()};")
        app.add_js_file("message_search.js", loading_method="defer")


def known_messages() -> str:
    """For each section with messages: its title, its anchor, and for each message the parts that never differ."""
    known = [
        {"title": section.title, "anchor": anchor(section.title.replace("`", "")), "parts": section.parts}
        for section in sections()
    ]
    return json.dumps(known, ensure_ascii=False).replace("</", "<\\/")
