"""HTML pages: one file each, without anything that is loaded from elsewhere.

No script runs in them but one of ours: a page allows it by its digest, and nothing that somebody else wrote.
"""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from graders.core.results import Status
from graders.core.status_styles import STATUS_STYLES
from graders.core.text import format_count, format_points, shorten_text

FOLDER = Path(__file__).with_name("templates")


def backticks_to_code(text: str) -> Markup:
    """Escaped text in which `backticked` parts are set as code; with an odd backtick, as it is."""
    parts = str(escape(text)).split("`")
    if len(parts) % 2 == 0:
        return escape(text)
    return Markup("".join(f"<code>{part}</code>" if index % 2 else part for index, part in enumerate(parts)))


def status_sign(status: Status) -> str:
    """The sign of a status. Few fonts of browsers have the hourglass that terminals show."""
    return "∞" if status is Status.TIMED_OUT else STATUS_STYLES[status].sign


@dataclass(frozen=True)
class Script:
    """A script of ours, and the rule of a page that allows it (Content-Security-Policy)."""

    source: Markup
    rule: Markup


def load_script(name: str) -> Script:
    """A script in `templates/`."""
    source = (FOLDER / name).read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()
    return Script(source=Markup(source), rule=Markup(f"script-src 'sha256-{digest}'"))


def _make_environment() -> Environment:
    # Always escaping: the names of templates must not decide it.
    made = Environment(
        loader=FileSystemLoader(FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update(
        code=backticks_to_code, points=format_points, short=shorten_text, plural=format_count, sign=status_sign
    )
    made.policies["json.dumps_kwargs"] = {"ensure_ascii": False, "separators": (",", ":")}
    made.globals.update(STATUS_STYLES=STATUS_STYLES, Status=Status)
    return made


_TEMPLATES = _make_environment()


def render_template(template: str, **values: object) -> str:
    """A page from a template in `templates/`."""
    return _TEMPLATES.get_template(template).render(**values)
