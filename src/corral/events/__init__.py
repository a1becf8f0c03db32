"""Follows the outbox: one feed per frontend, for the in-memory directory and for all watchers."""
