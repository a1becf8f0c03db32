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

from corral.access.directory import CredentialDirectory, CredentialHolder
from corral.access.secrets import hash_secret
from corral.adapters.engines import HttpEngineClient
from corral.adapters.engines.connection import EngineConnection
from corral.adapters.system import SystemClock, SystemIdGenerator
from corral.api.deps import ApiDeps
from corral.app.frontend import GC_THRESHOLD
from corral.domain.access import Principal
from corral.domain.node import NodeId
from corral.domain.replica import Replica, ReplicaState
from corral.gateway.connection.protocol import ConnectionRegistry, GatewayProtocol
from corral.gateway.exchange.gateway import Gateway
from corral.gateway.routing.health import Health
from corral.gateway.routing.in_flight_leases import InFlightLeases
from corral.gateway.routing.key_limiter import KeyLimiter
from corral.gateway.routing.replica_pool import ReplicaPoolOptions, ReplicaPools
from corral.gateway.routing.router import Router
from corral.gateway.routing.routing_snapshot import RoutingSnapshot
from corral.insight.tally import RequestTally
from corral.metering.usage_spool import UsageSpool
from corral.policy.serving.cors import CorsPolicy
from corral.policy.serving.routing import RoutableNode
from corral.runtime.read_batcher import ReadBatcher
from corral.store.replica_use import ServedModel

CROWD = 64
TURNS = 150
ROUNDS = 20
EVENTS = 200
KEY = "ck_" + "k" * 43
ADDRESS = "127.0.0.1:9"
_TEXT = "Tell me something that I do not know about horses, please, and be brief about it. " * 3


def make_request(*, is_stream: bool, more: str = "") -> bytes:
    text = _TEXT + more
    request_body: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": text}], "max_tokens": EVENTS}
    body = json.dumps(request_body | ({"stream": True} if is_stream else {}), separators=(",", ":")).encode()
    lines = ("host: 127.0.0.1:8080", "content-type: application/json", "accept: */*", "user-agent: bench")
    head = "\r\n".join(("POST /v1/chat/completions HTTP/1.1", *lines, f"authorization: Bearer {KEY}"))
    return f"{head}\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body


def make_response(more: str = "") -> list[bytes]:
    body_fields = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "model": "m",
        "choices": [
            {"index": 0, "message": {"role": "assistant", "content": "word " * 140 + more}, "finish_reason": "stop"}
        ],
        "usage": {"prompt_tokens": 20, "completion_tokens": 140, "total_tokens": 160},
    }
    body = json.dumps(body_fields, separators=(",", ":")).encode()
    return [b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body)]


