"""Builds an `InferenceRequest` from an HTTP request: the caller, the model, and the body as its engine gets it.

`build_request_now` decides in memory and at once; a warm request needs nothing else. `build_request_later` reads from
the registry what is not in memory. Both have the same result, and both are used by the hot path and by the ASGI routes.
Tools that a model's chat template does not support are refused, because engines drop them silently. The prompts
that `echo` asks for are read for engines that ignore the field (`ignores` of a manifest), because Corral repeats them
itself, and for `max_tokens: 0`, because the response has to end with them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from corral.backends.catalog import BackendCatalog
from corral.domain.access import Principal, can_use_model
from corral.domain.agent import AGENT_PREFIX
from corral.domain.errors import InvalidRequest
from corral.domain.usage import new_uninitialised
from corral.gateway.errors import ModelNotFound
from corral.gateway.exchange.gateway import JSON, Gateway, InferenceRequest, ResponseReadOptions
from corral.gateway.request import request_body as bodies
from corral.gateway.request.request_body import find_model_name
from corral.gateway.request.turn_responder import TurnNeeded, TurnResponder
from corral.gateway.routing.routing_snapshot import ModelFilter
from corral.policy.agents import make_not_for_agents_error
from corral.policy.models.adapters import BY_NUMBER
from corral.policy.serving.json_scan import is_small_shape
from corral.policy.serving.mcp_choice import drop_mcp_keys, has_mcp_keys, read_mcp_choice
from corral.policy.serving.response_rewriter import PromptEcho
from corral.runtime.slice_runner import SliceRunner
from corral.store.replica_use import ServedModel

# The paths of inference calls, and the kind of call of each.
CALLS = {
    "/v1/chat/completions": "chat",
    "/v1/completions": "completions",
    "/v1/embeddings": "embeddings",
}
_CHAT = "chat"
# Where a request chooses MCP servers, and how the keys begin. A body in which either is spelt with escapes is decoded.
_METADATA = b'"metadata"'
_MCP_MARK = b'"mcp_'
# A body up to this size is searched at once, which takes some microseconds.
SCANNED_NOW_BYTES_MAX = 256 * 1024
_ECHO = b'"echo"'
# The calls in which engines take the number of an adapter.
ADAPTER_CALLS = frozenset({"chat", "completions"})
# The second is in every spelling of the first that has escapes in it.
_LORA, _ESCAPE = b'"lora"', b"\\u00"
# `functions` is the older name in OpenAI's API.
_TOOL_LISTS = ("tools", "functions")
# The members of a request that decide whether it is refused.
TOOL_NAMES = (*_TOOL_LISTS, "tool_choice", "function_call")
_TOOL_MARKS = tuple(f'"{name}"'.encode() for name in _TOOL_LISTS)
_WAIT = re.compile(r"(?:^|[,;])\s*wait\s*=\s*\"?(\d{1,6})\"?", re.ASCII | re.IGNORECASE)


class KeyDirectory(Protocol):
    """Interface that finds who holds an API key. `access.directory.CredentialDirectory` implements it."""

    def find_known_principal(self, secret: str) -> Principal | None:
        """Return the holder of an API key from memory; None if it is unknown here."""
        ...

    async def authenticate_key(self, secret: str | None) -> Principal:
        """Return the holder of an API key; raise `NotAuthenticated` if the key does not work."""
        ...


class RequestDeps(Protocol):
    """Dependencies of building an inference request. `api.deps.ApiDeps` has all of it."""

    @property
    def gateway(self) -> Gateway: ...

    @property
    def directory(self) -> KeyDirectory: ...

    @property
    def catalog(self) -> BackendCatalog: ...

    @property
    def slice_runner(self) -> SliceRunner: ...

    @property
    def turns(self) -> TurnResponder: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestHead:
    """What the head of an inference request says: the API call, the caller's key, and how long it may wait."""

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
    if model is None or not model.is_enabled or not model.is_attached:
        return None
    if principal.models is not None and not can_use_model(principal, model.name, model.names):
        raise deps.gateway.router.make_not_found_error(sent[0], make_model_filter(principal))
    # The search alone decides for nearly all requests.
    if head.call == _CHAT and (body.find(_METADATA) >= 0 or sent[2] is not None) and may_use_mcp(sent):
        return None
    if len(body) > bodies.IN_PLACE_BYTES_MAX and _needs_scan_first(model, sent):
        return None
    return _build_request(deps, head, principal, model, sent, request_id)


