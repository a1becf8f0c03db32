"""What a worker finds when it starts: engines that the one before it has left running.

Guarantee: an engine goes on if it is the same process (pid and birth), of the same installation, and answers on its
port or is busy; its clients notice nothing. One that was only just loading goes on loading. One that was about to be
started again after a crash is. Everything else of this home that runs is ended, also what no record names; no process
of anybody else is touched. Dead ones are forgotten.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path

import structlog

from corral.worker.backends.layout import identity_of
from corral.worker.processes.engine import READY_POLL_S, Around, Engine, State, Wanted, probe_url
from corral.worker.processes.journal import ProcessRecord
from corral.worker.processes.keys import parse_key
from corral.worker.processes.machine import Birth, Running
from corral.worker.processes.watching import is_busy
from corral.worker.work import Runnable

log = structlog.get_logger(__name__)

_END_POLL_S = 0.1


class Verdict(StrEnum):
    GOES_ON = "goes on"
    RESTARTS = "is started again after its pause"
    DEAD = "has ended"
    GONE = "is of a backend that is gone"
    SILENT = "does not answer"


async def adopt_all(around: Around, keep: Callable[[Wanted], Engine]) -> dict[str, Verdict]:
    """`keep` makes an engine of each process that goes on and puts it on the table. What became of each key."""
    records = around.journal.load()
    markers = await around.machine.markers(around.options.home)
    async with asyncio.TaskGroup() as group:
        for marker in markers - {record.marker for record in records}:
            log.warning("an engine that no record names is ended", marker=marker)
            group.create_task(_end(around, None, marker))
        tasks = {record.key: group.create_task(_settle(record, around, keep)) for record in records}
    return {key: task.result() for key, task in tasks.items()}


async def _settle(record: ProcessRecord, around: Around, keep: Callable[[Wanted], Engine]) -> Verdict:
    running = None if record.birth is None else around.machine.find(record.birth)
    runnable = _installed(record, around)
    if running is None and runnable is not None and record.state == State.BACKING_OFF:
        await _end(around, None, record.marker)
        keep(_wanted(record, runnable)).resume_pause(record)
        verdict = Verdict.RESTARTS
    elif running is None:
        verdict = Verdict.DEAD
    elif runnable is None:
        verdict = Verdict.GONE
    elif not await _answers(record, runnable, running, around):
        verdict = Verdict.SILENT
    else:
        engine = keep(_wanted(record, runnable))
        engine.adopt(record, running)
        verdict = Verdict.GOES_ON
    log.info("an engine of an earlier worker", key=record.key, port=record.port, verdict=str(verdict))
    # Also of a dead one: what it has forked may live.
    if verdict not in (Verdict.GOES_ON, Verdict.RESTARTS) and await _end(around, record.birth, record.marker):
        around.journal.remove(record.key)
    return verdict


def _installed(record: ProcessRecord, around: Around) -> Runnable | None:
    """The installation that the process was started from, if it is still the one in use."""
    found = around.find(record.backend)
    if found is None or found.name != record.backend or str(found.directory) != record.directory:
        return None
    return found if identity_of(Path(record.directory)) == record.identity else None


def _wanted(record: ProcessRecord, runnable: Runnable) -> Wanted:
    return Wanted(
        key=parse_key(record.key),
        runnable=runnable,
        identity=record.identity,
        command_hash=record.command_hash,
        wish=record.wish,
    )


async def _answers(record: ProcessRecord, runnable: Runnable, running: Running, around: Around) -> bool:
    """Or may be silent: because it still loads, or because it works."""
    if record.state == State.STARTING:
        return running.is_alive()
    url = probe_url(runnable, around.options, record.port)
    deadline_s = around.clock.monotonic() + around.options.adoption_s
    while running.is_alive():
        if await around.ready(url, record.api_key):
            return running.is_alive()
        if around.clock.monotonic() >= deadline_s:
            return await is_busy(around, running.birth, record.marker) and running.is_alive()
        await around.clock.sleep(READY_POLL_S)
    return False


async def _end(around: Around, birth: Birth | None, marker: str) -> bool:
    """Ask, wait, kill, wait. Whether nothing is left."""
    machine, options = around.machine, around.options
    if birth is not None and machine.find(birth) is not None:
        await machine.ask_to_end(birth, marker)
        if await _is_gone(around, birth, marker, options.grace_s):
            return True
    await machine.kill(birth, marker)
    if await _is_gone(around, birth, marker, options.kill_limit_s):
        return True
    log.error("an engine of an earlier worker survives SIGKILL", marker=marker)
    return False


async def _is_gone(around: Around, birth: Birth | None, marker: str, limit_s: float) -> bool:
    deadline_s = around.clock.monotonic() + limit_s
    while await around.machine.is_any_left(birth, marker):
        if around.clock.monotonic() >= deadline_s:
            return False
        await around.clock.sleep(_END_POLL_S)
    return True
