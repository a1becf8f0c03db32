"""Starts quantisations, gives their workers what they need, and takes the results in as models.

A quantisation is one run of a program on a backend node. Guarantees: a result counts only once its bytes are in the
library and their header names the type that was requested; a result that is delivered twice is taken once; a name that
is taken by then costs the registration and not the result. Limit: a result that is no model goes with its run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from corral.domain.access import Principal
from corral.domain.errors import Conflict, CorralError, NotFound, Unprocessable
from corral.domain.model import Model, ModelFacts, ModelProvenance, StoredFile
from corral.domain.node import Node, NodeId
from corral.domain.quantization import Quantization
from corral.domain.run import Run, RunBudgets, RunKind
from corral.models import catalog as model_catalog
from corral.models.catalog import require_free_name
from corral.operations.backend_plan import BuildCatalog
from corral.policy import quantization as policy
from corral.policy.catalog import find_capability
from corral.policy.gallery import build_to_json
from corral.ports.runtime import IdGenerator
from corral.runs.held_runs import lock_held, require_held
from corral.runs.pool import RunEnding
from corral.runs.program_room import require_room
from corral.runs.service import RunService
from corral.store import models as model_store
from corral.store import nodes as node_store
from corral.store import quantizations as store
from corral.store import runs as run_store
from corral.store.database import Database, Transaction
from corral.store.quantizations import NewQuantization, QuantizationResult
from corral.store.runs import NewRun

# A model of hundreds of gigabytes takes hours to fetch, to work on and to send.
WALL_S = 24 * 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class QuantizationSpec:
    """A request for a quantisation: the model, the type of the weights, and the name that the result gets."""

    model: str
    weight_type: str
    # Empty: the result is kept and not registered.
    name: str = ""
    backend: str = policy.BACKEND
    # Of a LoRA adapter: the model that the result changes.
    base: str = ""
    # The path of an importance matrix among the model's files.
    imatrix: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedQuantization:
    """What the worker of a quantisation reports about its result."""

    sha256: str
    tool: str
    source_types: Sequence[str]
    is_requantized: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class QuantizationServiceDeps:
    """Dependencies of a frontend's service for quantisations: database, ids, runs, and the catalog of backends."""

    database: Database
    ids: IdGenerator
    runs: RunService
    catalog: BuildCatalog