async def build_request_later(deps: RequestDeps, head: RequestHead, body: bytes, request_id: str) -> InferenceRequest:
    """Build the request as `build_request_now` does, and read from the registry what is not in memory. Raises
    `TurnNeeded` for a chat with MCP servers, and for one with a name that means no model: it may mean an agent."""
    principal = head.principal or await deps.directory.authenticate_key(head.secret)
    try:
        sent = _read_now(body) or await _read_in_slices(deps, principal, body)
    except InvalidRequest as error:
        raise deps.gateway.charge_refused(error, principal) from error
    try:
        model = await deps.gateway.router.resolve(sent[0], make_model_filter(principal))
    except ModelNotFound as error:
        if head.call == _CHAT:
            raise TurnNeeded(refusal=error) from error
        if sent[0].startswith(AGENT_PREFIX):
            raise make_not_for_agents_error(sent[0], head.call) from error
        raise
    if head.call == _CHAT and may_use_mcp(sent):
        sent = await _settle_mcp(deps, head, model, sent)
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
    if body.find(_ECHO) >= 0 or (model.engine_members and may_have_lora(body)):
        return True
    return bool(model.defaults) or name != model.name or (model.takes_tools is False and may_have_tools(body))


def may_use_mcp(sent: _SentBody) -> bool:
    """Return whether the metadata of a body can have keys about MCP servers."""
    _, body, decoded = sent
    if decoded is None:
        return body.find(_MCP_MARK) >= 0
    return decoded.decoded is None or has_mcp_keys(decoded.decoded.get("metadata"))


async def _settle_mcp(deps: RequestDeps, head: RequestHead, model: ServedModel, sent: _SentBody) -> _SentBody:
    """Return the body without keys about MCP servers. Raises `TurnNeeded` if it asks for any."""
    name, body, decoded = sent
    decoded = decoded or await bodies.parse_body_in_slices(body, deps.slice_runner)
    metadata = decoded.read_metadata()
    if not has_mcp_keys(metadata):
        return name, body, decoded
    check_serves(model, head)
    if not read_mcp_choice(metadata).is_empty:
        raise TurnNeeded(model=model)
    rest = decoded.replace_member("metadata", drop_mcp_keys(metadata))
    return name, rest, await bodies.parse_body_in_slices(rest, deps.slice_runner)


def check_serves(model: ServedModel, head: RequestHead) -> None:
    """Raise `InvalidRequest` if a model is not for this call."""
    if model.serves and head.call not in model.serves:
        raise InvalidRequest(
            f"Model {model.name} does not support {head.call}; it is for {', '.join(model.serves)}.",
            code="model_serves_other",
        )


def _build_request(
    deps: RequestDeps, head: RequestHead, principal: Principal, model: ServedModel, sent: _SentBody, request_id: str
) -> InferenceRequest:
    if model.serves:
        check_serves(model, head)
    name, received, decoded = sent
    body, read_options = received, None
    if model.takes_tools is False and may_have_tools(received):
        decoded = decoded or bodies.parse_body(received)
        refuse_tools(model, decoded.peek(TOOL_NAMES))
    if head.call == "completions" and received.find(_ECHO) >= 0:
        decoded = decoded or bodies.parse_body(received)
        echo = _find_echo(deps, model, decoded)
        read_options = ResponseReadOptions(echo=echo) if echo is not None else None
    if model.defaults or name != model.name:
        body = (decoded or bodies.parse_body(received)).render_for_engine(model.name, model.defaults, head.call)
    if model.engine_members and head.call in ADAPTER_CALLS:
        body = choose_adapter(deps, model, body, decoded if body is received else None)
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


