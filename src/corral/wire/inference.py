"""Bodies of inference calls, with the fields that Corral reads; all other fields pass to the engine."""

from __future__ import annotations

from typing import Any

from pydantic import ConfigDict, Field

from corral.wire.base import LenientModel


class _ExtensibleModel(LenientModel):
    """Base of inference requests and responses: fields that only the engine knows are kept."""

    model_config = ConfigDict(extra="allow")


class ChatIn(_ExtensibleModel):
    """Body of `POST /v1/chat/completions`, in OpenAI's form: messages for a model to answer."""

    model: str = Field(description="The name of a model, or one of its aliases.", examples=["smollm2-135m"])
    messages: list[dict[str, Any]] = Field(examples=[[{"role": "user", "content": "Why is the sky blue?"}]])
    stream: bool = Field(default=False, description="Stream the response as server-sent events.")


class CompletionIn(_ExtensibleModel):
    """Body of `POST /v1/completions`, in OpenAI's form: a prompt for a model to continue."""

    model: str = Field(description="The name of a model, or one of its aliases.")
    prompt: str | list[Any]
    stream: bool = Field(default=False, description="Stream the response as server-sent events.")


class EmbeddingsIn(_ExtensibleModel):
    """Body of `POST /v1/embeddings`, in OpenAI's form: texts for which a model computes vectors."""

    model: str = Field(description="The name of a model, or one of its aliases.")
    input: str | list[Any]


class ResponseIn(_ExtensibleModel):
    """Body of `POST /v1/responses`, in the form of OpenAI's Responses API: input for a model to answer."""

    model: str = Field(description="The name of a model, or one of its aliases.")
    input: str | list[dict[str, Any]]
    stream: bool = Field(default=False, description="Stream the response as server-sent events.")


class RerankIn(_ExtensibleModel):
    """Body of `POST /v1/rerank`: a query, and documents that a model sorts by relevance."""

    model: str = Field(description="The name of a model, or one of its aliases.")
    query: str
    documents: list[Any]


class SpeechIn(_ExtensibleModel):
    """Body of `POST /v1/audio/speech`, in OpenAI's form: a text that a model speaks."""

    model: str = Field(description="The name of a model, or one of its aliases.")
    input: str = Field(description="Text to speak.")


class ImageIn(_ExtensibleModel):
    """Body of `POST /v1/images/generations`, in OpenAI's form: a text of which a model makes images."""

    model: str = Field(description="The name of a model, or one of its aliases.")
    prompt: str


class EngineResponseOut(_ExtensibleModel):
    """Response of an inference route under `/v1`: the response of the model's engine."""


class OpenAiModelOut(LenientModel):
    """One model that the caller may use, in the form of OpenAI's models API."""

    id: str
    object: str = "model"
    created: int = Field(description="Unix time in seconds.")
    owned_by: str = "corral"


class OpenAiModelListOut(LenientModel):
    """Response of `GET /v1/models`: the models that the caller may use, in OpenAI's form."""

    object: str = "list"
    data: list[OpenAiModelOut]
