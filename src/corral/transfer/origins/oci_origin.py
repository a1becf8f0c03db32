"""Fetches models of registries, each blob by its digest.

An OCI artifact has layers that carry the name of a file; a model of Ollama is one blob with the weights, and small ones
with template, prompt and parameters.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from corral.domain.model import FilePart
from corral.ports.files import MODEL_KIND, OriginFile, ProgressCallback
from corral.transfer.faults import TransferFailed
from corral.transfer.oci_registry import (
    INDEX_TYPES,
    OciLayer,
    OciReference,
    OciRepositoryClient,
    fetch_layer,
    make_layer_request,
    parse_layers,
    parse_reference,
)
from corral.transfer.origins.file_origin import OriginDeps, is_inside, make_address_error, open_partials

_BLOB = "blob:"
# Programs that pack models put the content's type here instead of a name.
_NAMES = {"gguf": "model.gguf"}
# The defaults for names without a host, as in Ollama itself.
DEFAULT_HOST = "registry.ollama.ai"
_DEFAULT_OWNER = "library"
_TYPE = "application/vnd.ollama.image."
# File names of the layers. Others (licenses, messages) are not needed to run a model.
_FILES = {
    MODEL_KIND: "model.gguf",
    "projector": "projector.gguf",
    "adapter": "adapter.gguf",
    "template": "template.txt",
    "system": "system.txt",
    "params": "params.json",
}
_URI = re.compile(
    r"ollama(?P<plain>\+http)?://(?:(?P<host>localhost|[^/]*[.:][^/]*)/)?"
    r"(?:(?P<owner>[\w.-]+)/)?(?P<name>[\w.-]+)(?::(?P<tag>[\w.-]+))?"
)


class RegistryBlobOrigin:
    """Fetches model files out of container registries by digest; `blob:oci://host/repository@sha256:…` is one.

    `OciOrigin` and `OllamaOrigin` build on it.
    """

    def __init__(self, deps: OriginDeps) -> None:
        self._deps = deps

    def make_registry_client(self, reference: OciReference) -> OciRepositoryClient:
        http = self._deps.choose_http(reference.host)
        return OciRepositoryClient(http, reference, self._deps.options.registry_credentials)

    async def fetch(self, found: OriginFile, into: Path, on_progress: ProgressCallback) -> Path:
        reference, layer = self._parse(found)
        downloader = self._deps.make_downloader(into, self._deps.choose_http(reference.host))
        return (await fetch_layer(downloader, self.make_registry_client(reference), layer, on_progress)).path

    async def forget(self, found: OriginFile, into: Path) -> None:
        reference, layer = self._parse(found)
        open_partials(into).delete(make_layer_request(self.make_registry_client(reference), layer))

    def _parse(self, found: OriginFile) -> tuple[OciReference, OciLayer]:
        reference = parse_reference(found.address.removeprefix(_BLOB))
        if not reference.digest or found.size_bytes is None:
            raise make_address_error(found.address, "blob:oci://host/repository@sha256:…")
        return reference, OciLayer(digest=reference.digest, size_bytes=found.size_bytes, title=found.path)


class OciOrigin(RegistryBlobOrigin):
    """Fetches model files from artifacts of container registries, whose layers carry the names of files."""

    async def resolve(self, part: FilePart) -> tuple[OriginFile, ...]:
        reference = parse_reference(part.uri)
        registry = self.make_registry_client(reference)
        _, document = await registry.fetch_manifest(reference.digest or reference.tag)
        if document.get("mediaType") in INDEX_TYPES or "manifests" in document:
            _, document = await registry.fetch_manifest(_get_only_manifest(part.uri, document))
        named = [(_choose_name(layer), layer) for layer in parse_layers(document)]
        found = [make_blob_file(name, reference, layer) for name, layer in named if name]
        if not found:
            raise TransferFailed(
                f"{part.uri} has no layers with a name: it is an image, not a model.",
                hint="Push files with a title, as `oras push` does.",
                code="unsupported",
            )
        return tuple(sorted(found, key=lambda one: one.path))


def make_blob_file(name: str, reference: OciReference, layer: OciLayer, kind: str = "") -> OriginFile:
    return OriginFile(
        path=name,
        address=f"{_BLOB}{reference.format_digest_uri(layer.digest)}",
        sha256=layer.digest.removeprefix("sha256:"),
        size_bytes=layer.size_bytes,
        kind=kind,
    )


def _choose_name(layer: OciLayer) -> str:
    if layer.is_tar and layer.title:
        raise TransferFailed(
            f"The layer {layer.title!r} is a packed folder.",
            hint="Push the files of the folder one by one.",
            code="unsupported",
        )
    if layer.title and not is_inside(layer.title):
        raise TransferFailed(f"The layer {layer.title!r} leads out of its folder.", code="bad_package")
    return layer.title or next((name for word, name in _NAMES.items() if word in layer.media_type), "")


def _get_only_manifest(uri: str, document: Mapping[str, Any]) -> str:
    manifests = document.get("manifests")
    if not isinstance(manifests, list) or len(manifests) != 1:
        raise TransferFailed(
            f"{uri} is a list of several images.", hint="Name one of them by its digest.", code="unsupported"
        )
    return str(manifests[0].get("digest", ""))


class OllamaOrigin(RegistryBlobOrigin):
    """Fetches models from Ollama registries: the weights, and small files with template, prompt and parameters."""

    async def resolve(self, part: FilePart) -> tuple[OriginFile, ...]:
        found = _URI.fullmatch(part.uri)
        if found is None:
            raise make_address_error(part.uri, "ollama://name:tag")
        scheme = "oci+http" if found["plain"] else "oci"
        repository = f"{found['owner'] or _DEFAULT_OWNER}/{found['name']}".lower()
        reference = parse_reference(
            f"{scheme}://{found['host'] or DEFAULT_HOST}/{repository}:{found['tag'] or 'latest'}"
        )
        _, document = await self.make_registry_client(reference).fetch_manifest(reference.tag)
        kinds = [(_get_kind(layer), layer) for layer in parse_layers(document)]
        names: dict[str, OriginFile] = {}
        for kind, layer in kinds:
            if kind in _FILES:
                name = _FILES[kind] if _FILES[kind] not in names else f"{len(names)}-{_FILES[kind]}"
                names[name] = make_blob_file(name, reference, layer, kind)
        if not any(one.kind == MODEL_KIND for one in names.values()):
            raise TransferFailed(f"{part.uri} has no file with weights in it.", code="unsupported")
        return tuple(names[name] for name in sorted(names))


def _get_kind(layer: OciLayer) -> str:
    return layer.media_type.removeprefix(_TYPE) if layer.media_type.startswith(_TYPE) else ""
