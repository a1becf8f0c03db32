"""Writes the script that installs a worker, and the commands that run it."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

from corral.api.join.address import is_loopback
from corral.api.join.package import WorkerPackage

_TEMPLATE = Path(__file__).parent / "join.sh"
# Stands in the commands for a token's secret.
TOKEN = "{token}"  # noqa: S105 - a placeholder
# Frontends and other nodes reach what the worker and its engines listen on.
OPEN_FLAGS = "--http-host 0.0.0.0 --engine-host 0.0.0.0"


def render_script(url: str, package: WorkerPackage) -> str:
    """Return the script for a frontend at `url`, which must be plain (`check_url`). Reads a file."""
    values = {
        "@URL@": url,
        "@VERSION@": package.version,
        "@WHEEL@": package.wheel_name,
        "@WHEEL_SHA256@": package.wheel_sha256,
        "@REQUIREMENTS_SHA256@": package.requirements_sha256,
        "@OPEN_FLAGS@": _open_flags(url),
    }
    text = _TEMPLATE.read_text(encoding="utf-8")
    for name, value in values.items():
        text = text.replace(name, value)
    return text


def script_command(url: str) -> str:
    return f"curl -fsSL {url}/join | sh -s -- --token {TOKEN}"


def script_command_without_curl(url: str) -> str:
    fetch = f"import urllib.request as r; print(r.urlopen('{url}/join').read().decode())"
    return f'python3 -c "{fetch}" | sh -s -- --token {TOKEN}'


def worker_command(url: str) -> str:
    """For a machine that has Corral already."""
    return " ".join(filter(None, (f"corral worker --join {url} --token {TOKEN}", _open_flags(url))))


def _open_flags(url: str) -> str:
    """A worker beside its frontend needs no open port."""
    return "" if is_loopback(urlsplit(url).hostname) else OPEN_FLAGS
