"""Fetches one file, with a limit of the system on the size of files or without, and says how that went.

pull.py <models folder> <address of the library> <sha256> <size> [--limit <bytes>]
"""

from __future__ import annotations

import argparse
import asyncio
import resource
import signal
from pathlib import Path

from corral.adapters.system import SystemClock
from corral.bus.messages import BlobSource, ModelFileItem
from corral.domain.errors import CorralError
from corral.transfer.inbox import Inbox
from corral.worker.files.blob_store import BlobStore
from corral.worker.files.chunk_client import LibraryAccess
from corral.worker.files.content_puller import ContentPuller, PullOptions
from corral.worker.files.node_files import NodeFiles
from tests.worker.files.scene import CREDENTIAL, RecordingReport

# What it requested before it was killed may arrive afterwards: the name keeps it apart from its successor's requests.
NODE = "killed"


async def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("url")
    parser.add_argument("sha256")
    parser.add_argument("size", type=int)
    parser.add_argument("--limit", type=int)
    given = parser.parse_args()
    clock = SystemClock()
    store = BlobStore(given.folder, clock)
    library = LibraryAccess(urls=(given.url,), credential=CREDENTIAL, get_node_id=lambda: NODE)
    puller = ContentPuller(store, library, clock, PullOptions(headroom_bytes=0))
    files = NodeFiles(store, puller, Inbox(given.folder / "inbox"), clock)
    await files.start()
    if given.limit is not None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (given.limit, given.limit))
    item = ModelFileItem(path="model.gguf", sha256=given.sha256, size_bytes=given.size)
    try:
        await files.ensure_files("m", "r1", (item,), (BlobSource(kind="library"),), RecordingReport())
        print("done", flush=True)
    except CorralError as error:
        print(error.slug, error.message, flush=True)
    finally:
        await files.stop()


if __name__ == "__main__":
    asyncio.run(main())
