"""An image or an artifact of a registry, unpacked without a container engine.

The tag is settled to a digest first, and that digest is recorded: what is installed is what was looked at, also when
the tag moves meanwhile. Layers are applied in order, with what they delete. Signatures are not verified.
"""

from __future__ import annotations

import platform
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from corral.domain.errors import CorralError
from corral.domain.operation import Phase
from corral.transfer.download import Fetched
from corral.transfer.faults import SourceFailed, TransferFailed
from corral.transfer.layers import Layer, fetch_layer, layers_of, wish_for
from corral.transfer.registry import INDEX_TYPES, Reference, Registry, parse_reference
from corral.transfer.threads import Stop, in_thread
from corral.worker.backends.faults import InstallFailed
from corral.worker.backends.sources.source import Delivered, Job, Meter, Resolved
from corral.worker.backends.sources.unpack import Unpacker, archive_kind

_MACHINES = {"x86_64": "amd64", "amd64": "amd64", "aarch64": "arm64", "arm64": "arm64"}


class OciSource:
    def __init__(self, job: Job) -> None:
        self._job = job
        self._downloader = job.downloader()
        source = job.build.source
        self._references = tuple(parse_reference(uri) for uri in (source.uri, *source.mirrors))
        self._layers: tuple[Layer, ...] = ()
        self._digest = ""
        # Those that have what is wanted, in order.
        self._from: list[tuple[Reference, Registry]] = []

    async def resolve(self) -> Resolved:
        """The first registry that answers decides what the tag means; mirrors may only deliver that."""
        first: CorralError | None = None
        for reference in self._references:
            registry = Registry(self._job.http, reference, self._job.options.registry_credentials)
            try:
                await self._settle(reference, registry)
            except (SourceFailed, TransferFailed) as error:
                first = first or error
        if not self._from:
            assert first is not None, "a source has at least one address"
            raise first
        wishes = [wish_for(self._from[0][1], layer) for layer in self._layers]
        return Resolved(
            digest=self._digest,
            total_bytes=sum(layer.size_bytes for layer in self._layers),
            have_bytes=sum(self._downloader.files.have_bytes(wish) for wish in wishes),
        )

    async def _settle(self, reference: Reference, registry: Registry) -> None:
        promised = self._job.build.source.sha256
        wanted = reference.digest or (f"sha256:{promised}" if promised else "")
        digest, document = await registry.manifest(self._digest or wanted or reference.tag)
        if not self._digest:
            if document.get("mediaType") in INDEX_TYPES or "manifests" in document:
                _, document = await registry.manifest(_for_this_machine(document.get("manifests", ())))
            self._layers = layers_of(document)
            self._digest = digest
        self._from.append((reference, registry))

    async def stage(self, folder: Path) -> Delivered:
        meter = Meter(self._job.report, {layer.digest: layer.size_bytes for layer in self._layers})
        used = self._from[0][0]
        fetched: list[Fetched] = []
        for layer in self._layers:
            one, used = await self._blob(layer, meter)
            fetched.append(one)
        self._job.report.phase(Phase.EXTRACTING)
        await in_thread(lambda stop: self._unpack(folder, fetched, stop))
        return Delivered(digest=self._digest, uri=used.at(self._digest))

    async def _blob(self, layer: Layer, meter: Meter) -> tuple[Fetched, Reference]:
        first: CorralError | None = None
        for reference, registry in self._from:
            try:
                return await fetch_layer(self._downloader, registry, layer, meter.of(layer.digest)), reference
            except (SourceFailed, TransferFailed) as error:
                if error.slug == "disk_full":
                    raise
                first = first or error
        assert first is not None, "somebody had the manifest"
        raise first

    def _unpack(self, folder: Path, fetched: Sequence[Fetched], stop: Stop) -> None:
        unpacker = Unpacker(folder, self._job.options, stop)
        for layer, one in zip(self._layers, fetched, strict=True):
            what = f"The layer {layer.digest[:19]}"
            if layer.is_tar and archive_kind(one.path) is not None and not layer.media_type.endswith("zstd"):
                unpacker.tar(one.path, what, is_layer=True)
            elif layer.title and not layer.is_tar:
                unpacker.file(one.path, layer.title)
            else:
                unpacker.archive(one.path, what)
        unpacker.finish()


def _for_this_machine(manifests: Sequence[Mapping[str, Any]]) -> str:
    system = "darwin" if sys.platform == "darwin" else "linux"
    machine = _MACHINES.get(platform.machine().lower(), platform.machine().lower())
    offered = []
    for manifest in manifests:
        found = manifest.get("platform") or {}
        if (found.get("os"), found.get("architecture")) == (system, machine):
            return str(manifest["digest"])
        offered.append(f"{found.get('os')}/{found.get('architecture')}")
    raise InstallFailed(
        f"There is no image for {system}/{machine}; there are {', '.join(offered[:10]) or 'none at all'}.",
        code="unsupported",
    )
