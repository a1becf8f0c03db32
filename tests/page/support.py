"""Helpers of the page's tests: a fleet for tests without `async`, the visible text of a page, and the browser's errors.

The tests are plain functions, not coroutines: Playwright's plain interface is the easier one to read. The fleet's own
loop runs in a thread beside.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import re
import threading
import time
from collections.abc import Coroutine, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import aiohttp
from playwright.sync_api import BrowserContext, ConsoleMessage, Page
from sqlalchemy import text
from sqlalchemy.ext.asyncio import create_async_engine

from tests.e2e.cluster import Cluster
from tests.e2e.models.scene import Models, models_of
from tests.support.frontends import ADMIN_KEY
from tests.support.polling import eventually
from tools.source import ROOT

T = TypeVar("T")
RUN_LIMIT_S = 180.0
# How long a page may take to show what is expected; a loaded machine may stand still for seconds.
EXPECT_MS = 60_000
LOOK_MS = 50
# For what the cluster has to do first: download, install, load, notice that a node is away.
LONG_MS = 120_000
# Options of a model whose load does not end before `let_load`.
HELD_LOAD = {"control": "true", "health_s": "3600"}
COOKIE = "corral_session"
AXE = ROOT / "ui" / "node_modules" / "axe-core" / "axe.min.js"
# Two keys that work have no name in common.
_NUMBERS = itertools.count(1)
_SERIOUS = ("serious", "critical")


class BackgroundLoop:
    """Runs an event loop in a thread of its own, for coroutines that plain tests call."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="aside", daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T], limit_s: float = RUN_LIMIT_S) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(limit_s)

    @contextmanager
    def inside(self, manager: AbstractAsyncContextManager[T]) -> Iterator[T]:
        """Enter and leave `manager` in one task of the loop: some may be left only by the task that entered."""
        entered: asyncio.Future[T] = asyncio.Future(loop=self._loop)
        leave = asyncio.Event()

        async def stay() -> None:
            async with manager as value:
                entered.set_result(value)
                await leave.wait()

        async def wait() -> T:
            either: set[asyncio.Future[Any]] = {entered, staying_task}
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if not entered.done():
                staying_task.result()
            return entered.result()

        async def begin() -> asyncio.Task[None]:
            return asyncio.create_task(stay())

        async def end() -> None:
            leave.set()
            await staying_task

        staying_task = self.run(begin())
        value = self.run(wait())
        try:
            yield value
        finally:
            self.run(end())

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(timeout=RUN_LIMIT_S)
        self._loop.close()


@dataclass
class Fleet:
    """Real frontends and workers, of `tests/e2e`. `models` sends them requests from code that awaits."""

    aside: BackgroundLoop
    models: Models

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the fleet's loop: `fleet.run(fleet.models.put("chat"))`."""
        return self.aside.run(work)

    def url(self, via: int = 0) -> str:
        return self.models.cluster.frontends[via].url

    def call(self, method: str, path: str, body: Any = None, *, via: int = 0) -> tuple[int, Any]:
        """Call the API over HTTP with the admin key; return the status and the JSON body."""
        return self.run(self.models.call(method, path, body, via=via))

    def get(self, path: str, *, via: int = 0) -> Any:
        status, answer = self.call("GET", path, via=via)
        assert status == 200, answer
        return answer

    def new_key(self, scope: str, **more: Any) -> str:
        name = f"of the tests, to {scope} ({next(_NUMBERS)})"
        status, made = self.call("POST", "/api/keys", {"name": name, "scope": scope} | more)
        assert status == 201, made
        return str(made["key"])


@contextmanager
def fleet_of(aside: BackgroundLoop, folder: Path, *names: str, frontends: int = 1) -> Iterator[Fleet]:
    """Yield a fleet of frontends and healthy workers with the fake engine (`backend: fake`)."""
    with aside.inside(models_of(folder, *names, frontends=frontends)) as models:
        yield Fleet(aside, models)


@contextmanager
def answering(fleet: Fleet, model: str) -> Iterator[None]:
    """Keep one streamed request to `model` open inside the block; leaving the block hangs up."""
    is_enough = asyncio.Event()

    async def listen() -> None:
        async with fleet.models.stream(model, max_tokens=8000, ignore_eos=True) as stream:
            while not is_enough.is_set() and await stream.next() is not None:
                pass
        assert is_enough.is_set(), "the answer was long enough"

    async def begin() -> asyncio.Task[None]:
        return asyncio.create_task(listen())

    async def end() -> None:
        is_enough.set()
        await listening

    listening = fleet.run(begin())
    try:
        yield
    finally:
        fleet.run(end())


