"""A wheel or an archive by its address: verified by sha256 where one is promised, from mirrors where the first fails.

What a file is, is decided by its content. A wheel goes into an environment of its own, without what it depends on
unless the source lists requirements too.
"""

from __future__ import annotations

import hashlib
from pathlib import Path, PurePosixPath
from urllib.parse import unquote, urlsplit

from packaging.utils import InvalidWheelFilename, parse_wheel_filename

from corral.domain.errors import CorralError
from corral.domain.operation import Phase
from corral.transfer.download import Fetched, Wish
from corral.transfer.faults import SourceFailed, TransferFailed
from corral.transfer.http import shown
from corral.transfer.threads import Stop, in_thread
from corral.worker.backends.faults import InstallFailed
from corral.worker.backends.sources.environment import PYTHON, find_interpreter, make_environment
from corral.worker.backends.sources.pypi import PypiSource, name_wheels
from corral.worker.backends.sources.source import Delivered, Job, Meter, Resolved
from corral.worker.backends.sources.unpack import Archive, Unpacker, archive_kind

_NAMELESS = "package"


class UrlSource:
    def __init__(self, job: Job) -> None:
        self._job = job
        self._downloader = job.downloader()
        source = job.build.source
        self._wishes = tuple(self._wish(url) for url in (source.uri, *source.mirrors))
        self._requirements = PypiSource(job) if source.requirements else None

    def _wish(self, url: str) -> Wish:
        if urlsplit(url).scheme not in ("http", "https"):
            raise InstallFailed(f"{shown(url)!r} is not an http or https address.", code="bad_manifest")
        name = PurePosixPath(unquote(urlsplit(url).path)).name or _NAMELESS
        return Wish(url=url, file_name=name, sha256=self._job.build.source.sha256)

    async def resolve(self) -> Resolved:
        also = await self._requirements.resolve() if self._requirements else None
        size = self._job.build.source.size_bytes
        if size is None:
            size = await self._downloader.size_of(self._wishes[0])
        if size is not None and also is not None:
            size = None if also.total_bytes is None else size + also.total_bytes
        promised = self._job.build.source.sha256
        return Resolved(
            digest=f"sha256:{promised}" if promised and also is None else None,
            total_bytes=size,
            have_bytes=self._downloader.files.have_bytes(self._wishes[0]) + (also.have_bytes if also else 0),
        )

    async def stage(self, folder: Path) -> Delivered:
        fetched, name = await self._fetch()
        self._job.report.phase(Phase.EXTRACTING)
        if _is_wheel(name) and archive_kind(fetched.path) is Archive.ZIP:
            digest = await self._make_environment(folder, fetched, name)
            return Delivered(digest=digest, uri=shown(fetched.url), python=PYTHON)
        await in_thread(lambda stop: self._unpack(folder, fetched, stop))
        return Delivered(digest=f"sha256:{fetched.sha256}", uri=shown(fetched.url))

    async def _fetch(self) -> tuple[Fetched, str]:
        """From the first address that delivers; with none, the first one's trouble is told."""
        first: CorralError | None = None
        for wish in self._wishes:
            meter = Meter(self._job.report, {wish.file_name: self._job.build.source.size_bytes})
            try:
                return await self._downloader.fetch(wish, meter.of(wish.file_name)), wish.file_name
            except (SourceFailed, TransferFailed) as error:
                if error.slug == "disk_full":
                    raise
                first = _worth_telling(first, error)
        assert first is not None, "a source has at least one address"
        raise first

    async def _make_environment(self, folder: Path, fetched: Fetched, name: str) -> str:
        """The digest of the wheel, or of all of them together."""
        digest = fetched.sha256
        wheels = await in_thread(lambda _stop: name_wheels(self._job.work, [fetched], [name]))
        if self._requirements is None:
            interpreter = await find_interpreter(self._job, self._job.build.source.python)
        else:
            interpreter = self._requirements.interpreter
            others, more = await self._requirements.fetch_wheels()
            wheels += more
            digest = hashlib.sha256(f"{digest} {self._requirements.digest_of(others)}".encode()).hexdigest()
        await make_environment(self._job, folder, interpreter, wheels)
        return f"sha256:{digest}"

    def _unpack(self, folder: Path, fetched: Fetched, stop: Stop) -> None:
        unpacker = Unpacker(folder, self._job.options, stop)
        unpacker.archive(fetched.path, shown(fetched.url))
        unpacker.finish()


def _worth_telling(first: CorralError | None, second: CorralError) -> CorralError:
    """Trying again helps if any of the addresses may deliver later."""
    if first is None or (second.retryable and not first.retryable):
        return second
    return first


def _is_wheel(name: str) -> bool:
    try:
        parse_wheel_filename(name)
    except InvalidWheelFilename:
        return False
    return True
