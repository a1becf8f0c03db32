"""What a node has breaks: an engine dies while nobody asks it, while it starts, in the middle of an answer, for want of
memory; a file is damaged, or sent wrongly to another node."""

from __future__ import annotations

import hashlib
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from corral.domain.model import CHUNK_BYTES
from tests.e2e.models.scene import Answer, Models
from tests.support.tiny_gguf import write_tiny_gguf

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(240)]

MIB = 1024 * 1024
GREEDY = {"temperature": 0, "seed": 1, "max_tokens": 8}


async def test_engine_that_dies_while_it_is_idle_is_noticed_and_the_next_request_is_answered(models: Models) -> None:
    await models.put("idle")
    await models.loaded("idle", "worker-1")
    before = await models.process("idle")
    os.kill(before["pid"], signal.SIGKILL)
    assert (await models.answers("idle", via=1)).body["model"] == "idle"

    # The load goes to the worker that starts it anew: there is one of it, as before.
    async def is_known() -> bool:
        replicas = await models.replicas("idle")
        running = [one for one in await models.all_processes() if one["model"] == "idle"]
        loaded = [one["address"] for one in replicas if one["state"] == "loaded"]
        return len(loaded) == len(replicas) == 1 and loaded == [one["address"] for one in running]

    await models.look(is_known)
    assert before["pid"] not in [one["pid"] for one in await models.all_processes()]
    await models.answers("idle")
    await models.forget("idle")


async def test_engine_that_dies_while_it_starts_fails_the_load_with_its_own_last_words(models: Models) -> None:
    await models.put("early", options={"refuse_start": "true"})
    answer = await models.chat("early")
    assert (answer.status, answer.code) == (500, "engine_failed")
    assert "the engine is configured not to start" in answer.error
    # The same words wherever somebody looks.
    assert (await models.chat("early", via=1)).error == answer.error
    assert await models.replicas("early") == []
    # An edit is another try.
    await models.edit("early", refuse_start="false")
    await models.answers("early", via=1)
    await models.forget("early")


async def test_engine_that_is_killed_while_it_starts_ends_its_load_and_leaves_nothing(models: Models) -> None:
    await models.put("killed", options={"load_s": "60"})
    key = await models.load("killed", nodes=["worker-1"])
    os.kill(await models.at_the_engine("killed"), signal.SIGKILL)
    failed = await models.becomes(key, "failed")
    assert "was ended by signal 9" in failed["error"] or "SIGKILL" in failed["error"], failed["error"]
    assert await models.replicas("killed") == []
    await models.edit("killed", load_s="0")
    await models.answers("killed")
    await models.forget("killed")


@pytest.mark.behaviour("FLT-32")
async def test_engine_that_dies_in_the_middle_of_an_answer_is_one_clean_error_and_the_next_is_answered(
    models: Models,
) -> None:
    await models.put("midway", options={"tokens_per_s": "20"})
    await models.loaded("midway", "worker-1")
    pid = await models.pid("midway")
    async with models.stream("midway", ignore_eos=True, max_tokens=1000) as stream:
        for _ in range(5):
            assert "choices" in await stream.next()
        os.kill(pid, signal.SIGKILL)
        rest = await stream.rest()
    assert [event["error"]["code"] for event in rest if "error" in event] == ["engine_lost"]
    assert "error" in rest[-1]
    await models.answers("midway", via=1)
    await models.answers("midway")
    await models.forget("midway")


