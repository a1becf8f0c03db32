"""A batch in the runner: lines behind the cursor, refusals that pass, engines that fail, deliveries without a gap."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from aiohttp import web

from tests.batches.scene import ENDPOINT, make_line, render_lines
from tests.runner.scene import TICKET, Message, Scene, run_scene


@dataclass
class LineServer:
    """Answers the requests of lines: by the text of the message, a list of statuses, then success."""

    statuses: dict[str, list[int]] = field(default_factory=dict)
    received: list[str] = field(default_factory=list)
    retry_after: str = "0"

    async def answer(self, request: web.Request) -> web.Response:
        assert request.headers["Authorization"] == f"Bearer {TICKET}"
        text = (await request.json())["messages"][0]["content"]
        self.received.append(text)
        left = self.statuses.get(text, [])
        if left and left[0] != 200:
            status = left.pop(0)
            return web.json_response({"error": {"code": "x"}}, status=status, headers={"Retry-After": self.retry_after})
        usage = {"prompt_tokens": 2, "completion_tokens": 3}
        return web.json_response({"text": f"to {text}", "usage": usage}, headers={"x-request-id": "q1"})


@asynccontextmanager
async def serving(server: LineServer) -> AsyncIterator[str]:
    app = web.Application()
    app.router.add_post("/v1/chat/completions", server.answer)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
    finally:
        await runner.cleanup()


@dataclass
class StoredBatch:
    """What the frontends would store, and the input that they have."""

    content: bytes
    next_byte: int = 0
    output: list[Any] = field(default_factory=list)
    errors: list[Any] = field(default_factory=list)
    validation: Any = None

    def answer(self, message: Message) -> Message:
        params = message["params"]
        match message["method"]:
            case "read_batch":
                # Small slices, so that lines are divided.
                piece = self.content[params["start"] : params["start"] + 100]
                return {"result": {"content": base64.b64encode(piece).decode()}}
            case "report_validation":
                self.validation = params
                return {"result": {}}
            case _:
                assert params["from_byte"] == self.next_byte, "a delivery follows the cursor"
                self.next_byte = params["to_byte"]
                self.output += [json.loads(line) for line in params["output"].splitlines()]
                self.errors += [json.loads(line) for line in params["errors"].splitlines()]
                return {"result": {"next_byte": self.next_byte, "next_line": params["to_line"]}}


async def run_batch(scene: Scene, batch: StoredBatch, **extra: Any) -> Any:
    scene.ask_answers = batch.answer
    fields: dict[str, Any] = {"endpoint": ENDPOINT, "is_valid": False, "next_byte": 0, "next_line": 0} | extra
    batch.next_byte = fields["next_byte"]
    return await scene.run(kind="batch", extra=fields, budgets={"wall_s": 60.0})


@pytest.fixture
def server() -> LineServer:
    return LineServer()


@pytest.fixture
async def scene(server: LineServer) -> AsyncIterator[Scene]:
    async with serving(server) as url, run_scene(url) as opened:
        yield opened


def make_lines(count: int) -> list[dict[str, Any]]:
    return [make_line(f"r{number}", text=f"t{number}") for number in range(count)]


async def test_batch_checks_its_input_and_answers_all_lines_in_their_order(scene: Scene, server: LineServer) -> None:
    batch = StoredBatch(b"\n" + render_lines(make_lines(200)).replace(b"\n", b"\r\n\n") + b" \n")
    outcome = await run_batch(scene, batch)
    assert (outcome.state, outcome.usage) == ("completed", {"prompt_tokens": 400, "completion_tokens": 600})
    assert batch.validation == {"total": 200, "errors": []}
    assert [line["custom_id"] for line in batch.output] == [f"r{number}" for number in range(200)]
    assert batch.output[7]["response"] == {
        "status_code": 200,
        "request_id": "q1",
        "body": {"text": "to t7", "usage": {"prompt_tokens": 2, "completion_tokens": 3}},
    }
    assert batch.output[7]["error"] is None
    assert (len({line["id"] for line in batch.output}), batch.errors) == (200, [])
    assert sorted(server.received) == sorted(f"t{number}" for number in range(200))


async def test_batch_that_is_begun_again_asks_only_for_lines_behind_the_cursor(
    scene: Scene, server: LineServer
) -> None:
    content = render_lines(make_lines(5)).rstrip(b"\n")
    cursor = len(render_lines(make_lines(3)))
    batch = StoredBatch(content)
    outcome = await run_batch(scene, batch, is_valid=True, next_byte=cursor, next_line=3)
    assert (outcome.state, batch.validation, batch.next_byte) == ("completed", None, len(content))
    assert [line["custom_id"] for line in batch.output] == ["r3", "r4"]
    assert sorted(server.received) == ["t3", "t4"]
    assert [line["id"].rpartition("_")[2] for line in batch.output] == ["4", "5"]


@pytest.mark.behaviour("BATCH-12")
async def test_refusal_that_passes_is_waited_for_and_others_are_errors_of_their_line(
    scene: Scene, server: LineServer
) -> None:
    server.statuses = {"t0": [429, 503, 200], "t1": [404, 200], "t2": [500, 502, 200], "t3": [500, 500, 500, 200]}
    batch = StoredBatch(render_lines(make_lines(5)))
    outcome = await run_batch(scene, batch)
    assert outcome.state == "completed"
    assert [line["custom_id"] for line in batch.output] == ["r0", "r2", "r4"]
    assert [(line["custom_id"], line["response"]["status_code"]) for line in batch.errors] == [("r1", 404), ("r3", 500)]
    assert (server.received.count("t0"), server.received.count("t1"), server.received.count("t3")) == (3, 1, 3)


@pytest.mark.behaviour("BATCH-9")
async def test_input_with_a_wrong_line_fails_before_any_request(scene: Scene, server: LineServer) -> None:
    batch = StoredBatch(render_lines([*make_lines(2), "no object", make_line("r0")]))
    outcome = await run_batch(scene, batch)
    assert (outcome.state, outcome.error_code) == ("failed", "batch_invalid")
    assert [(error["code"], error["line"]) for error in batch.validation["errors"]] == [
        ("invalid_json_line", 3),
        ("duplicate_custom_id", 4),
    ]
    assert server.received == []


async def test_batch_ends_with_the_code_of_a_frontend_that_refuses_its_answers(scene: Scene) -> None:
    batch = StoredBatch(render_lines(make_lines(3)))

    def refuse(message: Message) -> Message:
        if message["method"] != "store_answers":
            return batch.answer(message)
        return {"error": {"code": "file_quota_reached", "message": "You keep too much."}}

    scene.ask_answers = refuse
    extra = {"endpoint": ENDPOINT, "is_valid": True, "next_byte": 0, "next_line": 0}
    outcome = await scene.run(kind="batch", extra=extra, budgets={"wall_s": 60.0})
    assert (outcome.state, outcome.error_code, outcome.error_text) == (
        "failed",
        "file_quota_reached",
        "You keep too much.",
    )


async def test_batch_out_of_time_ends_with_the_timeout(scene: Scene, server: LineServer) -> None:
    server.statuses, server.retry_after = {"t0": [503] * 1000}, "600"
    batch = StoredBatch(render_lines(make_lines(1)))
    scene.ask_answers = batch.answer
    extra = {"endpoint": ENDPOINT, "is_valid": True, "next_byte": 0, "next_line": 0}
    outcome = await scene.run(kind="batch", extra=extra, budgets={"wall_s": 0.2})
    assert (outcome.state, outcome.error_code) == ("failed", "run_timeout")
