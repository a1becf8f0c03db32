"""Parts are away: what goes on, what does not, and that it is said in sentences."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from corral.adapters.system import SystemClock
from corral.domain.errors import StoreUnavailable
from corral.gateway.routing.health import BEHIND_S, Health
from tests.engines.engine_processes import Engine
from tests.serving.scene import an_engine, keep_only_the_feed, put_model, put_replica, serve, settled
from tests.support.cuttable_proxy import CuttableProxy, run_cuttable_proxy
from tests.support.frontends import ADMIN_KEY, RunningFrontend, running_frontend
from tests.support.polling import eventually

CHAT = {"model": "chat", "messages": [{"role": "user", "content": "Who goes there?"}]}


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    with an_engine(tmp_path) as running:
        yield running


@pytest.fixture
async def wire(database_url: str) -> AsyncIterator[CuttableProxy]:
    place = urlsplit(database_url)
    assert place.hostname is not None
    assert place.port is not None
    async with run_cuttable_proxy(place.hostname, place.port) as mended:
        yield mended


@pytest.fixture
def wired_url(wire: CuttableProxy, database_url: str) -> str:
    place = urlsplit(database_url)
    return place._replace(netloc=f"{place.username}@{wire.address}").geturl()


async def _sentences(frontend: RunningFrontend) -> list[str]:
    status, answer = await frontend.call("GET", "/readyz", key=None)
    assert status == 200, answer
    return list(answer["degraded"])


async def _says(frontend: RunningFrontend, beginning: str) -> str:
    async def look() -> str | None:
        return next((one for one in await _sentences(frontend) if one.startswith(beginning)), None)

    found = await eventually(look)
    assert found is not None
    return found


async def _kept_on_disk(wired_url: str, engine: Engine, state: Path) -> None:
    """A frontend has served from this registry and has ended."""
    async with running_frontend(wired_url, state_dir=state) as before:
        await keep_only_the_feed(before)
        await serve(before, engine)
        status, answer = await before.call("POST", "/v1/chat/completions", CHAT)
        assert status == 200, answer


async def _answers(frontend: RunningFrontend) -> bool:
    return (await frontend.call("POST", "/v1/chat/completions", CHAT))[0] == 200


@pytest.mark.behaviour("GW-144")
async def test_frontend_that_starts_while_postgresql_is_away_serves_what_was_kept_and_goes_on_by_itself(
    wire: CuttableProxy, wired_url: str, engine: Engine, tmp_path: Path
) -> None:
    await _kept_on_disk(wired_url, engine, tmp_path / "state")
    await wire.cut()
    async with running_frontend(wired_url, state_dir=tmp_path / "state", waits=False) as frontend:
        await eventually(lambda: _answers(frontend))
        (about_postgres,) = [one for one in await _sentences(frontend) if "PostgreSQL" in one]
        assert about_postgres.startswith("PostgreSQL cannot be reached; serving from memory as of 20")
        status, listed = await frontend.call("GET", "/v1/models")
        assert (status, [one["id"] for one in listed["data"]]) == (200, ["chat"])
        await _assert_only_models_are_served(frontend)
        await wire.restore()
        await eventually(lambda: _is_booted(frontend))
        assert not [one for one in await _sentences(frontend) if "PostgreSQL" in one]
        assert await _answers(frontend)


async def _assert_only_models_are_served(frontend: RunningFrontend) -> None:
    status, overview = await frontend.call("GET", "/api/cluster")
    assert status == 200
    assert overview["postgres"]["state"] == "down"
    assert [node["name"] for node in overview["nodes"]] == ["node-1"]
    assert "PostgreSQL" in overview["degraded"][0]
    for method, path in (("GET", "/api/nodes"), ("POST", "/api/tokens"), ("GET", "/api/events")):
        status, answer = await frontend.call(method, path, {} if method == "POST" else None)
        assert (status, answer["error"]["code"]) == (503, "store_unavailable"), path
    assert (await frontend.call("POST", "/v1/chat/completions", CHAT, key="ck_wrong"))[0] in (401, 503)
    async with frontend.http.get(f"{frontend.url}/api/nodes") as answer_:
        assert int(answer_.headers["retry-after"]) > 0


async def _is_booted(frontend: RunningFrontend) -> bool:
    return (await frontend.call("GET", "/api/nodes"))[0] == 200


async def test_frontend_without_saved_state_reports_that_it_waits_for_postgresql(
    wire: CuttableProxy, wired_url: str, tmp_path: Path
) -> None:
    await wire.cut()
    async with running_frontend(wired_url, state_dir=tmp_path, waits=False) as frontend:

        async def is_waiting() -> bool:
            status, answer = await frontend.call("GET", "/readyz", key=None)
            return (status, answer.get("reason")) == (503, "PostgreSQL does not respond.")

        await eventually(is_waiting)
        status, answer = await frontend.call("POST", "/v1/chat/completions", CHAT)
        assert (status, answer["error"]["code"]) == (503, "starting")
        await wire.restore()
        await eventually(lambda: _is_booted(frontend))


async def test_models_are_served_all_the_time_however_long_the_rest_of_the_start_takes(
    wire: CuttableProxy, wired_url: str, engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await _kept_on_disk(wired_url, engine, tmp_path / "state")
    await wire.cut()
    async with running_frontend(wired_url, state_dir=tmp_path / "state", waits=False) as frontend:
        let, is_there = asyncio.Event(), asyncio.Event()

        async def looks_through_its_folder() -> None:
            is_there.set()
            await let.wait()

        monkeypatch.setattr(frontend.core.library, "start", looks_through_its_folder)
        await eventually(lambda: _answers(frontend))
        await wire.restore()
        await is_there.wait()
        assert await _answers(frontend)
        assert not await _is_booted(frontend)
        let.set()
        await eventually(lambda: _is_booted(frontend))


async def test_stream_that_began_from_what_was_kept_is_not_cut_when_postgresql_is_back(
    wire: CuttableProxy, wired_url: str, engine: Engine, tmp_path: Path
) -> None:
    await _kept_on_disk(wired_url, engine, tmp_path / "state")
    await wire.cut()
    async with running_frontend(wired_url, state_dir=tmp_path / "state", waits=False) as frontend:
        await eventually(lambda: _answers(frontend))
        await engine.post("/_control", {"tokens_per_s": 20})
        headers = {"Authorization": f"Bearer {ADMIN_KEY}"}
        body = CHAT | {"stream": True, "max_tokens": 40}
        async with frontend.http.post(f"{frontend.url}/v1/chat/completions", json=body, headers=headers) as stream:
            assert (await stream.content.readline()).startswith(b"data: ")
            await wire.restore()
            await eventually(lambda: _is_booted(frontend))
            rest = await stream.content.read()
        assert rest.rstrip().endswith(b"data: [DONE]")
        assert b'"error"' not in rest


@pytest.mark.behaviour("GW-147")
async def test_cluster_route_names_what_is_down_since_when_and_serves_from_memory(
    wire: CuttableProxy, wired_url: str, engine: Engine
) -> None:
    async with running_frontend(wired_url) as frontend:
        await keep_only_the_feed(frontend)
        assert (await _says(frontend, "NATS is away since 20")).endswith("No model is loaded.")
        await serve(frontend, engine)
        alone = await _says(frontend, "NATS is away since 20")
        assert alone.endswith("what is loaded is served. Serving 1 of 1 loaded model.")
        await wire.cut()
        sentence = await _says(frontend, "PostgreSQL is away since 20")
        assert sentence.endswith("nothing can be changed. Serving 1 of 1 loaded model.")
        assert (await _says(frontend, "NATS is away since 20")).endswith("what is loaded is served."), "once is enough"
        assert await _answers(frontend)
        assert await _says(frontend, "PostgreSQL is away") == sentence, "since when does not move"
        overview: Any = (await frontend.call("GET", "/api/cluster"))[1]
        assert sentence in overview["degraded"]
        assert overview["postgres"] == {"state": "down", "detail": overview["postgres"]["detail"]}
        assert overview["nodes"] == [
            {"id": overview["nodes"][0]["id"], "name": "node-1", "status": "unknown"}
            | {"status_reason": overview["nodes"][0]["status_reason"]}
        ]
        await wire.restore()

        async def is_well() -> bool:
            return not [one for one in await _sentences(frontend) if "PostgreSQL" in one]

        await eventually(is_well)


@pytest.mark.behaviour("GW-147")
async def test_degradation_counts_models_with_an_open_replica_as_served(database_url: str, engine: Engine) -> None:
    async with running_frontend(database_url) as frontend:
        await keep_only_the_feed(frontend)
        replica = await serve(frontend, engine)
        # One whose only replica is of another revision, one that fails, one that was switched off, one not loaded.
        for name in ("old", "failing", "off", "idle"):
            await put_model(frontend.database, name=name, enabled=name != "off")
        await put_replica(frontend.database, replica.node_id, replica.address, model="old", revision="another")
        failing = await put_replica(frontend.database, replica.node_id, replica.address, model="failing")
        await put_replica(frontend.database, replica.node_id, replica.address, model="off")
        await settled(frontend)
        assert (await _says(frontend, "NATS is away")).endswith("Serving 2 of 3 loaded models.")
        seat = frontend.core.api_deps.gateway.router.snapshot.pools.find(failing.id)
        assert seat is not None
        seat.breaker.trip(frontend.core.api_deps.clock.monotonic(), 0.0)
        assert (await _says(frontend, "NATS is away")).endswith("Serving 1 of 3 loaded models.")


class _ManualClock(SystemClock):
    """A clock whose hands the test moves."""

    passed_s = 0.0

    def monotonic(self) -> float:
        return self.passed_s

    def wall(self) -> datetime:
        return datetime(2026, 11, 15, 12, tzinfo=UTC) + timedelta(seconds=self.passed_s)


@pytest.mark.behaviour("GW-147")
def test_each_thing_that_does_not_work_is_one_sentence() -> None:
    clock = _ManualClock()
    health = Health(clock)
    assert health.list_sentences() == []
    assert health.list_sentences(has_leader=False) == [
        "No frontend leads: lost nodes are not noticed and nothing is scaled until one does."
    ]
    health.record_store_read()
    clock.passed_s = BEHIND_S + 5
    (behind,) = health.list_sentences()
    assert "last read 15 s ago" in behind
    health.record_store_outage(StoreUnavailable(details={"cause": "refused"}))
    clock.passed_s += 60
    health.record_store_outage(StoreUnavailable(details={"cause": "timeout"}))
    health.record_bus(is_connected=False)
    health.add_source(lambda: "The disk is full.")
    health.add_source(lambda: None)
    assert health.list_sentences(has_leader=False) == [
        "PostgreSQL is away since 2026-11-15 12:00:15 UTC: what is known is served, nothing can be changed.",
        "NATS is away since 2026-11-15 12:01:15 UTC: nodes get no commands; what is loaded is served.",
        "The disk is full.",
    ]
    assert health.store is not None
    assert health.store.cause == "timeout"
    health.record_store_read()
    health.record_bus(is_connected=True)
    assert health.list_sentences() == ["The disk is full."]
