"""Follows an operation to its end: bars on a terminal, plain lines elsewhere, JSON lines with --json.

Exit codes: 0 if it completed, also with changes pending for absent nodes, which are reported; 1 for every other end.
Ctrl-C only stops following: the operation goes on, and a message says how to follow it again (130).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import typer

from corral.cli import render
from corral.cli.command import CommandSession, make_tasks
from corral.cli.node_watch import QUIET_NOTE, OutageNotice
from corral.cli.operation_views import VERBS, format_operation_list, shorten_id
from corral.client import StreamConnectedNotice, StreamInterruptedNotice, StreamResetNotice
from corral.client.operations import PROGRESS_KIND
from corral.domain.state_words import OPERATION_WORDS, PHASE_WORDS, RETRYING, ROLLED_BACK, TARGET_WORDS, find_word
from corral.policy.faults import ATTEMPTS_MAX, compute_pause_s
from corral.runtime.attempt import AttemptFailure, attempt
from corral.wire.live import EventOut
from corral.wire.operations import OperationDetailOut, TargetDetailOut

if TYPE_CHECKING:
    from rich.console import RenderableType

INTERRUPTED = 130
# Window over which the speed is averaged.
WINDOW_S = 5.0
LINE_EVERY_S = 1.0
# At most this many bars are drawn; further nodes are only counted.
BARS_MAX = 16
QUEUE_LIMIT = 100
_GOOD_STATES = frozenset({"completed", "completed_with_pending"})
# Phases after the download, which have no byte counts.
_WITHOUT_BYTES = frozenset({"extracting", "checking", "stopping", "committing", "removing", "starting"})
_FINAL_TARGET_STATES = frozenset({"success", "error", "cancelled", "superseded", "skipped"})


@dataclass(slots=True)
class SpeedMeter:
    """Measures bytes per second of an operation for the command line; None while there are too few samples."""

    _samples: deque[tuple[float, int]] = field(default_factory=deque)

    def add_sample(self, now: float, current: int | None) -> None:
        if current is None:
            return
        if self._samples and current < self._samples[-1][1]:
            self._samples.clear()  # Another file, or another attempt.
        self._samples.append((now, current))
        while len(self._samples) > 2 and now - self._samples[1][0] >= WINDOW_S:
            self._samples.popleft()

    def compute_per_second(self) -> float | None:
        if len(self._samples) < 2:
            return None
        (begin, first), (end, last) = self._samples[0], self._samples[-1]
        return (last - first) / (end - begin) if end > begin and last > first else None


@dataclass(slots=True)
class ProgressReporter:
    """Turns updates of an operation into progress lines of the command line, and prints each fact only once.

    No I/O, no clock of its own.
    """

    operation: OperationDetailOut
    _ended_nodes: set[str] = field(default_factory=set)
    _reported_at: dict[str, float] = field(default_factory=dict)
    _reported_lines: dict[str, str] = field(default_factory=dict)
    _speeds: dict[str, SpeedMeter] = field(default_factory=dict)

    def apply_update(self, operation: OperationDetailOut, now: float) -> list[str]:
        """Apply an update of the operation. Return a line for each node that has ended since the last one."""
        self.operation = operation
        lines = []
        for target in operation.nodes:
            self._speeds.setdefault(target.node_id, SpeedMeter()).add_sample(now, target.current)
            if target.state in _FINAL_TARGET_STATES and target.node_id not in self._ended_nodes:
                self._ended_nodes.add(target.node_id)
                lines.append(format_end_line(target, is_deletion=operation.is_deletion))
        return lines

    def list_new_lines(self, now: float) -> list[str]:
        """Return a line for each running node that has progressed, at most one per second and node."""
        lines = []
        for target in self.operation.nodes:
            line = self.describe_target(target)
            is_due = now - self._reported_at.get(target.node_id, -LINE_EVERY_S) >= LINE_EVERY_S
            if target.state in _FINAL_TARGET_STATES or not is_due or line == self._reported_lines.get(target.node_id):
                continue
            self._reported_lines[target.node_id], self._reported_at[target.node_id] = line, now
            lines.append(line)
        return lines

    def describe_target(self, target: TargetDetailOut) -> str:
        words = [f"{target.node_name}: {self.describe_phase(target)}"]
        if target.state == "working":
            words.append(f"{target.percentage:.0f}%")
        words += self.list_details(target)
        return render.clean_text("  ".join(words))

    def describe_phase(self, target: TargetDetailOut) -> str:
        if target.state == "queued":
            if not target.attempt:
                return find_word(TARGET_WORDS, target.state)
            after = render.format_span(compute_pause_s(target.attempt))
            return f"{RETRYING}: attempt {target.attempt + 1} of {ATTEMPTS_MAX}, {after} after the last"
        if target.state == "unconfirmed":
            return f"{find_word(TARGET_WORDS, target.state)}; the job may be running"
        # A worker that has accepted the job may run another job of the same backend first.
        return find_word(PHASE_WORDS, target.phase or "queued")

    def list_details(self, target: TargetDetailOut) -> list[str]:
        """Return bytes, speed and time left, as far as they are known."""
        if target.current is None or target.state != "working" or target.phase in _WITHOUT_BYTES:
            # The lines after the first are output of another program; `corral operations show` prints them.
            return [target.error.partition("\n")[0]] if target.error and target.state == "queued" else []
        of = f"/{render.format_size(target.total)}" if target.total is not None else ""
        words = [f"{render.format_size(target.current)}{of}"]
        speed = self._speeds[target.node_id].compute_per_second() if target.node_id in self._speeds else None
        if speed is not None:
            words.append(f"{render.format_size(int(speed))}/s")
            if target.total is not None:
                words.append(f"{render.format_span(max(0.0, target.total - target.current) / speed)} left")
        return words


def format_end_line(target: TargetDetailOut, *, is_deletion: bool = False) -> str:
    had = target.previous_version
    if target.state == "success" and is_deletion:
        return render.clean_text(f"{target.node_name}: removed" + (f" (had {had})" if had else ""))
    if target.state == "success" and target.is_rollback:
        return render.clean_text(f"{target.node_name}: {ROLLED_BACK}" + (f" to {had}" if had else ""))
    build_name = " ".join(filter(None, (target.build.name if target.build else "", target.version)))
    previous_version = f" (was {had})" if had and target.state == "success" else ""
    reason = f": {target.error}" if target.error else ""
    return render.clean_text(
        " ".join(filter(None, (f"{target.node_name}: {find_word(TARGET_WORDS, target.state)}", build_name)))
        + previous_version
        + reason
    )


def describe_end(operation: OperationDetailOut) -> str:
    title = f"{VERBS.get(operation.kind, operation.kind)} {operation.name}"
    match operation.state:
        case "completed":
            text = f"{title}: {OPERATION_WORDS[operation.state]}."
        case "completed_with_pending":
            pending_nodes = [target.node_name for target in operation.nodes if target.state not in _FINAL_TARGET_STATES]
            names = ", ".join(pending_nodes[:5]) + (", …" if len(pending_nodes) > 5 else "")
            later = "when it returns" if len(pending_nodes) == 1 else "when they return"
            text = f"{title}: completed where possible; changes pending on {names}, applied {later}."
        case "failed":
            text = f"{title}: failed: {operation.error or operation.message}"
        case "paused":
            text = f"{title}: paused. Resume with: corral operations resume {shorten_id(operation.id)}"
        case _:
            text = f"{title}: {find_word(OPERATION_WORDS, operation.state)}. {operation.message}"
    return render.clean_text(text.rstrip())


async def follow_operation(session: CommandSession, operation_id: str, *, prints_data: bool = False) -> None:
    """Follow an operation to its end; a failure ends the command with exit code 1. `prints_data`: the lines are the
    command's data and go to standard output."""
    import sys

    talk = render.print_data if prints_data else render.print_notice
    stream = sys.stdout if prints_data else sys.stderr
    try:
        if session.as_json:
            last = await _follow_as_json(session, operation_id)
        elif stream.isatty():
            last = await _follow_as_bars(session, operation_id)
        else:
            last = await _follow_as_lines(session, operation_id, talk)
    except asyncio.CancelledError:
        name = shorten_id(operation_id)
        render.print_notice(
            f"\nThe operation goes on. Watch it with: corral operations watch {name}; "
            f"stop it with: corral operations cancel {name}"
        )
        raise typer.Exit(INTERRUPTED) from None
    if not session.as_json:
        render.print_notice(describe_end(last))
        if last.state == "failed":
            render.print_notice(f"Retry with: corral operations retry {shorten_id(last.id)}")
    if last.state not in _GOOD_STATES:
        raise typer.Exit(1)


