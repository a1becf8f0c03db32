"""Makes the environment variables of the frontend and the worker.

Secrets travel as the names of files, never in the environment or on a command line. A variable and its `_FILE` twin are
never both set. The worker does not receive what only a frontend needs: it must not be able to reach the database.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from corral.embedded.home import HomeLayout
from corral.embedded.owned_processes import MARKER_HOME, MARKER_NAME
from corral.embedded.tcp_ports import get_reachable_host, is_loopback

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
# The person's own CORRAL_ variables are about another cluster, or about the client.
_NOT_INHERITED = ("CORRAL_KEY", "CORRAL_URL", "CORRAL_DETACH", MARKER_HOME, MARKER_NAME)


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpEndpoint:
    """The host and port where a process of the cluster answers HTTP."""

    host: str
    port: int

    @property
    def url(self) -> str:
        host = get_reachable_host(self.host)
        return f"http://[{host}]:{self.port}" if ":" in host else f"http://{host}:{self.port}"

    @property
    def is_public(self) -> bool:
        """Whether other machines can reach the endpoint."""
        return not is_loopback(self.host)


@dataclass(frozen=True, slots=True, kw_only=True)
class BusAddress:
    """Says where NATS is, and whether it is one of the supervisor's children."""

    nats_url: str
    nats_port: int
    is_own_bus: bool


def make_frontend_environment(
    inherited: Mapping[str, str], *, home: HomeLayout, endpoint: HttpEndpoint, bus: BusAddress
) -> dict[str, str]:
    variables = {
        "CORRAL_DATABASE_URL_FILE": str(home.database_url),
        "CORRAL_NATS_URL": bus.nats_url,
        "CORRAL_ADMIN_KEY_FILE": str(home.admin_key),
        "CORRAL_LOCAL_JOIN_TOKEN_FILE": str(home.join_token),
        "CORRAL_HOST": endpoint.host,
        "CORRAL_PORT": str(endpoint.port),
    }
    if "CORRAL_LIBRARY_DIR" not in inherited:
        variables["CORRAL_LIBRARY_DIR"] = str(home.root / "library")
    if "CORRAL_STATE_DIR" not in inherited:
        variables["CORRAL_STATE_DIR"] = str(home.root / "frontend")
    if bus.is_own_bus:
        variables["CORRAL_NATS_ACCOUNT_SEED_FILE"] = str(home.nats_account_seed)
        variables["CORRAL_NATS_OPERATOR_SEED_FILE"] = str(home.nats_operator_seed)
        variables["CORRAL_NATS_SYSTEM_SEED_FILE"] = str(home.nats_system_seed)
        if endpoint.is_public and "CORRAL_NATS_PUBLIC_URL" not in inherited:
            # The worker reaches NATS by the name under which it reached the frontend.
            variables["CORRAL_NATS_PUBLIC_URL"] = f"nats://{{host}}:{bus.nats_port}"
    return _merge(inherited, variables)


def make_worker_environment(
    inherited: Mapping[str, str], *, home: HomeLayout, frontend: HttpEndpoint, endpoint: HttpEndpoint
) -> dict[str, str]:
    """Return the variables of the worker. `endpoint` is where the worker says whether it is ready."""
    variables = {
        "CORRAL_JOIN": frontend.url,
        "CORRAL_TOKEN_FILE": str(home.join_token),
        "CORRAL_WORKER_HOME": str(home.worker),
        "CORRAL_HTTP_HOST": endpoint.host,
        "CORRAL_HTTP_PORT": str(endpoint.port),
    }
    if "CORRAL_SHARED_MODELS_DIR" not in inherited:
        # On one machine the files of models are there already, in the frontend's library.
        variables["CORRAL_SHARED_MODELS_DIR"] = inherited.get("CORRAL_LIBRARY_DIR") or str(home.root / "library")
    hidden = {name + suffix for name in _FRONTEND_ONLY for suffix in ("", "_FILE")}
    return _merge({name: value for name, value in inherited.items() if name not in hidden}, variables)


def _merge(inherited: Mapping[str, str], variables: Mapping[str, str]) -> dict[str, str]:
    twins = {name.removesuffix("_FILE") for name in variables} | {f"{name}_FILE" for name in variables}
    left_out = twins.union(_NOT_INHERITED)
    kept = {name: value for name, value in inherited.items() if name not in left_out}
    # Lines must reach the log when they are written, not when a buffer is full.
    return {**kept, "PYTHONUNBUFFERED": "1", **variables}
