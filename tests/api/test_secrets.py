"""A secret is shown once, to the one it was made for, and is stored nowhere else."""

from __future__ import annotations

import io
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from sqlalchemy import text

from corral.app.logs import configure_logging
from corral.app.settings.models import LogFormat, LogLevel
from corral.domain.access import CLUSTER
from corral.store.schema import metadata
from tests.access.test_secret_sealer import FIRST
from tests.api.operations import STREAMS, operations
from tests.api.test_authentication import make_key
from tests.support.frontends import ADMIN_KEY, RunningFrontend, running_frontend
from tests.support.nodes import PretendNode, create_join_token

# They ask the worker itself, and here is none: what they say about that holds no secret either.
ASKING_WORKERS = ("/processes", "/backend-logs", "/backend-logs/{key}", "/backend-logs/{key}/download")
# Nothing is being loaded, no content is here, and two revisions or a pattern have to be named.
NOT_THERE = (
    "/agents/collections/{name}",
    "/agents/collections/{name}/entries",
    "/agents/collections/{name}/entries-raw/{entry}",
    "/agents/collections/{name}/entries/{entry}",
    "/agents/collections/{name}/search",
    "/agents/collections/{name}/sources",
    "/agents/git-repos/{repo_id}",
    "/agents/skills/export/{name}",
    "/agents/skills/search",
    "/agents/skills/{name}",
    "/agents/skills/{name}/resources",
    "/agents/skills/{name}/resources/{path}",
    "/fine-tuning/dataset",
    "/fine-tuning/jobs/{job_id}",
    "/fine-tuning/jobs/{job_id}/checkpoints",
    "/fine-tuning/jobs/{job_id}/curve",
    "/fine-tuning/jobs/{job_id}/download",
    "/fine-tuning/jobs/{job_id}/progress",
    "/quantization/jobs/{job_id}",
    "/quantization/jobs/{job_id}/download",
    "/quantization/jobs/{job_id}/progress",
    "/quantization/plan",
    "/runs/{run_id}/document",
    "/runs/{run_id}/skills/content",
    "/agent/schedule",
    "/agents/{name}",
    "/agents/{name}/config",
    "/agents/{name}/export",
    "/agents/{name}/files",
    "/agents/{name}/observables",
    "/agents/{name}/sse",
    "/agents/{name}/status",
    "/agents/{name}/threads",
    "/agents/{name}/threads/{thread_id}",
    "/agents/{name}/threads/{thread_id}/messages",
    "/mcp/servers/{name}",
    "/runs/{run_id}",
    "/runs/{run_id}/trace",
    "/runs/{run_id}/events",
    "/runs/{run_id}/batch/input",
    "/runs/{run_id}/artifacts",
    "/runs/{run_id}/artifacts/{artifact_id}",
    "/files/{file_id}",
    "/files/{file_id}/content",
    "/batches/{batch_id}",
    "/mcp/servers/{model}",
    "/mcp/prompts/{model}",
    "/mcp/resources/{model}",
    "/tasks/{task_id}",
    "/tasks/{task_id}/webhook-secret",
    "/jobs/{job_id}",
    "/jobs/{job_id}/progress",
    "/load-status",
    "/blobs/{sha256}",
    "/chunks",
    "/diff/{name}",
    "/models/job/{uid}",
    "/models/jobs/{uid}",
)
# For browsers: this one has no cookie, and there is no provider.
SESSIONS = ("/session", "/session/oidc", "/session/oidc/callback")
PASSWORD = "the password of a person"
STORED = "hf_a-token-of-another-service-0123456789"
IDS = ("id", "operation", "key id", "user id")
MODEL = "fake-chat"
READING = [operation for operation in operations() if operation.method == "GET" and operation.template not in STREAMS]


@pytest.fixture
async def frontend(database_url: str) -> AsyncIterator[RunningFrontend]:
    """A frontend that can store secrets."""
    async with running_frontend(database_url, sealing_keys=(FIRST,)) as running:
        yield running


