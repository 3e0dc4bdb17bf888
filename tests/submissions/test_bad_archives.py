"""Bad archives write nothing anywhere, and cost nobody but who handed them in."""

from __future__ import annotations

import io
import os
import stat
import struct
import tarfile
import unicodedata
import zipfile
from pathlib import Path

import pytest

from graders.core.text import clean_text
from graders.submissions.archives import CLASS_LIMITS, MAX_BYTES, MAX_WANTED, ArchiveLimits, unpack_archive
from graders.submissions.finding import find_submissions
from graders.submissions.members import BadArchive
from tests.submissions.packing import FIRST, GOOD, LESSONS, SECOND, found, hand_in, patched, tarred, why_none, zipped


def of_kind(name: str, mode: int, content: bytes = b"") -> tuple[zipfile.ZipInfo, bytes]:
    """A member of a zip file with this mode."""
    info = zipfile.ZipInfo(name)
    info.create_system, info.external_attr = 3, mode << 16
    return info, content


def of_type(name: str, kind: bytes, link: str = "") -> tarfile.TarInfo:
    """A member of a tar file of this type."""
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, link
    return info


# Bad archives: each as that of a student beside a neighbour, and as the one that is marked.

NAMES = {
    "a way out": "../evil.ipynb",
    "a way out further in": "a/../../evil.ipynb",
    "an absolute name": "/evil.ipynb",
    "a drive": "C:evil.ipynb",
    "a way out for Windows": "..\\evil.ipynb",
    "a share": "\\\\host\\evil.ipynb",
    "an empty folder name": "a//evil.ipynb",
    "a dot": "a/./evil.ipynb",
    "a new line": "evil\n.ipynb",
    "an escape": "evil\x1b[2J.ipynb",
    "a long name": "e" * 300 + ".ipynb",
    "a long name of few letters": "é" * 130 + ".ipynb",
    "a long path": "/".join(["folder" * 10] * 19) + "/e.ipynb",
    "a deep path": "d/" * 25 + "e.ipynb",
    "a device": "con.ipynb",
    "a device as a folder": "x/LPT1/e.ipynb",
    "a device with a space": "nul .txt.ipynb",
}


def bad_zip(case: str, file: Path) -> Path:
    """A zip file with a good notebook and something bad."""
    link, device, pipe = stat.S_IFLNK | 0o777, stat.S_IFCHR | 0o666, stat.S_IFIFO | 0o666
    match case:
        case _ if case in NAMES:
            return zipped(file, FIRST, (NAMES[case], GOOD))
        case "a null in a name":
            return patched(zipped(file, FIRST, "evilX.ipynb"), (b"evilX", b"evil\0"))
        case "a name that is not UTF-8":
            return patched(zipped(file, FIRST, "evilX.ipynb"), (b"evilX", b"evil\xff"))
        case "a link":
            return zipped(file, FIRST, of_kind("link.ipynb", link, b"/etc/passwd"))
        case "a link and a file through it":
            return zipped(file, FIRST, of_kind("out", link, b".."), "out/evil.ipynb")
        case "a device file":
            return zipped(file, FIRST, of_kind("null.ipynb", device))
        case "a pipe":
            return zipped(file, FIRST, of_kind("pipe.ipynb", pipe))
        case "a name twice":
            with pytest.warns(UserWarning, match="Duplicate"):
                return zipped(file, FIRST, FIRST)
        case "a name in another case":
            return zipped(file, FIRST, FIRST.upper())
        case "a name with another accent":
            return zipped(file, FIRST, *(unicodedata.normalize(form, "é.ipynb") for form in ("NFC", "NFD")))
        case "a file that is a folder, too":
            return zipped(file, FIRST, "a.ipynb", "a.ipynb/b.ipynb")
        case "a bomb":
            return zipped(file, FIRST, ("evil.ipynb", bytes(1 << 20)))
        case "too many bytes":
            return zipped(file, FIRST, *((f"{n}.ipynb", os.urandom(1 << 20)) for n in range(51)), packing=0)
        case "too many bytes, it says":
            evil = zipped(file, FIRST, ("evil.ipynb", b"x" * 1000))
            return patched(evil, (struct.pack("<I", 1000), struct.pack("<I", 2**31)))
        case "too many members":
            return zipped(file, FIRST, *((f"{n}.ipynb", b"") for n in range(MAX_WANTED)))
        case "a password" | "a certificate" | "hidden names":
            zipped(file, FIRST)
            raw = bytearray(file.read_bytes())
            flag = {"a password": 1, "a certificate": 0x40, "hidden names": 0x2000}[case]
            for start in (6, raw.index(b"PK\x01\x02") + 8):
                raw[start : start + 2] = (int.from_bytes(raw[start : start + 2], "little") | flag).to_bytes(2, "little")
            file.write_bytes(raw)
        case "an unusual compression":
            return zipped(file, FIRST, packing=zipfile.ZIP_LZMA)
        case "a changed byte":
            zipped(file, SECOND, FIRST)
            raw = bytearray(file.read_bytes())
            raw[raw.index(FIRST.encode()) + len(FIRST) + 5] ^= 0xFF
            file.write_bytes(raw)
        case "a missing end":
            file.write_bytes(zipped(file, FIRST).read_bytes()[:-30])
        case "no archive at all":
            file.write_bytes(b"Sign in to download")
        case "nothing":
            file.write_bytes(b"")
        case "a tar file in it":
            tarred(file, FIRST)
    return file


