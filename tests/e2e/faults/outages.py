"""Outages that can last as long as somebody wants: seconds in every run, minutes in `make chaos`."""

from __future__ import annotations

from pathlib import Path

from tests.e2e.faults.scene import MIB, UNDER_WAY, Scene, scene_of
from tests.support.polling import eventually
from tests.worker.backends.server import held_after, trickle

TWO = ("worker-1", "worker-2")
# A worker takes a source that has sent nothing for a minute for dead.
STALL_S = 50.0


async def nats_goes_away(folder: Path, away_s: float) -> None:
    """Check an outage of NATS during which one worker ends its job and the other is still at it at the end."""
    async with scene_of(folder, *TWO) as scene:
        begun = await _begin(scene, away_s)
        before = await scene.until_fetched(begun, MIB // 16, nodes=2)
        await scene.cluster.nats.kill()
        await scene.cluster.become(dict.fromkeys(TWO, "unhealthy"))
        scene.offer("meanwhile")
        meanwhile = await scene.ask("meanwhile", *TWO, via=1)
        scene.let.set()
        # Its report over HTTP is enough.
        await eventually(lambda: _states(scene, begun, "success"), within_s=60)
        await eventually(await scene.cluster.later(away_s), within_s=away_s + 60)
        await _assert_nothing_is_made_up(scene, begun, meanwhile)
        await scene.cluster.nats.start()
        await scene.cluster.become(dict.fromkeys(TWO, "healthy"), on_bus=True)
        scene.let_late.set()
        done, late = await scene.becomes(begun, "completed"), await scene.becomes(meanwhile, "completed")
        assert [node["job_id"] for node in done["nodes"]] == [node["job_id"] for node in before["nodes"]]
        assert {(node["state"], node["attempt"]) for node in (*done["nodes"], *late["nodes"])} == {("success", 0)}
        assert [scene.accepted(name) for name in TWO] == [2, 2]
        assert scene.fetched("begun") == scene.fetched("meanwhile") == [None, None]


async def _begin(scene: Scene, away_s: float) -> str:
    """Begin two downloads, of which the second takes longer than the outage."""
    file = scene.offer("begun")
    late = held_after(len(file.body) // 2, scene.let_late)
    if away_s > STALL_S:
        # A source that stands still would be asked again meanwhile; this one only takes its time.
        late = trickle(int(away_s) + 60, 1.0)
    file.faults = [held_after(len(file.body) // 2, scene.let), late]
    return await scene.ask("begun", *TWO)


async def _states(scene: Scene, key: str, *expected: str) -> bool:
    found = await scene.operation(key)
    return set(expected) <= {node["state"] for node in found["nodes"]}


async def _assert_nothing_is_made_up(scene: Scene, begun: str, meanwhile: str) -> None:
    """Check that jobs whose state is unknown are shown neither as failed nor as done."""
    for key, states in ((begun, {"success", "working", "unconfirmed"}), (meanwhile, {"queued"})):
        found = await scene.operation(key)
        assert found["state"] in UNDER_WAY
        assert {node["state"] for node in found["nodes"]} <= states
        assert {node["attempt"] for node in found["nodes"]} == {0}
