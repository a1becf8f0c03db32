"""Corral as an MCP server: the admin API as tools for language models, over standard streams and over HTTP.

Guarantee: a tool does exactly what its route does, with the key of the caller; no action is implemented here.
Limit: only `server.py`, `http_endpoint.py` and `stdio.py` import the package `mcp`. They are imported at their first
use, because `mcp` takes a third of a second.
"""