BAD_MEMBERS = {
    "a way out": "its name leads to another folder",
    "a way out further in": "its name leads to another folder",
    "a way out for Windows": "its name leads to another folder",
    "an absolute name": "its name is not relative",
    "a drive": "its name is not relative",
    "a share": "its name is not relative",
    "a link": "it is a link or a device",
    "a link and a file through it": "it belongs to no known lesson",
    "a device file": "it is a link or a device",
    "a pipe": "it is a link or a device",
    "a bomb": "it unpacks to more than 100 times its size",
    "too many bytes, it says": "it unpacks to more than 100 times its size",
    **dict.fromkeys(
        ["an empty folder name", "a dot", "a new line", "an escape", "a long name", "a long name of few letters",
         "a long path", "a deep path", "a device", "a device as a folder", "a device with a space", "a null in a name",
         "a name that is not UTF-8", "a file that is a folder, too"],
        "it belongs to no known lesson",
    ),
    "a name twice": "it does not count",
    "a name in another case": "it does not count",
    "a name with another accent": "it belongs to no known lesson",
    **dict.fromkeys(("a password", "a certificate", "hidden names"), "because it is encrypted"),
    "an unusual compression": "because it is compressed in an unusual way",
    "a changed byte": "it is damaged or of another format",
}  # fmt: skip
"""What costs the member that is bad, and no other: what is said of it."""
OF_THE_NOTEBOOK = ("a password", "a certificate", "hidden names", "an unusual compression", "a changed byte")
"""Those of which the bad member is the notebook itself."""
BAD_ZIPS = {
    "too many bytes": "it holds more than 50 MB",
    "too many members": "it has more than 200 notebooks",
    "a missing end": "it is damaged or of another format",
    "no archive at all": "it is damaged or of another format",
    "nothing": "it is damaged or of another format",
    "a tar file in it": "it is damaged or of another format",
}
"""What costs the whole archive."""


