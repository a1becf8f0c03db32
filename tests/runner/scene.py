"""A worker as a runner sees it: sends messages, collects what comes back, and waits for it.

`run_scene` has the runner in this process, over real pipes; `run_process_scene` starts `python -m corral.runner`.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp

from corral.adapters.system import SystemClock
from corral.ports.runtime import Clock
from corral.runner.document_reader import DocumentReader
from corral.runner.mcp_pool import McpPool, McpPoolOptions
from corral.runner.model_step import GuidedModelRegistry
from corral.runner.runner_process import RunnerProcess
from corral.runner.secret_masker import SecretMasker
from corral.runner.stdio_server import StdioOptions
from corral.runner.turn import TurnDeps
from corral.runner.worker_link import WorkerLink
from corral.runtime.tasks import TaskSet
from corral.wire.run_work import RunOutcome
from corral.wire.runner_protocol import SERVER_GRACE_VARIABLE, ProgramLimits

SERVERS = Path(__file__).parent / "servers"
WAIT_S = 60.0
TICKET = "ticket-canary-0f9e8d7c6b5a"
Message = dict[str, Any]


def make_server(notes: Path, name: str = "tools", **fields: Any) -> dict[str, Any]:
    """Describe the server of `servers/tools.py` as a program."""
    env = {"NOTES": str(notes), "PYTHONDONTWRITEBYTECODE": "1", **fields.pop("env", {})}
    server = {"name": name, "transport": "stdio", "command": sys.executable, "args": [str(SERVERS / "tools.py")]}
    return server | {"env": env} | fields


class Scene:
    """Speaks with one runner."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, model_url: str) -> None:
        self._reader = reader
        self._writer = writer
        self._changed = asyncio.Condition()
        self.model_urls = [model_url]
        self.messages: list[Message] = []
        self.lines: list[bytes] = []
        self.is_over = False
        self.ask_answers: Callable[[Message], Message | None] = lambda _: None
        # Answer at once that the trace is stored, as a worker does whose frontends are well.
        self.flushes = True

    async def send(self, type_: str, **fields: Any) -> None:
        await self.send_line(json.dumps({"type": type_, **fields}).encode())

    async def send_line(self, line: bytes) -> None:
        self._writer.write(line + b"\n")
        await self._writer.drain()

    def close_input(self) -> None:
        self._writer.close()

    async def start(self, text: str = "go", *, run_id: str = "r1", **fields: Any) -> None:
        """Start a run with one message of the user."""
        spec = {
            "run_id": run_id,
            "kind": "agent_turn",
            "model": "chat",
            "base_urls": self.model_urls,
            "ticket": TICKET,
            "messages": [{"role": "user", "content": text}],
        }
        await self.send("start", run_id=run_id, spec=spec | fields)

    async def finish(self, run_id: str = "r1") -> RunOutcome:
        """Wait for the end of a run."""
        end = await self.wait(lambda message: message["type"] == "end" and message["run_id"] == run_id)
        return RunOutcome.model_validate(end["outcome"])

    async def run(self, text: str = "go", *, run_id: str = "r1", **fields: Any) -> RunOutcome:
        await self.start(text, run_id=run_id, **fields)
        return await self.finish(run_id)

    async def wait(self, matches: Callable[[Message], bool]) -> Message:
        """Return the first message that matches, which may have come already."""
        async with asyncio.timeout(WAIT_S), self._changed:
            while True:
                found = next(filter(matches, self.messages), None)
                if found is not None:
                    return found
                assert not self.is_over, f"the runner has ended after {self.messages[-3:]}"
                await self._changed.wait()

    async def wait_event(self, event_type: str, run_id: str = "r1", **data: Any) -> Message:
        """Return the first event of this type whose data have these fields."""
        return await self.wait(
            lambda message: (
                message["type"] == "event"
                and message["run_id"] == run_id
                and message["event_type"] == event_type
                and data.items() <= message["data"].items()
            )
        )

    async def wait_over(self) -> None:
        async with asyncio.timeout(WAIT_S), self._changed:
            while not self.is_over:
                await self._changed.wait()

    async def mcp(self, action: str, server: dict[str, Any], **fields: Any) -> Message:
        message_id = f"m{len(self.messages)}"
        await self.send("mcp", id=message_id, server=server, action=action, **fields)
        return await self.wait(lambda message: message["type"] == "mcp_result" and message["id"] == message_id)

    def events(self, event_type: str, run_id: str = "r1") -> list[dict[str, Any]]:
        """Return the data of all events of a type."""
        return [
            message["data"]
            for message in self.messages
            if message["type"] == "event" and message["run_id"] == run_id and message["event_type"] == event_type
        ]

    def text(self, event_type: str, run_id: str = "r1") -> str:
        return "".join(data["text"] for data in self.events(event_type, run_id))

    def types(self, run_id: str = "r1") -> list[str]:
        """Return the types of a run's events in order, without repetitions in a row."""
        types = [m["event_type"] for m in self.messages if m["type"] == "event" and m["run_id"] == run_id]
        return [kind for index, kind in enumerate(types) if index == 0 or types[index - 1] != kind]

    async def read(self) -> None:
        while line := await self._reader.readline():
            self.lines.append(line)
            message = json.loads(line)
            # A test that has closed the input cannot reply any more.
            with contextlib.suppress(ConnectionResetError):
                await self._reply(message)
            async with self._changed:
                self.messages.append(message)
                self._changed.notify_all()
        async with self._changed:
            self.is_over = True
            self._changed.notify_all()

    async def _reply(self, message: Message) -> None:
        """Answer a call of the runner as its worker would."""
        if message["type"] != "call":
            return
        if message["method"] == "flush":
            if self.flushes:
                await self.send("reply", id=message["id"], result={})
        elif (reply := self.ask_answers(message)) is not None:
            await self.send("reply", id=message["id"], **reply)


