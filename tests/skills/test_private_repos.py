"""Private git repositories: a worker signs in with a secret of the owner, which is found nowhere else; and syncs that
begin by themselves.
"""

from __future__ import annotations

import io
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from sqlalchemy import text

from corral.app.logs import configure_logging
from corral.app.settings.models import LogFormat, LogLevel
from corral.domain.errors import CorralError, LeaseLost
from corral.policy.skills import compute_next_sync
from corral.runner.git_fetch import fetch_repo
from corral.runner.secret_masker import SecretMasker
from corral.store.schema import metadata
from corral.wire.run_work import RunSpec
from tests.access.test_secret_sealer import FIRST
from tests.agents.hand_worker import join_worker, make_key
from tests.api.test_secrets import remember_logging
from tests.operations.scene import sql
from tests.skills.test_repos import REPOS, SyncWorker, add, list_skills, show
from tests.support.frontends import RunningFrontend, running_frontend
from tests.support.git_server import GitRepository, git_repository, skill_text
from tests.support.polling import eventually

TOKEN = "glpat-the-token-of-the-tests-1234"
PRIVATE: dict[str, Any] = {"secret": "secret:git-token", "username": "ann"}
# An address of the open internet, to which nothing connects here.
PUBLIC = "8.8.8.8"
MAKE_DUE = "UPDATE skill_repos SET next_sync_at = corral_now() - interval '1 second'"


@pytest.fixture
async def frontend(database_url: str) -> AsyncIterator[RunningFrontend]:
    """A frontend that allows sources on this machine, and can store secrets."""
    async with running_frontend(database_url, allows_private_sources=True, sealing_keys=(FIRST,)) as running:
        yield running


@pytest.fixture
async def worker(frontend: RunningFrontend) -> SyncWorker:
    return SyncWorker(frontend, await join_worker(frontend))


@pytest.fixture
def repository(tmp_path: Path) -> Iterator[GitRepository]:
    with git_repository(tmp_path, password=f"ann:{TOKEN}") as served:
        served.write("pdf/SKILL.md", skill_text("pdf"))
        served.commit()
        yield served


async def store_token(frontend: RunningFrontend, value: str = TOKEN) -> None:
    assert (await frontend.call("PUT", "/api/secrets/git-token", {"value": value}))[0] == 200


@pytest.mark.behaviour("SKILL-13")
async def test_private_repository_is_read_with_a_secret_that_is_found_nowhere_else(
    database_url: str, repository: GitRepository, request: pytest.FixtureRequest, capfd: pytest.CaptureFixture[str]
) -> None:
    written = io.StringIO()
    request.addfinalizer(remember_logging())
    configure_logging(LogFormat.JSON, LogLevel.DEBUG, stream=written)
    async with running_frontend(database_url, allows_private_sources=True, sealing_keys=(FIRST,)) as frontend:
        worker = SyncWorker(frontend, await join_worker(frontend))
        await store_token(frontend)
        repo = await add(frontend, repository.url, **PRIVATE)
        assert (repo["secret"], repo["username"]) == ("secret:git-token", "ann")
        spec = await worker.worker.take(repo["run_id"])
        assert spec["repo_password"] == TOKEN
        assert TOKEN not in repr(RunSpec.model_validate(spec))
        outcome = await worker.fetch(repo["run_id"], spec)
        await worker.worker.end(repo["run_id"], outcome.content)
        assert outcome.state == "completed", outcome
        assert set(await list_skills(frontend)) == {"pdf"}
        # A wrong one fails with a sentence, and without the value.
        await store_token(frontend, "glpat-wrong-wrong-wrong")
        _, synced = await frontend.call("POST", f"{REPOS}/{repo['id']}/sync")
        failed = await worker.execute(synced["run_id"])
        assert "does not open it" in failed.error_text
        answers = [
            json.dumps((await frontend.call("GET", path))[1])
            for path in (REPOS, f"/api/runs/{repo['run_id']}", f"/api/runs/{repo['run_id']}/trace", "/api/audit")
        ]
        rows: list[str] = []
        async with frontend.database.transaction() as tx:
            for table in metadata.sorted_tables:
                rows += [str(row[0]) for row in await tx.execute(text(f'SELECT row_to_json(t) FROM "{table.name}" t'))]
    for where in (*answers, *rows, written.getvalue(), *capfd.readouterr(), failed.model_dump_json()):
        assert TOKEN not in where
        assert "glpat-wrong" not in where


