"""The parent of several frontends: it starts again what dies, gives up what cannot start, and takes all with it."""

from __future__ import annotations

import asyncio
import io
import os
import signal
import socket
import sys
from pathlib import Path

import pytest

from corral.adapters.system import SystemClock
from corral.app.logs import configure_logging
from corral.app.process_group import (
    FrontendProcessGroup,
    ProcessGroupOptions,
    _check_platform,
    bind_shared_port,
    hold_port,
    is_port_served,
    listen,
)
from corral.app.settings import LogFormat
from corral.domain.errors import InvalidRequest
from corral.runtime.bind_errors import PortHeld
from tests.support.polling import eventually

# A child that writes down each of its lives and leaves when it is told to.
LIVING = """
import os, pathlib, signal, sys
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
with pathlib.Path(sys.argv[1]).open("a") as file:
    file.write(f"{os.getpid()}\\n")
signal.pause()
"""
STUBBORN = "import pathlib, signal, sys; signal.signal(15, signal.SIG_IGN); "
STUBBORN += "pathlib.Path(sys.argv[1]).write_text('0\\n'); signal.pause()"


def _family(folder: Path, *, leave_limit_s: float = 20.0, **programs: str) -> FrontendProcessGroup:
    commands = {name: (sys.executable, "-c", text, str(folder / name)) for name, text in programs.items()}
    plan = ProcessGroupOptions(commands=commands, environment=os.environ, stop_limit_s=leave_limit_s, pause_s=0.01)
    return FrontendProcessGroup(plan, SystemClock())


def _lives(folder: Path, name: str) -> list[int]:
    path = folder / name
    return [int(line) for line in path.read_text().splitlines()] if path.exists() else []


async def _has_lived(folder: Path, name: str, times: int) -> bool:
    return len(_lives(folder, name)) >= times


async def test_dead_frontend_process_is_restarted_alone(tmp_path: Path) -> None:
    family = _family(tmp_path, one=LIVING, two=LIVING)
    running = asyncio.create_task(family.run())
    for name in ("one", "two"):
        await eventually(lambda n=name: _has_lived(tmp_path, n, 1))  # type: ignore[misc]
    os.kill(_lives(tmp_path, "one")[0], signal.SIGKILL)
    await eventually(lambda: _has_lived(tmp_path, "one", 2))
    assert len(_lives(tmp_path, "two")) == 1
    family.request_stop()
    assert await running == 0
    for pid in (*_lives(tmp_path, "one"), *_lives(tmp_path, "two")):
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


async def test_group_stops_with_the_exit_code_of_a_process_that_cannot_start(tmp_path: Path) -> None:
    family = _family(tmp_path, broken="raise SystemExit(7)", fine=LIVING)
    assert await asyncio.wait_for(family.run(), 30) == 7
    assert len(_lives(tmp_path, "fine")) <= 1


async def test_process_that_does_not_stop_is_killed_after_the_limit(tmp_path: Path) -> None:
    family = _family(tmp_path, leave_limit_s=0.2, deaf=STUBBORN)
    running = asyncio.create_task(family.run())
    await eventually(lambda: _has_lived(tmp_path, "deaf", 1))
    family.request_stop()
    assert await running == 0


def test_parent_holds_the_ports_number_and_its_children_share_it() -> None:
    with hold_port("127.0.0.1", 0) as held:
        port = held.getsockname()[1]
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port), timeout=5)
        with bind_shared_port("127.0.0.1", port) as one, bind_shared_port("127.0.0.1", port) as other:
            one.listen()
            other.listen()
            for _ in range(20):
                socket.create_connection(("127.0.0.1", port), timeout=5).close()
            with pytest.raises(PortHeld):
                listen("127.0.0.1", port)


def test_holding_a_taken_port_fails_at_once_even_if_it_could_be_shared() -> None:
    with bind_shared_port("127.0.0.1", 0) as taken:
        taken.listen()
        with pytest.raises(PortHeld):
            hold_port("127.0.0.1", taken.getsockname()[1])


async def test_shared_port_counts_as_served_only_while_a_socket_listens() -> None:
    with bind_shared_port("127.0.0.1", 0) as bound:
        port = bound.getsockname()[1]
        assert not await is_port_served("127.0.0.1", port)
        with bind_shared_port("127.0.0.1", port) as other:
            other.listen()
            assert await is_port_served("127.0.0.1", port)
        assert not await is_port_served("127.0.0.1", port)


def test_sharing_a_port_is_refused_on_a_platform_that_cannot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    with pytest.raises(InvalidRequest, match="cannot share a port"):
        _check_platform()


def test_every_line_of_one_of_several_names_it() -> None:
    import structlog  # noqa: PLC0415 - beside the configuration that it is about

    written = io.StringIO()
    configure_logging(LogFormat.JSON, stream=written, frontend="here-2")
    try:
        structlog.get_logger("test").warning("hello")
    finally:
        configure_logging(LogFormat.JSON, stream=io.StringIO())
    assert '"frontend": "here-2"' in written.getvalue()
