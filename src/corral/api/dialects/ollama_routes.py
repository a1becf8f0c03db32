"""Ollama's routes: `/api/chat`, `/api/generate`, `/api/embed`, and what its clients ask about models.

Models are listed as Ollama lists them, with a tag: `x` is `x:latest`, and both are understood. Models are managed by
Corral's own API; whoever wants to pull, copy or delete one here is told so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from starlette.routing import Route

from corral.api.dialects import ollama
from corral.api.dialects.answering import answered, translate
from corral.api.dialects.calls import Call, chat_body
from corral.api.dialects.envelopes import OLLAMA, Headers
from corral.api.dialects.ollama import LATEST, Asked, Moment
from corral.api.dialects.reading import Json, some_text
from corral.api.dialects.routes import CallRoute, Told, post
from corral.api.models.bodies import serves_of
from corral.api.openai.leaving import while_there
from corral.domain.errors import InvalidRequest
from corral.store.use import Served

# Which of Ollama's versions speaks as is spoken here; clients look at it before they use what is newer.
SPOKEN_VERSION = "0.12.0"
_IGNORED = b"x-corral-ignored"
_CAPABILITIES = {"chat": "completion", "completions": "completion", "embeddings": "embedding"}
_NEVER = "9999-12-31T23:59:59Z"


class Chatted(CallRoute):
    """`/api/chat` and `/api/generate`."""

    otherwise = "always translated to a chat, a raw prompt to a completion"

    def __init__(self, path: str, read: Callable[..., Asked]) -> None:
        super().__init__(path, "chat", OLLAMA)
        self._read = read

    async def answer(self, call: Call) -> None:
        sent = await call.read_body()
        said = sent.decode()
        model = await call.model(said.get("model"))
        asked = self._read(said, model=str(said["model"]), moment=_moment(call))
        call.notes += _note(asked.ignored)
        await while_there(
            call.request.receive,
            lambda: translate(call, model, asked, received_bytes=len(sent.raw), to=asked.call),
        )


class Embedded(CallRoute):
    """`/api/embed`, and `/api/embeddings`, which is older and takes one text."""

    otherwise = "always translated to embeddings"

    def __init__(self, path: str, *, is_old: bool = False) -> None:
        super().__init__(path, "embeddings", OLLAMA)
        self._is_old = is_old

    async def answer(self, call: Call) -> None:
        sent = await call.read_body()
        said = sent.decode()
        if self._is_old:
            said = {"input" if name == "prompt" else name: value for name, value in said.items()}
            some_text(said.get("input"), "prompt")
        model = await call.model(said.get("model"))
        wanted, ignored = ollama.read_embed(said)
        call.notes += _note(ignored)
        call.require(model, "embeddings")
        wish = call.wish(model, "embeddings", chat_body(model, wanted, "embeddings"), received_bytes=len(sent.raw))
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
        said = (await call.read_body()).decode()
        model = await call.found(said.get("model") or said.get("name"))
        found = [_CAPABILITIES[word] for word in _serves(call, model) if word in _CAPABILITIES]
        shown = {
            "details": _details(model),
            "model_info": {"general.name": model.name},
            "capabilities": list(dict.fromkeys(found)),
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


def _note(ignored: tuple[str, ...]) -> Headers:
    return [(_IGNORED, ", ".join(ignored).encode("ascii", "replace"))] if ignored else []


def _serves(call: Call, model: Served) -> tuple[str, ...]:
    return model.serves or tuple(serves_of(call.parts, model.backend))


def _tags(call: Call) -> Json:
    return {"models": [_entry(model) | {"modified_at": model.created_at.isoformat()} for model in call.listed()]}


def _loaded(call: Call) -> Json:
    """Those with a replica. When one goes is decided as it goes."""
    snapshot = call.parts.gateway.router.snapshot
    loaded = [model for model in call.listed() if snapshot.open_replicas(model)]
    return {"models": [_entry(model) | {"expires_at": _NEVER, "size_vram": 0} for model in loaded]}


def _version(_: Call) -> Json:
    return {"version": SPOKEN_VERSION}


def _entry(model: Served) -> Json:
    name = model.name if ":" in model.name else model.name + LATEST
    return {"name": name, "model": name, "size": 0, "digest": model.run_hash, "details": _details(model)}


def _details(model: Served) -> Mapping[str, object]:
    """Clients want every one of these; what is not known is empty."""
    return {
        "parent_model": "",
        "format": "",
        "family": model.backend,
        "families": [model.backend],
        "parameter_size": "",
        "quantization_level": "",
    }


OLLAMA_ROUTES = [
    post(Chatted("/api/chat", ollama.read_chat)),
    post(Chatted("/api/generate", ollama.read_generate)),
    post(Embedded("/api/embed")),
    post(Embedded("/api/embeddings", is_old=True)),
    post(Shown("/api/show", "show", OLLAMA)),
    Route("/api/tags", Told("/api/tags", "tags", OLLAMA, _tags), methods=["GET"]),
    Route("/api/ps", Told("/api/ps", "ps", OLLAMA, _loaded), methods=["GET"]),
    Route("/api/version", Told("/api/version", "version", OLLAMA, _version), methods=["GET"]),
    *(post(Refused(f"/api/{name}", name, OLLAMA)) for name in ("pull", "push", "create", "copy")),
    Route("/api/delete", Refused("/api/delete", "delete", OLLAMA), methods=["DELETE"]),
]
