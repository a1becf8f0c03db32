"""The call is the probe: what a frontend learns of a replica, it learns from the requests that it sends there."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator

import pytest
from sqlalchemy import text

from corral.domain.replica import Rule
from corral.gateway.routing.replica_pool import ReplicaPoolOptions
from corral.policy.serving.circuit_breaker import IN_A_ROW_MAX, BreakerState, EngineVerdict, judge_response
from corral.ports.requests import EngineRefused
from corral.store import rules as rule_store
from tests.serving.scene import keep_only_the_feed, list_rows, put_model, put_replica, settled
from tests.support.engines import EngineBehaviour, MisbehavingEngine, make_json_script, run_misbehaving_engine
from tests.support.frontends import ADMIN_KEY, RunningFrontend, running_frontend
from tests.support.nodes import join_node
from tests.support.polling import eventually
from tests.support.statements import count_statements

CHAT = {"model": "chat", "messages": [{"role": "user", "content": "hello"}]}
AUTHORISED = {"Authorization": f"Bearer {ADMIN_KEY}"}
PATH = "/v1/chat/completions"


@pytest.fixture
async def engine() -> AsyncIterator[MisbehavingEngine]:
    async with run_misbehaving_engine() as running:
        yield running


@pytest.fixture
async def other() -> AsyncIterator[MisbehavingEngine]:
    async with run_misbehaving_engine() as running:
        yield running


async def serve(frontend: RunningFrontend, *engines: MisbehavingEngine, **config: object) -> None:
    """One model with a replica at each of these."""
    await put_model(frontend.database, **config)  # type: ignore[arg-type]  # fields of its configuration
    for number, engine in enumerate(engines):
        node = await join_node(frontend, f"node-{number}")
        await put_replica(frontend.database, node.id, engine.address)
    await settled(frontend)


async def ask(frontend: RunningFrontend) -> int:
    return (await frontend.call("POST", PATH, CHAT))[0]


@pytest.mark.behaviour("NODE-64")
async def test_twenty_requests_are_twenty_calls_and_nothing_else(
    frontend: RunningFrontend, engine: MisbehavingEngine
) -> None:
    await serve(frontend, engine)
    assert [await ask(frontend) for _ in range(20)] == [200] * 20
    assert [received.line for received in engine.received] == [f"POST {PATH} HTTP/1.1"] * 20


@pytest.mark.behaviour("NODE-65")
async def test_ten_requests_at_once_at_a_fresh_replica_send_no_probe(
    frontend: RunningFrontend, engine: MisbehavingEngine
) -> None:
    await serve(frontend, engine)
    assert await asyncio.gather(*(ask(frontend) for _ in range(10))) == [200] * 10
    assert [received.line for received in engine.received] == [f"POST {PATH} HTTP/1.1"] * 10


@pytest.mark.behaviour("NODE-68")
async def test_client_that_leaves_hurts_none_of_the_others(
    frontend: RunningFrontend, engine: MisbehavingEngine
) -> None:
    await serve(frontend, engine)
    engine.queued += [EngineBehaviour.SILENT] * (2 * IN_A_ROW_MAX)
    leaving = [asyncio.create_task(ask(frontend)) for _ in range(2 * IN_A_ROW_MAX)]

    async def all_there() -> bool:
        return len(engine.received) == len(leaving)

    await eventually(all_there)
    staying = asyncio.create_task(ask(frontend))
    for task in leaving:
        task.cancel()
    assert await staying == 200

    async def all_gone() -> bool:
        return not frontend.core.router.leases.count_own_by_replica()

    await eventually(all_gone)
    assert await ask(frontend) == 200
    assert len(await list_rows(frontend.database)) == 1
    [term] = frontend.core.router.list_candidates(await frontend.core.router.resolve("chat"))
    assert term.breaker is BreakerState.CLOSED


@pytest.mark.behaviour("NODE-69")
async def test_pick_sends_no_statement_and_locks_nothing(frontend: RunningFrontend, engine: MisbehavingEngine) -> None:
    await serve(frontend, engine)
    router = frontend.core.router
    model = await router.resolve("chat")
    statements: list[str] = []
    count_statements(frontend.database, statements.append)
    visits = [router.make_selector(model, 60.0, "key", 100) for _ in range(20)]
    held = [visit.try_check_out() for visit in visits]
    assert statements == []
    async with frontend.database.transaction() as tx:
        await tx.execute(text("SET LOCAL lock_timeout = '1s'"))
        await tx.execute(text("UPDATE nodes SET last_heartbeat_at = corral_now()"))
    for one in held:
        assert one is not None
        one.release()


@pytest.mark.behaviour("NODE-70", "NODE-63")
async def test_request_that_saw_the_model_before_an_edit_is_served_by_the_present_one(
    frontend: RunningFrontend,
) -> None:
    await put_model(frontend.database)
    node = await join_node(frontend)
    await put_replica(frontend.database, node.id, "127.0.0.1:1")
    await put_replica(frontend.database, node.id, "127.0.0.1:2", index=1, revision="2" * 64)
    await settled(frontend)
    router = frontend.core.router
    visit = router.make_selector(await router.resolve("chat"), 60.0)
    await put_model(frontend.database, run_hash="2" * 64)
    await settled(frontend)
    assert visit.try_check_out() is None
    with await visit.wait_for_replica() as held:
        assert held.replica.address == "127.0.0.1:2"
    assert visit.model.run_hash == "2" * 64


@pytest.mark.behaviour("NODE-113")
async def test_plain_404_is_the_clients_and_the_row_stays(frontend: RunningFrontend, engine: MisbehavingEngine) -> None:
    await serve(frontend, engine)
    refusal = b'{"error": {"message": "No face in the picture.", "code": "not_found"}}'
    engine.answer = make_json_script(refusal, "404 Not Found")
    for _ in range(2 * IN_A_ROW_MAX):
        assert await frontend.call("POST", PATH, CHAT) == (
            404,
            {"error": {"message": "No face in the picture.", "code": "not_found"}},
        )
    assert len(await list_rows(frontend.database)) == 1
    [term] = frontend.core.router.list_candidates(await frontend.core.router.resolve("chat"))
    assert term.breaker is BreakerState.CLOSED


@pytest.mark.behaviour("NODE-113")
async def test_replica_that_is_not_ours_loses_its_row_and_another_answers(
    frontend: RunningFrontend, engine: MisbehavingEngine, other: MisbehavingEngine
) -> None:
    await serve(frontend, engine, other)
    engine.answer = EngineBehaviour.STRANGER
    assert [await ask(frontend) for _ in range(4)] == [200] * 4
    assert [row.address for row in await list_rows(frontend.database)] == [other.address]


@pytest.mark.behaviour("NODE-113")
async def test_replica_without_its_model_loses_its_row_and_the_next_is_tried(
    frontend: RunningFrontend, engine: MisbehavingEngine, other: MisbehavingEngine
) -> None:
    await serve(frontend, engine, other)
    router = frontend.core.router
    visit = router.make_selector(await router.resolve("chat"), 60.0)
    held = visit.try_check_out()
    assert held is not None
    assert judge_response(503, b'{"error": {"code": "model_not_loaded"}}') is EngineVerdict.NOT_LOADED
    await visit.release_refused(held, EngineRefused("It has no model.", code="engine_not_loaded"))
    rest = [row.address for row in await list_rows(frontend.database)]
    assert rest == [address for address in (engine.address, other.address) if address != held.replica.address]
    with await visit.wait_for_replica() as second:
        assert second.replica.address == rest[0]


@pytest.mark.behaviour("GW-63")
async def test_engine_that_only_answers_500_soon_gets_no_more_requests(
    frontend: RunningFrontend, engine: MisbehavingEngine, other: MisbehavingEngine
) -> None:
    await serve(frontend, engine, other)
    async with frontend.database.transaction() as tx:
        await rule_store.save_rule(tx, Rule(model="chat", selector={}, route_policy="round_robin"))
    await settled(frontend)
    engine.answer = make_json_script(b'{"error": {"message": "out of memory"}}', "500 Internal Server Error")
    answers = [await ask(frontend) for _ in range(2 * IN_A_ROW_MAX)]
    # Each of its failures is tried once at the other one.
    assert Counter(answers) == {200: 2 * IN_A_ROW_MAX}
    assert len(engine.received) == IN_A_ROW_MAX
    terms = frontend.core.router.list_candidates(await frontend.core.router.resolve("chat"))
    states = {term.node_name: term.breaker for term in terms}
    assert states["node-1"] is BreakerState.CLOSED
    assert states["node-0"] is not BreakerState.CLOSED
    assert len(await list_rows(frontend.database)) == 2


async def test_request_above_the_engines_concurrency_waits_and_is_refused_when_that_takes_too_long(
    database_url: str, engine: MisbehavingEngine
) -> None:
    async with running_frontend(database_url, replica_pool=ReplicaPoolOptions(queue_wait_s=1.0)) as frontend:
        await keep_only_the_feed(frontend)
        await serve(frontend, engine, options={"parallel": "1"})
        engine.queued.append(EngineBehaviour.SILENT)
        first = asyncio.create_task(ask(frontend))

        async def is_there() -> bool:
            return len(engine.received) == 1

        await eventually(is_there)
        async with frontend.http.post(f"{frontend.url}{PATH}", json=CHAT, headers=AUTHORISED) as answer:
            assert answer.status == 503
            assert (await answer.json())["error"]["code"] == "queue_timeout"
            assert int(answer.headers["Retry-After"]) == 1
        assert len(engine.received) == 1
        second = asyncio.create_task(ask(frontend))
        first.cancel()
        assert await second == 200


@pytest.mark.behaviour("GW-72")
async def test_request_above_the_queue_limit_gets_429_with_retry_after(
    database_url: str, engine: MisbehavingEngine
) -> None:
    async with running_frontend(database_url, replica_pool=ReplicaPoolOptions(concurrency=1, queue_max=0)) as frontend:
        await keep_only_the_feed(frontend)
        await serve(frontend, engine)
        engine.queued.append(EngineBehaviour.SILENT)
        first = asyncio.create_task(ask(frontend))

        async def is_there() -> bool:
            return len(engine.received) == 1

        await eventually(is_there)
        async with frontend.http.post(f"{frontend.url}{PATH}", json=CHAT, headers=AUTHORISED) as answer:
            assert answer.status == 429
            assert (await answer.json())["error"]["code"] == "queue_full"
            assert int(answer.headers["Retry-After"]) == 1
        first.cancel()


@pytest.mark.behaviour("NODE-113")
@pytest.mark.parametrize("status", ["503 Service Unavailable", "400 Bad Request"])
async def test_engine_that_has_lost_its_model_loses_its_row_and_another_answers(
    frontend: RunningFrontend, engine: MisbehavingEngine, other: MisbehavingEngine, status: str
) -> None:
    await serve(frontend, engine, other)
    engine.answer = make_json_script(b'{"error": {"message": "Model not loaded.", "code": "model_not_loaded"}}', status)
    assert [await ask(frontend) for _ in range(4)] == [200] * 4
    assert [row.address for row in await list_rows(frontend.database)] == [other.address]
    assert len(engine.received) == 1
