"""Names that change between two looks: webhooks and attachments connect to the address that was judged, or not."""

from __future__ import annotations

import asyncio
import socket
from dataclasses import dataclass, field
from typing import Any

import pytest

from corral.domain.access import Owner
from corral.domain.errors import CorralError
from corral.domain.task import MediaKind, MediaSource, TaskWebhook, WebhookState
from tests.operations.fake_bus import Hub
from tests.runs.scene import RunWorker
from tests.tasks.scene import TaskFrontend, WebhookReceiver

pytestmark = pytest.mark.behaviour("TASK-13")
NAME = "hooks.example.com"
PUBLIC, PRIVATE = "93.184.216.34", "127.0.0.1"


@dataclass
class ChangingName:
    """A name service that answers with a public address first, and with a private one from then on."""

    looked_up: list[str] = field(default_factory=list)
    # The addresses that a connection was begun to; those of the open internet refuse it.
    connected: list[str] = field(default_factory=list)

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        loop = asyncio.get_running_loop()
        look_up, connect = loop.getaddrinfo, loop.sock_connect

        async def resolve(host: str, port: Any, **options: Any) -> Any:
            if host != NAME:
                return await look_up(host, port, **options)
            found = PRIVATE if self.looked_up else PUBLIC
            self.looked_up.append(found)
            return [(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (found, port or 0))]

        async def connect_to(sock: socket.socket, address: Any) -> None:
            if address[0] != PUBLIC:
                return await connect(sock, address)
            self.connected.append(address[0])
            raise ConnectionRefusedError(111, "Connection refused")

        monkeypatch.setattr(loop, "getaddrinfo", resolve)
        monkeypatch.setattr(loop, "sock_connect", connect_to)


@pytest.fixture
async def changing(monkeypatch: pytest.MonkeyPatch) -> ChangingName:
    name = ChangingName()
    name.install(monkeypatch)
    return name


async def test_webhook_connects_to_the_address_that_was_judged(
    frontend: TaskFrontend,
    owner: Owner,
    hub: Hub,
    worker: RunWorker,
    receiver: WebhookReceiver,
    changing: ChangingName,
) -> None:
    strict = TaskFrontend(frontend.database, hub, "frontend-2", allows_private=False)
    await frontend.create(owner, webhooks=(TaskWebhook(url=receiver.url.replace("127.0.0.1", NAME)),))
    job = await frontend.execute(owner)
    await frontend.run()
    await worker.end(frontend)
    await frontend.run()
    await strict.send()
    # A new session has not kept what the name led to.
    await strict.fetcher.stop()
    await strict.send_all()
    await strict.fetcher.stop()
    # The first attempt judged and used one look; the second one had the private address and ended there.
    assert (changing.looked_up, changing.connected) == ([PUBLIC, PRIVATE], [PUBLIC])
    assert receiver.received == []
    [delivery] = (await frontend.tasks.get_run(job.run.id, None)).deliveries
    assert delivery.state is WebhookState.FAILED
    assert "private network" in delivery.last_error


@pytest.mark.parametrize("is_source", [False, True])
async def test_attachment_is_fetched_from_the_address_that_was_judged(
    frontend: TaskFrontend,
    owner: Owner,
    hub: Hub,
    receiver: WebhookReceiver,
    changing: ChangingName,
    *,
    is_source: bool,
) -> None:
    strict = TaskFrontend(frontend.database, hub, "frontend-2", allows_private=False)
    url = receiver.url.replace("127.0.0.1", NAME) + "/x.png"
    await strict.create(owner, media_sources=(MediaSource(kind=MediaKind.IMAGE, url=url),) if is_source else ())
    attachments: dict[str, Any] = {} if is_source else {"images": [url]}
    codes = []
    for _ in range(2):
        with pytest.raises(CorralError) as refused:
            await strict.execute(owner, **attachments)
        codes.append(refused.value.slug)
        # A new session has not kept what the name led to.
        await strict.fetcher.stop()
    assert codes == ["source_unavailable", "private_address"]
    assert (changing.looked_up, changing.connected) == ([PUBLIC, PRIVATE], [PUBLIC])
    assert receiver.received == []
