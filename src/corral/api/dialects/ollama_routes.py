"""Ollama's routes: `/api/chat`, `/api/generate`, `/api/embed`, and what its clients ask about models.

Models are listed as Ollama lists them, with a tag: `x` is `x:latest`, and both are understood. A request without a
prompt loads its model, as anybody who may ask the model can by asking; with `keep_alive` 0 it unloads the model for
everybody, which takes the scope operate. Models are managed by Corral's own API; whoever wants to pull, copy or delete
one here is told so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from starlette.routing import Route

from corral.access.allowed import allowed
from corral.api.dialects import ollama
from corral.api.dialects.answering import answered, translate
from corral.api.dialects.calls import Call
from corral.api.dialects.envelopes import OLLAMA
from corral.api.dialects.ollama import Asked, Moment, Preload
from corral.api.dialects.reading import Json, some_text
from corral.api.dialects.routes import CallRoute, Told, post
from corral.api.models.bodies import serves_of
from corral.api.openai.leaving import while_there
from corral.domain.access import Scope
from corral.domain.errors import InvalidRequest
from corral.domain.model import ModelFacts
from corral.domain.operation import OperationKind
from corral.loading.request import Wanted
from corral.serving.snapshot import LATEST
from corral.store import replicas as replica_store
from corral.store.use import Served

# Which of Ollama's versions speaks as is spoken here; clients look at it before they use what is newer.
SPOKEN_VERSION = "0.12.0"
_CAPABILITIES = {"chat": "completion", "completions": "completion", "embeddings": "embedding"}
_BILLION = 1_000_000_000
_NEVER = "9999-12-31T23:59:59Z"


class Chatted(CallRoute):
    """`/api/chat` and `/api/generate`."""

    otherwise = "always translated to a chat, a raw prompt to a completion"

    def __init__(self, path: str, read: Callable[..., Asked], *, is_chat: bool) -> None:
        super().__init__(path, "chat", OLLAMA)
        self._read = read
        self._is_chat = is_chat

    async def answer(self, call: Call) -> None:
        sent = await call.read_body()
        said = await call.decode(sent)
        model = await call.model(said.get("model"))
        name, moment = str(said["model"]), _moment(call)
        preload = ollama.read_preload(said, model=name, moment=moment, is_chat=self._is_chat)
        if preload is not None:
            await while_there(call.request.receive, lambda: _preload(call, model, preload))
            return
        asked = self._read(said, model=name, moment=moment)
        await while_there(
            call.request.receive,
            lambda: translate(call, model, asked, received_bytes=len(sent.raw), to=asked.call),
        )


async def _preload(call: Call, model: Served, preload: Preload) -> None:
    if preload.unloads:
        await _unload(call, model)
    else:
        await call.load(model)
    await call.reply(preload.answer())


async def _unload(call: Call, model: Served) -> None:
    """End the model's replicas, also those that others use. A model that is loaded nowhere stays as it is."""
    operator = allowed(call.principal, Scope.OPERATE)
    async with call.parts.database.transaction() as tx:
        is_loaded = bool(await replica_store.list_replicas(tx, model=model.name))
    if is_loaded:
        wanted = Wanted(kind=OperationKind.MODEL_UNLOAD, model=model.name, reason="a client of Ollama's API")
        await call.parts.loading.loads.admit(wanted, operator.name)


class Embedded(CallRoute):
    """`/api/embed`, and `/api/embeddings`, which is older and takes one text."""

    otherwise = "always translated to embeddings"

    def __init__(self, path: str, *, is_old: bool = False) -> None:
        super().__init__(path, "embeddings", OLLAMA)
        self._is_old = is_old

    async def answer(self, call: Call) -> None:
        sent = await call.read_body()
        said = await call.decode(sent)
        if self._is_old:
            said = {"input" if name == "prompt" else name: value for name, value in said.items()}
            some_text(said.get("input"), "prompt")
        model = await call.model(said.get("model"))
        wanted, ignored = ollama.read_embed(said)
        call.note_ignored(ignored)
        call.require(model, "embeddings")
        wish = call.wish(model, "embeddings", call.chat_body(model, wanted, "embeddings"), received_bytes=len(sent.raw))
        began_s = call.parts.clock.monotonic()

        def tell(answer: Json) -> Json:
            vectors, tokens = ollama.embeddings_of(answer)
            took = ollama.nano(call.parts.clock.monotonic() - began_s)
            told: Json = {"model": said["model"], "embeddings": vectors, "total_duration": took}
            told |= {"load_duration": 0, "prompt_eval_count": tokens}
            return {"embedding": vectors[0]} if self._is_old else told

        async def work() -> None:
            told = await answered(call, wish, tell)
            if told is not None:
                await call.reply(told)

        await while_there(call.request.receive, work)


