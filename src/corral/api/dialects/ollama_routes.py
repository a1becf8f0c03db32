"""Ollama's routes: `/api/chat`, `/api/generate`, `/api/embed`, and its calls about models.

Models are listed as Ollama lists them, with a tag: `x` is `x:latest`, and both are understood. A request without a
prompt loads its model, as any request to the model does; with `keep_alive` 0 it unloads the model for everybody, which
takes the scope operate. Models are managed by Corral's own API; a call to pull, copy or delete one here is refused with
that hint.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial

from starlette.routing import Route

from corral.access.directory import require_scope
from corral.api.dialects import ollama
from corral.api.dialects.chat_completion import EventTranslation
from corral.api.dialects.dialect_call import DialectCall
from corral.api.dialects.error_envelopes import OLLAMA
from corral.api.dialects.ollama import OllamaClock, OllamaTranslation, PreloadRequest
from corral.api.dialects.request_values import Json
from corral.api.dialects.response_relay import relay_translated
from corral.api.dialects.routes import CallRoute, MemoryRoute, ModelListRoute, make_post_route
from corral.api.models.request_bodies import list_served_calls
from corral.api.openai.asgi import run_until_disconnect
from corral.api.turns.dialect_turns import answer_by_agent
from corral.domain.access import Scope
from corral.domain.errors import InvalidRequest
from corral.domain.model import ModelFacts
from corral.domain.operation import OperationKind
from corral.gateway.errors import ModelNotFound
from corral.gateway.request.request_body import RequestBody
from corral.gateway.routing.routing_snapshot import LATEST
from corral.loading.admission import ModelOperationSpec
from corral.store import replicas as replica_store
from corral.store.replica_use import ServedModel

# The version of Ollama whose API this is; clients check it before they use newer features.
OLLAMA_VERSION = "0.12.0"
_CAPABILITIES = {"chat": "completion", "completions": "completion", "embeddings": "embedding"}
_BILLION = 1_000_000_000
_NEVER = "9999-12-31T23:59:59Z"
# Clients expect every field, so those that an agent does not have are empty.
_AGENT_DETAILS = {
    "parent_model": "",
    "format": "",
    "family": "agent",
    "families": ["agent"],
    "parameter_size": "",
    "quantization_level": "",
}
_AGENT_SHOWN = {
    "modelfile": "",
    "parameters": "",
    "template": "",
    "model_info": {},
    "capabilities": ["completion", "tools"],
}


class OllamaChatRoute(CallRoute):
    """Answers the routes `/api/chat` and `/api/generate` of Ollama's API with a model's response."""

    fallback = "always translated to a chat, a raw prompt to a completion"

    def __init__(self, path: str, read: Callable[..., OllamaTranslation], *, is_chat: bool) -> None:
        super().__init__(path, "chat", OLLAMA)
        self._read = read
        self._is_chat = is_chat

    async def answer(self, call: DialectCall) -> None:
        sent = await call.read_body()
        name, clock = sent.model, _make_clock(call)
        read = partial(self._read, model=name, clock=clock)
        fields = sent.peek(("messages", "prompt", "keep_alive"))
        preload = ollama.read_preload(fields, model=name, clock=clock, is_chat=self._is_chat)
        try:
            model = await call.resolve_model(name)
        except ModelNotFound as error:
            await self._answer_by_agent(call, sent, error, read, preload)
            return
        if preload is not None:
            await run_until_disconnect(call.request.receive, lambda: _preload(call, model, preload))
            return
        await run_until_disconnect(
            call.request.receive,
            lambda: relay_translated(call, model, sent, read, lambda translation: replace(translation, clock=clock)),
        )

    async def _answer_by_agent(
        self,
        call: DialectCall,
        sent: RequestBody,
        refusal: ModelNotFound,
        read: Callable[[Json], OllamaTranslation],
        preload: PreloadRequest | None,
    ) -> None:

        def refresh(translation: EventTranslation) -> EventTranslation:
            assert isinstance(translation, OllamaTranslation), "this route reads no others"
            return replace(translation, clock=_make_clock(call))

        if preload is None:
            await answer_by_agent(call, sent, refusal, lambda _: read, refresh)
            return
        # There is nothing to load for an agent.
        await call.deps.turn_calls.find_agent(call.principal, sent.model, refusal)
        await call.send_json(preload.render_answer())


async def _preload(call: DialectCall, model: ServedModel, preload: PreloadRequest) -> None:
    if preload.unloads:
        await _unload(call, model)
    else:
        await call.load_model(model)
    await call.send_json(preload.render_answer())


async def _unload(call: DialectCall, model: ServedModel) -> None:
    """Unload the model's replicas, also those that other callers use. A model that is loaded nowhere stays as it is."""
    operator = require_scope(call.principal, Scope.OPERATE)
    async with call.deps.database.transaction() as tx:
        is_loaded = bool(await replica_store.list_replicas(tx, model=model.name))
    if is_loaded:
        spec = ModelOperationSpec(kind=OperationKind.MODEL_UNLOAD, model=model.name, reason="a client of Ollama's API")
        await call.deps.model_operations.admission.admit(spec, operator.name)


