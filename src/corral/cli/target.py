"""Finds the cluster that a command talks to, in this order, and implements `corral login` and `corral logout`.

  1 the options and variables: --url and --key, CORRAL_URL and CORRAL_KEY (or CORRAL_KEY_FILE)
  2 the login of `corral login`: address and key in one file that only its owner can read
  3 the cluster of `corral up` on this machine: its address, and its key if we may read it

A key is only ever sent to the address that it belongs to: an explicit address takes the key of a login or of the
local cluster only if that one has the same address. The files that hold these keys follow a rotation (`access.py`).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from getpass import getpass
from pathlib import Path
from typing import Annotated

import typer

from corral.app.settings import ClientSettings, load_settings
from corral.cli import render
from corral.domain.errors import CorralError, InvalidRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredLogin:
    """Cluster address and API key that `corral login` stored on this machine."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterTarget:
    """Says to which cluster a CLI command talks, with which API key, and how both were found."""

    url: str
    key: str | None
    # How the address was found, for the hint if it does not respond.
    found_by: str
    # The file in the home that the key was read from; None if the key came from elsewhere.
    key_file: Path | None = None


def find_target(flags: Mapping[str, object]) -> ClusterTarget:
    """Return the cluster to talk to; raise an error with what to do if none is known."""
    settings = load_settings(ClientSettings, flags=flags).settings
    key = settings.key.get_secret_value().strip() if settings.key else None
    known = _list_known_targets(settings.home)
    if settings.url is not None:
        same = next((target for target in known if target.url == settings.url), None)
        return ClusterTarget(url=settings.url, key=key or (same.key if same else None), found_by="setting")
    if known:
        return ClusterTarget(url=known[0].url, key=key or known[0].key, found_by=known[0].found_by)
    raise InvalidRequest(
        "There is no cluster to talk to.",
        hint="Start one on this machine with `corral up`, or log in to another: `corral login http://host:8080`.",
        code="no_cluster",
    )


def list_known_targets() -> list[ClusterTarget]:
    """Return the cluster of `corral login` and that of `corral up` on this machine, where there is one."""
    return _list_known_targets(load_settings(ClientSettings, flags={}).settings.home)


def _list_known_targets(home: Path) -> list[ClusterTarget]:
    found: list[ClusterTarget] = []
    login = read_login()
    if login is not None:
        found.append(ClusterTarget(url=login.url.rstrip("/"), key=login.key, found_by="login"))
    local = _find_local_cluster(home)
    if local is not None:
        found.append(local)
    return found


def _find_local_cluster(home: Path) -> ClusterTarget | None:
    try:
        state = json.loads((home / "run" / "state.json").read_text(encoding="utf-8"))
        url = str(state["url"]).rstrip("/")
    except (OSError, ValueError, KeyError, TypeError):
        return None  # The cluster was never started here, or its file is not readable for this user.
    if not url:
        return None
    try:
        key = (home / "admin.key").read_text(encoding="utf-8").strip()
    except (OSError, ValueError):
        key = ""
    return ClusterTarget(url=url, key=key or None, found_by="home", key_file=home / "admin.key")


def describe_advice(target: ClusterTarget) -> str:
    """Return a hint for an address that does not respond."""
    match target.found_by:
        case "home":
            return "The local cluster is not running: `corral up` starts it, `corral status` shows its state."
        case "login":
            return "This address comes from `corral login`. Is the cluster running? `corral logout` deletes the login."
        case _:
            return "Is the address right, and does a frontend run there? On this machine `corral up` starts one."


def login(
    *,
    url: Annotated[str, typer.Argument(metavar="URL", help="Address of a frontend: http://host:8080.")],
    key_stdin: Annotated[bool, typer.Option("--key-stdin", help="Read the key from standard input.")] = False,
) -> None:
    """Check an API key and store it for later commands. Asks for the key on a terminal."""
    from corral.app.settings import ClientSettings, load_settings

    settings = load_settings(ClientSettings, flags={"url": url}).settings
    assert settings.url is not None
    given_key = settings.key.get_secret_value() if settings.key else None
    key = sys.stdin.readline() if key_stdin else given_key or _read_key()
    if not key.strip():
        raise InvalidRequest("The key is empty.", hint="`corral keys create NAME` creates one.")
    checked = StoredLogin(url=settings.url, key=key.strip())
    answered_by = asyncio.run(_verify(checked))
    try:
        path = store_login(checked)
    except OSError as error:
        raise InvalidRequest(
            f"The login cannot be stored in {get_credentials_path()} ({error.strerror}).",
            hint="Set XDG_CONFIG_HOME to a directory of yours, or use CORRAL_URL and CORRAL_KEY_FILE instead.",
        ) from error
    render.print_notice(f"Logged in to {checked.url} ({answered_by}). Stored in {path}.")


def _read_key() -> str:
    if not sys.stdin.isatty():
        raise InvalidRequest(
            "A key is needed, and standard input is not a terminal.",
            hint="Pipe it in with --key-stdin, or set CORRAL_KEY_FILE.",
        )
    return getpass("Admin key (not shown): ", sys.stderr)


async def _verify(candidate: StoredLogin) -> str:
    from corral.adapters.system import SystemClock, SystemIdGenerator
    from corral.client import CorralClient

    async with CorralClient(candidate.url, candidate.key, clock=SystemClock(), ids=SystemIdGenerator()) as client:
        try:
            return f"frontend {render.clean_text((await client.cluster.get()).answered_by)}"
        except CorralError as error:
            if error.slug != "not_allowed":
                raise
        # A key for inference only cannot see the cluster, but is enough for `corral chat`.
        me = await client.users.get_me()
        return f"as {render.clean_text(me.name)}, with scope {me.scope}"


def logout() -> None:
    """Delete the stored key. The key itself stays valid; `corral keys revoke` revokes it."""
    if remove_login():
        render.print_notice(f"Logged out: {get_credentials_path()} was deleted.")
    else:
        render.print_notice("You are not logged in.")
