"""Starts fine-tunings, gives their workers what they need, keeps their checkpoints, and ends them with one.

A fine-tuning is one run of a trainer on a backend node. Guarantees: a checkpoint counts once all its files are in the
library, and one more attempt of the run goes on from the newest; a job that is stopped with a checkpoint can go on as
another job on any node. The curve is the trace of the run: it is complete whether or not it is watched. Limit: the
steps behind the newest checkpoint are lost with a worker.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from corral.domain.access import Principal
from corral.domain.errors import Conflict, InvalidRequest, NotFound
from corral.domain.fine_tuning import Checkpoint, Dataset, FineTune, RunFile, make_checkpoint_name
from corral.domain.model import Model
from corral.domain.node import NodeId
from corral.domain.run import Run, RunBudgets, RunKind, RunState
from corral.operations.backend_plan import BuildCatalog
from corral.policy import fine_tuning as policy
from corral.policy.catalog import find_capability
from corral.policy.datasets import check_columns
from corral.policy.gallery import build_to_json
from corral.runs.artifacts import ArtifactService
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
from corral.store.fine_tunes import NewFineTune
from corral.store.runs import NewRun

# A training lasts for days.
WALL_S = 7 * 86400.0
# Of each job; older ones are deleted.
CHECKPOINTS_MAX = 3
# Files of one checkpoint: shards of the weights and of the optimizer.
FOLDER_FILES_MAX = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class FineTuneSpec:
    """A request for a fine-tuning: the base model, the dataset, the settings, and what it goes on from."""

    model: str
    dataset: str
    # As they were sent.
    settings: Mapping[str, Any] = field(default_factory=dict)
    backend: str = policy.BACKEND
    # A job, or a job and a checkpoint: `ID/checkpoint-20`.
    resume_from: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FineTuneServiceDeps:
    """Dependencies of a frontend's service for fine-tunings: database, runs, files, and the catalog of backends."""

    database: Database
    runs: RunService
    artifacts: ArtifactService
    catalog: BuildCatalog
    allows_inline_rewards: bool = False


