"""Reads skills from archives of unknown origin, and writes them: tar, tar.gz and zip in, tar.gz out.

Guarantees: nothing is written to a disk; an archive is refused if a name in it leads out of its folder, occurs twice or
is a link or a device, and if there are more files or bytes in it than skills may have, however small it is itself.
Reading takes seconds for the largest archive, so it is done in the frontend's `ComputeProcess`.
"""

from __future__ import annotations

import gzip
import io
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from corral.domain.errors import InvalidRequest, TooLarge
from corral.domain.skill import DOCUMENT_NAME, SkillContent
from corral.policy import skills as policy
from corral.skills.skill_document import parse_document

# Of the archive itself, and of everything in it; a sync brings a whole repository.
ARCHIVE_BYTES_MAX = 16 * 1024 * 1024
CONTENT_BYTES_MAX = 20 * 1024 * 1024
# More than the skills of one repository may have.
ENTRIES_MAX = 12_000
# Heads and padding of a tar, beside the bytes of its files.
_TAR_BYTES_MAX = CONTENT_BYTES_MAX + 3 * 512 * ENTRIES_MAX
CODE = "bad_archive"
# What systems put into archives beside their files.
_IGNORED_PARTS = frozenset({".git", "__MACOSX", ".DS_Store", "__pycache__"})
_GZIP = b"\x1f\x8b"
_ZIP = b"PK\x03\x04"
_MODE, _PROGRAM_MODE = 0o644, 0o755


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillFolder:
    """A folder of an archive that has a `SKILL.md`, with all files below it by their paths in the folder."""

    # The path of the folder in the archive; empty: the archive itself.
    path: str
    document: bytes
    files: Mapping[str, bytes]

    @property
    def label(self) -> str:
        return self.path or DOCUMENT_NAME


def read_archive(data: bytes) -> tuple[list[SkillFolder], bytes]:
    """Return the folders of an archive that are skills. Raises `InvalidRequest` for an archive that is refused."""
    if len(data) > ARCHIVE_BYTES_MAX:
        raise TooLarge(f"The archive is larger than {ARCHIVE_BYTES_MAX >> 20} MiB.", code="archive_too_large")
    files: dict[str, bytes] = {}
    size_bytes = 0
    for name, content in _iter_zip(data) if data.startswith(_ZIP) else _iter_tar(data):
        path = policy.normalise_path(name, policy.ARCHIVE_PATH_BYTES_MAX)
        if path in files:
            raise _make_error(f"{path[:80]!r} is in the archive twice.")
        size_bytes += len(content)
        if size_bytes > CONTENT_BYTES_MAX or len(files) >= ENTRIES_MAX:
            raise _make_too_large_error()
        files[path] = content
    return _find_folders(files), b""


def read_skills(data: bytes) -> tuple[list[SkillContent], bytes]:
    """Return the skills of an archive. Raises `InvalidRequest` if one of them, or the archive, is refused."""
    folders, _ = read_archive(data)
    if not folders:
        raise _make_error(f"The archive has no {DOCUMENT_NAME}.", f"A skill is a folder with a {DOCUMENT_NAME} in it.")
    if len(folders) > policy.REPO_SKILLS_MAX:
        raise _make_error(f"The archive has more than {policy.REPO_SKILLS_MAX} skills.")
    found = [make_content(folder) for folder in folders]
    _require_distinct([content.name for content in found])
    return found, b""


def read_valid_skills(data: bytes) -> tuple[tuple[list[SkillContent], list[str]], bytes]:
    """Return the skills of an archive that are valid, and a sentence for each that is not. Raises `InvalidRequest` if
    the archive itself is refused."""
    folders, _ = read_archive(data)
    found: dict[str, SkillContent] = {}
    problems = []
    for folder in folders:
        try:
            content = make_content(folder)
        except InvalidRequest as error:
            problems.append(f"{folder.label}: {error.message}")
            continue
        if content.name in found:
            problems.append(f"{folder.label}: another folder has the skill {content.name}, too.")
        elif len(found) >= policy.REPO_SKILLS_MAX:
            problems.append(f"{folder.label}: more than {policy.REPO_SKILLS_MAX} skills.")
        else:
            found[content.name] = content
    return (list(found.values()), problems), b""


def make_content(folder: SkillFolder) -> SkillContent:
    """Return the skill in a folder. Raises `InvalidRequest` for the first thing that is wrong."""
    try:
        text = folder.document.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise policy.make_error(f"{DOCUMENT_NAME} is not UTF-8 text.") from error
    parsed = parse_document(text)
    content = SkillContent(
        name=parsed.name,
        description=parsed.description,
        front_matter=parsed.front_matter,
        body=parsed.body,
        document=parsed.document,
        files={policy.normalise_file_path(path): data for path, data in folder.files.items()},
    )
    policy.check_content(content)
    return content


