"""Stores the address and the key of `corral login` in one file that only its owner can read."""

from __future__ import annotations

import contextlib
import json
import os
import tomllib
from dataclasses import dataclass
from pathlib import Path

from corral.domain.errors import InvalidRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredLogin:
    """Holds the address and the key that `corral login` stored."""

    url: str
    key: str


def get_credentials_path() -> Path:
    base = os.environ.get("XDG_CONFIG_HOME") or "~/.config"
    return Path(base).expanduser() / "corral" / "credentials.toml"


def read_login() -> StoredLogin | None:
    """Return the stored login; None if there is none."""
    path = get_credentials_path()
    try:
        stored = tomllib.loads(path.read_text(encoding="utf-8"))
        return StoredLogin(url=str(stored["url"]), key=str(stored["key"]))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError) as error:
        raise InvalidRequest(
            f"The login in {path} cannot be read ({error}).", hint="Remove it with `corral logout`, then log in again."
        ) from error


def store_login(login: StoredLogin) -> Path:
    """Store a login atomically: a reader sees the old login or the new one, never half of one."""
    path = get_credentials_path()
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    # JSON strings of ASCII text are TOML strings too.
    text = f"url = {json.dumps(login.url)}\nkey = {json.dumps(login.key)}\n"
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        os.fchmod(descriptor, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        unfinished.replace(path)
    except OSError:
        with contextlib.suppress(FileNotFoundError):
            unfinished.unlink()
        raise
    return path


def remove_login() -> bool:
    """Delete the stored login; return whether there was one."""
    try:
        get_credentials_path().unlink()
    except FileNotFoundError:
        return False
    return True