async def follow_operations(session: CommandSession, operation_ids: Sequence[str]) -> None:
    """Follow several operations, which run in parallel, one after the other. The exit code is the worst of them."""
    worst = 0
    for operation_id in operation_ids:
        try:
            await follow_operation(session, operation_id)
        except typer.Exit as end:
            if end.exit_code == INTERRUPTED:
                raise
            worst = max(worst, end.exit_code)
    if worst:
        raise typer.Exit(worst)


async def _follow_as_json(session: CommandSession, operation_id: str) -> OperationDetailOut:
    reported: dict[str, TargetDetailOut] = {}
    last: OperationDetailOut | None = None
    async with aclosing(session.client.operations.follow(operation_id)) as steps:
        async for last in steps:
            moved = [target for target in last.nodes if reported.get(target.node_id) != target]
            reported.update({target.node_id: target for target in moved})
            render.print_json(_dump_step(last, moved), one_line=True)
    assert last is not None, "an operation is read before it is followed"
    return last


def _dump_step(operation: OperationDetailOut, moved: Sequence[TargetDetailOut]) -> dict[str, Any]:
    kept = {"id", "kind", "name", "state", "rev", "progress", "phase", "current_bytes", "total_bytes", "message"}
    kept |= {"error", "error_code"}
    step: dict[str, Any] = operation.model_dump(mode="json", by_alias=True, exclude_none=True, include=kept)
    return step | {"nodes": [target.model_dump(mode="json", exclude_none=True, exclude={"build"}) for target in moved]}


