"""Following an operation to its end: bars on a terminal, plain lines elsewhere, JSON lines with --json.

Exit codes: 0 completed, also when absent nodes still owe it, which is said; 1 every other end. Ctrl-C only stops
looking: the operation goes on, and how to come back is said (130).
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
from corral.cli.command import Session
from corral.cli.operation_views import VERBS, operation_list, short
from corral.cli.watch import QUIET_NOTE, Trouble
from corral.cli.working import own_tasks
from corral.client import Connected, Interrupted, Reset
from corral.client.operations import PROGRESS
from corral.policy.faults import ATTEMPTS_MAX, pause_s
from corral.runtime.guard import Failed, attempt
from corral.wire.events import EventOut
from corral.wire.operations import OperationInFull, TargetInFull

if TYPE_CHECKING:
    from rich.console import RenderableType

INTERRUPTED = 130
# A speed is that of the last seconds; older ones say nothing about now.
WINDOW_S = 5.0
LINE_EVERY_S = 1.0
# More nodes than fit a screen are counted, not drawn.
BARS_MAX = 16
QUEUE_LIMIT = 100
_DONE = frozenset({"completed", "completed_with_pending"})
# What is fetched has arrived by then.
_WITHOUT_BYTES = frozenset({"extracting", "checking", "stopping", "committing", "removing", "starting"})
_FINAL = frozenset({"success", "error", "cancelled", "superseded", "skipped"})
_MARKS = {"success": "done", "error": "failed", "cancelled": "cancelled", "superseded": "superseded", "skipped": "left"}


@dataclass(slots=True)
class Speed:
    """Bytes per second over the last few seconds; None while nobody can say."""

    _seen: deque[tuple[float, int]] = field(default_factory=deque)

    def take(self, now: float, current: int | None) -> None:
        if current is None:
            return
        if self._seen and current < self._seen[-1][1]:
            self._seen.clear()  # Another file, or another attempt.
        self._seen.append((now, current))
        while len(self._seen) > 2 and now - self._seen[1][0] >= WINDOW_S:
            self._seen.popleft()

    def per_second(self) -> float | None:
        if len(self._seen) < 2:
            return None
        (begin, first), (end, last) = self._seen[0], self._seen[-1]
        return (last - first) / (end - begin) if end > begin and last > first else None


@dataclass(slots=True)
class Story:
    """What has been told of an operation, so that only what is new is told again. No I/O, no clock of its own."""

    operation: OperationInFull
    _ended: set[str] = field(default_factory=set)
    _told_at: dict[str, float] = field(default_factory=dict)
    _told: dict[str, str] = field(default_factory=dict)
    _speeds: dict[str, Speed] = field(default_factory=dict)

    def take(self, operation: OperationInFull, now: float) -> list[str]:
        """The operation has moved; a line for each node that has ended since."""
        self.operation = operation
        lines = []
        for target in operation.nodes:
            self._speeds.setdefault(target.node_id, Speed()).take(now, target.current)
            if target.state in _FINAL and target.node_id not in self._ended:
                self._ended.add(target.node_id)
                lines.append(end_line(target, is_deletion=operation.is_deletion))
        return lines

    def news(self, now: float) -> list[str]:
        """A line for each node that is at work and has moved, at most one a second for each."""
        lines = []
        for target in self.operation.nodes:
            line = self.describe(target)
            is_due = now - self._told_at.get(target.node_id, -LINE_EVERY_S) >= LINE_EVERY_S
            if target.state in _FINAL or not is_due or line == self._told.get(target.node_id):
                continue
            self._told[target.node_id], self._told_at[target.node_id] = line, now
            lines.append(line)
        return lines

    def describe(self, target: TargetInFull) -> str:
        words = [f"{target.node_name}: {self.phase(target)}"]
        if target.state == "working":
            words.append(f"{target.percentage:.0f}%")
        words += self.details(target)
        return render.clean("  ".join(words))

    def phase(self, target: TargetInFull) -> str:
        if target.state == "queued":
            if not target.attempt:
                return "waits"
            after = render.span(pause_s(target.attempt))
            return f"waits for try {target.attempt + 1} of {ATTEMPTS_MAX}, {after} after the last"
        if target.state == "unconfirmed":
            return "does not answer; it may be at work"
        # The worker has it and does something else for this backend first.
        return "accepted" if target.phase in (None, "queued") else target.phase

    def details(self, target: TargetInFull) -> list[str]:
        """Bytes, speed and time left, as far as they are known."""
        if target.current is None or target.state != "working" or target.phase in _WITHOUT_BYTES:
            # The lines after the first are what another program said; `corral operations show` has them.
            return [target.error.partition("\n")[0]] if target.error and target.state == "queued" else []
        of = f"/{render.size(target.total)}" if target.total is not None else ""
        words = [f"{render.size(target.current)}{of}"]
        speed = self._speeds[target.node_id].per_second() if target.node_id in self._speeds else None
        if speed is not None:
            words.append(f"{render.size(int(speed))}/s")
            if target.total is not None:
                words.append(f"{render.span(max(0.0, target.total - target.current) / speed)} left")
        return words


def end_line(target: TargetInFull, *, is_deletion: bool = False) -> str:
    had = target.previous_version
    if target.state == "success" and is_deletion:
        return render.clean(f"{target.node_name}: removed" + (f" (had {had})" if had else ""))
    if target.state == "success" and target.is_rollback:
        return render.clean(f"{target.node_name}: rolled back" + (f" to {had}" if had else ""))
    what = " ".join(filter(None, (target.build.name if target.build else "", target.version)))
    before = f" (was {had})" if had and target.state == "success" else ""
    why = f": {target.error}" if target.error else ""
    return render.clean(" ".join(filter(None, (f"{target.node_name}: {_MARKS[target.state]}", what))) + before + why)


def end_sentence(operation: OperationInFull) -> str:
    what = f"{VERBS.get(operation.kind, operation.kind)} {operation.name}"
    match operation.state:
        case "completed":
            text = f"{what}: completed."
        case "completed_with_pending":
            owed = [target.node_name for target in operation.nodes if target.state not in _FINAL]
            names = ", ".join(owed[:5]) + (", …" if len(owed) > 5 else "")
            later = "which gets it when it is back" if len(owed) == 1 else "which get it when they are back"
            text = f"{what}: done where it could be; owed to {names}, {later}."
        case "failed":
            text = f"{what}: failed: {operation.error or operation.message}"
        case "paused":
            text = f"{what}: paused. Go on with: corral operations resume {short(operation.id)}"
        case _:
            text = f"{what}: {operation.state}. {operation.message}"
    return render.clean(text.rstrip())


async def follow(session: Session, operation_id: str, *, is_data: bool = False) -> None:
    """Until the end. One that is not good ends the command with 1. `is_data`: lines are what was asked for, and go to
    standard output."""
    import sys

    talk = render.write if is_data else render.say
    stream = sys.stdout if is_data else sys.stderr
    try:
        if session.as_json:
            last = await _follow_as_json(session, operation_id)
        elif stream.isatty():
            last = await _follow_as_bars(session, operation_id)
        else:
            last = await _follow_as_lines(session, operation_id, talk)
    except asyncio.CancelledError:
        name = short(operation_id)
        render.say(
            f"\nIt goes on. Come back with: corral operations watch {name}; "
            f"stop it with: corral operations cancel {name}"
        )
        raise typer.Exit(INTERRUPTED) from None
    if not session.as_json:
        render.say(end_sentence(last))
        if last.state == "failed":
            render.say(f"Again: corral operations retry {short(last.id)}")
    if last.state not in _DONE:
        raise typer.Exit(1)


async def follow_each(session: Session, operation_ids: Sequence[str]) -> None:
    """One after the other; they run side by side meanwhile. The worst of their exit codes is the command's."""
    worst = 0
    for operation_id in operation_ids:
        try:
            await follow(session, operation_id)
        except typer.Exit as end:
            if end.exit_code == INTERRUPTED:
                raise
            worst = max(worst, end.exit_code)
    if worst:
        raise typer.Exit(worst)