class OllamaEmbedRoute(CallRoute):
    """Answers the routes `/api/embed` and `/api/embeddings` of Ollama's API with vectors.

    The latter is older and takes one text.
    """

    fallback = "always translated to embeddings"

    def __init__(self, path: str, *, is_old: bool = False) -> None:
        super().__init__(path, "embeddings", OLLAMA)
        self._is_old = is_old

    async def answer(self, call: DialectCall) -> None:
        sent = await call.read_body()
        model, clock = await call.resolve_engine_model(sent.model), _make_clock(call)
        read = partial(ollama.read_embed_request, model=sent.model, clock=clock, is_old=self._is_old)
        await run_until_disconnect(
            call.request.receive,
            lambda: relay_translated(call, model, sent, read, lambda translation: replace(translation, clock=clock)),
        )


class OllamaShowRoute(CallRoute):
    """Answers the route `/api/show` of Ollama's API, which describes a model."""

    fallback = MemoryRoute.fallback

    async def answer(self, call: DialectCall) -> None:
        fields = (await call.read_body()).peek(("model", "name"))
        name = fields.get("model") or fields.get("name")
        try:
            model = await call.resolve_any_model(name)
        except ModelNotFound as error:
            await call.deps.turn_calls.find_agent(call.principal, str(name), error)
            await call.send_json(_AGENT_SHOWN | {"details": _AGENT_DETAILS})
            return
        shown = {
            "modelfile": "",
            "parameters": "",
            "template": "",
            "details": _render_details(model),
            "model_info": _render_model_info(model),
            "capabilities": _list_capabilities(model, _list_served_calls(call, model)),
            "modified_at": model.created_at.isoformat(),
        }
        await call.send_json(shown)


class OllamaUnsupportedRoute(CallRoute):
    """Refuses the routes of Ollama's API with which clients pull, copy or delete models."""

    fallback = "400 `not_managed_here`"

    async def answer(self, call: DialectCall) -> None:
        del call
        raise InvalidRequest(
            f"Models are not changed through {self.path}.",
            hint="An admin does it with `corral models`; see `corral models --help`.",
            code="not_managed_here",
        )


def _make_clock(call: DialectCall) -> OllamaClock:
    clock = call.deps.clock
    return OllamaClock(monotonic=clock.monotonic, format_now=lambda: clock.wall().isoformat().replace("+00:00", "Z"))


def _list_served_calls(call: DialectCall, model: ServedModel) -> tuple[str, ...]:
    return model.serves or tuple(list_served_calls(call.deps, model.backend))


async def _render_tags(call: DialectCall) -> Json:
    """Render the models that Ollama's calls can use, and the caller's agents. A model that is not loaded needs an
    engine that a gallery has."""
    listed = [model for model in call.list_models() if _is_for_ollama(call, model) and _can_be_loaded(call, model)]
    models = [_render_entry(model) | {"modified_at": model.created_at.isoformat()} for model in listed]
    agents = await call.deps.turn_calls.list_agents(call.principal)
    return {"models": [*models, *(_render_agent_entry(name, created_s) for name, created_s in agents)]}


def _render_agent_entry(agent: str, created_s: float) -> Json:
    name = agent + LATEST
    modified_at = datetime.fromtimestamp(created_s, UTC).isoformat()
    digest = hashlib.sha256(agent.encode()).hexdigest()
    return {"name": name, "model": name, "size": 0, "digest": digest, "modified_at": modified_at} | {
        "details": _AGENT_DETAILS
    }


