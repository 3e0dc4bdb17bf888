"""Draw plots as SVG for a page: without scripts, in the page's colours for light and dark, each with a text label."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup, escape

from graders.core.text import shorten_text

BAR_PARTS = (("passed", "✓", "--passed"), ("not yet right", "✗", "--wrong"), ("ended early", "!", "--other"),
         ("not attempted", "·", "--none"))  # fmt: skip
"""The segments of a bar: their meaning, their sign, and their colour as a variable of the page's style sheet."""


def bar_chart(rows: Sequence[tuple[str, Sequence[int]]], label: str) -> Markup:
    """A bar chart with a row (name, counts) for each bar; the counts are those of `BAR_PARTS`.

    A segment shows its count and sign if there is room. `label` is read to people who cannot see the chart; the table
    next to it has the numbers.
    """
    left, width, height = 190, 520, 24
    most = max((sum(counts) for _, counts in rows), default=0) or 1
    parts = []
    for index, (name, counts) in enumerate(rows):
        top = index * height
        parts.append(f'<text x="{left - 8}" y="{top + 16}" text-anchor="end">{escape(shorten_text(name, 26))}</text>')
        start = float(left)
        for (meaning, sign, colour), count in zip(BAR_PARTS, counts):
            size = width * count / most
            if count:
                box = f'x="{start:.1f}" y="{top + 3}" width="{max(0.0, size - 1.5):.1f}" height="{height - 6}"'
                parts.append(f'<rect {box} rx="2" fill="var({colour})"><title>{count} {meaning}</title></rect>')
            if size > 34:
                parts.append(
                    f'<text x="{start + size / 2:.1f}" y="{top + 16}" text-anchor="middle" '
                    f'class="on">{sign} {count}</text>'
                )
            start += size
    return _svg_image(left + width, height * len(rows), label, parts)


def histogram(shares: Sequence[float], label: str) -> Markup:
    """A histogram of shares from 0 to 1 in ten equal parts, the last of which includes 1."""
    counts = count_in_bins(shares)
    width, height, base = 560, 190, 150
    step = width / len(counts)
    most = max(counts, default=0) or 1
    parts = [f'<line x1="0" y1="{base}" x2="{width}" y2="{base}" stroke="var(--line)"/>']
    for index, count in enumerate(counts):
        tall = 120 * count / most
        middle = (index + 0.5) * step
        box = f'x="{index * step + 3:.1f}" y="{base - tall:.1f}" width="{step - 6:.1f}" height="{tall:.1f}"'
        parts.append(f'<rect {box} rx="2" fill="var(--link)"/>')
        if count:
            parts.append(f'<text x="{middle:.1f}" y="{base - tall - 6:.1f}" text-anchor="middle">{count}</text>')
        percent = f"{10 * index}–{10 * (index + 1)}"
        parts.append(f'<text x="{middle:.1f}" y="{base + 17}" text-anchor="middle">{percent}</text>')
    parts.append(f'<text x="{width / 2}" y="{height - 4}" text-anchor="middle">percent of the points</text>')
    return _svg_image(width, height, label, parts)


def count_in_bins(shares: Sequence[float]) -> list[int]:
    """How many shares lie in each tenth of the range from 0 to 1."""
    counts = [0] * 10
    for share in shares:
        counts[min(9, max(0, int(share * 10 + 1e-9)))] += 1
    return counts


def _svg_image(width: float, height: float, label: str, parts: Sequence[str]) -> Markup:
    return Markup(
        f'<svg role="img" aria-label="{escape(label)}" viewBox="0 0 {width:g} {max(height, 1):g}" width="{width:g}" '
        f'xmlns="http://www.w3.org/2000/svg">{"".join(parts)}</svg>'
    )
