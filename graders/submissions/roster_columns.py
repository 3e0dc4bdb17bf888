"""Find out which column of a roster is which, whatever the language of its header.

Well-known titles are looked up. A grading worksheet from Moodle is also recognised by its form, because its header and
identifiers are in the language of the person who downloaded it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from graders.submissions.tables import Table, parse_number

NAMES = ("student", "name", "full name", "sortable name", "student name", "vollständiger name", "teilnehmer",
         "teilnehmer in", "nom complet", "étudiant", "nombre completo", "estudiante", "alumno", "nome completo",
         "studente", "volledige naam", "naam", "imię i nazwisko", "pełna nazwa", "celé jméno", "fullständigt namn",
         "fullt navn", "fulde navn", "koko nimi", "ad soyad", "nombre y apellidos", "apellidos y nombre", "полное имя",
         "氏名", "姓名", "全名", "이름", "nom", "namn", "navn", "nimi", "név", "nume")  # fmt: skip
"""Titles of whole names. Beside a given name or a surname in another column, some of them are the other part."""
FIRST_NAMES = ("first name", "firstname", "first names", "first", "given name", "given names", "forename", "vorname",
               "prénom", "prénom s", "prénoms", "nombre", "nombres", "nombre s", "nome", "nomi", "voornaam", "imię",
               "imiona", "jméno", "meno", "ime", "förnamn", "fornavn", "etunimi", "etunimet", "eesnimi", "ad",
               "keresztnév", "utónév", "prenume", "vardas", "vārds", "όνομα", "имя", "ім я", "名", "名字")  # fmt: skip
LAST_NAMES = ("surname", "surnames", "last name", "lastname", "last names", "last", "family name", "nachname",
              "familienname", "zuname", "nom de famille", "apellido", "apellidos", "apellido s", "cognome", "cognomi",
              "cognom", "cognoms", "apelido", "apelidos", "sobrenome", "achternaam", "familienaam", "nazwisko",
              "příjmení", "priezvisko", "prezime", "priimek", "efternamn", "efternavn", "etternavn", "sukunimi",
              "perenimi", "perekonnanimi", "soyad", "vezetéknév", "pavardė", "uzvārds", "επώνυμο",
              "фамилия", "прізвище", "姓", "姓氏", "성")  # fmt: skip
IDS = ("identifier", "github username", "github login", "github", "github id", "id", "id number", "idnumber",
       "student id", "user id", "canvas user id", "sis user id", "sis login id",
       "login id", "login", "username", "folder", "orgdefinedid", "id nummer", "matrikelnummer", "anmeldename",
       "benutzername", "numéro d identification", "numéro d étudiant", "identifiant", "nom d utilisateur",
       "número de id", "número de identificación", "nombre de usuario", "matricola", "número de identificação",
       "nome de utilizador", "identificatienummer", "gebruikersnaam")  # fmt: skip
EMAILS = ("email address", "email", "e mail", "mail", "e mail adresse", "adresse e mail", "adresse de courriel",
          "courriel", "dirección de correo", "dirección email", "correo electrónico", "correo", "indirizzo email",
          "endereço de email", "endereço de e mail", "e mailadres", "adres e mail")  # fmt: skip
GRADES = ("grade", "bewertung", "note", "calificación", "valutazione", "voto", "nota", "cijfer", "beoordeling", "ocena",
          "známka", "betyg", "karakter", "arvosana", "оценка", "成绩", "評点")  # fmt: skip
MAXIMA = ("maximum grade", "maximum points", "bestwertung", "note maximale", "calificación máxima", "puntuación máxima",
          "valutazione massima", "voto massimo", "nota máxima", "maximumcijfer", "maximum cijfer")  # fmt: skip
COMMENTS = ("feedback", "comment", "kommentar", "comentari", "comentário", "comentár", "commento", "commenti",
            "retroaliment", "opmerking", "komentar", "komentár", "komentář", "kommentti", "yorum", "отзыв", "коммент",
            "コメント", "反馈")  # fmt: skip
"""Parts of the title of the column for feedback."""
PARTICIPANT_WORDS = ("participant", "teilnehmer in", "teilnehmer", "participante", "partecipante", "deelnemer",
                     "uczestnik", "účastník", "deltagare", "deltaker", "deltager", "osallistuja", "участник",
                     "учасник")  # fmt: skip
"""The word that Moodle writes before a student's number in an assignment."""

PARTICIPANT_NUMBER = re.compile(r"(?P<word>\D*?)\s*(?P<number>\d+)")
_ADDRESS = re.compile(r"[^\s@]+@[^\s@]+\.[^\s@]+")


@dataclass(frozen=True)
class Columns:
    """The indices of columns; None if there is no such column.

    `ids` have numbers and logins that identify people, `identifier` Moodle's number of a student in one assignment, and
    `maximum` the assignment's maximum points.
    """

    name: int | None = None
    first: int | None = None
    last: int | None = None
    email: int | None = None
    ids: tuple[int, ...] = ()
    identifier: int | None = None
    grade: int | None = None
    maximum: int | None = None
    comment: int | None = None

    @property
    def is_blind(self) -> bool:
        """Whether there is no column for names, as with blind marking."""
        return self.name is None and self.first is None and self.last is None


def plain_title(title: str) -> str:
    """A title in lower case, with single spaces between its words: `E-Mail-Adresse` becomes `e mail adresse`."""
    return " ".join(re.findall(r"[^\W_]+", title.casefold()))


