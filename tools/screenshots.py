"""`python -m tools.screenshots`: takes the pictures of the web page in docs/pictures.

It starts a cluster of its own with real content: two workers, a fake engine, a small model that really answers, and an
operation that failed. Each page is taken by day and by night, and the overview also as a phone shows it. Limit: needs
Chromium, a built page, and the network for the small model (about 150 MB with its engine).
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, sync_playwright

from tools.browser import find_browser, list_arguments
from tools.page import PageFolders, PageProblem, build_page
from tools.source import ROOT

PICTURES = ROOT / "docs" / "pictures"
BYTES_MAX = 150_000
DESK = {"width": 1280, "height": 800}
PHONE = {"width": 390, "height": 844}
MODEL = "smollm2-135m"
START_LIMIT_S = 300
LOOK_EVERY_S = 0.5
SETTLE_MS = 2500
TALK_LIMIT_MS = 120_000
ENDED = ("completed", "completed_with_pending", "failed", "cancelled", "superseded")
QUESTION = "Why do herds need fences?"
# Name, address, and the actions on the page before the picture is taken.
SHOTS: tuple[tuple[str, str, str], ...] = (
    ("overview", "/", ""),
    ("playground", f"/playground?model={MODEL}", "talk"),
    ("models", "/models", ""),
    ("nodes", "/nodes", ""),
    ("backends", "/backends", ""),
    ("operations", "/operations", ""),
    ("usage", "/usage?span=day", ""),
    ("access", "/access", ""),
    ("settings", "/settings?tab=audit", ""),
)


@dataclass(frozen=True)
class DemoCluster:
    """Calls the API of the cluster that the screenshots are taken of."""

    url: str
    key: str

    def call(self, method: str, path: str, body: Any = None, *, key: str = "", limit_s: float = 120) -> Any:
        """Send a request and return the response, also that of an error."""
        headers = {"Authorization": f"Bearer {key or self.key}", "Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.url}{path}", data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=limit_s) as answer:
                return json.loads(answer.read() or b"null")
        except urllib.error.HTTPError as error:
            return json.loads(error.read() or b"null")

    def ask(self, model: str, question: str, *, key: str = "") -> None:
        messages = [{"role": "user", "content": question}]
        self.call("POST", "/v1/chat/completions", {"model": model, "messages": messages, "max_tokens": 60}, key=key)


def main() -> int:
    found = find_browser()
    if found is None:
        print("error: There is no Chromium.\n\nhint: python -m tools.browser", file=sys.stderr)
        return 1
    try:
        build_page(PageFolders())
    except PageProblem as problem:
        print(f"error: {problem.sentence}\n\nhint: {problem.hint}", file=sys.stderr)
        return 1
    PICTURES.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="corral-pictures-") as folder, run_demo_cluster(Path(folder)) as fleet:
        fill_cluster(fleet)
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=found, args=list_arguments())
            take_screenshots(browser, fleet)
            browser.close()
    return 0


@contextlib.contextmanager
def run_demo_cluster(folder: Path) -> Iterator[DemoCluster]:
    """Yield a cluster of `corral up` and a second worker. Both are ended, whatever happens."""
    home, port = folder / "home", _free_port()
    _corral("up", "--home", str(home), "--port", str(port), "--detach")
    worker: subprocess.Popen[bytes] | None = None
    try:
        fleet = DemoCluster(f"http://127.0.0.1:{port}", (home / "admin.key").read_text(encoding="utf-8").strip())
        token = fleet.call("POST", "/api/tokens", {"name": "rack 2", "approves": True})["token"]
        environment = os.environ | {
            "CORRAL_JOIN": fleet.url,
            "CORRAL_TOKEN": str(token),
            "CORRAL_NAME": "gpu-b",
            "CORRAL_WORKER_HOME": str(folder / "gpu-b"),
        }
        command = [sys.executable, "-m", "corral", "worker"]
        worker = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_for(lambda: _healthy(fleet) == 2, "two healthy nodes")
        yield fleet
    finally:
        if worker is not None:
            worker.send_signal(signal.SIGTERM)
            worker.wait(timeout=60)
        _corral("down", "--home", str(home))


def fill_cluster(fleet: DemoCluster) -> None:
    """Fill the cluster with models, requests and a failure, as after a morning's work."""
    environment = os.environ | {"CORRAL_URL": fleet.url, "CORRAL_KEY": fleet.key}
    subprocess.run([sys.executable, "-m", "corral", "try"], env=environment, check=True, stdout=subprocess.DEVNULL)
    fleet.call("POST", "/api/users", {"name": "ada", "scope": "operate", "password": "correct horse"})
    limits = [{"requests_per_minute": 60, "tokens_per_day": 100_000}]
    shop = fleet.call("POST", "/api/keys", {"name": "shop", "scope": "infer", "models": ["s*"], "limits": limits})
    laptop = fleet.call("POST", "/api/keys", {"name": "laptop", "scope": "operate", "user": "ada"})
    for name in ("support", "search"):
        fleet.call("PUT", f"/api/models/config/{name}", {"backend": "fake"})
        for node in fleet.call("GET", "/api/nodes"):
            operation = fleet.call("POST", f"/api/models/{name}/load", {"nodes": [node["name"]]})
            wait_for(partial(_has_ended, fleet, operation), f"the load of {name} on {node['name']}")
    fleet.call("PUT", "/api/models/config/reports", {"backend": "fake", "options": {"refuse_start": True}})
    fleet.call("POST", "/api/models/reports/load", {})
    for turn in range(12):
        fleet.ask("support", f"Question {turn}: where is my parcel?", key=shop["key"])
        fleet.ask("search", f"Words {turn}", key=laptop["key"])
    fleet.ask(MODEL, QUESTION, key=shop["key"])
    wait_for(lambda: fleet.call("GET", "/api/usage?by=model")["total"]["requests"] >= 24, "usage to be counted")


