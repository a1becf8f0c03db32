"""Calls about the cluster itself: its frontends, live figures, settings, and how requests are routed."""

from __future__ import annotations

from collections.abc import Mapping

from corral.client.transport import ApiRequest, ApiTransport
from corral.wire.cluster import ClusterOut, ExplainRoutingIn, RoutingExplanationOut, SettingsOut
from corral.wire.live import LiveOut


class ClusterCalls:
    """Client-side calls of the HTTP API about the cluster as a whole."""

    def __init__(self, transport: ApiTransport) -> None:
        self._transport = transport

    async def get(self) -> ClusterOut:
        return await self._transport.fetch(ApiRequest(method="GET", path="/api/cluster"), ClusterOut)

    async def get_live(self) -> LiveOut:
        """Return the live figures of the cluster."""
        return await self._transport.fetch(ApiRequest(method="GET", path="/api/live"), LiveOut)

    async def get_settings(self) -> SettingsOut:
        """Return every setting of the frontend that answers."""
        return await self._transport.fetch(ApiRequest(method="GET", path="/api/settings"), SettingsOut)

    async def change_settings(self, changes: Mapping[str, str | None]) -> SettingsOut:
        """Store values for all frontends, by name; None removes the stored value. Return every setting afterwards."""
        return await self._transport.fetch(ApiRequest(method="POST", path="/api/settings", body=changes), SettingsOut)

    async def explain_routing(self, model: str) -> RoutingExplanationOut:
        """Explain which replica would serve a request for a model now, and why."""
        call = ApiRequest(method="POST", path="/api/explain", body=ExplainRoutingIn(model=model))
        return await self._transport.fetch(call, RoutingExplanationOut)
