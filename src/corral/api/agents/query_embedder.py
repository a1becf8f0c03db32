"""Embeds the query of a search by a model of the cluster, as a request of its caller: limits and usage count."""

from __future__ import annotations

import json
from typing import Any

from corral.api.deps import ApiDeps
from corral.domain.access import Principal
from corral.domain.errors import CorralError, Unavailable
from corral.gateway.exchange.exchange_response import open_exchange
from corral.gateway.request.request_builder import RequestHead, build_request_later, build_request_now

# An embedding of the most numbers that can be stored, written as text.
ANSWER_BYTES_MAX = 2 * 1024 * 1024
_SUCCESS = 200


class EmbeddingFailed(CorralError):
    """The engine of an embedding model has answered with something else than an embedding."""

    code = "embedding_failed"


async def embed_query(
    deps: ApiDeps, caller: Principal, model: str, text: str, request_id: str | None
) -> tuple[float, ...]:
    """Return the embedding of a text."""
    head = RequestHead(path="/v1/embeddings", call="embeddings", principal=caller)
    body = json.dumps({"model": model, "input": [text], "encoding_format": "float"}).encode()
    request_id = request_id or deps.ids.new_id()
    request = build_request_now(deps, head, body, request_id) or await build_request_later(deps, head, body, request_id)
    async with open_exchange(deps.gateway, request) as response:
        content = await response.read(ANSWER_BYTES_MAX)
        if response.status != _SUCCESS:
            raise Unavailable(f"The embedding model {model} answers with {response.status}.", code="embedding_failed")
    return _read_embedding(content)


def _read_embedding(content: bytes) -> tuple[float, ...]:
    try:
        values: Any = json.loads(content)["data"][0]["embedding"]
        return tuple(float(value) for value in values)
    except (ValueError, TypeError, LookupError) as error:
        raise EmbeddingFailed("The engine's answer holds no embedding.") from error
