"""What ends in one turn of the loop ends together."""

from __future__ import annotations

import asyncio
import socket
from itertools import accumulate
from pathlib import Path
from typing import Any, cast

import pytest

from corral.adapters.system import SystemClock, SystemIds
from corral.app.no_engines import NoEngines
from corral.domain.answered import Answered
from corral.metering import lines
from corral.runtime.intake import Intake
from corral.serving.gateway import Gateway
from tests.gateway.scene import CHAT, request
from tests.serving.scene import keep_only_the_feed, put_model, put_replica, settled
from tests.support.engines import JSON_ANSWER, MisbehavingEngine, Mode, json_head
from tests.support.frontends import RunningFrontend, running_frontend
from tests.support.nodes import joined
from tests.support.waiting import eventually


@pytest.mark.behaviour("GW-192")
async def test_requests_that_end_together_are_in_the_files_of_usage_before_any_answer_goes_out(
    database_url: str, engine: MisbehavingEngine, tmp_path: Path
) -> None:
    async with running_frontend(database_url, usage_dir=tmp_path) as frontend:
        await keep_only_the_feed(frontend)
        await put_model(frontend.database)
        await put_replica(frontend.database, (await joined(frontend)).id, engine.address)
        await settled(frontend)
        await ask_together(frontend, engine, tmp_path)


async def ask_together(frontend: RunningFrontend, engine: MisbehavingEngine, folder: Path) -> None:
    engine.answer = Mode.SILENT
    port, clients = int(frontend.url.rpartition(":")[2]), 12
    asked = [socket.create_connection(("127.0.0.1", port)) for _ in range(clients)]
    told: list[int] = []
    # What was on the disk when the last of those were told, and whose answers were out by then.
    written: list[int] = []
    early: list[str] = []

    class Ear:
        """Behind the spool."""

        def answered(self, *records: Answered) -> None:
            told.append(len(records))
            written.append(used(folder))
            early.extend(record.request_id for record in records if has_come(asked[int(record.request_id)]))

    frontend.core.gateway.listeners.append(Ear())
    for number, client in enumerate(asked):
        client.setblocking(False)
        client.send(request(CHAT, f"x-request-id: {number}"))

    async def all_ask() -> bool:
        return len(engine.heard) == clients

    await eventually(all_ask)
    # Not one after the other, with turns of the loop between: the loop that they share reads all of it at once.
    for writer in tuple(engine._writers):
        writer.write(json_head(len(JSON_ANSWER)) + JSON_ANSWER)

    async def all_told() -> bool:
        return sum(told) == clients

    await eventually(all_told)
    assert max(told) > 1, "nothing has ended together"
    assert written == list(accumulate(told))
    assert early == []
    for client in asked:
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
    files = [lines.read(path) for path in folder.rglob(f"*{lines.SUFFIX}")]
    return sum(sums.requests for file in files for sums in file.buckets.values())


@pytest.mark.behaviour("GW-192")
def test_one_whose_client_cannot_be_told_takes_no_answer_from_the_others() -> None:
    said: list[str] = []

    class Exchange:
        def __init__(self, name: str) -> None:
            self._name = name

        def say_rest(self) -> None:
            said.append(self._name)
            if self._name == "broken":
                raise RuntimeError(self._name)

    gateway = Gateway(
        router=cast("Any", None), engines=NoEngines(), clock=SystemClock(), ids=SystemIds(), wait_s=1, intake=Intake()
    )
    gateway.intake.is_running = True
    for name in ("one", "broken", "other"):
        gateway.end(cast("Any", Exchange(name)), cast("Any", None))
    assert said == []
    with pytest.raises(RuntimeError, match="broken"):
        gateway.settle()
    assert said == ["one", "broken", "other"]
    gateway.settle()
    assert said == ["one", "broken", "other"]
