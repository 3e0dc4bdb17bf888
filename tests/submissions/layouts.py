"""Layouts of classes: the paths in them, and whose each of the files is."""

from __future__ import annotations

from dataclasses import dataclass

from graders.core import course

LESSONS = course.lesson_stems()[1:3]
FIRST, SECOND = (f"{lesson}.ipynb" for lesson in LESSONS)
A, B = LESSONS
STUB = "def branch_grads(w, x):\n    raise NotImplementedError"
WORK = "def branch_grads(w, x):\n    return {}"
MOODLE = "_assignsubmission_file_"
TIME = "Nov 24, 2026 603 PM"


@dataclass(frozen=True)
class Case:
    """Paths of a class, the students that they make, each with lessons, and words of what is said.

    A path ends in `/` for a folder, in `=blank` for an untouched notebook, in `#` for a notebook under another name.
    The name of a student may have lessons behind `:`, the first alone otherwise. `said` is empty where nothing is
    doubtful.
    """

    paths: tuple[str, ...]
    students: tuple[str, ...]
    said: str = ""
    names: str = ""
    single: bool = False


SURE = {
    "a folder each": Case((f"ada/{FIRST}", f"ben/{FIRST}", "cleo/"), ("ada", "ben", "cleo:-")),
    "a level deeper": Case((f"ada/work/{FIRST}", f"ben/a/b/{FIRST}"), ("ada", "ben")),
    "the class in a folder": Case((f"class/ada/{FIRST}", f"class/ben/{FIRST}", "README.md"), ("ada", "ben")),
    "the class two folders down": Case((f"x/y/ada/{FIRST}", f"x/y/ben/{FIRST}"), ("ada", "ben")),
    "one student, alone": Case((f"ada/work/{FIRST}",), ("ada",)),
    "one student's lessons in folders": Case((f"lesson1/{FIRST}", f"lesson2/{SECOND}"), ("class:12",)),
    "one group, alone": Case((f"team_1/{FIRST}", f"team_2/{SECOND}"), ("team_1", "team_2:2")),
    "one student's files": Case((FIRST, SECOND, "data.csv"), ("class:12",)),
    "one student's, some in a folder": Case((FIRST, f"more/{SECOND}"), ("class:12",)),
    "a template beside the folders": Case(
        (FIRST, f"ada/{FIRST}", f"ben/{FIRST}"), ("ada", "ben"), "nothing says whose"
    ),
    "canvas": Case((f"lovelaceada_12_345_{FIRST}", f"turing_LATE_13_346_{FIRST}"), ("lovelaceada", "turing")),
    "canvas, anonymous": Case(
        (f"anon_aB1cD_67890_{FIRST}", f"LATE_anon_xY2zW_67891_{FIRST}"), ("anon_aB1cD", "anon_xY2zW")
    ),
    "canvas, groups": Case((f"team_a_1234_67890_{FIRST}", f"team_b_x_1235_67891_{FIRST}"), ("team_a", "team_b_x")),
    "canvas, short numbers": Case((f"ada_5_12_{FIRST}", f"ben_6_13_{FIRST}"), ("ada", "ben")),
    "canvas, archives": Case((f"ada_12_345_work.zip!{FIRST}", f"ben_13_346_{FIRST}"), ("ada", "ben")),
    "canvas, attempts": Case(
        (
            f"ada_12_345_{FIRST}=blank",
            f"ada_12_346_{A}-2.ipynb=blank",
            f"ada_12_346_{A}-10.ipynb",
            f"ben_13_347_{FIRST}",
        ),
        ("ada", "ben"),
    ),
    "moodle": Case(
        (f"Ada Lovelace_12{MOODLE}/{FIRST}", f"Ben_13{MOODLE}/{FIRST}", f"Cy_14{MOODLE}/"),
        ("Ada Lovelace", "Ben", "Cy:-"),
    ),
    "moodle, some in folders": Case(
        (f"Ada_12{MOODLE}/{FIRST}", "Ada_12_assignsubmission_onlinetext_/onlinetext.html", f"Ben_13{MOODLE}{FIRST}"),
        ("Ada", "Ben"),
    ),
    "moodle beside canvas": Case((f"Ada L_12{MOODLE}/{FIRST}", f"ben_LATE_13_346_{FIRST}"), ("Ada L", "ben")),
    "moodle, a folder uploaded": Case((f"Ada_12{MOODLE}/my work/{FIRST}", f"Ben_13{MOODLE}/{FIRST}"), ("Ada", "Ben")),
    "moodle, no folders": Case((f"Ada_12{MOODLE}{FIRST}", f"Ben_13{MOODLE}{FIRST}"), ("Ada", "Ben")),
    "moodle, blind": Case(
        (f"Participant_12{MOODLE}/{FIRST}", f"Participant_13{MOODLE}/{FIRST}"), ("Participant (12)", "Participant (13)")
    ),
    "blackboard": Case(
        (
            f"Lesson1_s1001_attempt_2026-11-24-18-03-21_{FIRST}",
            "Lesson1_s1001_attempt_2026-11-24-18-03-21.txt",
            f"Lesson1_s1002_attempt_2026-11-24-19-03-21_{FIRST}",
        ),
        ("s1001", "s1002"),
    ),
    "blackboard, two attempts": Case(
        (
            f"L1_s1_attempt_2026-11-24-18-03-21_{FIRST}",
            f"L1_s1_attempt_2026-11-25-18-03-21_{FIRST}=blank",
            f"L1_s2_attempt_2026-11-24-19-03-21_{FIRST}",
        ),
        ("s1", "s2"),
        "untouched, but another is not",
    ),
    "blackboard, logins with underscores": Case(
        (f"Lesson 1_ada_l_attempt_2026-11-24-18-03-21_{FIRST}", f"Lesson 1_ben_l_attempt_2026-11-24-19-03-21_{FIRST}"),
        ("ada_l", "ben_l"),
    ),
    "what a browser called a text": Case((f"ada/{FIRST}.txt", f"ben/{FIRST}.json"), ("ada", "ben")),
    "notebooks under other names": Case(
        (f"ada/{A}.json#", f"ben/{A}.txt#", f"cy/{A}#", "dan/01. My work#", f"eve/{FIRST} (1)#", "fay/mine.JSON#"),
        ("ada", "ben", "cy", "dan", "eve", "fay"),
    ),
    "notebooks under other names, moodle": Case(
        (f"Ada_12{MOODLE}/{A}.json#", f"Ben_13{MOODLE}{A}.txt#"), ("Ada", "Ben")
    ),
    "what is no notebook under such a name": Case(
        (f"ada/{FIRST}", "ada/data.json", "ada/notes", f"ada/{FIRST}~#", f"ben/{FIRST}", "ben/01_notes.txt"),
        ("ada", "ben"),
    ),
    "brightspace": Case(
        (f"12-99 - Ada Lovelace - {TIME} - {FIRST}", f"13-99 - Ben O-Kri - {TIME} - {FIRST}", "index.html"),
        ("Ada Lovelace", "Ben O-Kri"),
    ),
    "brightspace, folders": Case(
        (
            f"12-99 - Ada - {TIME}/{FIRST}=blank",
            f"12-99 - Ada - Nov 25, 2026 803 AM/{FIRST}",
            f"13-99 - Ben - {TIME}/{FIRST}",
            "index.html",
        ),
        ("Ada", "Ben"),
    ),
    "autolab": Case(
        (f"ada_l@cs.edu_1_{FIRST}=blank", f"ada_l@cs.edu_2_{FIRST}", f"ben@cs.edu_1_{FIRST}"),
        ("ada_l@cs.edu", "ben@cs.edu"),
    ),
    "sakai": Case(
        (
            "Lesson 1/grades.csv",
            f"Lesson 1/Lovelace, Ada(s1)/Submission attachment(s)/{FIRST}",
            "Lesson 1/Lovelace, Ada(s1)/timestamp.txt",
            f"Lesson 1/Okri, Ben(s2)/Submission attachment(s)/{FIRST}",
        ),
        ("Lovelace, Ada", "Okri, Ben"),
    ),
    "gradescope's export": Case(
        (
            f"assignment_123_export/submission_4001/{FIRST}",
            f"assignment_123_export/submission_4002/{FIRST}",
            "assignment_123_export/submission_metadata.yml",
        ),
        ("submission_4001", "submission_4002"),
        "does not say whose these 2 folders are: submission_4001, submission_4002",
    ),
    "sakai, one handed in": Case(
        (
            "Lesson 1/grades.csv",
            f"Lesson 1/Costa, Ana(acosta)/Submission attachment(s)/{FIRST}",
            f"Lesson 1/Costa, Ana(acosta)/Feedback Attachment(s)/{FIRST}=blank",
            "Lesson 1/Costa, Ana(acosta)/timestamp.txt",
            "Lesson 1/Li, Bo(bli)/Bo_submissionText.html",
        ),
        ("Costa, Ana", "Li, Bo:-"),
        "not handed in",
    ),
    "nbgrader's whole course": Case(
        (f"submitted/acosta/lesson1/{FIRST}", f"source/lesson1/{FIRST}=blank", f"autograded/acosta/lesson1/{FIRST}"),
        ("acosta",),
        "not handed in",
    ),
    "teams, one handed in": Case(
        (f"Submitted files/Ana/Lesson 1/{FIRST}", f"Working files/Bo/Lesson 1/{FIRST}"), ("Ana",), "not handed in"
    ),
    "brightspace, the day first": Case(
        (
            f"12-67 - Ana Costa - 24 Nov., 2026 1803/{FIRST}=blank",
            f"12-67 - Ana Costa - 25 Nov., 2026 1803/{FIRST}",
            f"13-67 - Bo Li - 24 Nov., 2026 1803/{FIRST}",
        ),
        ("Ana Costa", "Bo Li"),
    ),
    "moodle, unpacked twice": Case(
        (f"Ana_12{MOODLE}/{FIRST}=blank", f"Ana_12{MOODLE} (1)/{FIRST}", f"Bo_13{MOODLE}/{FIRST}"), ("Ana", "Bo")
    ),
    "teams": Case(
        (
            f"Submitted files/Ada/Lesson 1/Version 1/{FIRST}=blank",
            f"Submitted files/Ada/Lesson 1/Version 2/{FIRST}",
            f"Submitted files/Ben/Lesson 1/Version 1/{FIRST}",
            f"Working files/Cy/Lesson 1/{FIRST}",
        ),
        ("Ada", "Ben"),
        "working files",
    ),
    "nbgrader": Case((f"submitted/ada/lesson1/{FIRST}", f"submitted/ben/lesson1/{FIRST}"), ("ada", "ben")),
    "github classroom": Case(
        (f"lesson1-ada/{FIRST}", "lesson1-ada/README.md", f"lesson1-ben/notebooks/{FIRST}"),
        ("lesson1-ada", "lesson1-ben"),
    ),
    "okpy": Case(
        (
            f"cal/cs1/lab1/ada@x.edu/20261124T180321/{FIRST}=blank",
            f"cal/cs1/lab1/ada@x.edu/20261125T180321/{FIRST}",
            f"cal/cs1/lab1/ben@x.edu/20261124T190321/{FIRST}",
        ),
        ("ada@x.edu", "ben@x.edu"),
    ),
    "sections": Case(
        (f"monday/ada/{FIRST}", f"monday/ben/{FIRST}", f"friday/cy/{FIRST}", f"friday/dan/{FIRST}"),
        ("ada", "ben", "cy", "dan"),
    ),
    "lessons with students": Case(
        (f"lesson1/ada/{FIRST}", f"lesson1/ben/{FIRST}", f"lesson2/ada/{SECOND}", f"lesson2/ben/{SECOND}"),
        ("ada:12", "ben:12"),
    ),
    "an archive for each lesson": Case(
        (
            f"lesson1.zip!ada_12_345_{FIRST}",
            f"lesson1.zip!ben_13_346_{FIRST}",
            f"lesson2.zip!ada_12_347_{SECOND}",
            f"lesson2.zip!ben_13_348_{SECOND}",
        ),
        ("ada:12", "ben:12"),
    ),
    "an archive for each student": Case((f"ada.zip!{FIRST}", f"ben.zip!x/{FIRST}"), ("ada", "ben")),
    "drafts in folders": Case((f"ada/final/{FIRST}", f"ada/draft/{FIRST}=blank", f"ben/{FIRST}"), ("ada", "ben")),
    "a pattern for files": Case(
        (f"x-ada-7-{FIRST}", f"x-ben-8-{FIRST}"), ("ada", "ben"), names="x-{student}-{id}-{lesson}"
    ),
    "a pattern for folders": Case(
        (f"lesson1-ada/{FIRST}", f"lesson1-ben/{FIRST}"), ("ada", "ben"), names="lesson1-{student}"
    ),
    "a pattern for paths": Case((f"a/ada/b/{FIRST}", f"c/ben/{FIRST}"), ("ada", "ben"), names="{any}/{student}/{file}"),
    "names behind the lesson": Case(
        ("01_where_gradients_live-ada.ipynb", "01_where_gradients_live-ben.ipynb"),
        ("ada", "ben"),
        names="{lesson}-{student}",
    ),
    "plain, confirmed": Case((f"ada_{FIRST}", f"ben_{FIRST}"), ("ada", "ben"), names="plain"),
    "gradescope": Case((f"lesson1/{FIRST}", f"lesson2/deep/{SECOND}", "notes.txt"), ("class:12",), single=True),
}
DOUBTFUL = {
    "numbers of students below tutors": Case(
        (f"Tutor Ana/ab123/{FIRST}", f"Tutor Ana/ab124/{FIRST}", f"Tutor Bo/ab125/{FIRST}"),
        ("ab123", "ab124", "ab125"),
        "taken as folders of groups",
    ),
    "a group of one": Case(
        (f"Section A/4711/{FIRST}", f"Section A/4712/{FIRST}", f"Section B/4713/{FIRST}"),
        ("4711", "4712", "4713"),
        "taken as folders of groups",
    ),
    "groups of one each": Case(
        (f"Section A/Ana Costa/{FIRST}", f"Section B/Bo Li/{FIRST}"), ("Ana Costa", "Bo Li"), "folders of groups"
    ),
    "two numbers that are no attempts": Case(
        (f"hw/1001/{FIRST}", f"hw/1002/{FIRST}", f"extra/{FIRST}"), ("extra", "hw"), "nothing says which"
    ),
    "a web page beside folders": Case(
        (f"Ana/{FIRST}", f"Bo/{FIRST}", "Eve_01_where_gradients_live.html"), ("Ana", "Bo", "Eve:-"), "'Eve'"
    ),
    "an unopened archive beside folders": Case(
        (f"Ana/{FIRST}", f"Bo/{FIRST}", "Dan.rar"), ("Ana", "Bo"), "nothing says whose it is"
    ),
    "copies of folders": Case(
        (f"Ana Costa/{FIRST}", f"Ana Costa (1)/{FIRST}", f"Bo/{FIRST}"),
        ("Ana Costa", "Ana Costa (1)", "Bo"),
        "may be one person's",
    ),
    "names in a lesson's folder": Case(
        (f"lesson1/Ana Costa - {FIRST}", f"lesson1/Jürgen Weiß - {FIRST}"),
        ("Ana Costa", "Jürgen Weiß"),
        "--names plain",
    ),
    "canvas beside a folder of late ones": Case(
        (f"costaana_101_9001_{FIRST}", f"libo_102_9002_{FIRST}", f"late/Cy/{FIRST}", f"late/Dan/{FIRST}"),
        ("costaana", "late", "libo"),
        "nothing says which",
    ),
    "old moodle, drive, by hand": Case(
        (f"Ada Lovelace_{FIRST}", f"Ben Okri_{FIRST}"), ("Ada Lovelace", "Ben Okri"), "taken as those of 2 students"
    ),
    "drive": Case((f"Ada Lovelace - {FIRST}", f"Ben Okri - {FIRST}"), ("Ada Lovelace", "Ben Okri"), "--names plain"),
    "files called after people": Case(("ada.ipynb", "ben.ipynb"), ("ada", "ben"), "--names plain"),
    "copies that may be several people's": Case(
        (FIRST, "01_where_gradients_live (1).ipynb", "01_where_gradients_live (2).ipynb"), ("class",), "--one-student"
    ),
    "one beside canvas": Case(
        (f"ada_12_345_{FIRST}", f"ben_13_346_{FIRST}", f"weil_ida_{FIRST}"), ("ada", "ben", "weil_ida"), "'weil_ida'"
    ),
    "a number claimed twice": Case((f"ada_12_345_{FIRST}", f"mallory_12_346_{FIRST}"), ("ada", "mallory"), "number 12"),
    "two answers, no order": Case(
        ("ada/01_a.ipynb", "ada/01_b.ipynb", f"ben/{FIRST}"), ("ada", "ben"), "nothing says which"
    ),
}
