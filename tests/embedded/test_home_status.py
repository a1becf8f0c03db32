"""`corral status` passes on what the frontend says does not work."""

from __future__ import annotations

from pathlib import Path

import pytest

from corral.cli import cluster as commands
from corral.embedded import home_status
from corral.embedded.home_status import ClusterState, HomeStatus
from corral.embedded.supervisor_state import SupervisorPhase, SupervisorSnapshot

WELL = {name: {"state": "ready"} for name in ("postgres", "nats", "frontend", "worker")}
SENTENCE = "PostgreSQL is away since 2026-11-15 12:00:00 UTC: what is known is served, nothing can be changed."


def test_frontend_that_is_degraded_makes_the_cluster_so_with_its_own_sentence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(home_status, "is_ready", lambda _: True)
    running = SupervisorSnapshot(phase=SupervisorPhase.READY)
    unknown = [{"name": "here", "status": "unknown"}]
    assert home_status._judge(running, WELL, unknown, [SENTENCE]) == (ClusterState.DEGRADED, SENTENCE)
    assert home_status._judge(running, WELL, unknown, []) == (ClusterState.DEGRADED, "No node is live.")
    healthy = [{"name": "here", "status": "healthy"}]
    assert home_status._judge(running, WELL, healthy, []) == (ClusterState.READY, "Everything is healthy.")


def test_each_sentence_has_a_line_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    found = HomeStatus(
        state=ClusterState.DEGRADED,
        home=Path("/srv/corral"),
        url="http://127.0.0.1:8080",
        supervisor_pid=7,
        parts=WELL,
        frontends=[],
        nodes=[],
        leftovers=[],
        reason=SENTENCE,
        degraded=[SENTENCE, "The disk is full."],
    )
    commands._print_status(found)
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if line.startswith("degraded")] == [
        f"degraded    {SENTENCE}",
        "degraded    The disk is full.",
    ]
    assert found.to_json()["degraded"] == [SENTENCE, "The disk is full."]
