"""Exchanges: each calls an engine for one request, retries on other replicas, and relays the response to the client."""