@pytest.mark.behaviour("SKILL-13")
async def test_sync_without_its_secret_fails_and_says_so(
    frontend: RunningFrontend, worker: SyncWorker, repository: GitRepository
) -> None:
    public = await add(frontend, repository.url)
    outcome = await worker.execute(public["run_id"])
    assert "needs a secret" in outcome.error_text
    await frontend.call("DELETE", f"{REPOS}/{public['id']}")
    await store_token(frontend)
    repo = await add(frontend, repository.url, **PRIVATE)
    await worker.worker.wait_for(repo["run_id"])
    assert (await frontend.call("DELETE", "/api/secrets/git-token"))[0] == 204
    status, refused = await worker.worker.fetch(repo["run_id"])
    assert (status, refused["error"]["code"]) == (409, "run_failed")

    async def look() -> str:
        return str((await show(frontend, repo))["problem"])

    assert "git-token" in await eventually(look)


@pytest.mark.behaviour("SKILL-13")
@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"secret": TOKEN}, "bad_secret_reference"),
        ({"secret": "secret:"}, "bad_secret_reference"),
        ({"secret": "secret:other"}, "secret_not_found"),
        ({"secret": "cluster-secret:git-token"}, "cluster_secret_refused"),
        ({"secret": "secret:git-token", "username": "a:b"}, "bad_username"),
        ({"username": "ann"}, "bad_skill"),
        ({"sync_interval": "often"}, "bad_interval"),
        ({"sync_interval": 1}, "bad_interval"),
        ({"sync_interval": "60d"}, "bad_interval"),
    ],
)
async def test_definition_with_a_bad_secret_or_interval_is_refused_and_repeats_nothing(
    frontend: RunningFrontend, worker: SyncWorker, fields: dict[str, Any], code: str
) -> None:
    await store_token(frontend)
    status, refused = await frontend.call("POST", REPOS, {"url": "https://git.example.org/x"} | fields)
    assert (status, refused["error"]["code"]) == (400, code), refused
    assert TOKEN not in json.dumps(refused)
    assert (await frontend.call("GET", REPOS))[1] == []


@pytest.mark.behaviour("SKILL-13")
async def test_secret_of_another_owner_is_none_and_a_secret_goes_over_https_only(database_url: str) -> None:
    async with running_frontend(database_url, sealing_keys=(FIRST,)) as frontend:
        await join_worker(frontend)
        await store_token(frontend)
        ben = (await make_key(frontend, "ben"))["key"]
        body = {"url": f"https://{PUBLIC}/x", "secret": "secret:git-token"}
        status, refused = await frontend.call("POST", REPOS, body, key=ben)
        assert (status, refused["error"]["code"]) == (400, "secret_not_found")
        status, refused = await frontend.call("POST", REPOS, body | {"url": f"http://{PUBLIC}/x"})
        assert (status, refused["error"]["code"]) == (400, "secret_without_https")


@contextmanager
def redirecting_server(target: str) -> Iterator[tuple[str, list[str | None]]]:
    """Redirect to an address, and yield the URL with the `Authorization` headers that came."""
    received: list[str | None] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            received.append(self.headers.get("authorization"))
            self.send_response(302)
            self.send_header("Location", f"{target}/info/refs?service=git-upload-pack")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *args: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/x", received
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.mark.behaviour("SKILL-13")
def test_secret_is_not_sent_to_the_host_of_a_redirect(tmp_path: Path) -> None:
    with (
        redirecting_server("http://127.0.0.1:1") as (end, at_end),
        redirecting_server(end) as (url, at_first),
    ):
        request = {"url": url, "username": "ann", "password": TOKEN, "is_public_only": False}
        with pytest.raises(CorralError) as caught:
            fetch_repo(request, tmp_path)
    assert None not in at_first
    assert set(at_end) == {None}
    assert TOKEN not in str(caught.value)


def test_masker_hides_the_password_of_a_sync_while_it_runs() -> None:
    masker, spec = SecretMasker(), RunSpec(run_id="r", kind="skill_sync", model="", repo_password=TOKEN)
    masker.add_run(spec)
    assert TOKEN not in masker.mask(f"fatal: {TOKEN}")
    masker.remove_run(spec)
    assert TOKEN in masker.mask(f"fatal: {TOKEN}")


# --- syncs that begin by themselves ---


async def wait_for_other_run(frontend: RunningFrontend, repo: Any) -> str:
    async def look() -> str:
        run_id = (await show(frontend, repo))["run_id"]
        return "" if run_id == repo["run_id"] else str(run_id)

    return await eventually(look)


