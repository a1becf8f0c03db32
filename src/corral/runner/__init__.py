"""The runner process of a worker: `python -m corral.runner` executes turns of agents, several at a time.

A turn is a loop of model calls and tool calls. The process speaks JSON lines (`wire/runner_protocol.py`) with its
worker over stdin and stdout, and logs to stderr. It stays warm between runs: MCP sessions are kept and used again. It
has no database, no bus and no credential but the ticket in each specification. Only this package imports the libraries
of the optional group `agents`.
"""
