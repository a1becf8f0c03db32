"""One frontend with real engines behind it, for clients of every kind.

It lives in a thread of its own, so that clients that wait, clients that await and other programs all find it running.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from tests.engines.engine_processes import Engine
from tests.serving.scene import address_of, keep_only_the_feed, put_model, put_replica, settled
from tests.support.cache_folder import ensure_cached_folder
from tests.support.databases import fresh_database
from tests.support.frontends import ADMIN_KEY, RunningFrontend, running_frontend
from tests.support.models import SMOLLM2
from tests.support.nodes import join_node

T = TypeVar("T")
TEMPLATE = Path(__file__).with_name("tools.jinja")
START_S = 60.0


@dataclass
class Stage:
    url: str
    frontend: RunningFrontend
    node_id: str
    loop: asyncio.AbstractEventLoop
    key: str = ADMIN_KEY

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Do something in the frontend's own thread."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(START_S)

    def serve(self, name: str, engine: Engine, backend: str, **config: Any) -> None:
        """Make a model of an engine that runs."""
        asyncio.run(engine.ready())
        self.run(self._serve(name, engine, backend, config))

    async def _serve(self, name: str, engine: Engine, backend: str, config: dict[str, Any]) -> None:
        await put_model(self.frontend.database, name, backend=backend, **config)
        await put_replica(self.frontend.database, self.node_id, address_of(engine), model=name)
        await settled(self.frontend)

    def in_flight(self) -> int:
        return len(self.frontend.core.gateway.open_exchanges)


@contextmanager
def stage(postgres: str) -> Iterator[Stage]:
    made: list[Stage] = []
    failed: list[BaseException] = []
    is_there, stop = threading.Event(), asyncio.Event()

    async def play() -> None:
        async with fresh_database(postgres) as url, running_frontend(url) as frontend:
            await keep_only_the_feed(frontend)
            node = await join_node(frontend, "stage")
            made.append(Stage(frontend.url, frontend, node.id, asyncio.get_running_loop()))
            is_there.set()
            await stop.wait()

    def thread() -> None:
        try:
            asyncio.run(play())
        except BaseException as error:  # noqa: BLE001 - told in the other thread
            failed.append(error)
        finally:
            is_there.set()

    running = threading.Thread(target=thread, name="stage")
    running.start()
    try:
        assert is_there.wait(START_S), "the frontend does not start"
        assert not failed, failed
        yield made[0]
    finally:
        if made:
            made[0].loop.call_soon_threadsafe(stop.set)
        running.join(START_S)
    assert not failed, failed


def smollm2_with_tools() -> Path:
    """The small real model with a template that knows tools; its own does not."""
    source, template = SMOLLM2.ensure_folder() / "model.gguf", TEMPLATE.read_text(encoding="utf-8")
    return ensure_cached_folder("models", "smollm2-tools", template, partial(_write, source, template)) / "model.gguf"


def _write(source: Path, template: str, folder: Path) -> None:
    program = [sys.executable, "-m", "gguf.scripts.gguf_new_metadata", "--chat-template", template]
    done = subprocess.run([*program, source, folder / "model.gguf"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
