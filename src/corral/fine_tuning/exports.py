"""Exports of fine-tunings: makes a model of the catalog from a checkpoint.

An adapter is registered at once, because its files are there. A whole model is made by a run on a node with a trainer,
and a quantised one by a quantisation of that. Guarantees: of two exports with one name one is refused with 409; a
result that is delivered twice is taken once; a name that is taken meanwhile fails the export with a sentence.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

from corral.domain.access import Principal
from corral.domain.errors import Conflict, CorralError, Unprocessable
from corral.domain.fine_tuning import (
    ExportFormat,
    ExportStatus,
    FineTune,
    FineTuneExport,
    RunFile,
    TrainingMethod,
    make_checkpoint_name,
)
from corral.domain.node import NodeId
from corral.domain.run import Run, RunBudgets, RunKind, RunState
from corral.fine_tuning.service import FineTuneService, make_budgets
from corral.models import catalog as model_catalog
from corral.models.catalog import require_free_name
from corral.operations.backend_plan import BuildCatalog
from corral.policy import fine_tuning as policy
from corral.policy.catalog import find_capability
from corral.policy.gallery import build_to_json
from corral.policy.quantization import DEFAULT_TYPE, parse_weight_type
from corral.ports.runtime import IdGenerator
from corral.runs.held_runs import lock_held, require_held
from corral.runs.pool import RunEnding
from corral.runs.program_room import require_room
from corral.runs.service import RunService
from corral.store import fine_tunes as store
from corral.store import models as model_store
from corral.store import nodes as node_store
from corral.store import run_files as file_store
from corral.store import runs as run_store
from corral.store.database import Database, Transaction
from corral.store.runs import NewRun

WALL_S = 24 * 3600.0
# The folder of the files that a run of an export makes.
RESULT_FOLDER = "export"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportSpec:
    """A request for an export: what is made of which checkpoint, and the name of the model."""

    format: str
    name: str = ""
    # Empty: the newest.
    checkpoint: str = ""
    weight_type: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportServiceDeps:
    """Dependencies of a frontend's service for exports: database, ids, runs, fine-tunings, the catalog of backends."""

    database: Database
    ids: IdGenerator
    runs: RunService
    jobs: FineTuneService
    catalog: BuildCatalog


