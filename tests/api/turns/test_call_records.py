"""The record of a request that a run answers: one for each, with the run and without tokens."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from corral.domain.usage import ErrorOrigin, RequestRecord
from corral.metering.usage_spool import is_counted
from tests.agents.hand_worker import HandWorker, create, join_worker, make_key
from tests.support.frontends import RunningFrontend, running_frontend
from tests.support.polling import eventually

USAGE = {"prompt_tokens": 30, "completion_tokens": 12, "steps": 2, "tool_calls": 1}


@pytest.fixture
async def frontend(database_url: str) -> AsyncIterator[RunningFrontend]:
    async with running_frontend(database_url) as running:
        yield running


@pytest.fixture
async def worker(frontend: RunningFrontend) -> HandWorker:
    return await join_worker(frontend)


class RecordKeeper:
    """Keeps the records of requests that have ended. Implements `ports.requests.RequestListener`."""

    def __init__(self, frontend: RunningFrontend) -> None:
        self.records: list[RequestRecord] = []
        frontend.core.gateway.listeners.append(self)

    def on_requests_ended(self, *records: RequestRecord) -> None:
        self.records += records

    async def take(self) -> RequestRecord:
        """Return the one record that there is, and forget it."""
        await eventually(self._has_any)
        [record], self.records = self.records, []
        return record

    async def _has_any(self) -> bool:
        return bool(self.records)


async def take_first(worker: HandWorker) -> tuple[str, dict[str, Any]]:
    """Take the run that a call has started, and return its id and its specification."""
    [run_id] = await worker.wait_for_run()
    return run_id, await worker.take(run_id)


PATHS = ["/v1/chat/completions", "/v1/responses", "/v1/messages", "/api/chat"]


def make_body(path: str, *, is_stream: bool = False, model: str = "helper") -> dict[str, Any]:
    """Return the body of a request for an agent at one of the paths."""
    if path == "/v1/responses":
        return {"model": model, "input": "hello", "stream": is_stream}
    return {"model": model, "messages": [{"role": "user", "content": "hello"}], "stream": is_stream} | (
        {"max_tokens": 9} if path == "/v1/messages" else {}
    )


@pytest.mark.behaviour("AGENT-45")
@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("is_stream", [False, True])
async def test_call_that_a_run_answers_leaves_one_record_and_no_usage(
    frontend: RunningFrontend, worker: HandWorker, path: str, is_stream: bool
) -> None:
    await create(frontend)
    key = await make_key(frontend, "program")
    await create(frontend, key=key["key"])
    keeper = RecordKeeper(frontend)
    asking = asyncio.create_task(
        frontend.call("POST", path, make_body(path, is_stream=is_stream), key=key["key"], x_request_id="my-request")
    )
    run_id, _ = await take_first(worker)
    await worker.deliver(run_id, ("step", {}), ("content", {"text": "Hi."}))
    await worker.end(run_id, "Hi.", usage=USAGE)
    assert (await asking)[0] == 200
    record = await keeper.take()
    assert (record.status, record.origin, record.error_code) == (200, ErrorOrigin.NONE, "")
    assert (record.model, record.key_id, record.run_id) == ("agent/helper", key["id"], run_id)
    assert record.call == {"/v1/responses": "responses", "/v1/messages": "messages"}.get(path, "chat")
    assert record.is_stream is is_stream
    assert record.sent_bytes > 0
    assert record.received_bytes > 0
    assert record.first_byte_s is not None
    # The run's own calls of models have the tokens, in the name of the same key.
    assert (record.prompt_tokens, record.completion_tokens, record.attempts) == (None, None, 0)
    assert not is_counted(record)
    _, metrics = await frontend.call("GET", "/metrics")
    assert f'corral_requests_total{{model="other",call="{record.call}",status="2xx"}} 1' in metrics
    assert "helper" not in metrics


@pytest.mark.behaviour("AGENT-45")
@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("is_stream", [False, True])
async def test_call_whose_run_fails_leaves_one_record_with_the_reason(
    frontend: RunningFrontend, worker: HandWorker, path: str, is_stream: bool
) -> None:
    await create(frontend)
    keeper = RecordKeeper(frontend)
    asking = asyncio.create_task(frontend.call("POST", path, make_body(path, is_stream=is_stream)))
    run_id, _ = await take_first(worker)
    if is_stream:
        await worker.deliver(run_id, ("step", {}), ("content", {"text": "Hi."}))
    await worker.end(run_id, "", state="failed", error_code="model_failed", error_text="The engine is gone.")
    status, _ = await asking
    record = await keeper.take()
    assert record.status == status
    assert (record.origin, record.error_code, record.run_id) == (ErrorOrigin.GATEWAY, "model_failed", run_id)
    assert not is_counted(record)


@pytest.mark.behaviour("AGENT-45")
@pytest.mark.parametrize("path", PATHS)
async def test_call_whose_client_leaves_is_recorded_as_such(
    frontend: RunningFrontend, worker: HandWorker, path: str
) -> None:
    await create(frontend)
    keeper = RecordKeeper(frontend)
    asking = asyncio.create_task(frontend.call("POST", path, make_body(path)))
    run_id, _ = await take_first(worker)
    asking.cancel()
    record = await keeper.take()
    assert (record.status, record.error_code, record.run_id) == (499, "client_left", run_id)


@pytest.mark.behaviour("AGENT-45")
@pytest.mark.parametrize("path", PATHS)
async def test_call_that_no_worker_takes_is_recorded_once(frontend: RunningFrontend, path: str) -> None:
    await create(frontend)
    keeper = RecordKeeper(frontend)
    assert (await frontend.call("POST", path, make_body(path)))[0] == 503
    record = await keeper.take()
    assert (record.status, record.error_code, record.run_id) == (503, "no_agent_worker", "")
    assert record.model == "agent/helper"
    assert is_counted(record)
