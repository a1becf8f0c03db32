"""Turns a manifest, a start command and an installed folder into a process command and an environment. Pure.

Guarantee: an engine sees only what it needs of the worker's environment (where programs and the graphics cards are) and
what its manifest says: no secret of the worker. Values are filled in once and never read again as placeholders, and no
shell is involved, so a model's name or an option can not become anything but an argument.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from corral.bus.messages import StartBackend
from corral.domain.backend import Manifest
from corral.domain.errors import InvalidRequest
from corral.policy.gallery import OPTIONS
from corral.policy.models.configuration import ADAPTERS_OPTION
from corral.worker.job_ports import RunnableBackend
from corral.worker.processes.process_control import BadManifest

LOOPBACK = "127.0.0.1"
LAUNCHER_NAME = "launcher.py"
# Marks the process of an engine, also after the worker that started it is gone.
MARKER = "CORRAL_ENGINE"
_PLACEHOLDER = re.compile(r"\{([a-z_]+)\}")
_KEPT_NAMES = frozenset(
    {"PATH", "HOME", "LANG", "TZ", "TMPDIR", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "SSL_CERT_FILE"}
)
_KEPT_PREFIXES = (
    "LC_",
    "CUDA_",
    "NVIDIA_",
    "NCCL_",
    "ROCM_",
    "ROCR_",
    "HIP_",
    "HSA_",
    "ONEAPI_",
    "SYCL_",
    "ZE_",
    "VK_",
)
# Variables with those prefixes that sound like a secret are not passed on.
_SECRET = re.compile(r"TOKEN|SECRET|PASSWORD|CREDENTIAL|KEY", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineAllocation:
    """What a worker allots to an engine process for its start: host, port, threads and API key."""

    host: str
    port: int
    threads: int
    api_key: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineLaunch:
    """Command, environment and folder with which a worker starts an engine process.

    The environment is all that the process sees.
    """

    command: tuple[str, ...] = field(repr=False)
    environment: Mapping[str, str] = field(repr=False)
    directory: Path


def make_launch(
    runnable: RunnableBackend, start_command: StartBackend, allocation: EngineAllocation, inherited: Mapping[str, str]
) -> EngineLaunch:
    """Return what to start. `inherited` is the worker's own environment."""
    manifest = runnable.manifest
    if not manifest.command:
        raise BadManifest(f"The manifest of {runnable.name} has no command.")
    values = _make_values(runnable, start_command, allocation)
    arguments = _make_option_arguments(runnable.name, manifest, start_command.options, values)
    if start_command.options and OPTIONS not in manifest.command:
        raise BadManifest(f"The manifest of {runnable.name} has options, and no {OPTIONS} in its command.")
    command: list[str] = []
    for part in manifest.command:
        if part == OPTIONS:
            command += arguments
        else:
            command.append(fill_placeholders(part, values, runnable.name))
    environment = clean_environment(inherited)
    environment |= {name: fill_placeholders(text, values, runnable.name) for name, text in manifest.environment.items()}
    _refuse_nul(command, environment)
    return EngineLaunch(command=tuple(command), environment=environment, directory=runnable.directory)


def choose_listen_host(manifest: Manifest, host: str) -> str:
    """Return the host to listen on: an engine that checks no key is reached through the worker only."""
    return LOOPBACK if manifest.api_key == "none" else host


def clean_environment(inherited: Mapping[str, str]) -> dict[str, str]:
    kept = {name: value for name, value in inherited.items() if name in _KEPT_NAMES or name.startswith(_KEPT_PREFIXES)}
    # An engine's last output must not wait in a buffer when it dies.
    return {name: value for name, value in kept.items() if not _SECRET.search(name)} | {"PYTHONUNBUFFERED": "1"}


def fill_placeholders(text: str, values: Mapping[str, str], backend: str) -> str:
    """Return `text` with its placeholders replaced; an unknown one is the manifest's fault."""

    def find_value(found: re.Match[str]) -> str:
        name = found.group(1)
        if name not in values:
            known = ", ".join(f"{{{each}}}" for each in sorted(values))
            raise BadManifest(f"The manifest of {backend} uses {{{name}}}; known are {known}.")
        return values[name]

    return _PLACEHOLDER.sub(find_value, text)


def hash_command(runnable: RunnableBackend, command: StartBackend) -> str:
    """Return a hash that is the same for two commands that mean the same process, so that a running one can be
    reused."""
    means = [runnable.name, list(runnable.manifest.command), dict(runnable.manifest.environment)]
    inputs = [command.model, command.model_path, command.threads, dict(command.options)]
    return hashlib.sha256(json.dumps([means, inputs], sort_keys=True).encode()).hexdigest()


def _make_values(runnable: RunnableBackend, command: StartBackend, allocation: EngineAllocation) -> dict[str, str]:
    return {
        "dir": str(runnable.directory),
        "python": runnable.python,
        "launcher": str(runnable.directory / LAUNCHER_NAME),
        "host": allocation.host,
        "port": str(allocation.port),
        "model": command.model_path,
        "name": command.model or runnable.name,
        "threads": str(allocation.threads),
        "api_key": allocation.api_key,
    }


def _make_option_arguments(
    backend: str, manifest: Manifest, requested: Mapping[str, str], values: Mapping[str, str]
) -> list[str]:
    """Return the arguments in the manifest's order: the order of a JSON object means nothing."""
    takes_adapters = bool(manifest.adapters.select)
    unknown = sorted(set(requested) - set(manifest.options) - ({ADAPTERS_OPTION} if takes_adapters else set()))
    if unknown:
        known = ", ".join(sorted(manifest.options)) or "none"
        raise InvalidRequest(
            f"{backend} has no option {', '.join(unknown)}.", code="unknown_option", hint=f"It knows: {known}."
        )
    return list(_expand_options(backend, manifest, requested, values))


def _expand_options(
    backend: str, manifest: Manifest, requested: Mapping[str, str], values: Mapping[str, str]
) -> Iterator[str]:
    for name, parts in manifest.options.items():
        if name in requested:
            with_value = {**values, "value": requested[name]}
            yield from (fill_placeholders(part, with_value, backend) for part in parts)
    if ADAPTERS_OPTION in requested:
        yield from manifest.adapters.enable
        for adapter in json.loads(requested[ADAPTERS_OPTION]):
            with_adapter = {**values, "adapter_name": adapter["name"], "adapter_path": adapter["path"]}
            yield from (fill_placeholders(part, with_adapter, backend) for part in manifest.adapters.each)


def _refuse_nul(command: list[str], environment: Mapping[str, str]) -> None:
    """Refuse values with a NUL character: no system call takes them, and its error would name nothing."""
    if any("\0" in text for text in (*command, *environment, *environment.values())):
        raise InvalidRequest("A value for the engine has a NUL character in it.", code="invalid_option")
