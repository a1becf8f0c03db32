"""What a whole frontend tells of the requests that pass through it: metrics, live view, ids, traces."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from corral.adapters.traces import OtlpSpanExporter
from corral.api import insight as live
from corral.api.metric_families import FAMILIES
from corral.domain.errors import StoreUnavailable
from corral.domain.replica import Replica, ReplicaState
from corral.domain.usage import RequestRecord
from tests.insight.collector import Collector, attributes, collecting
from tests.serving.scene import keep_only_the_feed, put_model, put_replica, settled
from tests.support.engines import EngineBehaviour, MisbehavingEngine, run_misbehaving_engine
from tests.support.frontends import ADMIN_KEY, RunningFrontend, running_frontend
from tests.support.nodes import PretendNode, join_node
from tests.support.polling import eventually

CHAT = {"model": "chat", "messages": [{"role": "user", "content": "Hello."}]}


@dataclass
class Scene:
    frontend: RunningFrontend
    engine: MisbehavingEngine
    node: PretendNode
    replica: Replica

    async def ask(self, *, key: str | None = ADMIN_KEY, path: str = "chat/completions", **body: Any) -> int:
        return (await self.frontend.call("POST", f"/v1/{path}", CHAT | body, key=key))[0]

    async def metrics(self) -> Callable[..., float]:
        """What `/metrics` says now: a function of a sample's name and labels; -1 if there is none."""
        _, page = await self.frontend.call("GET", "/metrics", key=None)
        samples = [sample for family in text_string_to_metric_families(page) for sample in family.samples]
        found = {(sample.name, *sorted(sample.labels.items())): sample.value for sample in samples}
        return lambda name, **labels: found.get((name, *sorted(labels.items())), -1.0)

    async def live(self) -> Any:
        status, found = await self.frontend.call("GET", "/api/live")
        assert status == 200, found
        return found


@pytest.fixture
async def collector() -> AsyncIterator[Collector]:
    async with collecting() as running:
        yield running


@pytest.fixture
async def scene(database_url: str, collector: Collector) -> AsyncIterator[Scene]:
    spans = OtlpSpanExporter(collector.url, version="1", frontend_id="f")
    async with run_misbehaving_engine() as engine, running_frontend(database_url, spans=spans) as frontend:
        await keep_only_the_feed(frontend)
        await put_model(frontend.database)
        node = await join_node(frontend, "gpu-a")
        replica = await put_replica(frontend.database, node.id, engine.address)
        await settled(frontend)
        await frontend.core.request_monitor.tick()
        yield Scene(frontend, engine, node, replica)


@pytest.mark.behaviour("GW-182")
async def test_metrics_tell_of_answers_errors_and_tokens_by_model_and_call(scene: Scene) -> None:
    assert await scene.ask() == 200
    assert await scene.ask(stream=True) == 200
    assert await scene.ask(model="nobody-knows-it") == 404
    assert await scene.ask(key="ck_wrong") == 401
    found = await scene.metrics()
    chat = {"model": "chat", "call": "chat"}
    assert found("corral_requests_total", status="2xx", **chat) == 2
    assert found("corral_requests_total", model="other", call="chat", status="4xx") == 2
    for name in ("request", "first_byte", "queue"):
        assert found(f"corral_{name}_seconds_count", **chat) == 2
    # Of the stream alone.
    assert found("corral_inter_token_seconds_count", **chat) == 1
    assert found("corral_inter_token_seconds_bucket", le="+Inf", **chat) == 1
    # Three that the engine told of the one, and those of the stream: the prompt by its bytes, the answer by its events.
    assert found("corral_tokens_total", model="chat", kind="prompt") > 3
    assert found("corral_tokens_total", model="chat", kind="completion") > 3
    assert found("corral_errors_total", origin="client", code="model_not_found") == 1
    assert found("corral_errors_total", origin="client", code="not_authenticated") == 1
    assert found("corral_breaker_open", model="chat") == 0
    assert found("corral_requests_open") == found("corral_streams_open") == 0
    # How many hangs on when they were last brought to PostgreSQL and to the collector.
    assert found("corral_usage_spool_lines") >= 0
    assert found("corral_traces_total", outcome="sent") >= 0


@pytest.mark.behaviour("GW-182")
async def test_metrics_name_no_key_no_request_no_node_and_no_name_that_a_client_made_up(scene: Scene) -> None:
    await scene.frontend.call("POST", "/v1/chat/completions", CHAT, x_request_id="one-of-mine")
    await scene.ask(model="made-up-by-a-client")
    _, page = await scene.frontend.call("GET", "/metrics", key=None)
    for secret in ("one-of-mine", "made-up-by-a-client", "gpu-a", scene.replica.id, ADMIN_KEY):
        assert secret not in page
    declared = set(re.findall(r"^# TYPE (\S+)", page, re.MULTILINE))
    assert {family.name for family in FAMILIES} <= declared


