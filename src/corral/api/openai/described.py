"""What `/v1` looks like to whoever reads the description. `passing.py` stands before these and answers."""

from __future__ import annotations

from fastapi import APIRouter

from corral.serving.errors import ModelNotFound
from corral.wire.inference import AnswerOut, ChatIn, CompletionIn, EmbeddingsIn, ModelObject, ModelsOut

router = APIRouter(tags=["inference"])
_ANSWERED_BEFORE = "the routes of passing.py stand before this one"


@router.post("/v1/chat/completions")
async def chat_completions(body: ChatIn) -> AnswerOut:
    """A chat, answered by a replica of the model; with `stream`, piece by piece. A model that is not loaded is loaded
    first: after 60 s (CORRAL_REQUEST_WAIT_S) of that the answer is 503 `model_loading` with `loading` and Retry-After,
    and the load goes on."""
    raise AssertionError(_ANSWERED_BEFORE, body)


@router.post("/v1/completions")
async def completions(body: CompletionIn) -> AnswerOut:
    """A text that goes on, without the form of a chat. A model that is not loaded is loaded first."""
    raise AssertionError(_ANSWERED_BEFORE, body)


@router.post("/v1/embeddings")
async def embeddings(body: EmbeddingsIn) -> AnswerOut:
    """Texts as vectors. A model that is not loaded is loaded first."""
    raise AssertionError(_ANSWERED_BEFORE, body)


@router.get("/v1/models")
async def list_served_models() -> ModelsOut:
    """The models that can be asked for, loaded or not."""
    raise AssertionError(_ANSWERED_BEFORE)


@router.get("/v1/models/{model}")
async def show_served_model(model: str) -> ModelObject:
    """One model, by its name or an alias."""
    # Only a name with a line break gets here, and no model has one.
    raise ModelNotFound(f"There is no model named {model[:255]!r}.")
