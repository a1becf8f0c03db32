"""The pruner deletes all that is too old, in small transactions, and one kind of rows does not stop the others."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from sqlalchemy.exc import DBAPIError

from corral.domain.access import Owner
from corral.reconcile.maintenance import Pruner, RetentionOptions
from corral.store import agents as agent_store
from corral.store import artifacts as artifact_store
from corral.store import runs as run_store
from corral.store import tasks as task_store
from corral.store.database import Database
from tests.loading.scene import put_model
from tests.operations.fake_bus import Hub
from tests.operations.scene import sql
from tests.runs.scene import ids, put_owner, put_workers
from tests.tasks.scene import PNG, TaskFrontend

MULTIPLY_RUNS = (
    """
    INSERT INTO operations
    SELECT (jsonb_populate_record(o, jsonb_build_object('id', gen_random_uuid()))).*
      FROM operations o, generate_series(1, :number)
    """,
    """
    INSERT INTO runs
    SELECT (jsonb_populate_record(r, jsonb_build_object('id', o.id, 'job_id', NULL))).*
      FROM runs r, operations o WHERE o.id <> r.id
    """,
)


@pytest.fixture
async def frontend(database: Database) -> AsyncIterator[TaskFrontend]:
    hub = Hub()
    made = await TaskFrontend(database, hub).plug_in()
    assert isinstance(made, TaskFrontend)
    await put_model(database)
    await put_workers(database, hub, "agent-1")
    await made.leader.tick()
    yield made
    await made.fetcher.stop()


@pytest.fixture
async def owner(database: Database) -> Owner:
    return await put_owner(database)


def make_pruner(frontend: TaskFrontend) -> Pruner:
    return Pruner(frontend.database, frontend.leader, RetentionOptions(outbox_s=86400, runs_s=86400.0))


async def put_ended_runs(frontend: TaskFrontend, owner: Owner, number: int) -> None:
    """Store runs that have ended two days ago."""
    run = await frontend.start(owner)
    await frontend.runs.cancel(run.id, None, "ann")
    for statement in MULTIPLY_RUNS:
        parameters = {"number": number - 1} if ":number" in statement else {}
        await sql(frontend.database, statement, **parameters)
    await sql(frontend.database, "UPDATE runs SET finished_at = corral_now() - interval '2 days'")


async def put_artifacts(frontend: TaskFrontend, owner: Owner, number: int) -> None:
    """Store files that have expired."""
    await sql(
        frontend.database,
        """
        INSERT INTO artifacts (id, owner, user_id, kind, name, sha256, size_bytes, expires_at)
        SELECT gen_random_uuid(), :owner, CAST(:user_id AS uuid), 'upload', 'x', 'x', 1, corral_now()
          FROM generate_series(1, :number)
        """,
        owner=str(owner),
        user_id=owner.user_id,
        number=number,
    )


async def count(frontend: TaskFrontend, table: str) -> int:
    [row] = await sql(frontend.database, f"SELECT count(*) AS number FROM {table}")
    return int(row.number)


@pytest.mark.behaviour("RUNS-41")
async def test_everything_that_is_too_old_is_deleted_in_one_pass_however_much_it_is(
    frontend: TaskFrontend, owner: Owner
) -> None:
    runs, artifacts = 2 * run_store.PRUNED_PER_PASS + 1, 2 * artifact_store.PRUNED_PER_PASS + 1
    await put_ended_runs(frontend, owner, runs)
    await put_artifacts(frontend, owner, artifacts)
    kept = await frontend.start(owner)
    pruned = await make_pruner(frontend).tick()
    assert (pruned.runs, pruned.artifacts) == (runs, artifacts)
    assert [row.id for row in await sql(frontend.database, "SELECT id::text AS id FROM runs")] == [kept.id]
    assert await count(frontend, "artifacts") == 0


@pytest.mark.behaviour("RUNS-41")
async def test_rows_that_cannot_be_deleted_keep_no_others(frontend: TaskFrontend, owner: Owner) -> None:
    await put_ended_runs(frontend, owner, 2)
    await sql(
        frontend.database,
        "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'refused'; END $$",
    )
    await sql(frontend.database, "CREATE TRIGGER refuse BEFORE DELETE ON audit EXECUTE FUNCTION refuse()")
    with pytest.raises(DBAPIError, match="refused"):
        await make_pruner(frontend).tick()
    assert await count(frontend, "runs") == 0


async def test_one_deletion_takes_what_fits_and_at_least_one_row(frontend: TaskFrontend, owner: Owner) -> None:
    await put_ended_runs(frontend, owner, 3)
    await sql(frontend.database, "UPDATE runs SET last_seq = :most", most=run_store.PRUNED_EVENTS_PER_PASS)
    await put_artifacts(frontend, owner, 3)
    most_bytes = artifact_store.PRUNED_BYTES_PER_PASS
    await sql(frontend.database, "UPDATE artifacts SET size_bytes = :most", most=most_bytes)
    async with frontend.database.transaction() as tx:
        assert await run_store.prune(tx, 86400.0) == 1
        assert await artifact_store.prune(tx) == 1
    # Half of it each: two fit.
    await sql(frontend.database, "UPDATE runs SET last_seq = last_seq / 2")
    await sql(frontend.database, "UPDATE artifacts SET size_bytes = size_bytes / 2")
    async with frontend.database.transaction() as tx:
        assert await run_store.prune(tx, 86400.0) == 2
        assert await artifact_store.prune(tx) == 2


async def test_threads_and_attachments_are_deleted_in_pieces_too(
    frontend: TaskFrontend, owner: Owner, monkeypatch: pytest.MonkeyPatch
) -> None:
    await put_ended_runs(frontend, owner, 3)
    await sql(
        frontend.database,
        "INSERT INTO run_media (run_id, position, kind, content_type, content) SELECT id, 0, 'image', 'image/png',"
        " CAST(:png AS bytea) FROM runs",
        png=PNG,
    )
    agent_id = ids.new_id()
    async with frontend.database.transaction() as tx:
        await agent_store.insert_agent(tx, owner, {"id": agent_id, "name": "a", "config": {}, "created_by": "t"})
        for _ in range(3):
            await agent_store.insert_thread(tx, ids.new_id(), agent_id, owner, "t", threads_max=9)
    await sql(
        frontend.database,
        "UPDATE threads SET updated_at = updated_at - interval '2 days', last_seq = :most",
        most=agent_store.PRUNED_MESSAGES_PER_PASS,
    )
    monkeypatch.setattr(task_store, "PRUNED_BYTES_PER_PASS", len(PNG))
    async with frontend.database.transaction() as tx:
        assert await agent_store.prune_threads(tx, 86400.0) == 1
        assert await task_store.prune_media(tx) == 1
    assert (await count(frontend, "threads"), await count(frontend, "run_media")) == (2, 2)
