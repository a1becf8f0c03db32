"""`/v1`: OpenAI's API, for the official clients and everything that speaks like them.

The routes that answer are plain ASGI (`passing.py`): a stream goes through without a framework in between. Those in
`described.py` have the same paths, stand behind them, and exist for the description.
"""

from __future__ import annotations

from corral.api.openai.described import router
from corral.api.openai.passing import ROUTES

__all__ = ["ROUTES", "router"]
