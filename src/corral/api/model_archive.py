"""Archives of files in the library, made while they are sent: as tar, compressed with gzip."""

from __future__ import annotations

import tarfile
import zlib
from collections.abc import AsyncIterator, Sequence

from corral.domain.fine_tuning import RunFile
from corral.library.library import FrontendLibrary

_GZIP = 16 + zlib.MAX_WBITS
# Weights hardly become smaller, so little time is spent on them.
_LEVEL = 1


async def iter_archive(library: FrontendLibrary, files: Sequence[RunFile]) -> AsyncIterator[bytes]:
    """Yield the bytes of a tar.gz archive of these files. A piece of a file at a time is in memory."""
    packer = zlib.compressobj(_LEVEL, zlib.DEFLATED, _GZIP)
    for file in files:
        info = tarfile.TarInfo(file.path)
        info.size, info.mode = file.size_bytes, 0o644
        yield packer.compress(info.tobuf(tarfile.PAX_FORMAT))
        async for piece in library.read(file.sha256, 0, file.size_bytes):
            yield packer.compress(piece)
        yield packer.compress(bytes(-file.size_bytes % tarfile.BLOCKSIZE))
    yield packer.compress(bytes(2 * tarfile.BLOCKSIZE)) + packer.flush()
