"""A real frontend process writes its access log and sends its traces as its settings say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import pytest

from corral.store.database import Database
from tests.e2e.cluster import FrontendProcess, empty_cluster
from tests.insight.collector import attributes, collecting
from tests.serving.scene import put_model, put_replica
from tests.support.engines import run_misbehaving_engine
from tests.support.frontends import RunningFrontend
from tests.support.nodes import join_node
from tests.support.polling import eventually

CHAT = {"model": "chat", "messages": [{"role": "user", "content": "A secret question."}]}


@pytest.mark.timeout(240)
@pytest.mark.behaviour("GW-183")
async def test_access_log_and_traces_of_a_real_frontend(tmp_path: Path) -> None:
    async with collecting() as collector, run_misbehaving_engine() as engine, empty_cluster(tmp_path) as cluster:
        cluster.frontend_settings = {
            "CORRAL_ACCESS_LOG": "json",
            "CORRAL_OTLP_ENDPOINT": collector.url,
            # Longer than the test: nobody says of the node that it is away.
            "CORRAL_NODE_LEASE": "50s",
        }
        await cluster.postgres.start()
        await cluster.add_frontends(1)
        frontend = cluster.frontends[0]
        await _serve(frontend, cluster.postgres.url, engine.address)

        async def is_answered() -> bool:
            return (await frontend.call("POST", "/v1/chat/completions", CHAT))[0] == 200

        await eventually(is_answered)

        async def has_come() -> bool:
            return any(span.name == "corral.engine" for span in collector.spans)

        await eventually(has_come)
        lines = _access_lines(frontend)
        answered = next(line for line in lines if line["status"] == 200)
        assert (answered["model"], answered["node"], answered["completion_tokens"]) == ("chat", "node-1", 3)
        request = next(span for span in collector.spans if attributes(span)["http.response.status_code"] == 200)
        assert attributes(request)["corral.request_id"] == answered["request_id"]
        assert request.trace_id.hex() in answered["traceparent"]
        assert engine.received[-1].headers["traceparent"] == answered["traceparent"]
        assert collector.about["service.instance.id"] == frontend.id
        assert "secret question" not in frontend.program.log


async def _serve(frontend: FrontendProcess, database_url: str, address: str) -> None:
    # It has the one method that is used of it.
    node = await join_node(cast("RunningFrontend", frontend))
    database = Database(database_url)
    try:
        await put_model(database)
        await put_replica(database, node.id, address)
    finally:
        await database.close()


def _access_lines(frontend: FrontendProcess) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in frontend.program.log.splitlines() if line.startswith("{")]
    return [line for line in lines if "first_byte_ms" in line]
