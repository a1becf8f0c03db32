"""A file by its address."""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from urllib.parse import unquote, urlsplit

from corral.domain.model import FilePart
from corral.ports.origin import Found, Moved
from corral.transfer.download import Wish
from corral.transfer.origins.origin import Means, bad_address, partials

_NAMELESS = "file"


class UrlOrigin:
    def __init__(self, means: Means) -> None:
        self._means = means

    async def resolve(self, part: FilePart) -> tuple[Found, ...]:
        name = _name_of(part.uri)
        wish = Wish(url=part.uri, file_name=name)
        size = await self._means.downloader(Path(), self._means.outside).size_of(wish)
        return (Found(path=name, address=part.uri, sha256=part.sha256, size_bytes=size),)

    async def fetch(self, found: Found, into: Path, moved: Moved) -> Path:
        return (await self._means.downloader(into, self._means.outside).fetch(_wish(found), moved)).path

    async def forget(self, found: Found, into: Path) -> None:
        partials(into).delete(_wish(found))


def _wish(found: Found) -> Wish:
    return Wish(url=found.address, file_name=found.path, sha256=found.sha256, size_bytes=found.size_bytes)


def _name_of(url: str) -> str:
    try:
        parts = urlsplit(url)
        name = PurePosixPath(unquote(parts.path)).name
        is_fine = bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_fine, name = False, ""
    if not is_fine:
        raise bad_address(url, "https://host/file")
    return name if name not in ("", "..") else _NAMELESS
