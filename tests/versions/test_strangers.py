"""What only the other version knows: commands, states and kinds that this version does not know. Nothing breaks."""

from __future__ import annotations

from pathlib import Path

from structlog.testing import capture_logs

from corral.bus.messages import DescribeNode, JobEvent, NodeDescription
from corral.bus.subjects import JOB_EVENT, NODE_DESCRIBE, BusRole
from corral.domain.node import NodeId
from corral.operations.command_sender import JobEventOutcome, NullDispatchMetrics
from corral.operations.dispatcher import JobEventBuffer
from corral.ports.bus import Delivery
from corral.store import outbox
from corral.store.database import Database
from tests.bus.nats_server import NatsServer
from tests.nodes.registry import events, ids
from tests.operations.scene import put_nodes
from tests.support.frontends import RunningFrontend, running_frontend
from tests.support.polling import eventually


async def _is(claim: bool) -> bool:
    return claim


async def test_unsupported_command_names_the_worker_and_its_version(
    database: Database, database_url: str, tmp_path: Path
) -> None:
    async with (
        NatsServer(tmp_path) as server,
        running_frontend(database_url, authority=server.authority, nats_url=server.url) as frontend,
    ):
        old, away = await put_nodes(database, "old", "away")
        worker = server.bus(BusRole.WORKER, old)

        async def describe(_: Delivery[DescribeNode]) -> NodeDescription:
            return NodeDescription(node_id=old, boot_id="b", name="old", version="0.0.9", uptime_s=1.0)

        await worker.start()
        try:
            # All that it knows: a worker from before there was anything else.
            await worker.subscribe(NODE_DESCRIBE, describe, node=old)
            await eventually(lambda: _is(worker.is_connected and frontend.bus.is_connected))
            status, answer = await frontend.call("POST", "/api/nodes/old/backends/collect")
            assert (status, answer["error"]["code"]) == (409, "command_unknown")
            assert answer["error"]["message"] == (
                "The worker of old does not know backend.collect; it runs Corral 0.0.9."
            )
            assert await events(database, "node.bus_changed") == []
            status, answer = await frontend.call("POST", "/api/nodes/away/backends/collect")
            assert (status, answer["error"]["code"]) == (503, "node_unreachable")
            assert [event.key for event in await events(database, "node.bus_changed")] == [away]
        finally:
            await worker.stop()


async def test_unknown_job_state_is_logged_once_and_left_out(database: Database) -> None:
    (node,) = await put_nodes(database, "later")
    counted: list[JobEventOutcome] = []

    class Numbers(NullDispatchMetrics):
        def count_job_event(self, outcome: JobEventOutcome) -> None:
            counted.append(outcome)

    taken = JobEventBuffer(database, ids, origin="here", is_held=lambda _: False, metrics=Numbers(), listeners={})
    job = ids.new_id()
    with capture_logs() as logs:
        for seq, state in enumerate(("hibernating", "hibernating", "done")):
            taken.record(_delivery(node, JobEvent(job_id=job, seq=seq, state=state)))
    assert [(line["log_level"], line["node"], line["state"]) for line in logs] == [("warning", node, "hibernating")]
    assert counted == [JobEventOutcome.ODD, JobEventOutcome.ODD, JobEventOutcome.TAKEN]
    assert len(taken) == 1
    await taken.flush()


async def test_event_of_an_unknown_kind_is_ignored(database: Database, frontend: RunningFrontend) -> None:
    async with database.transaction() as tx:
        for kind in ("moon.landed", "node.hibernated", "key.folded", "user.folded", "session.folded", "model.folded"):
            await outbox.append(tx, kind, ids.new_id(), {"what": ["nobody", "knows"]})
    status, made = await frontend.call("POST", "/api/tokens", {"name": "afterwards"})
    assert status == 201, made

    async def is_past() -> bool:
        position = frontend.core.feed.position
        last = (await events(database, "moon.landed"))[-1].position
        return position is not None and last < position

    await eventually(is_past)
    assert (await frontend.call("GET", "/api/nodes"))[0] == 200


def _delivery(node: NodeId, event: JobEvent) -> Delivery[JobEvent]:
    return Delivery(message=event, subject=JOB_EVENT.template, node=node)
