"""A bounded load of heartbeats: keep-alive connections on raw sockets, because a client library would be the limit."""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import dataclass


@dataclass(frozen=True)
class HeartbeatLoad:
    """Holds the result of a load of heartbeats."""

    sent: int
    failed: int
    seconds: float

    @property
    def rate(self) -> float:
        return self.sent / self.seconds


@dataclass(frozen=True)
class SimulatedNode:
    """Holds the identity with which heartbeats of a node are sent."""

    id: str
    credential: str
    boot_id: str


def make_heartbeat_request(node: SimulatedNode, path: str) -> bytes:
    body = json.dumps(
        {
            "boot_id": node.boot_id,
            "bus_ok": True,
            "available_vram": 20_000_000_000,
            "available_ram": 40_000_000_000,
            "available_disk": 900_000_000_000,
        }
    ).encode()
    head = (
        f"POST {path.format(id=node.id)} HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer {node.credential}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


async def send_heartbeats(
    port: int, nodes: list[SimulatedNode], *, path: str, connections: int, seconds: float
) -> HeartbeatLoad:
    """Send heartbeats of every node in turn, as fast as the responses come, for `seconds`."""
    requests = [make_heartbeat_request(node, path) for node in nodes]
    deadline = time.monotonic() + seconds
    started = time.monotonic()
    slices = [requests[start::connections] for start in range(connections)]
    results = await asyncio.gather(*(_connection(port, part, deadline) for part in slices if part))
    return HeartbeatLoad(
        sent=sum(sent for sent, _ in results),
        failed=sum(failed for _, failed in results),
        seconds=time.monotonic() - started,
    )


async def _connection(port: int, requests: list[bytes], deadline: float) -> tuple[int, int]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    sent = failed = 0
    try:
        while time.monotonic() < deadline:
            for request in requests:
                writer.write(request)
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
                await reader.readexactly(length)
                sent += 1
                failed += not head.startswith(b"HTTP/1.1 200")
                if time.monotonic() >= deadline:
                    break
    finally:
        writer.close()
    return sent, failed
