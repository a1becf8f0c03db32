"""What `/metrics` tells of operations: over a real bus, and while PostgreSQL is away."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest

from corral.bus.messages import JobEvent
from corral.bus.subjects import JOB_EVENT
from corral.domain.errors import StoreUnavailable
from tests.api.backends import install, until_state
from tests.api.engines import on_the_bus
from tests.bus.nats_server import NatsServer
from tests.support.frontends import RunningFrontend, running_frontend
from tests.support.nodes import join_node
from tests.support.polling import eventually


@pytest.fixture
async def nats(tmp_path: Path) -> AsyncIterator[NatsServer]:
    async with NatsServer(tmp_path) as running:
        yield running


async def numbers(frontend: RunningFrontend) -> dict[str, float]:
    """By name and labels, as a collector reads them; without a key."""
    status, page = await frontend.call("GET", "/metrics", key=None)
    assert status == 200
    lines = [line.rpartition(" ") for line in page.splitlines() if line and not line.startswith("#")]
    return {name: float(value) for name, _, value in lines}


async def has(frontend: RunningFrontend, **expected: float) -> bool:
    """`state__running` stands for `{state="running"}`."""
    frontend.core.loops["numbers"].wake()
    found = await numbers(frontend)
    return all(found.get(_series(name)) == value for name, value in expected.items())


def _series(name: str) -> str:
    metric, *labels = name.split("__")
    pairs = [f'{key}="{value}"' for key, value in zip(labels[::2], labels[1::2], strict=True)]
    return f"{metric}{{{','.join(pairs)}}}" if pairs else metric


async def test_metrics_count_operations_commands_events_and_assignments(nats: NatsServer, database_url: str) -> None:
    async with running_frontend(database_url, authority=nats.authority, nats_url=nats.url) as frontend:
        node = await join_node(frontend, "a")

        async def is_connected() -> bool:
            return frontend.bus.is_connected

        await eventually(is_connected)
        async with on_the_bus(nats, node) as engines:
            operation = (await install(frontend))["id"]

            async def is_commanded() -> bool:
                return bool(engines.jobs)

            await eventually(is_commanded)
            await eventually(
                partial(
                    has,
                    frontend,
                    corral_operations__state__running=1,
                    corral_operations__state__failed=0,
                    corral_assignments__state__open=1,
                    corral_assignments__state__dead=0,
                    corral_operations_held=1,
                    corral_node_commands_total__command__send__outcome__answered=1,
                )
            )
            odd = JobEvent(job_id="no id", seq=1, state="done", operation_id=operation)
            await engines.bus.publish(JOB_EVENT, odd, node=node.id)
            await engines.tell(engines.jobs[0], 2, "failed", error_code="not_found", error_text="gone")
            await until_state(frontend, operation, "failed")
            await eventually(
                partial(
                    has,
                    frontend,
                    corral_operations__state__running=0,
                    corral_operations__state__failed=1,
                    corral_operations_held=0,
                    corral_job_events_total__outcome__taken=1,
                    corral_job_events_total__outcome__odd=1,
                )
            )
        found = await numbers(frontend)
        assert found['corral_operation_steps_total{outcome="done"}'] >= 2
        assert found["corral_operation_step_seconds_count"] >= found['corral_operation_steps_total{outcome="done"}']
        assert operation not in str(found)
        assert 'corral_loop_failures{loop="numbers"}' in found


async def test_metrics_keep_their_last_values_while_postgresql_is_away(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away() -> None:
        raise StoreUnavailable("The database is away.")

    async with running_frontend(database_url) as frontend:
        await eventually(partial(has, frontend, corral_operations__state__running=0))
        with monkeypatch.context() as outage:
            outage.setattr(frontend.database, "transaction", away)

            async def is_noticed() -> bool:
                frontend.core.loops["numbers"].wake()
                return frontend.core.loops["numbers"].counts.failures > 0

            await eventually(is_noticed)
            frontend.core.metrics.set_counts({"running": 3}, {})
            assert (await numbers(frontend))['corral_operations{state="running"}'] == 3
        await eventually(partial(has, frontend, corral_operations__state__running=0))


async def test_metrics_take_the_key_of_the_setting_and_no_other(database_url: str) -> None:
    async with running_frontend(database_url, metrics_key="for-prometheus") as frontend:
        assert (await frontend.call("GET", "/metrics", key=None))[0] == 401
        assert (await frontend.call("GET", "/metrics"))[0] == 401, "an API key is another thing"
        assert (await frontend.call("GET", "/metrics", key="for-prometheus"))[0] == 200
        assert (await frontend.call("GET", "/api/me", key="for-prometheus"))[0] == 401
