"""OpenAI's calls, as far as Corral has to know them; the rest is between the client and the engine."""

from __future__ import annotations

from typing import Any

from pydantic import ConfigDict, Field

from corral.wire.base import Lenient


class _Open(Lenient):
    """With whatever else the engine understands."""

    model_config = ConfigDict(extra="allow")


class ChatIn(_Open):
    model: str = Field(description="The name of a model, or one of its aliases.", examples=["smollm2-135m"])
    messages: list[dict[str, Any]] = Field(examples=[[{"role": "user", "content": "Why is the sky blue?"}]])
    stream: bool = Field(default=False, description="Answer with server-sent events, a piece at a time.")


class CompletionIn(_Open):
    model: str = Field(description="The name of a model, or one of its aliases.")
    prompt: str | list[Any]
    stream: bool = Field(default=False, description="Answer with server-sent events, a piece at a time.")


class EmbeddingsIn(_Open):
    model: str = Field(description="The name of a model, or one of its aliases.")
    input: str | list[Any]


class ResponseIn(_Open):
    model: str = Field(description="The name of a model, or one of its aliases.")
    input: str | list[dict[str, Any]]
    stream: bool = Field(default=False, description="Answer with server-sent events, a piece at a time.")


class RerankIn(_Open):
    model: str = Field(description="The name of a model, or one of its aliases.")
    query: str
    documents: list[Any]


class SpeechIn(_Open):
    model: str = Field(description="The name of a model, or one of its aliases.")
    input: str = Field(description="What is to be spoken.")


class ImageIn(_Open):
    model: str = Field(description="The name of a model, or one of its aliases.")
    prompt: str


class AnswerOut(_Open):
    """What the engine says, as it says it."""


class ModelObject(Lenient):
    id: str
    object: str = "model"
    created: int = Field(description="Seconds since 1970.")
    owned_by: str = "corral"


class ModelsOut(Lenient):
    object: str = "list"
    data: list[ModelObject]
