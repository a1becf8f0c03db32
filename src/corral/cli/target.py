"""Whom a command talks to.

  1 what was said: --url and --key, CORRAL_URL and CORRAL_KEY (or CORRAL_KEY_FILE)
  2 the login of `corral login`
  3 the cluster of `corral up` on this machine: its address, and its key if we may read it

A key is only ever sent to the address that it belongs to: an address that was said takes the key of a login or of the
local cluster only if that one has the same address. The files that hold these keys follow a rotation.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from corral.app.settings import ClientSettings, load
from corral.cli.credentials import Login, credentials_path, read_login, store_login
from corral.domain.errors import CorralError, InvalidRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    url: str
    key: str | None
    # How the address was found, for the sentence about it not answering.
    found_by: str
    # The file of the home that the key was read from; None: it stands elsewhere.
    key_file: Path | None = None


def find_target(flags: Mapping[str, object]) -> Target:
    """The cluster that is meant; an error with what to do when none is known."""
    settings = load(ClientSettings, flags=flags).settings
    key = settings.key.get_secret_value().strip() if settings.key else None
    known = _known_targets(settings.home)
    if settings.url is not None:
        same = next((target for target in known if target.url == settings.url), None)
        return Target(url=settings.url, key=key or (same.key if same else None), found_by="said")
    if known:
        return Target(url=known[0].url, key=key or known[0].key, found_by=known[0].found_by)
    raise InvalidRequest(
        "No cluster is known.",
        hint="Start one on this machine with `corral up`, or log in to another: `corral login http://host:8080`.",
        code="no_cluster",
    )


def known_targets() -> list[Target]:
    """Return the cluster of `corral login` and that of `corral up` on this machine, where there is one."""
    return _known_targets(load(ClientSettings, flags={}).settings.home)


def _known_targets(home: Path) -> list[Target]:
    found: list[Target] = []
    login = read_login()
    if login is not None:
        found.append(Target(url=login.url.rstrip("/"), key=login.key, found_by="login"))
    local = _local_cluster(home)
    if local is not None:
        found.append(local)
    return found


def _local_cluster(home: Path) -> Target | None:
    try:
        state = json.loads((home / "run" / "state.json").read_text(encoding="utf-8"))
        url = str(state["url"]).rstrip("/")
    except (OSError, ValueError, KeyError, TypeError):
        return None  # Never started here, or not ours to read.
    if not url:
        return None
    try:
        key = (home / "admin.key").read_text(encoding="utf-8").strip()
    except (OSError, ValueError):
        key = ""
    return Target(url=url, key=key or None, found_by="home", key_file=home / "admin.key")


def advice(target: Target) -> str:
    """What to do when the address does not answer."""
    match target.found_by:
        case "home":
            return "The local cluster is not running: `corral up` starts it, `corral status` tells more."
        case "login":
            return "This address comes from `corral login`. Is the cluster running there? `corral logout` forgets it."
        case _:
            return "Is the address right, and does a frontend run there? On this machine `corral up` starts one."


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyFile:
    """A file on this machine that holds an API key, and how another key is written there."""

    path: Path
    write: Callable[[str], object]


async def find_key_files(key_id: str) -> list[KeyFile]:
    """Return the files on this machine that hold the secret of this key. To be asked before it is rotated."""
    return [_file_of(target) for target in known_targets() if await _holds(target, key_id)]


async def _holds(target: Target, key_id: str) -> bool:
    """Whether the key of the target is the one with this id, by the word of its own cluster."""
    if target.key is None:
        return False
    from corral.adapters.system import SystemClock, SystemIds
    from corral.client import CorralClient

    async with CorralClient(target.url, target.key, clock=SystemClock(), ids=SystemIds()) as client:
        try:
            return (await client.users.me()).key_id == key_id
        except CorralError:
            return False


def _file_of(target: Target) -> KeyFile:
    if target.key_file is None:
        return KeyFile(path=credentials_path(), write=lambda key: store_login(Login(url=target.url, key=key)))
    path = target.key_file

    def write(key: str) -> None:
        from corral.embedded.files import write_private

        write_private(path, f"{key}\n")

    return KeyFile(path=path, write=write)
