"""`corral up`, `corral status` and `corral down`: the cluster on this machine.

Exit codes: 0 all is well, 1 refused or not ready, 3 nothing runs (`status` alone). What is asked for goes to standard
output, everything else to standard error. Little is imported before it is needed: a start must be quick.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from corral.cli import render
from corral.cli.command import JsonOption

if TYPE_CHECKING:
    from corral.embedded.status import Status

NOT_READY = 1
STOPPED = 3
DEFAULT_HOME = Path("~/.corral")
# These hold settings that only the full loader reads; without them its imports are saved.
_LOADER_NEEDED = ("CORRAL_CONFIG", "CORRAL_DATABASE_URL_FILE")

HomeOption = Annotated[
    Path | None,
    typer.Option(
        "--home", envvar="CORRAL_HOME", help="Directory with everything that the local cluster keeps.  [~/.corral]"
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
        typer.Option("--port", envvar="CORRAL_PORT", min=0, max=65535, help="Its port; 0 takes a free one.  [8080]"),
    ] = None,
    detach: Annotated[
        bool | None,
        typer.Option(
            "--detach/--no-detach",
            envvar="CORRAL_DETACH",
            help="Return when ready and leave the cluster in the background.",
        ),
    ] = None,
    database_url: Annotated[
        str | None,
        typer.Option(
            "--database-url", envvar="CORRAL_DATABASE_URL", help="A PostgreSQL to use instead of starting one."
        ),
    ] = None,
    nats_url: Annotated[
        str | None,
        typer.Option("--nats-url", envvar="CORRAL_NATS_URL", help="A NATS to use instead of starting one."),
    ] = None,
    postgres_bin: Annotated[
        Path | None,
        typer.Option("--postgres-bin", envvar="CORRAL_POSTGRES_BIN", help="Directory with initdb and postgres to use."),
    ] = None,
    nats_bin: Annotated[
        Path | None,
        typer.Option("--nats-bin", envvar="CORRAL_NATS_BIN", help="The nats-server program to use."),
    ] = None,
    processes: Annotated[
        int | None,
        typer.Option(
            "--processes",
            envvar="CORRAL_PROCESSES",
            min=1,
            max=64,
            help="How many processes the frontend is; they share its port.  [1]",
        ),
    ] = None,
) -> None:
    """Start everything on this machine: PostgreSQL, NATS, a frontend and a worker."""
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
    }
    raise typer.Exit(_up({name: value for name, value in given.items() if value is not None}))


def status(*, home: HomeOption = None, as_json: JsonOption = False) -> None:
    """Show what runs on this machine."""
    raise typer.Exit(_status(_home(home), as_json=as_json))


def down(home: HomeOption = None) -> None:
    """Stop what `corral up` started on this machine, and wait until it has stopped."""
    raise typer.Exit(_down(_home(home)))


def _up(given: dict[str, Any]) -> int:
    from corral.app.up import UpOptions, run_up

    return run_up(UpOptions(**{"home": DEFAULT_HOME, **_with_settings(given)}))


def _home(given: Path | None) -> Path:
    found: Path = _with_settings({} if given is None else {"home": given}).get("home", DEFAULT_HOME)
    return found


def _with_settings(given: dict[str, Any]) -> dict[str, Any]:
    """Flags and variables, which Typer has read, and what a file says about the rest."""
    if not any(os.environ.get(name) for name in _LOADER_NEEDED):
        return given
    from corral.app.settings import UpSettings, load

    settings = load(UpSettings, flags=given).settings
    loaded = {name: getattr(settings, name) for name in UpSettings.model_fields}
    if settings.database_url is not None:
        loaded["database_url"] = settings.database_url.get_secret_value()
    return loaded


def _status(path: Path, *, as_json: bool) -> int:
    from corral.embedded.home import locate_home
    from corral.embedded.status import ClusterState, read_status

    found = read_status(locate_home(path))
    if as_json:
        render.write_json(found.as_json())
    else:
        _print_status(found)
    return {ClusterState.READY: 0, ClusterState.STOPPED: STOPPED}.get(found.state, NOT_READY)


def _print_status(found: Status) -> None:
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
    render.write(render.clean("\n".join(lines), keep="\n"))
    if found.state.value not in {"ready", "stopped"}:
        render.say(found.reason)


def _describe_part(part: dict[str, Any]) -> str:
    words = [str(part["state"])]
    words += [f"{key} {part[key]}" for key in ("pid", "port", "address") if part.get(key)]
    if part.get("restarts"):
        words.append(f"restarted {part['restarts']} times")
    return ", ".join(words)


def _down(path: Path) -> int:
    from corral.embedded.down import stop_home
    from corral.embedded.home import locate_home

    render.say(stop_home(locate_home(path)))
    return 0