def write_archive(name: str, files: Mapping[str, bytes]) -> bytes:
    """Return a tar.gz with one folder. Equal files make equal bytes."""
    target = io.BytesIO()
    # Without the time of its making.
    with (
        gzip.GzipFile(filename="", mode="wb", fileobj=target, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for path in sorted(files):
            entry = tarfile.TarInfo(f"{name}/{path}")
            entry.size = len(files[path])
            # A script stays one that can be started.
            entry.mode = _PROGRAM_MODE if files[path].startswith(b"#!") else _MODE
            archive.addfile(entry, io.BytesIO(files[path]))
    return target.getvalue()


def pack_files(name: str, sizes: Sequence[tuple[str, int]], payload: bytes) -> tuple[None, bytes]:
    """Return a tar.gz of files that lie one behind the other in `payload`. Made for `ComputeProcess`."""
    files, at = {}, 0
    for path, size_bytes in sizes:
        files[path] = payload[at : at + size_bytes]
        at += size_bytes
    return None, write_archive(name, files)


def _find_folders(files: Mapping[str, bytes]) -> list[SkillFolder]:
    """Return the outermost folders with a `SKILL.md`; a nested one is a file of the skill around it."""
    roots = {str(PurePosixPath(path).parent) for path in files if PurePosixPath(path).name == DOCUMENT_NAME}
    found = []
    for root in sorted(roots):
        if any(str(parent) in roots for parent in PurePosixPath(root).parents if str(parent) != root):
            continue
        prefix = "" if root == "." else f"{root}/"
        inside = {path[len(prefix) :]: content for path, content in files.items() if path.startswith(prefix)}
        document = inside.pop(DOCUMENT_NAME)
        found.append(SkillFolder(path=prefix.rstrip("/"), document=document, files=inside))
    return found


def _is_ignored(name: str) -> bool:
    return not _IGNORED_PARTS.isdisjoint(PurePosixPath(name).parts)


def _iter_tar(data: bytes) -> Iterator[tuple[str, bytes]]:
    unpacked = _unpack(data) if data.startswith(_GZIP) else data
    try:
        with tarfile.open(fileobj=io.BytesIO(unpacked), mode="r:") as archive:
            for number, entry in enumerate(archive):
                if number >= ENTRIES_MAX:
                    raise _make_too_large_error()
                if not _is_ignored(entry.name):
                    yield from _read_tar_entry(archive, entry)
    except (tarfile.TarError, EOFError, ValueError, OSError) as error:
        raise _make_error("This is no archive that can be read.", "Send a tar.gz, a tar or a zip.") from error


def _read_tar_entry(archive: tarfile.TarFile, entry: tarfile.TarInfo) -> Iterator[tuple[str, bytes]]:
    if entry.isdir():
        _check_folder_name(entry.name)
        return
    # A sparse file may be much larger than the archive.
    if entry.type not in (tarfile.REGTYPE, tarfile.AREGTYPE) or entry.issparse():
        raise _make_entry_error(entry.name)
    source = archive.extractfile(entry)
    assert source is not None, "a plain file has content"
    content = source.read()
    if len(content) != entry.size:
        raise _make_error("The archive ends in the middle of a file.")
    yield entry.name, content


def _unpack(data: bytes) -> bytes:
    """Return the bytes of a gzip, of which there may be several behind each other."""
    found, rest = bytearray(), data
    while rest.startswith(_GZIP):
        unpacker = zlib.decompressobj(wbits=31)
        try:
            found += unpacker.decompress(rest, _TAR_BYTES_MAX - len(found) + 1)
        except zlib.error as error:
            raise _make_error("The archive is damaged: it cannot be unpacked.") from error
        if len(found) > _TAR_BYTES_MAX:
            raise _make_too_large_error()
        if not unpacker.eof:
            raise _make_error("The archive ends too early.")
        rest = unpacker.unused_data
    return bytes(found)


def _iter_zip(data: bytes) -> Iterator[tuple[str, bytes]]:
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            entries = archive.infolist()
            if len(entries) > ENTRIES_MAX or sum(entry.file_size for entry in entries) > CONTENT_BYTES_MAX:
                raise _make_too_large_error()
            for entry in entries:
                if not _is_ignored(entry.filename):
                    yield from _read_zip_entry(archive, entry)
    except (zipfile.BadZipFile, EOFError, ValueError, OSError, NotImplementedError, RuntimeError, zlib.error) as error:
        raise _make_error("This is no zip that can be read.", "Send a zip without a password, or a tar.gz.") from error


def _read_zip_entry(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> Iterator[tuple[str, bytes]]:
    if entry.is_dir():
        _check_folder_name(entry.filename)
        return
    kind = stat.S_IFMT(entry.external_attr >> 16)
    if kind not in (0, stat.S_IFREG):
        raise _make_entry_error(entry.filename)
    with archive.open(entry) as source:
        # What the head says of the size may be a lie.
        content = source.read(CONTENT_BYTES_MAX + 1)
    if len(content) > CONTENT_BYTES_MAX:
        raise _make_too_large_error()
    yield entry.filename, content


def _check_folder_name(name: str) -> None:
    if PurePosixPath(name).parts:
        policy.normalise_path(name.rstrip("/"), policy.ARCHIVE_PATH_BYTES_MAX)


def _require_distinct(names: list[str]) -> None:
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise _make_error(f"The archive has the skill {twice} twice.")


def _make_entry_error(name: str) -> InvalidRequest:
    return _make_error(f"{name[:80]!r} is a link, a device or another special file.", "Pack plain files and folders.")


def _make_too_large_error() -> TooLarge:
    return TooLarge(
        f"The archive holds more than {CONTENT_BYTES_MAX >> 20} MiB, or more than {ENTRIES_MAX} entries.",
        hint=f"A skill has at most {policy.SKILL_BYTES_MAX >> 20} MiB and {policy.FILES_MAX} files.",
        code="archive_too_large",
    )


def _make_error(sentence: str, hint: str | None = None) -> InvalidRequest:
    return policy.make_error(sentence, hint, code=CODE)
