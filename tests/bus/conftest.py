"""Fixtures of the bus tests: a server, and clients that are stopped when the test is over."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from corral.adapters.nats.client import NatsBus
from corral.adapters.nats.connection import BusWarningLog, NatsConnection
from corral.adapters.nats.credentials import CredentialProvider, NatsCredential
from corral.bus.subjects import BusRole
from tests.bus.nats_server import NatsServer, eventually

OpenBus = Callable[..., Awaitable[NatsBus]]
OpenConnection = Callable[[NatsCredential], Awaitable[NatsConnection]]


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[NatsServer]:
    async with NatsServer(tmp_path) as running:
        yield running


@pytest.fixture
async def open_bus(server: NatsServer) -> AsyncIterator[OpenBus]:
    """`await open_bus(Role.WORKER, "n1")`: a started and connected client."""
    opened: list[NatsBus] = []

    async def open_one(role: BusRole, owner_id: str, *, credentials: CredentialProvider | None = None) -> NatsBus:
        bus = server.bus(role, owner_id, credentials=credentials)
        opened.append(bus)
        await bus.start()
        await eventually(lambda: bus.is_connected, f"{owner_id} is connected")
        return bus

    yield open_one
    for bus in reversed(opened):
        await bus.stop()


@pytest.fixture
async def open_connection(server: NatsServer) -> AsyncIterator[OpenConnection]:
    """Open a raw connection with one credential, for calls that the client does not allow."""
    opened: list[NatsConnection] = []

    async def open_one(credential: NatsCredential) -> NatsConnection:
        connection = NatsConnection(
            server.endpoint("raw"), credential, reporter=BusWarningLog("raw"), on_lost=lambda: None
        )
        opened.append(connection)
        await connection.open()
        return connection

    yield open_one
    for connection in opened:
        await connection.close()
