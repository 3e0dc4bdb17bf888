"""Groups, and people who are in a list twice."""

from __future__ import annotations

import csv
from pathlib import Path

from tests.instructor.grading.classes import TEAMS, ClassRunner, each, grade, hand_in, results
from tests.notebooks import KEYS, LESSON


def test_names_come_from_the_roster_and_canvas_gets_its_numbers() -> None:
    hand_in("Ada Lovelace"), hand_in("alan turing")
    Path("roster.csv").write_text('Student,ID\n"Lovelace, Ada",101\n"Turing, Alan",102\n')
    assert "Not on the roster" not in grade("--roster", "roster.csv", "--export", "canvas")
    rows = list(csv.reader(Path("out/canvas.csv").read_text().splitlines()))
    assert [row[:2] for row in rows[2:]] == [["Lovelace, Ada", "101"], ["Turing, Alan", "102"]]


def test_two_folders_of_one_person_both_keep_their_names() -> None:
    hand_in("Ada Lovelace"), hand_in("lovelaceada")
    Path("roster.csv").write_text('Student,ID\n"Lovelace, Ada",101\n')
    assert "Ada Lovelace, lovelaceada" in grade("--roster", "roster.csv")
    assert set(results()) == {"Ada Lovelace", "lovelaceada"}


TEAM_ROSTER = (
    f'Student,ID,{LESSON} (8)\n    Points Possible,,100\n"Lovelace, Ada",101,\n"Turing, Alan",102,\n"Noether, E",103,\n'
)


def test_a_group_is_marked_once_and_every_member_has_the_result_everywhere(runner: ClassRunner) -> None:
    hand_in("team_1", wrong=KEYS[:1]), hand_in("E Noether")
    Path("roster.csv").write_text(TEAM_ROSTER)
    Path("teams.csv").write_text(TEAMS)
    options = ("--roster", "roster.csv", "--groups", "teams.csv", "--export", "canvas,moodle,gradescope")
    text = grade(*options, "--scale")
    assert "2 notebooks, 1 at a time" in text
    assert runner.students == ["E", "team_1"]
    assert {name: (found["score"], found.get("group", "")) for name, found in results().items()} == {
        "Lovelace, Ada": (3, "Team 1"), "Turing, Alan": (3, "Team 1"), "Noether, E": (4, "")}  # fmt: skip
    rows = list(csv.reader(Path("out/canvas.csv").read_text().splitlines()))
    assert [(row[0], row[1], row[-1]) for row in rows[2:]] == [
        ("Lovelace, Ada", "101", "75"), ("Noether, E", "103", "100"), ("Turing, Alan", "102", "75")]  # fmt: skip
    for name in ("Lovelace_Ada", "Turing_Alan"):
        assert "with Team 1" in Path(f"out/feedback/{name}/{LESSON}.html").read_text()
        assert Path(f"out/gradescope/{name}/results.json").exists()
    hand_in("team_1")  # an appeal of one is one of the group
    grade(*options, "--student", "Turing, Alan")
    assert each("score") == {
        "Lovelace, Ada": 4, "Turing, Alan": 4, "Noether, E": 4}  # fmt: skip
    assert runner.students == ["E", "team_1", "team_1"]


def test_without_the_groups_the_summary_says_that_there_is_an_option() -> None:
    hand_in("team_1"), hand_in("E Noether")
    Path("roster.csv").write_text(TEAM_ROSTER)
    text = grade("--roster", "roster.csv", "--export", "canvas", code=3)
    assert "Not on the roster, or not clearly: team_1 If they handed in as groups: --groups CSV gives" in text
    assert f"canvas.csv: {LESSON} has 100 points on the roster, and at most 4 are entered. --scale converts" in text
    (Path("class/team_1") / f"{LESSON}.ipynb").unlink(), Path("class/team_1").rmdir()
    hand_in("ada lovelace"), hand_in("alan turing"), hand_in("stranger")
    assert "--groups" not in grade("--roster", "roster.csv")  # nobody is missing


def test_a_group_that_has_the_number_of_a_member_is_said() -> None:
    hand_in("", name=f"team1_101_20001_{LESSON}.ipynb"), hand_in("", name=f"noethere_103_20002_{LESSON}.ipynb")
    Path("roster.csv").write_text(TEAM_ROSTER)
    text = grade("--roster", "roster.csv")
    assert "Found by their numbers, under other names: team1 as Lovelace, Ada. If they handed in as groups:" in text
    Path("teams.csv").write_text(TEAMS)
    assert "If they" not in grade("--roster", "roster.csv", "--groups", "teams.csv")
    assert each("status") == {
        "Lovelace, Ada": "graded", "Turing, Alan": "graded", "Noether, E": "graded"}  # fmt: skip


def test_what_is_not_clear_about_a_group_is_said_first_and_the_exit_code_is_3() -> None:
    hand_in("team_1"), hand_in("alan turing")
    Path("teams.csv").write_text(TEAMS + "Team 2,Emmy Noether\n")
    text = grade("--groups", "teams.csv", code=3)
    said = text.partition("2 notebooks")[0]
    assert f"Team 2: no file for {LESSON} has its name, and these handed in nothing either: Emmy Noether." in said
    assert f"Alan Turing handed in {LESSON} alone as well, and differently (class/alan turing/{LESSON}.ipynb)" in said
    assert each("status") == {
        "Ada Lovelace": "graded", "Alan Turing": "graded", "Emmy Noether": "missing"}  # fmt: skip
    assert [Path(file).parent.name for file in results()["Alan Turing"]["superseded"]] == ["alan turing"]


def test_an_export_with_one_person_twice_is_not_written_and_all_others_are() -> None:
    hand_in("ann"), hand_in("bob")
    Path("roster.csv").write_text("Name,ID\nann,7\nbob,7\n")
    Path("out").mkdir()
    Path("out/canvas.csv").write_text("of before")
    text = grade("--roster", "roster.csv", "--export", "canvas,gradescope,moodle", code=3)
    assert (
        "canvas.csv is not written, as it would give one person two rows: ID 7 stands for ann and for bob. "
        "The file there is from an earlier command."
    ) in text
    assert "canvas.csv" not in text.partition("written: out/")[2]
    assert Path("out/canvas.csv").read_text() == "of before"
    assert Path("out/gradescope").exists()
    assert Path(f"out/moodle/{LESSON}.csv").exists()
    assert {found["status"] for found in results().values()} == {"graded"}


def test_a_worksheet_in_another_language_comes_back_in_it() -> None:
    hand_in("Jürgen Groß_1234_assignsubmission_file_"), hand_in("Ada Lovelace_1235_assignsubmission_file_")
    sheet = (
        "ID;Vollständiger Name;Status;Bewertung;Bestwertung;Feedback als Kommentar\r\n"
        "Teilnehmer/in1234;Jürgen Groß;x;{};4,00;\r\nTeilnehmer/in1235;Ada Lovelace;x;{};4,00;\r\n"
    )
    Path("roster.csv").write_bytes(sheet.format("", "").encode("cp1252"))
    text = grade("--roster", "roster.csv", "--export", "moodle")
    assert "was read as cp1252. Is the name Jürgen Groß right?" in text
    assert Path(f"out/moodle/{LESSON}.csv").read_bytes() == sheet.format("4", "4").encode("cp1252")
