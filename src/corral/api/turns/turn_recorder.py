"""Records a request that a run answers, for the access log, the metrics and the traces.

Guarantee: one record for each request, however it ends. It has no replica and no tokens, and usage does not count it:
each call that the run makes of a model is a request with a record of its own, in the name of the same key.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import TracebackType
from typing import Self

from corral.domain.access import Principal
from corral.domain.errors import CorralError
from corral.domain.usage import ErrorOrigin, RequestRecord
from corral.gateway.exchange.exchange_state import CLIENT_LEFT_CODE
from corral.gateway.exchange.gateway import CLIENT_LEFT, Gateway, find_error_origin, to_corral_error


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedCall:
    """What is known of a chat request that a run answers before the run is started, for the access log."""

    name: str
    request_id: str
    traceparent: str = ""
    received_bytes: int = 0


class TurnRecorder:
    """Records one chat request that a run answers, for access log, metrics and traces, when its `with` block ends."""

    def __init__(self, gateway: Gateway, call: RecordedCall, principal: Principal | None = None) -> None:
        self._gateway = gateway
        self._call = call
        self._traceparent = gateway.tracer.begin(call.traceparent) if gateway.tracer else call.traceparent
        self._began = gateway.clock.monotonic()
        self._first_byte_s: float | None = None
        self._sent_bytes = 0
        self.principal = principal
        # What answers: an agent with its prefix, or a model.
        self.model = ""
        self.run_id = ""
        self.is_stream = False
        # The error that was sent as the last event of a stream.
        self.error: CorralError | None = None

    def note_piece(self, piece: bytes) -> None:
        """Count a piece of the response that is about to be sent."""
        if self._first_byte_s is None:
            self._first_byte_s = self._gateway.clock.monotonic() - self._began
        self._sent_bytes += len(piece)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None and not isinstance(error, Exception):
            # The task that answers was cancelled, as it is when its client disconnects.
            self._emit(CLIENT_LEFT, ErrorOrigin.CLIENT, CLIENT_LEFT_CODE)
            return
        reason = self.error if error is None else to_corral_error(error)
        if reason is None:
            self._emit(200, ErrorOrigin.NONE, "")
        else:
            status = reason.status if self._first_byte_s is None else 200
            self._emit(status, find_error_origin(reason), reason.slug)

    def _emit(self, status: int, origin: ErrorOrigin, code: str) -> None:
        self._gateway.emit_records(
            RequestRecord(
                request_id=self._call.request_id,
                key_id=self.principal.key_id if self.principal is not None else "",
                model=self.model,
                call=self._call.name,
                status=status,
                origin=origin,
                error_code=code,
                began_at=self._began + self._gateway.epoch_s,
                queue_s=0.0,
                first_byte_s=self._first_byte_s,
                total_s=self._gateway.clock.monotonic() - self._began,
                is_stream=self.is_stream,
                received_bytes=self._call.received_bytes,
                sent_bytes=self._sent_bytes,
                # No engine was tried for the request itself.
                attempts=0,
                traceparent=self._traceparent,
                run_id=self.run_id,
            )
        )