async def test_out_of_memory_evicts_tries_once_more_and_then_says_so(models: Models) -> None:
    """The engine asks for more than any machine has. It is thought to need what is there, so that half as much again
    is there only without the other model."""
    held = 3000
    await models.put("victim", options={"memory_mib": held})
    await models.loaded("victim", "worker-1")

    async def room() -> Any:
        """Return the memory that the node has left, once its report includes what the model took."""
        replica = (await models.replicas("victim"))[0]
        node = await models.cluster.frontends[0].node("worker-1")
        return node["available_ram"] if (replica["ram_bytes"] or 0) > held * MIB else None

    free = await models.look(room)
    needed_bytes = int((free + held * MIB // 2) / 1.5)
    await models.put("huge", ram=needed_bytes, options={"memory_mib": 10**9})
    key = await models.load("huge", nodes=["worker-1"])
    failed = await models.becomes(key, "failed")
    assert failed["errorCode"] == "out_of_memory"
    assert "Give it a node with more memory" in failed["error"]
    assert [node["attempt"] for node in failed["nodes"]] == [2]
    assert await models.replicas("victim") == await models.replicas("huge") == []
    # Nothing is set aside any more.
    await models.answers("victim")
    await models.forget("victim", "huge")


def blob_of(models: Models, node: str, content: bytes) -> Path:
    return models.disk(node) / "blobs" / hashlib.sha256(content).hexdigest()


def damage(path: Path, *, is_noticed: bool) -> None:
    """Change a byte in the middle of a file; unless that is to be noticed, keep the file's time."""
    was = path.stat()
    path.chmod(0o600)
    with path.open("r+b") as file:
        file.seek(was.st_size // 2)
        byte = file.read(1)
        file.seek(was.st_size // 2)
        file.write(bytes([byte[0] ^ 0xFF]))
    path.chmod(was.st_mode)
    times = (was.st_atime_ns, was.st_mtime_ns + (1_000_000 if is_noticed else 0))
    os.utime(path, ns=times)


async def unload(models: Models, name: str) -> None:
    status, answer = await models.call("POST", f"/api/models/{name}/unload", {})
    assert status == 202, answer
    await models.becomes(answer["id"], "completed")


async def put_tiny(models: Models, name: str) -> bytes:
    """Add a model for llama.cpp, which reads its file, and return the file's content."""
    content = write_tiny_gguf(models.files / f"{name}.gguf").read_bytes()
    options = {"context_size": "512"}
    await models.put(name, backend="llama-cpp", files=models.file(f"{name}.gguf", content), options=options, threads=1)
    return content


def read_text(answer: Answer) -> str:
    return str(answer.body["choices"][0]["message"]["content"])


async def test_file_that_was_damaged_on_a_node_is_fetched_again_before_the_model_is_loaded(models: Models) -> None:
    content = await put_tiny(models, "damaged")
    await models.loaded("damaged", "worker-1")
    before = await models.chat("damaged", **GREEDY)
    assert before.status == 200, before.body
    await unload(models, "damaged")
    blob = blob_of(models, "worker-1", content)
    assert blob.read_bytes() == content
    damage(blob, is_noticed=True)
    await models.loaded("damaged", "worker-1")
    assert blob.read_bytes() == content
    assert "a damaged file is fetched again" in models.cluster.workers["worker-1"].log
    (linked,) = (models.disk("worker-1") / "models").rglob("damaged.gguf")
    assert linked.read_bytes() == content
    assert read_text(await models.chat("damaged", **GREEDY)) == read_text(before)
    await models.forget("damaged")


async def test_real_engine_that_is_killed_is_there_again_for_the_next_request(models: Models) -> None:
    await put_tiny(models, "tiny")
    await models.loaded("tiny", "worker-1")
    before = await models.chat("tiny", **GREEDY)
    os.kill(await models.pid("tiny"), signal.SIGKILL)
    assert read_text(await models.chat("tiny", via=1, **GREEDY)) == read_text(before)
    await models.forget("tiny")


async def test_node_that_served_a_wrong_chunk_is_not_used_again_and_the_file_comes_from_elsewhere(
    models: Models,
) -> None:
    content = os.urandom(2 * CHUNK_BYTES + 5)
    await models.put("wrong", files=models.file("wrong.bin", content))
    await models.loaded("wrong", "worker-1")
    damage(blob_of(models, "worker-1", content), is_noticed=False)
    await models.loaded("wrong", "worker-2")
    assert blob_of(models, "worker-2", content).read_bytes() == content
    assert models.cluster.workers["worker-2"].log.count("a wrong chunk was discarded") == 1
    await models.forget("wrong")