async def _open_reader(descriptor: int) -> asyncio.StreamReader:
    reader = asyncio.StreamReader(limit=32 << 20)
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(descriptor, "rb", buffering=0)
    )
    return reader


async def _open_writer(descriptor: int) -> asyncio.StreamWriter:
    loop = asyncio.get_running_loop()
    transport, protocol = await loop.connect_write_pipe(
        lambda: asyncio.StreamReaderProtocol(asyncio.StreamReader()), os.fdopen(descriptor, "wb", buffering=0)
    )
    return asyncio.StreamWriter(transport, protocol, None, loop)


@asynccontextmanager
async def run_scene(
    model_url: str,
    options: McpPoolOptions | None = None,
    limits: ProgramLimits | None = None,
    *,
    clock: Clock | None = None,
    server_grace_s: float = WAIT_S,
) -> AsyncIterator[Scene]:
    """Run a runner in this process, connected by pipes. Servers may take as long as a loaded machine needs."""
    to_runner, from_runner = os.pipe(), os.pipe()
    masker, clock = SecretMasker(), clock or SystemClock()
    stdio = StdioOptions(path=os.environ["PATH"], grace_s=0.2, limits=limits or ProgramLimits())
    tasks = TaskSet("scene")
    async with aiohttp.ClientSession() as http:
        deps = TurnDeps(
            http=http,
            pool=McpPool(stdio, clock, masker, options),
            clock=clock,
            masker=masker,
            guided_models=GuidedModelRegistry(),
            server_grace_s=server_grace_s,
            documents=DocumentReader(stdio.limits, {}),
        )
        link = await WorkerLink.open(os.fdopen(to_runner[0], "rb", buffering=0), os.fdopen(from_runner[1], "wb", 0))
        serving = tasks.start(RunnerProcess(link, deps).serve(os.getpid(), "test"), name="serve")
        serving.add_done_callback(lambda _: link.close())
        scene = Scene(await _open_reader(from_runner[0]), await _open_writer(to_runner[1]), model_url)
        tasks.start(scene.read(), name="read")
        try:
            yield scene
        finally:
            scene.close_input()
            await tasks.join()


class ProcessScene(Scene):
    """Speaks with a runner in a process of its own."""

    process: asyncio.subprocess.Process
    log: list[str]

    async def ended(self) -> int:
        async with asyncio.timeout(WAIT_S):
            return await self.process.wait()


@asynccontextmanager
async def run_process_scene(model_url: str, **environment: str) -> AsyncIterator[ProcessScene]:
    """Run `python -m corral.runner`; afterwards it has ended."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "corral.runner",
        env={
            "PATH": os.environ["PATH"],
            "PYTHONPATH": os.pathsep.join(sys.path),
            SERVER_GRACE_VARIABLE: str(WAIT_S),
            **environment,
        },
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        limit=32 << 20,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    tasks = TaskSet("scene")
    scene = ProcessScene(process.stdout, process.stdin, model_url)
    scene.process, scene.log = process, []
    tasks.start(scene.read(), name="read")
    tasks.start(_read_log(scene), name="log")
    try:
        yield scene
    finally:
        scene.close_input()
        try:
            await scene.ended()
        except TimeoutError:
            process.kill()
            raise
        finally:
            await tasks.join()


async def _read_log(scene: ProcessScene) -> None:
    assert scene.process.stderr is not None
    while line := await scene.process.stderr.readline():
        scene.log.append(line.decode())
