"""Implementations of the ports. Only `app`, `cli` and tests import this package."""
