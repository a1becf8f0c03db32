"""What the frontend and the worker are told at their start, as variables.

Secrets travel as the names of files, never in the environment or on a command line. A variable and its `_FILE` twin
are never both set. The worker is not told what only a frontend needs: it must not be able to reach the database.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from corral.embedded.home import Home
from corral.embedded.ports import is_loopback, reachable
from corral.embedded.processes import MARKER_HOME, MARKER_NAME

_FRONTEND_ONLY = (
    "CORRAL_DATABASE_URL",
    "CORRAL_NATS_ACCOUNT_SEED",
    "CORRAL_NATS_OPERATOR_SEED",
    "CORRAL_NATS_SYSTEM_SEED",
    "CORRAL_ADMIN_KEY",
    "CORRAL_LOCAL_JOIN_TOKEN",
    "CORRAL_KEY",
    "CORRAL_METRICS_KEY",
    "CORRAL_HUB_TOKEN",
    "CORRAL_LIBRARY_STORAGE_KEY",
)
# Those of the person who starts us are about another cluster, or about the client.
_NOT_INHERITED = ("CORRAL_KEY", "CORRAL_URL", "CORRAL_DETACH", MARKER_HOME, MARKER_NAME)


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a process answers HTTP."""

    host: str
    port: int

    @property
    def url(self) -> str:
        host = reachable(self.host)
        return f"http://[{host}]:{self.port}" if ":" in host else f"http://{host}:{self.port}"

    @property
    def is_open(self) -> bool:
        """Whether other machines can reach it."""
        return not is_loopback(self.host)


@dataclass(frozen=True, slots=True, kw_only=True)
class Addresses:
    """Where NATS is; `is_own_bus` says that it is one of our children. Where PostgreSQL is stands in a file."""

    nats_url: str
    nats_port: int
    is_own_bus: bool


def frontend_environment(
    inherited: Mapping[str, str], *, home: Home, place: Place, addresses: Addresses
) -> dict[str, str]:
    told = {
        "CORRAL_DATABASE_URL_FILE": str(home.database_url),
        "CORRAL_NATS_URL": addresses.nats_url,
        "CORRAL_ADMIN_KEY_FILE": str(home.admin_key),
        "CORRAL_LOCAL_JOIN_TOKEN_FILE": str(home.join_token),
        "CORRAL_HOST": place.host,
        "CORRAL_PORT": str(place.port),
    }
    if "CORRAL_LIBRARY_DIR" not in inherited:
        told["CORRAL_LIBRARY_DIR"] = str(home.root / "library")
    if "CORRAL_STATE_DIR" not in inherited:
        told["CORRAL_STATE_DIR"] = str(home.root / "frontend")
    if addresses.is_own_bus:
        told["CORRAL_NATS_ACCOUNT_SEED_FILE"] = str(home.nats_account_seed)
        told["CORRAL_NATS_OPERATOR_SEED_FILE"] = str(home.nats_operator_seed)
        told["CORRAL_NATS_SYSTEM_SEED_FILE"] = str(home.nats_system_seed)
        if place.is_open and "CORRAL_NATS_PUBLIC_URL" not in inherited:
            # The worker reaches NATS by the name under which it reached the frontend.
            told["CORRAL_NATS_PUBLIC_URL"] = f"nats://{{host}}:{addresses.nats_port}"
    return _merged(inherited, told)


def worker_environment(inherited: Mapping[str, str], *, home: Home, place: Place, own: Place) -> dict[str, str]:
    """`own` is where the worker says of itself whether it is ready."""
    told = {
        "CORRAL_JOIN": place.url,
        "CORRAL_TOKEN_FILE": str(home.join_token),
        "CORRAL_WORKER_HOME": str(home.worker),
        "CORRAL_HTTP_HOST": own.host,
        "CORRAL_HTTP_PORT": str(own.port),
    }
    if "CORRAL_SHARED_MODELS_DIR" not in inherited:
        # On one machine the files of models are there already, in the frontend's library.
        told["CORRAL_SHARED_MODELS_DIR"] = inherited.get("CORRAL_LIBRARY_DIR") or str(home.root / "library")
    hidden = {name + suffix for name in _FRONTEND_ONLY for suffix in ("", "_FILE")}
    return _merged({name: value for name, value in inherited.items() if name not in hidden}, told)


def _merged(inherited: Mapping[str, str], told: Mapping[str, str]) -> dict[str, str]:
    twins = {name.removesuffix("_FILE") for name in told} | {f"{name}_FILE" for name in told}
    left_out = twins.union(_NOT_INHERITED)
    kept = {name: value for name, value in inherited.items() if name not in left_out}
    # Lines must reach the log when they are written, not when a buffer is full.
    return {**kept, "PYTHONUNBUFFERED": "1", **told}
