"""Finds the archives of npm packages: `npm:@scope/name@version`, at the registry that npm itself would ask.

The registry is that of the variable `npm_config_registry`, else the one that the program npm is configured for.
Guarantee: no registry is assumed; a node that has neither fails with what to set.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from corral.runtime.processes import run_program
from corral.worker.backends.layout import InstallFailed

# npm's own name of the variable.
REGISTRY_VARIABLE = "npm_config_registry"
_PACKAGE = re.compile(r"npm:((?:@[a-z0-9._-]+/)?([a-z0-9._-]+))@([0-9A-Za-z.+-]+)")
_ADDRESS = re.compile(r"https?://\S+")
# Starting Node takes a second on a slow machine.
NPM_LIMIT_S = 30.0


def is_npm_package(uri: str) -> bool:
    return _PACKAGE.fullmatch(uri) is not None


def make_archive_url(uri: str, registry: str) -> str:
    """Return the address of the archive of a package at a registry."""
    found = _PACKAGE.fullmatch(uri)
    assert found is not None, "only npm packages have an archive at a registry"
    package, name, version = found.groups()
    return f"{registry.rstrip('/')}/{package}/-/{name}-{version}.tgz"


async def find_registry(environment: Mapping[str, str], folder: Path) -> str:
    """Return the address of the registry. Raises `InstallFailed` if neither the environment nor npm says one."""
    for name in (REGISTRY_VARIABLE, REGISTRY_VARIABLE.upper()):
        if environment.get(name):
            return environment[name]
    command = ("npm", "config", "get", "registry")
    try:
        output = (await run_program(command, folder=folder, environment=environment, limit_s=NPM_LIMIT_S)).output
    except OSError:
        output = ""
    # Warnings of npm stand in lines of their own.
    addresses = [line.strip() for line in output.splitlines() if _ADDRESS.fullmatch(line.strip())]
    if not addresses:
        raise InstallFailed(
            "This node does not know where npm packages come from.",
            hint=f"Install npm on it, or set {REGISTRY_VARIABLE} for its worker to the address of a registry.",
            code="no_npm_registry",
        )
    return addresses[-1]
