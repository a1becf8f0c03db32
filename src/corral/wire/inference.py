"""Bodies of inference calls, with the fields that Corral reads; all other fields pass to the engine."""

from __future__ import annotations

from typing import Any

from pydantic import ConfigDict, Field

from corral.wire.base import LenientModel


class _ExtensibleModel(LenientModel):
    """Base of inference requests and responses: fields that only the engine knows are kept."""

    model_config = ConfigDict(extra="allow")


class ChatIn(_ExtensibleModel):
    """A chat completion request."""

    model: str = Field(description="The name of a model, or one of its aliases.", examples=["smollm2-135m"])
    messages: list[dict[str, Any]] = Field(examples=[[{"role": "user", "content": "Why is the sky blue?"}]])
    stream: bool = Field(default=False, description="Stream the response as server-sent events.")


class CompletionIn(_ExtensibleModel):
    """A text completion request."""

    model: str = Field(description="The name of a model, or one of its aliases.")
    prompt: str | list[Any]
    stream: bool = Field(default=False, description="Stream the response as server-sent events.")


class EmbeddingsIn(_ExtensibleModel):
    """An embeddings request."""

    model: str = Field(description="The name of a model, or one of its aliases.")
    input: str | list[Any]


class ResponseIn(_ExtensibleModel):
    """A request to the Responses API."""

    model: str = Field(description="The name of a model, or one of its aliases.")
    input: str | list[dict[str, Any]]
    stream: bool = Field(default=False, description="Stream the response as server-sent events.")


class RerankIn(_ExtensibleModel):
    """A rerank request."""

    model: str = Field(description="The name of a model, or one of its aliases.")
    query: str
    documents: list[Any]


class SpeechIn(_ExtensibleModel):
    """A speech synthesis request."""

    model: str = Field(description="The name of a model, or one of its aliases.")
    input: str = Field(description="Text to speak.")


class ImageIn(_ExtensibleModel):
    """An image generation request."""

    model: str = Field(description="The name of a model, or one of its aliases.")
    prompt: str


class EngineResponseOut(_ExtensibleModel):
    """The engine's response, passed on unchanged."""


class OpenAiModelOut(LenientModel):
    """A model in the OpenAI-compatible list."""

    id: str
    object: str = "model"
    created: int = Field(description="Unix time in seconds.")
    owned_by: str = "corral"


class OpenAiModelListOut(LenientModel):
    """The OpenAI-compatible list of models."""

    object: str = "list"
    data: list[OpenAiModelOut]
