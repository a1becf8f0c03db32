"""The gateway's own Python, without sockets: a program by itself, run by `hot.py` under the Python that is measured.

Both sides of every connection are in memory: bytes go into the protocol, its call to the engine is answered at once,
and the answer is thrown away. Key, limits, routing, usage (with its file) and numbers are those of a real frontend. So
a figure is the CPU time of Corral's code and parsers alone, and the same code gives the same figure on a busy machine.
"""

from __future__ import annotations

import asyncio
import cProfile
import gc
import json
import pstats
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from uvicorn.config import Config
from uvicorn.server import ServerState

from corral.access.directory import Directory
from corral.access.entries import Holder
from corral.access.secrets import hash_secret
from corral.adapters.engines import HttpEngines
from corral.adapters.engines.connection import Connection
from corral.adapters.system import SystemClock, SystemIds
from corral.api.parts import Parts
from corral.app.frontend import YOUNG_OBJECTS
from corral.domain.access import Principal
from corral.domain.node import NodeId
from corral.domain.replica import Replica, ReplicaState
from corral.gateway.protocol import GatewayProtocol, Switchboard
from corral.insight.tally import Tally
from corral.metering.spool import Spool
from corral.policy.serving.origins import OriginPolicy
from corral.policy.serving.routing import Place
from corral.runtime.intake import Intake
from corral.serving.gateway import Gateway
from corral.serving.health import Health
from corral.serving.limits import Limits
from corral.serving.router import Router
from corral.serving.seats import SeatOptions, Seats
from corral.serving.snapshot import Snapshot
from corral.serving.use import Use
from corral.store.use import Served

CROWD = 64
TURNS = 150
ROUNDS = 20
EVENTS = 200
KEY = "ck_" + "k" * 43
ADDRESS = "127.0.0.1:9"
_TEXT = "Tell me something that I do not know about horses, please, and be brief about it. " * 3


def request(*, is_stream: bool, more: str = "") -> bytes:
    text = _TEXT + more
    asked: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": text}], "max_tokens": EVENTS}
    body = json.dumps(asked | ({"stream": True} if is_stream else {}), separators=(",", ":")).encode()
    lines = ("host: 127.0.0.1:8080", "content-type: application/json", "accept: */*", "user-agent: bench")
    head = "\r\n".join(("POST /v1/chat/completions HTTP/1.1", *lines, f"authorization: Bearer {KEY}"))
    return f"{head}\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body


def answer(more: str = "") -> list[bytes]:
    said = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "model": "m",
        "choices": [
            {"index": 0, "message": {"role": "assistant", "content": "word " * 140 + more}, "finish_reason": "stop"}
        ],
        "usage": {"prompt_tokens": 20, "completion_tokens": 140, "total_tokens": 160},
    }
    body = json.dumps(said, separators=(",", ":")).encode()
    return [b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body)]


