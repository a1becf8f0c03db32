"""A registry with nodes, a small catalog, and the parts of other processes that these tests play themselves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from sqlalchemy import text

from corral.adapters.system import SystemIdGenerator
from corral.backends.catalog import BackendCatalog
from corral.backends.index import BackendIndex
from corral.domain.backend import (
    Assignment,
    BackendSource,
    BackendVersion,
    GalleryEntry,
    InstalledBackend,
    Manifest,
    SourceKind,
)
from corral.domain.node import NodeId
from corral.domain.operation import Operation, OperationKind
from corral.operations import backend_plan
from corral.operations.admission import AdmissionControllers, AdmissionResult
from corral.operations.backend_plan import BackendOperationSpec
from corral.operations.backend_pool import BackendAdmissionController, make_backend_pool
from corral.operations.command_sender import CommandSender, NullDispatchMetrics
from corral.operations.driver import OperationPool
from corral.ports.bus import Bus
from corral.store import assignments as assignment_store
from corral.store import operations as operation_store
from corral.store.database import Database
from tests.support.polling import eventually

ids = SystemIdGenerator()
BOOT = "boot-one"
SIZE = 1000


def _version(name: str, version: str) -> BackendVersion:
    return BackendVersion(
        version=version,
        source=BackendSource(kind=SourceKind.BUNDLED, uri=f"{name}-{version}", size_bytes=SIZE),
        manifest=Manifest(),
    )


def _concrete(name: str, *versions: str) -> GalleryEntry:
    return GalleryEntry(name=name, gallery="corral", versions=tuple(_version(name, item) for item in versions))


ENTRIES = (
    GalleryEntry(
        name="engine", gallery="corral", capabilities={"cpu": "cpu-engine", "nvidia": "cuda-engine"}, tags=("llm",)
    ),
    _concrete("cpu-engine", "2.0", "1.0"),
    _concrete("cuda-engine", "2.0"),
    GalleryEntry(name="gpu-only", gallery="corral", capabilities={"nvidia": "cuda-thing"}),
    _concrete("cuda-thing", "1.0"),
    _concrete("solo", "1.0"),
    _concrete("odd:name", "1.0"),
)


def catalog(database: Database | None = None) -> BackendCatalog:
    """Without a database it is never loaded, and needs none."""
    return BackendCatalog(cast("Database", database), built_in=BackendIndex(entries=ENTRIES, warnings=()))


def admission(database: Database) -> BackendAdmissionController:
    return BackendAdmissionController(database, catalog(database), ids)


def admissions(database: Database) -> AdmissionControllers:
    return {"backend": admission(database)}


def make_pool(database: Database, bus: Bus, builds: BackendCatalog) -> OperationPool:
    sender = CommandSender(bus, limit=128, metrics=NullDispatchMetrics())
    return make_backend_pool(BackendAdmissionController(database, builds, ids), sender, builds, ids)


def make_spec(backend: str = "engine", kind: str = "install", **more: Any) -> BackendOperationSpec:
    return BackendOperationSpec(kind=OperationKind(f"backend_{kind}"), backend=backend, **more)


async def admit(database: Database, spec: BackendOperationSpec, actor: str = "ann", **options: Any) -> AdmissionResult:
    return await admission(database).admit(spec, actor, **options)


async def put_nodes(database: Database, *names: str, **columns: Any) -> list[NodeId]:
    """Approved nodes that are alive and on the bus, straight into the registry. `columns` are SQL."""
    values = {
        "node_type": "'backend'",
        "credential_hash": "''",
        "boot_id": f"'{BOOT}'",
        "liveness": "'alive'",
        "bus_ok": "true",
        "lease_expires_at": "corral_now() + interval '1 hour'",
        "approved_at": "corral_now()",
        "backends_at": "corral_now()",
    } | columns
    rows = [{"id": ids.new_id(), "name": name} for name in names]
    async with database.transaction() as tx:
        await tx.execute(
            text(
                f"INSERT INTO nodes (id, name, {', '.join(values)}) VALUES (:id, :name, {', '.join(values.values())})"
            ),
            rows,
        )
    return [NodeId(row["id"]) for row in rows]


async def put_installed(database: Database, node: NodeId, *items: InstalledBackend) -> None:
    async with database.transaction() as tx:
        await assignment_store.replace_installed_many(tx, {node: items})


def there(name: str = "cpu-engine", version: str = "1.0", **more: Any) -> InstalledBackend:
    values = {"meta": "engine" if name.endswith("-engine") else "", "gallery": "corral"} | more
    return InstalledBackend(name=name, version=version, **values)


async def sql(database: Database, statement: str, **parameters: Any) -> list[Any]:
    async with database.transaction() as tx:
        found = await tx.execute(text(statement), parameters)
        return list(found.all()) if found.returns_rows else []


async def begin(database: Database, operation: Operation, owner: str = "frontend-1") -> Operation:
    """What a dispatcher does first: claim the operation, plan it, and write its targets and assignments."""
    await sql(
        database,
        "UPDATE operations SET state = 'running', owner = :owner, lease_until = corral_now() + interval '30 s',"
        " fence = fence + 1, started_at = corral_now() WHERE id = CAST(:id AS uuid)",
        id=operation.id,
        owner=owner,
    )
    async with database.transaction() as tx:
        planned = await backend_plan.plan(tx, BackendOperationSpec.from_json(operation.request), catalog(database))
        await assignment_store.assign(tx, operation, planned.targets, ids)
        return await operation_store.get(tx, operation.id)


async def begun(database: Database, spec: BackendOperationSpec, actor: str = "ann") -> Operation:
    return await begin(database, (await admit(database, spec, actor)).operation)


async def set_targets(database: Database, operation: Operation, state: str, *nodes: NodeId) -> None:
    """Act as if these workers had reported it; without nodes, all of them."""
    end = "NULL" if state in ("queued", "working", "unconfirmed") else "corral_now()"
    await sql(
        database,
        f"UPDATE operation_targets SET state = :state, contacted_at = corral_now(), finished_at = {end}"
        " WHERE operation_id = CAST(:id AS uuid) AND (:everybody OR node = ANY(CAST(:nodes AS uuid[])))",
        id=operation.id,
        state=state,
        nodes=list(nodes),
        everybody=not nodes,
    )


async def set_state(database: Database, operation: Operation, state: str, **columns: Any) -> None:
    """As a dispatcher writes it, along the allowed way. `columns` are SQL."""
    ended = state in ("completed", "failed", "cancelled", "superseded")
    values = {"finished_at": "corral_now()" if ended else "NULL", "due_at": "NULL"} | columns
    written = ", ".join(f"{name} = {value}" for name, value in values.items())
    await sql(
        database,
        f"UPDATE operations SET state = :state, {written} WHERE id = CAST(:id AS uuid)",
        id=operation.id,
        state=state,
    )


async def fail(database: Database, operation: Operation, **columns: Any) -> None:
    values = {"error_code": "'digest_mismatch'", "error_text": "'gpu-a: the file is not what was promised'"} | columns
    await set_state(database, operation, "failed", **values)


async def read(database: Database, operation: Operation) -> Operation:
    async with database.transaction() as tx:
        return await operation_store.get(tx, operation.id)


async def listed(database: Database) -> list[str]:
    async with database.transaction() as tx:
        return [operation.id for operation in await operation_store.list_live(tx)]


async def recorded(database: Database) -> list[str]:
    async with database.transaction() as tx:
        return [record.operation.id for record in await operation_store.list_history(tx)]


async def list_assignments(database: Database) -> list[Assignment]:
    async with database.transaction() as tx:
        return [item.assignment for item in await assignment_store.list_assignments(tx)]


async def is_due(database: Database, operation: Operation) -> bool:
    rows = await sql(
        database, "SELECT due_at <= corral_now() AS due FROM operations WHERE id = CAST(:id AS uuid)", id=operation.id
    )
    return bool(rows[0].due)


async def count_lock_waits(database: Database) -> int:
    """Return how many sessions wait for a lock."""
    rows = await sql(
        database,
        "SELECT count(*) AS number FROM pg_stat_activity"
        " WHERE datname = current_database() AND wait_event_type = 'Lock'",
    )
    return int(rows[0].number)


async def wait_for_locks(database: Database, count: int) -> None:
    """Wait until so many sessions wait for a lock."""

    async def look() -> bool:
        return await count_lock_waits(database) >= count

    await eventually(look)


def states(operation: Operation) -> dict[str, str]:
    return {target.node_name: str(target.state) for target in operation.targets}


def names(items: Sequence[Any]) -> list[str]:
    return sorted(item.node.name for item in items)
