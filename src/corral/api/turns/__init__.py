"""Answers inference calls by runs: a call for an agent, or with MCP servers, becomes a run, and its trace the answer.

A run's trace is rendered as a chat completion or as the events of one. What the caller gets in another dialect is made
of these by the same translators that an engine's answers pass (`api/dialects`).
"""
