"""What turns of agents get of skills: a part of the prompt, the names of files, and the bytes that a worker asks for.

Guarantee: a worker reads files of skills that a run is offered, and only while it holds that run. Files are named by
their hashes: one that was changed since the turn began is gone, and never another content under the old name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from corral.domain.agent import Agent
from corral.domain.errors import NotFound
from corral.domain.node import NodeId
from corral.domain.run import RunKind
from corral.domain.skill import DOCUMENT_NAME, Skill, SkillFile, SkillUse
from corral.policy import skills as policy
from corral.policy.agents import read_config
from corral.runs.held_runs import require_held
from corral.skills.skill_document import read_body
from corral.store import agents as agent_store
from corral.store import runs as run_store
from corral.store import skills as store
from corral.store.database import Database, Transaction


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillOffer:
    """What the turn of an LLM agent is given of skills: a part of its instructions, and specifications for its tool."""

    prompt: str = ""
    specs: Sequence[dict[str, Any]] = ()


class AgentSkillReader:
    """Reads files of skills for the workers that execute turns of LLM agents."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def read_content(self, node_id: NodeId, run_id: str, job_id: str, sha256: str) -> bytes:
        """Return the bytes with this hash to the worker that holds a turn whose agent offers them."""
        async with self._database.transaction() as tx:
            found = await run_store.find_run(tx, run_id, reads_request=False)
            run = require_held(found, node_id, job_id, kind=RunKind.AGENT_TURN)
            agent = await agent_store.find_agent(tx, run.agent_id) if run.agent_id else None
            offered = (
                [] if agent is None else await _list_offered(tx, agent, read_config(agent.settings).skills, run.owner)
            )
            content = await store.read_content(tx, [skill.id for skill in offered], sha256) if offered else None
        if content is None:
            raise NotFound(
                "This file of a skill was changed or deleted since the turn began.",
                hint="A new turn reads the present one.",
                code="skill_file_not_found",
            )
        return content


async def offer_skills(tx: Transaction, agent: Agent, use: SkillUse, run_owner: str) -> SkillOffer:
    """Return what a turn of an agent is given of skills."""
    offered = await _list_offered(tx, agent, use, run_owner)
    if not offered:
        return SkillOffer()
    ids = [skill.id for skill in offered]
    documents = await store.list_documents(tx, ids) if use.has_bodies else {}
    bodies = {skill.name: read_body(documents.get(skill.id, "")) for skill in offered}
    files = await store.list_files(tx, ids) if use.has_tool else {}
    specs = [_make_spec(skill, files.get(skill.id, ())) for skill in offered] if use.has_tool else []
    return SkillOffer(prompt=policy.make_prompt(offered, use, bodies), specs=specs)


async def _list_offered(tx: Transaction, agent: Agent, use: SkillUse, run_owner: str) -> list[Skill]:
    if not use.is_enabled:
        return []
    usable = await store.list_skills(tx, agent.owner)
    return policy.choose_offered(usable, use, agent_owner=agent.owner, run_owner=run_owner)


def _make_spec(skill: Skill, files: Sequence[SkillFile]) -> dict[str, Any]:
    document = SkillFile(path=DOCUMENT_NAME, sha256=skill.sha256, size_bytes=skill.document_bytes)
    return {
        "name": skill.name,
        "description": skill.description,
        "files": [
            {"path": file.path, "sha256": file.sha256, "size_bytes": file.size_bytes} for file in (document, *files)
        ],
    }
