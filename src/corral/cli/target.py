"""Whom a command talks to.

  1 what was said: --url and --key, CORRAL_URL and CORRAL_KEY (or CORRAL_KEY_FILE)
  2 the login of `corral login`
  3 the cluster of `corral up` on this machine: its address, and its key if we may read it

A key is only ever sent to the address that it belongs to: an address that was said takes the key of a login or of the
local cluster only if that one has the same address.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from corral.app.settings import ClientSettings, load
from corral.cli.credentials import read_login
from corral.domain.errors import InvalidRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    url: str
    key: str | None
    # How the address was found, for the sentence about it not answering.
    found_by: str


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
    return Target(url=url, key=key or None, found_by="home")


def advice(target: Target) -> str:
    """What to do when the address does not answer."""
    match target.found_by:
        case "home":
            return "The local cluster is not running: `corral up` starts it, `corral status` tells more."
        case "login":
            return "This address comes from `corral login`. Is the cluster running there? `corral logout` forgets it."
        case _:
            return "Is the address right, and does a frontend run there? On this machine `corral up` starts one."
