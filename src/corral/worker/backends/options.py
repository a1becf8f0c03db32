"""Options and time limits of the backend installer, read by every source."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from corral.transfer.files import free_bytes
from corral.transfer.http_client import TransferOptions

GIB = 1024**3


@dataclass(frozen=True, slots=True, kw_only=True)
class InstallTimeouts(TransferOptions):
    """Time limits of an installation: transfers, resolving, unpacking and a backend's own check."""

    # For asking the package index which files a set of requirements means.
    resolve_s: float = 600.0
    # For unpacking packages into an environment.
    unpack_s: float = 1800.0
    # For a backend's own check.
    check_s: float = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class InstallerOptions:
    """Tunables of the backend installer: timeouts, headroom, integrity, environment and limits of packages."""

    timeouts: InstallTimeouts = field(default_factory=InstallTimeouts)
    # Kept free on the disk, whatever is installed.
    headroom_bytes: int = GIB
    # Refuse builds without a promised digest. Signatures are not verified.
    require_integrity: bool = False
    # Backends that came with the machine: <root>/<name>/backend.yaml. They are only read.
    system_root: Path | None = None
    # Variables of the worker's environment: PATH, HOME, proxies, certificates, UV_* and PIP_*.
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    # Registry host in lower case, to "user:password".
    registry_credentials: Mapping[str, str] = field(default_factory=dict, repr=False)
    # The interpreter that environments are made with where it fits the requirements.
    python: Path = field(default_factory=lambda: Path(sys.executable))
    free_bytes: Callable[[Path], int | None] = free_bytes
    # Limits of one unpacked package.
    unpacked_bytes_max: int = 64 * GIB
    unpacked_files_max: int = 500_000
    # Unfinished downloads that nobody has continued for this long are garbage.
    download_age_s: float = 7 * 24 * 3600.0
