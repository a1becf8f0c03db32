"""Traces of loads, from the events of replicas."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from corral.adapters.system import SystemIdGenerator
from corral.domain.cluster import OutboxEvent, OutboxPosition
from corral.insight import load_tracer as tracing
from corral.insight.load_tracer import LoadTracer
from corral.ports.requests import TraceSpan

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)
REPLICA = "01a1e089-5dc4-7775-bf09-dbc34ea1de10"


class Scene:
    """Stands in for a collector, and holds the spans that it received."""

    def __init__(self) -> None:
        self.got: list[TraceSpan] = []
        self.leads = True
        self.traces = LoadTracer(self, SystemIdGenerator(), lambda: self.leads)

    async def send(self, spans: Sequence[TraceSpan]) -> None:
        self.got += spans

    async def close(self) -> None:
        return

    def happens(self, at_s: float, state: str = "", *, kind: str = "replica.changed", **data: Any) -> None:
        event_data = {"id": REPLICA, "node_id": "node-1", "index": 0} | ({"state": state} if state else {}) | data
        at = NOON + timedelta(seconds=at_s)
        self.traces.follow([OutboxEvent(position=OutboxPosition(1, 1), kind=kind, key="chat", at=at, data=event_data)])

    async def spans(self) -> dict[str, tuple[float, float, str]]:
        """Begin and end in seconds since noon, and the error, by name."""
        await self.traces.tick()
        zero = NOON.timestamp()
        return {one.name: (one.begin_ns / 1e9 - zero, one.end_ns / 1e9 - zero, one.error) for one in self.got}


async def test_load_is_a_trace_with_the_time_for_files_and_for_the_engine() -> None:
    scene = Scene()
    for at_s, state in ((0, "staging"), (30, "loading"), (45, "loaded")):
        scene.happens(at_s, state)
    assert await scene.spans() == {
        "corral.load": (0, 45, ""),
        "corral.load.files": (0, 30, ""),
        "corral.load.engine": (30, 45, ""),
    }
    whole, *parts = scene.got
    assert whole.trace_id == REPLICA.replace("-", "")
    assert {part.parent_id for part in parts} == {whole.span_id}
    assert whole.attributes == {"corral.model": "chat", "corral.node_id": "node-1", "corral.replica": REPLICA}
    scene.got = []
    # Later changes are not a load.
    scene.happens(60, "loaded")
    scene.happens(70, "unloading")
    assert await scene.spans() == {}


async def test_failed_load_trace_marks_the_failed_span() -> None:
    scene = Scene()
    scene.happens(0, "staging")
    scene.happens(5, kind="replica.removed", reason="No room.")
    assert await scene.spans() == {"corral.load": (0, 5, "load_failed"), "corral.load.files": (0, 5, "load_failed")}
    scene.got = []
    scene.happens(10, "staging")
    scene.happens(12, "loading")
    scene.happens(20, "unloading")
    assert await scene.spans() == {
        "corral.load": (10, 20, "load_failed"),
        "corral.load.files": (10, 12, ""),
        "corral.load.engine": (12, 20, "load_failed"),
    }


async def test_load_tracer_sends_spans_only_on_the_leader(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene()
    scene.leads = False
    scene.happens(0, "staging")
    scene.happens(1, "loaded")
    assert await scene.spans() == {}
    scene.happens(2, "staging")
    scene.leads = True
    scene.happens(3, "loaded")
    assert (await scene.spans())["corral.load"] == (2, 3, "")


async def test_loads_without_an_end_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracing, "OPEN_MAX", 2)
    scene = Scene()
    for number in range(3):
        scene.happens(number, "staging", id=f"{number:032x}")
    for number in range(3):
        scene.happens(9, "loaded", id=f"{number:032x}")
    await scene.traces.tick()
    assert {span.trace_id[-1] for span in scene.got} == {"1", "2"}


async def test_load_tracer_ignores_other_events() -> None:
    scene = Scene()
    scene.happens(0, kind="replica.removed", id=None, count=2)
    scene.happens(0, kind="node.changed")
    scene.happens(0, "loaded")
    assert await scene.spans() == {}