class ExportService:
    """Starts exports of fine-tunings, serves their workers, and registers results. Implements `RunKindHandler`."""

    def __init__(self, deps: ExportServiceDeps) -> None:
        self._deps = deps

    async def create(self, tx: Transaction, caller: Principal, job: FineTune, spec: ExportSpec) -> FineTuneExport:
        """Start an export inside a larger transaction; one of an adapter is completed with it."""
        kind = policy.parse_export_format(spec.format)
        weight_type = parse_weight_type(spec.weight_type or DEFAULT_TYPE).name if kind is ExportFormat.GGUF else ""
        if kind is not ExportFormat.LORA and job.method is TrainingMethod.REWARD:
            raise Unprocessable(
                "A reward model judges texts and writes none, so it is no model that answers.",
                hint=f"Export it as {ExportFormat.LORA}, or download it.",
                code="not_exportable",
            )
        step = policy.parse_step(spec.checkpoint) if spec.checkpoint else None
        chosen = await self._deps.jobs.get_checkpoint(tx, job.id, step)
        name = spec.name or policy.make_export_name(job.model, job.id)
        await self._reserve_names(tx, kind, name)
        files = await file_store.list_files(tx, job.id, chosen.name)
        run_id = None
        needs: dict[str, Any] = {}
        if kind is ExportFormat.LORA:
            policy.choose_adapter_files(files)
        else:
            model = await model_store.get_model(tx, job.model)
            room = policy.compute_export_needs(model, chosen.size_bytes)
            needs = asdict(room)
            run_id = await self._deps.runs.admission.start(tx, _make_run(caller, job, needs))
            await require_room(tx, RunKind.FINE_TUNE_EXPORT, room)
            await file_store.copy_files(tx, job.id, chosen.name, run_id)
        made = FineTuneExport(
            id=run_id or self._deps.ids.new_id(),
            job_id=job.id,
            run_id=run_id,
            format=kind,
            weight_type=weight_type,
            name=name,
            step=chosen.step,
            status=ExportStatus.EXPORTING,
            message="",
            registered_name="",
            created_at=job.created_at,
            needs=needs,
        )
        await store.insert_export(tx, made)
        return made

    async def _reserve_names(self, tx: Transaction, kind: ExportFormat, name: str) -> None:
        """Raise `Conflict` if a model, or an export that has not ended, has a name that this one needs."""
        await store.lock_export_names(tx)
        names = [name, policy.make_merged_name(name)] if kind is ExportFormat.GGUF else [name]
        for one in names:
            await require_free_name(tx, one)
            if await store.is_name_reserved(tx, one):
                raise Conflict(
                    f"An export that has not ended is going to be called {one!r}.",
                    hint="Choose another name with --name, or wait for that export.",
                    code="model_name_taken",
                    details={"name": one},
                )

    async def register(self, export: FineTuneExport, files: list[RunFile], actor: str) -> str:
        """Create the model of an export, and return its name; empty, with the reason in the export, if it cannot be.
        Repeating it changes nothing. The export has ended only with `complete`."""
        if export.registered_name:
            return export.registered_name
        name = policy.make_merged_name(export.name) if export.format is ExportFormat.GGUF else export.name
        try:
            async with self._deps.database.transaction() as tx:
                job = await store.get_fine_tune(tx, export.job_id)
                model = await model_store.get_model(tx, job.model)
                await require_free_name(tx, name)
                config = policy.make_result_config(model, name, files)
                if export.format is ExportFormat.LORA:
                    config = replace(config, base=model.name)
                note = f"fine-tuned from {job.model}, step {export.step}"
                saved = await model_catalog.create(tx, config, actor, note=note)
                await store.record_export_model(tx, export.id, saved.model.name)
                return saved.model.name
        except CorralError as error:
            if error.retryable:
                raise
            await self.fail(export, error.message)
            return ""

    async def describe(self, job: FineTune, export: FineTuneExport, name: str) -> str:
        """Return what an export has become, and for an adapter the command with which it goes on."""
        if export.format is not ExportFormat.LORA:
            return f"The export is the model {name}."
        async with self._deps.database.transaction() as tx:
            base = await model_store.find_model(tx, job.model)
            gguf_name = await model_store.find_gguf_of(tx, job.model if base is None else base.name)
            return policy.describe_adapter(name, base, job.method, gguf_name)

    async def complete(self, export: FineTuneExport, name: str, message: str) -> None:
        """End an export well."""
        async with self._deps.database.transaction() as tx:
            await store.end_export(tx, export.id, ExportStatus.COMPLETED, message=message, registered_name=name)

    async def fail(self, export: FineTuneExport, message: str) -> None:
        async with self._deps.database.transaction() as tx:
            await store.end_export(tx, export.id, ExportStatus.FAILED, message=message)

    # --- workers ---

    async def build_spec(self, tx: Transaction, run: Run) -> dict[str, Any]:
        export = await store.find_export_of_run(tx, run.id)
        assert export is not None, "the rows were written together"
        job = await store.get_fine_tune(tx, export.job_id)
        assert run.node_id is not None, "a run whose work is fetched is held by a node"
        node = await node_store.get_node(tx, run.node_id)
        build = self._deps.catalog.resolve(job.backend, find_capability(node.hardware))
        extra = {
            "build": build_to_json(build),
            "needs": dict(export.needs),
            "parameters": {"action": "export"},
            "model": job.model,
            "checkpoint": make_checkpoint_name(export.step),
        }
        return {"model": "", "budgets": make_budgets(run), "extra": extra}

    async def on_run_ended(self, tx: Transaction, ending: RunEnding) -> None:
        """Fail an export whose run has ended without a model."""
        export = await store.find_export_of_run(tx, ending.run.id, locks=True)
        if export is None:
            return
        reason = "it was cancelled" if ending.state is RunState.CANCELLED else "its run ended without a result"
        text = ending.fault.text if ending.fault is not None else f"The export made no model: {reason}."
        await store.end_export(tx, export.id, ExportStatus.FAILED, message=text)

    async def find_held(self, node_id: NodeId, run_id: str, job_id: str) -> tuple[FineTuneExport, FineTune]:
        """Return the export whose run a worker holds, and its job."""
        async with self._deps.database.transaction() as tx:
            run = await run_store.find_run(tx, run_id, reads_request=False)
            require_held(run, node_id, job_id, kind=RunKind.FINE_TUNE_EXPORT)
            export = await store.find_export_of_run(tx, require_held(run, node_id, job_id).id)
            assert export is not None, "the rows were written together"
            return export, await store.get_fine_tune(tx, export.job_id)

    async def list_result_files(self, holder: tuple[NodeId, str, str]) -> list[RunFile]:
        """Return the files that the worker of an export has sent. Raises `Unprocessable` if they are no model."""
        node_id, run_id, job_id = holder
        async with self._deps.database.transaction() as tx:
            run = await lock_held(tx, run_id, node_id, job_id, kind=RunKind.FINE_TUNE_EXPORT)
            files = await file_store.list_files(tx, run.id, RESULT_FOLDER)
        names = {file.path for file in files}
        if "config.json" not in names or not any(name.endswith(".safetensors") for name in names):
            raise Unprocessable("The export has sent no whole model.", code="incomplete_export")
        return files


def _make_run(caller: Principal, job: FineTune, needs: dict[str, Any]) -> NewRun:
    return NewRun(
        kind=RunKind.FINE_TUNE_EXPORT,
        owner=caller.owner,
        owner_name=caller.name,
        key_id=caller.key_id,
        subject=job.model,
        request={"model": job.model, "needs": needs},
        budgets=RunBudgets(wall_s=WALL_S, steps=None),
    )
