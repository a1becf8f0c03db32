"""`CorralClient`: everything that an admin can ask of a cluster, typed."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Collection
from types import TracebackType
from typing import Self

from corral.client.access import KeyCalls, TokenCalls, UserCalls
from corral.client.backends import BackendCalls, ProcessCalls
from corral.client.events import StreamItem, watch
from corral.client.files import FileCalls
from corral.client.http import Call, Transport
from corral.client.inference import InferenceCalls
from corral.client.loads import LoadCalls
from corral.client.models import FleetCalls, ModelCalls
from corral.client.nodes import LabelCalls, NodeCalls
from corral.client.operations import IntentCalls, OperationCalls
from corral.client.rules import RuleCalls
from corral.client.usage import UsageCalls
from corral.ports.runtime import Clock, Ids
from corral.wire.cluster import ClusterOut
from corral.wire.explain import ExplainIn, ExplainOut
from corral.wire.live import LiveOut

DEFAULT_TIMEOUT_S = 30.0


class CorralClient:
    """`async with CorralClient(url, key, clock=…, ids=…) as client: await client.nodes.list()`"""

    def __init__(
        self, url: str, key: str | None, *, clock: Clock, ids: Ids, timeout_s: float = DEFAULT_TIMEOUT_S
    ) -> None:
        self._transport = Transport(url, key, timeout_s=timeout_s, clock=clock, ids=ids)
        self.nodes = NodeCalls(self._transport)
        self.labels = LabelCalls(self._transport)
        self.tokens = TokenCalls(self._transport)
        self.keys = KeyCalls(self._transport)
        self.users = UserCalls(self._transport)
        self.operations = OperationCalls(self._transport)
        self.intents = IntentCalls(self._transport)
        self.backends = BackendCalls(self._transport)
        self.processes = ProcessCalls(self._transport)
        self.models = ModelCalls(self._transport)
        self.loads = LoadCalls(self._transport)
        self.rules = RuleCalls(self._transport)
        self.fleet = FleetCalls(self._transport)
        self.files = FileCalls(self._transport)
        self.inference = InferenceCalls(self._transport)
        self.usage = UsageCalls(self._transport)

    @property
    def url(self) -> str:
        return self._transport.url

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        await self._transport.close()

    async def cluster(self) -> ClusterOut:
        return await self._transport.fetch(Call(method="GET", path="/api/cluster"), ClusterOut)

    async def live(self) -> LiveOut:
        """What is going on now."""
        return await self._transport.fetch(Call(method="GET", path="/api/live"), LiveOut)

    async def explain(self, model: str) -> ExplainOut:
        """Which replica would answer a request for a model now, and why."""
        call = Call(method="POST", path="/api/explain", body=ExplainIn(model=model))
        return await self._transport.fetch(call, ExplainOut)

    def watch_events(
        self, last_event_id: str | None = None, topics: Collection[str] | None = None
    ) -> AsyncGenerator[StreamItem, None]:
        """Events from now on, or after the given one, for ever; see `client/events.py` for what is guaranteed."""
        return watch(self._transport, last_event_id, topics)
