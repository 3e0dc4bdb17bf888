"""Render HTML pages from templates. Each page is a single file that loads nothing from elsewhere.

The only scripts that run are ours: a page allows them by their digests, so nothing that somebody else wrote can run.
"""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from graders.core.results import Status
from graders.core.status_styles import STATUS_STYLES, check_style
from graders.core.text import format_count, format_points, format_share, shorten_text

FOLDER = Path(__file__).with_name("templates")


def backticks_to_code(text: str) -> Markup:
    """`text`, escaped, with `backticked` parts as code. If a backtick is unpaired, all of them stay as they are."""
    parts = str(escape(text)).split("`")
    if len(parts) % 2 == 0:
        return escape(text)
    return Markup("".join(f"<code>{part}</code>" if index % 2 else part for index, part in enumerate(parts)))


def status_sign(status: Status) -> str:
    """The sign of a status. The hourglass that terminals show is missing from most fonts of browsers."""
    return "∞" if status is Status.TIMED_OUT else STATUS_STYLES[status].sign


def load_script(name: str) -> dict[str, Markup]:
    """The script `name` in `templates/`, and the rule for a page's Content-Security-Policy that allows it."""
    source = (FOLDER / name).read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()
    return {"source": Markup(source), "rule": Markup(f"script-src 'sha256-{digest}'")}


def _make_environment() -> Environment:
    # Always escape, whatever a template's name ends in.
    loader = FileSystemLoader(FOLDER)
    made = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    made.filters.update(
        code=backticks_to_code,
        points=format_points,
        share=format_share,
        short=shorten_text,
        plural=format_count,
        sign=status_sign,
        look=check_style,
    )
    made.policies["json.dumps_kwargs"] = {"ensure_ascii": False, "separators": (",", ":")}
    made.globals.update(STATUS_STYLES=STATUS_STYLES, Status=Status)
    return made


_TEMPLATES = _make_environment()


def render_template(template: str, **values: object) -> str:
    """The page that a template in `templates/` makes from these values. Raises if it uses a value that is not given."""
    return _TEMPLATES.get_template(template).render(**values)
