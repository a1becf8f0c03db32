"""`/api/backends/upgrades`: what is newer than what is installed, and where nodes differ.

What is known is told at once. Asking registries anew happens in the background of the frontend that was asked, one
round at a time, and the answer does not wait for it.
"""

from __future__ import annotations

from dataclasses import asdict

from fastapi import APIRouter, BackgroundTasks

from corral.api.parts import OperateIn, Parts, PartsIn
from corral.policy.upgrades import UpgradeFound
from corral.runtime.guard import attempt
from corral.wire.backends import DriftOut, NodeUpgradeOut, UpgradeOut

router = APIRouter(tags=["backends"])
Upgrades = dict[str, UpgradeOut]


async def current_upgrades(parts: Parts) -> tuple[UpgradeFound, ...]:
    """From what is known now, without asking anybody outside."""
    return await parts.upgrades.find()


async def _list(parts: PartsIn, _: OperateIn) -> Upgrades:
    """Installed backends with something newer in their gallery, or with nodes that differ, by name."""
    return upgrades_out(await current_upgrades(parts))


async def _check(parts: PartsIn, _: OperateIn, later: BackgroundTasks) -> Upgrades:
    """Ask registries and galleries anew. Answers with what is known now; look again in a moment."""

    async def look() -> None:
        await attempt(parts.upgrades.check)

    later.add_task(look)
    return upgrades_out(await current_upgrades(parts))


for _prefix, _suffix in (("/api/backends", ""), ("/backends", "_as_ancestor")):
    router.get(f"{_prefix}/upgrades", name=f"upgrades{_suffix}")(_list)
    router.post(f"{_prefix}/upgrades/check", name=f"check_upgrades{_suffix}")(_check)


def upgrades_out(found: tuple[UpgradeFound, ...]) -> Upgrades:
    return {
        one.backend: UpgradeOut(
            backend_name=one.backend,
            installed_version=one.installed_version,
            available_version=one.available_version,
            installed_digest=one.installed_digest,
            available_digest=one.available_digest,
            node_drift=[DriftOut(**asdict(drift)) for drift in one.node_drift],
            nodes=[NodeUpgradeOut(**asdict(node)) for node in one.nodes],
            summary=one.summary,
        )
        for one in found
    }
