"""`GET /system` and `GET /backend/monitor`: what is loaded, and what the engines use of their machines.

Memory and processor are measured by the workers when somebody asks; a node that does not answer is named, and the rest
is told all the same.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

from fastapi import APIRouter, Query

from corral.api.parts import OperateIn, PartsIn
from corral.domain.errors import NotFound
from corral.domain.replica import ReplicaState
from corral.nodes import processes
from corral.nodes.processes import NodeProcessesReport
from corral.store import installed as installed_store
from corral.store import models as model_store
from corral.store import nodes as node_store
from corral.store import replicas as replica_store
from corral.wire.backends import LoadedModelOut, MemoryInfoOut, MonitoredProcessOut, MonitorOut, SystemOut

router = APIRouter(tags=["backends"])


@router.get("/system")
async def show_system(parts: PartsIn, _: OperateIn) -> SystemOut:
    """The backends that are installed on some node, and every loaded replica with the memory that it took when it was
    loaded. `/backend/monitor` measures anew."""
    async with parts.database.transaction() as tx:
        installed = await installed_store.list_installed(tx)
        nodes = {node.id: node for node in await node_store.list_nodes(tx)}
        replicas = await replica_store.list_replicas(tx)
    return SystemOut(
        backends=sorted({one.name for found in installed.values() for one in found}),
        loaded_models=[
            LoadedModelOut(
                id=replica.model,
                backend=replica.backend,
                node_id=replica.node_id,
                node_name=nodes[replica.node_id].name,
                replica_index=replica.index,
                ram_bytes=replica.ram_bytes,
                vram_bytes=replica.vram_bytes,
            )
            for replica in replicas
            if replica.state is ReplicaState.LOADED and replica.node_id in nodes
        ],
    )


@router.get("/backend/monitor")
async def monitor_engines(
    parts: PartsIn,
    _: OperateIn,
    model: Annotated[str, Query(max_length=255, description="Only its engines; absent: those of all models.")] = "",
) -> MonitorOut:
    """Memory and processor of every engine process of a model, measured by the workers now; 404 if it is loaded
    nowhere."""
    async with parts.database.transaction() as tx:
        name = (await model_store.get_model(tx, model)).name if model else ""
        replicas = await replica_store.list_replicas(tx, model=name or None)
        holders = sorted({one.node_id for one in replicas})
        nodes = await node_store.list_nodes(tx, only=holders)
    if name and not replicas:
        raise NotFound(f"{name} is loaded nowhere.", code="model_not_loaded")
    reports = await processes.measure_nodes(parts.database, parts.bus, nodes)
    return _monitor_out(name, reports)


def _monitor_out(model: str, reports: list[NodeProcessesReport]) -> MonitorOut:
    found = [
        MonitoredProcessOut(**asdict(process), node_id=report.node.id, node_name=report.node.name)
        for report in reports
        for process in report.processes
        if model in ("", process.model)
    ]
    rss = sum(process.ram_bytes or 0 for process in found)
    total = sum(report.node.hardware.total_ram or 0 for report in reports if report.processes)
    return MonitorOut(
        model=model,
        memory_info=MemoryInfoOut(rss=rss),
        memory_percent=round(100.0 * rss / total, 2) if total else 0.0,
        cpu_percent=round(sum(process.cpu_percent or 0.0 for process in found), 1),
        processes=sorted(found, key=lambda process: (process.key, process.node_name)),
        unreachable={report.node.name: report.problem for report in reports if report.problem},
    )
