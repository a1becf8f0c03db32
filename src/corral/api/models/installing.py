"""Making a model of a gallery's entry, and the operations that fetch and remove its files.

The configuration is written in the transaction that admits the operation: there is no moment in which one is there
without the other. `?plan=true` says what would be written and does nothing.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import Annotated, Any

from fastapi import APIRouter, Body, Depends, Query, Request, Response

from corral.api.backends.first_fetch import wait_for_galleries
from corral.api.backends.fleet import job_out
from corral.api.idempotency import once_as
from corral.api.models.bodies import EntryIn, NameIn, check_sources, serve_as_changed, warnings_of
from corral.api.models.loads import asked_out
from corral.api.operations.views import as_json
from corral.api.parts import OperateIn, Parts, PartsIn
from corral.domain.access import Principal
from corral.domain.errors import Conflict, InvalidRequest, NotFound, Unavailable
from corral.domain.model import ModelConfig
from corral.domain.operation import Operation, OperationKind
from corral.loading.request import Wanted
from corral.models import catalog
from corral.models.gallery import Wish, target_nodes
from corral.operations.admission import Admitted
from corral.policy.models.configuration import SCHEMES, diff, from_mapping, name_in, to_mapping
from corral.policy.models.estimate import estimate
from corral.policy.models.reading import merged
from corral.store import models as store
from corral.store import nodes as node_store
from corral.store import operations as operation_store
from corral.store import rules as rule_store
from corral.store.database import Transaction
from corral.wire.backends import JobOut
from corral.wire.models import ApplyModelIn, AskedModelOut, InstallModelIn, ModelPlanOut, UriIn

router = APIRouter(tags=["models"])
PlanIn = Annotated[bool, Query(description="Only say what would be done.")]
CheckIn = Annotated[
    bool, Query(description="With `plan`: ask the address as well, and say how large it is and where it fits.")
]
# A person waits for it. The hub and registries answer within seconds, or not at all.
CHECK_LIMIT_S = 20.0
_ASKING: dict[str, Any] = {"response_model": AskedModelOut | ModelPlanOut}
_ENDINGS = {".gguf": "llama-cpp", ".onnx": "onnx-embeddings"}
_DOING = {OperationKind.MODEL_INSTALL: "The files of {} are being fetched.", OperationKind.MODEL_DELETE: "{} goes."}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    request: Request
    parts: Parts
    actor: Principal
    plans: bool


async def _asked(request: Request, parts: PartsIn, operator: OperateIn, *, plan: PlanIn = False) -> _Asked:
    await wait_for_galleries(parts)
    return _Asked(request=request, parts=parts, actor=operator, plans=plan)


AskedIn = Annotated[_Asked, Depends(_asked)]


@router.post("/api/models/install/{name:path}", **_ASKING, status_code=202)
async def install(
    asked: AskedIn,
    name: EntryIn,
    variant: Annotated[str, Query(max_length=255)] = "",
    body: Annotated[InstallModelIn | None, Body()] = None,
) -> Response:
    """Make a model of an entry, with the variant that suits the nodes which may get it, and fetch its files. A model
    that is there already has its files fetched."""
    body = body or InstallModelIn()
    wish = Wish(entry=name, name=body.name, variant=variant or body.variant, overrides=body.overrides)
    return await _make(asked, wish)


@router.post("/models/apply", **_ASKING, status_code=202)
async def apply(asked: AskedIn, body: ApplyModelIn) -> Response:
    """The ancestor's way to install: an entry by `id`, or files and settings without one."""
    if body.url or body.config_url:
        raise InvalidRequest(
            "A configuration by its address is not read.",
            hint="Send it: POST /models/import, or `corral models import FILE`.",
            code="bad_model",
        )
    overrides = dict(body.overrides) | ({"files": body.files} if body.files else {})
    if body.id:
        wish = Wish(entry=body.id, name=body.name, variant=body.variant, overrides=overrides)
        return await _make(asked, wish)
    return await _ask(asked, from_mapping(overrides, name=body.name), [])


