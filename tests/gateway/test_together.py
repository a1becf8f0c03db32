"""What ends in one turn of the loop ends together."""

from __future__ import annotations

import asyncio
import socket
from itertools import accumulate
from pathlib import Path
from typing import Any, cast

import pytest

from corral.adapters.system import SystemClock, SystemIdGenerator
from corral.app.port_providers import NullEngineClient
from corral.domain.usage import RequestRecord
from corral.gateway.exchange.gateway import Gateway
from corral.metering import usage_spool
from corral.runtime.read_batcher import ReadBatcher
from tests.gateway.scene import CHAT, request
from tests.serving.scene import keep_only_the_feed, put_model, put_replica, settled
from tests.support.engines import JSON_ANSWER, EngineBehaviour, MisbehavingEngine, make_json_head
from tests.support.frontends import RunningFrontend, running_frontend
from tests.support.nodes import join_node
from tests.support.polling import eventually


async def test_requests_that_end_together_are_in_the_files_of_usage_before_any_answer_goes_out(
    database_url: str, engine: MisbehavingEngine, tmp_path: Path
) -> None:
    async with running_frontend(database_url, usage_dir=tmp_path) as frontend:
        await keep_only_the_feed(frontend)
        await put_model(frontend.database)
        await put_replica(frontend.database, (await join_node(frontend)).id, engine.address)
        await settled(frontend)
        await ask_together(frontend, engine, tmp_path)


async def ask_together(frontend: RunningFrontend, engine: MisbehavingEngine, folder: Path) -> None:
    engine.answer = EngineBehaviour.SILENT
    port, clients = int(frontend.url.rpartition(":")[2]), 12
    connections = [socket.create_connection(("127.0.0.1", port)) for _ in range(clients)]
    batches: list[int] = []
    # What was on the disk when the last of those were told, and whose answers were out by then.
    written: list[int] = []
    early: list[str] = []

    class SpoolListener:
        """Behind the spool."""

        def on_requests_ended(self, *records: RequestRecord) -> None:
            batches.append(len(records))
            written.append(used(folder))
            early.extend(record.request_id for record in records if has_come(connections[int(record.request_id)]))

    frontend.core.gateway.listeners.append(SpoolListener())
    for number, client in enumerate(connections):
        client.setblocking(False)
        client.send(request(CHAT, f"x-request-id: {number}"))

    async def all_ask() -> bool:
        return len(engine.received) == clients

    await eventually(all_ask)
    # Not one after the other, with turns of the loop between: the loop that they share reads all of it at once.
    for writer in tuple(engine._writers):
        writer.write(make_json_head(len(JSON_ANSWER)) + JSON_ANSWER)

    async def are_all_recorded() -> bool:
        return sum(batches) == clients

    await eventually(are_all_recorded)
    assert max(batches) > 1, "nothing has ended together"
    assert written == list(accumulate(batches))
    assert early == []
    for client in connections:
        client.setblocking(True)
        client.settimeout(10)
        assert (await asyncio.to_thread(client.recv, 65536)).startswith(b"HTTP/1.1 200 ")
        client.close()


def has_come(client: socket.socket) -> bool:
    try:
        return bool(client.recv(1, socket.MSG_PEEK))
    except BlockingIOError:
        return False


def used(folder: Path) -> int:
    """How many requests are in the files of the spool."""
    files = [usage_spool.read_file(path) for path in folder.rglob(f"*{usage_spool.SUFFIX}")]
    return sum(sums.requests for file in files for sums in file.buckets.values())


def test_error_while_flushing_one_response_does_not_keep_the_others_from_being_flushed() -> None:
    calls: list[str] = []

    class Exchange:
        def __init__(self, name: str) -> None:
            self._name = name

        def flush_response(self) -> None:
            calls.append(self._name)
            if self._name == "broken":
                raise RuntimeError(self._name)

    gateway = Gateway(
        router=cast("Any", None),
        engines=NullEngineClient(),
        clock=SystemClock(),
        ids=SystemIdGenerator(),
        wait_s=1,
        read_batcher=ReadBatcher(),
    )
    gateway.read_batcher.is_running = True
    for name in ("one", "broken", "other"):
        gateway.finish_exchange(cast("Any", Exchange(name)), cast("Any", None))
    assert calls == []
    with pytest.raises(RuntimeError, match="broken"):
        gateway.flush_finished()
    assert calls == ["one", "broken", "other"]
    gateway.flush_finished()
    assert calls == ["one", "broken", "other"]
