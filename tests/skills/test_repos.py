"""Git repositories: their skills appear together, carry the commit, are read-only, and vanish.

The worker of a sync is the test, which executes it with the runner's own code; the server is git's own.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from corral.domain.errors import CorralError
from corral.runner import git_fetch
from corral.runner.git_fetch import GitFetchError, fetch_repo
from corral.runner.skill_sync import SkillSyncExecution
from corral.skills.archives import read_skills
from corral.wire.run_work import RunOutcome, RunSpec
from tests.agents.hand_worker import HandWorker, join_worker, make_key
from tests.support.frontends import ADMIN_KEY, RunningFrontend, running_frontend
from tests.support.git_server import GitRepository, git_repository, skill_text

REPOS, SKILLS = "/api/agents/git-repos", "/api/agents/skills"


@pytest.fixture
async def frontend(database_url: str) -> AsyncIterator[RunningFrontend]:
    """A frontend that allows sources on this machine."""
    async with running_frontend(database_url, allows_private_sources=True) as running:
        yield running


@pytest.fixture
def repository(tmp_path: Path) -> Iterator[GitRepository]:
    with git_repository(tmp_path) as served:
        served.write("skills/pdf/SKILL.md", skill_text("pdf", "About PDFs."))
        served.write("skills/pdf/scripts/run.py", "print()")
        served.write("skills/xls/SKILL.md", skill_text("xls"))
        served.write("README.md", "not a skill")
        served.commit()
        yield served


class SyncWorker:
    """Executes syncs of a frontend as the worker of an agent node does."""

    def __init__(self, frontend: RunningFrontend, worker: HandWorker) -> None:
        self.frontend = frontend
        self.worker = worker

    async def execute(self, run_id: str) -> RunOutcome:
        """Execute a sync and conclude its run."""
        outcome = await self.fetch(run_id, await self.worker.take(run_id))
        await self.worker.end(run_id, outcome.content, **outcome.model_dump(exclude={"content", "messages"}))
        return outcome

    async def fetch(self, run_id: str, spec: dict[str, Any]) -> RunOutcome:
        async def store(fields: Mapping[str, Any]) -> Mapping[str, Any]:
            status, answer = await self.deliver(run_id, **fields)
            if status != 200:
                raise CorralError(answer["error"]["message"], code=answer["error"]["code"])
            return dict(answer)

        return await SkillSyncExecution(RunSpec.model_validate(spec), store).run()

    async def deliver(self, run_id: str, *, job_id: str = "", **fields: Any) -> tuple[int, Any]:
        body = {"job_id": job_id or self.worker.jobs[run_id], **fields}
        return await self.worker.node.call("POST", f"/runs/{run_id}/skills", body)


@pytest.fixture
async def worker(frontend: RunningFrontend) -> SyncWorker:
    return SyncWorker(frontend, await join_worker(frontend))


async def add(frontend: RunningFrontend, url: str, *, key: str = ADMIN_KEY, **fields: Any) -> Any:
    status, made = await frontend.call("POST", REPOS, {"url": url} | fields, key=key)
    assert status == 201, made
    return made


async def list_skills(frontend: RunningFrontend, *, key: str = ADMIN_KEY) -> dict[str, Any]:
    _, found = await frontend.call("GET", SKILLS, key=key)
    return {skill["name"]: skill for skill in found}


async def show(frontend: RunningFrontend, repo: Any) -> Any:
    status, shown = await frontend.call("GET", f"{REPOS}/{repo['id']}")
    assert status == 200, shown
    return shown


async def sync(frontend: RunningFrontend, repo: Any) -> str:
    status, started = await frontend.call("POST", f"{REPOS}/{repo['id']}/sync")
    assert status == 201, started
    return str(started["run_id"])


@pytest.mark.behaviour("SKILL-5")
async def test_skills_of_a_repository_appear_after_the_sync_with_their_commit_and_are_read_only(
    frontend: RunningFrontend, worker: SyncWorker, repository: GitRepository
) -> None:
    repo = await add(frontend, repository.url)
    assert await list_skills(frontend) == {}
    assert (await worker.execute(repo["run_id"])).state == "completed"
    commit = repository.git("rev-parse", "HEAD")
    found = await list_skills(frontend)
    assert {name: (skill["source"], skill["commit"], skill["read_only"]) for name, skill in found.items()} == {
        "pdf": ("git", commit, True),
        "xls": ("git", commit, True),
    }
    assert (await frontend.call("GET", f"{SKILLS}/pdf/resources/scripts/run.py"))[1] == "print()"
    shown = await show(frontend, repo)
    assert (shown["commit"], shown["skills"], shown["problem"]) == (commit, 2, "")
    assert shown["synced_at"] is not None
    for method, path, body in (
        ("PUT", "/pdf", {"description": "mine"}),
        ("DELETE", "/pdf", None),
        ("PUT", "/pdf/resources/x", b"x"),
        ("DELETE", "/pdf/resources/scripts/run.py", None),
    ):
        status, refused = await frontend.call(
            method,
            f"{SKILLS}{path}",
            body,
            content_type="application/octet-stream" if body == b"x" else "application/json",
        )
        assert (status, refused["error"]["code"]) == (409, "skill_read_only"), path


@pytest.mark.behaviour("SKILL-5")
async def test_later_sync_replaces_all_skills_and_one_without_a_new_commit_changes_none(
    frontend: RunningFrontend, worker: SyncWorker, repository: GitRepository
) -> None:
    repo = await add(frontend, repository.url)
    await worker.execute(repo["run_id"])
    before = await list_skills(frontend)
    assert "2 skills" in (await worker.execute(await sync(frontend, repo))).content
    assert await list_skills(frontend) == before
    repository.git("rm", "-r", "skills/xls")
    repository.write("skills/pdf/SKILL.md", skill_text("pdf", "Better."))
    repository.write("top/doc/SKILL.md", skill_text("doc"))
    commit = repository.commit()
    await worker.execute(await sync(frontend, repo))
    found = await list_skills(frontend)
    assert {name: skill["commit"] for name, skill in found.items()} == {"doc": commit, "pdf": commit}
    assert found["pdf"]["description"] == "Better."


@pytest.mark.behaviour("SKILL-5")
async def test_sync_that_fails_changes_no_skill_and_says_why(
    frontend: RunningFrontend, worker: SyncWorker, repository: GitRepository
) -> None:
    repo = await add(frontend, repository.url)
    await worker.execute(repo["run_id"])
    before = await list_skills(frontend)
    repository.folder.rename(repository.folder.with_name("moved"))
    outcome = await worker.execute(await sync(frontend, repo))
    assert (outcome.state, outcome.error_code) == ("failed", "skill_sync_failed")
    assert await list_skills(frontend) == before
    shown = await show(frontend, repo)
    assert "no git repository" in shown["problem"]
    assert shown["commit"] == before["pdf"]["commit"]


@pytest.mark.behaviour("SKILL-5")
async def test_delivery_that_is_repeated_or_of_a_worker_that_does_not_hold_the_sync_changes_nothing(
    frontend: RunningFrontend, worker: SyncWorker, repository: GitRepository
) -> None:
    repo = await add(frontend, repository.url)
    run_id = repo["run_id"]
    spec = await worker.worker.take(run_id)
    await worker.fetch(run_id, spec)
    before = set(await list_skills(frontend))
    await worker.fetch(run_id, spec)
    assert set(await list_skills(frontend)) == before == {"pdf", "xls"}
    status, refused = await worker.deliver(run_id, job_id="another", commit="x")
    assert (status, refused["error"]["code"]) == (409, "run_not_held")
    status, refused = await worker.deliver(run_id, commit="x", archive="no base64!")
    assert (status, refused["error"]["code"]) == (400, "bad_archive")
    assert set(await list_skills(frontend)) == before


@pytest.mark.behaviour("SKILL-5")
async def test_skill_of_a_repository_that_cannot_be_taken_is_left_out_and_named(
    frontend: RunningFrontend, worker: SyncWorker, repository: GitRepository
) -> None:
    await frontend.call("POST", SKILLS, {"name": "xls", "description": "My own."})
    repository.write("skills/broken/SKILL.md", "no front matter")
    repository.write("skills/big/SKILL.md", skill_text("big"))
    repository.write("skills/big/data.bin", bytes(2 << 20))
    repository.write("skills/linked/SKILL.md", skill_text("linked"))
    (repository.folder / "skills/linked/passwd").symlink_to("/etc/passwd")
    repository.write("skills/odd/SKILL.md", skill_text("odd"))
    repository.write("skills/odd/a\\b", "x")
    repository.commit()
    repo = await add(frontend, repository.url)
    await worker.execute(repo["run_id"])
    found = await list_skills(frontend)
    assert {name: skill["source"] for name, skill in found.items()} == {"pdf": "git", "xls": "inline"}
    problem = (await show(frontend, repo))["problem"]
    for words in (
        "skills/broken:",
        "data.bin is larger",
        "passwd is a link",
        "leads out of",
        "xls: another skill has this name",
    ):
        assert words in problem
    await frontend.call("DELETE", f"{SKILLS}/xls")
    await worker.execute(await sync(frontend, repo))
    assert (await list_skills(frontend))["xls"]["source"] == "git"


@pytest.mark.behaviour("SKILL-6")
async def test_skills_vanish_when_their_repository_is_disabled_or_deleted(
    frontend: RunningFrontend, worker: SyncWorker, repository: GitRepository
) -> None:
    repo = await add(frontend, repository.url)
    await worker.execute(repo["run_id"])
    status, disabled = await frontend.call("POST", f"{REPOS}/{repo['id']}/toggle")
    assert (status, disabled["enabled"], disabled["skills"]) == (200, False, 0)
    assert await list_skills(frontend) == {}
    status, refused = await frontend.call("POST", f"{REPOS}/{repo['id']}/sync")
    assert (status, refused["error"]["code"]) == (409, "skill_repo_disabled")
    _, enabled = await frontend.call("POST", f"{REPOS}/{repo['id']}/toggle", {"enabled": True})
    await worker.execute(enabled["run_id"])
    assert set(await list_skills(frontend)) == {"pdf", "xls"}
    assert (await frontend.call("DELETE", f"{REPOS}/{repo['id']}"))[0] == 204
    assert await list_skills(frontend) == {}
    assert (await frontend.call("GET", f"{REPOS}/{repo['id']}"))[0] == 404


@pytest.mark.behaviour("SKILL-6")
@pytest.mark.parametrize("how", ["disable", "delete"])
async def test_sync_that_is_under_way_brings_no_skill_back(
    frontend: RunningFrontend, worker: SyncWorker, repository: GitRepository, how: str
) -> None:
    repo = await add(frontend, repository.url)
    spec = await worker.worker.take(repo["run_id"])
    if how == "disable":
        await frontend.call("POST", f"{REPOS}/{repo['id']}/toggle", {"enabled": False})
    else:
        await frontend.call("DELETE", f"{REPOS}/{repo['id']}")
    outcome = await worker.fetch(repo["run_id"], spec)
    assert (outcome.state, outcome.error_code) == ("failed", "run_not_held")
    assert await list_skills(frontend) == {}
    _, run = await frontend.call("GET", f"/api/runs/{repo['run_id']}")
    assert run["state"] == "cancelled"


async def test_sync_that_has_not_ended_is_joined(
    frontend: RunningFrontend, worker: SyncWorker, repository: GitRepository
) -> None:
    repo = await add(frontend, repository.url)
    assert await sync(frontend, repo) == repo["run_id"]
    await worker.execute(repo["run_id"])
    assert await sync(frontend, repo) != repo["run_id"]


async def test_repository_is_moved_to_another_branch_and_keeps_its_skills_until_then(
    frontend: RunningFrontend, worker: SyncWorker, repository: GitRepository
) -> None:
    repo = await add(frontend, repository.url)
    await worker.execute(repo["run_id"])
    repository.git("checkout", "-b", "next")
    repository.write("skills/new/SKILL.md", skill_text("new"))
    repository.commit()
    repository.git("checkout", "main")
    body = {"url": repository.url, "branch": "next"}
    status, moved = await frontend.call("PUT", f"{REPOS}/{repo['id']}", body)
    assert (status, moved["branch"], moved["skills"]) == (200, "next", 2), moved
    await worker.execute(moved["run_id"])
    assert set(await list_skills(frontend)) == {"new", "pdf", "xls"}
    status, moved = await frontend.call("PUT", f"{REPOS}/{repo['id']}", body | {"branch": "gone"})
    outcome = await worker.execute(moved["run_id"])
    assert "no branch 'gone'" in outcome.error_text
    assert set(await list_skills(frontend)) == {"new", "pdf", "xls"}


@pytest.mark.behaviour("SKILL-8")
async def test_repository_of_another_owner_does_not_exist_and_only_admins_share_one(
    frontend: RunningFrontend, worker: SyncWorker, repository: GitRepository
) -> None:
    ann, ben = [(await make_key(frontend, name))["key"] for name in ("ann", "ben")]
    repo = await add(frontend, repository.url, key=ann)
    assert (await frontend.call("GET", REPOS, key=ben))[1] == []
    for method, path, body in (
        ("GET", "", None),
        ("PUT", "", {"url": repository.url}),
        ("DELETE", "", None),
        ("POST", "/sync", None),
        ("POST", "/toggle", None),
    ):
        assert (await frontend.call(method, f"{REPOS}/{repo['id']}{path}", body, key=ben))[0] == 404, path
    assert (await frontend.call("POST", REPOS, {"url": repository.url, "shared": True}, key=ben))[0] == 403
    status, refused = await frontend.call("POST", REPOS, {"url": repository.url}, key=ann)
    assert (status, refused["error"]["code"]) == (409, "skill_repo_exists")
    await worker.execute(repo["run_id"])
    shared = await add(frontend, repository.url, shared=True)
    await worker.execute(shared["run_id"])
    assert {name: skill["is_own"] for name, skill in (await list_skills(frontend, key=ben)).items()} == {
        "pdf": False,
        "xls": False,
    }
    private: dict[str, Any] = {"url": repository.url, "shared": False}
    assert (await frontend.call("PUT", f"{REPOS}/{shared['id']}", private))[0] == 200
    assert await list_skills(frontend, key=ben) == {}


async def test_repository_without_an_agent_node_is_refused_and_not_stored(
    frontend: RunningFrontend, repository: GitRepository
) -> None:
    status, refused = await frontend.call("POST", REPOS, {"url": repository.url})
    assert (status, refused["error"]["code"]) == (503, "no_agent_worker")
    assert (await frontend.call("GET", REPOS))[1] == []


@pytest.mark.parametrize(
    ("url", "code"),
    [
        ("", "bad_uri"),
        ("ftp://git.example.org/x", "bad_uri"),
        ("file:///etc", "bad_uri"),
        ("/etc", "bad_uri"),
        ("ext::sh -c id", "bad_uri"),
        ("https://git.example.org/x?y=1", "bad_uri"),
        ("https://user:pass@git.example.org/x", "secret_in_address"),
        ("https://git.example.org/x y", "bad_uri"),
        ("git@git.example.org:/etc/x", "bad_uri"),
    ],
)
async def test_address_that_is_none_of_a_repository_is_refused(frontend: RunningFrontend, url: str, code: str) -> None:
    await join_worker(frontend)
    status, refused = await frontend.call("POST", REPOS, {"url": url})
    assert (status, refused["error"]["code"]) == (400, code), refused


@pytest.mark.behaviour("SKILL-11")
@pytest.mark.parametrize(
    "url",
    ["http://127.0.0.1/x", "https://10.0.0.1/x", "http://[::1]/x", "git@localhost:x/y.git", "http://169.254.169.254/x"],
)
async def test_repository_at_a_private_address_is_refused(database_url: str, url: str) -> None:
    async with running_frontend(database_url) as frontend:
        await join_worker(frontend)
        status, refused = await frontend.call("POST", REPOS, {"url": url})
        assert (status, refused["error"]["code"]) == (422, "private_address"), refused


def make_spec(url: str, **fields: Any) -> RunSpec:
    extra = {"url": url, "branch": "", "commit": "", "is_public_only": True} | fields
    return RunSpec(run_id="r", kind="skill_sync", model="", extra=extra)


async def never_store(fields: Mapping[str, Any]) -> Mapping[str, Any]:
    raise AssertionError(f"nothing is delivered, and certainly not {fields}")


@pytest.mark.behaviour("SKILL-11")
async def test_worker_connects_to_no_private_address(repository: GitRepository) -> None:
    outcome = await SkillSyncExecution(make_spec(repository.url), never_store).run()
    assert (outcome.state, outcome.error_code) == ("failed", "skill_sync_failed")
    assert "private network" in outcome.error_text


@pytest.mark.behaviour("SKILL-11")
def test_redirect_to_a_private_address_is_not_followed(
    tmp_path: Path, repository: GitRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every address of a test is private, so one of two that lead to this machine stands for a public one."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(302)
            self.send_header("Location", repository.url + "/info/refs?service=git-upload-pack")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *args: object) -> None:
            return

    monkeypatch.setattr(git_fetch, "is_private_address", lambda host: host != "127.0.0.2")
    server = ThreadingHTTPServer(("127.0.0.2", 0), Handler)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    folder = tmp_path / "objects"
    folder.mkdir()
    request: dict[str, Any] = {"url": f"http://127.0.0.2:{server.server_address[1]}/x", "is_public_only": True}
    try:
        with pytest.raises(GitFetchError, match="private network"):
            fetch_repo(request, folder)
        request["is_public_only"] = False
        assert fetch_names(request, tmp_path) == ["pdf", "xls"]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def fetch_names(request: Mapping[str, Any], folder: Path) -> list[str]:
    (folder / "others").mkdir()
    found, _ = read_skills(fetch_repo(request, folder / "others").archive)
    return [content.name for content in found]


async def test_server_that_is_no_git_server_ends_the_sync(tmp_path: Path) -> None:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", "5")
            self.end_headers()
            self.wfile.write(b"hello")

        def log_message(self, *args: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        spec = make_spec(f"http://127.0.0.1:{server.server_address[1]}/x", is_public_only=False)
        outcome = await SkillSyncExecution(spec, never_store).run()
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
    assert (outcome.state, outcome.error_code) == ("failed", "skill_sync_failed")