@pytest.mark.behaviour("SKILL-14")
async def test_repository_with_an_interval_is_synced_again_by_itself(
    frontend: RunningFrontend, worker: SyncWorker, repository: GitRepository
) -> None:
    await store_token(frontend)
    repo = await add(frontend, repository.url, sync_interval="1h", **PRIVATE)
    assert (repo["sync_interval"], repo["next_sync_at"] is None) == (60.0, False)
    await worker.execute(repo["run_id"])
    repository.write("xls/SKILL.md", skill_text("xls"))
    repository.commit()
    await sql(frontend.database, MAKE_DUE)
    frontend.core.loops.wake("skill syncs")
    assert (await worker.execute(await wait_for_other_run(frontend, repo))).state == "completed"
    assert set(await list_skills(frontend)) == {"pdf", "xls"}
    next_at = datetime.fromisoformat((await show(frontend, repo))["next_sync_at"])
    assert next_at > datetime.now(UTC) + timedelta(minutes=30)
    # Without an interval no sync begins.
    status, changed = await frontend.call("PUT", f"{REPOS}/{repo['id']}", {"url": repository.url} | PRIVATE)
    assert (status, changed["sync_interval"], changed["next_sync_at"]) == (200, None, None)


@pytest.mark.behaviour("SKILL-14")
async def test_time_of_a_repository_is_one_sync_for_any_number_of_frontends_and_none_while_one_is_open(
    database_url: str, frontend: RunningFrontend, worker: SyncWorker, repository: GitRepository
) -> None:
    await store_token(frontend)
    repo = await add(frontend, repository.url, sync_interval=5, **PRIVATE)
    await sql(frontend.database, MAKE_DUE)
    frontend.core.loops.wake("skill syncs")

    async def is_moved_on() -> bool:
        return datetime.fromisoformat((await show(frontend, repo))["next_sync_at"]) > datetime.now(UTC)

    # The first sync is open: the time passes without another.
    await eventually(is_moved_on)
    assert (await show(frontend, repo))["run_id"] == repo["run_id"]
    await worker.execute(repo["run_id"])
    async with running_frontend(database_url, allows_private_sources=True, sealing_keys=(FIRST,)) as second:
        await sql(frontend.database, MAKE_DUE)
        # It does not lead, so its pass starts nothing, whatever it reads.
        with pytest.raises(LeaseLost):
            await second.core.skills.scheduler.tick()
    frontend.core.loops.wake("skill syncs")
    run_id = await wait_for_other_run(frontend, repo)
    await frontend.core.skills.scheduler.tick()
    _, runs = await frontend.call("GET", "/api/runs?state=open")
    assert [run["id"] for run in runs["runs"]] == [run_id]


@pytest.mark.behaviour("SKILL-14")
async def test_sync_that_cannot_begin_is_tried_again_soon_and_a_disabled_repository_waits(
    frontend: RunningFrontend, worker: SyncWorker, repository: GitRepository
) -> None:
    await store_token(frontend)
    repo = await add(frontend, repository.url, sync_interval="30d", **PRIVATE)
    await worker.execute(repo["run_id"])
    assert (await worker.worker.node.call_as_admin("DELETE", ""))[0] in (200, 204)
    await sql(frontend.database, MAKE_DUE)
    frontend.core.loops.wake("skill syncs")

    async def is_deferred() -> bool:
        next_at = datetime.fromisoformat((await show(frontend, repo))["next_sync_at"])
        return datetime.now(UTC) < next_at < datetime.now(UTC) + timedelta(days=1)

    await eventually(is_deferred)
    await frontend.call("POST", f"{REPOS}/{repo['id']}/toggle", {"enabled": False})
    await join_worker(frontend, "agent-2")
    await sql(frontend.database, MAKE_DUE)
    assert await frontend.core.skills.scheduler.tick() == 0
    assert (await show(frontend, repo))["run_id"] == repo["run_id"]


@pytest.mark.parametrize(("late_s", "steps"), [(0, 1), (299, 1), (300, 2), (10_000, 34)])
def test_next_sync_is_a_whole_number_of_intervals_after_the_last(late_s: int, steps: int) -> None:
    due_at = datetime(2026, 1, 1, tzinfo=UTC)
    found = compute_next_sync(due_at, 300.0, due_at + timedelta(seconds=late_s))
    assert found == due_at + steps * timedelta(minutes=5)
