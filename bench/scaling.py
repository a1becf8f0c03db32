"""The scaler's pass over models and replicas of growing number: time, processor time of this side, statements.

Baseline in the same run: the same pass over a hundredth of them.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from pathlib import Path
from statistics import median

from sqlalchemy import text

from bench.report import ReportRow, format_table, print_progress
from corral.adapters.system import SystemClock
from corral.domain.operation import OperationId
from corral.reconcile.leader import LeaderElector
from corral.reconcile.scaling import ScaleRequest, ScalingReconciler
from corral.store.database import Database
from tests.simulation.postgres import postgres_server
from tests.support.databases import fresh_database, make_template
from tests.support.statements import count_statements

SIZES = (1_000, 100, 10)
REPLICAS_PER_MODEL = 10
ROUNDS = 5

_NODES = text("""
    INSERT INTO nodes (id, name, node_type, credential_hash, boot_id, liveness, bus_ok, lease_expires_at, approved_at,
                       holdings_at, slots_reported, cpu_threads, total_ram, available_ram)
    SELECT gen_random_uuid(), 'node-' || n, 'backend', '', 'b', 'alive', true, corral_now() + interval '1 day',
           corral_now(), corral_now(), 4, 64, 68719476736, 34359738368
      FROM generate_series(1, :nodes) AS n
""")
_MODELS = text("""
    INSERT INTO models (name, revision, run_hash, config)
    SELECT 'model-' || n, 1, 'hash', jsonb_build_object('backend', 'fake') FROM generate_series(1, :models) AS n
""")
_RULES = text("""
    INSERT INTO rules (model, min_replicas, max_replicas)
    SELECT 'model-' || n, 1, 20 FROM generate_series(1, :models) AS n WHERE n % 3 = 0
""")
_REPLICAS = text("""
    WITH place AS (SELECT id, row_number() OVER (ORDER BY name) AS n, count(*) OVER () AS total FROM nodes)
    INSERT INTO replicas (id, node_id, model, replica_index, state, address, revision, loaded_at, confirmed_at)
    SELECT gen_random_uuid(), place.id, 'model-' || m, k, 'loaded', '127.0.0.1:1', 'hash', corral_now(), corral_now()
      FROM generate_series(1, :models) AS m, generate_series(0, :each - 1) AS k, place
     WHERE place.n = (m * 7 + k) % place.total + 1
""")


def run() -> str:
    rows = [asyncio.run(_measure(size)) for size in SIZES]
    return format_table(
        f"One pass of the scaler, {REPLICAS_PER_MODEL} replicas of each model, as many nodes as models; "
        f"median of {ROUNDS}",
        rows,
        ratio_of=("pass ms", "CPU ms"),
    )


async def _measure(size: int) -> ReportRow:
    print_progress(f"{size:,} models")
    with tempfile.TemporaryDirectory(prefix="corral-bench-") as folder, postgres_server(Path(folder)) as address:
        await make_template(address)
        async with fresh_database(address) as url:
            return await _passes(url, size)


async def _passes(url: str, size: int) -> ReportRow:
    database = Database(url)
    statements: list[str] = []
    try:
        async with database.transaction() as tx:
            await tx.execute(_NODES, {"nodes": max(size, REPLICAS_PER_MODEL)})
            await tx.execute(_MODELS, {"models": size})
            await tx.execute(_RULES, {"models": size})
            await tx.execute(_REPLICAS, {"models": size, "each": REPLICAS_PER_MODEL})
            await tx.execute(text("ANALYZE"))
        leader = LeaderElector(database, SystemClock(), "bench", 600.0)
        await leader.tick()
        scaling = ScalingReconciler(database, leader, _refuse_request)
        await scaling.tick()
        count_statements(database, statements.append)
        walls, cpus = [], []
        for _ in range(ROUNDS):
            statements.clear()
            wall, cpu = time.perf_counter(), time.process_time()
            await scaling.tick()
            walls.append(time.perf_counter() - wall)
            cpus.append(time.process_time() - cpu)
    finally:
        await database.close()
    return ReportRow(
        f"{size:,} models, {size * REPLICAS_PER_MODEL:,} replicas",
        {"pass ms": median(walls) * 1000, "CPU ms": median(cpus) * 1000, "statements": float(len(statements))},
    )


async def _refuse_request(request: ScaleRequest) -> OperationId:
    raise AssertionError(f"nothing is missing, and {request.model} was requested")
