"""Files that the library loses while nodes wait for them."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from corral.domain.errors import NotFound
from corral.domain.operation import OperationState
from corral.loading.fetches import LOST_S
from corral.store.database import Database
from tests.loading.machines import LoadFrontend, ModelWorker, machines, node_of, sha_of
from tests.loading.scene import ask, put_model, states
from tests.operations.fake_bus import Hub
from tests.operations.scene import read, sql
from tests.support.polling import eventually

SHA = sha_of("model.gguf")


@pytest.fixture
def hub() -> Hub:
    return Hub()


@pytest.fixture
async def frontend(database: Database, hub: Hub) -> AsyncIterator[LoadFrontend]:
    made = await LoadFrontend(database, hub).plug_in()
    yield made
    await made.close()


async def wait_until_commanded(frontend: LoadFrontend, worker: ModelWorker, times: int = 1) -> None:
    async def is_commanded() -> bool:
        frontend.clock.ahead += 1
        await frontend.run()
        return len(worker.loads) >= times

    await eventually(is_commanded)


async def lose(database: Database) -> None:
    await sql(database, "DELETE FROM library_files")


async def put_staged(database: Database, node: str) -> None:
    await sql(
        database,
        "INSERT INTO staged_files (node_id, sha256, size_bytes, is_whole) VALUES (CAST(:n AS uuid), :s, 100, true)",
        n=node,
        s=SHA,
    )


@pytest.mark.parametrize("kind", ["load", "stage"])
async def test_operation_fetches_files_again_that_the_library_loses_while_a_node_waits_for_them(
    database: Database, hub: Hub, frontend: LoadFrontend, kind: str
) -> None:
    (one,) = await machines(database, hub, "a")
    await put_model(database, files=("model.gguf",))
    operation = await ask(frontend, kind=kind)
    await wait_until_commanded(frontend, one)
    await one.move(10.0, phase="staging")
    await lose(database)

    async def is_fetched_again() -> bool:
        frontend.clock.ahead += 1
        await frontend.run()
        return frontend.library.entered == ["chat", "chat"]

    await eventually(is_fetched_again)
    assert len(one.loads) == 1, "the node goes on with the same job"
    await one.load_done()
    await frontend.run()
    assert (await read(database, operation)).state is OperationState.COMPLETED


async def test_load_says_that_lost_files_are_fetched_again(
    database: Database, hub: Hub, frontend: LoadFrontend
) -> None:
    (one,) = await machines(database, hub, "a")
    await put_model(database, files=("model.gguf",))
    operation = await ask(frontend)
    await wait_until_commanded(frontend, one)
    await one.move(10.0, phase="staging")
    await lose(database)
    frontend.library.gate.clear()

    async def is_reported() -> bool:
        frontend.clock.ahead += 1
        await frontend.run()
        return (await read(database, operation)).message == "Fetching the files of chat"

    await eventually(is_reported)


async def test_load_fails_with_the_cause_if_lost_files_cannot_be_fetched_again(
    database: Database, hub: Hub, frontend: LoadFrontend
) -> None:
    (one,) = await machines(database, hub, "a")
    await put_model(database, files=("model.gguf",))
    operation = await ask(frontend)
    await wait_until_commanded(frontend, one)
    await one.move(10.0, phase="staging")
    await lose(database)
    frontend.library.fails.append(NotFound("model.gguf was never sent here.", code="blob_not_here"))

    async def has_failed() -> bool:
        frontend.clock.ahead += 1
        await frontend.run()
        return (await read(database, operation)).state is OperationState.FAILED

    await eventually(has_failed)
    fault = (await read(database, operation)).fault
    assert fault is not None
    assert (fault.code, fault.text) == (
        "blob_not_here",
        "The files could not be fetched: model.gguf was never sent here.",
    )
    assert await states(database) == []


async def test_load_is_sent_again_with_new_sources_if_only_another_node_has_the_files_now(
    database: Database, hub: Hub, frontend: LoadFrontend
) -> None:
    one, other = await machines(database, hub, "a", "b")
    await put_model(database, files=("model.gguf",))
    await ask(frontend, nodes=[one.node])
    await wait_until_commanded(frontend, one)
    await one.move(10.0, phase="staging")
    await lose(database)
    await put_staged(database, node_of(other))
    await wait_until_commanded(frontend, one, times=2)
    assert [place.kind for place in one.loads[1].places] == ["node", "library"]
    assert frontend.library.entered == ["chat"]


async def test_library_that_is_away_for_a_moment_now_and_then_causes_no_fetch(
    database: Database, hub: Hub, frontend: LoadFrontend
) -> None:
    (one,) = await machines(database, hub, "a")
    await put_model(database, files=("model.gguf",))
    await ask(frontend)
    await wait_until_commanded(frontend, one)
    await one.move(10.0, phase="staging")

    async def pass_time(seconds: int) -> None:
        for _ in range(seconds):
            frontend.clock.ahead += 1
            await frontend.run()

    for _ in range(2):
        await sql(database, "UPDATE library_files SET holder = 'frontend-9', is_shared = false")
        await pass_time(int(LOST_S) // 2)
        await sql(database, "UPDATE library_files SET holder = 'shared', is_shared = true")
        await pass_time(int(LOST_S))
    assert frontend.library.entered == ["chat"]