@pytest.mark.behaviour("GW-182")
async def test_metrics_show_open_and_failed_requests(scene: Scene) -> None:
    scene.engine.answer = EngineBehaviour.STALLS
    asking = asyncio.create_task(scene.ask(stream=True))

    async def is_streaming() -> bool:
        found = await scene.metrics()
        return found("corral_streams_open") == found("corral_requests_open") == 1

    await eventually(is_streaming)
    scene.engine.cut()
    await asking
    found = await scene.metrics()
    assert found("corral_streams_open") == 0
    assert found("corral_errors_total", origin="engine", code="engine_lost") == 1
    assert found("corral_requests_total", model="chat", call="chat", status="2xx") == 1
    scene.engine.answer = EngineBehaviour.CLOSES
    for _ in range(5):
        await scene.ask()
    assert (await scene.metrics())("corral_breaker_open", model="chat") == 1
    (model,) = (await scene.live())["models"]
    assert model["replicas"][0]["breaker"] in {"open", "half_open"}
    assert model["pace"]["errors_per_s"] > 0


async def test_live_view_shows_models_replicas_and_requests(scene: Scene) -> None:
    await scene.ask()
    await put_replica(scene.frontend.database, scene.node.id, "", index=1, state=ReplicaState.LOADING)
    await put_model(scene.frontend.database, "never-requested")
    await settled(scene.frontend)
    scene.engine.answer = EngineBehaviour.STALLS
    asking = asyncio.create_task(scene.ask(stream=True))

    async def is_streaming() -> Any:
        found = await scene.live()
        return found if found["streams_open"] else None

    found = await eventually(is_streaming)
    assert (found["requests_open"], found["idle_models"]) == (1, 1)
    assert found["pace"]["requests_per_s"] > 0
    (model,) = found["models"]
    assert (model["name"], model["in_flight"], model["waiting"]) == ("chat", 1, 0)
    assert model["pace"]["first_byte_s"]["p50"] > 0
    first, second = model["replicas"]
    assert (first["node"], first["state"], first["in_flight"], first["breaker"]) == ("gpu-a", "loaded", 1, "closed")
    # Three tokens of the first answer, and the event of the one that is still being written.
    assert first["pace"]["tokens_per_s"] > 0
    assert (second["index"], second["state"], second["in_flight"]) == (1, "loading", 0)
    scene.engine.cut()
    await asking


async def test_live_view_is_served_from_memory_while_postgresql_is_away(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away() -> None:
        raise StoreUnavailable("The database is away.")

    @asynccontextmanager
    async def silent() -> AsyncIterator[None]:
        await asyncio.Event().wait()
        yield

    await scene.ask()
    with monkeypatch.context() as outage:
        outage.setattr(scene.frontend.database, "transaction", away)
        (model,) = (await scene.live())["models"]
        assert [replica["node"] for replica in model["replicas"]] == ["gpu-a"]
        outage.setattr(live, "READ_LIMIT_S", 0.01)
        outage.setattr(scene.frontend.database, "transaction", silent)
        assert [model["name"] for model in (await scene.live())["models"]] == ["chat"]
        scene.frontend.core.health.record_store_outage(StoreUnavailable("The database is away."))
        found = await scene.live()
        assert any("PostgreSQL" in sentence for sentence in found["degraded"])
        assert [model["name"] for model in found["models"]] == ["chat"]


async def test_inference_key_cannot_read_live_traffic(scene: Scene) -> None:
    for scope, status in (("infer", 403), ("operate", 200)):
        _, made = await scene.frontend.call("POST", "/api/keys", {"name": scope, "scope": scope})
        assert (await scene.frontend.call("GET", "/api/live", key=made["key"]))[0] == status
    assert (await scene.frontend.call("GET", "/api/live", key=None))[0] == 401


async def test_request_id_and_a_trace_go_from_the_client_to_the_engine_and_into_every_record(
    scene: Scene, collector: Collector
) -> None:
    recorded: list[RequestRecord] = []

    class RecordListener:
        def on_requests_ended(self, *records: RequestRecord) -> None:
            recorded.extend(records)

    scene.frontend.core.gateway.listeners.append(RecordListener())
    trace_id, span_id = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
    headers = {"Authorization": f"Bearer {ADMIN_KEY}", "x-request-id": "mine-1"}
    headers["traceparent"] = f"00-{trace_id}-{span_id}-01"
    url = f"{scene.frontend.url}/v1/chat/completions"
    async with scene.frontend.http.post(url, json=CHAT, headers=headers) as answer:
        assert answer.status == 200
        assert answer.headers["x-request-id"] == "mine-1"
    engine_headers = scene.engine.received[-1].headers
    assert engine_headers["x-request-id"] == "mine-1"
    assert recorded[0].request_id == "mine-1"
    assert recorded[0].traceparent == engine_headers["traceparent"]
    await scene.frontend.core.request_monitor.send_traces()
    request, engine = collector.named("corral.request"), collector.named("corral.engine")
    assert request.parent_span_id.hex() == span_id
    assert engine_headers["traceparent"] == f"00-{trace_id}-{engine.span_id.hex()}-01"
    assert attributes(request)["corral.request_id"] == "mine-1"


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/models/nobody-knows-it"])
async def test_error_names_the_request_and_so_does_its_header(scene: Scene, path: str) -> None:
    method, body = ("POST", CHAT | {"model": "nobody-knows-it"}) if "chat" in path else ("GET", None)
    for sent, expected in (("mine-2", "mine-2"), ("not a good id!", None)):
        headers = {"Authorization": f"Bearer {ADMIN_KEY}", "x-request-id": sent}
        async with scene.frontend.http.request(
            method, f"{scene.frontend.url}{path}", json=body, headers=headers
        ) as answer:
            assert answer.status == 404
            given = answer.headers["x-request-id"]
            assert (await answer.json())["error"]["request_id"] == given
            assert given == expected if expected else given != sent
