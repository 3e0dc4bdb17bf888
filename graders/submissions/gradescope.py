"""Reads from Gradescope's export of an assignment whose each folder is, and when it was handed in.

The export has a folder `submission_123` for each submission, and beside them `submission_metadata.yml`, in the form
that Ruby writes. Only a few lines of each entry matter; the rest, which may be large, is skipped:

    submission_123:
      :submitters:
      - :name: Ada Lovelace
        :sid: '1001'
        :email: ada@x.edu
      :created_at: 2026-11-24 18:03:21.000000000 Z
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path

from graders.core.text import shorten_text, without_surrogates
from graders.submissions.archives import METADATA_NAME
from graders.submissions.intake import Unreadable, open_regular
from graders.submissions.layout import Layout, Place
from graders.submissions.lms import Owner
from graders.submissions.tree import Tree

_EXPORT = re.compile(r"(?i)assignment_\d+_export.*")
_ENTRY = re.compile(r"(?P<quote>['\"]?)(?P<folder>[^\s:'\"#-][^:'\"]*)(?P=quote):\s*")
_FIELD = re.compile(r"(?P<dash>- )?:(?P<name>\w+):(?: (?P<value>.*))?")
_TIME = re.compile(r"(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d:\d\d)(?:\.\d*)? ?(?:(?:Z|UTC)|([+-]\d\d):?(\d\d))?")
_ESCAPE = re.compile(r"\\(x[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8}|.)")
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "e": "\x1b", "a": "\a", "b": "\b", "f": "\f", "v": "\v", "0": "\0"}


@dataclass(frozen=True)
class Submitter:
    """A student as Gradescope knows them: a name, a number that the course gave, and an address."""

    name: str
    number: str = ""
    email: str = ""


@dataclass(frozen=True)
class HandedInBy:
    """Who handed in a folder together, and when, in seconds since 1970 (0 if unknown)."""

    submitters: tuple[Submitter, ...]
    time: float = 0.0


def export_layout(tree: Tree) -> Layout | None:
    """The layout of one or several exports; None if a file that counts lies outside of them.

    A student may hand in a file of that name. So it has a say only in the folder that is marked, or in one that is
    named as Gradescope names exports, and never below another.
    """
    files = {
        entry.parts[:-1]: entry.file
        for entry in sorted(tree.entries, key=lambda entry: len(entry.parts))
        if entry.name == METADATA_NAME and entry.file and all(map(_EXPORT.fullmatch, entry.parts[-2:-1]))
    }
    tops = {entry: next((top for top in files if entry.parts[: len(top)] == top), None) for entry in tree.entries}
    if not files or any(top is None and entry.counts for entry, top in tops.items()):
        return None
    found = Layout("folders as Gradescope names them", is_class=True)
    said = {top: read_metadata(file) for top, file in files.items()}
    names = Counter(one.name for one in {one for by_folder in said.values() for one in _everyone(by_folder)})
    unknown: set[str] = set()
    for entry, top in tops.items():
        if top is None or len(entry.parts) == len(top) + 1:
            by_platform = entry.name == METADATA_NAME
            found.without_owner[entry] = "Gradescope added it." if by_platform else "It is in nobody's folder."
            continue
        folder = entry.parts[len(top)]
        if folder not in said[top]:
            unknown.add(folder)
        by = said[top].get(folder, HandedInBy((Submitter(folder),)))
        # Numbers of a university could be those of other people on another platform: they stay out of results.
        owners = [Owner(one.name, (one.number or one.email) if names[one.name] > 1 else "") for one in by.submitters]
        found.places[entry] = Place(owners[0], entry.name, attempt=by.time)
        found.partners[entry] = tuple(owners[1:])
        found.known_by |= {owner: (one.number, one.email) for owner, one in zip(owners, by.submitters)}
        found.owners |= {*owners}
    if unknown:
        named = ", ".join(shorten_text(folder, 40) for folder in sorted(unknown)[:4])
        which = "this folder is" if len(unknown) == 1 else f"these {len(unknown)} folders are"
        found.doubts.append(f"{METADATA_NAME} does not say whose {which}: {named}.")
    found.tell_equal_numbers()
    return found


def read_metadata(file: Path) -> dict[str, HandedInBy]:
    """Who handed in each folder; without those of which the file does not say it. Empty if it cannot be read."""
    try:
        with open_regular(file) as raw:
            return parse_metadata(line.decode("utf-8", "replace") for line in raw)
    except (Unreadable, OSError):
        return {}


def parse_metadata(lines: Iterable[str]) -> dict[str, HandedInBy]:
    """The same from the lines of the file."""
    found: dict[str, HandedInBy] = {}
    for folder, fields in _entries(lines):
        moment = next((value for name, value in fields if name == "created_at"), "")
        if submitters := tuple(_submitters(fields)):
            found[folder] = HandedInBy(submitters, _parse_time(moment))
    return found


def _entries(lines: Iterable[str]) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """Each folder, and as pairs its own fields and those of its submitters, but nothing further in.

    A submitter begins with a pair that is named `-`.
    """
    folder, fields = "", list[tuple[str, str]]()
    own_indent, is_submitter = 0, False
    for line in lines:
        text = line.strip()
        indent = len(line) - len(line.lstrip(" "))
        if not indent and (entry := _ENTRY.fullmatch(text)):
            if folder:
                yield folder, fields
            folder, fields, own_indent, is_submitter = entry["folder"].strip(), [], 0, False
            continue
        own_indent = own_indent or indent
        field = _FIELD.fullmatch(text)
        is_own = field is not None and not field["dash"] and indent == own_indent
        if field and is_own:
            is_submitter = field["name"] == "submitters"
        if field and (is_own or is_submitter):
            fields += [("-", "")] if field["dash"] else []
            fields.append((field["name"], field["value"] or ""))
        elif is_submitter and text:  # a long value goes on in the next line
            name, value = fields[-1]
            fields[-1] = name, value[:-1] + text.removeprefix("\\") if value.endswith("\\") else f"{value} {text}"
    if folder:
        yield folder, fields


def _everyone(by_folder: Mapping[str, HandedInBy]) -> set[Submitter]:
    return {submitter for by in by_folder.values() for submitter in by.submitters}


def _submitters(fields: list[tuple[str, str]]) -> Iterator[Submitter]:
    people: list[dict[str, str]] = []
    for name, value in fields:
        if name == "-":
            people.append({})
        elif people:
            people[-1].setdefault(name, _scalar(value))
    for person in people:
        name, number, email = (person.get(field, "") for field in ("name", "sid", "email"))
        if name or number or email:
            yield Submitter(name or number or email, number, email)


def _scalar(text: str) -> str:
    """The text of a plain or quoted value; empty for null, and for any other form."""
    text = text.strip()
    if len(text) > 1 and text[0] == text[-1] == "'":
        return text[1:-1].replace("''", "'").strip()
    if len(text) > 1 and text[0] == text[-1] == '"':
        return without_surrogates(_ESCAPE.sub(_unescape, text[1:-1])).strip()
    return "" if text in ("~", "null") or text.startswith(("!", "|", ">", "&", "*", "{", "[", "'", '"')) else text


def _unescape(match: re.Match[str]) -> str:
    code = match[1]
    if len(code) > 1:
        number = int(code[1:], 16)
        return chr(number) if number <= 0x10FFFF else "\N{REPLACEMENT CHARACTER}"
    return _ESCAPED.get(code, code)


def _parse_time(text: str) -> float:
    """A time in seconds since 1970, in UTC if it names no zone; 0 if it cannot be read."""
    match = _TIME.fullmatch(text.strip().strip("'\""))
    if match is None:
        return 0.0
    hours, minutes = int(match[3] or 0), int(match[4] or 0)
    try:
        zone = timezone(timedelta(hours=hours, minutes=-minutes if (match[3] or "").startswith("-") else minutes))
        return datetime.fromisoformat(f"{match[1]}T{match[2]}").replace(tzinfo=zone).timestamp()
    except (ValueError, OverflowError):
        return 0.0
