"""A node as the API sees it: a name, a credential, a boot id, and the calls that a worker makes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from corral.adapters.system import SystemIdGenerator
from tests.support.frontends import RunningFrontend

GIB = 1024**3
_ids = SystemIdGenerator()


@dataclass
class PretendNode:
    """Makes the API calls of a worker, one by one."""

    frontend: RunningFrontend
    name: str
    credential: str = field(default_factory=lambda: f"cn_{_ids.new_secret()}")
    boot_id: str = field(default_factory=_ids.new_id)
    id: str = ""

    async def register(self, token: str | None = None, **body: Any) -> tuple[int, Any]:
        sent = {
            "name": self.name,
            "credential": self.credential,
            "boot_id": self.boot_id,
            "address": "127.0.0.1:50051",
        } | body
        status, answer = await self.frontend.call("POST", "/api/node/register", sent, key=token)
        if status == 201:
            self.id = answer["id"]
        return status, answer

    async def call(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        return await self.frontend.call(method, f"/api/node/{self.id}{path}", body, key=self.credential)

    async def heartbeat(self, **body: Any) -> tuple[int, Any]:
        """Send one heartbeat; it is written to the registry when this returns."""
        answer = await self.call("POST", "/heartbeat", {"boot_id": self.boot_id} | body)
        await self.frontend.core.heartbeats.flush()
        return answer

    def reboot(self) -> None:
        self.boot_id = _ids.new_id()

    async def read_as_admin(self) -> Any:
        """Return the node as an admin sees it."""
        status, node = await self.frontend.call("GET", f"/api/nodes/{self.id}")
        assert status == 200, node
        return node

    async def call_as_admin(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        return await self.frontend.call(method, f"/api/nodes/{self.id}{path}", body)


async def create_join_token(frontend: RunningFrontend, **body: Any) -> str:
    status, made = await frontend.call("POST", "/api/tokens", {"name": "test"} | body)
    assert status == 201, made
    return str(made["token"])


async def join_node(
    frontend: RunningFrontend, name: str = "node-1", *, approved: bool = True, **body: Any
) -> PretendNode:
    """Register a node, and approve it by default."""
    node = PretendNode(frontend, name)
    status, answer = await node.register(await create_join_token(frontend), **body)
    assert status == 201, answer
    if approved:
        status, answer = await node.call_as_admin("POST", "/approve")
        assert status == 200, answer
    return node


async def age_heartbeat(node: PretendNode, seconds: float) -> None:
    """Let the node's last heartbeat be so long ago, and that leaders watched all the while."""
    from sqlalchemy import text  # noqa: PLC0415

    async with node.frontend.database.transaction() as tx:
        await tx.execute(
            text(
                "UPDATE nodes SET last_heartbeat_at = corral_now() - make_interval(secs => :s),"
                " lease_expires_at = corral_now() - make_interval(secs => :s) + make_interval(secs => 45)"
                " WHERE id = CAST(:id AS uuid)"
            ),
            {"s": seconds, "id": node.id},
        )
        await tx.execute(text("UPDATE leases SET unbroken_since = corral_now() - make_interval(secs => 3600)"))
