"""Small questions to a frontend over HTTP, with the standard library alone.

No answer, a slow answer and a broken answer are all `None`: the caller asks again.
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
# What the API calls a node whose heartbeats arrive.
LIVE_STATUSES = frozenset({"healthy", "draining"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    status: int
    body: bytes

    def json(self) -> dict[str, Any]:
        """The body as an object; anything else is an empty one."""
        try:
            value = json.loads(self.body)
        except ValueError:
            return {}
        return value if isinstance(value, dict) else {}


def get(url: str, path: str, *, key: str | None = None, timeout_s: float = TIMEOUT_S) -> Answer | None:
    """One GET on a fresh connection. Blocks: run it in a thread."""
    place = urlsplit(url)
    connection = http.client.HTTPConnection(place.hostname or "", place.port or 80, timeout=timeout_s)
    headers = {"Connection": "close", "Accept": "application/json"}
    if key is not None:
        headers["Authorization"] = f"Bearer {key}"
    try:
        connection.request("GET", path, headers=headers)
        response = connection.getresponse()
        return Answer(status=response.status, body=response.read(_MAX_BODY_BYTES))
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()


def is_ready(url: str) -> bool:
    """What a frontend or a worker says of itself."""
    answer = get(url, "/readyz")
    return answer is not None and answer.status == 200


class NodeProbe(StrEnum):
    """What a frontend says about the nodes of its cluster."""

    LIVE = "live"
    NONE_LIVE = "none_live"
    # It does not say: the key was rotated, was revoked or has expired.
    KEY_REFUSED = "key_refused"


def probe_nodes(url: str, key: str) -> NodeProbe:
    """Ask whether a worker's heartbeat has arrived. A frontend that cannot tell (404) counts as yes."""
    answer = get(url, "/api/cluster", key=key)
    if answer is None:
        return NodeProbe.NONE_LIVE
    if answer.status == 404:
        return NodeProbe.LIVE
    if answer.status == 401:
        return NodeProbe.KEY_REFUSED
    nodes = answer.json().get("nodes") if answer.status == 200 else None
    is_live = any(node.get("status") in LIVE_STATUSES for node in nodes or () if isinstance(node, dict))
    return NodeProbe.LIVE if is_live else NodeProbe.NONE_LIVE