def _is_for_ollama(call: DialectCall, model: ServedModel) -> bool:
    serves = _list_served_calls(call, model)
    return not serves or any(word in _CAPABILITIES for word in serves)


def _can_be_loaded(call: DialectCall, model: ServedModel) -> bool:
    is_known = call.deps.catalog.get(model.backend) is not None or bool(list_served_calls(call.deps, model.backend))
    return is_known or bool(call.deps.gateway.router.snapshot.list_open_replicas(model))


def _render_loaded(call: DialectCall) -> Json:
    """Render the models with a replica, in Ollama's form."""
    snapshot = call.deps.gateway.router.snapshot
    loaded = [model for model in call.list_models() if snapshot.list_open_replicas(model)]
    return {"models": [_render_entry(model) | {"expires_at": _NEVER, "size_vram": 0} for model in loaded]}


class OllamaVersionRoute(CallRoute):
    """Answers the route `/api/version` of Ollama's API, without a key.

    Clients use it to find out whether a server is there.
    """

    fallback = MemoryRoute.fallback
    needs_key = False

    async def answer(self, call: DialectCall) -> None:
        await call.send_json({"version": OLLAMA_VERSION})


def _render_entry(model: ServedModel) -> Json:
    name = model.name if ":" in model.name else model.name + LATEST
    size_bytes = model.size_bytes or 0
    return {
        "name": name,
        "model": name,
        "size": size_bytes,
        "digest": model.run_hash,
        "details": _render_details(model),
    }


def _render_details(model: ServedModel) -> Mapping[str, object]:
    """Render the details of a model. Clients expect every field, so unknown ones are empty."""
    facts = model.facts or ModelFacts()
    family = facts.architecture or model.backend
    return {
        "parent_model": "",
        "format": facts.format,
        "family": family,
        "families": [family],
        "parameter_size": _format_parameter_size(facts.parameters),
        "quantization_level": facts.quantisation,
    }


def _format_parameter_size(parameters: int | None) -> str:
    """Format a count of parameters as Ollama does: 135M, 8.0B."""
    if not parameters:
        return ""
    return f"{parameters / 1e9:.1f}B" if parameters >= _BILLION else f"{parameters / 1e6:.0f}M"


def _render_model_info(model: ServedModel) -> Json:
    """Render the known fields that clients look up under the keys of a GGUF header."""
    facts = model.facts or ModelFacts()
    family = facts.architecture
    found = {"general.name": model.name, "general.architecture": family, "general.parameter_count": facts.parameters}
    if family:
        found |= {
            f"{family}.context_length": facts.context_length,
            f"{family}.embedding_length": facts.embedding_length,
        }
        found |= {f"{family}.block_count": facts.layers}
    return {key: value for key, value in found.items() if value}


def _list_capabilities(model: ServedModel, serves: tuple[str, ...]) -> list[str]:
    found = [_CAPABILITIES[word] for word in serves if word in _CAPABILITIES]
    if "completion" in found:
        found += ["tools"] if model.takes_tools else []
        found += ["vision"] if model.has_projector else []
    return list(dict.fromkeys(found))


OLLAMA_ROUTES = [
    make_post_route(OllamaChatRoute("/api/chat", ollama.read_chat, is_chat=True)),
    make_post_route(OllamaChatRoute("/api/generate", ollama.read_generate, is_chat=False)),
    make_post_route(OllamaEmbedRoute("/api/embed")),
    make_post_route(OllamaEmbedRoute("/api/embeddings", is_old=True)),
    make_post_route(OllamaShowRoute("/api/show", "show", OLLAMA)),
    Route("/api/tags", ModelListRoute("/api/tags", "tags", OLLAMA, _render_tags), methods=["GET"]),
    Route("/api/ps", MemoryRoute("/api/ps", "ps", OLLAMA, _render_loaded), methods=["GET"]),
    Route("/api/version", OllamaVersionRoute("/api/version", "version", OLLAMA), methods=["GET"]),
    *(
        make_post_route(OllamaUnsupportedRoute(f"/api/{name}", name, OLLAMA))
        for name in ("pull", "push", "create", "copy")
    ),
    Route("/api/delete", OllamaUnsupportedRoute("/api/delete", "delete", OLLAMA), methods=["DELETE"]),
]
