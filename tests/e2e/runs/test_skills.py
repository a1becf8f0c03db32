"""Skills with real processes: a repository is synced by one worker, and a turn reads a skill on it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.runs.scene import MODEL, runs_of
from tests.support.git_server import git_repository, skill_text

pytestmark = pytest.mark.timeout(420)


@pytest.mark.behaviour("SKILL-2")
@pytest.mark.behaviour("SKILL-5")
async def test_skill_of_a_repository_is_synced_at_one_frontend_and_read_by_a_turn_of_another(tmp_path: Path) -> None:
    body = "Read this. " * 1000
    (tmp_path / "git").mkdir()
    settings = {"CORRAL_ALLOW_PRIVATE_SOURCES": "true"}
    with git_repository(tmp_path / "git") as repository:
        repository.write("pdf/SKILL.md", skill_text("pdf", body=f"{body}The end of the skill."))
        commit = repository.commit()
        async with runs_of(tmp_path, "agent-1", tokens_per_s=200.0, settings=settings) as runs:
            first, second = runs.cluster.frontends
            status, repo = await first.call("POST", "/api/agents/git-repos", {"url": repository.url})
            assert status == 201, repo
            ended = await runs.become(repo["run_id"], "completed", "failed", "lost")
            assert (ended["state"], ended["kind"]) == ("completed", "skill_sync"), ended
            (skill,) = await second.get("/api/agents/skills")
            assert (skill["name"], skill["commit"]) == ("pdf", commit)

            agent = {"name": "reader", "model": MODEL, "enable_skills": True}
            assert (await second.call("POST", "/api/agents", agent))[0] == 201
            message = {"message": 'call request_skill {"name": "pdf"}'}
            status, sent = await second.call("POST", "/api/agents/reader/chat", message)
            assert status == 202, sent
            ended = await runs.become(sent["run_id"], "completed", "failed", "lost")
            assert ended["state"] == "completed", ended
            results = [event for event in await runs.trace(sent["run_id"]) if event["type"] == "tool_result"]
            assert "The end of the skill." in results[0]["data"]["content"], results
