"""Backends that came with the machine: a folder for each, with `backend.yaml` in it. They are read and never written.

Beside the fields of a manifest, the file may have `version`, `alias` and `meta`. A folder that makes no sense is told
once and left out.
"""

from __future__ import annotations

from pathlib import Path

import structlog

from corral.domain.backend import InstalledBackend, Manifest
from corral.worker.backends.faults import InstallFailed
from corral.worker.backends.staging import parse_own_manifest, read_own_manifest
from corral.worker.work import Runnable

log = structlog.get_logger(__name__)

FOLDERS_MAX = 500


class SystemBackends:
    """Read once: what comes with a machine changes with its next start."""

    def __init__(self, root: Path | None) -> None:
        self._root = root
        self._found: dict[str, tuple[InstalledBackend, Manifest]] | None = None

    def backends(self) -> tuple[InstalledBackend, ...]:
        return tuple(backend for backend, _ in self._read().values())

    def find(self, name: str) -> InstalledBackend | None:
        found = self._read().get(name)
        return found[0] if found else None

    def runnable(self, name: str, python: Path) -> Runnable | None:
        found = self._read().get(name)
        if found is None or self._root is None:
            return None
        backend, manifest = found
        folder = self._root / name
        own = folder / "venv" / "bin" / "python"
        return Runnable(
            name=name,
            version=backend.version,
            directory=folder,
            manifest=manifest,
            python=str(own if own.exists() else python),
        )

    def _read(self) -> dict[str, tuple[InstalledBackend, Manifest]]:
        if self._found is None:
            self._found = dict(self._scan())
        return self._found

    def _scan(self) -> list[tuple[str, tuple[InstalledBackend, Manifest]]]:
        if self._root is None or not self._root.is_dir():
            return []
        found = []
        for folder in sorted(self._root.iterdir())[:FOLDERS_MAX]:
            try:
                document = read_own_manifest(folder)
                if document is not None:
                    found.append((folder.name, _described(folder, document)))
            except (InstallFailed, OSError) as error:
                log.warning("a backend of this machine is left out", folder=str(folder), error=str(error))
        return found


def _described(folder: Path, document: object) -> tuple[InstalledBackend, Manifest]:
    assert isinstance(document, dict), "it was read as a mapping"
    backend = InstalledBackend(
        name=folder.name,
        version=str(document.get("version") or ""),
        alias=str(document.get("alias") or ""),
        meta=str(document.get("meta") or ""),
        uri=str(folder),
        is_system=True,
    )
    return backend, parse_own_manifest(document, folder.name)