async def _follow_as_json(session: Session, operation_id: str) -> OperationInFull:
    told: dict[str, TargetInFull] = {}
    last: OperationInFull | None = None
    async with aclosing(session.client.operations.follow(operation_id)) as steps:
        async for last in steps:
            moved = [target for target in last.nodes if told.get(target.node_id) != target]
            told.update({target.node_id: target for target in moved})
            render.write_json(_step(last, moved), one_line=True)
    assert last is not None, "an operation is read before it is followed"
    return last


def _step(operation: OperationInFull, moved: Sequence[TargetInFull]) -> dict[str, Any]:
    kept = {"id", "kind", "name", "state", "rev", "progress", "phase", "current_bytes", "total_bytes", "message"}
    kept |= {"error", "error_code"}
    step: dict[str, Any] = operation.model_dump(mode="json", by_alias=True, exclude_none=True, include=kept)
    return step | {"nodes": [target.model_dump(mode="json", exclude_none=True, exclude={"build"}) for target in moved]}


async def _follow_as_lines(session: Session, operation_id: str, talk: Callable[[str], None]) -> OperationInFull:
    clock = _clock()
    story: Story | None = None
    async with aclosing(session.client.operations.follow(operation_id)) as steps:
        async for operation in steps:
            story = story or Story(operation)
            now = clock()
            for line in [*story.take(operation, now), *story.news(now)]:
                talk(line)
    assert story is not None, "an operation is read before it is followed"
    return story.operation


