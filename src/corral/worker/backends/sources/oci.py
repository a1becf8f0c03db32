"""Stages an image or an artifact of a registry, unpacked without a container engine.

The tag is resolved to a digest first, and that digest is recorded: the installed content is the one that was resolved,
also when the tag moves meanwhile. Layers are applied in order, with what they delete. Signatures are not verified.
"""

from __future__ import annotations

import platform
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from corral.domain.errors import CorralError
from corral.domain.operation import JobPhase
from corral.transfer.downloader import DownloadedFile
from corral.transfer.faults import SourceFailed, TransferFailed
from corral.transfer.files import StopFlag, run_in_thread
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
from corral.worker.backends.layout import InstallFailed
from corral.worker.backends.sources.staging_source import DownloadMeter, ResolvedSource, SourceDelivery, StagingJob
from corral.worker.backends.sources.unpacker import ArchiveUnpacker, detect_archive_kind

_MACHINES = {"x86_64": "amd64", "amd64": "amd64", "aarch64": "arm64", "arm64": "arm64"}


class OciSource:
    """Fetches a backend from an image or artifact of a container registry, pinned to a digest, to be installed."""

    def __init__(self, job: StagingJob) -> None:
        self._job = job
        self._downloader = job.make_downloader()
        source = job.build.source
        self._references = tuple(parse_reference(uri) for uri in (source.uri, *source.mirrors))
        self._layers: tuple[OciLayer, ...] = ()
        self._digest = ""
        # The mirrors that have the manifest, in order.
        self._candidates: list[tuple[OciReference, OciRepositoryClient]] = []

    async def resolve(self) -> ResolvedSource:
        """Resolve the tag at the first registry that answers; mirrors may only deliver the content of that digest."""
        first: CorralError | None = None
        for reference in self._references:
            registry = OciRepositoryClient(self._job.http, reference, self._job.options.registry_credentials)
            try:
                await self._resolve_manifest(reference, registry)
            except (SourceFailed, TransferFailed) as error:
                first = first or error
        if not self._candidates:
            assert first is not None, "a source has at least one address"
            raise first
        requests = [make_layer_request(self._candidates[0][1], layer) for layer in self._layers]
        return ResolvedSource(
            digest=self._digest,
            total_bytes=sum(layer.size_bytes for layer in self._layers),
            have_bytes=sum(self._downloader.files.count_bytes(request) for request in requests),
        )

    async def _resolve_manifest(self, reference: OciReference, registry: OciRepositoryClient) -> None:
        promised = self._job.build.source.sha256
        pinned = reference.digest or (f"sha256:{promised}" if promised else "")
        digest, document = await registry.fetch_manifest(self._digest or pinned or reference.tag)
        if not self._digest:
            if document.get("mediaType") in INDEX_TYPES or "manifests" in document:
                _, document = await registry.fetch_manifest(_pick_platform_manifest(document.get("manifests", ())))
            self._layers = parse_layers(document)
            self._digest = digest
        self._candidates.append((reference, registry))

    async def stage(self, folder: Path) -> SourceDelivery:
        meter = DownloadMeter(self._job.progress, {layer.digest: layer.size_bytes for layer in self._layers})
        used = self._candidates[0][0]
        fetched: list[DownloadedFile] = []
        for layer in self._layers:
            one, used = await self._fetch_blob(layer, meter)
            fetched.append(one)
        self._job.progress.on_phase(JobPhase.EXTRACTING)
        await run_in_thread(lambda stop: self._unpack(folder, fetched, stop))
        return SourceDelivery(digest=self._digest, uri=used.format_digest_uri(self._digest))

    async def _fetch_blob(self, layer: OciLayer, meter: DownloadMeter) -> tuple[DownloadedFile, OciReference]:
        first: CorralError | None = None
        for reference, registry in self._candidates:
            try:
                return await fetch_layer(self._downloader, registry, layer, meter.track_file(layer.digest)), reference
            except (SourceFailed, TransferFailed) as error:
                if error.slug == "disk_full":
                    raise
                first = first or error
        assert first is not None, "a registry had the manifest"
        raise first

    def _unpack(self, folder: Path, fetched: Sequence[DownloadedFile], stop: StopFlag) -> None:
        unpacker = ArchiveUnpacker(folder, self._job.options, stop)
        for layer, one in zip(self._layers, fetched, strict=True):
            subject = f"The layer {layer.digest[:19]}"
            if layer.is_tar and detect_archive_kind(one.path) is not None and not layer.media_type.endswith("zstd"):
                unpacker.unpack_tar(one.path, subject, is_layer=True)
            elif layer.title and not layer.is_tar:
                unpacker.add_file(one.path, layer.title)
            else:
                unpacker.unpack_archive(one.path, subject)
        unpacker.check_links()


def _pick_platform_manifest(manifests: Sequence[Mapping[str, Any]]) -> str:
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
