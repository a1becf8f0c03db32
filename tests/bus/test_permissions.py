"""What each role may do, made from the registry and tried on a real server."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import pytest
from nats.aio.msg import Msg

from corral.bus.messages import DescribeNode
from corral.bus.subjects import (
    NODE_DESCRIBE,
    NODE_WAKE,
    SUBJECTS,
    BusRole,
    SubjectKind,
    SubjectSpec,
    format_pattern,
    format_subject,
    make_inbox_prefix,
    make_permissions,
    sanitise_token,
)
from corral.domain.errors import NotAllowed
from corral.ports.bus import Delivery
from tests.bus.conftest import OpenBus, OpenConnection
from tests.bus.nats_server import NatsServer

OWNERS = {BusRole.FRONTEND: "f1", BusRole.WORKER: "n1", BusRole.AGENT: "n1"}
PATHS = [
    (spec, sender, receiver)
    for spec in SUBJECTS
    for sender, receiver in itertools.product(sorted(spec.senders), sorted(spec.receivers))
]


def node_of(spec: SubjectSpec[Any, Any], node: str = "n1") -> str | None:
    return node if spec.is_per_node else None


@pytest.mark.behaviour("OPS-88")
@pytest.mark.parametrize(
    ("spec", "sender", "receiver"), PATHS, ids=[f"{spec.name}:{sender}-{receiver}" for spec, sender, receiver in PATHS]
)
async def test_every_subject_of_the_registry_is_allowed_for_its_roles(
    spec: SubjectSpec[Any, Any], sender: BusRole, receiver: BusRole, server: NatsServer, open_connection: OpenConnection
) -> None:
    sending = await open_connection(server.provider(sender, OWNERS[sender])())
    receiving = await open_connection(server.provider(receiver, OWNERS[receiver])())
    arrived: asyncio.Queue[Msg] = asyncio.Queue()
    listens_to = node_of(spec) if receiver.is_node else None
    await receiving.subscribe(format_pattern(spec, node=listens_to), arrived.put_nowait)
    target = format_subject(spec, node=node_of(spec))
    if spec.kind is SubjectKind.PUBLISH:
        await sending.publish(target, b"x")
        assert (await arrived.get()).subject == target
        return
    async with asyncio.TaskGroup() as group:
        asking = group.create_task(sending.request(target, b"x", timeout_s=20))
        await receiving.publish((await arrived.get()).reply, b"answer")
    assert asking.result() == b"answer"


FOREIGN_SUBSCRIPTIONS = sorted(
    {
        ">",
        "*",
        "*.*.*",
        "nodes.>",
        "nodes.*.>",
        "nodes.n1.>",
        "_INBOX.>",
        "_INBOX.*",
        "_INBOX.*.*.*",
        "_INBOX.n2.>",
        "_INBOX.f1.>",
        "$SYS.>",
        "frontends.>",
        *(format_pattern(spec, node=node_of(spec, "n2")) for spec in SUBJECTS),
        *(format_pattern(spec) for spec in SUBJECTS),
        *(format_pattern(spec, node=node_of(spec)) for spec in SUBJECTS if BusRole.WORKER not in spec.receivers),
    }
)


@pytest.mark.behaviour("OPS-88")
@pytest.mark.behaviour("OPS-89")
@pytest.mark.parametrize("role", [BusRole.WORKER, BusRole.AGENT])
async def test_node_cannot_listen_to_anything_that_is_not_its_own(
    role: BusRole, server: NatsServer, open_connection: OpenConnection
) -> None:
    node = await open_connection(server.provider(role, "n1")())
    for foreign in FOREIGN_SUBSCRIPTIONS:
        with pytest.raises(NotAllowed) as caught:
            await node.subscribe(foreign, lambda message: None)
        assert foreign in caught.value.message
    assert node.is_open


FOREIGN_PUBLICATIONS = sorted(
    {
        "_INBOX.f1.1",
        "_INBOX.n2.1",
        "_INBOX.n1.1",
        "nodes.n1.anything",
        "$SYS.REQ.CLAIMS.UPDATE",
        *(format_subject(spec, node=node_of(spec, "n2")) for spec in SUBJECTS),
        *(format_subject(spec, node=node_of(spec)) for spec in SUBJECTS if BusRole.WORKER not in spec.senders),
    }
)


@pytest.mark.behaviour("OPS-88")
@pytest.mark.parametrize("role", [BusRole.WORKER, BusRole.AGENT])
async def test_node_cannot_speak_for_another_node_nor_command_one_nor_forge_a_reply(
    role: BusRole, server: NatsServer, open_connection: OpenConnection
) -> None:
    node = await open_connection(server.provider(role, "n1")())
    for foreign in FOREIGN_PUBLICATIONS:
        with pytest.raises(NotAllowed) as caught:
            await node.request(foreign, b"{}", timeout_s=20)
        assert foreign in caught.value.message


@pytest.mark.behaviour("OPS-88")
async def test_request_can_be_answered_only_once_and_only_by_its_receiver(
    server: NatsServer, open_connection: OpenConnection
) -> None:
    frontend = await open_connection(server.provider(BusRole.FRONTEND, "f1")())
    receiver, other = [await open_connection(server.provider(BusRole.WORKER, node)()) for node in ("n1", "n2")]
    arrived: asyncio.Queue[Msg] = asyncio.Queue()
    await receiver.subscribe("nodes.n1.describe", arrived.put_nowait)
    async with asyncio.TaskGroup() as group:
        asking = group.create_task(frontend.request("nodes.n1.describe", b"{}", timeout_s=20))
        reply = (await arrived.get()).reply
        with pytest.raises(NotAllowed):
            await other.request(reply, b"forged", timeout_s=20)
        await receiver.publish(reply, b"true")
    assert asking.result() == b"true"
    with pytest.raises(NotAllowed):
        await receiver.request(reply, b"again", timeout_s=20)


@pytest.mark.behaviour("OPS-89")
async def test_refused_subscription_fails_at_subscribe_time_and_names_the_subject(open_bus: OpenBus) -> None:
    worker = await open_bus(BusRole.WORKER, "n1")

    async def wake(delivery: Delivery[Any]) -> None:
        return

    with pytest.raises(NotAllowed, match=r"nodes\.n2\.wake"):
        await worker.subscribe(NODE_WAKE, wake, node="n2")
    assert (await worker.subscribe(NODE_WAKE, wake, node="n1")).is_confirmed


async def test_bus_request_that_is_not_permitted_fails_as_not_allowed_and_not_as_a_timeout(open_bus: OpenBus) -> None:
    worker = await open_bus(BusRole.WORKER, "n1")
    with pytest.raises(NotAllowed, match=r"nodes\.n2\.describe"):
        await worker.request(NODE_DESCRIBE, DescribeNode(), node="n2", timeout_s=3600)


@pytest.mark.behaviour("OPS-92")
@pytest.mark.parametrize(
    "node", ["a.b", "a*", ">", "*", "two words", "tab\there", "line\r\nPUB x 0", "é-ß", "\u2028\u200b\x00"]
)
async def test_node_with_reserved_characters_in_its_id_can_use_exactly_the_subjects_that_are_built_for_it(
    node: str, open_bus: OpenBus
) -> None:
    frontend, worker = await open_bus(BusRole.FRONTEND, "f1"), await open_bus(BusRole.WORKER, node)
    deliveries: asyncio.Queue[Delivery[Any]] = asyncio.Queue()
    subscription = await worker.subscribe(NODE_WAKE, deliveries.put, node=node)
    await frontend.publish(NODE_WAKE, NODE_WAKE.request(), node=node)
    assert (await deliveries.get()).node == sanitise_token(node)
    allowed = make_permissions(BusRole.WORKER, node).subscribe_allow
    assert subscription.subject in allowed
    assert f"{make_inbox_prefix(node)}.>" in allowed
