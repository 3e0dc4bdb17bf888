"""Worksheets of Moodle in several languages, and what else teachers have."""

from __future__ import annotations

import pytest

from graders.submissions.roster import parse_roster

NAMES = ["Jürgen Groß", "Ada Lovelace", "Ida Weil"]


def worksheet(header: str, participant: str, most: str = "4.00") -> str:
    """A worksheet with this header; the status is what Moodle says in some language."""
    status = ("Odevzdáno - ", "Odevzdáno - ", "Nic - ")
    rows = [
        f'"{participant}{number}","{name}",{number}@x.org,{said},,"{most}",Ano,-,'
        for number, name, said in zip((1234, 1235, 1236), NAMES, status)
    ]
    return "\n".join([header, *rows, ""])


LANGUAGES = {
    "en": ("Identifier,Full name,Email address,Status,Grade,Maximum Grade,Grade can be changed,"
           "Last modified (grade),Feedback comments", "Participant "),
    "de": ("ID,Vollständiger Name,E-Mail-Adresse,Status,Bewertung,Bestwertung,Bewertung kann geändert werden,"
           "Zuletzt geändert (Bewertung),Feedback als Kommentar", "Teilnehmer/in"),
    "fr": ("Identifiant,Nom complet,Adresse de courriel,Statut,Note,Note maximale,La note peut être modifiée,"
           "Dernière modification (note),Feedback par commentaires", "Participant "),
    "es": ("Identificador,Nombre completo,Dirección de correo,Estatus,Calificación,Calificación máxima,"
           "La calificación puede ser cambiada,Última modificación (calificación),Comentarios de retroalimentación",
           "Participante "),
    "of no known word": ("Aa,Bb,Cc,Dd,Ee,Ff,Gg,Hh,Ii", "Zz "),
    "with an empty header": (",,,,,,,,x", "Zz"),
}  # fmt: skip


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("most", ["4.00", "4,00"])
def test_a_worksheet_is_recognised_in_any_language(language: str, most: str) -> None:
    roster = parse_roster(worksheet(*LANGUAGES[language], most))
    assert [person.name for person in roster.people] == NAMES
    assert [person.participant for person in roster.people] == ["1234", "1235", "1236"]
    assert [person.email for person in roster.people] == ["1234@x.org", "1235@x.org", "1236@x.org"]
    sheet = roster.worksheet
    assert sheet is not None
    assert (sheet.columns.identifier, sheet.grade, sheet.columns.maximum, sheet.columns.comment) == (0, 4, 5, 8)


