"""Zip archives on servers and on the disk: what is in them, and one file out of them. Nothing else is unpacked.

`peek` reads the list at an archive's end by ranges, without fetching the archive.
"""

from __future__ import annotations

import hashlib
import io
import lzma
import os
import re
import zipfile
import zlib
from collections.abc import Mapping
from http import HTTPStatus
from pathlib import Path

from corral.runtime.disk import sync
from corral.transfer.faults import SourceFailed, TransferFailed, told_when_full
from corral.transfer.files import PRIVATE_FILE
from corral.transfer.http import Http
from corral.transfer.threads import Stop, in_thread

_CHUNK = 1024 * 1024
# The lists of most archives are in the first piece; one that is not in the second has a hundred thousand files.
_PIECES = (256 * 1024, 16 * 1024 * 1024)
_RANGE = re.compile(r"bytes (\d+)-\d+/(\d+)")
_NEW = ".new"
# zipfile: encrypted, or a compression that it does not know, is a RuntimeError
_BROKEN = (zipfile.BadZipFile, EOFError, zlib.error, lzma.LZMAError, UnicodeError, RuntimeError)


class _NotFetched(Exception):
    """More of the archive is needed. It never leaves this module."""


class _End(io.RawIOBase):
    """The last bytes of a long file."""

    def __init__(self, first: int, content: bytes) -> None:
        self._first = first
        self._content = content
        self._place = 0

    def seekable(self) -> bool:
        return True

    def readable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._place

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._place, os.SEEK_END: self._first + len(self._content)}[whence]
        self._place = max(0, start + offset)
        return self._place

    def read(self, size: int = -1) -> bytes:
        if self._place < self._first:
            raise _NotFetched
        start = self._place - self._first
        found = self._content[start:] if size < 0 else self._content[start : start + size]
        self._place += len(found)
        return found

    def files(self, _stop: Stop) -> dict[str, int]:
        with zipfile.ZipFile(self) as archive:
            return {info.filename: info.file_size for info in archive.infolist()}


async def peek(http: Http, url: str, headers: Mapping[str, str]) -> Mapping[str, int] | None:
    """The files of an archive and their sizes; None if its server gives no ranges or it is no archive."""
    for length in _PIECES:
        try:
            end = await _last_bytes(http, url, headers, length)
            if end is None:
                return None
            return await in_thread(end.files)
        except _NotFetched:
            continue
        except (*_BROKEN, SourceFailed, TransferFailed):
            # The download itself will tell.
            return None
    return None


async def _last_bytes(http: Http, url: str, headers: Mapping[str, str], length: int) -> _End | None:
    async with http.ask(url, headers={**headers, "Range": f"bytes=-{length}"}) as response:
        found = _RANGE.fullmatch(response.headers.get("Content-Range", ""))
        if response.status != HTTPStatus.PARTIAL_CONTENT or found is None:
            return None
        return _End(int(found[1]), await http.read(url, response, length))


def extract(archive: Path, member: str, target: Path, limit_bytes: int, stop: Stop) -> str:
    """Write one member to `target`, which is there as a whole or not at all; its sha256. Runs in a thread."""
    temporary = target.with_name(f"{target.name}{_NEW}")
    found, size = hashlib.sha256(), 0
    try:
        with zipfile.ZipFile(archive) as opened, opened.open(_member(opened, member)) as content:
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, PRIVATE_FILE)
            with told_when_full(f"{member} was unpacked"), os.fdopen(descriptor, "wb") as file:
                while chunk := content.read(_CHUNK):
                    stop.check()
                    size += len(chunk)
                    if size > limit_bytes:
                        raise TransferFailed(f"{member} is larger than {limit_bytes} bytes.", code="bad_package")
                    found.update(chunk)
                    file.write(chunk)
                file.flush()
                os.fsync(file.fileno())
        temporary.replace(target)
    except _BROKEN as error:
        raise TransferFailed(f"{archive.name} is damaged: {error}.", code="bad_package") from error
    finally:
        temporary.unlink(missing_ok=True)
    sync(target.parent)
    return found.hexdigest()


def _member(archive: zipfile.ZipFile, member: str) -> zipfile.ZipInfo:
    try:
        return archive.getinfo(member)
    except KeyError as error:
        raise no_such_member(member, archive.namelist()) from error


def no_such_member(member: str, names: list[str]) -> TransferFailed:
    """With those that might have been meant."""
    end = member.rpartition(".")[2]
    alike = [name for name in names if name.endswith(f".{end}") and ".dist-info/" not in name][:5]
    hint = f"There is {', '.join(alike)}." if alike else None
    return TransferFailed(f"There is no {member} in the package.", hint=hint, code="not_found")
