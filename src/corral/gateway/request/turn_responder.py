"""The ports through which the gateway has a request answered by a run: one for an agent, or with MCP servers.

`build_request_later` raises `TurnNeeded` in place of a request for an engine; the handler of the connection then opens
the response of a run and relays it. A request for a model without MCP servers never comes here.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, ClassVar, Protocol

from corral.domain.errors import CorralError
from corral.ports.requests import HeadLines
from corral.store.replica_use import ServedModel

if TYPE_CHECKING:
    from corral.gateway.request.request_builder import RequestDeps, RequestHead


class TurnNeeded(CorralError):
    """A run has to answer this chat request, because no engine alone can.

    Never sent: a response or another error takes its place.

    Either the name means no model, and `refusal` is the error for the client if no agent has it; or `model` is called
    with MCP servers: with all of them if the request does not choose and `uses_all` is set.
    """

    code: ClassVar[str] = "turn_needed"

    def __init__(
        self, *, refusal: CorralError | None = None, model: ServedModel | None = None, uses_all: bool = False
    ) -> None:
        assert (refusal is None) != (model is None), "a name means a model, or not"
        super().__init__()
        self.refusal = refusal
        self.model = model
        self.uses_all = uses_all


class TurnResponse(Protocol):
    """Interface of the response in which a run (such as an LLM agent's turn) answers a chat request; status 200.

    An error before the first piece is raised, a later one is in the pieces.
    """

    @property
    def headers(self) -> HeadLines: ...

    @property
    def size_bytes(self) -> int | None:
        """Return the length of the body; None for a stream. Known once the first piece has come."""
        ...

    def iter_pieces(self) -> AsyncIterator[bytes]: ...


class TurnResponder(Protocol):
    """Interface that answers chat requests by runs. `api.turns.chat_turns.ChatTurnResponder` implements it."""

    def open_chat(
        self, deps: RequestDeps, head: RequestHead, body: bytes, needed: TurnNeeded, request_id: str
    ) -> AbstractAsyncContextManager[TurnResponse]:
        """Start the run that answers a chat request. Leaving the block early cancels the run. Emits the record of the
        request, however it ends."""
        ...