def listing(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def beside_ann(case: str, tmp_path: Path) -> Path:
    """A class in which Mallory hands in this bad archive."""
    hand_in(tmp_path / "class", f"ann/{FIRST}")
    (tmp_path / "class/mallory").mkdir()
    return bad_zip(case, tmp_path / "class/mallory/work.zip")


@pytest.mark.parametrize("case", BAD_MEMBERS)
def test_a_bad_member_costs_itself_alone_and_leads_nowhere(case: str, tmp_path: Path, scratch: Path) -> None:
    beside_ann(case, tmp_path)
    before = listing(tmp_path)
    result = find_submissions(tmp_path / "class", LESSONS, scratch)
    files = {
        submission.student: submission.file for submission in result.submissions if submission.lesson == LESSONS[0]
    }
    assert sorted(files) == ["ann", "mallory"]
    assert (files["mallory"] is None) == (case in OF_THE_NOTEBOOK)
    said = [account.fate for account in result.accounts if account.student == "mallory"]
    assert any(BAD_MEMBERS[case].casefold() in fate.casefold() for fate in said), said
    assert all(account.file == clean_text(account.file, 1000) for account in result.accounts)
    assert {str(Path(name).parent) for name in listing(tmp_path) - before if name.endswith(".ipynb")} <= {
        "deep/scratch/1"
    }
    assert not Path("/evil.ipynb").exists()


@pytest.mark.parametrize("case", BAD_ZIPS)
def test_a_bad_archive_costs_its_student_alone_and_writes_nothing(case: str, tmp_path: Path, scratch: Path) -> None:
    archive = beside_ann(case, tmp_path)
    before = listing(tmp_path)
    (ann, _, _), (mallory, lesson, why) = found(tmp_path / "class", scratch)
    assert (ann, mallory, lesson) == ("ann", "mallory", LESSONS[0])
    assert why.startswith("work.zip was not unpacked: ")
    assert BAD_ZIPS[case] in why
    assert why.endswith(("Hand in the notebooks themselves, or a plain zip of them.", "…"))
    assert why.isprintable()
    assert listing(tmp_path) == before
    if not case.startswith("too many"):  # the archive of a class may hold more
        assert BAD_ZIPS[case] in why_none(archive, scratch / "..")


@pytest.mark.parametrize(
    ("member", "why"),
    [
        (of_type("link.ipynb", tarfile.SYMTYPE, "/etc/passwd"), "it is a link or a device"),
        (of_type("link.ipynb", tarfile.LNKTYPE, FIRST), "it is a link or a device"),
        (of_type("null.ipynb", tarfile.CHRTYPE), "it is a link or a device"),
        (of_type("pipe.ipynb", tarfile.FIFOTYPE), "it is a link or a device"),
        (of_type("sparse.ipynb", tarfile.GNUTYPE_SPARSE), "it is"),
        ("../evil.ipynb", "its name leads to another folder"),
        ("/evil.ipynb", "its name is not relative"),
    ],
)
def test_a_bad_member_of_a_tar_file_is_not_unpacked(
    member: str | tarfile.TarInfo, why: str, tmp_path: Path, scratch: Path
) -> None:
    archive = tarred(tmp_path / "work.tar.gz", FIRST, member)
    good, bad = unpack_archive(archive, scratch / "new", ArchiveLimits())[0]
    assert good.file == scratch / "new/0.ipynb"
    assert bad.file is None
    assert why in bad.problem
    assert listing(scratch) == {"new", "new/0.ipynb"}


def test_a_tar_file_with_too_many_notebooks_is_refused(tmp_path: Path, scratch: Path) -> None:
    archive = tarred(tmp_path / "work.tar.gz", *(f"{n}.ipynb" for n in range(MAX_WANTED + 1)))
    with pytest.raises(BadArchive, match="it has more than 200 notebooks"):
        unpack_archive(archive, scratch / "new", ArchiveLimits())
    assert listing(scratch) == set()


def test_a_bomb_of_gzip_is_not_unpacked(tmp_path: Path, scratch: Path) -> None:
    info = tarfile.TarInfo("zeros")
    info.size = MAX_BYTES
    with tarfile.open(tmp_path / "bomb.tgz", "w:gz") as archive:
        for _ in range(5):
            archive.addfile(info, io.BytesIO(bytes(info.size)))
    with pytest.raises(BadArchive, match="it unpacks to more than 200 MB"):
        unpack_archive(tmp_path / "bomb.tgz", scratch / "new", ArchiveLimits())


def test_a_link_a_pipe_or_a_folder_is_no_archive(tmp_path: Path, scratch: Path) -> None:
    folder = tmp_path / "class/ann"
    hand_in(folder, FIRST)
    zipped(tmp_path / "other.zip", SECOND)
    (folder / "link.zip").symlink_to(tmp_path / "other.zip")
    os.mkfifo(folder / "pipe.zip")
    (folder / "folder.zip").mkdir()
    assert found(tmp_path / "class", scratch) == [("ann", LESSONS[0], FIRST)]
    assert "it is a link to another file" in why_none_of(folder / "link.zip", scratch)
    assert "not an ordinary file" in why_none_of(folder / "pipe.zip", scratch)


def why_none_of(archive: Path, scratch: Path) -> str:
    with pytest.raises(BadArchive) as caught:
        unpack_archive(archive, scratch / "new", ArchiveLimits())
    return str(caught.value)


def a_class_with_bad_parts(tmp_path: Path, suffix: str) -> Path:
    """An archive in which one student each did what was too much, beside Ann and Zoe."""
    spaces = b" " * (40 << 20)
    members: list[tuple[str, bytes]] = [
        (f"ann/{FIRST}", GOOD),
        (f"bob/{FIRST}", spaces),
        *((f"dan/{n}.ipynb", b" " * (110 << 20)) for n in range(3)),
        ("eve/marks.bin", b"PK\x01\x02" * 20_001),
        *((f"finn/{n}.txt", b"") for n in range(300)),
        (f"zoe/{FIRST}", GOOD),
    ]
    file = tmp_path / f"class{suffix}"
    if suffix == ".zip":
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, content in members:
                packing = zipfile.ZIP_STORED if name == "eve/marks.bin" else None
                archive.writestr(name, content, packing)
    else:
        with tarfile.open(file, "w:gz", compresslevel=1) as tar:
            for name, content in members:
                info = tarfile.TarInfo(name)
                info.size = len(content)
                tar.addfile(info, io.BytesIO(content))
    return file


@pytest.mark.parametrize("suffix", [".zip", ".tar.gz"])
def test_what_one_student_hands_in_never_stops_the_class(suffix: str, tmp_path: Path, scratch: Path) -> None:
    result = find_submissions(a_class_with_bad_parts(tmp_path, suffix), LESSONS, scratch)
    by_student = {submission.student: submission for submission in result.submissions}
    assert [student for student, submission in by_student.items() if submission.file] == ["ann", "zoe"]
    why = {
        ".zip": "it unpacks to more than 100 times its size",
        ".tar.gz": "The file has 42 MB, but at most 20 MB are read",
    }
    assert why[suffix] in by_student["bob"].problem
    assert by_student["dan"].problem
    assert by_student["eve"].problem == "marks.bin is not a notebook. Hand in the saved notebook (.ipynb) itself."
    assert (
        by_student["finn"].problem
        == "0.txt is a text file, not a notebook. Hand in the saved notebook (.ipynb) itself."
    )
    assert len(result.accounts) == 307


def test_a_list_of_members_that_would_fill_the_memory_is_not_read(tmp_path: Path, scratch: Path) -> None:
    archive = zipped(tmp_path / "work.zip", FIRST, *((f"{n}" + "x" * 200, b"") for n in range(40)))
    with pytest.raises(BadArchive, match="it has too many members"):
        unpack_archive(archive, scratch / "new", ArchiveLimits(directory=8192))
    assert unpack_archive(archive, scratch / "new", CLASS_LIMITS)[0][0].file
