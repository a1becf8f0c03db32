"""Fetches contents from other frontends' libraries with a ticket that the frontends sign for each other.

Bytes are sent over the same route as to nodes, resumed and verified. The needed modules are imported at the first
fetch, because most frontends never fetch from a peer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

import structlog

from corral.app.core_options import CoreDeps, CoreOptions
from corral.domain.errors import CorralError
from corral.domain.model import Blob
from corral.library.library import FrontendLibrary
from corral.library.library_reader import LibraryOptions
from corral.ports.credentials import BLOB_READ_SCOPE, FRONTENDS_AUDIENCE, BusCredentialIssuer
from corral.ports.files import ProgressCallback
from corral.ports.runtime import Clock

log = structlog.get_logger(__name__)


# As long as a large transfer may take.
TICKET_S = 6 * 3600.0


@dataclass(frozen=True, slots=True)
class PeerContentFetcher:
    """Fetches model files from other frontends' libraries, with a ticket that frontends sign.

    Implements `PeerLibraries`.
    """

    credentials: BusCredentialIssuer
    frontend_id: str
    clock: Clock
    rng: Random

    async def fetch(self, blob: Blob, urls: Sequence[str], into: Path, on_progress: ProgressCallback) -> Path | None:
        from corral.transfer.downloader import Downloader, DownloadRequest, PartialDownloads  # noqa: PLC0415 - late, see above
        from corral.transfer.http_client import TransferHttpClient, TransferOptions  # noqa: PLC0415 - late, see above

        # One attempt per peer: if it sends nothing, the next peer is tried.
        async with TransferHttpClient(TransferOptions(attempts=1, stall_s=30.0, header_s=30.0), {}) as http:
            downloader = Downloader(PartialDownloads(into, "peers"), http, self.clock, self.rng, blob.size_bytes)
            for url in urls:
                request = DownloadRequest(
                    url=f"{url}/api/node/{FRONTENDS_AUDIENCE}/blobs/{blob.sha256}",
                    file_name=blob.sha256[:12],
                    sha256=blob.sha256,
                    size_bytes=blob.size_bytes,
                    is_size_promised=True,
                    headers={"Authorization": f"Bearer {self._issue_ticket()}"},
                )
                try:
                    return (await downloader.fetch(request, on_progress)).path
                except CorralError as error:
                    if error.slug == "disk_full":
                        raise
                    log.info("a peer did not give a content", url=url, sha256=blob.sha256, problem=error.message)
        return None

    def _issue_ticket(self) -> str:
        return self.credentials.issue_ticket(
            self.frontend_id, BLOB_READ_SCOPE, audience=FRONTENDS_AUDIENCE, ttl_s=TICKET_S
        )


def make_library(options: CoreOptions, deps: CoreDeps) -> FrontendLibrary:
    """Build the library of a frontend, which can fetch contents that its peers hold."""
    return FrontendLibrary(
        LibraryOptions(
            frontend_id=options.frontend_id, folder=options.library_dir, is_shared=options.has_shared_models
        ),
        deps.database,
        deps.origins,
        deps.clock,
        deps.storage,
        PeerContentFetcher(deps.credentials, options.frontend_id, deps.clock, deps.rng),
    )
