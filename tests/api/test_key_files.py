"""Rotations at the same time: afterwards the key file of this machine never holds a secret that was replaced."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from aiohttp import web

from tests.support.frontends import ADMIN_KEY, RunningFrontend
from tests.support.polling import eventually


@dataclass
class HoldingRelay:
    """Passes calls on to a frontend and keeps the answer of the first rotation until `release` is set."""

    frontend: RunningFrontend
    url: str = ""
    rotations: int = 0
    release: asyncio.Event = field(default_factory=asyncio.Event)

    async def handle(self, request: web.Request) -> web.Response:
        sent = {name: request.headers[name] for name in ("Authorization", "Content-Type") if name in request.headers}
        async with self.frontend.http.request(
            request.method, f"{self.frontend.url}{request.path_qs}", headers=sent, data=await request.read()
        ) as answer:
            body, status = await answer.read(), answer.status
        if request.path.endswith("/rotate"):
            self.rotations += 1
            if self.rotations == 1:
                await self.release.wait()
        return web.Response(body=body, status=status, content_type="application/json")


@asynccontextmanager
async def holding_relay(frontend: RunningFrontend) -> AsyncIterator[HoldingRelay]:
    relay = HoldingRelay(frontend)
    app = web.Application()
    app.router.add_route("*", "/{rest:.*}", relay.handle)
    runner = web.AppRunner(app, shutdown_timeout=1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        relay.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        yield relay
    finally:
        relay.release.set()
        await runner.cleanup()


class RotateCommand:
    """Runs `corral keys rotate admin` in a process of its own, on a home with a key file."""

    def __init__(self, home: Path, *options: str) -> None:
        self._home = home
        self._options = options
        self.out = home / f"out-{id(self)}"
        self.err = home / f"err-{id(self)}"
        self.err.touch()

    async def run(self) -> int:
        with self.out.open("wb") as out, self.err.open("wb") as err:
            command = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "corral", "keys", "rotate", "admin", *self._options),
                env={"PATH": os.defpath, "HOME": str(self._home), "CORRAL_HOME": str(self._home)},
                stdout=out,
                stderr=err,
            )
            return await command.wait()


def make_home(path: Path, url: str) -> Path:
    (path / "run").mkdir()
    (path / "run" / "state.json").write_text(json.dumps({"url": url}))
    (path / "admin.key").write_text(f"{ADMIN_KEY}\n")
    return path


async def rotate_twice_at_once(home: Path, relay: HoldingRelay, *options: str) -> list[tuple[int, RotateCommand]]:
    """The second command begins while the first one has its secret and has not written it."""
    first, second = RotateCommand(home, *options), RotateCommand(home, *options)
    running = [asyncio.create_task(first.run())]

    async def has_rotated() -> bool:
        return relay.rotations == 1

    await eventually(has_rotated)
    running.append(asyncio.create_task(second.run()))

    async def waits_or_has_ended() -> bool:
        return running[1].done() or "Waiting for another command" in second.err.read_text()

    await eventually(waits_or_has_ended)
    relay.release.set()
    return list(zip(await asyncio.gather(*running), (first, second), strict=True))


@pytest.mark.behaviour("KEY-10")
async def test_two_rotations_at_once_leave_the_working_secret_in_the_key_file(
    frontend: RunningFrontend, tmp_path: Path
) -> None:
    async with holding_relay(frontend) as relay:
        home = make_home(tmp_path, relay.url)
        # With a grace the second command can still use the key that it read at its start.
        (code, first), (other, second) = await rotate_twice_at_once(home, relay, "--grace", "1h")
    assert (code, other) == (0, 0), second.err.read_text()
    stored = (home / "admin.key").read_text()
    assert stored == second.out.read_text() != first.out.read_text()
    status, me = await frontend.call("GET", "/api/me", key=stored.strip())
    assert status == 200
    _, keys = await frontend.call("GET", "/api/keys", key=stored.strip())
    assert [stored.startswith(key["prefix"]) for key in keys if key["id"] == me["key_id"]] == [True]


@pytest.mark.behaviour("KEY-10")
async def test_rotation_with_a_key_that_another_command_replaced_says_so_and_writes_nothing(
    frontend: RunningFrontend, tmp_path: Path
) -> None:
    async with holding_relay(frontend) as relay:
        home = make_home(tmp_path, relay.url)
        (code, first), (other, second) = await rotate_twice_at_once(home, relay)
    assert (code, other) == (0, 1)
    assert "Run it again" in second.err.read_text()
    stored = (home / "admin.key").read_text()
    assert stored == first.out.read_text()
    assert (await frontend.call("GET", "/api/me", key=stored.strip()))[0] == 200


@pytest.mark.behaviour("KEY-10")
async def test_rotation_overtaken_by_another_does_not_write_its_dead_secret(
    frontend: RunningFrontend, tmp_path: Path
) -> None:
    """Somebody on the page rotates the key between the answer to the command and the file."""
    _, me = await frontend.call("GET", "/api/me")
    other = (await frontend.call("POST", "/api/keys", {"name": "other", "scope": "admin"}))[1]["key"]
    async with holding_relay(frontend) as relay:
        home = make_home(tmp_path, relay.url)
        command = RotateCommand(home)
        running = asyncio.create_task(command.run())

        async def has_rotated() -> bool:
            return relay.rotations == 1

        await eventually(has_rotated)
        assert (await frontend.call("POST", f"/api/keys/{me['key_id']}/rotate", key=other))[0] == 201
        relay.release.set()
        assert await running == 1
    assert (home / "admin.key").read_text() == f"{ADMIN_KEY}\n"
    assert command.out.read_text() == ""
    assert "This key was rotated or revoked meanwhile" in command.err.read_text()
