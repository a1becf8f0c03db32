"""The real thing: `corral up` with its own frontend and worker, nothing standing in."""

from __future__ import annotations

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
def test_up_creates_a_cluster_with_a_healthy_node(real: Cluster) -> None:
    real.up()
    code, status = real.status()
    assert (code, status["state"]) == (0, "ready")
    assert [node["status"] for node in status["nodes"]] == ["healthy"]
    assert len(status["frontends"]) == 1
    listed = real.run("nodes", "list", "--json")
    assert listed.returncode == 0, listed.stderr
    secrets = real.secrets()

    real.kill("postgres")
    real.kill("frontend")
    eventually(lambda: real.status()[0] == 0)
    assert real.stop() == 0

    assert real.living() == []
    logs = "".join(path.read_text() for path in real.home.logs.iterdir())
    assert [name for name, secret in secrets.items() if secret in logs] == []
