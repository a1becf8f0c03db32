"""Batches with real processes, through OpenAI's own client; workers and runners are killed in the middle."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import openai
import pytest

from tests.batches.scene import make_line, render_lines
from tests.e2e.runs.scene import LONG_S, MODEL, Runs, runs_of
from tests.e2e.runs.test_faults import find_runner
from tests.support.frontends import ADMIN_KEY
from tests.support.polling import eventually

pytestmark = pytest.mark.timeout(420)
LINES = 60


@asynccontextmanager
async def client_of(runs: Runs, via: int = 0) -> AsyncIterator[openai.AsyncOpenAI]:
    url = f"{runs.cluster.frontends[via].url}/v1"
    async with openai.AsyncOpenAI(base_url=url, api_key=ADMIN_KEY) as client:
        yield client


async def begin_batch(client: openai.AsyncOpenAI, lines: Sequence[Any]) -> str:
    file = await client.files.create(file=("in.jsonl", render_lines(lines)), purpose="batch")
    batch = await client.batches.create(
        input_file_id=file.id, endpoint="/v1/chat/completions", completion_window="24h", metadata={"a": "b"}
    )
    assert batch.status == "validating"
    return batch.id


async def become(client: openai.AsyncOpenAI, batch_id: str, *statuses: str, completed: int = 0) -> Any:
    async def look() -> Any:
        batch = await client.batches.retrieve(batch_id)
        counts = batch.request_counts
        return batch if batch.status in statuses and counts is not None and counts.completed >= completed else None

    return await eventually(look, within_s=LONG_S)


async def read_lines(client: openai.AsyncOpenAI, file_id: str) -> list[Any]:
    return [json.loads(line) for line in (await client.files.content(file_id)).text.splitlines()]


def make_lines() -> list[Any]:
    lines = [make_line(f"r{number}", model=MODEL, text=f"Count to {number}.") for number in range(LINES)]
    for line in lines:
        line["body"]["max_tokens"] = 6
    # A line that its model cannot answer does not hold up the others.
    lines[7]["body"]["model"] = "unknown"
    return lines


@pytest.mark.behaviour("BATCH-8")
async def test_each_line_is_answered_once_although_workers_and_runners_are_killed(tmp_path: Path) -> None:
    async with (
        runs_of(tmp_path, "agent-1", "agent-2", tokens_per_s=10.0) as runs,
        client_of(runs) as client,
        client_of(runs, via=1) as other,
    ):
        batch_id = await begin_batch(client, make_lines())
        await become(client, batch_id, "in_progress", completed=1)
        run_id = (await client.batches.retrieve(batch_id)).model_extra["run_id"]  # type: ignore[index]
        node = (await runs.read(run_id))["node"]
        os.kill(find_runner(runs, node).pid, signal.SIGKILL)
        begun = (await become(client, batch_id, "in_progress", completed=10)).request_counts.completed
        await runs.cluster.workers[(await runs.read(run_id))["node"]].kill()
        batch = await become(other, batch_id, "completed", "failed")
        assert batch.status == "completed", batch
        assert begun < LINES
        assert (batch.request_counts.total, batch.request_counts.failed) == (LINES, 1)
        output = await read_lines(other, batch.output_file_id)
        errors = await read_lines(other, batch.error_file_id)
        assert [line["custom_id"] for line in output] == [f"r{number}" for number in range(LINES) if number != 7]
        assert all(line["response"]["body"]["choices"][0]["message"]["content"] for line in output)
        assert [(line["custom_id"], line["response"]["status_code"]) for line in errors] == [("r7", 404)]
        run = await runs.read(run_id)
        assert (run["state"], run["attempt"]) == ("completed", 3), run


@pytest.mark.behaviour("BATCH-9")
async def test_invalid_input_fails_and_cancelled_batch_has_partial_output(tmp_path: Path) -> None:
    async with runs_of(tmp_path, "agent-1", tokens_per_s=10.0) as runs, client_of(runs) as client:
        lines = [make_line("a", model=MODEL), make_line("a", model=MODEL), make_line("b", url="/v1/embeddings")]
        batch = await become(client, await begin_batch(client, lines), "failed", "completed")
        assert [(error.code, error.line) for error in batch.errors.data] == [
            ("duplicate_custom_id", 2),
            ("mismatched_url", 3),
        ]
        batch_id = await begin_batch(client, make_lines())
        await become(client, batch_id, "in_progress", completed=1)
        await client.batches.cancel(batch_id)
        batch = await become(client, batch_id, "cancelled")
        output = await read_lines(client, batch.output_file_id)
        assert 1 <= len(output) == batch.request_counts.completed < LINES
        assert {found.id for found in (await client.batches.list()).data} >= {batch_id}
        await client.files.delete(batch.output_file_id)
        with pytest.raises(openai.NotFoundError):
            await client.files.retrieve(batch.output_file_id)
