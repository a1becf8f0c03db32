"""The scaler's passes on real rows: what it asks for, what it ends, and when it leaves a rule alone."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from corral.adapters.system import SystemClock, SystemIdGenerator
from corral.domain.errors import Conflict
from corral.domain.node import NodeId
from corral.domain.operation import OperationId, OperationState
from corral.domain.replica import Rule
from corral.reconcile.leader import LeaderElector
from corral.reconcile.scaling import ScaleRequest, ScalingReconciler
from corral.store import rules as rule_store
from corral.store.database import Database
from corral.store.operations import NewOperation, insert
from tests.loading.scene import put_loaded, put_model, rows, states, use
from tests.nodes.registry import events
from tests.operations.scene import put_nodes as put_any_nodes
from tests.operations.scene import sql
from tests.support.statements import count_statements

ids = SystemIdGenerator()


@dataclass
class ScaleRequestRecorder:
    """Receives the requests instead of `Loads`, and writes an operation for each, as that would."""

    database: Database
    requests: list[ScaleRequest] = field(default_factory=list)
    operations: list[OperationId] = field(default_factory=list)
    refuses: bool = False

    async def __call__(self, request: ScaleRequest) -> OperationId:
        if self.refuses:
            raise Conflict("Something else is done to this model.", code="operation_in_progress")
        self.requests.append(request)
        operation_id = OperationId(ids.new_id())
        new = NewOperation(
            id=operation_id,
            kind="model_load",
            subject=request.model,
            scope_key=f"model:{request.model}:{operation_id}",
            scope_node=None,
            scope_node_name="",
            request={},
            created_by="rules",
        )
        async with self.database.transaction() as tx:
            await insert(tx, new)
        self.operations.append(operation_id)
        return operation_id

    async def end(self, state: OperationState, code: str | None = None) -> None:
        for step in (OperationState.RUNNING, state):
            await sql(
                self.database,
                "UPDATE operations SET state = :state, error_code = :code, finished_at = CASE WHEN :ended"
                " THEN corral_now() END WHERE id = CAST(:id AS uuid)",
                state=step,
                code=code if step is state else None,
                ended=step is state,
                id=self.operations[-1],
            )


@pytest.fixture
def recorder(database: Database) -> ScaleRequestRecorder:
    return ScaleRequestRecorder(database)


@pytest.fixture
async def scaling(database: Database, recorder: ScaleRequestRecorder) -> ScalingReconciler:
    leader = LeaderElector(database, SystemClock(), "frontend-1", 60.0)
    assert await leader.tick() is not None
    return ScalingReconciler(database, leader, recorder)


async def put_nodes(database: Database, *names: str, **columns: str) -> list[NodeId]:
    """Nodes that have reported what they run."""
    return await put_any_nodes(database, *names, **({"holdings_at": "corral_now()"} | columns))


async def put_rule(database: Database, **values: object) -> None:
    async with database.transaction() as tx:
        await rule_store.save_rule(tx, Rule(**({"model": "chat", "selector": {}} | values)))  # type: ignore[arg-type]


async def rule(database: Database) -> Rule:
    async with database.transaction() as tx:
        return await rule_store.get_rule(tx, "chat")


@pytest.mark.behaviour("NODE-44")
async def test_minimum_asks_for_no_more_than_there_are_slots_for(
    database: Database, scaling: ScalingReconciler, recorder: ScaleRequestRecorder
) -> None:
    await put_nodes(database, "a")
    await put_model(database)
    await put_rule(database, min_replicas=2)
    await scaling.tick()
    assert [(request.model, request.count, request.node_ids) for request in recorder.requests] == [("chat", 1, None)]


async def test_load_under_way_for_a_rule_is_not_requested_again(
    database: Database, scaling: ScalingReconciler, recorder: ScaleRequestRecorder
) -> None:
    await put_nodes(database, "a")
    await put_model(database)
    await put_rule(database, min_replicas=1)
    for _ in range(3):
        await scaling.tick()
    assert len(recorder.requests) == 1


@pytest.mark.behaviour("NODE-55")
async def test_minimum_whose_replicas_all_vanished_is_requested_again_with_the_current_model(
    database: Database, scaling: ScalingReconciler, recorder: ScaleRequestRecorder
) -> None:
    (node,) = await put_nodes(database, "a")
    model = await put_model(database)
    await put_rule(database, min_replicas=1)
    await put_loaded(database, node, model)
    await scaling.tick()
    assert recorder.requests == []
    await sql(database, "DELETE FROM replicas")
    await scaling.tick()
    assert [(request.model, request.count, request.enough) for request in recorder.requests] == [("chat", 1, 1)]


@pytest.mark.behaviour("NODE-45")
async def test_minimum_without_capacity_backs_off_after_the_third_pass(
    database: Database, scaling: ScalingReconciler, recorder: ScaleRequestRecorder
) -> None:
    await put_model(database)
    await put_rule(database, min_replicas=1)
    for _ in range(3):
        assert (await rule(database)).unsatisfiable_until is None
        await scaling.tick()
    assert (await rule(database)).unsatisfiable_until is not None
    await put_nodes(database, "a")
    await scaling.tick()
    assert recorder.requests == []


@pytest.mark.behaviour("NODE-47")
async def test_loads_without_room_add_backoff_ticks_and_one_that_succeeds_clears_them(
    database: Database, scaling: ScalingReconciler, recorder: ScaleRequestRecorder
) -> None:
    await put_nodes(database, "a")
    await put_model(database)
    await put_rule(database, min_replicas=1)
    await scaling.tick()
    await recorder.end(OperationState.FAILED, "no_room")
    await scaling.tick()
    assert (await rule(database)).unsatisfiable_ticks == 1
    await scaling.tick()
    await recorder.end(OperationState.FAILED, "engine_failed")
    await scaling.tick()
    assert (await rule(database)).unsatisfiable_ticks == 1, "bad luck is no lack of room"
    await scaling.tick()
    await recorder.end(OperationState.COMPLETED)
    await scaling.tick()
    assert (await rule(database)).unsatisfiable_ticks == 0


async def list_backoffs(database: Database) -> list[tuple[str, bool]]:
    return [
        (event.data["sentence"], event.data["until"] is not None) for event in await events(database, "rule.setback")
    ]


@pytest.mark.behaviour("OP-4")
async def test_scaling_backoff_writes_an_event_when_it_begins_changes_or_ends_and_not_at_each_tick(
    database: Database, scaling: ScalingReconciler, recorder: ScaleRequestRecorder
) -> None:
    await put_model(database)
    await put_rule(database, min_replicas=1)
    no_slot = "0 of at least 1, and no node that matches has a free slot."
    await scaling.tick()
    await scaling.tick()
    assert await list_backoffs(database) == [(no_slot, False)]
    for _ in range(3):
        await scaling.tick()
    assert await list_backoffs(database) == [(no_slot, False), (no_slot, True)], (
        "left alone for a while, with one event"
    )
    for _ in range(2):
        async with database.transaction() as tx:
            await rule_store.clear_unsatisfiable(tx)
    gone = ("Nothing holds it back any more.", False)
    assert (await list_backoffs(database))[2:] == [gone], "no event without a backoff"
    await put_nodes(database, "a")
    await scaling.tick()
    await recorder.end(OperationState.FAILED, "no_room")
    await scaling.tick()
    assert (await list_backoffs(database))[3:] == [("A load has found no room.", False)]
    await scaling.tick()
    await recorder.end(OperationState.COMPLETED)
    await scaling.tick()
    await scaling.tick()
    assert (await list_backoffs(database))[4:] == [gone]
    (event, *_) = await events(database, "rule.setback")
    assert (event.key, event.data["model"]) == ("chat", "chat")
    assert not scaling.is_called_by([event]), "what it tells does not call it"


@pytest.mark.behaviour("OP-4")
async def test_new_backoff_reason_writes_an_event_and_a_new_leader_does_not_repeat_the_last(
    database: Database, scaling: ScalingReconciler, recorder: ScaleRequestRecorder
) -> None:
    await put_model(database)
    await put_rule(database, min_replicas=1)
    await scaling.tick()
    successor = ScalingReconciler(database, scaling._leader, recorder)
    await successor.tick()
    assert len(await list_backoffs(database)) == 1
    await sql(database, "UPDATE rules SET min_replicas = 2, unsatisfiable_ticks = 1")
    await successor.tick()
    assert (await list_backoffs(database))[1:] == [
        ("0 of at least 2, and no node that matches has a free slot.", False)
    ]


@pytest.mark.behaviour("NODE-46")
async def test_change_of_the_cluster_lets_a_rule_be_tried_again(
    database: Database, scaling: ScalingReconciler, recorder: ScaleRequestRecorder
) -> None:
    await put_model(database)
    await put_rule(database, min_replicas=1)
    for _ in range(3):
        await scaling.tick()
    await put_nodes(database, "a")
    async with database.transaction() as tx:
        await rule_store.clear_unsatisfiable(tx)
    await scaling.tick()
    assert [request.count for request in recorder.requests] == [1]


@pytest.mark.behaviour("NODE-48")
async def test_scaling_requests_one_more_replica_up_to_the_maximum_when_all_are_busy(
    database: Database, scaling: ScalingReconciler, recorder: ScaleRequestRecorder
) -> None:
    one, two = await put_nodes(database, "a", "b")
    model = await put_model(database)
    await put_rule(database, min_replicas=1, max_replicas=2)
    first = await put_loaded(database, one, model)
    await scaling.tick()
    assert recorder.requests == [], "nobody is busy"
    await use(database, first)
    await scaling.tick()
    assert [request.count for request in recorder.requests] == [1]
    await use(database, await put_loaded(database, two, model))
    await scaling.tick()
    assert len(recorder.requests) == 1, "there are as many as there may be"


@pytest.mark.behaviour("NODE-51")
async def test_idle_replicas_beyond_the_floor_are_marked_and_nothing_else_is_done_to_them(
    database: Database, scaling: ScalingReconciler
) -> None:
    one, two = await put_nodes(database, "a", "b", slots_reported="2")
    model = await put_model(database)
    await put_rule(database, min_replicas=1)
    await put_loaded(database, one, model, 0)
    busy = await put_loaded(database, two, model, 0)
    await put_loaded(database, one, model, 1)
    await use(database, busy)
    done = await scaling.tick()
    assert done.unloaded == 2
    left = [(row.node_id, row.index) for row in await rows(database) if row.state == "loaded"]
    assert left == [(two, 0)], "what is used stays"
    assert {row.stop_reason for row in await rows(database) if row.state == "unloading"} == {
        "2 idle beyond the floor of 1."
    }


async def test_idle_model_is_unloaded_after_its_idle_time_unless_pinned(
    database: Database, scaling: ScalingReconciler
) -> None:
    (node,) = await put_nodes(database, "a")
    await put_loaded(database, node, await put_model(database, "idle", idle_s=60.0))
    await put_loaded(database, node, await put_model(database, "pinned", idle_s=60.0, is_pinned=True))
    await put_loaded(database, node, await put_model(database, "plain"))
    await scaling.tick()
    assert await states(database, "idle") == ["unloading"]
    assert await states(database, "pinned") == ["loaded"]
    assert await states(database, "plain") == ["loaded"]


@pytest.mark.behaviour("NODE-53")
async def test_spreading_asks_for_one_on_each_node_that_has_none(
    database: Database, scaling: ScalingReconciler, recorder: ScaleRequestRecorder
) -> None:
    one, two, three = await put_nodes(database, "a", "b", "c", slots_reported="2")
    await put_loaded(database, one, await put_model(database))
    await put_rule(database, spreads=True)
    await scaling.tick()
    (request,) = recorder.requests
    assert (request.count, set(request.node_ids or ())) == (2, {two, three})


async def test_refused_load_adds_no_backoff_and_the_model_is_requested_at_the_next_tick(
    database: Database, scaling: ScalingReconciler, recorder: ScaleRequestRecorder
) -> None:
    await put_nodes(database, "a")
    await put_model(database)
    await put_rule(database, min_replicas=1)
    recorder.refuses = True
    await scaling.tick()
    recorder.refuses = False
    await scaling.tick()
    assert len(recorder.requests) == 1
    assert (await rule(database)).unsatisfiable_ticks == 0


async def test_minimum_is_not_loaded_before_newly_joined_workers_have_reported_what_they_run(
    database: Database, scaling: ScalingReconciler, recorder: ScaleRequestRecorder
) -> None:
    await put_nodes(database, "a", "b", holdings_at="NULL", bus_since="corral_now()")
    await put_model(database)
    await put_rule(database, min_replicas=1)
    await scaling.tick()
    assert recorder.requests == []
    await sql(database, "UPDATE nodes SET holdings_at = corral_now() WHERE name = 'a'")
    await sql(database, "UPDATE nodes SET bus_since = corral_now() - interval '1 minute' WHERE name = 'b'")
    await scaling.tick()
    assert len(recorder.requests) == 1, "one has reported, and the other one never will"


@pytest.mark.behaviour("NODE-54")
async def test_rule_for_an_unknown_model_requests_nothing(
    database: Database, scaling: ScalingReconciler, recorder: ScaleRequestRecorder
) -> None:
    await put_nodes(database, "a")
    await put_rule(database, min_replicas=1)
    done = await scaling.tick()
    assert (done.models, recorder.requests) == (0, [])


async def test_disabled_model_is_left_alone(
    database: Database, scaling: ScalingReconciler, recorder: ScaleRequestRecorder
) -> None:
    await put_nodes(database, "a")
    await put_model(database, is_enabled=False)
    await put_rule(database, min_replicas=1)
    await scaling.tick()
    assert recorder.requests == []


async def test_pass_costs_the_same_statements_for_one_model_and_for_many(
    database: Database, scaling: ScalingReconciler
) -> None:
    (node,) = await put_nodes(database, "a")
    statements: list[str] = []
    count_statements(database, statements.append)
    counts = []
    for name in ("one", *(f"m{number}" for number in range(30))):
        await put_loaded(database, node, await put_model(database, name))
        if name in ("one", "m29"):
            statements.clear()
            await scaling.tick()
            counts.append(len(statements))
    assert counts[0] == counts[1]
