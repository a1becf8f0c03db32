"""The admin key of `corral up` after a rotation and after it was taken away, with the real frontend and worker."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from corral.embedded.home_status import fetch_response
from tests.embedded.cluster import Cluster, eventually


@pytest.fixture
def real(tmp_path: Path) -> Iterator[Cluster]:
    made = Cluster(tmp_path / "home", program=("-m", "corral"))
    try:
        yield made
    finally:
        made.close()


def _key(cluster: Cluster) -> str:
    return cluster.home.admin_key.read_text().strip()


def _status_of(cluster: Cluster, key: str) -> int | None:
    answer = fetch_response(cluster.snapshot.url, "/api/me", key=key)
    return None if answer is None else answer.status


@pytest.mark.behaviour("KEY-1")
@pytest.mark.behaviour("KEY-2")
def test_file_follows_rotation_and_restart_does_not_bring_the_old_key_back(real: Cluster) -> None:
    real.up()
    old = _key(real)
    rotated = real.run("keys", "rotate", "admin")
    assert rotated.returncode == 0, rotated.stderr
    assert rotated.stdout.strip() == _key(real) != old
    assert str(real.home.admin_key) in rotated.stderr
    assert real.run("nodes", "list").returncode == 0
    assert real.stop() == 0

    real.up()
    assert _status_of(real, old) == 401
    listed = json.loads(real.run("keys", "list", "--json").stdout)
    assert [(key["name"], key["state"]) for key in listed] == [("admin", "active")]
    assert real.status()[0] == 0


@pytest.mark.behaviour("KEY-4")
def test_up_with_revoked_key_gets_ready_and_says_so_and_recover_makes_a_new_key(real: Cluster) -> None:
    real.up()
    assert real.run("keys", "recover").returncode == 1, "the key works: there is nothing to recover"
    refused = real.run("keys", "revoke", "admin", "--yes")
    assert refused.returncode == 1
    assert "corral keys recover" in refused.stderr
    revoked = real.run("keys", "revoke", "admin", "--last")
    assert revoked.returncode == 0, revoked.stderr

    code, status = real.status()
    assert (code, status["state"]) == (1, "degraded")
    assert status["reason"].startswith("Key refused")
    opened = real.run("open", "--no-browser")
    assert (opened.returncode, opened.stdout) == (1, "")
    assert real.stop() == 0

    real.up()
    assert "Key refused" in real.talk
    assert "corral keys recover" in real.talk
    assert "#key=" not in real.talk
    old = _key(real)
    recovered = real.run("keys", "recover")
    assert recovered.returncode == 0, recovered.stderr
    assert _key(real) != old
    assert real.run("keys", "list").returncode == 0
    assert f"#key={_key(real)}" in real.run("open", "--no-browser").stdout
    eventually(lambda: real.status()[0] == 0)
    assert _status_of(real, old) == 401


@pytest.mark.behaviour("KEY-4")
def test_recover_of_stopped_cluster_makes_key_that_works_after_the_start(real: Cluster) -> None:
    real.up()
    old = _key(real)
    assert real.run("keys", "revoke", "admin", "--last").returncode == 0
    assert real.stop() == 0
    recovered = real.run("keys", "recover")
    assert recovered.returncode == 0, recovered.stderr
    real.up()
    assert "Key refused" not in real.talk
    assert real.run("keys", "list").returncode == 0
    assert _status_of(real, old) == 401
