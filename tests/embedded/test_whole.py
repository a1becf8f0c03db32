"""The real thing: `corral up` with its own frontend and worker, nothing standing in."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.embedded.cluster import Cluster, eventually


@pytest.fixture
def real(tmp_path: Path) -> Iterator[Cluster]:
    made = Cluster(tmp_path / "home", program=("-m", "corral"))
    try:
        yield made
    finally:
        made.close()


@pytest.mark.behaviour("UP-1")
@pytest.mark.behaviour("SEC-8")
def test_up_creates_a_cluster_with_a_healthy_node(real: Cluster) -> None:
    real.up()
    code, status = real.status()
    assert (code, status["state"]) == (0, "ready")
    assert [node["status"] for node in status["nodes"]] == ["healthy"]
    assert len(status["frontends"]) == 1
    listed = real.run("nodes", "list", "--json")
    assert listed.returncode == 0, listed.stderr
    secrets = real.secrets() | {"stored": "hf_a-token-of-another-service"}
    command, environment = real.command("secrets", "set", "hub"), real.environment()
    stored = subprocess.run(
        command, check=False, env=environment, input=secrets["stored"], capture_output=True, text=True, timeout=60
    )
    assert (stored.returncode, stored.stdout) == (0, ""), stored.stderr

    real.kill("postgres")
    real.kill("frontend")
    eventually(lambda: real.status()[0] == 0)
    assert real.stop() == 0

    assert real.living() == []
    logs = "".join(path.read_text() for path in real.home.logs.iterdir())
    assert [name for name, secret in secrets.items() if secret in logs] == []


@pytest.mark.behaviour("UP-21")
def test_agent_worker_of_up_is_approved_and_takes_runs(real: Cluster) -> None:
    real.up("--agent-worker")
    listed = json.loads(real.run("nodes", "list", "--json").stdout)
    nodes = {node["node_type"]: node for node in listed}
    assert {kind: node["status"] for kind, node in nodes.items()} == {"backend": "healthy", "agent": "healthy"}
    assert (nodes["agent"]["max_runs"], nodes["backend"]["max_runs"]) == (4, 0)
    assert nodes["agent"]["name"] == f"agent-{nodes['backend']['name']}"

    assert real.run("down").returncode == 0

    assert real.wait() == 0
    assert real.living() == []