def let_load(fleet: Fleet, model: str) -> None:
    """End the load of a model that has the options `HELD_LOAD`."""
    models = fleet.models

    async def starting() -> Any:
        found = await models.all_processes()
        return next((one for one in found if (one["model"], one["state"]) == (model, "starting")), None)

    async def is_released() -> bool:
        process = Path("/proc") / str((await models.look(starting))["pid"])
        words = process.joinpath("cmdline").read_bytes().decode().split("\0")
        (port,) = (word.removeprefix("--port=") for word in words if word.startswith("--port="))
        variables = dict(
            line.split("=", 1) for line in process.joinpath("environ").read_bytes().decode().split("\0") if line
        )
        headers = {"Authorization": f"Bearer {variables['CORRAL_ENGINE_KEY']}"}
        url = f"http://127.0.0.1:{port}/_control"
        try:
            async with models.cluster.http.post(url, json={"health_s": 0}, headers=headers) as answer:
                return answer.status == 200
        except aiohttp.ClientConnectionError:
            # It does not listen yet.
            return False

    fleet.run(eventually(is_released, within_s=60))


async def in_registry(cluster: Cluster, *statements: str, **values: Any) -> None:
    """Write to PostgreSQL directly, past the API: for set-up that would take long and is not what a test is about."""
    engine = create_async_engine(cluster.postgres.url.replace("postgresql:", "postgresql+asyncpg:"))
    try:
        async with engine.begin() as connection:
            for statement in statements:
                await connection.execute(
                    text(statement), {name: values[name] for name in values if f":{name}" in statement}
                )
    finally:
        await engine.dispose()


_LIKE_THE_FIRST = """
    INSERT INTO nodes
    SELECT (jsonb_populate_record(first, jsonb_build_object(
        'id', gen_random_uuid(), 'name', :name || number, 'credential_hash', md5(:name || number)))).*
    FROM nodes AS first, generate_series(1, CAST(:last AS int)) AS number WHERE first.name = :name || '0'"""
_RACKS = """
    INSERT INTO node_labels (node_id, key, source, value)
    SELECT id, 'rack', 'worker', right(name, 1) FROM nodes WHERE name LIKE :name || '%' AND name <> :name || '0'"""

_APPROVED = """
    UPDATE nodes SET approved_labels = jsonb_build_object('rack', right(name, 1))
    WHERE name LIKE :name || '%' AND approved_at IS NOT NULL"""


@contextmanager
def many_nodes(fleet: Fleet, name: str, count: int, *, approves: bool) -> Iterator[None]:
    """Nodes `name`0, `name`1, …, of which none runs: the first has registered, the others are written like it. Each has
    the last digit of its name as its label `rack`."""
    cluster = fleet.models.cluster

    async def come() -> None:
        body: dict[str, Any] = {
            "name": f"{name}0",
            "token": await cluster.token(max_uses=1, approves=approves),
            "credential": f"{name:0<32}",
            "boot_id": "boot-0000",
            "labels": {"rack": "0"},
            "address": "127.0.0.1:20000",
            "total_ram": 2**34,
        }
        status, answer = await cluster.frontends[0].call("POST", "/api/node/register", body, key=None)
        assert status in (200, 201), answer
        await in_registry(cluster, _LIKE_THE_FIRST, _RACKS, _APPROVED, name=name, last=count - 1)
        await eventually(lambda: _lists_nodes(cluster, name, count))

    async def go() -> None:
        await in_registry(cluster, "DELETE FROM nodes WHERE name LIKE :name || '%' AND name <> :name || '0'", name=name)
        # Deleted through the API, so that all frontends get an event.
        await fleet.models.call("DELETE", f"/api/nodes/{name}0")
        await eventually(lambda: _lists_nodes(cluster, name, 0))

    fleet.run(come())
    try:
        yield
    finally:
        fleet.run(go())


async def _lists_nodes(cluster: Cluster, name: str, count: int) -> bool:
    listed = [await frontend.get("/api/nodes") for frontend in cluster.running()]
    return all(sum(node["name"].startswith(name) for node in nodes) == count for nodes in listed)