class FineTuneService:
    """Starts, stops and deletes fine-tunings, and serves their workers. Implements `RunKindHandler`."""

    def __init__(self, deps: FineTuneServiceDeps) -> None:
        self._deps = deps

    # --- owners ---

    async def create(
        self, tx: Transaction, caller: Principal, spec: FineTuneSpec, source_bytes: int | None
    ) -> FineTune:
        """Start a fine-tuning inside a larger transaction. `source_bytes`: the size of the model's files, if the
        registry does not know it."""
        parameters = policy.parse_parameters(spec.settings, allows_inline_rewards=self._deps.allows_inline_rewards)
        self._deps.catalog.find(spec.backend)
        model = await model_store.get_model(tx, spec.model)
        policy.require_source(model)
        dataset = await self.get_dataset(tx, spec.dataset, str(caller.owner))
        check_columns(parameters["training_method"], dataset.columns)
        earlier, step = await self._find_earlier(tx, spec.resume_from, str(caller.owner), parameters, model)
        needs = policy.compute_needs(model, source_bytes, dataset.size_bytes, parameters)
        run = NewRun(
            kind=RunKind.FINE_TUNE,
            owner=caller.owner,
            owner_name=caller.name,
            key_id=caller.key_id,
            subject=model.name,
            request={"model": model.name, "dataset": dataset.name, "needs": asdict(needs)},
            budgets=RunBudgets(wall_s=WALL_S, steps=None),
        )
        # First, because without any node its sentence says more.
        run_id = await self._deps.runs.admission.start(tx, run)
        await require_room(tx, RunKind.FINE_TUNE, needs)
        new = NewFineTune(
            model=model.name,
            backend=spec.backend,
            method=parameters["training_method"],
            training_type=parameters["training_type"],
            dataset_id=dataset.id,
            dataset_name=dataset.name,
            parameters=parameters,
            resumed_from="" if earlier is None else f"{earlier.id}/{make_checkpoint_name(step)}",
        )
        await store.insert_fine_tune(tx, run_id, new)
        if earlier is not None:
            found = next(one for one in await store.list_checkpoints(tx, earlier.id) if one.step == step)
            await file_store.copy_files(tx, earlier.id, found.name, run_id)
            await store.put_checkpoint(tx, run_id, _inherit(found))
        return await store.get_fine_tune(tx, run_id)

    async def get_dataset(self, tx: Transaction, reference: str, owner: str | None) -> Dataset:
        found = await store.find_dataset(tx, reference, owner) if reference else None
        if found is None:
            raise NotFound(
                f"There is no dataset {reference[:80]!r}.",
                hint="Upload it: corral fine-tune datasets upload FILE",
                code="dataset_not_found",
            )
        return found

    async def _find_earlier(
        self, tx: Transaction, text: str, owner: str, parameters: Mapping[str, Any], model: Model
    ) -> tuple[FineTune | None, int]:
        """Return the job whose checkpoint a new one begins with, and the step of that checkpoint."""
        if not text:
            return None, 0
        job_id, step = policy.parse_checkpoint(text)
        earlier = await store.get_fine_tune(tx, job_id, owner=owner)
        step = (await self.get_checkpoint(tx, earlier.id, step)).step
        for name, old, new in (
            ("model", earlier.model, model.name),
            ("training_method", str(earlier.method), parameters["training_method"]),
            ("training_type", earlier.training_type, parameters["training_type"]),
            ("adapter_rank", earlier.parameters.get("adapter_rank"), parameters["adapter_rank"]),
        ):
            if old != new:
                raise InvalidRequest(
                    f"The checkpoint is of a training with {name} {old}, and this one has {new}.",
                    hint=f"Go on with {name} {old}, or begin without resume_from_checkpoint.",
                    code="other_training",
                )
        return earlier, step

    async def get_checkpoint(self, tx: Transaction, job_id: str, step: int | None) -> Checkpoint:
        """Return a checkpoint of a job; without a step the newest."""
        found = await store.list_checkpoints(tx, job_id)
        chosen = next((one for one in found if step in (None, one.step)), None)
        if chosen is None:
            raise NotFound(
                f"The fine-tuning {job_id} has no checkpoint{'' if step is None else f' of step {step}'}.",
                hint=f"corral fine-tune show {job_id}",
                code="no_checkpoint",
            )
        return chosen

    async def stop(self, job_id: str, owner: str | None, actor: str, *, saves: bool) -> None:
        """End a fine-tuning: with a checkpoint behind the present step, or at once. Before its training has begun it
        ends at once, because there is nothing to save."""
        async with self._deps.database.transaction() as tx:
            job = await store.get_fine_tune(tx, job_id, owner=owner, locks=True)
            is_waiting = job.run_state in (RunState.QUEUED, RunState.LEASED)
            if saves and not is_waiting and not job.run_state.is_final:
                await store.request_stop(tx, job.id)
                return
        await self._deps.runs.cancel(job.id, owner, actor)

    async def delete(self, job_id: str, owner: str | None) -> tuple[FineTune, list[str]]:
        """Delete a fine-tuning that has ended, with its checkpoints. Models that were registered stay. Return it with
        the hashes of its files."""
        async with self._deps.database.transaction() as tx:
            job = await store.get_fine_tune(tx, job_id, owner=owner, locks=True)
            exports = await store.list_exports(tx, job.id)
            if not job.run_state.is_final or any(one.status == "exporting" for one in exports):
                what = "is being exported" if job.run_state.is_final else "has not ended"
                raise Conflict(
                    f"The fine-tuning of {job.model} {what}.",
                    hint=f"Stop it first: corral fine-tune stop {job.id}",
                    code="fine_tune_active",
                )
            own_runs = [job.id, *(one.run_id for one in exports if one.run_id is not None)]
            hashes = await file_store.list_hashes(tx, own_runs)
            for run_id in reversed(own_runs):
                await run_store.delete_run(tx, run_id)
        return job, hashes

    # --- workers ---

    async def build_spec(self, tx: Transaction, run: Run) -> dict[str, Any]:
        job = await store.get_fine_tune(tx, run.id)
        dataset = await self.get_dataset(tx, job.dataset_id, job.owner)
        checkpoints = await store.list_checkpoints(tx, job.id)
        assert run.node_id is not None, "a run whose work is fetched is held by a node"
        node = await node_store.get_node(tx, run.node_id)
        build = self._deps.catalog.resolve(job.backend, find_capability(node.hardware))
        extra = {
            "build": build_to_json(build),
            "needs": dict(job.needs),
            "parameters": dict(job.parameters),
            "model": job.model,
            "dataset": {"format": dataset.format, "sha256": dataset.sha256, "size_bytes": dataset.size_bytes},
            "checkpoint": checkpoints[0].name if checkpoints else "",
        }
        return {"model": "", "budgets": make_budgets(run), "extra": extra}

    async def on_run_ended(self, tx: Transaction, ending: RunEnding) -> None:
        """Keep the last line of the trainer."""
        result = ending.outcome.get("result")
        if isinstance(result, Mapping):
            await store.record_result(tx, ending.run.id, result)

    async def find_held(self, node_id: NodeId, run_id: str, job_id: str) -> FineTune:
        """Return the fine-tuning that a worker holds. Raises `Conflict` if another worker or none holds it now."""
        async with self._deps.database.transaction() as tx:
            run = await run_store.find_run(tx, run_id, reads_request=False)
            require_held(run, node_id, job_id, kind=RunKind.FINE_TUNE)
            return await store.get_fine_tune(tx, run_id)

    async def list_checkpoint_files(self, job_id: str, step: int | None) -> list[RunFile]:
        """Return the files of a checkpoint; without a step those of the newest, or none if there is none."""
        async with self._deps.database.transaction() as tx:
            known = await store.list_checkpoints(tx, job_id)
            chosen = next((one for one in known if step in (None, one.step)), None)
            return [] if chosen is None else await file_store.list_files(tx, job_id, chosen.name)

    async def read_dataset(self, job: FineTune, start_byte: int, limit: int) -> bytes:
        """Return bytes of the dataset of a job from a position on: `limit`, or fewer at its end."""
        return await self._deps.artifacts.read_range(job.dataset_id, start_byte, limit)

    async def record_checkpoint(
        self, holder: tuple[NodeId, str, str], checkpoint: Checkpoint
    ) -> tuple[list[Checkpoint], list[str]]:
        """Record that all files of a checkpoint are in the library. Return the checkpoints that are kept, and the
        hashes of files that are needed no more."""
        node_id, run_id, job_id = holder
        async with self._deps.database.transaction() as tx:
            run = await lock_held(tx, run_id, node_id, job_id, kind=RunKind.FINE_TUNE)
            if not await file_store.list_files(tx, run.id, checkpoint.name):
                raise InvalidRequest("The checkpoint has no files.", code="empty_checkpoint")
            await store.put_checkpoint(tx, run.id, checkpoint)
            exporting = [one.step for one in await store.list_exports(tx, run.id) if one.status == "exporting"]
            steps = await store.delete_checkpoints(tx, run.id, keep=CHECKPOINTS_MAX)
            kept = [make_checkpoint_name(step) for step in {*steps, *exporting}]
            dropped = await file_store.delete_folders(tx, run.id, keep=kept)
            return await store.list_checkpoints(tx, run.id), dropped


async def record_run_file(database: Database, holder: tuple[NodeId, str, str], file: RunFile) -> None:
    """Record a file that the program of a run has made and sent into the library."""
    node_id, run_id, job_id = holder
    async with database.transaction() as tx:
        run = await lock_held(tx, run_id, node_id, job_id)
        if len(await file_store.list_files(tx, run.id, file.folder)) >= FOLDER_FILES_MAX:
            raise InvalidRequest(f"A folder of a run has at most {FOLDER_FILES_MAX} files.", code="too_many_files")
        await file_store.put_file(tx, file)


def make_budgets(run: Run) -> dict[str, Any]:
    return {"wall_s": run.budgets.wall_s, "steps": None, "tool_calls": None, "tokens": None}


def _inherit(found: Checkpoint) -> Checkpoint:
    return Checkpoint(
        step=found.step,
        epoch=found.epoch,
        loss=found.loss,
        created_at=found.created_at,
        size_bytes=found.size_bytes,
        is_inherited=True,
    )
