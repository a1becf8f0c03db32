"""Killed anywhere, by SIGKILL or in any order of events: every request that was answered counts once."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from corral.domain.errors import StoreUnavailable
from corral.metering.usage_shipper import ShippingStep, UsageShipper
from corral.store.database import Database
from tests.metering.scene import CHAT, HOUR, answered, counted, leave, metering, sums_of
from tests.support.databases import fresh_database

ROOT = Path(__file__).parents[2]
REQUESTS = 50


async def _run(*arguments: str) -> int:
    """Run `meter.py` to its end; its exit code."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(Path(__file__).with_name("meter.py")),
        *arguments,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env=os.environ | {"PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'src'}"},
    )
    output, _ = await process.communicate()
    assert f"answered {REQUESTS}" in output.decode(), output.decode()
    assert process.returncode is not None
    return process.returncode


async def _restart(database: Database, root: Path) -> None:
    """A new process comes, takes over what is there, and ends."""
    made = metering(database, root)
    await made.start()
    await made.tick()
    await made.stop()


@pytest.mark.behaviour("GW-161")
@pytest.mark.parametrize("step", ["answered", *ShippingStep, "never"])
async def test_process_that_is_killed_at_any_step_has_every_request_counted_once(
    step: str, database: Database, database_url: str, tmp_path: Path
) -> None:
    for _ in range(2):
        code = await _run(database_url, str(tmp_path), str(REQUESTS), step)
        assert code == (0 if step == "never" else -signal.SIGKILL)
    await _restart(database, tmp_path)
    assert await counted(database) == {CHAT: sums_of(2 * REQUESTS)}
    assert list(tmp_path.iterdir()) == []


async def test_disk_that_takes_half_a_line_and_then_nothing_costs_no_request(
    database: Database, database_url: str, tmp_path: Path
) -> None:
    assert await _run(database_url, str(tmp_path), str(REQUESTS), "never", "1000") == 0
    assert await counted(database) == {CHAT: sums_of(REQUESTS)}


async def test_process_that_is_killed_with_a_full_disk_loses_what_was_not_on_it_and_no_more(
    database: Database, database_url: str, tmp_path: Path
) -> None:
    assert await _run(database_url, str(tmp_path), str(REQUESTS), "answered", "1000") == -signal.SIGKILL
    (path,) = tmp_path.glob("*/1.lines")
    whole_lines = path.read_bytes().count(b"\n")
    assert path.stat().st_size == 1000
    await _restart(database, tmp_path)
    assert await counted(database) == {CHAT: sums_of(whole_lines)}


class ProcessKilled(BaseException):
    """The process ends here."""


class Machine:
    """Two processes on one disk, each killed and started anew as often as one likes."""

    def __init__(self, database: Database, root: Path, key_id: str) -> None:
        self._database = database
        self._root = root
        self._key_id = key_id
        self._trouble: dict[ShippingStep, BaseException] = {}
        self._processes: list[UsageShipper] = []
        self.answered = 0

    async def start(self) -> None:
        for _ in range(2):
            self._processes.append(await self._new())

    async def play(self, place: int, act: str) -> None:
        made = self._processes[place]
        match act.split():
            case ["answer"]:
                made.spool.on_requests_ended(answered(key_id=self._key_id))
                self.answered += 1
            case ["tick"]:
                await made.tick()
            case ["kill"]:
                await self._replace(place)
            case ["kill", step]:
                await self._disturbed(place, ShippingStep(step), ProcessKilled())
            case ["lose", step]:
                await self._disturbed(place, ShippingStep(step), StoreUnavailable("The connection broke."))
            case ["half"]:
                _write_half_a_line(made, self._key_id)
                await self._replace(place)
            case ["stop"]:
                await made.stop()
                self._processes[place] = await self._new()

    async def end(self) -> None:
        for made in self._processes:
            await made.stop()
        await _restart(self._database, self._root)

    async def _disturbed(self, place: int, step: ShippingStep, error: BaseException) -> None:
        self._trouble = {step: error}
        try:
            await self._processes[place].tick()
        except ProcessKilled:
            await self._replace(place)
        except StoreUnavailable:
            pass
        finally:
            self._trouble = {}

    async def _replace(self, place: int) -> None:
        leave(self._processes[place])
        self._processes[place] = await self._new()

    async def _new(self) -> UsageShipper:
        made = metering(self._database, self._root, self._passed)
        await made.start()
        return made

    def _passed(self, step: ShippingStep) -> None:
        error = self._trouble.pop(step, None)
        if error is not None:
            raise error


def _write_half_a_line(made: UsageShipper, key_id: str) -> None:
    """A kill in the middle of a write: `answered` has not returned, so the request's answer has not ended."""
    file = made.spool._file
    assert file is not None
    os.write(file, f'[{HOUR},"{key_id}","lla'.encode())


KILLS = [f"{how} {step}" for how in ("kill", "lose") for step in ShippingStep]
ACTS = st.tuples(st.integers(0, 1), st.sampled_from(["answer"] * 6 + ["tick", "tick", "kill", "half", "stop", *KILLS]))


@pytest.mark.behaviour("GW-161")
def test_usage_counts_each_request_once_in_any_order_of_kills_and_lost_commits(
    postgres: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with asyncio.Runner() as runner:
        stack = AsyncExitStack()
        database = Database(runner.run(stack.enter_async_context(fresh_database(postgres))))
        stack.push_async_callback(database.close)

        @settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
        @given(st.lists(ACTS, max_size=25))
        def check(acts: list[tuple[int, str]]) -> None:
            runner.run(_check(database, tmp_path_factory.mktemp("usage"), acts))

        try:
            check()
        finally:
            runner.run(stack.aclose())


async def _check(database: Database, root: Path, acts: list[tuple[int, str]]) -> None:
    # Its own key: examples share a database, and must not see one another.
    key_id = root.name
    machine = Machine(database, root, key_id)
    await machine.start()
    for place, act in acts:
        await machine.play(place, act)
    await machine.end()
    mine = {bucket: sums for bucket, sums in (await counted(database)).items() if bucket[1] == key_id}
    expected = {(HOUR, key_id, "llama", "chat", "node-1"): sums_of(machine.answered)} if machine.answered else {}
    assert mine == expected
    assert list(root.iterdir()) == []
