"""Decisions about models: their configuration, the facts in their files, and their need of a machine."""
