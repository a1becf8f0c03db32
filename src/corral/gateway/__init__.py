"""The way of an inference request, from the client's connection to the engine's and back.

`connection/` speaks HTTP with the client, `request/` makes an `InferenceRequest` of head and body, `exchange/` calls
the engine and relays its response, `routing/` chooses the replica. Each imports only those that come after it here, and
`errors.py`. The ASGI routes of `api/openai` and `api/dialects` enter at `request/`.
"""
