"""Batches whose worker is the test: it reads slices and delivers answers over HTTP, as a worker does."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import aiohttp

from tests.agents.hand_worker import HandWorker
from tests.support.frontends import RunningFrontend
from tests.support.polling import eventually

ENDPOINT = "/v1/chat/completions"


def make_line(custom_id: str, *, model: str = "chat", text: str = "hello", **fields: Any) -> dict[str, Any]:
    body = {"model": model, "messages": [{"role": "user", "content": text}]}
    return {"custom_id": custom_id, "method": "POST", "url": ENDPOINT, "body": body} | fields


def render_lines(lines: Sequence[Any]) -> bytes:
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


async def upload_input(
    frontend: RunningFrontend, key: str, content: bytes, purpose: str = "batch", *, name: str = "in.jsonl"
) -> str:
    form = aiohttp.FormData()
    form.add_field("purpose", purpose)
    form.add_field("file", io.BytesIO(content), filename=name)
    headers = {"Authorization": f"Bearer {key}"}
    async with frontend.http.post(f"{frontend.url}/v1/files", data=form, headers=headers) as answer:
        made = await answer.json()
        assert answer.status == 200, made
        return str(made["id"])


@dataclass
class HeldBatch:
    """A batch that a worker by hand holds."""

    worker: HandWorker
    key: str
    id: str
    run_id: str

    async def call(self, verb: str, path: str, body: Any = None, *, job: str = "") -> tuple[int, Any]:
        job_id = job or self.worker.jobs[self.run_id]
        if verb == "GET":
            mark = "&" if "?" in path else "?"
            return await self.worker.node.call(verb, f"/runs/{self.run_id}/batch{path}{mark}job_id={job_id}")
        return await self.worker.node.call(verb, f"/runs/{self.run_id}/batch{path}", {"job_id": job_id, **body})

    async def read_input(self, start: int = 0, limit: int = 1000) -> bytes:
        status, answer = await self.call("GET", f"/input?start={start}&limit={limit}")
        assert status == 200, answer
        return base64.b64decode(answer["content"])

    async def validate(self, total: int, *errors: dict[str, Any]) -> None:
        status, answer = await self.call("POST", "/validation", {"total": total, "errors": list(errors)})
        assert status == 204, answer

    async def deliver(
        self, from_byte: int, to_byte: int, to_line: int, *, output: str = "", errors: str = "", job: str = ""
    ) -> tuple[int, Any]:
        counts = {"completed": output.count("\n"), "failed": errors.count("\n")}
        cursor = {"from_byte": from_byte, "to_byte": to_byte, "to_line": to_line}
        return await self.call("POST", "/answers", cursor | counts | {"output": output, "errors": errors}, job=job)

    async def show(self, *, at: RunningFrontend | None = None) -> Any:
        status, batch = await (at or self.worker.frontend).call("GET", f"/v1/batches/{self.id}", key=self.key)
        assert status == 200, batch
        return batch

    async def become(self, *statuses: str) -> Any:
        async def look() -> Any:
            batch = await self.show()
            return batch if batch["status"] in statuses else None

        return await eventually(look)

    async def read_file(self, file_id: str) -> list[Any]:
        status, text = await self.worker.frontend.call("GET", f"/v1/files/{file_id}/content", key=self.key)
        assert status == 200, text
        return [json.loads(line) for line in text.splitlines()]


async def create_batch(frontend: RunningFrontend, key: str, file_id: str, **fields: Any) -> tuple[int, Any]:
    body = {"input_file_id": file_id, "endpoint": ENDPOINT, "completion_window": "24h"} | fields
    return await frontend.call("POST", "/v1/batches", body, key=key)


async def hold_batch(worker: HandWorker, key: str, content: bytes, **fields: Any) -> HeldBatch:
    """Start a batch of an input, and take it as the worker."""
    file_id = await upload_input(worker.frontend, key, content)
    status, made = await create_batch(worker.frontend, key, file_id, **fields)
    assert status == 200, made
    held = HeldBatch(worker, key, made["id"], made["run_id"])
    await worker.take(held.run_id)
    return held
