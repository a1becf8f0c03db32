"""Asking for backends as an admin does, and answering as a node does, call by call."""

from __future__ import annotations

from typing import Any

from tests.support.frontends import RunningFrontend
from tests.support.nodes import PretendNode
from tests.support.polling import eventually

# Comes with Corral, runs anywhere, and has several versions.
BACKEND = "fake"
META, CONCRETE = "llama-cpp", "cpu-llama-cpp"


async def newest(frontend: RunningFrontend, name: str = BACKEND) -> str:
    return frontend.core.catalog.resolve(name, "default").version


async def ask(frontend: RunningFrontend, path: str, body: Any = None, **headers: str) -> Any:
    status, answer = await frontend.call("POST", path, body, **headers)
    assert status in (200, 202), answer
    return answer


async def install(frontend: RunningFrontend, name: str = BACKEND, **body: Any) -> Any:
    return await ask(frontend, f"/api/backends/install/{name}", body or None)


async def held(*frontends: RunningFrontend) -> None:
    """Stop the dispatcher: operations that are created from now on stay queued."""
    for frontend in frontends:
        for loop in frontend.core.dispatcher.loops:
            await loop.stop()


async def live(frontend: RunningFrontend) -> list[Any]:
    status, answer = await frontend.call("GET", "/api/operations")
    assert status == 200, answer
    found: list[Any] = answer["operations"]
    return found


async def shown(frontend: RunningFrontend, operation_id: str) -> Any:
    status, answer = await frontend.call("GET", f"/api/operations/{operation_id}")
    assert status == 200, answer
    return answer


async def until_state(frontend: RunningFrontend, operation_id: str, *states: str) -> Any:
    async def look() -> Any:
        found = await shown(frontend, operation_id)
        return found if found["state"] in states else None

    return await eventually(look)


async def report(node: PretendNode, *backends: Any, removed: dict[str, int] | None = None) -> tuple[int, Any]:
    """The node tells what it has: names, or whole entries."""
    entries = [{"name": one, "version": "1.0.0"} if isinstance(one, str) else one for one in backends]
    body = {"boot_id": node.boot_id, "backends": entries, "removed": removed or {}}
    return await node.call("POST", "/backends", body)


async def has_it_now(frontend: RunningFrontend, node: PretendNode, name: str = BACKEND) -> None:
    """The node reports the newest version, which is all that an installation waits for."""
    version = await newest(frontend, name)
    status, answer = await report(node, {"name": name, "version": version, "gallery": "corral"})
    assert status == 200, answer
