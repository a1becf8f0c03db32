"""The blobs of a manifest: what they are, and how they are fetched from a registry that gives tokens for minutes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from corral.ports.origin import Moved
from corral.transfer.download import Downloader, Fetched, Wish
from corral.transfer.faults import SourceFailed, TransferFailed
from corral.transfer.registry import Registry

_LAYERS_MAX = 500
_RENEWALS_MAX = 20
_TITLE = "org.opencontainers.image.title"


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    digest: str
    size_bytes: int
    media_type: str = ""
    title: str = ""

    @property
    def is_tar(self) -> bool:
        return ".tar" in self.media_type or self.media_type.endswith("+tar")

    @property
    def file_name(self) -> str:
        return self.title or self.digest.removeprefix("sha256:")[:12]


def layers_of(document: Mapping[str, Any]) -> tuple[Layer, ...]:
    try:
        found = tuple(
            Layer(
                digest=str(layer["digest"]),
                size_bytes=int(layer["size"]),
                media_type=str(layer.get("mediaType", "")),
                title=str((layer.get("annotations") or {}).get(_TITLE, "")),
            )
            for layer in document["layers"]
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise TransferFailed("The manifest makes no sense.", code="bad_package") from error
    if not found or len(found) > _LAYERS_MAX:
        raise TransferFailed(f"The manifest has {len(found)} layers.", code="bad_package")
    if any(not layer.digest.startswith("sha256:") for layer in found):
        raise TransferFailed("A layer has a digest that is not sha256.", code="unsupported")
    return found


def wish_for(registry: Registry, layer: Layer) -> Wish:
    return Wish(
        url=registry.blob_url(layer.digest),
        file_name=layer.file_name,
        sha256=layer.digest.removeprefix("sha256:"),
        size_bytes=layer.size_bytes,
        is_size_promised=True,
        headers=registry.headers,
    )


async def fetch_layer(downloader: Downloader, registry: Registry, layer: Layer, moved: Moved) -> Fetched:
    for _ in range(_RENEWALS_MAX):
        try:
            return await downloader.fetch(wish_for(registry, layer), moved)
        except TransferFailed as error:
            if error.details.get("status") != HTTPStatus.UNAUTHORIZED or not await registry.renew(layer.digest):
                raise
    raise SourceFailed(f"{registry.blob_url(layer.digest)} goes on asking for a token.", code="source_unavailable")
