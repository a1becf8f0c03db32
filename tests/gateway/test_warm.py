"""What a warm request costs: nothing but itself."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from tests.gateway.scene import CHAT, STREAMED, Records, idle, wire
from tests.support.engines import MisbehavingEngine
from tests.support.frontends import RunningFrontend
from tests.support.statements import count_statements


@pytest.mark.behaviour("GW-39")
async def test_warm_request_is_no_statement_no_bus_message_and_no_task(
    frontend: RunningFrontend, engine: MisbehavingEngine, records: Records, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with wire(frontend) as opened:
        for body in (CHAT, STREAMED):
            opened.send(body)
            assert (await opened.answer()).status == 200
        for loop in frontend.core.loops.after_boot:
            await loop.stop()
        await idle(frontend)
        statements: list[str] = []
        complaints: list[str] = []
        tasks: list[str] = []
        count_statements(frontend.database, statements.append)
        for name in ("publish", "request"):
            monkeypatch.setattr(frontend.bus, name, lambda *_, name=name, **__: complaints.append(name))
        running = asyncio.get_running_loop()
        make_task = running.create_task

        def noted(work: Coroutine[Any, Any, Any], **more: Any) -> asyncio.Task[Any]:
            tasks.append(str(getattr(work, "__qualname__", work)))
            return make_task(work, **more)

        monkeypatch.setattr(running, "create_task", noted)
        received_before = len(engine.received)
        for body in (CHAT, STREAMED, CHAT):
            opened.send(body)
            assert (await opened.answer()).status == 200
        monkeypatch.undo()
    assert len(engine.received) == received_before + 3
    assert (statements, complaints) == ([], [])
    assert [name for name in tasks if not name.startswith(("Loop.", "Presence."))] == []
    assert [(record.status, record.attempts) for record in records.received] == [(200, 1)] * 5
    assert len({record.key_id for record in records.received}) == 1
    assert engine.connections == 1
