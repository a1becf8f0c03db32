"""One secret is used wherever a secret can be; afterwards it is searched in everything that is kept or shown."""

from __future__ import annotations

import asyncio
import base64
import json
import secrets
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import asyncpg
import nats
import pytest
from aiohttp import web

from corral.adapters.nats.credentials import new_user_key, sign_user_token
from corral.adapters.nats.keys import NatsKeyKind, key_from_seed
from corral.bus.subjects import BusPermissions
from tests.bus.nats_server import NatsServer
from tests.e2e.cluster import Cluster, empty_cluster
from tests.runner.scene import SERVERS
from tests.support.children import start_child
from tests.support.polling import eventually
from tests.support.ports import find_free_port

pytestmark = [pytest.mark.timeout(420), pytest.mark.behaviour("RUNS-15")]
CANARY = f"canary-{secrets.token_hex(16)}"
LONG_S = 120.0


def list_forms() -> list[bytes]:
    """Return the secret as it is, and the parts of base64 that it has at each of the three offsets."""
    plain = CANARY.encode()
    encoded = [base64.b64encode(b"x" * offset + plain)[4 if offset else 0 : -4] for offset in range(3)]
    return [plain, *encoded, plain.hex().encode()]


def find_in(text: bytes) -> bool:
    return any(form in text for form in list_forms())


@pytest.fixture
def notes() -> Iterator[Path]:
    """Make a folder that every user can write to: programs of MCP servers run as another user."""
    folder = Path(tempfile.mkdtemp(prefix="corral-test-"))
    folder.chmod(0o777)
    yield folder
    shutil.rmtree(folder)


class BusListener:
    """Keeps every message of Corral's account on the bus."""

    def __init__(self) -> None:
        self.messages: list[bytes] = []

    async def keep(self, message: Any) -> None:
        self.messages.append(f"{message.subject} {message.headers}".encode() + message.data)


@asynccontextmanager
async def listen_to_all(server: NatsServer) -> AsyncIterator[BusListener]:
    seed, public = new_user_key()
    account = key_from_seed(server.authority.account_seed, NatsKeyKind.ACCOUNT)
    allowed = BusPermissions(publish_allow=("nothing",), subscribe_allow=(">",), allow_responses=False)
    token = sign_user_token(account, public, allowed, name="listener", valid=(datetime.now(UTC), 3600))
    key = key_from_seed(seed, NatsKeyKind.USER)
    client = await nats.connect(
        server.url,
        user_jwt_cb=token.encode,
        signature_cb=lambda nonce: base64.b64encode(key.sign(nonce.encode())),
    )
    listener = BusListener()
    await client.subscribe(">", cb=listener.keep)
    await client.flush()
    try:
        yield listener
    finally:
        await client.close()


@asynccontextmanager
async def receive_webhooks() -> AsyncIterator[tuple[str, list[str]]]:
    """Run a receiver; yield its address and the values of the header that it got."""
    received: list[str] = []

    async def receive(request: web.Request) -> web.Response:
        received.append(request.headers.get("X-Key", ""))
        return web.Response()

    application = web.Application()
    application.router.add_post("/hook", receive)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/hook", received
    finally:
        await runner.cleanup()


async def use_everywhere(cluster: Cluster, notes: Path, http_url: str, hook: str) -> list[str]:
    """Use the secret in an environment, in headers of MCP servers and of a webhook; return the ids of the runs."""
    first = cluster.frontends[0]

    async def send(method: str, path: str, body: Any) -> Any:
        status, answer = await first.call(method, path, body)
        assert status < 300, answer
        return answer

    await send("PUT", "/api/secrets/canary", {"value": CANARY})
    await send("PUT", "/api/secrets/canary?scope=cluster", {"value": CANARY})
    await send("PUT", "/api/models/config/m", {"backend": "fake", "options": {"slots": "16"}})
    env = {"NOTES": str(notes), "API_TOKEN": "cluster-secret:canary"}
    program = {"command": sys.executable, "args": [str(SERVERS / "tools.py")], "env": env}
    await send("PUT", "/api/mcp/servers/tools", program)
    remote = {"transport": "http", "url": http_url, "headers": {"Authorization": "Bearer cluster-secret:canary"}}
    await send("PUT", "/api/mcp/servers/remote", remote)
    task = {
        "name": "leak",
        "model": "m",
        "prompt": "call {{ tool }} {{ arguments }}",
        "mcp_stdio_servers": ["tools", "remote"],
        "webhooks": [{"url": hook, "headers": {"X-Key": "Bearer secret:canary"}}],
    }
    await send("POST", "/api/agent/tasks", task)
    agent = {"name": "leaker", "model": "m", "mcp_stdio_servers": ["tools", "remote"]}
    await send("POST", "/api/agents", agent)
    # The tool prints its whole environment, and answers with the secret.
    leak = {"tool": "tools__leak", "arguments": '{"name": "API_TOKEN"}'}
    failure = {"tool": "remote__fail", "arguments": '{"text": "no"}'}
    ids = [(await send("POST", "/api/agent/tasks/leak/execute", body))["job_id"] for body in (leak, failure)]
    message = f"call {leak['tool']} {leak['arguments']}"
    return [*ids, (await send("POST", "/api/agents/leaker/chat", {"message": message}))["run_id"]]


