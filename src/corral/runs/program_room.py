"""Says whether a node has the room that the program of a run takes, before the run is stored."""

from __future__ import annotations

from corral.domain.errors import Unprocessable
from corral.domain.run import RunKind, RunNeeds
from corral.policy.runs import has_room
from corral.policy.status import is_schedulable
from corral.runs.pool import list_places
from corral.store.database import Transaction


async def require_room(tx: Transaction, kind: RunKind, needs: RunNeeds) -> None:
    """Raise `Unprocessable` if no node that is up would have the room even when it has nothing else to do."""
    places = [place.node for place in await list_places(tx, kind) if is_schedulable(place.node)]
    if not places or any(has_room(node, needs) for node in places):
        return
    disk = max((node.hardware.available_disk or 0) for node in places)
    ram = max((node.hardware.available_ram or 0) for node in places)
    vram = max((node.hardware.available_vram or 0) for node in places)
    takes, has = f"{_say_mib(needs.ram_bytes)} of memory", f"{_say_mib(ram)}"
    if needs.vram_bytes is not None:
        takes += f" and {_say_mib(needs.vram_bytes)} of GPU memory, or of memory without a GPU"
        has += f" and {_say_mib(vram)} of GPU memory" if vram else ""
    raise Unprocessable(
        f"No node has room: it takes {_say_mib(needs.disk_bytes)} of disk and {takes},"
        f" and the most that a node has free is {_say_mib(disk)} and {has}.",
        hint="Free disk on a node (`corral files collect`, `corral models unload`), or add a node.",
        code="no_room",
        details={"disk_bytes": needs.disk_bytes, "ram_bytes": needs.ram_bytes, "vram_bytes": needs.vram_bytes},
    )


def _say_mib(count: int | None) -> str:
    return "an unknown amount" if count is None else f"{count / 1024**2:,.0f} MiB"
