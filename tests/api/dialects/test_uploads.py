"""Forms with sound: passed on in pieces, with another name of the model, in a bounded memory."""

from __future__ import annotations

import asyncio
import hashlib
import io
import tracemalloc
from collections.abc import AsyncIterator, Iterator

import aiohttp
import pytest

from corral.api.dialects.uploads import BEFORE_NAME_BYTES_MAX
from corral.runtime.byte_budget import MIB, ByteLimits
from tests.api.dialects.recorder import recorder
from tests.support.frontends import ADMIN_KEY, RunningFrontend
from tests.support.polling import eventually

PATH = "/v1/audio/transcriptions"
FORM = {"Authorization": f"Bearer {ADMIN_KEY}", "Content-Type": "multipart/form-data; boundary=b"}
PIECE = b"sound" * 13_107
UPLOAD_BYTES = 100 * 1000 * 1000
# As much as OpenAI takes; the model's name has to come soon behind it.
FILE_FIRST_BYTES = 25 * 1000 * 1000
# What 100 MB may take in this process, which is client, frontend and engine at once.
MEMORY_BYTES_MAX = 24 * 1024 * 1024


def part(name: str, value: bytes) -> bytes:
    return b'--b\r\nContent-Disposition: form-data; name="%s"\r\n\r\n%s\r\n' % (name.encode(), value)