@router.post("/models/import-uri", **_ASKING, status_code=202)
async def import_uri(asked: AskedIn, body: UriIn, *, check: CheckIn = False) -> Response:
    """Make a model of one address. What it is called and which backend runs it are read off its end, if not said."""
    file = name_in(body.uri)
    ending = f".{file.rpartition('.')[2]}" if "." in file else ""
    backend = body.backend or _ENDINGS.get(ending) or ("llama-cpp" if body.uri.startswith("ollama://") else "")
    name = body.name or file.removesuffix(ending) or body.uri.rstrip("/").rpartition("/")[2]
    _check_scheme(body.uri)
    if not backend:
        raise InvalidRequest(
            "The address does not tell which backend runs it.",
            hint=_one_file(body.uri) or "Name it: --backend BACKEND of the command line, `backend` of the API.",
            code="backend_required",
        )
    config = from_mapping({"backend": backend, "files": [body.uri]}, name=name)
    if asked.plans and check:
        check_sources(asked.parts, config)
        return await _plan(asked.parts, config, warnings_of(asked.parts, config), checks=True)
    return await _ask(asked, config, [])


def _check_scheme(uri: str) -> None:
    scheme, colon, _ = uri.partition(":")
    if colon and not uri.startswith("/") and scheme.lower() not in SCHEMES:
        sources = ", ".join(f"{one}://" for one in SCHEMES if one != "upload")
        raise InvalidRequest(f"{scheme[:20]}:// is no source.", hint=f"Sources are {sources}.", code="unknown_source")


def _one_file(uri: str) -> str:
    """Return the hint for a repository of GGUF files: one of them is a model, all of them are its quantisations."""
    if not uri.startswith("hf://") or not uri.rstrip("/").lower().endswith("-gguf"):
        return ""
    return f"Name one of its files: {uri.rstrip('/')}/FILE.gguf"


async def _make(asked: _Asked, wish: Wish) -> Response:
    """The configuration of an entry. A model that was made of it keeps a variant that was asked for, and what was
    changed by hand; one that was not is left alone."""
    parts = asked.parts
    entry = parts.models.get(wish.entry)
    async with parts.database.transaction() as tx:
        known = await store.find_model(tx, wish.name or (entry.name if entry else wish.entry))
        rule = await rule_store.find_rule(tx, known.name if known else wish.name or wish.entry)
        nodes = target_nodes(await node_store.list_nodes(tx), rule.selector if rule else None)
    if entry is None and known is not None and not wish.overrides and not wish.variant:
        # Not an entry but a model: its files are wanted.
        return await _ask(asked, known.config, [])
    entry = entry or parts.models.find(wish.entry)
    if known is not None and known.config.gallery != entry.id:
        raise Conflict(
            f"There is a model {known.name} already, and it was not made of {entry.id}.",
            hint="Choose another name for the new one.",
            code="model_name_taken",
            details={"name": known.name, "model": known.name},
        )
    pinned = known.config.variant if known and known.config.is_variant_pinned else ""
    complete = replace(wish, entry=entry.id, pinned=pinned)
    config, chosen = parts.models.configure(complete, nodes, parts.catalog)
    if known is not None and known.config.variant == config.variant:
        # What was changed by hand stays; what is asked for now is laid over it.
        config = from_mapping(merged(to_mapping(known.config), dict(wish.overrides or {})), name=known.name)
    return await _ask(asked, config, list(chosen.warnings))


async def _ask(asked: _Asked, config: ModelConfig, warnings: list[str]) -> Response:
    parts = asked.parts
    if not config.gallery:
        check_sources(parts, config)
    warnings = [*warnings, *warnings_of(parts, config)]
    if asked.plans:
        return await _plan(parts, config, warnings)
    operations = parts.loading.loads

    async def work(tx: Transaction) -> tuple[int, bytes]:
        saved = await catalog.put(tx, config, asked.actor.name, note=f"from {config.gallery}" if config.gallery else "")
        wanted = Wanted(kind=OperationKind.MODEL_INSTALL, model=saved.model.name, reason="an admin")
        admitted = await operations.admit_in(tx, wanted, asked.actor.name)
        return 202, as_json(_asked_out(admitted, warnings))

    answer = await once_as(asked.request, parts.database, asked.actor, work)
    await serve_as_changed(parts, [config.name])
    return answer


