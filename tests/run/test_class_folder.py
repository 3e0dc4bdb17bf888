"""Whose work a path is: a class's is never run without isolation unless that is allowed."""

from __future__ import annotations

from pathlib import Path

import pytest

from graders.run.class_folder import is_class

FILE = "01_where_gradients_live.ipynb"
SHAPES = {
    "a notebook": (FILE, (FILE,), False),
    "a folder of notebooks": (".", (FILE, "notes.txt", "data/x.csv"), False),
    "a folder of one student": (".", (f"ada/{FILE}",), True),
    "a folder of two": (".", (f"ada/{FILE}", f"ben/{FILE}", "roster.csv"), True),
    "one folder by Moodle": (".", (f"Ada Lovelace_123456_assignsubmission_file_/{FILE}",), True),
    "one file by Canvas": (".", (f"lovelaceada_12345_67890_{FILE}",), True),
    "one file by Moodle": (".", (f"Ada Lovelace_123456_assignsubmission_file_{FILE}",), True),
    "the file that Canvas named": (f"lovelaceada_12345_67890_{FILE}", (f"lovelaceada_12345_67890_{FILE}",), True),
    "a zip": ("class.zip", ("class.zip",), True),
    "a tar": ("class.tar.gz", ("class.tar.gz",), True),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_the_shape_decides_and_not_how_many_there_are(shape: str, tmp_path: Path) -> None:
    where, files, expected = SHAPES[shape]
    for name in files:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    assert is_class(tmp_path / where) is expected
