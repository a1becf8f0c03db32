"""Routes that install models from galleries and addresses, and delete them.

The configuration is written in the transaction that admits the operation, so neither exists without the other. With
`?plan=true` nothing is written, and the response shows what would be.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import Annotated, Any

from fastapi import APIRouter, Body, Depends, Query, Request, Response

from corral.api.backends.operation_requests import job_to_wire, wait_for_galleries
from corral.api.deps import ApiDeps, DepsIn, OperatorIn
from corral.api.idempotency import run_once
from corral.api.models.loads import admission_to_wire
from corral.api.models.request_bodies import EntryIn, NameIn, check_sources, list_warnings, refresh_served_models
from corral.api.operations import to_json
from corral.domain.access import Principal
from corral.domain.errors import Conflict, InvalidRequest, NotFound, Unavailable
from corral.domain.model import ModelConfig
from corral.domain.operation import Operation, OperationKind
from corral.loading.admission import ModelOperationSpec
from corral.models import catalog
from corral.models.gallery import GalleryModelRequest, list_target_nodes
from corral.operations.admission import AdmissionResult
from corral.policy.models.configuration import SCHEMES, diff, from_mapping, parse_file_name, to_mapping
from corral.policy.models.estimate import estimate_need
from corral.policy.models.mapping_reader import merge_patch
from corral.store import models as store
from corral.store import nodes as node_store
from corral.store import operations as operation_store
from corral.store import rules as rule_store
from corral.store.database import Transaction
from corral.wire.backends import LocalAiJobOut
from corral.wire.models import ApplyModelIn, ImportUriIn, InstallModelIn, ModelOperationOut, ModelPlanOut

router = APIRouter(tags=["models"])
PlanQuery = Annotated[bool, Query(description="Dry run: only return what would change.")]
CheckQuery = Annotated[
    bool, Query(description="With `plan`: also check the address, and return the size and the nodes with room for it.")
]
# A person waits for the result. The hub and registries respond within seconds, or not at all.
CHECK_LIMIT_S = 20.0
_OPERATION_ROUTE: dict[str, Any] = {"response_model": ModelOperationOut | ModelPlanOut}
_BACKENDS_BY_ENDING = {".gguf": "llama-cpp", ".onnx": "onnx-embeddings"}
_KIND_SENTENCES = {
    OperationKind.MODEL_INSTALL: "The files of {} are being downloaded.",
    OperationKind.MODEL_DELETE: "{} is being deleted.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _InstallCaller:
    """Holds who requests an installation of a model, and whether it is only planned."""

    request: Request
    deps: ApiDeps
    actor: Principal
    is_plan_only: bool


async def _make_caller(
    request: Request, deps: DepsIn, operator: OperatorIn, *, plan: PlanQuery = False
) -> _InstallCaller:
    await wait_for_galleries(deps)
    return _InstallCaller(request=request, deps=deps, actor=operator, is_plan_only=plan)


InstallCallerIn = Annotated[_InstallCaller, Depends(_make_caller)]


@router.post("/api/models/install/{name:path}", **_OPERATION_ROUTE, status_code=202)
async def install_model(
    caller: InstallCallerIn,
    name: EntryIn,
    variant: Annotated[str, Query(max_length=255)] = "",
    body: Annotated[InstallModelIn | None, Body()] = None,
) -> Response:
    """Install a model from a gallery entry, with the variant that fits the suitable nodes, and download its files. For
    an existing model, only the files are downloaded."""
    body = body or InstallModelIn()
    request = GalleryModelRequest(entry=name, name=body.name, variant=variant or body.variant, overrides=body.overrides)
    return await _install_entry(caller, request)


@router.post("/models/apply", **_OPERATION_ROUTE, status_code=202)
async def apply_model(caller: InstallCallerIn, body: ApplyModelIn) -> Response:
    """Install a model (LocalAI-compatible): an entry by `id`, or files and settings without one."""
    if body.url or body.config_url:
        raise InvalidRequest(
            "Installing from the address of a configuration is not supported.",
            hint="Send the configuration itself: POST /models/import, or `corral models import FILE`.",
            code="bad_model",
        )
    overrides = dict(body.overrides) | ({"files": body.files} if body.files else {})
    if body.id:
        request = GalleryModelRequest(entry=body.id, name=body.name, variant=body.variant, overrides=overrides)
        return await _install_entry(caller, request)
    return await _plan_or_admit(caller, from_mapping(overrides, name=body.name), [])


@router.post("/models/import-uri", **_OPERATION_ROUTE, status_code=202)
async def import_model_uri(caller: InstallCallerIn, body: ImportUriIn, *, check: CheckQuery = False) -> Response:
    """Install a model from an address. Name and backend are taken from the address if they are not given."""
    file = parse_file_name(body.uri)
    ending = f".{file.rpartition('.')[2]}" if "." in file else ""
    backend = (
        body.backend or _BACKENDS_BY_ENDING.get(ending) or ("llama-cpp" if body.uri.startswith("ollama://") else "")
    )
    name = body.name or file.removesuffix(ending) or body.uri.rstrip("/").rpartition("/")[2]
    _check_scheme(body.uri)
    if not backend:
        raise InvalidRequest(
            "The backend cannot be inferred from the address.",
            hint=_suggest_one_file(body.uri) or "Give it with --backend on the command line, or `backend` in the API.",
            code="backend_required",
        )
    config = from_mapping({"backend": backend, "files": [body.uri]}, name=name)
    if caller.is_plan_only and check:
        check_sources(caller.deps, config)
        return await _plan_install(caller.deps, config, list_warnings(caller.deps, config), checks=True)
    return await _plan_or_admit(caller, config, [])


def _check_scheme(uri: str) -> None:
    scheme, colon, _ = uri.partition(":")
    if colon and not uri.startswith("/") and scheme.lower() not in SCHEMES:
        sources = ", ".join(f"{one}://" for one in SCHEMES if one != "upload")
        raise InvalidRequest(
            f"{scheme[:20]}:// is not a supported source.", hint=f"Sources are {sources}.", code="unknown_source"
        )


def _suggest_one_file(uri: str) -> str:
    """Return the hint for a repository of GGUF files: one of them is a model, all of them are its quantisations."""
    if not uri.startswith("hf://") or not uri.rstrip("/").lower().endswith("-gguf"):
        return ""
    return f"Name one of its files: {uri.rstrip('/')}/FILE.gguf"


async def _install_entry(caller: _InstallCaller, request: GalleryModelRequest) -> Response:
    """Install the model of a gallery entry. A model that was created from this entry keeps its chosen variant and
    manual changes; a model of the same name that was not is left unchanged."""
    deps = caller.deps
    entry = deps.model_gallery.get(request.entry)
    async with deps.database.transaction() as tx:
        known = await store.find_model(tx, request.name or (entry.name if entry else request.entry))
        rule = await rule_store.find_rule(tx, known.name if known else request.name or request.entry)
        nodes = list_target_nodes(await node_store.list_nodes(tx), rule.selector if rule else None)
    if entry is None and known is not None and not request.overrides and not request.variant:
        # The name is that of a model, not of an entry: fetch its files.
        return await _plan_or_admit(caller, known.config, [])
    entry = entry or deps.model_gallery.find(request.entry)
    if known is not None and known.config.gallery != entry.id:
        raise Conflict(
            f"There is a model {known.name} already, and it was not made from {entry.id}.",
            hint="Choose another name for the new model.",
            code="model_name_taken",
            details={"name": known.name, "model": known.name},
        )
    pinned = known.config.variant if known and known.config.is_variant_pinned else ""
    complete = replace(request, entry=entry.id, pinned=pinned)
    config, chosen = deps.model_gallery.configure(complete, nodes, deps.catalog)
    if known is not None and known.config.variant == config.variant:
        # Manual changes are kept; the overrides of this request are applied on top of them.
        config = from_mapping(merge_patch(to_mapping(known.config), dict(request.overrides or {})), name=known.name)
    return await _plan_or_admit(caller, config, list(chosen.warnings))


async def _plan_or_admit(caller: _InstallCaller, config: ModelConfig, warnings: list[str]) -> Response:
    deps = caller.deps
    if not config.gallery:
        check_sources(deps, config)
    warnings = [*warnings, *list_warnings(deps, config)]
    if caller.is_plan_only:
        return await _plan_install(deps, config, warnings)
    operations = deps.model_operations.admission

    async def work(tx: Transaction) -> tuple[int, bytes]:
        note = f"from {config.gallery}" if config.gallery else ""
        saved = await catalog.put(tx, config, caller.actor.name, note=note, is_admin=caller.actor.is_admin)
        spec = ModelOperationSpec(kind=OperationKind.MODEL_INSTALL, model=saved.model.name, reason="an admin")
        admitted = await operations.admit_in(tx, spec, caller.actor.name)
        return 202, to_json(_admission_to_wire(admitted, warnings))

    answer = await run_once(caller.request, deps.database, caller.actor, work)
    await refresh_served_models(deps, [config.name])
    return answer


async def _plan_install(deps: ApiDeps, config: ModelConfig, warnings: list[str], *, checks: bool = False) -> Response:
    async with deps.database.transaction() as tx:
        known = await store.find_model(tx, config.name)
    entry = deps.model_gallery.get(config.gallery) if config.gallery else None
    variant = deps.model_gallery.get(f"{entry.gallery}@{config.variant}") if entry and config.variant else entry
    out = ModelPlanOut(
        name=config.name,
        variant=config.variant,
        backend=config.backend,
        size_bytes=variant.size_bytes if variant else None,
        config=to_mapping(config),
        exists=known is not None,
        changes=diff(known.config if known else None, config),
        warnings=warnings,
    )
    if checks:
        out = out.model_copy(update=await _measure_sources(deps, config))
    return Response(out.model_dump_json(), media_type="application/json")


async def _measure_sources(deps: ApiDeps, config: ModelConfig) -> dict[str, Any]:
    """Query the sources of the files, and return the fields of a plan that depend on their sizes."""
    try:
        async with asyncio.timeout(CHECK_LIMIT_S):
            size = await deps.library.measure(config.files)
    except TimeoutError as error:
        raise Unavailable(
            f"The address did not respond within {CHECK_LIMIT_S:.0f} seconds.",
            hint="Check the address, and whether this frontend reaches it; then try again.",
            code="source_unavailable",
        ) from error
    async with deps.database.transaction() as tx:
        rule = await rule_store.find_rule(tx, config.name)
        nodes = list_target_nodes(await node_store.list_nodes(tx), rule.selector if rule else None)
    needs = [estimate_need(config, None, size, node, None) for node in nodes]
    memory = max((need.vram_bytes or need.ram_bytes or 0 for need in needs), default=0) or None
    fits = deps.model_gallery.judge_fit(config, memory, nodes, deps.catalog)
    return {"checked": True, "size_bytes": size, "memory_bytes": memory, "fits_on": list(fits.fits_on)}


async def _delete_model(request: Request, deps: DepsIn, operator: OperatorIn, name: NameIn) -> Response:
    """Delete a model, its replicas and all copies of its files, as an operation that can be followed."""
    operations = deps.model_operations.admission

    async def work(tx: Transaction) -> tuple[int, bytes]:
        spec = ModelOperationSpec(kind=OperationKind.MODEL_DELETE, model=name, reason="an admin")
        admitted = await operations.admit_in(tx, spec, operator.name, queue_behind=True)
        return 202, to_json(_admission_to_wire(admitted, []))

    return await run_once(request, deps.database, operator, work)


for _path, _name in (
    ("/api/models/delete/{name:path}", "delete_model_as_operation"),
    ("/models/delete/{name:path}", "delete_model_for_localai"),
):
    router.post(_path, name=_name, response_model=ModelOperationOut, status_code=202)(_delete_model)


def _admission_to_wire(admitted: AdmissionResult, warnings: list[str]) -> ModelOperationOut:
    # The operation that was joined may be a load, which fetches the files as well.
    sentence = (
        "" if admitted.is_duplicate else _KIND_SENTENCES[admitted.operation.kind].format(admitted.operation.subject)
    )
    out = admission_to_wire(admitted, sentence)
    return out.model_copy(update={"warnings": warnings})


async def _show_job(deps: DepsIn, _: OperatorIn, uid: str) -> LocalAiJobOut:
    """Show an operation in LocalAI's form; `/api/operations/{id}` has more details."""
    async with deps.database.transaction() as tx:
        operation = await operation_store.get(tx, uid)
    if operation.kind.is_backend:
        raise NotFound(f"Operation {operation.id} is about a backend.", code="operation_not_found")
    return job_to_wire(operation)


for _path, _name in (("/api/models/job/{uid}", "show_model_job"), ("/models/jobs/{uid}", "show_model_job_for_localai")):
    router.get(_path, name=_name, response_model_exclude_none=True)(_show_job)


@router.get("/models/jobs", response_model_exclude_none=True)
async def list_model_jobs(deps: DepsIn, _: OperatorIn) -> dict[str, LocalAiJobOut]:
    """List running operations about models, by id."""
    async with deps.database.transaction() as tx:
        live: list[Operation] = await operation_store.list_live(tx)
    return {one.id: job_to_wire(one) for one in live if not one.kind.is_backend}
