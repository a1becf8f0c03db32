"""What OpenAI's calls beside chats look like to whoever reads the description. `routes.py` and `uploads.py` answer.

Anthropic's and Ollama's calls are not among them: their errors have other shapes, and their own makers describe them.
"""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter

from corral.wire.inference import AnswerOut, ImageIn, RerankIn, ResponseIn, SpeechIn

router = APIRouter(tags=["inference"])
_ANSWERED_BEFORE = "the routes of routes.py and uploads.py stand before this one"
_FORM: dict[str, Any] = {
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


@router.post("/v1/responses")
async def create_response(body: ResponseIn) -> AnswerOut:
    """A chat in the words of OpenAI's responses. Where the engine does not speak them they are translated; what no chat
    can say is 400 `not_expressible` with its name. Nothing is kept."""
    raise AssertionError(_ANSWERED_BEFORE, body)


@router.post("/v1/rerank")
async def rerank(body: RerankIn) -> AnswerOut:
    """Documents in the order in which they fit a question."""
    raise AssertionError(_ANSWERED_BEFORE, body)


@router.post("/v1/audio/speech")
async def speech(body: SpeechIn) -> AnswerOut:
    """A text, spoken."""
    raise AssertionError(_ANSWERED_BEFORE, body)


@router.post("/v1/audio/transcriptions", openapi_extra=_FORM)
async def transcriptions() -> AnswerOut:
    """What a recording says. The form goes to the engine as it comes; it is not held in memory."""
    raise AssertionError(_ANSWERED_BEFORE)


@router.post("/v1/audio/translations", openapi_extra=_FORM)
async def translations() -> AnswerOut:
    """What a recording says, in English."""
    raise AssertionError(_ANSWERED_BEFORE)


@router.post("/v1/images/generations")
async def images(body: ImageIn) -> AnswerOut:
    """A picture of what is described, where an engine makes pictures."""
    raise AssertionError(_ANSWERED_BEFORE, body)
