"""What an installer may do and how long it waits: one value, read by every source."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from corral.transfer import options as transfer
from corral.transfer.files import free_bytes

GIB = 1024**3


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience(transfer.Patience):
    """How a source is waited for, and what is done with what it brings."""

    # Asking the package index for what a set of requirements means.
    resolve_s: float = 600.0
    # Unpacking packages into an environment.
    unpack_s: float = 1800.0
    # A backend's own check.
    check_s: float = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class InstallerOptions:
    patience: Patience = field(default_factory=Patience)
    # Left free on the disk whatever is installed.
    headroom_bytes: int = GIB
    # Refuse what nobody has promised a digest of. Signatures are not verified.
    require_integrity: bool = False
    # Backends that came with the machine: <root>/<name>/backend.yaml. Only read.
    system_root: Path | None = None
    # Of the worker's environment: PATH, HOME, proxies, certificates, UV_* and PIP_*.
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    # Host of a registry, in small letters, to "user:password".
    registry_credentials: Mapping[str, str] = field(default_factory=dict, repr=False)
    # The interpreter that environments are made with where it will do.
    python: Path = field(default_factory=lambda: Path(sys.executable))
    free_bytes: Callable[[Path], int | None] = free_bytes
    # Of one package, unpacked.
    unpacked_bytes_max: int = 64 * GIB
    unpacked_files_max: int = 500_000
    # Unfinished downloads that nobody has continued for this long are garbage.
    download_age_s: float = 7 * 24 * 3600.0
