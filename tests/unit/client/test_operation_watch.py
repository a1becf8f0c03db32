"""Following an operation: the stream, its absence, and never backwards."""

from __future__ import annotations

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from corral.domain.errors import NotAuthenticated, NotFound
from corral.wire.operations import OperationDetailOut
from tests.unit.client.standin import (
    OPERATION,
    StandIn,
    a_target,
    an_event,
    an_operation,
    hello,
    json_answer,
    progress,
    refusal,
)
from tests.unit.client.test_client import a_client

READ = f"GET /api/operations/{OPERATION}"


async def _follow(standin: StandIn) -> list[OperationDetailOut]:
    async with TestServer(standin.app()) as server, a_client(str(server.make_url("")).rstrip("/")) as client:
        return [step async for step in client.operations.follow(OPERATION)]


async def test_progress_is_taken_in_and_the_end_is_read():
    standin = StandIn()
    standin.on(
        READ,
        json_answer(an_operation()),
        json_answer(an_operation()),
        json_answer(an_operation(state="completed", rev=9, progress=100.0)),
    )
    step = a_target(state="working", status="downloading", phase="downloading", current=5, total=10, percentage=50.0)
    slim = {key: value for key, value in step.items() if key not in ("build", "job_id", "version")}
    standin.streams = [
        hello()
        + progress(2, progress=50.0, nodes=[slim])
        + an_event(1, "operation.changed", key="another")
        + an_event(2, "operation.changed", key=OPERATION)
    ]
    steps = await _follow(standin)
    assert [(one.state, one.progress) for one in steps] == [("running", 0.0), ("running", 50.0), ("completed", 100.0)]
    # What a step does not say stays as it was.
    assert steps[1].nodes[0].build is not None
    assert (steps[1].nodes[0].current, steps[1].nodes[0].version) == (5, "2.0.0")


async def test_older_state_of_an_operation_is_dropped():
    standin = StandIn()
    ended = json_answer(an_operation(state="failed", rev=9, progress=60.0, error="disk full"))
    standin.on(
        READ, json_answer(an_operation(rev=5, progress=60.0)), json_answer(an_operation(rev=4, progress=10.0)), ended
    )
    standin.streams = [
        hello()
        + progress(3, progress=20.0)
        + progress(6, progress=55.0)
        + an_event(2, "operation.changed", key=OPERATION)
    ]
    steps = await _follow(standin)
    assert [one.progress for one in steps] == [60.0, 60.0, 60.0]
    assert [one.rev for one in steps] == sorted(one.rev for one in steps)
    assert steps[-1].state == "failed"


async def test_node_that_is_done_is_not_shown_at_work_again_by_an_older_step():
    standin = StandIn()
    done = a_target(state="success", status="success", percentage=100.0)
    ended = json_answer(an_operation(state="completed", rev=9, nodes=[done]))
    standin.on(READ, json_answer(an_operation(rev=5, nodes=[done])), ended)
    working = {"node_id": done["node_id"], "node_name": done["node_name"], "state": "working", "status": "queued"}
    standin.streams = [hello() + progress(3, nodes=[working]) + an_event(2, "operation.changed", key=OPERATION)]
    assert {one.nodes[0].state for one in await _follow(standin)} == {"success"}


async def test_broken_stream_is_taken_up_again_and_the_operation_is_read_meanwhile():
    standin = StandIn()
    standin.on(
        READ,
        json_answer(an_operation()),
        json_answer(an_operation(rev=2)),
        json_answer(an_operation(rev=3, progress=30.0)),
        json_answer(an_operation(rev=8, state="completed")),
    )
    standin.streams = [hello(), hello() + progress(4, progress=40.0)]
    steps = await _follow(standin)
    assert steps[-1].state == "completed"
    streams = [seen for seen in standin.seen if seen.path == "/api/operations/events"]
    assert len(streams) >= 1
    assert all(seen.headers.get("Last-Event-ID") in (None, "1-0") for seen in streams)


@pytest.mark.parametrize("code", [404, 410, 502])
async def test_operation_is_polled_when_no_stream_opens(code: int):
    standin = StandIn()
    standin.on("GET /api/operations/events", refusal(code, "not_found", "No streams here."))
    standin.on(
        READ,
        json_answer(an_operation()),
        json_answer(an_operation(rev=2, progress=50.0)),
        json_answer(an_operation(rev=3, state="completed")),
    )
    steps = await _follow(standin)
    assert [one.rev for one in steps] == [1, 2, 3]


async def test_page_of_a_proxy_instead_of_a_stream_is_no_stream():
    async def page(request: web.Request) -> web.Response:
        return web.Response(text="<html>", content_type="text/html")

    standin = StandIn()
    standin.on("GET /api/operations/events", page)
    standin.on(READ, json_answer(an_operation()), json_answer(an_operation(rev=3, state="cancelled")))
    assert (await _follow(standin))[-1].state == "cancelled"


async def test_operation_that_has_ended_is_not_followed():
    standin = StandIn()
    standin.on(READ, json_answer(an_operation(state="completed_with_pending")))
    assert len(await _follow(standin)) == 1
    assert len(standin.seen) == 1


async def test_refusal_ends_the_following_with_its_error():
    standin = StandIn()
    standin.on(READ, json_answer(an_operation()))
    standin.on("GET /api/operations/events", refusal(401, "not_authenticated", "This key was revoked."))
    with pytest.raises(NotAuthenticated):
        await _follow(standin)
    with pytest.raises(NotFound):
        await _follow(StandIn())
