"""Ports made real. Only `app`, `cli` and tests import this."""
