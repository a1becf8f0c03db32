"""Finds a replica for one request, calls its engine, retries on another replica, and ends the request.

This is the part of an `Exchange` that holds while no byte of a response was relayed: which replica is called, what
happens when the call is lost, refused or late, and how the request ends. `exchange.py` judges and relays the response.
The two are layers of one object, because a second object would cost every warm request its creation and its calls.

Guarantees: `_release` runs once and checks the replica in; what was sent to an engine in pieces is never sent twice.
Limit: a request is retried only until its response is being relayed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from corral.domain.errors import CorralError, Unavailable
from corral.domain.usage import ErrorOrigin
from corral.gateway.errors import EngineTimeout, ResponseInterrupted, make_not_repeatable_error
from corral.gateway.exchange.exchange_state import BYTES_PER_TOKEN, CALLING, DONE, RELAYING, WAITING, ExchangeState
from corral.gateway.exchange.gateway import STOPPING, find_error_origin, to_corral_error
from corral.gateway.routing.in_flight_leases import ReplicaCheckout
from corral.gateway.routing.router import ENGINE_GARBAGE, ReplicaSelector
from corral.ports.requests import EngineLost, EngineRefused, HeadLines
from corral.runtime.attempt import AttemptFailure, attempt

# The pause between two calls of a request to the same replica.
SAME_REPLICA_RETRY_S = 0.1


class EngineCaller(ExchangeState, ABC):
    """Calls the engine of one replica after another for one inference request, until a response can be relayed.

    It stops earlier if the request fails. Implements `on_lost` of `ports.requests.ResponseHandler`; `Exchange`
    implements the rest.
    """

    __slots__ = ()

    @abstractmethod
    def on_head(self, status: int, head: HeadLines, size_bytes: int | None) -> None: ...

    @abstractmethod
    def on_body(self, piece: bytes) -> None: ...

    @abstractmethod
    def on_end(self) -> None: ...

    @abstractmethod
    def on_whole(self, status: int, head: HeadLines, body: bytes) -> None: ...

    @abstractmethod
    def on_writable(self, is_writable: bool) -> None: ...  # noqa: FBT001 - the signature of a callback

    # Finding a replica

    def _try_next_replica(self, now: float) -> None:
        checkout = (
            self._ensure_selector().try_check_out()
            if self._attempts or self._request.principal.is_background
            else self._gateway.router.check_out(self._request.model)
        )
        if checkout is not None:
            self._call_engine(checkout, now)
        elif self._gateway.is_closing:
            self._fail(Unavailable(STOPPING, hint="Retry on another frontend.", code="stopping"))
        else:
            self._start_task(self._wait_for_replica(), "wait")

    def _ensure_selector(self) -> ReplicaSelector:
        if self._selector is None:
            request, cost = self._request, 1 + len(self._request.body) // BYTES_PER_TOKEN
            wait_s = self._gateway.compute_wait_s(request)
            self._selector = self._gateway.router.make_selector(
                request.model, wait_s, request.principal.key_id, cost, self._attempts
            )
            self._selector.is_background = request.principal.is_background
        return self._selector

    async def _wait_for_replica(self) -> None:
        outcome = await attempt(self._ensure_selector().wait_for_replica)
        self._task = None
        if isinstance(outcome, AttemptFailure):
            self._fail(to_corral_error(outcome.error))
        else:
            self._call_engine(outcome.value, self._gateway.clock.monotonic())

    def _call_engine(self, checkout: ReplicaCheckout, now: float) -> None:
        if self._state == DONE:
            checkout.release()
            return
        self._checkout = checkout
        self._state = CALLING
        self._silent_since = now
        self._queue_s = now - self._began
        if self._attempts:
            # Discard what an earlier replica sent of its response.
            self._first_byte_s = self._splitter = None
            self._buffered, self._buffered_bytes = [], 0
            self._rewriter = self._make_rewriter()
        self._attempts += 1
        try:
            self._engine_call = self._gateway.engines.send(checkout.replica, self._request, self)
        except CorralError as error:
            self._fail(error)

    def _start_task(self, work: Any, name: str) -> None:
        self._state = WAITING
        self._task = self._gateway.tasks.start(work, name=name)

    # Retrying on another replica

    def on_lost(self, error: EngineRefused | EngineLost) -> None:
        if self._state == DONE:
            return
        checkout, self._engine_call = self._checkout, None
        assert checkout is not None
        if self._state == RELAYING:
            checkout.record_failure()
            self._cut(error)
        elif isinstance(error, EngineRefused) and not self._gateway.is_closing:
            self._start_task(self._drop_refused_replica(checkout, error), "refused")
        else:
            self._retry_after_loss(checkout, error)

    def _retry_after_loss(self, checkout: ReplicaCheckout, error: CorralError) -> None:
        """Retry a call that broke before anything was relayed."""
        is_same_again = self._ensure_selector().release_lost(checkout, error)
        self._checkout = None
        if self._has_written:
            self._fail(make_not_repeatable_error(error))
        elif is_same_again and not self._gateway.is_closing:
            self._start_task(self._retry_same_replica(), "again")
        else:
            self._try_next_replica(self._gateway.clock.monotonic())

    async def _retry_same_replica(self) -> None:
        """Call the same replica again after a pause: a killed engine takes calls for a moment before its port is
        closed."""
        await self._gateway.clock.sleep(SAME_REPLICA_RETRY_S)
        await self._wait_for_replica()

    async def _drop_refused_replica(self, checkout: ReplicaCheckout, error: EngineRefused) -> None:
        """Remove a replica whose address refuses calls or belongs to another process, and retry on another one."""
        outcome = await attempt(lambda: self._ensure_selector().release_refused(checkout, error))
        self._checkout = None
        if isinstance(outcome, AttemptFailure):
            self._task = None
            self._fail(to_corral_error(outcome.error))
        elif self._has_written:
            self._task = None
            self._fail(make_not_repeatable_error(error))
        else:
            await self._wait_for_replica()

    def _retry_on_key_mismatch(self, checkout: ReplicaCheckout) -> None:
        """Release the replica and retry on another one: the engine rejected our key, so its port has another owner."""
        error = EngineRefused(f"The engine at {checkout.replica.address} rejected our key.", code="engine_mismatch")
        self._abort_engine_call()
        self.on_lost(error)

    def _retry_after_bad_response(self, checkout: ReplicaCheckout, fault: str) -> None:
        """Count a malformed response as a failure of its replica, and retry on another one."""
        error = EngineLost(f"The engine at {checkout.replica.address} {fault}.", code=ENGINE_GARBAGE)
        self._abort_engine_call()
        self._retry_after_loss(checkout, error)

    # Timeouts

    def fail_if_late(self, now: float) -> bool:
        """Fail the request if its engine or its client was silent for too long. Called once a second. Return whether it
        was."""
        if self._has_moved:
            self._has_moved = False
            self._silent_since = now
            return False
        limits, silent_s = self._gateway.timeouts, now - self._silent_since
        if self._state == RELAYING:
            limit_s = limits.client_stall_s if self._is_paused else limits.between_bytes_s
        elif self._state == CALLING:
            limit_s = limits.first_byte_s if self._first_byte_s is None else limits.between_bytes_s
        else:
            return False
        if not limit_s or silent_s < limit_s:
            return False
        if self._is_paused and self._state == RELAYING:
            error = CorralError("The client does not read its response.", code="client_stalled")
            self._cut(error, ErrorOrigin.CLIENT)
        else:
            self._fail_silent_engine(limit_s)
        return True

    def _fail_silent_engine(self, limit_s: float) -> None:
        checkout = self._checkout
        assert checkout is not None
        self._abort_engine_call()
        silent = EngineTimeout(
            f"The engine of {self._request.model.name} accepted the call and sent nothing for {limit_s:g} s.",
            hint="If prompts are long, raise CORRAL_FIRST_BYTE_TIMEOUT_S or CORRAL_BETWEEN_BYTES_TIMEOUT_S.",
        )
        if self._state == RELAYING:
            checkout.record_failure()
            self._cut(silent)
        elif self._has_written or not self._ensure_selector().has_others(checkout.replica.id):
            # A retry on the same replica would only take as long again.
            self._ensure_selector().release_lost(checkout, silent)
            self._fail(silent)
        else:
            self._retry_after_loss(checkout, EngineLost(silent.message, code=silent.slug))

    # The end

    def stop(self) -> None:
        """End the request because the frontend stops; the error lets the client retry elsewhere. No-op once done."""
        if self._state == RELAYING:
            error = ResponseInterrupted(
                "This frontend is stopping and cut the response short. Send the request again.", code="stopping"
            )
            self._emit_record(self._status, ErrorOrigin.GATEWAY, error.slug)
            self._client.cut(error)
        else:
            self._fail(Unavailable(STOPPING, hint="Retry on another frontend.", code="stopping"))

    def _fail(self, error: CorralError) -> None:
        if self._state != DONE:
            try:
                self._emit_record(error.status, find_error_origin(error), error.slug)
            finally:
                self._client.fail(error)

    def _cut(self, error: CorralError, origin: ErrorOrigin = ErrorOrigin.ENGINE) -> None:
        self._abort_engine_call()
        lead = "The engine failed in the middle of the response: " if origin == ErrorOrigin.ENGINE else ""
        code = None if origin == ErrorOrigin.ENGINE else error.slug
        interrupted = ResponseInterrupted(
            f"{lead}{error.message} Send the request again.", code=code, details={"cause": error.slug}
        )
        try:
            self._emit_record(self._status, origin, interrupted.slug)
        finally:
            self._client.cut(interrupted)

    def _emit_record(self, status: int, origin: ErrorOrigin, code: str) -> None:
        total_s = self._gateway.clock.monotonic() - self._began
        self._release()
        self._gateway.emit_records(self._make_record(status, origin, code, total_s, b""))

    def _release(self) -> None:
        """Release the replica, the engine call and the task, exactly once. The record is made afterwards."""
        assert self._state != DONE
        self._state = DONE
        checkout, task = self._checkout, self._task
        self._gateway.open_exchanges.discard(self)
        if self._engine_call is not None:
            self._abort_engine_call()
        self._buffered, self._task = [], None
        if checkout is not None:
            checkout.release()
        if task is not None:
            task.cancel()

    def _abort_engine_call(self) -> None:
        call, self._engine_call = self._engine_call, None
        if call is not None:
            call.abort()
