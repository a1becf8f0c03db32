"""Decisions about models: their configuration, what their files say of them, and what they take of a machine."""