def take_screenshots(browser: Browser, fleet: DemoCluster) -> None:
    for scheme in ("light", "dark"):
        context = browser.new_context(viewport=DESK, color_scheme=scheme, reduced_motion="reduce")  # type: ignore[arg-type]
        page = context.new_page()
        page.goto(f"{fleet.url}/app/#key={fleet.key}")
        page.get_by_role("link", name="Overview").wait_for()
        for name, address, deed in SHOTS:
            page.goto(f"{fleet.url}/app{address}")
            page.get_by_role("heading", level=1).wait_for()
            if deed == "talk":
                send_question(page)
            # Curves and numbers come a moment after the page.
            page.wait_for_timeout(SETTLE_MS)
            take_screenshot(page, name if scheme == "light" else f"{name}-dark")
        page.set_viewport_size(PHONE)  # type: ignore[arg-type]
        page.goto(f"{fleet.url}/app/")
        page.wait_for_timeout(SETTLE_MS)
        take_screenshot(page, "phone" if scheme == "light" else "phone-dark")
        context.close()


def send_question(page: Page) -> None:
    # A long answer makes a heavy picture.
    page.get_by_label("Max tokens").fill("100")
    page.get_by_role("button", name="Send").click()
    page.get_by_role("button", name="Send").wait_for(timeout=TALK_LIMIT_MS)


def take_screenshot(page: Page, name: str) -> None:
    file = PICTURES / f"{name}.png"
    page.screenshot(path=file)
    size = file.stat().st_size
    print(f"{file.relative_to(ROOT)}  {size // 1000} KB", file=sys.stderr)
    if size > BYTES_MAX:
        raise SystemExit(f"error: {file.name} has {size} bytes; a picture may have {BYTES_MAX}.")


def wait_for(look: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + START_LIMIT_S
    while not look():
        if time.monotonic() > end:
            raise SystemExit(f"error: {START_LIMIT_S} s were not enough for {what}.")
        time.sleep(LOOK_EVERY_S)


def _healthy(fleet: DemoCluster) -> int:
    return sum(node["status"] == "healthy" for node in fleet.call("GET", "/api/nodes"))


def _has_ended(fleet: DemoCluster, operation: Any) -> bool:
    return "id" not in operation or bool(fleet.call("GET", f"/api/operations/{operation['id']}")["state"] in ENDED)


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def _corral(*words: str) -> None:
    # The environment names the first worker, so that the pictures show no real machine.
    environment = os.environ | {"CORRAL_NAME": "gpu-a"}
    subprocess.run([sys.executable, "-m", "corral", *words], env=environment, check=True, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    sys.exit(main())
