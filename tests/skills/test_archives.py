"""Archives of skills: what goes out comes in again, and what could do harm is refused."""

from __future__ import annotations

import gzip
import io
import stat
import tarfile
import zipfile

import pytest

from corral.domain.errors import InvalidRequest
from corral.skills import archives
from corral.skills.archives import read_skills, read_valid_skills, write_archive
from tests.support.git_server import skill_text

DOCUMENT = skill_text("pdf").encode()


def make_tar(*entries: tuple[str, bytes | tarfile.TarInfo], packed: bool = True) -> bytes:
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w:gz" if packed else "w") as archive:
        for name, content in entries:
            entry = content if isinstance(content, tarfile.TarInfo) else tarfile.TarInfo(name)
            data = b"" if isinstance(content, tarfile.TarInfo) else content
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    return target.getvalue()


def make_zip(*entries: tuple[str, bytes], mode: int = 0) -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in entries:
            entry = zipfile.ZipInfo(name)
            entry.external_attr = mode << 16
            archive.writestr(entry, content, zipfile.ZIP_DEFLATED)
    return target.getvalue()


def make_special(kind: bytes, name: str = "pdf/x", target: str = "/etc/passwd") -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.type, entry.linkname = kind, target
    return entry


def refuse(data: bytes) -> InvalidRequest:
    with pytest.raises(InvalidRequest) as refused:
        read_skills(data)
    return refused.value


@pytest.mark.parametrize("kind", ["tar.gz", "tar", "zip"])
def test_archive_of_several_skills_is_read_with_their_files(kind: str) -> None:
    entries = [
        ("all/pdf/SKILL.md", DOCUMENT),
        ("all/pdf/scripts/run.py", b"#!/usr/bin/env python3\n"),
        ("all/pdf/inner/SKILL.md", b"a file of the skill around it"),
        ("all/xls/SKILL.md", skill_text("xls").encode()),
        ("all/README.md", b"not of a skill"),
        ("__MACOSX/all/pdf/._SKILL.md", b"junk"),
    ]
    data = make_zip(*entries) if kind == "zip" else make_tar(*entries, packed=kind == "tar.gz")
    (pdf, xls), _ = read_skills(data)
    assert (pdf.name, sorted(pdf.files)) == ("pdf", ["inner/SKILL.md", "scripts/run.py"])
    assert (xls.name, dict(xls.files)) == ("xls", {})


def test_skill_that_is_exported_is_imported_as_it_was() -> None:
    files = {"SKILL.md": DOCUMENT, "scripts/run.sh": b"#!/bin/sh\n", "assets/ü.bin": bytes(range(256))}
    packed = write_archive("pdf", files)
    assert packed == write_archive("pdf", files)
    (content,), _ = read_skills(packed)
    assert {"SKILL.md": content.document.encode(), **content.files} == files
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        assert archive.getmember("pdf/scripts/run.sh").mode == 0o755


@pytest.mark.behaviour("SKILL-7")
@pytest.mark.parametrize("name", ["../x", "pdf/../../x", "/etc/x", "pdf/..", "C:/x", "pdf\\..\\x", "pdf/a\nb"])
@pytest.mark.parametrize("make", [make_tar, make_zip])
def test_archive_with_a_path_that_leads_out_of_it_is_refused(make: object, name: str) -> None:
    assert callable(make)
    assert refuse(make(("pdf/SKILL.md", DOCUMENT), (name, b"x"))).slug == "bad_path"


@pytest.mark.behaviour("SKILL-7")
@pytest.mark.parametrize(
    "kind",
    [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE, tarfile.GNUTYPE_SPARSE],
)
def test_archive_with_a_link_or_a_device_is_refused(kind: bytes) -> None:
    assert refuse(make_tar(("pdf/SKILL.md", DOCUMENT), ("", make_special(kind)))).slug == "bad_archive"


@pytest.mark.behaviour("SKILL-7")
def test_zip_with_a_link_is_refused() -> None:
    assert refuse(make_zip(("pdf/SKILL.md", b"/etc/passwd"), mode=stat.S_IFLNK | 0o777)).slug == "bad_archive"