@pytest.mark.parametrize(
    ("header", "participant"),
    [
        ("Identifier,Status,Grade,Maximum Grade,Last modified (grade),Feedback comments", "Participant "),
        ("ID,Status,Bewertung,Bestwertung,Zuletzt geändert (Bewertung),Feedback als Kommentar", "Teilnehmer/in"),
        ("A,B,C,D,E,F", "Zz "),
    ],
)
def test_with_blind_marking_people_are_called_by_their_numbers(header: str, participant: str) -> None:
    roster = parse_roster("\n".join([header, *(f"{participant}{number},Submitted,,4.00,-," for number in (7, 8))]))
    assert [person.name for person in roster.people] == [f"{participant}7", f"{participant}8"]
    found = roster.find("Participant", "8")
    assert found is not None
    assert found.name == f"{participant}8"
    assert roster.worksheet is not None


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("Vorname;Nachname\nAda;Lovelace\n", ["Ada Lovelace"]),
        ("Name;Vorname;Matrikelnummer\nLovelace;Ada;7\n", ["Ada Lovelace"]),
        ("Nom;Prénom\nLovelace;Ada\n", ["Ada Lovelace"]),
        ("Apellido(s);Nombre\nLovelace;Ada\n", ["Ada Lovelace"]),
        ("Nombre;Correo\nAda Lovelace;a@x.org\n", ["Ada Lovelace"]),
        ("NOM,Points\nAda Lovelace,3\n", ["Ada Lovelace"]),
        ("Student_Name\nAda Lovelace\n", ["Ada Lovelace"]),
        ("Name,Surname\nAda,Lovelace\nIda,Weil\n", ["Ada Lovelace", "Ida Weil"]),
        ("Surname,Name\nLovelace,Ada\n", ["Ada Lovelace"]),
        ("Nom,Cognoms\nAda,Lovelace\n", ["Ada Lovelace"]),
        ("Nume;Prenume\nLovelace;Ada\n", ["Ada Lovelace"]),
        ("First,Last\nAda,Lovelace\n", ["Ada Lovelace"]),
        ("Name,Surname\nAda Lovelace,Lovelace\nIda Weil,Weil\n", ["Ada Lovelace", "Ida Weil"]),
        ("Name;Vorname\nAda Lovelace;Ada\n", ["Ada Lovelace"]),
        ("Full name,First name,Last name\nAda Lovelace,Ada,Lovelace\n,Ida,Weil\n", ["Ada Lovelace", "Ida Weil"]),
        ("Nom,Prénom,Nom de famille\nx1,Ada,Lovelace\n", ["Ada Lovelace"]),
    ],
)
def test_names_in_the_headers_of_other_countries(text: str, names: list[str]) -> None:
    assert [person.name for person in parse_roster(text).people] == names


def test_logins_with_numbers_are_no_participants() -> None:
    roster = parse_roster("Student,ID,SIS User ID,Section\nann,101,s1,A1\nbob,102,s2,A2\n")
    assert [person.participant for person in roster.people] == ["", ""]
    assert roster.worksheet is None


def test_the_points_of_assignments_are_those_of_canvas() -> None:
    for row in ("    Points Possible,,,100,(read only)", "    Puntos posibles,,,100,(sólo lectura)"):
        roster = parse_roster(f"Student,ID,Section,Essay (7),Final Score\n{row}\nann,101,A,3,\n")
        assert [person.name for person in roster.people] == ["ann"]
        assert roster.maxima == {"Essay (7)": 100}


@pytest.mark.parametrize(
    ("rows", "names", "most"),
    [
        (["Points Possible,,,4", "Points Possible,7,A,1"], ["Points Possible"], {"Essay (7)": 4}),
        (["Points Possible,,,4", "    Mallory,,,1", "ann,1,A,2"], ["Mallory", "ann"], {"Essay (7)": 4}),
        (["Points Possible,,,4", "Points Possible,,,1", "ann,1,A,2"], ["Points Possible", "ann"], {"Essay (7)": 4}),
        (["ann,1,A,2", "    Points Possible,,,1"], ["ann", "Points Possible"], {}),
        (["    Points Possible,7,A,1", "ann,1,A,2"], ["Points Possible", "ann"], {}),
        ([",,,Manual Posting", "    Points Possible,,,4", "ann,1,A,2"], ["ann"], {"Essay (7)": 4}),
    ],
)
def test_whoever_is_called_like_the_row_of_maxima_is_a_person(
    rows: list[str], names: list[str], most: dict[str, float]
) -> None:
    roster = parse_roster("\n".join(["Student,ID,Section,Essay (7)", *rows, ""]))
    assert ([person.name for person in roster.people], roster.maxima, roster.note) == (names, most, "")


def test_an_indented_name_at_the_top_of_a_plain_table_is_a_person() -> None:
    for text in ("Name\n    Ada Lovelace\nIda Weil\n", "Name,ID\n    Ada Lovelace,\nIda Weil,\n"):
        assert [person.name for person in parse_roster(text).people] == ["Ada Lovelace", "Ida Weil"]


def test_two_people_of_one_name_without_numbers_are_two() -> None:
    assert [person.name for person in parse_roster("Name\nAnn Lee\nAnn Lee\n").people] == ["Ann Lee", "Ann Lee*"]
