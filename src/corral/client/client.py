"""`CorralClient`: a typed client for all calls of the administration API.

The calls of each noun are imported at their first use, so that a command that lists nodes does not import the types of
models, backends and usage.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Collection
from functools import cached_property
from types import TracebackType
from typing import TYPE_CHECKING, Self

from corral.client.transport import ApiTransport
from corral.ports.runtime import Clock, IdGenerator

if TYPE_CHECKING:
    from corral.client.access import KeyCalls, TokenCalls, UsageCalls, UserCalls
    from corral.client.agents import AgentCalls
    from corral.client.backends import BackendCalls, ProcessCalls
    from corral.client.batches import BatchCalls
    from corral.client.cluster import ClusterCalls
    from corral.client.collections import CollectionCalls
    from corral.client.events import StreamItem
    from corral.client.files import FileCalls
    from corral.client.fine_tuning import FineTuningCalls
    from corral.client.inference import InferenceCalls
    from corral.client.mcp import McpCalls
    from corral.client.models import FleetCalls, LoadCalls, ModelCalls, RuleCalls
    from corral.client.nodes import LabelCalls, NodeCalls
    from corral.client.operations import AssignmentCalls, OperationCalls
    from corral.client.quantization import QuantizationCalls
    from corral.client.runs import RunCalls
    from corral.client.secrets import SecretCalls
    from corral.client.skills import SkillCalls
    from corral.client.tasks import JobCalls, TaskCalls

DEFAULT_TIMEOUT_S = 30.0


class CorralClient:
    """Python client of a cluster's HTTP API, with a group of calls for each noun.

    `async with CorralClient(url, key, clock=…, ids=…) as client: await client.nodes.list()`
    """

    def __init__(
        self, url: str, key: str | None, *, clock: Clock, ids: IdGenerator, timeout_s: float = DEFAULT_TIMEOUT_S
    ) -> None:
        self._transport = ApiTransport(url, key, timeout_s=timeout_s, clock=clock, ids=ids)

    @cached_property
    def cluster(self) -> ClusterCalls:
        from corral.client.cluster import ClusterCalls

        return ClusterCalls(self._transport)

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
    def agents(self) -> AgentCalls:
        from corral.client.agents import AgentCalls

        return AgentCalls(self._transport)

    @cached_property
    def runs(self) -> RunCalls:
        from corral.client.runs import RunCalls

        return RunCalls(self._transport)

    @cached_property
    def batches(self) -> BatchCalls:
        from corral.client.batches import BatchCalls

        return BatchCalls(self._transport)

    @cached_property
    def fine_tunes(self) -> FineTuningCalls:
        from corral.client.fine_tuning import FineTuningCalls

        return FineTuningCalls(self._transport)

    @cached_property
    def quantizations(self) -> QuantizationCalls:
        from corral.client.quantization import QuantizationCalls

        return QuantizationCalls(self._transport)

    @cached_property
    def collections(self) -> CollectionCalls:
        from corral.client.collections import CollectionCalls

        return CollectionCalls(self._transport)

    @cached_property
    def tasks(self) -> TaskCalls:
        from corral.client.tasks import TaskCalls

        return TaskCalls(self._transport)

    @cached_property
    def skills(self) -> SkillCalls:
        from corral.client.skills import SkillCalls

        return SkillCalls(self._transport)

    @cached_property
    def jobs(self) -> JobCalls:
        from corral.client.tasks import JobCalls

        return JobCalls(self._transport)

    @cached_property
    def secrets(self) -> SecretCalls:
        from corral.client.secrets import SecretCalls

        return SecretCalls(self._transport)

    @cached_property
    def mcp(self) -> McpCalls:
        from corral.client.mcp import McpCalls

        return McpCalls(self._transport)

    @cached_property
    def operations(self) -> OperationCalls:
        from corral.client.operations import OperationCalls

        return OperationCalls(self._transport)

    @cached_property
    def assignments(self) -> AssignmentCalls:
        from corral.client.operations import AssignmentCalls

        return AssignmentCalls(self._transport)

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
        from corral.client.models import LoadCalls

        return LoadCalls(self._transport)

    @cached_property
    def rules(self) -> RuleCalls:
        from corral.client.models import RuleCalls

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
        from corral.client.access import UsageCalls

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

    def watch_events(
        self, last_event_id: str | None = None, topics: Collection[str] | None = None
    ) -> AsyncGenerator[StreamItem, None]:
        """Yield events from now on, or after the given id, until the caller stops. See `client/events.py` for the
        guarantees."""
        from corral.client.events import watch_events

        return watch_events(self._transport, last_event_id, topics)