async def _follow_as_lines(
    session: CommandSession, operation_id: str, print_line: Callable[[str], None]
) -> OperationDetailOut:
    clock = _get_clock()
    reporter: ProgressReporter | None = None
    async with aclosing(session.client.operations.follow(operation_id)) as steps:
        async for operation in steps:
            reporter = reporter or ProgressReporter(operation)
            now = clock()
            for line in [*reporter.apply_update(operation, now), *reporter.list_new_lines(now)]:
                print_line(line)
    assert reporter is not None, "an operation is read before it is followed"
    return reporter.operation


async def _follow_as_bars(session: CommandSession, operation_id: str) -> OperationDetailOut:
    # Imported here, because only a terminal needs it.
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    clock = _get_clock()
    reporter = ProgressReporter(await session.client.operations.get(operation_id))
    steps: asyncio.Queue[OperationDetailOut | AttemptFailure | None] = asyncio.Queue(maxsize=QUEUE_LIMIT)
    reader = make_tasks("follow")
    console = Console(stderr=True, highlight=False)
    with Live(console=console, auto_refresh=False, transient=True) as live:
        reader.start(_read_steps(session, operation_id, steps), name="steps")
        try:
            while True:
                live.update(render_bars(reporter), refresh=True)
                step = await _get_newest_step(steps)
                if step is None:
                    return reporter.operation
                if isinstance(step, AttemptFailure):
                    raise step.error
                for line in reporter.apply_update(step, clock()):
                    live.console.print(Text(line))
        finally:
            await reader.close()


async def _read_steps(
    session: CommandSession, operation_id: str, steps: asyncio.Queue[OperationDetailOut | AttemptFailure | None]
) -> None:
    async def forward_steps() -> None:
        async with aclosing(session.client.operations.follow(operation_id)) as found:
            async for step in found:
                await steps.put(step)

    outcome = await attempt(forward_steps)
    await steps.put(outcome if isinstance(outcome, AttemptFailure) else None)


