"""Which files a project has on a Python package index: the simple API as JSON, or as a page where there is no other."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from html.parser import HTMLParser
from http import HTTPStatus
from typing import Any
from urllib.parse import unquote, urldefrag, urljoin, urlsplit, urlunsplit

from corral.transfer.faults import SourceFailed
from corral.transfer.http import Http, refused, shown
from corral.transfer.threads import in_thread

_JSON = "application/vnd.pypi.simple.v1+json"
_ACCEPT = f"{_JSON}, application/vnd.pypi.simple.v1+html;q=0.2, text/html;q=0.01"
# Projects with thousands of files have pages of some megabytes.
_PAGE_BYTES_MAX = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexFile:
    name: str
    url: str
    sha256: str = ""
    size_bytes: int | None = None
    # What the file's server wants to see, if it is the index itself.
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)


async def find_files(http: Http, index: str, project: str) -> tuple[IndexFile, ...] | None:
    """The files of a project, whose name is in its normal form; None if this index has no such project.

    A user and password in the address of the index are sent to its host, and to no other.
    """
    address, authorization = _without_secret(f"{index.rstrip('/')}/{project}/")
    headers = {"Authorization": authorization} if authorization else {}
    async with http.ask(address, headers={"Accept": _ACCEPT, **headers}) as response:
        if response.status in (HTTPStatus.NOT_FOUND, HTTPStatus.GONE):
            return None
        if response.status != HTTPStatus.OK:
            raise refused(address, response.status)
        body = await http.read(address, response, _PAGE_BYTES_MAX)
        base, content_type = str(response.url), response.content_type
    if content_type == _JSON:
        found = await in_thread(lambda _stop: _from_json(address, base, body))
    else:
        found = await in_thread(lambda _stop: _from_page(base, body))
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


def _without_secret(address: str) -> tuple[str, str]:
    parts = urlsplit(address)
    user, _, host = parts.netloc.rpartition("@")
    plain = urlunsplit((parts.scheme, host, parts.path, parts.query, ""))
    if not user:
        return plain, ""
    return plain, f"Basic {base64.b64encode(unquote(user).encode()).decode()}"


def _from_json(address: str, base: str, body: bytes) -> list[IndexFile]:
    try:
        return [_file_of(base, entry) for entry in json.loads(body)["files"]]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise SourceFailed(
            f"{shown(address)} answers with something that is not a list of files.", code="bad_answer"
        ) from error


def _file_of(base: str, entry: Mapping[str, Any]) -> IndexFile:
    size = entry.get("size")
    return IndexFile(
        name=str(entry["filename"]),
        url=urljoin(base, str(entry["url"])),
        sha256=str((entry.get("hashes") or {}).get("sha256", "")),
        size_bytes=size if isinstance(size, int) else None,
    )


def _from_page(base: str, body: bytes) -> list[IndexFile]:
    page = _Page(base)
    page.feed(body.decode("utf-8", errors="replace"))
    page.close()
    return page.files


class _Page(HTMLParser):
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
