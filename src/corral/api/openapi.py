"""Completes FastAPI's OpenAPI document: the inference calls, which plain ASGI routes answer, and the errors of all
routes.

Guarantee: no route exists for the document alone. Limit: Anthropic's and Ollama's calls are not in it: their errors
have other shapes, and their own makers describe them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic import BaseModel
from pydantic.json_schema import JsonSchemaMode, models_json_schema

from corral.wire.base import ErrorOut
from corral.wire.inference import (
    ChatIn,
    CompletionIn,
    EmbeddingsIn,
    EngineResponseOut,
    ImageIn,
    OpenAiModelListOut,
    OpenAiModelOut,
    RerankIn,
    ResponseIn,
    SpeechIn,
)

_ERRORS = {
    "400": "A value is invalid; the message names it.",
    "401": "No credential, or one that is unknown, revoked or expired.",
    "403": "The credential may not do this.",
    "404": "The named object does not exist.",
    "409": "Not possible in the current state.",
    "413": "The body is too large.",
    "422": "The request is valid, but cannot be carried out.",
    "429": "A limit of the caller is reached; Retry-After says when to try again.",
    "503": "A required service does not respond; try again.",
}
_SCHEMAS = "#/components/schemas/"
# FastAPI's own form of an error, which no route of ours has.
_FRAMEWORK_ERRORS = ("HTTPValidationError", "ValidationError")
_FORM: Mapping[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "required": ["model", "file"],
                    "properties": {"model": {"type": "string"}, "file": {"type": "string", "format": "binary"}},
                }
            }
        },
    }
}
_MODEL_PARAMETER: Mapping[str, Any] = {
    "parameters": [{"name": "model", "in": "path", "required": True, "schema": {"type": "string", "title": "Model"}}]
}


@dataclass(frozen=True, slots=True, kw_only=True)
class InferenceCallSpec:
    """Describes an inference route for the OpenAPI document, because FastAPI cannot read it from a plain ASGI route."""

    name: str
    path: str
    description: str
    method: Literal["get", "post"] = "post"
    body: type[BaseModel] | None = None
    response: type[BaseModel] = EngineResponseOut
    # Further members of the operation, such as a body that is no JSON.
    extra: Mapping[str, Any] = field(default_factory=dict)


INFERENCE_CALLS = (
    InferenceCallSpec(
        name="create_chat_completion",
        path="/v1/chat/completions",
        description="Answer a chat with a replica of the model; with `stream`, piece by piece. A model that is not "
        "loaded is loaded\nfirst: after 60 s (CORRAL_REQUEST_WAIT_S) the response is 503 `model_loading` with "
        "`loading` and Retry-After, and\nthe load continues. A name that means no model may be an agent's, and "
        "`agent/NAME` always is;\n`metadata.mcp_servers` names MCP servers of the model. Both are answered by a run.",
        body=ChatIn,
    ),
    InferenceCallSpec(
        name="create_mcp_chat_completion",
        path="/v1/mcp/chat/completions",
        description="Answer a chat with all MCP servers of the model, by a run; `metadata.mcp_servers` chooses some of "
        "them. LocalAI's paths\n`/mcp/v1/chat/completions` and `/mcp/chat/completions` are the same.",
        body=ChatIn,
    ),
    InferenceCallSpec(
        name="create_completion",
        path="/v1/completions",
        description="Complete a text, without the form of a chat. A model that is not loaded is loaded first.",
        body=CompletionIn,
    ),
    InferenceCallSpec(
        name="create_embeddings",
        path="/v1/embeddings",
        description="Return texts as vectors. A model that is not loaded is loaded first.",
        body=EmbeddingsIn,
    ),
    InferenceCallSpec(
        name="list_served_models",
        path="/v1/models",
        method="get",
        description="List the models that this key may use, loaded or not, and behind them agents (`agent/NAME`).",
        response=OpenAiModelListOut,
    ),
    InferenceCallSpec(
        name="show_served_model",
        path="/v1/models/{model}",
        method="get",
        description="Show one model, by its name or an alias.",
        response=OpenAiModelOut,
        extra=_MODEL_PARAMETER,
    ),
    InferenceCallSpec(
        name="create_response",
        path="/v1/responses",
        description="Answer a chat in the form of OpenAI's responses. If the engine does not support them, they are "
        "translated; a\nfield that no chat supports is 400 `not_expressible` with its name. Responses are not stored.",
        body=ResponseIn,
    ),
    InferenceCallSpec(
        name="rerank_documents",
        path="/v1/rerank",
        description="Rank documents by their relevance to a query.",
        body=RerankIn,
    ),
    InferenceCallSpec(
        name="create_speech",
        path="/v1/audio/speech",
        description="Speak a text.",
        body=SpeechIn,
    ),
    InferenceCallSpec(
        name="create_transcription",
        path="/v1/audio/transcriptions",
        description="Transcribe a recording. The form goes to the engine as it arrives; it is not held in memory.",
        extra=_FORM,
    ),
    InferenceCallSpec(
        name="create_translation",
        path="/v1/audio/translations",
        description="Transcribe a recording and translate it to English.",
        extra=_FORM,
    ),
    InferenceCallSpec(
        name="create_image",
        path="/v1/images/generations",
        description="Make a picture from a description, where an engine makes pictures.",
        body=ImageIn,
    ),
)


def complete_document(document: dict[str, Any]) -> dict[str, Any]:
    """Add the inference calls, and the errors that all routes share, to the document that FastAPI has made."""
    _add_calls(document, INFERENCE_CALLS)
    _add_error_responses(document)
    schemas = document["components"]["schemas"]
    for name in _FRAMEWORK_ERRORS:
        schemas.pop(name, None)
    document["components"]["schemas"] = dict(sorted(schemas.items()))
    return document


def _add_calls(document: dict[str, Any], calls: Iterable[InferenceCallSpec]) -> None:
    for call in calls:
        document["paths"].setdefault(call.path, {})[call.method] = _render_operation(call)
    bodies = {call.body for call in calls if call.body is not None}
    responses = {call.response for call in calls}
    _add_schemas(document, [(model, "validation") for model in bodies])
    _add_schemas(document, [(model, "serialization") for model in responses])


def _render_operation(call: InferenceCallSpec) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "tags": ["inference"],
        "summary": call.name.replace("_", " ").title(),
        "description": call.description,
        "operationId": re.sub(r"\W", "_", f"{call.name}{call.path}") + f"_{call.method}",
    }
    if call.body is not None:
        operation["requestBody"] = {"required": True, "content": _refer_to(call.body)}
    return operation | {
        **call.extra,
        "responses": {"200": {"description": "Successful Response", "content": _refer_to(call.response)}},
    }


def _refer_to(model: type[BaseModel]) -> dict[str, Any]:
    return {"application/json": {"schema": {"$ref": f"{_SCHEMAS}{model.__name__}"}}}


def _add_schemas(document: dict[str, Any], models: list[tuple[type[BaseModel], JsonSchemaMode]]) -> None:
    _, found = models_json_schema(models, ref_template=_SCHEMAS + "{model}")
    document["components"]["schemas"].update(_drop_none(found["$defs"]))


def _add_error_responses(document: dict[str, Any]) -> None:
    errors = {code: {"description": sentence, "content": _refer_to(ErrorOut)} for code, sentence in _ERRORS.items()}
    for methods in document["paths"].values():
        for operation in methods.values():
            # The route's own description is more exact.
            own_responses = {
                code: response for code, response in operation["responses"].items() if not _is_framework_error(response)
            }
            operation["responses"] = dict(sorted({**errors, **own_responses}.items()))
    _add_schemas(document, [(ErrorOut, "serialization")])


def _drop_none(form: Any) -> Any:
    """Remove defaults of null, as FastAPI does for forms."""
    if isinstance(form, dict):
        return {name: _drop_none(value) for name, value in form.items() if value is not None}
    return [_drop_none(value) for value in form] if isinstance(form, list) else form


def _is_framework_error(answer: dict[str, Any]) -> bool:
    schema = answer.get("content", {}).get("application/json", {}).get("schema", {})
    return bool(schema.get("$ref") == f"{_SCHEMAS}{_FRAMEWORK_ERRORS[0]}")
