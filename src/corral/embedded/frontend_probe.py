"""Asks a frontend over HTTP for its state, with the standard library alone.

No answer, a slow answer and a broken answer are all `None`: the caller retries.
"""

from __future__ import annotations

import http.client
import json
from dataclasses import dataclass
from enum import StrEnum
from typing import Any
from urllib.parse import urlsplit

TIMEOUT_S = 3.0
_MAX_BODY_BYTES = 8 * 1024 * 1024
# The API's name for a node whose heartbeats arrive.
LIVE_STATUSES = frozenset({"healthy", "draining"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeResponse:
    """Holds the status and body of a frontend's response to a probe."""

    status: int
    body: bytes

    def parse_json(self) -> dict[str, Any]:
        """Return the body as an object; anything else is an empty one."""
        try:
            value = json.loads(self.body)
        except ValueError:
            return {}
        return value if isinstance(value, dict) else {}


def fetch_response(
    url: str, path: str, *, key: str | None = None, timeout_s: float = TIMEOUT_S
) -> ProbeResponse | None:
    """Send one GET on a fresh connection. Blocks: run it in a thread."""
    address = urlsplit(url)
    connection = http.client.HTTPConnection(address.hostname or "", address.port or 80, timeout=timeout_s)
    headers = {"Connection": "close", "Accept": "application/json"}
    if key is not None:
        headers["Authorization"] = f"Bearer {key}"
    try:
        connection.request("GET", path, headers=headers)
        response = connection.getresponse()
        return ProbeResponse(status=response.status, body=response.read(_MAX_BODY_BYTES))
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()


def is_ready(url: str) -> bool:
    """Whether a frontend or a worker reports that it is ready."""
    answer = fetch_response(url, "/readyz")
    return answer is not None and answer.status == 200


class NodeProbeResult(StrEnum):
    """Says what a frontend knows about the nodes of its cluster: one is live, none is, or the key was refused."""

    LIVE = "live"
    NONE_LIVE = "none_live"
    # Unknown, because the key was rotated, was revoked or has expired.
    KEY_REFUSED = "key_refused"


def probe_nodes(url: str, key: str) -> NodeProbeResult:
    """Ask whether a worker's heartbeat has arrived. A frontend that cannot tell (404) counts as yes."""
    answer = fetch_response(url, "/api/cluster", key=key)
    if answer is None:
        return NodeProbeResult.NONE_LIVE
    if answer.status == 404:
        return NodeProbeResult.LIVE
    if answer.status == 401:
        return NodeProbeResult.KEY_REFUSED
    nodes = answer.parse_json().get("nodes") if answer.status == 200 else None
    is_live = any(node.get("status") in LIVE_STATUSES for node in nodes or () if isinstance(node, dict))
    return NodeProbeResult.LIVE if is_live else NodeProbeResult.NONE_LIVE
