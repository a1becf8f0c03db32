"""`/api/node/{node_id}/runs/{run_id}/skills`: files of skills that workers read for turns that they hold, and what
their syncs of git repositories have found."""

from __future__ import annotations

import base64
from typing import Annotated

from fastapi import APIRouter, Body, Query, Request

from corral.api.deps import DepsIn, get_bearer_secret
from corral.api.large_body_route import LargeBodyRoute
from corral.api.node_runs import JobIdIn
from corral.domain.errors import InvalidRequest, LimitReached, Unprocessable
from corral.domain.node import NodeId
from corral.skills.archives import read_valid_skills
from corral.skills.repos import SyncDelivery
from corral.wire.run_work import SkillContentOut, SkillSyncIn, SkillSyncOut

router = APIRouter(prefix="/api/node", tags=["node self-service"], route_class=LargeBodyRoute)
HashIn = Annotated[str, Query(max_length=64, description="The sha256 of the file.")]


@router.get("/{node_id}/runs/{run_id}/skills/content")
async def read_skill_content(
    request: Request, deps: DepsIn, node_id: str, run_id: str, sha256: HashIn = "", job_id: JobIdIn = ""
) -> SkillContentOut:
    """Return the file with this hash of a skill that a turn is offered. A turn that the worker does not hold is refused
    with 409."""
    entry = await deps.directory.authenticate_node(node_id, get_bearer_secret(request))
    content = await deps.agents.skills.read_content(NodeId(entry.id), run_id, job_id, sha256)
    return SkillContentOut(content=base64.b64encode(content).decode())


@router.post("/{node_id}/runs/{run_id}/skills")
async def store_synced_skills(
    request: Request, deps: DepsIn, node_id: str, run_id: str, body: Annotated[SkillSyncIn | None, Body()] = None
) -> SkillSyncOut:
    """Store the skills that a sync has found in a git repository, in the place of those that it had. Repeating it
    changes nothing."""
    body = body or SkillSyncIn()
    entry = await deps.directory.authenticate_node(node_id, get_bearer_secret(request), boot_id=body.boot_id)
    await deps.skill_repos.require_held(NodeId(entry.id), run_id, body.job_id)
    try:
        archive = base64.b64decode(body.archive, validate=True)
    except ValueError as error:
        raise InvalidRequest("The archive is not valid base64.", code="bad_archive") from error
    skills, problems = ([], []) if body.is_unchanged else (await deps.compute.run(read_valid_skills, archive))[0]
    delivery = SyncDelivery(
        commit=body.commit, skills=skills, problems=[*body.problems, *problems], is_unchanged=body.is_unchanged
    )
    try:
        repo = await deps.skill_repos.store_delivery(NodeId(entry.id), run_id, body.job_id, delivery)
    except LimitReached as error:
        # Waiting would not help: the sync ends, and its owner learns why.
        raise Unprocessable(error.message, hint=error.hint, code=error.slug) from error
    return SkillSyncOut(skills=repo.skill_count, problem=repo.problem)
