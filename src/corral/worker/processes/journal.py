"""What runs here, on disk, for the worker that comes after a kill.

Guarantee: one file a process, whole or absent, readable by its owner alone (it holds the engine's key). It is written
before the process is started and removed after all of it has ended. A damaged file is set aside and told; its process
is found by its marker. Nothing is flushed to the disk: a power cut ends the processes too.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import structlog

from corral.bus.messages import StartBackend
from corral.domain.errors import CorralError
from corral.worker.processes.keys import file_name, parse_key
from corral.worker.processes.machine import Birth

log = structlog.get_logger(__name__)

FORMAT = 1
_PRIVATE = 0o600
_SUFFIX = ".json"
_DAMAGED = ".damaged"
_WISH = frozenset(each.name for each in fields(StartBackend))


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessRecord:
    key: str
    marker: str
    # Absent while it is being started, and after a crash.
    birth: Birth | None
    port: int
    threads: int
    backend: str
    version: str
    directory: str
    # Device and inode of the folder.
    identity: tuple[int, int]
    command_hash: str
    wish: StartBackend
    api_key: str = field(default="", repr=False)
    # engine.State; an earlier version wrote none, and had only engines to adopt that are ready.
    state: str = "ready"
    restarts: int = 0
    crashes_in_a_row: int = 0


class ProcessJournal:
    """Written by the holder of the worker's home only."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def write(self, record: ProcessRecord) -> None:
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        path = self._path(record.key)
        temporary = path.with_suffix(".new")
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, _PRIVATE)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            json.dump({"format": FORMAT, **asdict(record)}, file)
        temporary.replace(path)

    def remove(self, key: str) -> None:
        self._path(key).unlink(missing_ok=True)

    def load(self) -> tuple[ProcessRecord, ...]:
        records = []
        for path in sorted(self._folder.glob(f"*{_SUFFIX}")):
            try:
                records.append(_read(json.loads(path.read_text(encoding="utf-8"))))
            except (CorralError, OSError, ValueError, TypeError, KeyError, AttributeError) as error:
                aside = path.with_suffix(_DAMAGED)
                path.replace(aside)
                log.warning("the record of a process is damaged", file=str(aside), error=repr(error))
        return tuple(records)

    def _path(self, key: str) -> Path:
        # Not `with_suffix`: a model's name has dots of its own.
        return self._folder / f"{file_name(key)}{_SUFFIX}"


def _read(value: dict[str, Any]) -> ProcessRecord:
    if value["format"] != FORMAT:
        raise ValueError(f"format {value['format']!r}")
    parse_key(value["key"])
    birth, wish = value["birth"], value["wish"]
    device, inode = value["identity"]
    texts = ("key", "marker", "backend", "version", "directory", "command_hash", "api_key")
    return ProcessRecord(
        birth=None if birth is None else Birth(pid=int(birth["pid"]), born_s=float(birth["born_s"])),
        port=int(value["port"]),
        threads=int(value["threads"]),
        identity=(int(device), int(inode)),
        # A newer worker may have written more.
        wish=StartBackend(**{name: wish[name] for name in _WISH if name in wish}),
        state=str(value.get("state", "ready")),
        restarts=int(value.get("restarts", 0)),
        crashes_in_a_row=int(value.get("crashes_in_a_row", 0)),
        **{name: str(value[name]) for name in texts},
    )
