"""The environment of Python programs of ours. Without libraries: a frontend imports it at its start."""

from __future__ import annotations

import os

_VARIABLES = ("PATH", "PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "LANG", "LC_ALL", "SYSTEMROOT", "SSL_CERT_FILE")


def make_python_environment() -> dict[str, str]:
    """Return the environment of a Python program of ours that needs no settings and no secrets: where its modules,
    programs and certificates are."""
    return {name: os.environ[name] for name in _VARIABLES if name in os.environ}
