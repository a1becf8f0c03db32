"""Files by their address: resumed, verified, and never from inside a network that a user has no business in."""

from __future__ import annotations

import asyncio
import socket
import sys
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from corral.domain.errors import CorralError
from corral.domain.model import FilePart
from corral.policy.addresses import is_private_address
from tests.support.polling import eventually
from tests.transfer.scene import Scene, scene_of
from tests.worker.backends import server as faulty
from tests.worker.backends.scene import sha256
from tests.worker.backends.server import FileServer
from tools.source import ROOT

MIB = 1024 * 1024
# An address of this machine that tests can take for one of the open internet.
OPEN = "127.0.0.2"
_FETCH = """
import asyncio, sys
from pathlib import Path
from tests.transfer.scene import scene_of

async def main():
    async with scene_of(Path(sys.argv[2]).parent) as scene:
        await scene.content(sys.argv[1])

asyncio.run(main())
"""
BODY = bytes(range(256)) * (2 * MIB // 256)


async def test_file_is_described_before_it_is_fetched(scene: Scene, files: FileServer) -> None:
    file = files.put("/models/tiny.gguf", BODY)
    found = await scene.one(f"{files.url}/models/tiny.gguf?download=true", sha256(BODY))
    assert (found.path, found.size_bytes, found.sha256) == ("tiny.gguf", len(BODY), sha256(BODY))
    assert file.ranges == []
    path = await scene.fetch(found)
    assert path.parent == scene.into
    assert path.read_bytes() == BODY
    assert scene.moved[-1] == (len(BODY), len(BODY))
    await scene.origins.forget(found, scene.into)
    assert scene.left == []


async def test_connection_that_breaks_is_resumed_where_it_broke(scene: Scene, files: FileServer) -> None:
    file = files.put("/tiny.gguf", BODY, etag='"a"', faults=[faulty.cut_after(MIB)])
    assert await scene.content(f"{files.url}/tiny.gguf") == BODY
    assert file.ranges == [None, f"bytes={MIB}-"]
    assert file.sent == len(BODY) - MIB


async def test_cancelled_in_the_middle_another_process_goes_on_with_the_bytes(
    scene: Scene, files: FileServer, tmp_path: Path
) -> None:
    never = asyncio.Event()
    file = files.put("/tiny.gguf", BODY, faults=[faulty.silent_after(MIB, never)])
    found = await scene.one(f"{files.url}/tiny.gguf", sha256(BODY))
    fetching = asyncio.get_running_loop().create_task(scene.fetch(found))

    async def has_some() -> bool:
        return bool(scene.moved) and scene.moved[-1][0] == MIB

    await eventually(has_some)
    fetching.cancel()
    with pytest.raises(asyncio.CancelledError):
        await fetching
    never.set()
    async with scene_of(tmp_path) as later:
        assert (await later.fetch(found)).read_bytes() == BODY
    assert file.ranges == [None, f"bytes={MIB}-"]


async def test_killed_in_the_middle_another_process_goes_on_with_the_bytes(scene: Scene, files: FileServer) -> None:
    never = asyncio.Event()
    file = files.put("/tiny.gguf", BODY, etag='"a"', faults=[faulty.silent_after(MIB, never)])
    uri = f"{files.url}/tiny.gguf"
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", _FETCH, uri, str(scene.into), cwd=ROOT)

    async def has_some() -> bool:
        # The sum is noted after its bytes; bytes without one are fetched again.
        sizes = {path.suffix: path.stat().st_size for path in scene.left}
        return sizes.get(".partial") == MIB and sizes.get(".sums", 0) > 0

    try:
        await eventually(has_some)
    finally:
        process.kill()
        await process.wait()
        never.set()
    assert await scene.content(uri) == BODY
    assert file.ranges == [None, f"bytes={MIB}-"]


async def test_partial_download_without_a_promised_sha256_is_not_continued_after_a_change(
    scene: Scene, files: FileServer, tmp_path: Path
) -> None:
    never = asyncio.Event()
    file = files.put("/tiny.gguf", BODY, etag='"a"', faults=[faulty.silent_after(MIB + MIB // 2, never)])
    found = await scene.one(f"{files.url}/tiny.gguf")
    fetching = asyncio.get_running_loop().create_task(scene.fetch(found))

    async def has_some() -> bool:
        return bool(scene.moved) and scene.moved[-1][0] == MIB + MIB // 2

    await eventually(has_some)
    fetching.cancel()
    with pytest.raises(asyncio.CancelledError):
        await fetching
    never.set()
    (partial,) = (path for path in scene.left if path.suffix == ".partial")
    with partial.open("r+b") as changed:
        changed.write(b"changed by another program")
    async with scene_of(tmp_path) as later:
        assert (await later.fetch(found)).read_bytes() == BODY
    assert file.ranges == [None, None]


async def test_complete_file_is_not_fetched_again(scene: Scene, files: FileServer) -> None:
    file = files.put("/tiny.gguf", BODY)
    found = await scene.one(f"{files.url}/tiny.gguf", sha256(BODY))
    await scene.fetch(found)
    assert (await scene.fetch(found)).read_bytes() == BODY
    assert len(file.ranges) == 1


async def test_wrong_digest_is_refused_and_its_bytes_are_gone(scene: Scene, files: FileServer) -> None:
    files.put("/tiny.gguf", BODY)
    error = await scene.refuses(f"{files.url}/tiny.gguf", "digest_mismatch", sha256(b"another"))
    assert not error.retryable
    assert sha256(BODY) in error.message
    assert scene.left == []


@pytest.mark.parametrize(
    ("fault", "code", "is_retryable"),
    [
        (faulty.status(500), "source_unavailable", True),
        (faulty.status(429), "source_unavailable", True),
        (faulty.page(), "bad_answer", True),
        (faulty.page("application/octet-stream"), "bad_answer", True),
        (faulty.cut_after(0), "source_unavailable", True),
        (faulty.status(404), "not_found", False),
        (faulty.status(403), "not_allowed", False),
    ],
)
async def test_download_faults_have_their_own_code_and_retryability(
    scene: Scene, files: FileServer, fault: faulty.Fault, code: str, is_retryable: bool
) -> None:
    files.put("/tiny.gguf", BODY, faults=[fault], is_always_faulty=True)
    error = await scene.refuses(f"{files.url}/tiny.gguf?token=secret", code)
    assert error.retryable is is_retryable
    assert "secret" not in error.message


@pytest.mark.parametrize("uri", ["https://", "http://[::1", "https://host:0/x", "gopher://host/file", "model.gguf", ""])
async def test_invalid_address_is_refused(scene: Scene, uri: str) -> None:
    await scene.refuses(uri, "invalid_request")


async def test_file_that_is_to_be_sent_is_not_fetched(scene: Scene) -> None:
    await scene.refuses(f"upload:{sha256(BODY)}", "not_found")


@pytest.mark.behaviour("ORG-4")
@pytest.mark.parametrize(
    "uri",
    [
        "http://127.0.0.1:{port}/tiny.gguf",
        "http://localhost:{port}/tiny.gguf",
        "http://2130706433:{port}/tiny.gguf",
        "http://[::ffff:127.0.0.1]:{port}/tiny.gguf",
        "oci://127.0.0.1:{port}/models/tiny:v1",
        "ollama://127.0.0.1:{port}/library/tiny:v1",
        "http://169.254.169.254/latest/meta-data",
    ],
)
async def test_private_address_is_refused_without_a_request(tmp_path: Path, files: FileServer, uri: str) -> None:
    files.put("/tiny.gguf", BODY)
    port = files.url.rpartition(":")[2]
    async with scene_of(tmp_path, allows_private=False) as scene:
        error = await scene.refuses(uri.format(port=port), "private_address")
    assert not error.retryable
    assert files.requests == []


@pytest.mark.behaviour("ORG-4")
async def test_name_that_leads_inside_is_refused_also_after_it_was_looked_at(
    tmp_path: Path, files: FileServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The name service answers with a public address first, and with this machine when a connection is made."""
    files.put("/tiny.gguf", BODY)
    loop, port = asyncio.get_running_loop(), int(files.url.rpartition(":")[2])
    answers = ["203.0.113.7", "127.0.0.1"]

    async def names(host: str, port_given: int | None, **_more: object) -> list[tuple[object, ...]]:
        address = answers.pop(0) if len(answers) > 1 else answers[0]
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port_given or 0))]

    monkeypatch.setattr("corral.transfer.http_client.is_private_address", _public_documentation_address)
    monkeypatch.setattr(loop, "getaddrinfo", names)
    async with scene_of(tmp_path, allows_private=False) as scene:
        with pytest.raises(CorralError) as caught:
            await scene.origins.resolve(FilePart(uri=f"http://models.example.com:{port}/tiny.gguf"))
    assert caught.value.slug == "private_address"
    assert files.requests == []


@pytest.mark.behaviour("ORG-4")
async def test_redirect_that_leads_inside_is_not_followed(
    tmp_path: Path, files: FileServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    files.put("/tiny.gguf", BODY)

    async def answer(_request: web.Request) -> web.StreamResponse:
        raise web.HTTPFound(f"{files.url}/tiny.gguf")

    application = web.Application()
    application.router.add_get("/{path:.*}", answer)
    monkeypatch.setattr("corral.transfer.http_client.is_private_address", _public_documentation_address)
    async with TestServer(application, host=OPEN) as server, scene_of(tmp_path, allows_private=False) as scene:
        await scene.refuses(f"http://{OPEN}:{server.port}/tiny.gguf", "private_address")
    assert files.requests == []


def _public_documentation_address(host: str) -> bool:
    """The real thing, except that two addresses count as ones of the open internet."""
    return host not in (OPEN, "203.0.113.7") and is_private_address(host)
