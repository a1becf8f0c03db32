"""Parses the text of a setting into galleries and formats them again. The rules of `values.py` apply."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Annotated

from pydantic import BeforeValidator

from corral.app.settings.values import is_web_address
from corral.domain.backend import BUILT_IN_GALLERY, Gallery

_GALLERIES_EXAMPLE = '[{"name": "mine", "url": "https://host/index.yaml", "mirrors": []}]'
_GALLERY_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", re.ASCII)


def parse_galleries(value: object) -> tuple[Gallery, ...]:
    """Parse galleries from a JSON list of {name, url, mirrors}, or from tables."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError as error:
            raise ValueError(f"is not JSON: write {_GALLERIES_EXAMPLE}") from error
    if not isinstance(value, list | tuple):
        raise ValueError(f"is not a list of galleries: write {_GALLERIES_EXAMPLE}")  # noqa: TRY004 - pydantic collects ValueError only
    galleries = tuple(_parse_gallery(item) for item in value)
    names = [gallery.name.lower() for gallery in galleries]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ValueError(f"names the gallery {twice!r} twice")
    return galleries


def _parse_gallery(item: object) -> Gallery:
    if isinstance(item, Gallery):
        return item
    if not isinstance(item, Mapping) or not item.keys() <= {"name", "url", "mirrors"}:
        raise ValueError(f"has an invalid gallery: write {_GALLERIES_EXAMPLE}")
    name, url, mirrors = item.get("name"), item.get("url"), item.get("mirrors") or []
    if not isinstance(name, str) or not _GALLERY_NAME.fullmatch(name):
        raise ValueError("has a gallery whose name is missing or not a single word")
    if name.lower() == BUILT_IN_GALLERY:
        raise ValueError(f"names a gallery {name!r}, which is the one that comes with Corral")
    if not isinstance(mirrors, list | tuple) or not all(is_web_address(one) for one in (url, *mirrors)):
        raise ValueError(f"has a gallery {name!r} whose url or mirrors are not http(s) addresses")
    return Gallery(name=name, url=str(url), mirrors=tuple(str(mirror) for mirror in mirrors))


def format_galleries(galleries: Iterable[Gallery]) -> str:
    """Return the galleries as text that `parse_galleries` reads."""
    return json.dumps(
        [
            {"name": one.name, "url": one.url} | ({"mirrors": list(one.mirrors)} if one.mirrors else {})
            for one in galleries
        ],
        ensure_ascii=False,
    )


Galleries = Annotated[tuple[Gallery, ...], BeforeValidator(parse_galleries)]