@pytest.mark.behaviour("SKILL-7")
@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("names", [("pdf/x", "pdf/x"), ("pdf/x", "./pdf//x"), ("pdf/x", "pdf/X"), ("pdf/x", "pdf/x/y")])
def test_archive_with_names_that_cannot_lie_beside_each_other_is_refused(names: tuple[str, str]) -> None:
    entries = [("pdf/SKILL.md", DOCUMENT), *((name, b"x") for name in names)]
    assert refuse(make_tar(*entries)).slug in ("bad_archive", "bad_path")
    assert refuse(make_zip(*entries)).slug in ("bad_archive", "bad_path")


@pytest.mark.behaviour("SKILL-7")
def test_archive_that_unpacks_to_too_much_is_refused() -> None:
    zeros = bytes(archives.CONTENT_BYTES_MAX + 1024)
    for data in (make_tar(("pdf/x", zeros)), make_zip(("pdf/x", zeros)), gzip.compress(bytes(200 << 20))):
        assert len(data) < 1 << 20
        assert refuse(data).slug == "archive_too_large"


@pytest.mark.behaviour("SKILL-7")
def test_zip_whose_head_lies_about_the_size_of_a_file_is_refused() -> None:
    data = bytearray(make_zip(("pdf/SKILL.md", DOCUMENT), ("pdf/x", bytes(archives.CONTENT_BYTES_MAX + 1024))))
    size = (archives.CONTENT_BYTES_MAX + 1024).to_bytes(4, "little")
    while (at := data.find(size)) >= 0:
        data[at : at + 4] = (10).to_bytes(4, "little")
    assert refuse(bytes(data)).slug in ("archive_too_large", "bad_archive")


@pytest.mark.behaviour("SKILL-7")
def test_archive_with_too_many_or_too_large_files_is_refused() -> None:
    document = ("pdf/SKILL.md", DOCUMENT)
    assert refuse(make_tar(document, *((f"pdf/{i}", b"") for i in range(101)))).slug == "skill_too_large"
    assert refuse(make_tar(document, ("pdf/x", bytes(1024 * 1024 + 1)))).slug == "skill_too_large"
    assert refuse(make_tar(document, *((f"pdf/{i}", bytes(1 << 20)) for i in range(10)))).slug == "skill_too_large"
    assert refuse(make_tar(*((f"{i}", b"") for i in range(archives.ENTRIES_MAX + 1)))).slug == "archive_too_large"
    assert refuse(bytes(archives.ARCHIVE_BYTES_MAX + 1)).slug == "archive_too_large"


@pytest.mark.behaviour("SKILL-7")
@pytest.mark.parametrize(
    "data", [b"", b"hello", b"PK\x03\x04broken", gzip.compress(b"x" * 600, mtime=0)[:-20], b"\x1f\x8b\x08"]
)
def test_damaged_archive_is_refused(data: bytes) -> None:
    assert refuse(data).slug == "bad_archive"


def test_path_is_long_only_if_it_is_so_within_its_skill() -> None:
    folder = "/".join(["a" * 60] * 4)
    (content,), _ = read_skills(make_tar((f"{folder}/pdf/SKILL.md", DOCUMENT), (f"{folder}/pdf/{'x' * 120}", b"y")))
    assert list(content.files) == ["x" * 120]
    assert refuse(make_tar(("pdf/SKILL.md", DOCUMENT), (f"pdf/{'x' * 121}", b"y"))).slug == "bad_path"


def test_archive_without_a_skill_is_refused() -> None:
    assert "SKILL.md" in refuse(make_tar(("README.md", b"x"))).message


def test_skills_of_a_repository_that_are_not_valid_are_named_and_left_out() -> None:
    data = make_tar(
        ("a/SKILL.md", skill_text("good").encode()),
        ("b/SKILL.md", b"no front matter"),
        ("c/SKILL.md", skill_text("good").encode()),
        ("d/SKILL.md", b"\xff\xfe"),
    )
    (found, problems), _ = read_valid_skills(data)
    assert [content.name for content in found] == ["good"]
    assert [problem.partition(":")[0] for problem in problems] == ["b", "c", "d"]
