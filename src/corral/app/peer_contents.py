"""Contents of other frontends' libraries, read with a ticket that the frontends sign for themselves.

Bytes go over the same route as to nodes, resumed and verified. What it takes is imported with the first of them: most
frontends never ask a peer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

import structlog

from corral.app.options import CoreOptions, World
from corral.domain.errors import CorralError
from corral.domain.model import Blob
from corral.library.library import Library, LibraryOptions
from corral.ports.credentials import FRONTENDS, READS_BLOBS, BusCredentials
from corral.ports.origin import Moved
from corral.ports.runtime import Clock

log = structlog.get_logger(__name__)


# As long as a large transfer may take.
TICKET_S = 6 * 3600.0


@dataclass(frozen=True, slots=True)
class PeerContents:
    credentials: BusCredentials
    frontend_id: str
    clock: Clock
    rng: Random

    async def fetch(self, blob: Blob, urls: Sequence[str], into: Path, moved: Moved) -> Path | None:
        from corral.transfer.download import Downloader, Downloads, Wish  # noqa: PLC0415 - late, see above
        from corral.transfer.http import Http  # noqa: PLC0415 - late, see above
        from corral.transfer.options import Patience  # noqa: PLC0415 - late, see above

        # Peers are reached directly, and one that is silent has the next one asked.
        async with Http(Patience(attempts=1, stall_s=30.0, header_s=30.0), {}) as http:
            downloader = Downloader(Downloads(into, "peers"), http, self.clock, self.rng, blob.size_bytes)
            for url in urls:
                wish = Wish(
                    url=f"{url}/api/node/{FRONTENDS}/blobs/{blob.sha256}",
                    file_name=blob.sha256[:12],
                    sha256=blob.sha256,
                    size_bytes=blob.size_bytes,
                    is_size_promised=True,
                    headers={"Authorization": f"Bearer {self._ticket()}"},
                )
                try:
                    return (await downloader.fetch(wish, moved)).path
                except CorralError as error:
                    if error.slug == "disk_full":
                        raise
                    log.info("a peer did not give a content", url=url, sha256=blob.sha256, problem=error.message)
        return None

    def _ticket(self) -> str:
        return self.credentials.ticket(self.frontend_id, READS_BLOBS, audience=FRONTENDS, ttl_s=TICKET_S)


def make_library(options: CoreOptions, world: World) -> Library:
    """Build the library of a frontend, which can fetch contents that its peers hold."""
    return Library(
        LibraryOptions(
            frontend_id=options.frontend_id, folder=options.library_dir, is_shared=options.has_shared_models
        ),
        world.database,
        world.origins,
        world.clock,
        world.storage,
        PeerContents(world.credentials, options.frontend_id, world.clock, world.rng),
    )
