"""Stages a wheel or an archive from its address: verified by sha256 where one is promised, from mirrors if that fails.

`npm:@scope/name@version` is the archive of a package of the npm registry (`npm_registry.py`).

The content of a file decides what kind it is. A wheel goes into an environment of its own, without its dependencies
unless the source lists requirements too.
"""

from __future__ import annotations

import hashlib
from pathlib import Path, PurePosixPath
from urllib.parse import unquote, urlsplit

from packaging.utils import InvalidWheelFilename, parse_wheel_filename

from corral.domain.errors import CorralError
from corral.domain.operation import JobPhase
from corral.transfer.downloader import DownloadedFile, DownloadRequest
from corral.transfer.faults import SourceFailed, TransferFailed
from corral.transfer.files import StopFlag, run_in_thread
from corral.transfer.http_client import redact_url
from corral.worker.backends.layout import InstallFailed
from corral.worker.backends.sources.npm_registry import find_registry, is_npm_package, make_archive_url
from corral.worker.backends.sources.pypi import PYTHON, PypiSource, find_interpreter, link_wheels, make_environment
from corral.worker.backends.sources.staging_source import DownloadMeter, ResolvedSource, SourceDelivery, StagingJob
from corral.worker.backends.sources.unpacker import ArchiveKind, ArchiveUnpacker, detect_archive_kind

_NAMELESS = "package"


class UrlSource:
    """Downloads a backend as a wheel or archive from an HTTP address or one of its mirrors, to be installed."""

    def __init__(self, job: StagingJob) -> None:
        self._job = job
        self._downloader = job.make_downloader()
        source = job.build.source
        addresses = (source.uri, *source.mirrors)
        # None: packages of npm, whose addresses `_list_requests` finds.
        made = tuple(None if is_npm_package(address) else self._make_request(address) for address in addresses)
        self._requests: tuple[DownloadRequest | None, ...] = made
        self._requirements = PypiSource(job) if source.requirements else None

    def _make_request(self, url: str) -> DownloadRequest:
        if urlsplit(url).scheme not in ("http", "https"):
            raise InstallFailed(f"{redact_url(url)!r} is not an http or https address.", code="bad_manifest")
        name = PurePosixPath(unquote(urlsplit(url).path)).name or _NAMELESS
        return DownloadRequest(url=url, file_name=name, sha256=self._job.build.source.sha256)

    async def _list_requests(self) -> list[DownloadRequest]:
        """Return a request for each address of the source; only packages of npm need its registry."""
        source, job, registry = self._job.build.source, self._job, ""
        found = []
        for address, request in zip((source.uri, *source.mirrors), self._requests, strict=True):
            if request is None and not registry:
                registry = await find_registry(job.options.environment, job.work)
            found.append(request or self._make_request(make_archive_url(address, registry)))
        self._requests = tuple(found)
        return found

    async def resolve(self) -> ResolvedSource:
        first = (await self._list_requests())[0]
        requirements = await self._requirements.resolve() if self._requirements else None
        size = self._job.build.source.size_bytes
        if size is None:
            size = await self._downloader.fetch_size(first)
        if size is not None and requirements is not None:
            size = None if requirements.total_bytes is None else size + requirements.total_bytes
        promised = self._job.build.source.sha256
        return ResolvedSource(
            digest=f"sha256:{promised}" if promised and requirements is None else None,
            total_bytes=size,
            have_bytes=self._downloader.files.count_bytes(first) + (requirements.have_bytes if requirements else 0),
        )

    async def stage(self, folder: Path) -> SourceDelivery:
        fetched, name = await self._fetch()
        self._job.progress.on_phase(JobPhase.EXTRACTING)
        if _is_wheel(name) and detect_archive_kind(fetched.path) is ArchiveKind.ZIP:
            digest = await self._make_environment(folder, fetched, name)
            return SourceDelivery(digest=digest, uri=redact_url(fetched.url), python=PYTHON)
        await run_in_thread(lambda stop: self._unpack(folder, fetched, stop))
        return SourceDelivery(digest=f"sha256:{fetched.sha256}", uri=redact_url(fetched.url))

    async def _fetch(self) -> tuple[DownloadedFile, str]:
        """Download from the first address that delivers. If none does, raise the error of the first address."""
        first: CorralError | None = None
        for request in await self._list_requests():
            meter = DownloadMeter(self._job.progress, {request.file_name: self._job.build.source.size_bytes})
            try:
                return await self._downloader.fetch(request, meter.track_file(request.file_name)), request.file_name
            except (SourceFailed, TransferFailed) as error:
                if error.slug == "disk_full":
                    raise
                first = _pick_error(first, error)
        assert first is not None, "a source has at least one address"
        raise first

    async def _make_environment(self, folder: Path, fetched: DownloadedFile, name: str) -> str:
        """Make the environment; return the digest of the wheel, or of all wheels together."""
        digest = fetched.sha256
        wheels = await run_in_thread(lambda _stop: link_wheels(self._job.work, [fetched], [name]))
        if self._requirements is None:
            interpreter = await find_interpreter(self._job, self._job.build.source.python)
        else:
            interpreter = self._requirements.interpreter
            others, more = await self._requirements.fetch_wheels()
            wheels += more
            digest = hashlib.sha256(f"{digest} {self._requirements.compute_digest(others)}".encode()).hexdigest()
        await make_environment(self._job, folder, interpreter, wheels)
        return f"sha256:{digest}"

    def _unpack(self, folder: Path, fetched: DownloadedFile, stop: StopFlag) -> None:
        unpacker = ArchiveUnpacker(folder, self._job.options, stop)
        unpacker.unpack_archive(fetched.path, redact_url(fetched.url))
        unpacker.check_links()


def _pick_error(first: CorralError | None, second: CorralError) -> CorralError:
    """Return the error that allows a retry, if there is one: any of the addresses may deliver later."""
    if first is None or (second.retryable and not first.retryable):
        return second
    return first


def _is_wheel(name: str) -> bool:
    try:
        parse_wheel_filename(name)
    except InvalidWheelFilename:
        return False
    return True