class Shown(CallRoute):
    """`/api/show`."""

    otherwise = Told.otherwise

    async def answer(self, call: Call) -> None:
        said = await call.decode(await call.read_body())
        model = await call.found(said.get("model") or said.get("name"))
        shown = {
            "modelfile": "",
            "parameters": "",
            "template": "",
            "details": _details(model),
            "model_info": _model_info(model),
            "capabilities": _capabilities(model, _serves(call, model)),
            "modified_at": model.created_at.isoformat(),
        }
        await call.reply(shown)


class Refused(CallRoute):
    """What Ollama's clients do to models."""

    otherwise = "400 `not_managed_here`"

    async def answer(self, call: Call) -> None:
        del call
        raise InvalidRequest(
            f"Models are not changed through {self.path}.",
            hint="An admin does it with `corral models`; see `corral models --help`.",
            code="not_managed_here",
        )


def _moment(call: Call) -> Moment:
    clock = call.parts.clock
    return Moment(monotonic=clock.monotonic, stamp=lambda: clock.wall().isoformat().replace("+00:00", "Z"))


def _serves(call: Call, model: Served) -> tuple[str, ...]:
    return model.serves or tuple(serves_of(call.parts, model.backend))


def _tags(call: Call) -> Json:
    """The models that Ollama's calls can be made to. A model that is not loaded needs an engine that a gallery has."""
    listed = [model for model in call.listed() if _is_for_ollama(call, model) and _can_be_loaded(call, model)]
    return {"models": [_entry(model) | {"modified_at": model.created_at.isoformat()} for model in listed]}


def _is_for_ollama(call: Call, model: Served) -> bool:
    serves = _serves(call, model)
    return not serves or any(word in _CAPABILITIES for word in serves)


def _can_be_loaded(call: Call, model: Served) -> bool:
    is_known = call.parts.catalog.get(model.backend) is not None or bool(serves_of(call.parts, model.backend))
    return is_known or bool(call.parts.gateway.router.snapshot.open_replicas(model))


def _loaded(call: Call) -> Json:
    """Those with a replica. When one goes is decided as it goes."""
    snapshot = call.parts.gateway.router.snapshot
    loaded = [model for model in call.listed() if snapshot.open_replicas(model)]
    return {"models": [_entry(model) | {"expires_at": _NEVER, "size_vram": 0} for model in loaded]}


class Versioned(CallRoute):
    """`/api/version`, without a key: clients ask for it to find out whether somebody is there at all."""

    otherwise = Told.otherwise
    needs_key = False

    async def answer(self, call: Call) -> None:
        await call.reply({"version": SPOKEN_VERSION})


def _entry(model: Served) -> Json:
    name = model.name if ":" in model.name else model.name + LATEST
    size_bytes = model.size_bytes or 0
    return {"name": name, "model": name, "size": size_bytes, "digest": model.run_hash, "details": _details(model)}


def _details(model: Served) -> Mapping[str, object]:
    """Clients want every one of these; what is not known is empty."""
    facts = model.facts or ModelFacts()
    family = facts.architecture or model.backend
    return {
        "parent_model": "",
        "format": facts.format,
        "family": family,
        "families": [family],
        "parameter_size": _parameter_size(facts.parameters),
        "quantization_level": facts.quantisation,
    }


def _parameter_size(parameters: int | None) -> str:
    """A count of parameters as Ollama writes it: 135M, 8.0B."""
    if not parameters:
        return ""
    return f"{parameters / 1e9:.1f}B" if parameters >= _BILLION else f"{parameters / 1e6:.0f}M"


def _model_info(model: Served) -> Json:
    """What clients look up under the keys of a GGUF header; only what is known."""
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


def _capabilities(model: Served, serves: tuple[str, ...]) -> list[str]:
    found = [_CAPABILITIES[word] for word in serves if word in _CAPABILITIES]
    if "completion" in found:
        found += ["tools"] if model.takes_tools else []
        found += ["vision"] if model.has_projector else []
    return list(dict.fromkeys(found))


OLLAMA_ROUTES = [
    post(Chatted("/api/chat", ollama.read_chat, is_chat=True)),
    post(Chatted("/api/generate", ollama.read_generate, is_chat=False)),
    post(Embedded("/api/embed")),
    post(Embedded("/api/embeddings", is_old=True)),
    post(Shown("/api/show", "show", OLLAMA)),
    Route("/api/tags", Told("/api/tags", "tags", OLLAMA, _tags), methods=["GET"]),
    Route("/api/ps", Told("/api/ps", "ps", OLLAMA, _loaded), methods=["GET"]),
    Route("/api/version", Versioned("/api/version", "version", OLLAMA), methods=["GET"]),
    *(post(Refused(f"/api/{name}", name, OLLAMA)) for name in ("pull", "push", "create", "copy")),
    Route("/api/delete", Refused("/api/delete", "delete", OLLAMA), methods=["DELETE"]),
]
