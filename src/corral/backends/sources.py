"""Parses the address of a backend, as people and older galleries write it, into a source.

oci://host/repository:tag   host/repository:tag   oci+http://…      an image or artifact of a registry
https://…  http://…                                                 a file
/path  file:///path                                                 a folder of the node

Addresses from users that lead into a private network are refused, unlike those that the operator has configured,
because a worker fetches them from within the operator's network: this machine, private and link-local networks,
metadata services, and names that resolve to any of these. Limit: a name may resolve to another address a moment later;
fetch by digest where that matters.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import PurePosixPath
from urllib.parse import urlsplit

from corral.domain.backend import BackendSource, SourceKind
from corral.domain.errors import InvalidRequest, Unprocessable
from corral.policy.addresses import is_private_address
from corral.policy.gallery import make_gallery_error, parse_source
from corral.ports.files import Fetcher

# registry/repository:tag@digest. The first part is a host: it has a dot or a port, or is this machine.
_IMAGE = re.compile(
    r"(?P<registry>(?:[a-z0-9-]+(?:\.[a-z0-9-]+)+(?::\d+)?|[a-z0-9-]+:\d+|localhost|\[[0-9a-f:]+\](?::\d+)?))"
    r"/(?P<repository>[a-z0-9]+(?:[._/-]+[a-z0-9]+)*)"
    r"(?::(?P<tag>[A-Za-z0-9_][A-Za-z0-9._-]{0,127}))?(?:@(?P<digest>sha256:[0-9a-f]{64}))?",
    re.ASCII,
)
_PLAIN_HTTP = "oci+http://"
_ARCHIVES = (".tar.gz", ".tgz", ".tar", ".zip", ".whl", ".tar.xz", ".tar.bz2")


def parse_image(uri: str) -> re.Match[str] | None:
    """Return the parts of a registry reference, or None if the text is none."""
    return _IMAGE.fullmatch(uri.removeprefix(_PLAIN_HTTP).removeprefix("oci://"))


def is_plain_http(uri: str) -> bool:
    return uri.startswith(_PLAIN_HTTP)


def parse_source_uri(uri: str, where: str, *, mirrors: Sequence[str] = (), sha256: str = "") -> BackendSource:
    """Return the source of an address; `InvalidRequest` with the code `bad_gallery` if it is of no known kind."""
    kind, address = _parse_kind(uri, where)
    others = [_parse_kind(mirror, f"{where}: mirrors") for mirror in mirrors]
    if any(other != kind for other, _ in others):
        raise make_gallery_error(where, "a mirror is of another kind than the uri")
    value = {"kind": str(kind), "uri": address, "mirrors": [mirror for _, mirror in others], "sha256": sha256}
    return parse_source(value, where)


def derive_name(source: BackendSource) -> str:
    """Return the name of a folder or file, without its endings; empty for a registry, whose tags are no names."""
    if source.kind is SourceKind.DIRECTORY:
        return PurePosixPath(source.uri).name
    if source.kind is not SourceKind.URL:
        return ""
    name = PurePosixPath(urlsplit(source.uri).path).name
    ending = next((ending for ending in _ARCHIVES if name.lower().endswith(ending)), "")
    return name[: len(name) - len(ending)]


def redact_url(url: str) -> str:
    """Return an address that may be shown and stored: without user, password and query."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return "an invalid address"
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="").geturl()


def _parse_kind(uri: str, where: str) -> tuple[SourceKind, str]:
    text = uri.strip()
    scheme, has_scheme, rest = text.partition("://")
    if has_scheme and scheme.lower() in ("http", "https"):
        if not rest.partition("/")[0]:
            raise make_gallery_error(where, "the uri has no host")
        return SourceKind.URL, text
    if has_scheme and scheme.lower() == "file":
        return SourceKind.DIRECTORY, _parse_folder(rest, where)
    if text.startswith("/"):
        return SourceKind.DIRECTORY, _parse_folder(text, where)
    if parse_image(text) is not None:
        return SourceKind.OCI, text.removeprefix("oci://")
    raise make_gallery_error(
        where, f"{redact_url(text)[:200]!r} is neither an image of a registry, an http(s) address nor a folder"
    )


def _parse_folder(path: str, where: str) -> str:
    if not path.startswith("/") or ".." in PurePosixPath(path).parts:
        raise make_gallery_error(where, "the path of a folder must be absolute and without '..'")
    return path


async def refuse_private(uri: str, fetcher: Fetcher) -> None:
    """Raise `Unprocessable` with the code `private_address` if the uri leads to a private address. A folder has no
    host."""
    host = _parse_host(uri)
    if host is None:
        return
    # The name itself is checked first: a query for an inner name would disclose it to the name service.
    if is_private_address(host) or any(is_private_address(one) for one in await fetcher.look_up_addresses(host)):
        raise Unprocessable(
            "The address leads into a private network or to this machine itself.",
            code="private_address",
            hint="Put the file behind a public address, or let the operator add a gallery: those may be private.",
        )


def _parse_host(uri: str) -> str | None:
    text = uri.strip()
    if text.lower().startswith(("http://", "https://")):
        try:
            return urlsplit(text).hostname or ""
        except ValueError as error:
            raise InvalidRequest("The address is not valid.", code="bad_uri") from error
    image = parse_image(text)
    if image is None:
        return None
    return urlsplit(f"//{image['registry']}").hostname or ""
