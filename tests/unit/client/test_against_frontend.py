"""The client and the real frontend understand each other: every call once, on a real PostgreSQL."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import aclosing

import pytest

from corral.adapters.system import SystemClock, SystemIdGenerator
from corral.client import CorralClient, StreamConnectedNotice
from corral.domain.access import Scope
from corral.domain.errors import CorralError, InvalidRequest, NotAuthenticated, NotFound
from corral.wire.access import KeyIn, TokenIn
from corral.wire.live import EventOut
from tests.access.test_secret_sealer import FIRST
from tests.support.frontends import ADMIN_KEY, RunningFrontend, running_frontend
from tests.support.nodes import PretendNode

LABEL = "rack/row"


@pytest.fixture
async def client(frontend: RunningFrontend) -> AsyncIterator[CorralClient]:
    async with CorralClient(frontend.url, ADMIN_KEY, clock=SystemClock(), ids=SystemIdGenerator()) as client:
        yield client


async def a_pending_node(frontend: RunningFrontend, client: CorralClient, name: str = "gpu ä 1") -> PretendNode:
    token = await client.tokens.create(TokenIn())
    node = PretendNode(frontend, name)
    status, answer = await node.register(token.token)
    assert status == 201, answer
    return node


async def test_node_is_approved_drained_resumed_and_removed_by_name(frontend, client):
    node = await a_pending_node(frontend, client)
    assert (await client.nodes.get(node.name)).status == "pending"
    assert [found.id for found in await client.nodes.list(status="pending")] == [node.id]
    assert (await client.nodes.approve(node.name)).id == node.id
    assert (await client.nodes.drain(node.name)).status == "draining"
    assert (await client.nodes.resume(node.name)).status != "draining"
    await client.nodes.remove(node.name)
    with pytest.raises(NotFound):
        await client.nodes.get(node.id)


async def test_labels_slots_and_budget_are_set_and_reset(frontend, client):
    node = await a_pending_node(frontend, client)
    await client.labels.merge(node.id, {"site": "attic", LABEL: "7"})
    assert (await client.labels.get(node.id))["site"] == "attic"
    assert [found.id for found in await client.nodes.list(selector=f"site=attic,{LABEL}=7")] == [node.id]
    await client.labels.remove(node.id, LABEL)
    assert LABEL not in await client.labels.get(node.id)
    assert "site" not in await client.labels.replace(node.id, {"zone": "b"})
    assert (await client.nodes.set_slots(node.id, 4)).max_replicas_per_model == 4
    assert (await client.nodes.reset_slots(node.id)).reset
    assert (await client.nodes.set_budget(node.id, "80%")).vram_budget == "80%"
    assert (await client.nodes.reset_budget(node.id)).reset
    with pytest.raises(InvalidRequest):
        await client.nodes.set_budget(node.id, "a lot")


async def test_probe_and_stop_of_a_node_that_is_off_the_bus_are_refused(frontend, client):
    node = await a_pending_node(frontend, client)
    for action in (client.nodes.probe, client.nodes.stop):
        with pytest.raises(CorralError) as caught:
            await action(node.id)
        assert caught.value.slug != "unexpected_answer"


async def test_keys_and_tokens_live_and_die(frontend, client):
    made = await client.keys.create(KeyIn(name="ci", scope=Scope.ADMIN))
    async with CorralClient(frontend.url, made.key, clock=SystemClock(), ids=SystemIdGenerator()) as other:
        assert (await other.cluster.get()).version
        newer = await client.keys.rotate(made.id)
        assert newer.key != made.key
        await client.keys.revoke(newer.id)
    async with CorralClient(frontend.url, newer.key, clock=SystemClock(), ids=SystemIdGenerator()) as other:
        with pytest.raises(NotAuthenticated):
            await other.cluster.get()
    assert "ci" in {key.name for key in await client.keys.list()}
    token = await client.tokens.create(TokenIn(name="rack 2"))
    assert (await client.tokens.revoke(token.id)).state == "revoked"
    assert [listed.state for listed in await client.tokens.list()] == ["revoked"]


async def test_secrets_are_put_listed_and_deleted(database_url):
    clock, ids = SystemClock(), SystemIdGenerator()
    async with (
        running_frontend(database_url, sealing_keys=(FIRST,)) as sealing,
        CorralClient(sealing.url, ADMIN_KEY, clock=clock, ids=ids) as client,
    ):
        for is_cluster in (False, True):
            made = await client.secrets.put("hub.token", "väl\nue", is_cluster=is_cluster)
            assert await client.secrets.list(is_cluster=is_cluster) == [made]
            assert made.reference == ("cluster-secret:hub.token" if is_cluster else "secret:hub.token")
            await client.secrets.delete("hub.token", is_cluster=is_cluster)
            with pytest.raises(NotFound):
                await client.secrets.delete("hub.token", is_cluster=is_cluster)
            assert await client.secrets.list(is_cluster=is_cluster) == []


async def test_events_are_followed_over_the_restart_of_a_frontend(database_url):
    clock, ids = SystemClock(), SystemIdGenerator()
    async with (
        running_frontend(database_url) as first,
        CorralClient(first.url, ADMIN_KEY, clock=clock, ids=ids) as client,
    ):
        async with aclosing(client.watch_events(topics=["token"])) as items:
            assert isinstance(await anext(items), StreamConnectedNotice)
            await client.tokens.create(TokenIn(name="one"))
            event = await anext(items)
            assert isinstance(event, EventOut)
            assert event.kind.startswith("token.")
        await client.tokens.create(TokenIn(name="two"))
    async with (
        running_frontend(database_url) as second,
        CorralClient(second.url, ADMIN_KEY, clock=clock, ids=ids) as client,
        aclosing(client.watch_events(event.id, topics=["token"])) as items,
    ):
        assert isinstance(await anext(items), StreamConnectedNotice)
        missed = await anext(items)
        assert isinstance(missed, EventOut)
        assert missed.id != event.id


async def test_command_line_talks_to_a_real_frontend(frontend, client, tmp_path):
    await a_pending_node(frontend, client, "gpu-a")
    home = {"HOME": str(tmp_path), "CORRAL_URL": frontend.url, "CORRAL_KEY": ADMIN_KEY}

    async def corral(*words: str) -> tuple[int | None, str, str]:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "corral", *words, stdout=-1, stderr=-1, stdin=-3, env=home
        )
        out, err = await process.communicate()
        return process.returncode, out.decode(), err.decode()

    code, out, err = await corral("nodes", "list")
    assert code == 0, err
    assert "gpu-a   pending" in out
    assert "corral nodes approve gpu-a" in err
    for words in (
        ["nodes", "approve", "gpu-a"],
        ["nodes", "show", "gpu-a"],
        ["cluster"],
        ["tokens", "list"],
        ["keys", "list"],
    ):
        code, out, err = await corral(*words)
        assert code == 0, err
    code, out, err = await corral("nodes", "show", "nobody")
    assert code == 1
    assert err.startswith("error: ")
