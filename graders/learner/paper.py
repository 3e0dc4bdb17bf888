"""Write a notebook as a page for paper, for `hookwork export`: folded code is left out, and long lines are wrapped."""

from __future__ import annotations

import re
from pathlib import Path

import nbformat

from graders.core.errors import NotInstalled
from graders.core.files import write_atomically
from graders.learner.folder import LearnerError
from graders.submissions.intake import read_bytes, read_notebook

_MARK = '<meta name="generator" content="hookwork export">'
_STYLE = """\
<style>
@page { margin: 16mm 14mm; }
body { max-width: 60em; margin: 0 auto; }
.jp-InputPrompt, .jp-OutputPrompt, .anchor-link { display: none !important; }
.jp-Notebook pre, .jp-Notebook code {
    white-space: pre-wrap !important; overflow-wrap: anywhere !important; overflow: visible !important;
}
.jp-Notebook img, .jp-Notebook table, .jp-Notebook tr { break-inside: avoid; max-width: 100%; height: auto; }
.jp-Notebook :is(h1, h2, h3, h4) { break-after: avoid; }
.jp-OutputArea, .jp-OutputArea-child, .jp-OutputArea-output, .jp-RenderedHTMLCommon { overflow: visible !important; }
</style>
"""


def write_page(file: Path) -> Path:
    """Write the page of a notebook beside it, and return its path.

    Raises `NotInstalled` without nbconvert, `Unreadable` for a broken notebook, and `LearnerError` if another file has
    the page's name.
    """
    try:
        from nbconvert import HTMLExporter
        from traitlets.config import Config
    except ModuleNotFoundError:
        raise NotInstalled("exporting notebooks", "lab") from None
    page = file.with_suffix(".html")
    if page.is_symlink() or (page.exists() and _MARK not in page.read_text(encoding="utf-8", errors="replace")):
        raise LearnerError(f"{page} is there already, and hookwork export did not write it. Move it away.")
    read_notebook(file)
    content = nbformat.reads(read_bytes(file).decode("utf-8-sig"), as_version=4)
    folded = Config({"TagRemovePreprocessor": {"enabled": True, "remove_input_tags": {"hide-input"}}})
    body, _ = HTMLExporter(config=folded).from_notebook_node(content, {"metadata": {"name": file.stem}})
    # Scripts would be loaded from elsewhere, and paper runs none.
    body = body.replace("<details>", "<details open>")  # the fine print of contracts
    body = re.sub(r"<script\b.*?</script\s*>", "", body, flags=re.DOTALL | re.IGNORECASE)
    write_atomically(page, body.replace("</head>", f"{_MARK}\n{_STYLE}</head>", 1))
    return page
