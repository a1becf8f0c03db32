"""`/v1`: OpenAI's API, for the official clients and all compatible ones.

The routes are plain ASGI (`routes.py`): a stream passes without a framework in between. `api/openapi.py` describes them
for the OpenAPI document.

This package imports nothing: see `corral.api.dialects`.
"""