async def _get_newest_step(
    steps: asyncio.Queue[OperationDetailOut | AttemptFailure | None],
) -> OperationDetailOut | AttemptFailure | None:
    """Return the newest update in the queue."""
    step = await steps.get()
    while not steps.empty() and isinstance(step, OperationDetailOut):
        following = steps.get_nowait()
        if not isinstance(following, OperationDetailOut):
            # Put back for the next call, so that the update before the end is drawn first.
            steps.put_nowait(following)
            return step
        step = following
    return step


def render_bars(reporter: ProgressReporter) -> RenderableType:
    """Render one line for the operation and one bar for each node that has not ended."""
    from rich.console import Group
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    operation = reporter.operation
    grid = Table.grid(padding=(0, 2))
    waiting = [target for target in operation.nodes if target.state not in _FINAL_TARGET_STATES]
    # Running nodes come first, because their bars move.
    waiting.sort(key=lambda target: (target.state != "working", target.node_name))
    for target in waiting[:BARS_MAX]:
        grid.add_row(
            Text(render.clean_text(target.node_name)),
            ProgressBar(total=100, completed=target.percentage, width=28),
            Text(f"{target.percentage:3.0f}%"),
            Text(render.clean_text(reporter.describe_phase(target))),
            Text(render.clean_text("  ".join(reporter.list_details(target)))),
        )
    more = f"and {len(waiting) - BARS_MAX} more nodes" if len(waiting) > BARS_MAX else ""
    title = f"{VERBS.get(operation.kind, operation.kind)} {operation.name}"
    head = Text(render.clean_text(f"{title}  {operation.progress:.0f}%  {operation.message}"))
    foot = Text("  ".join(filter(None, (more, "Ctrl-C stops watching; the operation goes on."))), style="dim")
    return Group(head, grid, foot)


def _get_clock() -> Callable[[], float]:
    from corral.adapters.system import SystemClock

    return SystemClock().monotonic


async def watch_all(session: CommandSession) -> None:
    """Print every change of every operation until Ctrl-C: a live list on a terminal, otherwise one line each."""
    import sys

    if sys.stdout.isatty() and not session.as_json:
        await _watch_as_list(session)
    else:
        await _watch_as_lines(session)


async def _watch_as_lines(session: CommandSession) -> None:
    outage = OutageNotice()
    async with aclosing(session.client.operations.watch_all()) as items:
        async for item in items:
            if isinstance(item, StreamInterruptedNotice):
                outage.report_outage(item.reason)
                continue
            outage.report_recovery()
            if isinstance(item, StreamConnectedNotice):
                continue
            _write_change(session, item)


def _write_change(session: CommandSession, item: EventOut | StreamResetNotice) -> None:
    if session.as_json:
        value = item.model_dump(mode="json") if isinstance(item, EventOut) else {"kind": "reset"}
        render.print_json(value, one_line=True)
    elif isinstance(item, StreamResetNotice):
        render.print_data("reset: events were missed, read the state again")
    elif item.kind != PROGRESS_KIND:
        data = item.data
        verb = VERBS.get(str(data.get("kind")), "")
        words = (
            shorten_id(item.key),
            verb,
            str(data.get("subject", "")),
            find_word(OPERATION_WORDS, str(data.get("state", ""))),
        )
        render.print_data(
            render.clean_text(f"{render.format_time(item.at)}  {item.kind}  {'  '.join(filter(None, words))}")
        )


async def _watch_as_list(session: CommandSession) -> None:
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    console = Console()
    with Live(console=console, auto_refresh=False) as live:

        async def draw(note: str) -> None:
            found = await session.client.operations.list()
            colour = render.has_colour(console.file)
            text = (
                format_operation_list(found, session.read_time(), colour=colour) if found else "Nothing is under way.\n"
            )
            live.update(Text.from_ansi(f"{text}\n{note}"), refresh=True)

        await draw(QUIET_NOTE)
        async with aclosing(session.client.operations.watch_all()) as items:
            async for item in items:
                if isinstance(item, StreamInterruptedNotice):
                    live.update(
                        Text(f"The stream broke ({render.clean_text(item.reason)}); trying again."), refresh=True
                    )
                else:
                    await draw(QUIET_NOTE)