async def find_in_database(url: str) -> list[str]:
    """Return the tables with a row that has the secret."""
    connection = await asyncpg.connect(url)
    try:
        tables = await connection.fetch(
            "SELECT format('%I.%I', schemaname, tablename) AS name FROM pg_tables"
            " WHERE schemaname NOT IN ('pg_catalog', 'information_schema')"
        )
        assert len(tables) > 20
        found = []
        for row in tables:
            rows = await connection.fetch(f"SELECT t::text AS text FROM {row['name']} t")
            if any(find_in(each["text"].encode()) for each in rows):
                found.append(row["name"])
        return found
    finally:
        await connection.close()


def find_in_files(folder: Path) -> list[str]:
    """Return the files of the cluster that hold the secret: homes, states, logs, and PostgreSQL's own."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert len(files) > 100
    return [str(path) for path in files if find_in(path.read_bytes())]


async def test_secret_that_is_used_everywhere_is_kept_and_shown_nowhere(tmp_path: Path, notes: Path) -> None:
    key_file = tmp_path / "secrets.key"
    key_file.write_text(base64.b64encode(secrets.token_bytes(32)).decode() + "\n")
    key_file.chmod(0o600)
    port = find_free_port()
    command = [sys.executable, str(SERVERS / "tools.py"), "http", str(port)]
    async with (
        empty_cluster(tmp_path) as cluster,
        listen_to_all(cluster.nats) as bus,
        receive_webhooks() as (hook, received),
    ):
        with start_child(command, env={"NOTES": str(tmp_path), "PATH": "/usr/bin:/bin"}, stderr=-3) as remote:
            await cluster.postgres.start()
            cluster.frontend_settings = {
                "CORRAL_SECRETS_KEY_FILE": str(key_file),
                "CORRAL_ALLOW_PRIVATE_WEBHOOKS": "true",
                "CORRAL_ACCESS_LOG": "json",
            }
            await cluster.add_frontends(2)
            await cluster.join("engines")
            cluster.worker_settings = {"CORRAL_NODE_TYPE": "agent", "CORRAL_LOG_LEVEL": "debug"}
            await cluster.join("agent-1")
            ids = await use_everywhere(cluster, notes, f"http://127.0.0.1:{port}/mcp", hook)

            async def have_ended() -> bool:
                runs = [await cluster.frontends[1].get(f"/api/runs/{run_id}") for run_id in ids]
                assert all(run["state"] not in ("failed", "lost") for run in runs), runs
                return len(received) == 2 and all(run["state"] == "completed" for run in runs)

            await eventually(have_ended, within_s=LONG_S)
            # The secret was really used, and really reached the tool.
            assert received == [f"Bearer {CANARY}"] * 2
            traces = json.dumps([await cluster.frontends[1].get(f"/api/runs/{run_id}/trace") for run_id in ids])
            assert "the value is" in traces
            await _assert_in_no_answer(cluster, ids)
            assert await find_in_database(cluster.postgres.url) == []
            assert bus.messages
            assert not [message[:200] for message in bus.messages if find_in(message)]
            for program in cluster.programs:
                await program.end()
            await cluster.postgres.stop()
            assert await asyncio.to_thread(find_in_files, tmp_path) == []
            remote.kill()


async def _assert_in_no_answer(cluster: Cluster, ids: list[str]) -> None:
    paths = ["/api/runs", "/api/agents", "/api/agents/leaker", "/api/agents/leaker/config", "/api/agents/leaker/export"]
    paths += ["/api/agents/leaker/observables", "/api/agents/leaker/status", "/api/agents/leaker/threads"]
    paths += ["/api/mcp/servers", "/api/agent/tasks", "/api/agent/jobs", "/api/secrets", "/api/secrets?scope=cluster"]
    paths += ["/api/audit", "/api/operations", "/openapi.json", "/metrics", "/api/nodes"]
    paths += [f"/api/runs/{run_id}{part}" for run_id in ids for part in ("", "/trace")]
    paths += [f"/api/agent/jobs/{run_id}" for run_id in ids[:2]]
    for frontend in cluster.frontends:
        for path in paths:
            status, answer = await frontend.call("GET", path)
            assert status == 200, (path, answer)
            text = answer if isinstance(answer, str) else json.dumps(answer)
            assert not find_in(text.encode()), path
