"""From a request for a model to a wish: who asks, for which model, and the body as its engine gets it.

`wish_now` decides in memory and at once; it is all that a warm request needs. `wish_later` asks the registry for what
is not in memory. Both say the same, and both are used by the hot path and by the ASGI routes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from corral.access.allowed import may_ask
from corral.api.openai import body as bodies
from corral.api.openai.logprobs import refuse_echo
from corral.api.openai.scan import model_name
from corral.api.openai.tools import TOOL_NAMES, may_have_tools, refuse_tools
from corral.api.parts import Parts
from corral.domain.access import Principal
from corral.domain.errors import InvalidRequest
from corral.domain.records import blank
from corral.policy.serving.json_scan import is_small_shape
from corral.serving.gateway import JSON, Wish
from corral.serving.snapshot import ModelFilter
from corral.store.use import Served

# Paths that are answered by a model, and what they ask of it.
CALLS = {
    "/v1/chat/completions": "chat",
    "/v1/completions": "completions",
    "/v1/embeddings": "embeddings",
}
# A body up to this size is looked at where it is read: bytes are found in it in some microseconds.
GLANCE_BYTES_MAX = 256 * 1024
_ECHO = b'"echo"'
_WAIT = re.compile(r"(?:^|[,;])\s*wait\s*=\s*\"?(\d{1,6})\"?", re.ASCII | re.IGNORECASE)
_TRACEPARENT = re.compile(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What the head of a request says."""

    path: str
    call: str
    secret: str | None = field(default=None, repr=False)
    # Who asks, if that is known already; a browser has a session and no secret.
    principal: Principal | None = None
    wait_s: float | None = None
    traceparent: str = ""


def preferred_wait_s(prefer: str) -> float | None:
    """`Prefer: wait=2` (RFC 7240): how long the client wants to wait for a model that has to be loaded."""
    found = _WAIT.search(prefer)
    return float(found[1]) if found else None


def trace_context(given: str) -> str:
    """What a client sent, if it can be sent on."""
    return given if _TRACEPARENT.fullmatch(given) else ""


def shown_to(principal: Principal) -> ModelFilter | None:
    """Return which models a caller may know of; None: all. Those outside its list do not exist for it."""
    if principal.models is None:
        return None
    return lambda model: may_ask(principal, model.name, model.names)


def wish_now(parts: Parts, asked: Asked, body: bytes, request_id: str) -> Wish | None:
    """None: memory is not enough. `CorralError`: refused."""
    principal = asked.principal or (parts.directory.known(asked.secret) if asked.secret else None)
    if principal is None:
        return None
    try:
        sent = _read_now(body)
    except InvalidRequest as error:
        raise parts.gateway.charge_refused(error, principal) from error
    if sent is None:
        return None
    model = parts.gateway.router.snapshot.find(sent[0])
    if model is None or not model.is_enabled:
        return None
    if principal.models is not None and not may_ask(principal, model.name, model.names):
        raise parts.gateway.router.not_found(sent[0], shown_to(principal))
    if len(body) > bodies.IN_PLACE_BYTES_MAX and _is_scanned_first(model, sent):
        return None
    return _wish(parts, asked, principal, model, sent, request_id)


async def wish_later(parts: Parts, asked: Asked, body: bytes, request_id: str) -> Wish:
    """As `wish_now`, but what is not known here may be in the registry."""
    principal = asked.principal or await parts.directory.principal(asked.secret)
    try:
        sent = _read_now(body) or await _read_in_slices(parts, principal, body)
    except InvalidRequest as error:
        raise parts.gateway.charge_refused(error, principal) from error
    model = await parts.gateway.router.resolve(sent[0], shown_to(principal))
    if _is_scanned_first(model, sent):
        sent = sent[0], body, await bodies.read_in_slices(body, parts.slices)
    return _wish(parts, asked, principal, model, sent, request_id)


# The model's name, the body, and the body decoded if it had to be. A plain tuple: one is made for every request.
_Sent = tuple[str, bytes, bodies.Body | None]


def _read_now(body: bytes) -> _Sent | None:
    """None: reading it takes longer than anybody else should wait."""
    if len(body) > GLANCE_BYTES_MAX:
        return None
    if not is_small_shape(body):
        if len(body) > bodies.IN_PLACE_BYTES_MAX:
            return None
        bodies.run_check(body)
    name = model_name(body)
    if name is not None:
        return name, body, None
    if len(body) > bodies.IN_PLACE_BYTES_MAX:
        return None
    decoded = bodies.read(body)
    return decoded.model, body, decoded


async def _read_in_slices(parts: Parts, principal: Principal, body: bytes) -> _Sent:
    # Whoever has no requests left is told so before anything is done about it.
    parts.gateway.limiter.check_requests(principal)
    decoded = await bodies.read_in_slices(body, parts.slices)
    return decoded.model, body, decoded


def _is_scanned_first(model: Served, sent: _Sent) -> bool:
    """Whether a large body has to be changed for its engine, and nobody knows the places yet."""
    name, body, decoded = sent
    if decoded is not None or len(body) <= bodies.IN_PLACE_BYTES_MAX:
        return False
    if body.find(_ECHO) >= 0:
        return True
    return bool(model.defaults) or name != model.name or (model.takes_tools is False and may_have_tools(body))


def _wish(parts: Parts, asked: Asked, principal: Principal, model: Served, sent: _Sent, request_id: str) -> Wish:
    if model.serves and asked.call not in model.serves:
        raise InvalidRequest(
            f"Model {model.name} does not answer {asked.call}; it is for {', '.join(model.serves)}.",
            code="model_serves_other",
        )
    name, received, decoded = sent
    body = received
    if model.takes_tools is False and may_have_tools(received):
        decoded = decoded or bodies.read(received)
        refuse_tools(model, decoded.peek(TOOL_NAMES))
    if asked.call == "completions" and received.find(_ECHO) >= 0:
        decoded = decoded or bodies.read(received)
        manifest = parts.catalog.manifest_of(model.backend) if decoded.peek(("echo",)).get("echo") else None
        if manifest is not None and "echo" in manifest.ignores:
            raise refuse_echo(model)
    if model.defaults or name != model.name:
        body = (decoded or bodies.read(received)).for_engine(model.name, model.defaults, asked.call)
    wish = blank(Wish)
    wish.model = model
    wish.call = asked.call
    wish.path = asked.path
    wish.body = body
    wish.principal = principal
    wish.request_id = request_id
    wish.content_type = JSON
    wish.headers = ()
    wish.wait_s = asked.wait_s
    wish.received_bytes = len(received)
    wish.size_bytes = None
    wish.traceparent = asked.traceparent
    wish.reading = None
    return wish
