"""Reads the lines of a batch's input, and writes the lines of its output, in OpenAI's form.

A line is one request: `custom_id`, `method`, `url`, `body`. Guarantee: whatever a line holds becomes a request or a
fault with a code, never an exception. Limits: so many lines, bytes and characters as the constants say.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

ENDPOINTS = ("/v1/chat/completions", "/v1/completions", "/v1/embeddings", "/v1/responses")
COMPLETION_WINDOW = "24h"
WINDOW_S = 24 * 3600.0
# OpenAI's own limits of an input.
LINES_MAX = 50_000
INPUT_BYTES_MAX = 200 * 1024 * 1024
# A longer line does not fit into what a worker reads at a time.
LINE_BYTES_MAX = 4 * 1024 * 1024
CUSTOM_ID_MAX = 512
# So many faults of an input are reported.
FAULTS_MAX = 100
METADATA_MAX = 16

EXPIRED = "batch_expired"


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchLineRequest:
    """One inference request, parsed from a line of a batch's input file."""

    custom_id: str
    body: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchLineFault:
    """Describes a fault in a line of a batch's input file; `line` counts from 1, and None means the whole file."""

    code: str
    message: str
    line: int | None = None
    param: str | None = None

    def to_json(self) -> dict[str, Any]:
        return {"code": self.code, "line": self.line, "message": self.message, "param": self.param}


def parse_line(line: bytes, endpoint: str, number: int) -> BatchLineRequest | BatchLineFault:
    """Return the request of a line, or its fault."""
    if len(line) > LINE_BYTES_MAX:
        text = f"A line has at most {LINE_BYTES_MAX} bytes."
        return BatchLineFault(code="line_too_long", message=text, line=number)
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError):
        fields = None
    if not isinstance(fields, dict):
        text = "The line is not a JSON object."
        return BatchLineFault(code="invalid_json_line", message=text, line=number)
    problem = _find_problem(fields, endpoint)
    if problem is not None:
        code, message, param = problem
        return BatchLineFault(code=code, message=message, line=number, param=param)
    return BatchLineRequest(custom_id=fields["custom_id"], body=fields["body"])


def _find_problem(fields: Mapping[str, Any], endpoint: str) -> tuple[str, str, str] | None:
    """Return code, sentence and field of the first thing that is wrong; None if the line is a request."""
    custom_id, body = fields.get("custom_id"), fields.get("body")
    values: Mapping[str, Any] = body if isinstance(body, dict) else {}
    missing, model = "missing_required_parameter", values.get("model")
    checks = (
        (isinstance(custom_id, str) and custom_id, missing, "The line has no custom_id.", "custom_id"),
        (
            len(str(custom_id)) <= CUSTOM_ID_MAX,
            "invalid_custom_id",
            f"A custom_id has at most {CUSTOM_ID_MAX} characters.",
            "custom_id",
        ),
        (fields.get("method") == "POST", "invalid_method", "The method of a line is POST.", "method"),
        (
            fields.get("url") == endpoint,
            "mismatched_url",
            f"The url of a line is that of its batch: {endpoint}.",
            "url",
        ),
        (isinstance(body, dict), missing, "The line has no body.", "body"),
        (isinstance(model, str) and model, missing, "The body names no model.", "body.model"),
        (not values.get("stream"), "invalid_request", "A line of a batch cannot be streamed.", "body.stream"),
    )
    return next(((code, message, param) for is_met, code, message, param in checks if not is_met), None)


class BatchInputChecker:
    """Checks the lines of a batch's input file one after the other, and collects what is wrong with them."""

    def __init__(self, endpoint: str) -> None:
        self._endpoint = endpoint
        self._ids: set[str] = set()
        self.total = 0
        self.faults: list[BatchLineFault] = []

    @property
    def is_full(self) -> bool:
        """Return whether more lines would change nothing."""
        return len(self.faults) >= FAULTS_MAX

    def check_line(self, line: bytes, number: int) -> None:
        """Check one line that is not blank; `number` is counted from 1."""
        self.total += 1
        if self.total == LINES_MAX + 1:
            self.faults.append(BatchLineFault(code="too_many_lines", message=f"A batch has at most {LINES_MAX} lines."))
        found = parse_line(line, self._endpoint, number)
        if isinstance(found, BatchLineFault):
            self.faults.append(found)
        elif found.custom_id in self._ids:
            text = f"The custom_id {found.custom_id!r} is used by an earlier line, too."
            self.faults.append(BatchLineFault(code="duplicate_custom_id", message=text, line=number, param="custom_id"))
        else:
            self._ids.add(found.custom_id)

    def finish(self) -> None:
        """Check what is known only at the end of the input."""
        if not self.total:
            self.faults.append(BatchLineFault(code="empty_file", message="The input file has no lines."))


def render_answer(request_id: str, custom_id: str, status: int, response_id: str, body: Any) -> bytes:
    """Return the output line of a request that was answered, with success or not."""
    response = {"status_code": status, "request_id": response_id, "body": body}
    return _render({"id": f"batch_req_{request_id}", "custom_id": custom_id, "response": response, "error": None})


def render_failure(request_id: str, custom_id: str, code: str, message: str) -> bytes:
    """Return the output line of a request that got no answer."""
    error = {"code": code, "message": message}
    return _render({"id": f"batch_req_{request_id}", "custom_id": custom_id, "response": None, "error": error})


def _render(fields: Mapping[str, Any]) -> bytes:
    # Only ASCII: JSON may hold halves of surrogate pairs, which UTF-8 does not.
    return json.dumps(fields, separators=(",", ":")).encode() + b"\n"


def render_expired(custom_id: str, number: int, batch_id: str) -> bytes:
    """Return the output line of a request that a batch had no time for."""
    text = "This request could not be executed before the completion window expired."
    return render_failure(f"{batch_id}_{number}", custom_id, EXPIRED, text)


def find_custom_id(line: bytes) -> str:
    """Return the custom_id of a line that was checked before."""
    try:
        fields = json.loads(line)
    except ValueError:
        return ""
    return str(fields.get("custom_id") or "") if isinstance(fields, dict) else ""
