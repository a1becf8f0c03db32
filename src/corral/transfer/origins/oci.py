"""Artifacts of registries: layers that carry the name of a file, each one fetched by its digest."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from corral.domain.model import FilePart
from corral.ports.origin import Found, Moved
from corral.transfer.faults import TransferFailed
from corral.transfer.layers import Layer, fetch_layer, layers_of, wish_for
from corral.transfer.origins.origin import Means, bad_address, is_inside, partials
from corral.transfer.registry import INDEX_TYPES, Reference, Registry, parse_reference

_BLOB = "blob:"
# Programs that pack models put the content's type here instead of a name.
_NAMES = {"gguf": "model.gguf"}


class Blobs:
    """Blobs of registries by their digests; `blob:oci://host/repository@sha256:…` is the address of one."""

    def __init__(self, means: Means) -> None:
        self._means = means

    def registry(self, reference: Reference) -> Registry:
        http = self._means.http_for(reference.host)
        return Registry(http, reference, self._means.options.registry_credentials)

    async def fetch(self, found: Found, into: Path, moved: Moved) -> Path:
        reference, layer = self._parse(found)
        downloader = self._means.downloader(into, self._means.http_for(reference.host))
        return (await fetch_layer(downloader, self.registry(reference), layer, moved)).path

    async def forget(self, found: Found, into: Path) -> None:
        reference, layer = self._parse(found)
        partials(into).delete(wish_for(self.registry(reference), layer))

    def _parse(self, found: Found) -> tuple[Reference, Layer]:
        reference = parse_reference(found.address.removeprefix(_BLOB))
        if not reference.digest or found.size_bytes is None:
            raise bad_address(found.address, "blob:oci://host/repository@sha256:…")
        return reference, Layer(digest=reference.digest, size_bytes=found.size_bytes, title=found.path)


class OciOrigin(Blobs):
    async def resolve(self, part: FilePart) -> tuple[Found, ...]:
        reference = parse_reference(part.uri)
        registry = self.registry(reference)
        _, document = await registry.manifest(reference.digest or reference.tag)
        if document.get("mediaType") in INDEX_TYPES or "manifests" in document:
            _, document = await registry.manifest(_only_manifest(part.uri, document))
        named = [(_name_of(layer), layer) for layer in layers_of(document)]
        found = [found_blob(name, reference, layer) for name, layer in named if name]
        if not found:
            raise TransferFailed(
                f"{part.uri} has no layers with a name: it is an image, not a model.",
                hint="Push files with a title, as `oras push` does.",
                code="unsupported",
            )
        return tuple(sorted(found, key=lambda one: one.path))


def found_blob(name: str, reference: Reference, layer: Layer, kind: str = "") -> Found:
    return Found(
        path=name,
        address=f"{_BLOB}{reference.at(layer.digest)}",
        sha256=layer.digest.removeprefix("sha256:"),
        size_bytes=layer.size_bytes,
        kind=kind,
    )


def _name_of(layer: Layer) -> str:
    if layer.is_tar and layer.title:
        raise TransferFailed(
            f"The layer {layer.title!r} is a packed folder.",
            hint="Push the files of the folder one by one.",
            code="unsupported",
        )
    if layer.title and not is_inside(layer.title):
        raise TransferFailed(f"The layer {layer.title!r} leads out of its folder.", code="bad_package")
    return layer.title or next((name for word, name in _NAMES.items() if word in layer.media_type), "")


def _only_manifest(uri: str, document: Mapping[str, Any]) -> str:
    manifests = document.get("manifests")
    if not isinstance(manifests, list) or len(manifests) != 1:
        raise TransferFailed(
            f"{uri} is a list of several images.", hint="Name one of them by its digest.", code="unsupported"
        )
    return str(manifests[0].get("digest", ""))