def stream() -> list[bytes]:
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
    event = b'data: {"id":"chatcmpl-1","choices":[{"index":0,"delta":{"content":" word"},"finish_reason":null}]}\n\n'
    chunk = b"%x\r\n%b\r\n" % (len(event), event)
    return [head, *[chunk] * EVENTS, b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n"]


_SOCKET = SimpleNamespace(
    setsockopt=lambda *_: None, getsockname=lambda: ("127.0.0.1", 1), getpeername=lambda: ("127.0.0.1", 2)
)


class Line(asyncio.Transport):
    """One end of a connection; the other one is nobody."""

    def __init__(self, on_write: Callable[[], None]) -> None:
        super().__init__()
        self._on_write = on_write

    def write(self, data: Any) -> None:
        del data
        self._on_write()

    def is_closing(self) -> bool:
        return False

    def abort(self) -> None:
        raise AssertionError("a connection was given up")

    close = abort

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def get_write_buffer_size(self) -> int:
        return 0

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return _SOCKET if name == "socket" else default


class Scene:
    """A frontend with one model and one replica, and a crowd that is connected to it."""

    def __init__(self, folder: Path) -> None:
        clock, database = SystemClock(), cast("Any", None)
        seats = Seats(clock, lambda: 0.5, SeatOptions(concurrency=10_000))
        snapshot = Snapshot(database, seats)
        model = Served(name="m", names=("m",), run_hash="1", created_at=datetime(2026, 1, 1, tzinfo=UTC))
        replica = Replica(
            id="r1", node_id=NodeId("n1"), model="m", index=0, state=ReplicaState.LOADED, address=ADDRESS, revision="1"
        )
        snapshot._replace([Place(id=NodeId("n1"), name="node-1", is_open=True, labels={})], [model], [replica])
        limits, spool, self.tally = Limits(database, clock), Spool(folder / "spool", clock), Tally()
        spool.open()
        self.intake = Intake()
        self.engines = HttpEngines(self.intake)
        router = Router(database, clock, snapshot, Use(database, clock, "f1", seats), cast("Any", None))
        gateway = Gateway(
            router=router,
            engines=self.engines,
            clock=clock,
            ids=SystemIds(),
            wait_s=60,
            limiter=limits,
            intake=self.intake,
        )
        gateway.listeners += [limits, self.tally, spool]
        directory = Directory(database, clock)
        directory._keys = {hash_secret(KEY): Holder(Principal(key_id="k1", name="bench"), None)}  # noqa: SLF001 - without a database
        core = SimpleNamespace(health=Health(clock), not_ready=None)
        parts = SimpleNamespace(
            clock=clock,
            gateway=gateway,
            directory=directory,
            health=core.health,
            origins=OriginPolicy(()),
            not_ready=lambda: None if core.health.kept_as_of is not None else core.not_ready,
        )
        self._asked: list[Connection] = []
        self._protocol = Switchboard(cast("Parts", parts)).protocol_class()
        self._state = ServerState()
        self._state.default_headers = [(b"server", b"corral"), (b"date", b"Sun, 15 Nov 2026 12:00:00 GMT")]
        self.written = 0
        self.clients = [self._client() for _ in range(CROWD)]
        for _ in range(CROWD):
            self._connect()

    def turn(self, asked: bytes, answered: list[bytes]) -> None:
        """Every client asks once, and every one is answered."""
        for client in self.clients:
            client.data_received(asked)
        self.intake.run()
        waiting, self._asked = self._asked, []
        assert len(waiting) == CROWD, "somebody's call did not reach the engine"
        for piece in answered:
            for connection in waiting:
                connection.data_received(piece)
            self.intake.run()

    def _client(self) -> GatewayProtocol:
        config = Config(_nothing, lifespan="off", ws="none", access_log=False, log_config=None)
        client = self._protocol(config, self._state, {}, asyncio.get_running_loop())
        client.connection_made(Line(self._note_written))
        return client

    def _connect(self) -> None:
        connection = Connection(self.engines, ADDRESS)
        connection.connection_made(Line(lambda: self._asked.append(connection)))
        self.engines.keep(connection)

    def _note_written(self) -> None:
        self.written += 1


async def _nothing(scope: Any, receive: Any, send: Any) -> None:
    raise AssertionError("a request was not plain", scope, receive, send)


Said = tuple[bytes, list[bytes]]


def questions() -> list[Said]:
    """No two that follow each other have the same lengths, as it is with people."""
    return [(request(is_stream=False, more="." * at), answer("!" * at)) for at in (0, 7, 3, 40)]


def measured(scene: Scene, said: list[Said], turns: int) -> float:
    """Microseconds of a request. The best turn is the one that nobody disturbed; a collection of garbage is none."""
    best = float("inf")
    for at in range(ROUNDS * turns):
        asked, answered = said[at % len(said)]
        before = time.process_time()
        scene.turn(asked, answered)
        best = min(best, time.process_time() - before)
    return best / CROWD * 1e6


async def main(what: str) -> None:
    with tempfile.TemporaryDirectory(prefix="corral-bench-") as folder:
        scene = Scene(Path(folder))
        # As a frontend does at the end of its start.
        gc.freeze()
        gc.set_threshold(YOUNG_OBJECTS)
        if what == "profile":
            profile = cProfile.Profile()
            said = questions()
            scene.turn(*said[0])
            profile.enable()
            for at in range(TURNS):
                scene.turn(*said[at % len(said)])
            profile.disable()
            pstats.Stats(profile, stream=sys.stderr).sort_stats("tottime").print_stats(100)
        json_us = measured(scene, questions(), TURNS)
        stream_us = measured(scene, [(request(is_stream=True), stream())], 2) if what != "json" else 0.0
        print(json.dumps({"json_us": json_us, "stream_us": stream_us, "events": EVENTS}))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else ""))