def make_stream() -> list[bytes]:
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
    event = b'data: {"id":"chatcmpl-1","choices":[{"index":0,"delta":{"content":" word"},"finish_reason":null}]}\n\n'
    chunk = b"%x\r\n%b\r\n" % (len(event), event)
    return [head, *[chunk] * EVENTS, b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n"]


_SOCKET = SimpleNamespace(
    setsockopt=lambda *_: None, getsockname=lambda: ("127.0.0.1", 1), getpeername=lambda: ("127.0.0.1", 2)
)


class NullTransport(asyncio.Transport):
    """An asyncio transport without a socket: it notes writes and sends nothing."""

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


class HotPathScene:
    """Holds a frontend with one model and one replica in memory, and the clients that are connected to it."""

    def __init__(self, folder: Path) -> None:
        clock, database = SystemClock(), cast("Any", None)
        seats = ReplicaPools(clock, lambda: 0.5, ReplicaPoolOptions(concurrency=10_000))
        snapshot = RoutingSnapshot(database, seats)
        model = ServedModel(name="m", names=("m",), run_hash="1", created_at=datetime(2026, 1, 1, tzinfo=UTC))
        replica = Replica(
            id="r1", node_id=NodeId("n1"), model="m", index=0, state=ReplicaState.LOADED, address=ADDRESS, revision="1"
        )
        snapshot._replace([RoutableNode(id=NodeId("n1"), name="node-1", is_open=True, labels={})], [model], [replica])
        limits, spool, self.tally = KeyLimiter(database, clock), UsageSpool(folder / "spool", clock), RequestTally()
        spool.open()
        self.read_batcher = ReadBatcher()
        self.engines = HttpEngineClient(self.read_batcher)
        router = Router(database, clock, snapshot, InFlightLeases(database, clock, "f1", seats), cast("Any", None))
        gateway = Gateway(
            router=router,
            engines=self.engines,
            clock=clock,
            ids=SystemIdGenerator(),
            wait_s=60,
            limiter=limits,
            read_batcher=self.read_batcher,
        )
        gateway.listeners += [limits, self.tally, spool]
        directory = CredentialDirectory(database, clock)
        directory._keys = {hash_secret(KEY): CredentialHolder(Principal(key_id="k1", name="bench"), None)}  # noqa: SLF001 - without a database
        core = SimpleNamespace(health=Health(clock), get_not_ready_reason=None)
        parts = SimpleNamespace(
            clock=clock,
            gateway=gateway,
            directory=directory,
            health=core.health,
            cors_policy=CorsPolicy(()),
            get_not_ready_reason=lambda: None if core.health.saved_as_of is not None else core.get_not_ready_reason,
        )
        self._waiting: list[EngineConnection] = []
        self._protocol = ConnectionRegistry(cast("ApiDeps", parts)).make_protocol_class()
        self._state = ServerState()
        self._state.default_headers = [(b"server", b"corral"), (b"date", b"Sun, 15 Nov 2026 12:00:00 GMT")]
        self.written = 0
        self.clients = [self._make_client() for _ in range(CROWD)]
        for _ in range(CROWD):
            self._make_engine_connection()

    def run_turn(self, request_bytes: bytes, response_pieces: list[bytes]) -> None:
        """Have every client send one request and receive one response."""
        for client in self.clients:
            client.data_received(request_bytes)
        self.read_batcher.run()
        waiting, self._waiting = self._waiting, []
        assert len(waiting) == CROWD, "somebody's call did not reach the engine"
        for piece in response_pieces:
            for connection in waiting:
                connection.data_received(piece)
            self.read_batcher.run()

    def _make_client(self) -> GatewayProtocol:
        config = Config(_nothing, lifespan="off", ws="none", access_log=False, log_config=None)
        client = self._protocol(config, self._state, {}, asyncio.get_running_loop())
        client.connection_made(NullTransport(self._note_written))
        return client

    def _make_engine_connection(self) -> None:
        connection = EngineConnection(self.engines, ADDRESS)
        connection.connection_made(NullTransport(lambda: self._waiting.append(connection)))
        self.engines.keep_idle(connection)

    def _note_written(self) -> None:
        self.written += 1


async def _nothing(scope: Any, receive: Any, send: Any) -> None:
    raise AssertionError("a request was not plain", scope, receive, send)


RequestAndResponse = tuple[bytes, list[bytes]]


def make_questions() -> list[RequestAndResponse]:
    """Return requests of which no two in a row have the same length, as with real users."""
    return [(make_request(is_stream=False, more="." * at), make_response("!" * at)) for at in (0, 7, 3, 40)]


def measure_us(scene: HotPathScene, exchanges: list[RequestAndResponse], turns: int) -> float:
    """Return the microseconds per request of the best turn, which nothing disturbed; garbage collections are
    excluded."""
    best = float("inf")
    for at in range(ROUNDS * turns):
        request_bytes, answered = exchanges[at % len(exchanges)]
        before = time.process_time()
        scene.run_turn(request_bytes, answered)
        best = min(best, time.process_time() - before)
    return best / CROWD * 1e6


async def main(what: str) -> None:
    with tempfile.TemporaryDirectory(prefix="corral-bench-") as folder:
        scene = HotPathScene(Path(folder))
        # A frontend freezes its objects at the end of its start in the same way.
        gc.freeze()
        gc.set_threshold(GC_THRESHOLD)
        if what == "profile":
            profile = cProfile.Profile()
            body_fields = make_questions()
            scene.run_turn(*body_fields[0])
            profile.enable()
            for at in range(TURNS):
                scene.run_turn(*body_fields[at % len(body_fields)])
            profile.disable()
            pstats.Stats(profile, stream=sys.stderr).sort_stats("tottime").print_stats(100)
        json_us = measure_us(scene, make_questions(), TURNS)
        stream_us = measure_us(scene, [(make_request(is_stream=True), make_stream())], 2) if what != "json" else 0.0
        print(json.dumps({"json_us": json_us, "stream_us": stream_us, "events": EVENTS}))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else ""))
