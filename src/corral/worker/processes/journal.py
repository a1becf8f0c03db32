"""Names the running processes, and stores their records on disk for the worker that comes after a kill.

A key is `model#replica`. A model's name may contain `#` itself: the last one counts.

Guarantee: one file a process, whole or absent, readable by its owner alone (it holds the engine's key). It is written
before the process is started and removed after all of it has ended. A damaged file is set aside and logged; its process
is found by its marker. Nothing is flushed to the disk: a power cut ends the processes too.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any
from urllib.parse import quote

import structlog

from corral.bus.messages import StartBackend
from corral.domain.errors import CorralError, InvalidRequest
from corral.runtime.processes import ProcessBirth

log = structlog.get_logger(__name__)

SEPARATOR = "#"
# A longer key would not fit into a file name, nor into a column.
LENGTH_MAX = 512
REPLICA_MAX = 9_999
_READABLE_MAX = 100
FORMAT = 1
_PRIVATE = 0o600
_SUFFIX = ".json"
_DAMAGED = ".damaged"
_COMMAND_FIELDS = frozenset(each.name for each in fields(StartBackend))


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class ProcessKey:
    """Identifies an engine process by its model and the number of its replica, written `model#replica`."""

    model: str
    replica: int

    def __post_init__(self) -> None:
        if not self.model or len(self.model) > LENGTH_MAX or not self.model.isprintable():
            raise _make_key_error(f"{self.model}{SEPARATOR}{self.replica}")
        if not 0 <= self.replica <= REPLICA_MAX:
            raise _make_key_error(f"{self.model}{SEPARATOR}{self.replica}")

    def __str__(self) -> str:
        return f"{self.model}{SEPARATOR}{self.replica}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessRecord:
    """One engine process as a worker writes it to disk, for adoption after a restart. The field names are stored."""

    key: str
    marker: str
    # Absent while the process is being started, and after a crash.
    birth: ProcessBirth | None
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
    # EngineState; an earlier version wrote none, and had only ready engines to adopt.
    state: str = "ready"
    restarts: int = 0
    crashes_in_a_row: int = 0


class ProcessJournal:
    """Stores one record on disk for each engine process, so that a restarted worker can adopt the process."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def write(self, record: ProcessRecord) -> None:
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        path = self._make_path(record.key)
        temporary = path.with_suffix(".new")
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, _PRIVATE)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            json.dump({"format": FORMAT, **asdict(record)}, file)
        temporary.replace(path)

    def remove(self, key: str) -> None:
        self._make_path(key).unlink(missing_ok=True)

    def load(self) -> tuple[ProcessRecord, ...]:
        records = []
        for path in sorted(self._folder.glob(f"*{_SUFFIX}")):
            try:
                records.append(_parse_record(json.loads(path.read_text(encoding="utf-8"))))
            except (CorralError, OSError, ValueError, TypeError, KeyError, AttributeError) as error:
                aside = path.with_suffix(_DAMAGED)
                path.replace(aside)
                log.warning("the record of a process is damaged", file=str(aside), error=repr(error))
        return tuple(records)

    def _make_path(self, key: str) -> Path:
        # Not `with_suffix`: a model's name has dots of its own.
        return self._folder / f"{make_file_name(key)}{_SUFFIX}"


def _parse_record(value: dict[str, Any]) -> ProcessRecord:
    if value["format"] != FORMAT:
        raise ValueError(f"format {value['format']!r}")
    parse_key(value["key"])
    birth, command = value["birth"], value["wish"]
    device, inode = value["identity"]
    texts = ("key", "marker", "backend", "version", "directory", "command_hash", "api_key")
    return ProcessRecord(
        birth=None if birth is None else ProcessBirth(pid=int(birth["pid"]), born_s=float(birth["born_s"])),
        port=int(value["port"]),
        threads=int(value["threads"]),
        identity=(int(device), int(inode)),
        # A newer worker may have written more fields.
        wish=StartBackend(**{name: command[name] for name in _COMMAND_FIELDS if name in command}),
        state=str(value.get("state", "ready")),
        restarts=int(value.get("restarts", 0)),
        crashes_in_a_row=int(value.get("crashes_in_a_row", 0)),
        **{name: str(value[name]) for name in texts},
    )


def parse_key(text: str) -> ProcessKey:
    """Parse the key that `str` wrote; anything else is refused."""
    model, separator, suffix = text.rpartition(SEPARATOR)
    # `isdecimal` alone would let in the digits of other scripts.
    if not separator or not suffix.isascii() or not suffix.isdecimal() or len(suffix) > len(str(REPLICA_MAX)):
        raise _make_key_error(text)
    return ProcessKey(model=model, replica=int(suffix))


def make_file_name(key: str) -> str:
    """Return the file name for a process. The readable part may be cut, and some disks do not tell capitals apart: the
    hash makes it unique."""
    return f"{quote(key, safe='')[:_READABLE_MAX]}-{hashlib.sha256(key.encode()).hexdigest()[:12]}"


def _make_key_error(text: str) -> InvalidRequest:
    return InvalidRequest(
        f"{text[:80]!r} is not the key of a process.",
        code="invalid_process_key",
        hint="A key is the model's name, # and the number of the replica, such as llama-3#0.",
    )