@dataclass
class BrowserErrors:
    """Collects the errors of a browser: of scripts, of the console, and of the content security policy."""

    faults: list[str] = field(default_factory=list)
    _allowed: list[re.Pattern[str]] = field(default_factory=list)

    def allow(self, pattern: str) -> None:
        """Accept errors that match the pattern in this test: `allow("status of 409")`."""
        self._allowed.append(re.compile(pattern))

    def bad(self) -> list[str]:
        return [fault for fault in self.faults if not any(one.search(fault) for one in self._allowed)]

    def watch(self, page: Page) -> None:
        page.on("console", self._on_console)
        page.on("pageerror", lambda error: self.faults.append(f"script: {error}"))

    def _on_console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.faults.append(f"{message.type}: {message.text} ({message.location.get('url', '')})")


def come_in(context: BrowserContext, url: str, key: str = ADMIN_KEY) -> None:
    """Log in by `POST /api/session`, without the form; the context keeps the cookie."""
    answer = context.request.post(f"{url}/api/session", data={"key": key})
    assert answer.status == 201, answer.text()


def leave(page: Page) -> None:
    """Show nothing any more. A page that still asks about what a test takes away notes each refusal as an error."""
    page.goto("about:blank")


def wait_until(page: Page, script: str, arg: Any = None, *, timeout_ms: float = EXPECT_MS) -> None:
    """Wait until a script returns something true. `Page.wait_for_function` looks a second time by `eval`, which the
    page's policy forbids."""
    ends_at = time.monotonic() + timeout_ms / 1000
    while not page.evaluate(script, arg):
        assert time.monotonic() < ends_at, f"{page.url}: still not so: {script}"
        page.wait_for_timeout(LOOK_MS)


def expect_fits(page: Page) -> None:
    """Expect that nothing is wider than the screen. Charts take the width of a new screen one frame later."""
    wait_until(page, "document.documentElement.scrollWidth <= window.innerWidth")


def keep_toasts(page: Page) -> None:
    """Keep short messages visible until a click hides them or the page is left."""
    page.evaluate(_KEEP_TOASTS)


# As in ui/src/kit/toasts.tsx.
_KEEP_TOASTS = """() => {
  const set = window.setTimeout;
  window.setTimeout = (run, ms, ...rest) => (ms === 6000 || ms === 15000 ? 0 : set(run, ms, ...rest));
}"""


@dataclass(frozen=True)
class ShownTexts:
    """The texts that elements had since `record_texts`, also those that were there for a moment only."""

    page: Page
    selector: str

    def read(self) -> list[str]:
        return list(self.page.evaluate("selector => window.shown[selector]", self.selector))

    def expect(self, pattern: str, *, timeout: float = EXPECT_MS) -> None:
        """Wait until a text has matched."""
        has_matched = "([selector, pattern]) => window.shown[selector].some(text => new RegExp(pattern).test(text))"
        wait_until(self.page, has_matched, [self.selector, pattern], timeout_ms=timeout)


def record_texts(page: Page, selector: str) -> ShownTexts:
    """Note every text of the elements that match, until the page is reloaded. An element without text is noted by
    its label."""
    page.evaluate(_RECORD_TEXTS, selector)
    return ShownTexts(page, selector)


_RECORD_TEXTS = """selector => {
  const texts = ((window.shown ??= {})[selector] = []);
  const note = () => {
    for (const element of document.querySelectorAll(selector)) {
      const text = element.textContent.trim() || element.getAttribute('aria-label');
      if (text && !texts.includes(text)) texts.push(text);
    }
  };
  note();
  new MutationObserver(note).observe(document.body, {childList: true, subtree: true, characterData: true});
}"""


def axe(page: Page, *, rules: tuple[str, ...] = ()) -> list[str]:
    """Return the violations that axe-core finds, by all rules or by some. The browser's own debugger gives it to the
    page: the page's policy is not bent for it."""
    page.evaluate(AXE.read_text(encoding="utf-8") + "\n;0")
    script = "async options => (await axe.run(document, {preload: false, ...options})).violations"
    return [
        f"{found['id']}: {found['help']}: {json.dumps([node['target'] for node in found['nodes']][:5])}"
        for found in page.evaluate(script, {"runOnly": list(rules)} if rules else {})
        if found["impact"] in _SERIOUS
    ]


def axe_by_day_and_night(page: Page) -> list[str]:
    """What axe-core finds in light and in dark colours. Nothing but contrast differs between them."""
    page.emulate_media(color_scheme="dark")
    by_night = axe(page, rules=("color-contrast",))
    page.emulate_media(color_scheme="light")
    return [*axe(page), *(f"dark: {fault}" for fault in by_night)]
