"""Writes one log line per request: text for people, JSON for collectors.

Guarantee: a line names the request, the key's id, the model and the outcome, and nothing of the prompt or the response.
Text from outside (ids of requests, names) cannot break a line. Switched off, there is no listener and no cost.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from datetime import UTC, datetime
from enum import StrEnum

from corral.domain.usage import RequestRecord

# A logger of its own, so that its lines can go elsewhere, without the handlers and levels of everything else.
LOGGER = "corral.access"
_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


class AccessLogStyle(StrEnum):
    """Names the forms of the log of inference requests: off, text for people, JSON for collectors."""

    OFF = "off"
    TEXT = "text"
    JSON = "json"


class AccessLog:
    """Writes one log line for each inference request that has ended. Implements `RequestListener`."""

    def __init__(self, style: AccessLogStyle) -> None:
        assert style is not AccessLogStyle.OFF, "an access log that is off has no listener"
        self._format_line: Callable[[RequestRecord], str] = format_json if style is AccessLogStyle.JSON else format_text
        self._logger = logging.getLogger(LOGGER)

    def on_requests_ended(self, *records: RequestRecord) -> None:
        for record in records:
            # The log record is made by hand, because finding the caller on the stack costs more than the line.
            log_record = logging.LogRecord(LOGGER, logging.INFO, "", 0, self._format_line(record), None, None)
            self._logger.handle(log_record)


def format_json(record: RequestRecord) -> str:
    return _encode(
        {
            "at": _format_time(record.began_at),
            "request_id": record.request_id,
            "key_id": record.key_id,
            "call": record.call,
            "model": record.model,
            "status": record.status,
            "error": record.error_code,
            "origin": record.origin.value,
            "node": record.node_name,
            "replica": record.replica_id,
            "attempts": record.attempts,
            "stream": record.is_stream,
            "queue_ms": _to_ms(record.queue_s),
            "first_byte_ms": None if record.first_byte_s is None else _to_ms(record.first_byte_s),
            "total_ms": _to_ms(record.total_s),
            "events": record.events,
            "prompt_tokens": record.prompt_tokens,
            "cached_tokens": record.cached_tokens,
            "completion_tokens": record.completion_tokens,
            "estimated": record.is_estimated,
            "received_bytes": record.received_bytes,
            "sent_bytes": record.sent_bytes,
            "traceparent": record.traceparent,
            "run": record.run_id,
        }
    )


def format_text(record: RequestRecord) -> str:
    words = [_format_time(record.began_at), record.call or "-", _format_word(record.model), str(record.status)]
    if record.error_code:
        words.append(f"{record.error_code}({record.origin.value})")
    words.append(f"total={_to_ms(record.total_s)}ms")
    if record.first_byte_s is not None:
        words.append(f"first={_to_ms(record.first_byte_s)}ms")
    words.append(f"queue={_to_ms(record.queue_s)}ms")
    if record.completion_tokens is not None or record.prompt_tokens is not None:
        about = "~" if record.is_estimated else ""
        words.append(f"tokens={record.prompt_tokens or 0}+{about}{record.completion_tokens or 0}")
    if record.node_name:
        words.append(f"node={_format_word(record.node_name)}")
    if record.run_id:
        words.append(f"run={record.run_id}")
    if record.attempts > 1:
        words.append(f"attempts={record.attempts}")
    words += [f"key={record.key_id or '-'}", f"id={_format_word(record.request_id)}"]
    return " ".join(words)


def _to_ms(seconds: float) -> float:
    return round(seconds * 1000.0, 1)


def _format_time(epoch_s: float) -> str:
    return datetime.fromtimestamp(epoch_s, UTC).isoformat(timespec="milliseconds")


def _format_word(text: str) -> str:
    """Return the text as one word, whatever it contains."""
    if not text:
        return "-"
    return text if text.isprintable() and " " not in text else json.dumps(text)