async def _plan(parts: Parts, config: ModelConfig, warnings: list[str], *, checks: bool = False) -> Response:
    async with parts.database.transaction() as tx:
        known = await store.find_model(tx, config.name)
    entry = parts.models.get(config.gallery) if config.gallery else None
    variant = parts.models.get(f"{entry.gallery}@{config.variant}") if entry and config.variant else entry
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
        out = out.model_copy(update=await _checked(parts, config))
    return Response(out.model_dump_json(), media_type="application/json")


async def _checked(parts: Parts, config: ModelConfig) -> dict[str, Any]:
    """Ask the sources of the files, and return the fields of a plan that follow from their sizes."""
    try:
        async with asyncio.timeout(CHECK_LIMIT_S):
            size = await parts.library.measure(config.files)
    except TimeoutError as error:
        raise Unavailable(
            f"The address did not answer within {CHECK_LIMIT_S:.0f} seconds.",
            hint="Check the address, and whether this frontend reaches it; then try again.",
            code="source_unavailable",
        ) from error
    async with parts.database.transaction() as tx:
        rule = await rule_store.find_rule(tx, config.name)
        nodes = target_nodes(await node_store.list_nodes(tx), rule.selector if rule else None)
    needs = [estimate(config, None, size, node, None) for node in nodes]
    memory = max((need.vram_bytes or need.ram_bytes or 0 for need in needs), default=0) or None
    fits = parts.models.judge(config, memory, nodes, parts.catalog)
    return {"checked": True, "size_bytes": size, "memory_bytes": memory, "fits_on": list(fits.fits_on)}


async def _delete(request: Request, parts: PartsIn, operator: OperateIn, name: NameIn) -> Response:
    """End a model's replicas, remove every copy of its files and forget it, as an operation that can be followed."""
    operations = parts.loading.loads

    async def work(tx: Transaction) -> tuple[int, bytes]:
        wanted = Wanted(kind=OperationKind.MODEL_DELETE, model=name, reason="an admin")
        admitted = await operations.admit_in(tx, wanted, operator.name, queue_behind=True)
        return 202, as_json(_asked_out(admitted, []))

    return await once_as(request, parts.database, operator, work)


for _path, _name in (
    ("/api/models/delete/{name:path}", "delete_model_as_operation"),
    ("/models/delete/{name:path}", "delete_model_as_ancestor"),
):
    router.post(_path, name=_name, response_model=AskedModelOut, status_code=202)(_delete)


def _asked_out(admitted: Admitted, warnings: list[str]) -> AskedModelOut:
    # What was joined may be a load, which fetches the files as well.
    sentence = "" if admitted.is_duplicate else _DOING[admitted.operation.kind].format(admitted.operation.subject)
    out = asked_out(admitted, sentence)
    return out.model_copy(update={"warnings": warnings})


async def _job(parts: PartsIn, _: OperateIn, uid: str) -> JobOut:
    """The ancestor's view of an operation; `/api/operations/{id}` says more."""
    async with parts.database.transaction() as tx:
        operation = await operation_store.get(tx, uid)
    if operation.kind.is_backend:
        raise NotFound(f"Operation {operation.id} is about a backend.", code="operation_not_found")
    return job_out(operation)


for _path, _name in (("/api/models/job/{uid}", "model_job"), ("/models/jobs/{uid}", "model_job_as_ancestor")):
    router.get(_path, name=_name, response_model_exclude_none=True)(_job)


@router.get("/models/jobs", response_model_exclude_none=True)
async def list_jobs(parts: PartsIn, _: OperateIn) -> dict[str, JobOut]:
    """What is under way about models, by id."""
    async with parts.database.transaction() as tx:
        live: list[Operation] = await operation_store.list_listed(tx)
    return {one.id: job_out(one) for one in live if not one.kind.is_backend}