def form(model: str, *, is_first: bool, size_bytes: int = UPLOAD_BYTES) -> Iterator[bytes]:
    """The pieces of a form with a large file, before or behind the model's name."""
    name, head = part("model", model.encode()), b'--b\r\nContent-Disposition: form-data; name="file"\r\n\r\n'
    yield name + head if is_first else head
    for _ in range(size_bytes // len(PIECE)):
        yield PIECE
    yield b"\r\n" + (b"" if is_first else name) + b"--b--\r\n"


def digest(pieces: Iterator[bytes]) -> tuple[int, str]:
    found, size_bytes = hashlib.sha256(), 0
    for piece in pieces:
        found.update(piece)
        size_bytes += len(piece)
    return size_bytes, found.hexdigest()


async def sent(pieces: Iterator[bytes]) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece


@pytest.mark.parametrize("is_first", [True, False])
@pytest.mark.parametrize("says_its_length", [True, False])
async def test_100_mb_are_passed_on_unchanged_in_a_bounded_memory(
    frontend: RunningFrontend, is_first: bool, says_its_length: bool
) -> None:
    size_bytes = UPLOAD_BYTES if is_first else FILE_FIRST_BYTES
    whole = digest(form("ear", is_first=is_first, size_bytes=size_bytes))
    length = {"Content-Length": str(whole[0])} if says_its_length else {}
    async with recorder(frontend, "faster-whisper", aliases=("ear",)) as engine:
        tracemalloc.start()
        try:
            data = sent(form("ear", is_first=is_first, size_bytes=size_bytes))
            async with frontend.http.post(f"{frontend.url}{PATH}", data=data, headers=FORM | length) as answer:
                assert (answer.status, await answer.json()) == (200, {"path": PATH})
            _, peak_bytes = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        recorded = engine.requests[0]
        assert (recorded.size_bytes, recorded.sha256) == digest(form("chat", is_first=is_first, size_bytes=size_bytes))
        assert recorded.headers["Content-Type"] == FORM["Content-Type"]
        assert int(recorded.headers["Content-Length"]) == recorded.size_bytes
        assert peak_bytes < MEMORY_BYTES_MAX


async def test_small_form_is_passed_on_and_translations_too(frontend: RunningFrontend) -> None:
    body = part("model", b"ear") + part("file", b"x") + b"--b--\r\n"
    async with recorder(frontend, "faster-whisper", aliases=("ear",), serves=["transcriptions"]) as engine:
        for path in (PATH, "/v1/audio/translations"):
            async with frontend.http.post(f"{frontend.url}{path}", data=body, headers=FORM) as answer:
                assert (answer.status, await answer.json()) == (200, {"path": path})
            assert engine.requests[-1].beginning == body.replace(b"ear", b"chat")


async def test_invalid_upload_is_refused_in_the_openai_envelope_without_calling_the_engine(
    frontend: RunningFrontend,
) -> None:
    wrong = [
        (part("file", b"x") + b"--b--\r\n", 400, "model_missing"),
        (b"no form", 400, "malformed_form"),
        (part("file", b"x"), 400, "malformed_form"),
        (part("model", b"nose") + b"--b--\r\n", 404, "model_not_found"),
    ]
    async with recorder(frontend, "piper") as engine:
        for body, status, code in [*wrong, (part("model", b"chat") + b"--b--\r\n", 400, "engine_lacks_call")]:
            async with frontend.http.post(f"{frontend.url}{PATH}", data=body, headers=FORM) as answer:
                assert (answer.status, (await answer.json())["error"]["code"]) == (status, code)
        assert engine.requests == []


@pytest.mark.behaviour("GW-218")
async def test_form_is_refused_when_its_model_does_not_come_within_the_limit(frontend: RunningFrontend) -> None:
    async with recorder(frontend, "faster-whisper") as engine:
        data = sent(form("chat", is_first=False, size_bytes=BEFORE_NAME_BYTES_MAX + 2 * len(PIECE)))
        async with frontend.http.post(f"{frontend.url}{PATH}", data=data, headers=FORM) as answer:
            assert (answer.status, (await answer.json())["error"]["code"]) == (400, "model_missing")
        assert engine.requests == []
    assert frontend.core.gateway.upload_budget.taken_bytes == 0


@pytest.mark.behaviour("GW-218")
async def test_form_is_refused_when_too_many_bytes_of_uploads_are_kept(frontend: RunningFrontend) -> None:
    budget = frontend.core.gateway.upload_budget
    budget.limits = ByteLimits(total_bytes=4 * MIB, key_bytes=4 * MIB)
    async with recorder(frontend, "faster-whisper") as engine:
        data = sent(form("chat", is_first=False, size_bytes=8 * MIB))
        async with frontend.http.post(f"{frontend.url}{PATH}", data=data, headers=FORM) as answer:
            assert (answer.status, (await answer.json())["error"]["code"]) == (429, "too_many_bytes")
        assert engine.requests == []
    assert budget.taken_bytes == 0


async def test_client_that_leaves_in_the_middle_of_its_upload_leaves_nothing_behind(
    frontend: RunningFrontend,
) -> None:
    async def is_held(count: int) -> bool:
        return sum(frontend.core.router.leases.count_own_by_replica().values()) == count

    async def halfway() -> AsyncIterator[bytes]:
        pieces = form("chat", is_first=True)
        for _ in range(20):
            yield next(pieces)
        await eventually(lambda: is_held(1))
        raise RuntimeError("the client has had enough")

    async with recorder(frontend, "faster-whisper"), aiohttp.ClientSession() as session:
        headers = FORM | {"Content-Length": str(UPLOAD_BYTES)}
        with pytest.raises((RuntimeError, aiohttp.ClientError)):
            await session.post(f"{frontend.url}{PATH}", data=halfway(), headers=headers)
        await eventually(lambda: is_held(0))


@pytest.mark.parametrize("size_bytes", [len(PIECE), 8 * MIB], ids=["in memory", "in pieces"])
async def test_client_that_leaves_while_it_waits_for_its_transcription_ends_the_engines_work(
    frontend: RunningFrontend, size_bytes: int
) -> None:
    whole = io.BytesIO(b"".join(form("chat", is_first=True, size_bytes=size_bytes)))

    async def is_held(count: int) -> bool:
        return sum(frontend.core.router.leases.count_own_by_replica().values()) == count

    async with recorder(frontend, "faster-whisper") as engine:
        engine.silent.add(PATH)

        async def is_read_by_engine() -> bool:
            return len(engine.requests) == 1

        async def is_hung_up() -> bool:
            return engine.hung_up == [PATH]

        waiting = asyncio.create_task(frontend.http.post(f"{frontend.url}{PATH}", data=whole, headers=FORM))
        await eventually(is_read_by_engine)
        assert await is_held(1)
        waiting.cancel()
        await eventually(is_hung_up)
        await eventually(lambda: is_held(0))