def choose_adapter(
    deps: RequestDeps, model: ServedModel, body: bytes, decoded: bodies.RequestBody | None = None
) -> bytes:
    """Return the body with the member that says which adapter answers. Raises `InvalidRequest` if the request has that
    member itself: a key for one model could use another one by it."""
    manifest = deps.catalog.find_manifest(model.backend)
    if manifest is None or manifest.adapters.select != BY_NUMBER:
        return body
    if may_have_lora(body):
        decoded = decoded or bodies.parse_body(body)
        if "lora" in decoded.members:
            raise InvalidRequest(
                "lora: the adapter is chosen by the name of the model.",
                hint="Leave lora out, and name an adapter as the model.",
                code="lora_not_allowed",
            )
    start = body.index(b"{") + 1
    return b"".join([body[:start], model.engine_members.encode(), body[start:]])


def may_have_lora(body: bytes) -> bool:
    """Return whether a body can have the member `lora`, without decoding it."""
    return body.find(_LORA) >= 0 or body.find(_ESCAPE) >= 0


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


def _find_echo(deps: RequestDeps, model: ServedModel, body: bodies.RequestBody) -> PromptEcho | None:
    """Return the prompts that a request wants to be repeated; None if its engine does all of that. Raises
    `InvalidRequest` if it is not possible."""
    found = body.peek(("echo", "max_tokens", "n"))
    if not found.get("echo"):
        return None
    manifest = deps.catalog.find_manifest(model.backend)
    is_ignored = manifest is not None and "echo" in manifest.ignores
    limit, repeats = found.get("max_tokens"), found.get("n")
    # False is no number of tokens, although it is an int in Python.
    is_alone = type(limit) is int and limit == 0
    if not is_ignored and not is_alone:
        return None
    prompts = _read_prompts(body)
    if is_ignored:
        _check_echo(model, body, prompts)
    return PromptEcho(
        prompts=prompts,
        repeats=repeats if isinstance(repeats, int) and repeats > 0 else 1,
        is_ignored=is_ignored,
        is_alone=is_alone,
    )


def _is_large_prompt(body: bodies.RequestBody) -> bool:
    span = body.members.get("prompt")
    return span is not None and span.end - span.start > bodies.MEMBER_BYTES_MAX


def _read_prompts(body: bodies.RequestBody) -> tuple[str, ...]:
    """Return the prompts of a completion; none if one of them is not a text, or if they are too large."""
    prompt = None if _is_large_prompt(body) else body.get_value("prompt")
    prompts: list[Any] = prompt if isinstance(prompt, list) else [prompt]
    return tuple(prompts) if all(isinstance(one, str) for one in prompts) else ()


def _check_echo(model: ServedModel, body: bodies.RequestBody, prompts: tuple[str, ...]) -> None:
    """Raise `InvalidRequest` if Corral cannot repeat the prompts instead of the engine.

    Limit: the prompts are texts, and there are no logprobs: those of a prompt only an engine can tell."""
    logprobs = body.peek(("logprobs",)).get("logprobs")
    # 0 asks for the logprobs of the chosen tokens.
    if logprobs is not None and logprobs is not False:
        raise InvalidRequest(
            f"echo with logprobs: the engine {model.backend} of model {model.name} has no logprobs of prompts.",
            hint="Leave one of them out, or use a model on an engine that has both, such as vLLM.",
            code="echo_not_supported",
        )
    if _is_large_prompt(body):
        raise InvalidRequest(
            f"echo: the prompt is larger than {bodies.MEMBER_BYTES_MAX // 1024} KiB.",
            hint="Leave echo out.",
            code="echo_not_supported",
        )
    if not prompts:
        raise InvalidRequest(
            f"echo: the engine {model.backend} of model {model.name} repeats texts, and not the token ids of a prompt.",
            hint="Send the prompt as a text or as a list of texts, or leave echo out.",
            code="echo_not_supported",
        )
