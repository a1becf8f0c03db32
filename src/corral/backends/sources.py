"""One text for where a backend lies, as people and older galleries write it, to a source.

oci://host/repository:tag   host/repository:tag   oci+http://…      an image or artifact of a registry
https://…  http://…                                                 a file
/path  file:///path                                                 a folder of the node
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import PurePosixPath
from urllib.parse import urlsplit

from corral.domain.backend import Source, SourceKind
from corral.policy.gallery import parse_source, wrong

# registry/repository:tag@digest. The first part is a host: it has a dot or a port, or is this machine.
_IMAGE = re.compile(
    r"(?P<registry>(?:[a-z0-9-]+(?:\.[a-z0-9-]+)+(?::\d+)?|[a-z0-9-]+:\d+|localhost|\[[0-9a-f:]+\](?::\d+)?))"
    r"/(?P<repository>[a-z0-9]+(?:[._/-]+[a-z0-9]+)*)"
    r"(?::(?P<tag>[A-Za-z0-9_][A-Za-z0-9._-]{0,127}))?(?:@(?P<digest>sha256:[0-9a-f]{64}))?",
    re.ASCII,
)
_PLAIN_HTTP = "oci+http://"
_ARCHIVES = (".tar.gz", ".tgz", ".tar", ".zip", ".whl", ".tar.xz", ".tar.bz2")


def image_of(uri: str) -> re.Match[str] | None:
    """The parts of a registry's reference, or None if it is none."""
    return _IMAGE.fullmatch(uri.removeprefix(_PLAIN_HTTP).removeprefix("oci://"))


def is_plain_http(uri: str) -> bool:
    return uri.startswith(_PLAIN_HTTP)


def source_of(uri: str, where: str, *, mirrors: Sequence[str] = (), sha256: str = "") -> Source:
    """The source; `InvalidRequest` with the code `bad_gallery` if no kind of source is meant."""
    kind, address = _read(uri, where)
    others = [_read(mirror, f"{where}: mirrors") for mirror in mirrors]
    if any(other != kind for other, _ in others):
        raise wrong(where, "a mirror is of another kind than the uri")
    value = {"kind": str(kind), "uri": address, "mirrors": [mirror for _, mirror in others], "sha256": sha256}
    return parse_source(value, where)


def name_of(source: Source) -> str:
    """What a folder or a file is called, without its endings; empty for a registry, whose tags are no names."""
    if source.kind is SourceKind.DIRECTORY:
        return PurePosixPath(source.uri).name
    if source.kind is not SourceKind.URL:
        return ""
    name = PurePosixPath(urlsplit(source.uri).path).name
    ending = next((ending for ending in _ARCHIVES if name.lower().endswith(ending)), "")
    return name[: len(name) - len(ending)]


def shown(url: str) -> str:
    """An address as it may be told and stored: without user, password and query."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return "an address that is none"
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="").geturl()


def _read(uri: str, where: str) -> tuple[SourceKind, str]:
    text = uri.strip()
    scheme, has_scheme, rest = text.partition("://")
    if has_scheme and scheme.lower() in ("http", "https"):
        if not rest.partition("/")[0]:
            raise wrong(where, "the uri has no host")
        return SourceKind.URL, text
    if has_scheme and scheme.lower() == "file":
        return SourceKind.DIRECTORY, _folder(rest, where)
    if text.startswith("/"):
        return SourceKind.DIRECTORY, _folder(text, where)
    if image_of(text) is not None:
        return SourceKind.OCI, text.removeprefix("oci://")
    raise wrong(where, f"{shown(text)[:200]!r} is neither an image of a registry, an http(s) address nor a folder")


def _folder(path: str, where: str) -> str:
    if not path.startswith("/") or ".." in PurePosixPath(path).parts:
        raise wrong(where, "the path of a folder is absolute and goes nowhere up")
    return path
