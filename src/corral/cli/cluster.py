"""`corral up`, `corral status` and `corral down`: the cluster on this machine; `corral keys recover`: a new admin key
for it.

Exit codes: 0 success, 1 refused or not ready, 3 nothing runs (`status` only). Data goes to standard output, everything
else to standard error. Imports happen where they are needed, because a start must be quick.

For a new admin key, access to the home of `corral up` or to the database is proof enough: both allow everything
anyway. Guarantee: no key is made while the one in the home works. A cluster that does not run gets its key at the next
start.
"""

from __future__ import annotations

import asyncio
import os
import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from corral.cli import render
from corral.cli.command import JsonOption
from corral.domain.access import ADMIN_KEY_PREFIX
from corral.domain.errors import Conflict, InvalidRequest

if TYPE_CHECKING:
    from corral.embedded.home import HomeLayout
    from corral.embedded.home_status import HomeStatus

NOT_READY = 1
STOPPED = 3
DEFAULT_HOME = Path("~/.corral")
# Variables with settings that only the full loader reads; if none is set, the loader is not imported.
_FILE_VARIABLES = ("CORRAL_CONFIG", "CORRAL_DATABASE_URL_FILE")
HomeOption = Annotated[
    Path | None,
    typer.Option("--home", envvar="CORRAL_HOME", help="Directory of the local cluster.  [~/.corral]"),
]
DatabaseOption = Annotated[
    str | None,
    typer.Option(
        "--database-url",
        envvar="CORRAL_DATABASE_URL",
        metavar="URL",
        help="Database of a cluster that `corral up` does not run here; the key is printed.",
    ),
]


AgentWorkerOption = Annotated[
    bool | None,
    typer.Option(
        "--agent-worker/--no-agent-worker",
        envvar="CORRAL_AGENT_WORKER",
        help="Start a second worker that executes runs of agents and tasks.  [yes]",
    ),
]


def up(
    *,
    home: HomeOption = None,
    host: Annotated[
        str | None,
        typer.Option("--host", envvar="CORRAL_HOST", help="Address that the frontend listens on.  [127.0.0.1]"),
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(
            "--port", envvar="CORRAL_PORT", min=0, max=65535, help="Port of the frontend; 0 picks a free one.  [8080]"
        ),
    ] = None,
    detach: Annotated[
        bool | None,
        typer.Option(
            "--detach/--no-detach",
            envvar="CORRAL_DETACH",
            help="Return when the cluster is ready and leave it running in the background.",
        ),
    ] = None,
    database_url: Annotated[
        str | None,
        typer.Option(
            "--database-url",
            envvar="CORRAL_DATABASE_URL",
            help="Address of a PostgreSQL to use instead of starting one.",
        ),
    ] = None,
    nats_url: Annotated[
        str | None,
        typer.Option("--nats-url", envvar="CORRAL_NATS_URL", help="Address of a NATS to use instead of starting one."),
    ] = None,
    postgres_bin: Annotated[
        Path | None,
        typer.Option("--postgres-bin", envvar="CORRAL_POSTGRES_BIN", help="Directory with initdb and postgres to use."),
    ] = None,
    nats_bin: Annotated[
        Path | None,
        typer.Option("--nats-bin", envvar="CORRAL_NATS_BIN", help="Path of the nats-server program to use."),
    ] = None,
    processes: Annotated[
        int | None,
        typer.Option(
            "--processes",
            envvar="CORRAL_PROCESSES",
            min=1,
            max=64,
            help="Number of frontend processes; they share one port.  [1]",
        ),
    ] = None,
    agent_worker: AgentWorkerOption = None,
) -> None:
    """Start everything on this machine: PostgreSQL, NATS, a frontend, a worker and an agent worker."""
    given: dict[str, Any] = {
        "home": home,
        "host": host,
        "port": port,
        "detach": detach,
        "database_url": database_url,
        "nats_url": nats_url,
        "postgres_bin": postgres_bin,
        "nats_bin": nats_bin,
        "processes": processes,
        "agent_worker": agent_worker,
    }
    raise typer.Exit(_run_up({name: value for name, value in given.items() if value is not None}))


def status(*, home: HomeOption = None, as_json: JsonOption = False) -> None:
    """Show the state of the cluster on this machine."""
    raise typer.Exit(_show_status(_find_home(home), as_json=as_json))


def down(home: HomeOption = None) -> None:
    """Stop the cluster that `corral up` started on this machine, and wait until it has stopped."""
    raise typer.Exit(_run_down(_find_home(home)))


def _run_up(given: dict[str, Any]) -> int:
    from corral.app.up import UpOptions, run_up

    return run_up(UpOptions(**{"home": DEFAULT_HOME, **_merge_settings(given)}))


def _find_home(given: Path | None) -> Path:
    found: Path = _merge_settings({} if given is None else {"home": given}).get("home", DEFAULT_HOME)
    return found


