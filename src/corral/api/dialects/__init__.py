"""Other APIs than chat completions: Anthropic's messages, OpenAI's responses, Ollama's, reranking, speech, pictures.

A call that the model's engine speaks itself (`serves` in its manifest) is passed on. A chat in other words is
translated where that is exact (`anthropic.py`, `responses.py`, `ollama.py`: pure), and what cannot be said is refused
by its name. Every error is told in the caller's own envelope.
"""

from __future__ import annotations

from corral.api.dialects.described import router
from corral.api.dialects.ollama_routes import OLLAMA_ROUTES
from corral.api.dialects.routes import V1_ROUTES
from corral.api.dialects.uploads import UPLOAD_ROUTES

__all__ = ["ROUTES", "router"]

ROUTES = [*V1_ROUTES, *UPLOAD_ROUTES, *OLLAMA_ROUTES]