async def _follow_as_bars(session: Session, operation_id: str) -> OperationInFull:
    # Late: only a terminal needs it.
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    clock = _clock()
    story = Story(await session.client.operations.get(operation_id))
    steps: asyncio.Queue[OperationInFull | Failed | None] = asyncio.Queue(maxsize=QUEUE_LIMIT)
    reader = own_tasks("follow")
    console = Console(stderr=True, highlight=False)
    with Live(console=console, auto_refresh=False, transient=True) as live:
        reader.start(_read(session, operation_id, steps), name="steps")
        try:
            while True:
                live.update(bars(story), refresh=True)
                step = await _next(steps)
                if step is None:
                    return story.operation
                if isinstance(step, Failed):
                    raise step.error
                for line in story.take(step, clock()):
                    live.console.print(Text(line))
        finally:
            await reader.close()


async def _read(session: Session, operation_id: str, steps: asyncio.Queue[OperationInFull | Failed | None]) -> None:
    async def pass_on() -> None:
        async with aclosing(session.client.operations.follow(operation_id)) as found:
            async for step in found:
                await steps.put(step)

    outcome = await attempt(pass_on)
    await steps.put(outcome if isinstance(outcome, Failed) else None)


async def _next(
    steps: asyncio.Queue[OperationInFull | Failed | None],
) -> OperationInFull | Failed | None:
    """The newest of what is waiting."""
    step = await steps.get()
    while not steps.empty() and isinstance(step, OperationInFull):
        following = steps.get_nowait()
        if not isinstance(following, OperationInFull):
            # The end is for the next look; what was before it is drawn first.
            steps.put_nowait(following)
            return step
        step = following
    return step


def bars(story: Story) -> RenderableType:
    """One line for the whole, one bar for each node that has not ended."""
    from rich.console import Group
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    operation = story.operation
    grid = Table.grid(padding=(0, 2))
    waiting = [target for target in operation.nodes if target.state not in _FINAL]
    # Who is at work first: those are the ones that move.
    waiting.sort(key=lambda target: (target.state != "working", target.node_name))
    for target in waiting[:BARS_MAX]:
        grid.add_row(
            Text(render.clean(target.node_name)),
            ProgressBar(total=100, completed=target.percentage, width=28),
            Text(f"{target.percentage:3.0f}%"),
            Text(render.clean(story.phase(target))),
            Text(render.clean("  ".join(story.details(target)))),
        )
    more = f"and {len(waiting) - BARS_MAX} more nodes" if len(waiting) > BARS_MAX else ""
    what = f"{VERBS.get(operation.kind, operation.kind)} {operation.name}"
    head = Text(render.clean(f"{what}  {operation.progress:.0f}%  {operation.message}"))
    foot = Text("  ".join(filter(None, (more, "Ctrl-C stops looking, not the work."))), style="dim")
    return Group(head, grid, foot)


def _clock() -> Callable[[], float]:
    from corral.adapters.system import SystemClock

    return SystemClock().monotonic


async def watch_all(session: Session) -> None:
    """Every change of every operation, until Ctrl-C: a live list on a terminal, otherwise a line for each."""
    import sys

    if sys.stdout.isatty() and not session.as_json:
        await _watch_as_list(session)
    else:
        await _watch_as_lines(session)


async def _watch_as_lines(session: Session) -> None:
    trouble = Trouble()
    async with aclosing(session.client.operations.watch()) as items:
        async for item in items:
            if isinstance(item, Interrupted):
                trouble.begin(item.reason)
                continue
            trouble.end()
            if isinstance(item, Connected):
                continue
            _write_change(session, item)


def _write_change(session: Session, item: EventOut | Reset) -> None:
    if session.as_json:
        value = item.model_dump(mode="json") if isinstance(item, EventOut) else {"kind": "reset"}
        render.write_json(value, one_line=True)
    elif isinstance(item, Reset):
        render.write("reset: events were missed, read the state anew")
    elif item.kind != PROGRESS:
        data = item.data
        what = VERBS.get(str(data.get("kind")), "")
        words = (short(item.key), what, str(data.get("subject", "")), str(data.get("state", "")))
        render.write(render.clean(f"{render.moment(item.at)}  {item.kind}  {'  '.join(filter(None, words))}"))


async def _watch_as_list(session: Session) -> None:
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    console = Console()
    with Live(console=console, auto_refresh=False) as live:

        async def draw(note: str) -> None:
            found = await session.client.operations.list()
            colour = render.has_colour(console.file)
            text = operation_list(found, session.now(), colour=colour) if found else "Nothing is under way.\n"
            live.update(Text.from_ansi(f"{text}\n{note}"), refresh=True)

        await draw(QUIET_NOTE)
        async with aclosing(session.client.operations.watch()) as items:
            async for item in items:
                if isinstance(item, Interrupted):
                    live.update(Text(f"The stream broke ({render.clean(item.reason)}); trying again."), refresh=True)
                else:
                    await draw(QUIET_NOTE)