def _merge_settings(given: dict[str, Any]) -> dict[str, Any]:
    """Merge the flags and variables that Typer has read with the settings of a file."""
    if not any(os.environ.get(name) for name in _FILE_VARIABLES):
        return given
    from corral.app.settings import UpSettings, load_settings

    settings = load_settings(UpSettings, flags=given).settings
    loaded = {name: getattr(settings, name) for name in UpSettings.model_fields}
    if settings.database_url is not None:
        loaded["database_url"] = settings.database_url.get_secret_value()
    return loaded


def _show_status(path: Path, *, as_json: bool) -> int:
    from corral.embedded.home import locate_home
    from corral.embedded.home_status import ClusterState, read_status

    found = read_status(locate_home(path))
    if as_json:
        render.print_json(found.to_json())
    else:
        _print_status(found)
    return {ClusterState.READY: 0, ClusterState.STOPPED: STOPPED}.get(found.state, NOT_READY)


def _print_status(found: HomeStatus) -> None:
    lines = [f"{'state':<12}{found.state.value}", f"{'home':<12}{found.home}"]
    if found.supervisor_pid is not None:
        lines.append(f"{'address':<12}{found.url}")
        lines += [f"{name:<12}{_describe_part(part)}" for name, part in found.parts.items()]
        lines.append(f"{'frontends':<12}{len(found.frontends)}")
        names = ", ".join(f"{node.get('name')} ({node.get('status')})" for node in found.nodes)
        lines.append(f"{'nodes':<12}{names or 'none known'}")
        lines += [f"{'degraded':<12}{sentence}" for sentence in found.degraded]
    if found.leftovers:
        lines.append(f"{'left behind':<12}{', '.join(str(pid) for pid in found.leftovers)}")
    render.print_data(render.clean_text("\n".join(lines), keep="\n"))
    if found.state.value not in {"ready", "stopped"}:
        render.print_notice(found.reason)


def _describe_part(part: dict[str, Any]) -> str:
    words = [str(part["state"])]
    words += [f"{key} {part[key]}" for key in ("pid", "port", "address") if part.get(key)]
    if part.get("restarts"):
        words.append(f"restarted {part['restarts']} times")
    return ", ".join(words)


def _run_down(path: Path) -> int:
    from corral.embedded.home import locate_home
    from corral.embedded.owned_processes import stop_home

    render.print_notice(stop_home(locate_home(path)))
    return 0


def recover(*, home: HomeOption = None, database_url: DatabaseOption = None, as_json: JsonOption = False) -> None:
    """Create a new admin key, on the machine of `corral up` or with the address of the database. Needs no key."""
    from corral.app.recovery import make_admin_key
    from corral.embedded.home import locate_home
    from corral.embedded.private_files import hold_file_lock

    if database_url is not None:
        key = asyncio.run(make_admin_key(database_url, None))
        if as_json:
            render.print_json({"key": key})
        else:
            render.print_data(key)
            render.print_notice("\nThis is an admin key. It is not shown again.")
        return
    found = locate_home(home or DEFAULT_HOME)
    _check_owner(found)
    # `corral keys rotate` may be about to write the file.
    with hold_file_lock(found.admin_key):
        _recover_in_home(found, as_json=as_json)


def _recover_in_home(found: HomeLayout, *, as_json: bool) -> None:
    from corral.app.recovery import make_admin_key
    from corral.embedded.home import find_lock_holder
    from corral.embedded.private_files import read_secret

    current = read_secret(found.admin_key)
    if find_lock_holder(found) is None:
        _write_key(found, ADMIN_KEY_PREFIX + secrets.token_urlsafe(32))
        _print_written(found, "It works as soon as `corral up` has started.", as_json=as_json)
        return
    address = read_secret(found.database_url)
    if address is None:
        raise Conflict(
            f"{found.database_url} is missing, so the database of the running cluster cannot be found.",
            hint="`corral down`, then run this again, then `corral up`.",
            code="database_unknown",
        )
    _write_key(found, asyncio.run(make_admin_key(address, current)))
    _print_written(found, "It works now.", as_json=as_json)
    render.print_notice("`corral keys list` shows the older ones; revoke those that are no longer used.")


def _print_written(home: HomeLayout, sentence: str, *, as_json: bool) -> None:
    if as_json:
        render.print_json({"key_file": str(home.admin_key)})
    else:
        render.print_notice(f"A new admin key is in {home.admin_key}. {sentence}")


def _check_owner(home: HomeLayout) -> None:
    from corral.embedded.home import open_home

    if not home.secrets.is_dir():
        raise InvalidRequest(
            f"There is no cluster of `corral up` in {home.root}.",
            hint="Name its folder with --home, or the registry of another cluster with --database-url.",
            code="no_cluster",
        )
    # Refuses a folder of another user, which a new file would make unusable for them.
    open_home(home.root)


def _write_key(home: HomeLayout, key: str) -> None:
    from corral.embedded.private_files import write_private

    write_private(home.admin_key, f"{key}\n")
