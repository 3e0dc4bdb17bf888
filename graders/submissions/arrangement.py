"""Finds out which student each file belongs to, from its folder and its name but never from its content.

A file in a student's folder, or with a name that a platform wrote, is certain. Where names leave it open, the likeliest
reading is taken and reported as a doubt. A file without any clue belongs to nobody.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence

from graders.core.text import shorten_text
from graders.submissions.archives import is_wanted, wanted_suffix
from graders.submissions.folder_names import (
    ATTEMPT_FOLDER,
    HANDED_IN,
    OF_A_GROUP,
    doubts_about_copies,
    is_of_lesson,
    owners_in_names,
    split_handed_in,
    student_in_name,
    without_suffix,
)
from graders.submissions.gradescope import export_layout
from graders.submissions.layout import Layout, Place, place_of
from graders.submissions.lms import SAKAI_FOLDER, NameParts, NamePattern, Owner, file_format, folder_format
from graders.submissions.tree import Entry, Tree

LessonOf = Callable[[Entry], str | None]

CONFIRM = "If that is right, confirm it with"


def arrange_tree(
    tree: Tree, name: str, lesson_of: LessonOf, *, packed: bool, names: NamePattern | None = None, single: bool = False
) -> Layout:
    """Assign the files of a tree to students.

    `name` is the name of the folder or archive that is marked, and of the student if everything belongs to one, as
    `single` says it does. `packed` says whether it is an archive. `names` is the instructor's `--names`; None means
    that names are to be guessed.
    """
    if single or not (tree.entries or tree.folders):
        return _one_student_layout(tree.entries, name)
    if names is not None and names.of_paths:
        return _layout_by_paths(tree, names)
    if names is None and (exported := export_layout(tree)):
        return exported
    return _Arrangement(tree, name, lesson_of, packed, names).layout()


def _one_student_layout(entries: Iterable[Entry], name: str) -> Layout:
    owner = Owner(name)
    return Layout(
        "the work of one student", False, {entry: Place(owner, entry.name) for entry in entries}, owners={owner}
    )


def _layout_by_paths(tree: Tree, names: NamePattern) -> Layout:
    found = Layout(names.format.name, is_class=True)
    for entry in tree.entries:
        named = names.format.parse_file_name("/".join(entry.parts))
        if named:
            found.places[entry] = Place(named.owner, _file_name(named, entry), attempt=named.attempt)
        else:
            found.without_owner[entry] = f"Its path does not fit {names.text!r}."
    found.owners = {place.owner for place in found.places.values()}
    return found


def _file_name(named: NameParts, entry: Entry) -> str:
    """The name that the owner gave a file, with its suffix even if the pattern left that out."""
    given = named.file.rpartition("/")[2] or entry.name
    suffix = wanted_suffix(entry.name)
    return given if not suffix or given.lower().endswith(suffix) else given + suffix


class _Arrangement:
    """How the files of a tree are read. `level` is how many folders are above the students' own; None works it out."""

    def __init__(
        self,
        tree: Tree,
        name: str,
        lesson_of: LessonOf,
        packed: bool,
        names: NamePattern | None,
        level: int | None = None,
    ) -> None:
        self.name, self.lesson_of, self.packed, self.names = name, lesson_of, packed, names
        entries, self.aside = split_handed_in(tree.entries)
        self.entries = entries
        self.counting = [entry for entry in entries if entry.counts] or entries
        others = {entry.parts[: place + 1] for entry in self.aside for place in range(len(entry.parts))}
        kept = {entry.parts[: place + 1] for entry in entries for place in range(len(entry.parts))}
        self.folders = [folder for folder in tree.folders if folder in kept or folder not in others]
        self.level = self._student_level() if level is None else level

    def layout(self) -> Layout:
        """The owner of each file, as far as it can be told."""
        above = self.counting[0].parts[: self.level] if self.counting else ()
        below = [
            entry for entry in self.entries if entry.parts[: self.level] == above and len(entry.parts) > self.level
        ]
        loose = [entry for entry in below if len(entry.parts) == self.level + 1]
        foldered = [entry for entry in below if len(entry.parts) > self.level + 1]
        found = self._class_layout(loose, foldered, above) or self._single_layout(loose, foldered)
        self._place_other_files(found)
        found.without_owner |= dict.fromkeys(
            self.aside, "It was not handed in: its folder is for working files, or for the course's own."
        )
        return found

    def _place_other_files(self, found: Layout) -> None:
        """Assign each file outside of the students' folders to the student in its name, with a doubt, or to nobody."""
        strays = [entry for entry in self.entries if entry not in found.places and entry not in found.without_owner]
        for entry in strays:
            lesson = self.lesson_of(entry)
            name = student_in_name(entry.name, lesson) if lesson else ""
            if name:
                found.places[entry] = Place(Owner(name), entry.name)
                found.owners.add(Owner(name))
                found.doubts.append(
                    f"{shorten_text(entry.name, 100)} is not named like the others. It was taken as the work of "
                    f"{shorten_text(name, 60)!r}."
                )
            else:
                found.without_owner[entry] = (
                    "It is outside of the students' folders, and nothing says whose it is. If it is a student's, put "
                    "it into a folder with that student's name."
                )

    # The level of the students' folders.

    def _student_level(self) -> int:
        parts = self.counting[0].parts if self.counting else ()
        if SAKAI_FOLDER in parts:
            return max(0, parts.index(SAKAI_FOLDER) - 1)
        for folder in HANDED_IN:
            if folder in parts[:-2]:
                return parts.index(folder) + 1
        level = 0
        while self.counting and all(len(entry.parts) > level + 1 for entry in self.counting):
            if len({entry.parts[level] for entry in self.counting}) > 1:
                break
            level += 1
        if level and not self._are_students(level):
            return 0
        return level

    def _are_students(self, level: int) -> bool:
        """Whether the files and folders at this level belong to several students, when one folder holds them all."""
        loose = [entry.name for entry in self.counting if len(entry.parts) == level + 1]
        above = self.counting[0].parts[:level]
        folders = {folder[level] for folder in self.folders if folder[:level] == above and len(folder) > level}
        folders |= {entry.parts[level] for entry in self.counting if len(entry.parts) > level + 1}
        if self.names is not None:
            parse_file_name, parse_folder_name = self.names.format.parse_file_name, self.names.format.parse_folder_name
            return any(map(parse_file_name, loose)) or any(map(parse_folder_name, folders))
        inner = {part for entry in self.entries for part in entry.parts}
        if file_format(loose) or folder_format(sorted(folders), sorted(inner)):
            return True
        several = len(folders) > 1 and not any(map(ATTEMPT_FOLDER.fullmatch, folders))
        if not several:
            return bool(loose) and self._are_named_side_by_side(level)
        if self._shared_lessons(level) or self._find_sections(level, self.entries):
            return True
        return self.packed and not loose and not self._are_lesson_folders(level)

    def _are_named_side_by_side(self, level: int) -> bool:
        """Whether the files have students' names in their own, in a folder that is named after their lesson."""
        lessons = {entry: lesson for entry in self.counting if (lesson := self.lesson_of(entry))}
        if len(set(lessons.values())) != 1 or len(lessons) < len(self.counting):
            return False
        (lesson,) = set(lessons.values())
        folder = self.counting[0].parts[level - 1]
        return is_of_lesson(folder, lesson) and bool(owners_in_names(self.counting, {lesson: self.counting}))

    def _by_folder(self, level: int, entries: Sequence[Entry]) -> dict[str, list[Entry]]:
        found: defaultdict[str, list[Entry]] = defaultdict(list)
        for entry in entries:
            if len(entry.parts) > level + 1:
                found[entry.parts[level]].append(entry)
        return dict(found)

    def _shared_lessons(self, level: int, entries: Sequence[Entry] | None = None) -> set[str]:
        """The lessons that are found in more than one folder of a level."""
        lessons: defaultdict[str, set[str]] = defaultdict(set)
        for folder, inside in self._by_folder(level, self.counting if entries is None else entries).items():
            for entry in inside:
                if entry.counts and (lesson := self.lesson_of(entry)):
                    lessons[lesson].add(folder)
        return {lesson for lesson, folders in lessons.items() if len(folders) > 1}

    def _are_lesson_folders(self, level: int, entries: Sequence[Entry] | None = None) -> bool:
        """Whether each folder of a level holds one lesson and is named after it."""
        folders = self._by_folder(level, self.counting if entries is None else entries)
        for folder, inside in folders.items():
            lessons = {lesson for entry in inside if entry.counts and (lesson := self.lesson_of(entry))}
            if len(lessons) != 1:
                return False
            (lesson,) = lessons
            if not is_of_lesson(folder, lesson):
                return False
        return bool(folders)

    # A class.

    def _class_layout(self, loose: Sequence[Entry], foldered: Sequence[Entry], above: tuple[str, ...]) -> Layout | None:
        """The layout of a class; None if all of this is the work of one student."""
        level = self.level
        flat = self.names.format if self.names else file_format([entry.name for entry in loose if entry.counts])
        side_by_side = flat is not None and any(flat.parse_file_name(entry.name) for entry in loose)
        if not side_by_side and (sections := self._find_sections(level, foldered)):
            return self._sections_layout(sections)
        folders = self._by_folder(level, foldered)
        empty = {folder[level] for folder in self.folders if folder[:level] == above and len(folder) > level}
        # Next to files that a platform named, an archive is one of them. Elsewhere it is like a folder.
        packed = [name for name in folders if is_wanted(name)]
        counting = [entry.name for entry in loose if entry.counts] or [entry.name for entry in loose]
        files = self.names.format if self.names else file_format([*counting, *packed])
        by_file = {name: named for name in (*(entry.name for entry in loose), *packed)
                   if files and (named := files.parse_file_name(name))}  # fmt: skip
        names = sorted({*folders, *empty} - {*by_file})
        inner = {part for entry in foldered for part in entry.parts[level + 1 :]}
        kind = self.names.format if self.names and self.names.format.folders else folder_format(names, sorted(inner))
        by_folder = {name: named for name in names if kind and (named := kind.parse_folder_name(name))}
        if not by_file and not by_folder and not self._is_class(loose, foldered, empty):
            return None
        found = Layout("a folder for each student", is_class=True)
        if by_file and files:
            found.how = f"files as {files.name} names them"
        elif by_folder and kind:
            found.how = f"folders as {kind.name} names them"
        for entry in loose:
            if entry.name in by_file:
                found.places[entry] = place_of(by_file[entry.name], _file_name(by_file[entry.name], entry))
            for platform in (files, kind):
                if platform and platform.sidecars and platform.sidecars.fullmatch(entry.name):
                    found.without_owner[entry] = f"{platform.name} added it."
        for entry in foldered:
            folder = entry.parts[level]
            named = by_file.get(folder) or by_folder.get(folder) or NameParts(Owner(without_suffix(folder)))
            found.places[entry] = place_of(named, entry.name)
        found.owners = {place.owner for place in found.places.values()}
        if by_file:  # next to named files, an empty folder is a student's only if the platform named it
            empty &= {*by_folder}
        found.owners |= {(by_folder.get(folder) or NameParts(Owner(folder))).owner for folder in empty - {*folders}}
        found.doubts += doubts_about_copies({*folders} - {*by_file} - {*by_folder})
        found.tell_equal_numbers()
        return found

    def _is_class(self, loose: Sequence[Entry], foldered: Sequence[Entry], empty: set[str]) -> bool:
        """Whether folders that no platform named belong to students."""
        if not foldered and not empty:
            return False
        shared = self._shared_lessons(self.level, foldered)
        if any(entry.counts for entry in loose):
            # Probably one student's notebooks and folders, unless several folders hold the same lesson.
            return bool(shared)
        return bool(shared) or not self._are_lesson_folders(self.level, foldered)

    def _find_sections(self, level: int, foldered: Sequence[Entry]) -> dict[str, list[Entry]]:
        """The folders of a level if each holds a class, for a group or a lesson; empty if they are students' folders.

        In most of them, several folders hold the same lesson or a platform named the files.
        """
        folders = self._by_folder(level, foldered)
        holding = {folder: inside for folder, inside in folders.items() if any(entry.counts for entry in inside)}
        names = sorted(holding)
        if folder_format(names, []) or (self.names and (any(map(self.names.format.parse_folder_name, names)))):
            return {}
        sure = sum(self._is_section(level, inside) for inside in holding.values())
        deep = all(len(entry.parts) > level + 2 for inside in holding.values() for entry in inside if entry.counts)
        # Groups with one student each can be recognised only by their names.
        named_as_groups = len(holding) > 1 and all(map(OF_A_GROUP.fullmatch, holding))
        if sure * 2 <= len(holding) and not (deep and (sure or named_as_groups)):
            return {}
        # If folders with the same name hold the same lesson in two places, they are not students' folders.
        claims = [
            (entry.parts[level + 1], lesson, entry.parts[level])
            for inside in holding.values()
            for entry in inside
            if entry.counts and (lesson := self.lesson_of(entry))
        ]
        return folders if len({claim[:2] for claim in claims}) == len(set(claims)) else {}

    def _is_section(self, level: int, inside: Sequence[Entry]) -> bool:
        direct = [entry.name for entry in inside if entry.counts and len(entry.parts) == level + 2]
        if direct:
            return file_format(direct) is not None
        below = self._by_folder(level + 1, inside)
        if folder_format(sorted(below), []):
            return True
        return bool(self._shared_lessons(level + 1, inside)) and not all(map(ATTEMPT_FOLDER.fullmatch, below))

    def _sections_layout(self, sections: dict[str, list[Entry]]) -> Layout:
        """The layouts of the folders of groups or lessons, merged. Equal names in them mean the same student."""
        found = Layout("", is_class=True)
        for folder, inside in sections.items():
            folders = [parts for parts in self.folders if len(parts) > self.level and parts[self.level] == folder]
            level = self.level + 1
            part = _Arrangement(Tree(inside, folders), folder, self.lesson_of, self.packed, self.names, level).layout()
            found.places |= part.places
            found.without_owner |= part.without_owner
            found.owners |= part.owners
            found.doubts += part.doubts
            found.how = found.how or f"{part.how}, in folders of a group or a lesson"
        if sum(self._is_section(self.level, inside) for inside in sections.values()) * 2 <= len(sections):
            named = ", ".join(repr(shorten_text(folder, 40)) for folder in sorted(sections)[:4])
            found.doubts.append(f"{named}: taken as folders of groups, and the folders in them as those of students.")
        found.tell_equal_numbers()
        return found

    # One student's work, or what looks like it.

    def _single_layout(self, loose: Sequence[Entry], foldered: Sequence[Entry]) -> Layout:
        counting = [entry for entry in loose if entry.counts]
        by_lesson: defaultdict[str, list[Entry]] = defaultdict(list)
        for entry in counting:
            if lesson := self.lesson_of(entry):
                by_lesson[lesson].append(entry)
        several = any(len(entries) > 1 for entries in by_lesson.values())
        if self.names is not None and self.names.text != "plain":
            return Layout(f"files as {self.names.format.name} names them", is_class=True)
        if (several or self.names) and not foldered and (owners := owners_in_names(counting, by_lesson)):
            found = Layout("files with the name of a student in each", is_class=True)
            found.places = {entry: Place(owner, entry.name) for entry, owner in owners.items()}
            found.owners = set(owners.values())
            if self.names is None:
                people = ", ".join(sorted(shorten_text(owner.name, 40) for owner in found.owners)[:5])
                found.doubts.append(
                    f"The files are in one folder, and no known platform names files like this. They were taken as "
                    f"those of {len(found.owners)} students: {people}. {CONFIRM} --names plain; if all are one "
                    "student's, use --one-student; otherwise say where the names are, as in --names "
                    "'{student}_{id}_{lesson}'."
                )
            return found
        found = _one_student_layout(self.entries, self.name)
        if several and not foldered:
            files = next(entries for entries in by_lesson.values() if len(entries) > 1)
            found.doubts.append(
                f"There are several files for one lesson, and nothing says whose they are: "
                f"{', '.join(shorten_text(entry.name, 60) for entry in files[:4])}. They were taken as one student's. "
                f"{CONFIRM} --one-student; otherwise say where the names are, as in --names '{{student}}_{{lesson}}'."
            )
        return found