async def _all_kinds_of_secret(frontend: RunningFrontend) -> dict[str, str]:
    """One of each, every one used once."""
    token = await create_join_token(frontend, approves=True, max_uses=5)
    worker, agent = PretendNode(frontend, "worker"), PretendNode(frontend, "agent")
    assert (await worker.register(token))[0] == 201
    status, answer = await agent.register(token, node_type="agent", address="")
    assert status == 201, answer
    made = await make_key(frontend, name="person")
    _, rotated = await frontend.call("POST", f"/api/keys/{made['id']}/rotate", Idempotency_Key="idem-secret-7")
    _, user = await frontend.call("POST", "/api/users", {"name": "ada", "password": PASSWORD})
    async with frontend.http.post(f"{frontend.url}/api/session", json={"name": "ada", "password": PASSWORD}) as session:
        cookie = session.cookies["corral_session"].value
    frontend.http.cookie_jar.clear()
    for query in ("", "?scope=cluster"):
        assert (await frontend.call("PUT", f"/api/secrets/hub{query}", {"value": STORED}))[0] == 200
    assert (await frontend.core.secret_store.resolve(CLUSTER, ["hub"]))["hub"].text == STORED
    await worker.heartbeat()
    status, admitted = await worker.call_as_admin("POST", "/backends/install", {"backend": "fake"})
    assert status == 202, admitted
    for path in (f"/api/models/install/{MODEL}", f"/api/rules/{MODEL}"):
        status, admission = await frontend.call("PUT" if "rules" in path else "POST", path, {})
        assert status in (200, 202), admission
    await worker.call_as_admin("POST", "/drain")
    return {
        "operation": admitted["jobID"],
        "join token": token,
        "worker credential": worker.credential,
        "agent credential": agent.credential,
        "agent key": answer["api_token"],
        "old key": made["key"],
        "new key": rotated["key"],
        "admin key": ADMIN_KEY,
        "idempotency key": "idem-secret-7",
        "password": PASSWORD,
        "session": cookie,
        "stored secret": STORED,
        "id": worker.id,
        "key id": made["id"],
        "user id": user["id"],
    }


def _assert_none_in(secrets: dict[str, str], haystack: str, where: str) -> None:
    for what, secret in secrets.items():
        if what not in IDS:
            assert secret not in haystack, f"{what} in {where}"
            assert secret[10:26] not in haystack, f"part of {what} in {where}"


@pytest.mark.behaviour("OPS-93")
async def test_responses_of_reading_calls_hold_no_secret(frontend: RunningFrontend) -> None:
    secrets = await _all_kinds_of_secret(frontend)
    for operation in READING:
        path = operation.path(
            node=secrets["id"],
            node_id=secrets["id"],
            operation_id=secrets["operation"],
            uid=secrets["operation"],
            name=MODEL,
            model=MODEL,
            key_id=secrets["key id"],
            user_id=secrets["user id"],
        )
        key = secrets["worker credential"] if operation.is_for_nodes else ADMIN_KEY
        status, answer = await frontend.call("GET", path, key=key)
        is_there = status == 200 or operation.template.endswith(("/readyz", *ASKING_WORKERS, *NOT_THERE, *SESSIONS))
        assert is_there, f"{operation}: {answer}"
        _assert_none_in(secrets, json.dumps(answer), str(operation))


@pytest.mark.behaviour("OPS-93")
async def test_tables_hold_no_secret(frontend: RunningFrontend) -> None:
    """Outbox and audit included: whoever reads the database, or the events, gets in with nothing found there."""
    secrets = await _all_kinds_of_secret(frontend)
    filled = 0
    async with frontend.database.transaction() as tx:
        for table in metadata.sorted_tables:
            rows = [str(row[0]) for row in await tx.execute(text(f'SELECT row_to_json(t) FROM "{table.name}" t'))]
            filled += bool(rows)
            _assert_none_in(secrets, "\n".join(rows), table.name)
    assert filled >= 8


@pytest.mark.behaviour("OPS-93")
@pytest.mark.parametrize("log_format", list(LogFormat))
async def test_log_holds_no_secret_even_at_the_lowest_level(
    database_url: str, log_format: LogFormat, request: pytest.FixtureRequest
) -> None:
    written = io.StringIO()
    restore = remember_logging()
    request.addfinalizer(restore)
    configure_logging(log_format, LogLevel.DEBUG, stream=written)
    async with running_frontend(database_url, sealing_keys=(FIRST,)) as frontend:
        secrets = await _all_kinds_of_secret(frontend)
        await _provoke_errors(frontend, secrets)
    lines = written.getvalue()
    assert "loop" in lines
    _assert_none_in(secrets, lines, "the log")


async def _provoke_errors(frontend: RunningFrontend, secrets: dict[str, str]) -> None:
    """Secrets where they do not belong: in addresses, names, wrong fields, wrong routes."""
    for secret in (secret for secret in secrets.values() if secret.startswith("c")):
        await frontend.call("GET", f"/api/nodes/{secret}")
        await frontend.call("GET", f"/api/nodes?selector={secret}", key=secret)
        await frontend.call("POST", "/api/node/register", {"name": "x", "credential": secret, "boot_id": 7}, key=secret)
        await frontend.call("POST", "/api/tokens", {"token": secret})
        await frontend.call("POST", f"/api/node/{secret}/heartbeat", b"{" + secret.encode(), key=secret)


def remember_logging() -> Any:
    """What undoes `configure_logging`: other tests of this process have a set-up of their own."""
    import logging  # noqa: PLC0415 - only here

    import structlog  # noqa: PLC0415 - only here

    root = logging.getLogger()
    handlers, level, before = root.handlers[:], root.level, structlog.get_config()

    def restore() -> None:
        root.handlers[:] = handlers
        root.setLevel(level)
        structlog.configure(**before)
        logging.captureWarnings(capture=False)

    return restore
