"""A manifest, a wish and an installed folder become a command and an environment. Pure.

Guarantee: an engine sees only what it needs of the worker's environment (where programs and the graphics cards are)
and what its manifest says: no secret of the worker. Values are filled in once and never read again as placeholders,
and no shell is involved, so a model's name or an option can not become anything but an argument.
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
from corral.worker.processes.errors import BadManifest
from corral.worker.work import Runnable

LOOPBACK = "127.0.0.1"
LAUNCHER_NAME = "launcher.py"
# Says whose process this is, also after the worker that started it is gone.
MARKER = "CORRAL_ENGINE"
_PLACEHOLDER = re.compile(r"\{([a-z_]+)\}")
_KEPT = frozenset({"PATH", "HOME", "LANG", "TZ", "TMPDIR", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "SSL_CERT_FILE"})
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
# Of variables with those prefixes, too, none that sounds like a secret goes on.
_SECRET = re.compile(r"TOKEN|SECRET|PASSWORD|CREDENTIAL|KEY", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where an engine is to listen, with what it is to check, and how much of the machine it may use."""

    host: str
    port: int
    threads: int
    api_key: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """`environment` is all that the engine sees, except for the marker."""

    command: tuple[str, ...] = field(repr=False)
    environment: Mapping[str, str] = field(repr=False)
    directory: Path


def make_launch(runnable: Runnable, wish: StartBackend, place: Place, around: Mapping[str, str]) -> Launch:
    """`around` is the worker's own environment."""
    manifest = runnable.manifest
    if not manifest.command:
        raise BadManifest(f"The manifest of {runnable.name} has no command.")
    values = _values(runnable, wish, place)
    arguments = _options(runnable.name, manifest, wish.options, values)
    if wish.options and OPTIONS not in manifest.command:
        raise BadManifest(f"The manifest of {runnable.name} has options, and no {OPTIONS} in its command.")
    command: list[str] = []
    for part in manifest.command:
        if part == OPTIONS:
            command += arguments
        else:
            command.append(fill(part, values, runnable.name))
    environment = clean_environment(around)
    environment |= {name: fill(text, values, runnable.name) for name, text in manifest.environment.items()}
    _refuse_nul(command, environment)
    return Launch(command=tuple(command), environment=environment, directory=runnable.directory)


def listens_on(manifest: Manifest, host: str) -> str:
    """An engine that checks no key is reached through the worker only."""
    return LOOPBACK if manifest.api_key == "none" else host


def clean_environment(around: Mapping[str, str]) -> dict[str, str]:
    kept = {name: value for name, value in around.items() if name in _KEPT or name.startswith(_KEPT_PREFIXES)}
    # An engine's last words must not wait in a buffer when it dies.
    return {name: value for name, value in kept.items() if not _SECRET.search(name)} | {"PYTHONUNBUFFERED": "1"}


def fill(text: str, values: Mapping[str, str], backend: str) -> str:
    """`text` with its placeholders replaced; an unknown one is the manifest's fault."""

    def value_of(found: re.Match[str]) -> str:
        name = found.group(1)
        if name not in values:
            known = ", ".join(f"{{{each}}}" for each in sorted(values))
            raise BadManifest(f"The manifest of {backend} uses {{{name}}}; known are {known}.")
        return values[name]

    return _PLACEHOLDER.sub(value_of, text)


def hash_wish(runnable: Runnable, wish: StartBackend) -> str:
    """The same for two wishes that mean the same process: whether a running one will do."""
    means = [runnable.name, list(runnable.manifest.command), dict(runnable.manifest.environment)]
    asks = [wish.model, wish.model_path, wish.threads, dict(wish.options)]
    return hashlib.sha256(json.dumps([means, asks], sort_keys=True).encode()).hexdigest()


def _values(runnable: Runnable, wish: StartBackend, place: Place) -> dict[str, str]:
    return {
        "dir": str(runnable.directory),
        "python": runnable.python,
        "launcher": str(runnable.directory / LAUNCHER_NAME),
        "host": place.host,
        "port": str(place.port),
        "model": wish.model_path,
        "name": wish.model or runnable.name,
        "threads": str(place.threads),
        "api_key": place.api_key,
    }


def _options(backend: str, manifest: Manifest, wished: Mapping[str, str], values: Mapping[str, str]) -> list[str]:
    """In the manifest's order: the order of a JSON object means nothing."""
    unknown = sorted(set(wished) - set(manifest.options))
    if unknown:
        known = ", ".join(sorted(manifest.options)) or "none"
        raise InvalidRequest(
            f"{backend} has no option {', '.join(unknown)}.", code="unknown_option", hint=f"It knows: {known}."
        )
    return list(_expanded(backend, manifest, wished, values))


def _expanded(backend: str, manifest: Manifest, wished: Mapping[str, str], values: Mapping[str, str]) -> Iterator[str]:
    for name, parts in manifest.options.items():
        if name in wished:
            with_value = {**values, "value": wished[name]}
            yield from (fill(part, with_value, backend) for part in parts)


def _refuse_nul(command: list[str], environment: Mapping[str, str]) -> None:
    """No system call takes it; the error of the call would name nothing."""
    if any("\0" in text for text in (*command, *environment, *environment.values())):
        raise InvalidRequest("A value for the engine has a NUL character in it.", code="invalid_option")
