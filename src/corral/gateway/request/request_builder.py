"""Builds an `InferenceRequest` from an HTTP request: the caller, the model, and the body as its engine gets it.

`build_request_now` decides in memory and at once; a warm request needs nothing else. `build_request_later` reads from
the registry what is not in memory. Both have the same result, and both are used by the hot path and by the ASGI routes.
Tools that a model's chat template does not support are refused, because engines drop them silently. The prompts
that `echo` asks for are read for engines that ignore the field (`ignores` of a manifest): Corral repeats them itself.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from corral.backends.catalog import BackendCatalog
from corral.domain.access import Principal, can_use_model
from corral.domain.errors import InvalidRequest
from corral.domain.usage import new_uninitialised
from corral.gateway.exchange.gateway import JSON, Gateway, InferenceRequest, ResponseReadOptions
from corral.gateway.request import request_body as bodies
from corral.gateway.request.request_body import find_model_name
from corral.gateway.routing.routing_snapshot import ModelFilter
from corral.policy.serving.json_scan import is_small_shape
from corral.policy.serving.response_rewriter import PromptEcho
from corral.runtime.slice_runner import SliceRunner
from corral.store.replica_use import ServedModel

# The paths of inference calls, and the kind of call of each.
CALLS = {
    "/v1/chat/completions": "chat",
    "/v1/completions": "completions",
    "/v1/embeddings": "embeddings",
}
# A body up to this size is searched at once, which takes some microseconds.
SCANNED_NOW_BYTES_MAX = 256 * 1024
_ECHO = b'"echo"'
# `functions` is the older name in OpenAI's API.
_TOOL_LISTS = ("tools", "functions")
# The members of a request that decide whether it is refused.
TOOL_NAMES = (*_TOOL_LISTS, "tool_choice", "function_call")
_TOOL_MARKS = tuple(f'"{name}"'.encode() for name in _TOOL_LISTS)
_WAIT = re.compile(r"(?:^|[,;])\s*wait\s*=\s*\"?(\d{1,6})\"?", re.ASCII | re.IGNORECASE)


class KeyDirectory(Protocol):
    """Finds the holders of API keys. `access.directory.CredentialDirectory` implements it."""

    def find_known_principal(self, secret: str) -> Principal | None:
        """Return the holder of an API key from memory; None if it is unknown here."""
        ...

    async def authenticate_key(self, secret: str | None) -> Principal:
        """Return the holder of an API key; raise `NotAuthenticated` if the key does not work."""
        ...


class RequestDeps(Protocol):
    """Names what is needed to build a request. `api.deps.ApiDeps` has all of it."""

    @property
    def gateway(self) -> Gateway: ...

    @property
    def directory(self) -> KeyDirectory: ...

    @property
    def catalog(self) -> BackendCatalog: ...

    @property
    def slice_runner(self) -> SliceRunner: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestHead:
    """Holds the contents of the head of an inference request: the call, the secret or the known caller, and how long it
    may wait."""

    path: str
    call: str
    secret: str | None = field(default=None, repr=False)
    # The caller, if known already; a browser has a session and no secret.
    principal: Principal | None = None
    wait_s: float | None = None
    traceparent: str = ""


def parse_preferred_wait_s(prefer: str) -> float | None:
    """Parse `Prefer: wait=2` (RFC 7240): how long the client is willing to wait for a model that has to be loaded."""
    found = _WAIT.search(prefer)
    return float(found[1]) if found else None


def make_model_filter(principal: Principal) -> ModelFilter | None:
    """Return the filter of the models that a caller may see; None: all. Other models do not exist for this caller."""
    if principal.models is None:
        return None
    return lambda model: can_use_model(principal, model.name, model.names)


def build_request_now(deps: RequestDeps, head: RequestHead, body: bytes, request_id: str) -> InferenceRequest | None:
    """Build the request from memory; None if memory is not enough. Raises `CorralError` if the request is refused."""
    principal = head.principal or (deps.directory.find_known_principal(head.secret) if head.secret else None)
    if principal is None:
        return None
    try:
        sent = _read_now(body)
    except InvalidRequest as error:
        raise deps.gateway.charge_refused(error, principal) from error
    if sent is None:
        return None
    model = deps.gateway.router.snapshot.find(sent[0])
    if model is None or not model.is_enabled:
        return None
    if principal.models is not None and not can_use_model(principal, model.name, model.names):
        raise deps.gateway.router.make_not_found_error(sent[0], make_model_filter(principal))
    if len(body) > bodies.IN_PLACE_BYTES_MAX and _needs_scan_first(model, sent):
        return None
    return _build_request(deps, head, principal, model, sent, request_id)


async def build_request_later(deps: RequestDeps, head: RequestHead, body: bytes, request_id: str) -> InferenceRequest:
    """Build the request as `build_request_now` does, and read from the registry what is not in memory."""
    principal = head.principal or await deps.directory.authenticate_key(head.secret)
    try:
        sent = _read_now(body) or await _read_in_slices(deps, principal, body)
    except InvalidRequest as error:
        raise deps.gateway.charge_refused(error, principal) from error
    model = await deps.gateway.router.resolve(sent[0], make_model_filter(principal))
    if _needs_scan_first(model, sent):
        sent = sent[0], body, await bodies.parse_body_in_slices(body, deps.slice_runner)
    return _build_request(deps, head, principal, model, sent, request_id)


# The model's name, the body, and the body decoded if it had to be. A plain tuple: one is made for every request.
_SentBody = tuple[str, bytes, bodies.RequestBody | None]


def _read_now(body: bytes) -> _SentBody | None:
    """Read a body at once; None if that would block other requests for too long."""
    if len(body) > SCANNED_NOW_BYTES_MAX:
        return None
    if not is_small_shape(body):
        if len(body) > bodies.IN_PLACE_BYTES_MAX:
            return None
        bodies.check_body(body)
    name = find_model_name(body)
    if name is not None:
        return name, body, None
    if len(body) > bodies.IN_PLACE_BYTES_MAX:
        return None
    decoded = bodies.parse_body(body)
    return decoded.model, body, decoded


async def _read_in_slices(deps: RequestDeps, principal: Principal, body: bytes) -> _SentBody:
    # A key without requests left is refused before any more work is done.
    deps.gateway.limiter.check_requests(principal)
    decoded = await bodies.parse_body_in_slices(body, deps.slice_runner)
    return decoded.model, body, decoded


def _needs_scan_first(model: ServedModel, sent: _SentBody) -> bool:
    """Return whether a large body has to be changed for its engine, and its members have not been located yet."""
    name, body, decoded = sent
    if decoded is not None or len(body) <= bodies.IN_PLACE_BYTES_MAX:
        return False
    if body.find(_ECHO) >= 0:
        return True
    return bool(model.defaults) or name != model.name or (model.takes_tools is False and may_have_tools(body))


def _build_request(
    deps: RequestDeps, head: RequestHead, principal: Principal, model: ServedModel, sent: _SentBody, request_id: str
) -> InferenceRequest:
    if model.serves and head.call not in model.serves:
        raise InvalidRequest(
            f"Model {model.name} does not support {head.call}; it is for {', '.join(model.serves)}.",
            code="model_serves_other",
        )
    name, received, decoded = sent
    body, read_options = received, None
    if model.takes_tools is False and may_have_tools(received):
        decoded = decoded or bodies.parse_body(received)
        refuse_tools(model, decoded.peek(TOOL_NAMES))
    if head.call == "completions" and received.find(_ECHO) >= 0:
        decoded = decoded or bodies.parse_body(received)
        manifest = deps.catalog.find_manifest(model.backend) if decoded.peek(("echo",)).get("echo") else None
        if manifest is not None and "echo" in manifest.ignores:
            read_options = ResponseReadOptions(echo=_read_echo(model, decoded))
    if model.defaults or name != model.name:
        body = (decoded or bodies.parse_body(received)).render_for_engine(model.name, model.defaults, head.call)
    request = new_uninitialised(InferenceRequest)
    request.model = model
    request.call = head.call
    request.path = head.path
    request.body = body
    request.principal = principal
    request.request_id = request_id
    request.content_type = JSON
    request.headers = ()
    request.wait_s = head.wait_s
    request.received_bytes = len(received)
    request.size_bytes = None
    request.traceparent = head.traceparent
    request.read_options = read_options
    return request


def may_have_tools(body: bytes) -> bool:
    """Return whether a body can name tools at all, without decoding it. An escaped name is left to the engine."""
    return any(body.find(mark) >= 0 for mark in _TOOL_MARKS)


def refuse_tools(model: ServedModel, members: Mapping[str, Any]) -> None:
    """Raise `InvalidRequest` if a decoded request brings tools to a model that supports none.

    With `tool_choice` "none" the tools are ignored anyway, so the request is allowed."""
    if model.takes_tools is not False:
        return
    if any(members.get(name) for name in _TOOL_LISTS) and not _forbids_tools(members):
        raise InvalidRequest(
            f"Model {model.name} does not support tools: its chat template has no place for them.",
            hint="`corral models show` says which models take tools. Without tools this model answers; a JSON schema "
            "as response_format works with every chat model.",
            code="tools_not_supported",
        )


def _forbids_tools(members: Mapping[str, Any]) -> bool:
    choice = members.get("tool_choice", members.get("function_call"))
    return choice == "none" or (isinstance(choice, dict) and choice.get("type") == "none")


def _read_echo(model: ServedModel, body: bodies.RequestBody) -> PromptEcho:
    """Return the prompts that a request wants to be repeated. Raises `InvalidRequest` if that is not possible.

    Limit: the prompts are texts, and there are no logprobs: those of a prompt only an engine can tell."""
    found = body.peek(("logprobs", "n"))
    logprobs = found.get("logprobs")
    # 0 asks for the logprobs of the chosen tokens.
    if logprobs is not None and logprobs is not False:
        raise InvalidRequest(
            f"echo with logprobs: the engine {model.backend} of model {model.name} has no logprobs of prompts.",
            hint="Leave one of them out, or use a model on an engine that has both, such as vLLM.",
            code="echo_not_supported",
        )
    span = body.members.get("prompt")
    if span is not None and span.end - span.start > bodies.MEMBER_BYTES_MAX:
        raise InvalidRequest(
            f"echo: the prompt is larger than {bodies.MEMBER_BYTES_MAX // 1024} KiB.",
            hint="Leave echo out.",
            code="echo_not_supported",
        )
    prompt = body.get_value("prompt")
    prompts = prompt if isinstance(prompt, list) else [prompt]
    if not prompts or not all(isinstance(one, str) for one in prompts):
        raise InvalidRequest(
            f"echo: the engine {model.backend} of model {model.name} repeats texts, and not the token ids of a prompt.",
            hint="Send the prompt as a text or as a list of texts, or leave echo out.",
            code="echo_not_supported",
        )
    repeats = found.get("n")
    return PromptEcho(prompts=tuple(prompts), repeats=repeats if isinstance(repeats, int) and repeats > 0 else 1)