def find_columns(table: Table) -> Columns:
    """Find the columns of a roster or a grading worksheet."""
    titles = [plain_title(title) for title in table.header]
    grade, maximum = _grade_and_maximum(table, titles)
    identifier = _identifier_column(table, titles, worksheet=maximum is not None)
    email = _first_match(titles, EMAILS)
    if email is None:
        email = next((index for index in range(len(titles)) if _all_cells_match(table, index, _ADDRESS)), None)
    name, first, last = (_first_match(titles, words) for words in (NAMES, FIRST_NAMES, LAST_NAMES))
    name, first, last = _whole_or_parts(table, name, first, last)
    if identifier is not None and grade is not None and name is None and first is None:
        name = _name_by_place(table, identifier, grade, email)
    return Columns(
        name=name,
        first=first,
        last=last,
        email=email,
        ids=tuple(titles.index(word) for word in IDS if word in titles and titles.index(word) != identifier),
        identifier=identifier,
        grade=grade if identifier is not None else None,
        maximum=maximum if identifier is not None else None,
        comment=_comment_column(table, titles, grade, maximum) if identifier is not None else None,
    )


def _whole_or_parts(
    table: Table, name: int | None, first: int | None, last: int | None
) -> tuple[int | None, int | None, int | None]:
    """The columns of the whole name, of given names and of surnames.

    A single column is the whole name, whatever its title. Beside a column for one part of the name, "Name" is the whole
    name if its cells contain that part; otherwise it is the other part, as in "Name, Vorname" and "Name, Surname".
    """
    parts = [part for part in (first, last) if part is not None]
    if not parts or (name is None and len(parts) == 1):
        return (parts[0] if parts else name), None, None
    if name is None or _contains(table, name, parts[0]):
        return name, first, last
    return None, *((name, last) if first is None else (first, name if last is None else last))


def _contains(table: Table, whole: int, part: int) -> bool:
    """Whether most cells of a column contain what another column has in the same row."""
    pairs = [
        [plain_title(cell).replace(" ", "") for cell in pair] for pair in zip(table.column(whole), table.column(part))
    ]
    full = [small in large for large, small in pairs if large and small]
    return sum(full) * 2 > len(full)


def _first_match(titles: list[str], words: Collection[str]) -> int | None:
    """The index of the first of these words that is a title; None if none is."""
    return next((titles.index(word) for word in words if word in titles), None)


def _all_cells_match(table: Table, index: int, pattern: re.Pattern[str]) -> bool:
    """Whether a column has cells that are not empty, and all of those match."""
    cells = [cell for cell in table.column(index) if cell]
    return bool(cells) and all(pattern.fullmatch(cell) for cell in cells)


def _identifier_column(table: Table, titles: list[str], *, worksheet: bool) -> int | None:
    """The column with Moodle's numbers: the same word and a number in each cell, `Participant 12` or `Teilnehmer/in12`.

    An unknown word counts only in the first column of a worksheet, where nothing else can be. What GitHub Classroom
    calls an identifier is a name or a number of the course's own.
    """
    if "identifier" in titles and not any(title.startswith("github") for title in titles):
        return titles.index("identifier")
    for index in range(len(titles)):
        words = {match["word"] for match in _participant_matches(table, index)}
        if _all_cells_match(table, index, PARTICIPANT_NUMBER) and len(words) == 1:
            word = plain_title(words.pop())
            if word in PARTICIPANT_WORDS or (word and worksheet and index == 0):
                return index
    return None


def _participant_matches(table: Table, index: int) -> Iterator[re.Match[str]]:
    return (match for cell in table.column(index) if (match := PARTICIPANT_NUMBER.fullmatch(cell)))


def _grade_and_maximum(table: Table, titles: list[str]) -> tuple[int | None, int | None]:
    """The column for grades, and the one after it, which repeats the maximum points in every row."""
    grade, maximum = _first_match(titles, GRADES), _first_match(titles, MAXIMA)
    if maximum is None:
        maximum = next((index for index in range(2, len(titles)) if _is_maximum(table, index)), None)
    if grade is None and maximum:
        grade = maximum - 1
    return grade, maximum


def _is_maximum(table: Table, index: int) -> bool:
    most = {parse_number(cell) for cell in table.column(index)}
    before = [cell for cell in table.column(index - 1) if cell not in ("", "-")]
    return len(most) == 1 and (most.pop() or 0) > 0 and all(parse_number(cell) is not None for cell in before)


def _comment_column(table: Table, titles: list[str], grade: int | None, maximum: int | None) -> int | None:
    """The column for feedback, found by its title; otherwise the last column, unless that has the date of the grade."""
    start = max(grade or 0, maximum or 0) + 1
    named = [index for index in range(start, len(titles)) if any(word in titles[index] for word in COMMENTS)]
    if named:
        return named[-1]
    last = len(titles) - 1
    dated = all(cell == "-" or re.search(r"\d", cell) for cell in table.column(last))
    return last if last > start and not dated else None


def _name_by_place(table: Table, identifier: int, grade: int, email: int | None) -> int | None:
    """The column after the identifier, if it has names: with blind marking, it has the state of the submission instead.

    Blind marking hides email addresses, too. If there are none, a column counts as names only if no cell repeats.
    """
    index = identifier + 1
    if index == email or grade - index < 2:  # the state of the submission always comes right before the grade
        return None
    cells = [cell for cell in table.column(index) if cell]
    return index if email is not None or (bool(cells) and len(set(cells)) == len(table.rows)) else None
