"""`CorralClient`: everything that an admin can ask of a cluster, typed.

The calls of a noun are imported when they are first used: a command that lists nodes does not wait for the types of
models, backends and usage.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Collection
from functools import cached_property
from types import TracebackType
from typing import TYPE_CHECKING, Self

from corral.client.http import Call, Transport
from corral.ports.runtime import Clock, Ids

if TYPE_CHECKING:
    from corral.client.access import KeyCalls, TokenCalls, UserCalls
    from corral.client.backends import BackendCalls, ProcessCalls
    from corral.client.events import StreamItem
    from corral.client.files import FileCalls
    from corral.client.inference import InferenceCalls
    from corral.client.loads import LoadCalls
    from corral.client.models import FleetCalls, ModelCalls
    from corral.client.nodes import LabelCalls, NodeCalls
    from corral.client.operations import IntentCalls, OperationCalls
    from corral.client.rules import RuleCalls
    from corral.client.usage import UsageCalls
    from corral.wire.cluster import ClusterOut
    from corral.wire.explain import ExplainOut
    from corral.wire.live import LiveOut

DEFAULT_TIMEOUT_S = 30.0


class CorralClient:
    """`async with CorralClient(url, key, clock=…, ids=…) as client: await client.nodes.list()`"""

    def __init__(
        self, url: str, key: str | None, *, clock: Clock, ids: Ids, timeout_s: float = DEFAULT_TIMEOUT_S
    ) -> None:
        self._transport = Transport(url, key, timeout_s=timeout_s, clock=clock, ids=ids)

    @cached_property
    def nodes(self) -> NodeCalls:
        from corral.client.nodes import NodeCalls

        return NodeCalls(self._transport)

    @cached_property
    def labels(self) -> LabelCalls:
        from corral.client.nodes import LabelCalls

        return LabelCalls(self._transport)

    @cached_property
    def tokens(self) -> TokenCalls:
        from corral.client.access import TokenCalls

        return TokenCalls(self._transport)

    @cached_property
    def keys(self) -> KeyCalls:
        from corral.client.access import KeyCalls

        return KeyCalls(self._transport)

    @cached_property
    def users(self) -> UserCalls:
        from corral.client.access import UserCalls

        return UserCalls(self._transport)

    @cached_property
    def operations(self) -> OperationCalls:
        from corral.client.operations import OperationCalls

        return OperationCalls(self._transport)

    @cached_property
    def intents(self) -> IntentCalls:
        from corral.client.operations import IntentCalls

        return IntentCalls(self._transport)

    @cached_property
    def backends(self) -> BackendCalls:
        from corral.client.backends import BackendCalls

        return BackendCalls(self._transport)

    @cached_property
    def processes(self) -> ProcessCalls:
        from corral.client.backends import ProcessCalls

        return ProcessCalls(self._transport)

    @cached_property
    def models(self) -> ModelCalls:
        from corral.client.models import ModelCalls

        return ModelCalls(self._transport)

    @cached_property
    def loads(self) -> LoadCalls:
        from corral.client.loads import LoadCalls

        return LoadCalls(self._transport)

    @cached_property
    def rules(self) -> RuleCalls:
        from corral.client.rules import RuleCalls

        return RuleCalls(self._transport)

    @cached_property
    def fleet(self) -> FleetCalls:
        from corral.client.models import FleetCalls

        return FleetCalls(self._transport)

    @cached_property
    def files(self) -> FileCalls:
        from corral.client.files import FileCalls

        return FileCalls(self._transport)

    @cached_property
    def inference(self) -> InferenceCalls:
        from corral.client.inference import InferenceCalls

        return InferenceCalls(self._transport)

    @cached_property
    def usage(self) -> UsageCalls:
        from corral.client.usage import UsageCalls

        return UsageCalls(self._transport)

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
        from corral.wire.cluster import ClusterOut

        return await self._transport.fetch(Call(method="GET", path="/api/cluster"), ClusterOut)

    async def live(self) -> LiveOut:
        """What is going on now."""
        from corral.wire.live import LiveOut

        return await self._transport.fetch(Call(method="GET", path="/api/live"), LiveOut)

    async def explain(self, model: str) -> ExplainOut:
        """Which replica would answer a request for a model now, and why."""
        from corral.wire.explain import ExplainIn, ExplainOut

        call = Call(method="POST", path="/api/explain", body=ExplainIn(model=model))
        return await self._transport.fetch(call, ExplainOut)

    def watch_events(
        self, last_event_id: str | None = None, topics: Collection[str] | None = None
    ) -> AsyncGenerator[StreamItem, None]:
        """Events from now on, or after the given one, for ever; see `client/events.py` for what is guaranteed."""
        from corral.client.events import watch

        return watch(self._transport, last_event_id, topics)