class QuantizationService:
    """Starts and deletes quantisations, serves their workers, and registers results. Implements `RunKindHandler`."""

    def __init__(self, deps: QuantizationServiceDeps) -> None:
        self._deps = deps

    # --- owners ---

    async def create(
        self, tx: Transaction, caller: Principal, spec: QuantizationSpec, source_bytes: int | None
    ) -> Quantization:
        """Start a quantisation inside a larger transaction. `source_bytes`: the size of the model's files, if the
        registry does not know it."""
        weight_type = policy.parse_weight_type(spec.weight_type)
        self._deps.catalog.find(spec.backend)
        model = await model_store.get_model(tx, spec.model)
        if model.files is not None:
            policy.choose_source(model, spec.imatrix)
        if spec.name:
            await require_free_name(tx, spec.name)
        base = await model_store.get_model(tx, spec.base) if spec.base else None
        adapter = policy.choose_base(model, base, weight_type)
        needs = policy.compute_needs(model, model.payload_bytes or source_bytes, weight_type)
        run = NewRun(
            kind=RunKind.QUANTIZE,
            owner=caller.owner,
            owner_name=caller.name,
            key_id=caller.key_id,
            subject=model.name,
            request={"model": model.name, "weight_type": weight_type.name, "needs": asdict(needs)}
            | ({"adapter": asdict(adapter)} if adapter is not None else {})
            | ({"imatrix": spec.imatrix} if spec.imatrix else {}),
            budgets=RunBudgets(wall_s=WALL_S, steps=None),
        )
        # First, because without any node its sentence says more.
        run_id = await self._deps.runs.admission.start(tx, run)
        await require_room(tx, RunKind.QUANTIZE, needs)
        new = NewQuantization(model=model.name, backend=spec.backend, weight_type=weight_type.name, name=spec.name)
        await store.insert_quantization(tx, run_id, new)
        return await store.get_quantization(tx, run_id)

    async def delete(self, job_id: str, owner: str | None) -> Quantization:
        """Delete a quantisation that has ended, with its run. A model that was registered stays."""
        async with self._deps.database.transaction() as tx:
            job = await store.get_quantization(tx, job_id, owner=owner)
            if not job.run_state.is_final:
                raise Conflict(
                    f"The quantisation of {job.model} has not ended.",
                    hint=f"Cancel it first: corral quantize cancel {job.id}",
                    code="quantization_active",
                )
            await run_store.delete_run(tx, job.id)
        return job

    async def register(self, tx: Transaction, job: Quantization, name: str, actor: str) -> str:
        """Create the model of a result under a name, inside a larger transaction; return the name. The caller holds
        the lock of the row. Raises `Conflict` if the name is taken."""
        if job.registered_name:
            raise Conflict(
                f"The result is the model {job.registered_name} already.",
                hint=f"corral models show {job.registered_name}",
                code="already_imported",
            )
        if job.config is None or job.provenance is None:
            raise Conflict(
                f"The quantisation of {job.model} has no result yet.",
                hint=f"corral quantize show {job.id}",
                code="no_result",
            )
        await require_free_name(tx, name)
        saved = await model_catalog.create(tx, replace(job.config, name=name), actor, note=_describe(job))
        await model_store.put_provenance(tx, saved.model.name, job.provenance)
        await store.record_registered(tx, job.id, saved.model.name)
        return saved.model.name

    # --- workers ---

    async def build_spec(self, tx: Transaction, run: Run) -> dict[str, Any]:
        job = await store.get_quantization(tx, run.id)
        assert run.node_id is not None, "a run whose work is fetched is held by a node"
        node = await node_store.get_node(tx, run.node_id)
        build = self._deps.catalog.resolve(job.backend, find_capability(node.hardware))
        return {
            "model": "",
            "budgets": {"wall_s": run.budgets.wall_s, "steps": None, "tool_calls": None, "tokens": None},
            "extra": {
                "build": build_to_json(build),
                "weight_type": job.weight_type,
                "needs": dict(job.needs),
                "converter": self._find_converter(node),
                "adapter": dict(job.adapter) or None,
                "imatrix": job.imatrix,
            },
        }

    def _find_converter(self, node: Node) -> dict[str, Any] | None:
        """Return the build that makes GGUF files of safetensors on a node; None without one."""
        try:
            return build_to_json(self._deps.catalog.resolve(policy.CONVERTER, find_capability(node.hardware)))
        except CorralError:
            return None

    async def on_run_ended(self, tx: Transaction, ending: RunEnding) -> None:
        """Do nothing: the result was taken in before the run ended."""
        del tx, ending

    async def find_held(self, node_id: NodeId, run_id: str, job_id: str) -> Quantization:
        """Return the quantisation that a worker holds. Raises `Conflict` if another worker or none holds it now."""
        async with self._deps.database.transaction() as tx:
            run = await run_store.find_run(tx, run_id, reads_request=False)
            require_held(run, node_id, job_id, kind=RunKind.QUANTIZE)
            return await store.get_quantization(tx, run_id)

    async def record_result(
        self,
        tx: Transaction,
        holder: tuple[NodeId, str, str],
        finished: FinishedQuantization,
        size_bytes: int,
        facts: ModelFacts | None,
    ) -> Quantization:
        """Record the result that a worker has sent; `facts` are those of its header. Repeating it changes nothing.

        `holder`: the node, the run and the job. Raises `Unprocessable` for a file of another type."""
        node_id, run_id, job_id = holder
        run = await lock_held(tx, run_id, node_id, job_id, kind=RunKind.QUANTIZE)
        job = await store.get_quantization(tx, run_id, locks=True)
        if job.has_result:
            return job
        if facts is None or not policy.is_of_type(facts.quantisation, job.weight_type):
            found = facts.quantisation if facts is not None and facts.quantisation else "of an unknown type"
            raise Unprocessable(
                f"The result is {found}, and {job.weight_type.upper()} was requested.", code="wrong_weight_type"
            )
        model = await model_store.find_model(tx, job.model)
        if model is None or model.files is None:
            raise NotFound(f"The model {job.model} was deleted meanwhile.", code="model_not_found")
        source = policy.choose_source(model, job.imatrix)
        file_name = policy.make_file_name(source.entry.path, job.weight_type)
        result = StoredFile(path=file_name, sha256=finished.sha256, size_bytes=size_bytes)
        provenance = _make_provenance(run, job, model, source, finished, size_bytes)
        base = str(job.adapter.get("name") or "")
        config = (
            policy.make_adapter_config(model, base, result)
            if base
            else policy.make_result_config(model, source, result)
        )
        await store.record_result(
            tx, job.id, QuantizationResult(file_name=file_name, provenance=provenance, config=config)
        )
        return await store.get_quantization(tx, run_id, locks=True)

    async def register_if_named(self, job: Quantization) -> Quantization:
        """Register a result under the name that was requested with it. A name that is taken by now is noted."""
        if not job.name or job.registered_name:
            return job
        try:
            async with self._deps.database.transaction() as tx:
                locked = await store.get_quantization(tx, job.id, locks=True)
                await self.register(tx, locked, locked.name, locked.owner_name)
        except CorralError as error:
            if error.retryable:
                raise
            async with self._deps.database.transaction() as tx:
                await store.record_problem(tx, job.id, error.message)
        async with self._deps.database.transaction() as tx:
            return await store.get_quantization(tx, job.id)


def _make_provenance(
    run: Run,
    job: Quantization,
    model: Model,
    source: policy.SourceFiles,
    finished: FinishedQuantization,
    size_bytes: int,
) -> ModelProvenance:
    return ModelProvenance(
        run_id=run.id,
        model=model.name,
        sources=policy.list_addresses(model.config.files),
        source_sha256=source.entry.sha256,
        source_types=list(finished.source_types),
        weight_type=job.weight_type,
        is_requantized=finished.is_requantized,
        tool=finished.tool,
        sha256=finished.sha256,
        size_bytes=size_bytes,
        source_bytes=sum(file.size_bytes for file in source.weights),
    )


def _describe(job: Quantization) -> str:
    return f"quantised from {job.model} to {job.weight_type}"
