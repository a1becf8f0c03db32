"""Corral and its peers, each on one core in front of the same engine."""

from __future__ import annotations

import asyncio
import contextlib
import http.server
import json
import os
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol

import aiohttp
import psutil
import yaml

from bench.cluster import BenchCluster, free_port, run_cluster
from bench.gateway.installation import build_wire, ensure_corral_python, ensure_environment
from bench.nginx import nginx

# The proxies have one core, the engine and the crowd the other.
PROXY_CORE, OTHER_CORE = 0, 1
READY_S = 90.0


@dataclass(frozen=True)
class RunningProxy:
    """Holds a running proxy of the benchmark, and measures its processes."""

    name: str
    port: int
    pids: tuple[int, ...]
    key: str = ""

    def cpu_s(self) -> float:
        times = [one.cpu_times() for one in self._processes()]
        return float(sum(one.user + one.system for one in times))

    def memory_mib(self) -> float:
        return float(sum(one.memory_info().rss for one in self._processes())) / 2**20

    def _processes(self) -> list[psutil.Process]:
        """With their children."""
        own = [psutil.Process(pid) for pid in self.pids]
        return own + [child for one in own for child in one.children(recursive=True)]


@contextmanager
def run_engine(port: int) -> Iterator[None]:
    process = subprocess.Popen([str(build_wire()), "serve", "127.0.0.1", str(port)])
    psutil.Process(process.pid).cpu_affinity([OTHER_CORE])
    try:
        yield
    finally:
        process.kill()
        process.wait()


# --- peers ---


@contextmanager
def by_nginx(folder: Path, upstream: int) -> Iterator[RunningProxy]:
    port = free_port()
    inside = f"""
      upstream engine {{ server 127.0.0.1:{upstream}; keepalive 1024; keepalive_requests 100000000; }}
      server {{
        listen 127.0.0.1:{port} backlog=4096; client_max_body_size 64m;
        location / {{
          proxy_pass http://engine; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_buffering off;
        }}
      }}
    """
    with nginx(folder, port, inside) as pid:
        _pin(pid)
        yield RunningProxy("nginx", port, (pid,))


@contextmanager
def by_vllm_router(folder: Path, upstream: int) -> Iterator[RunningProxy]:
    programs = ensure_environment("vllm-router", "vllm-router==0.1.16")
    with _run_rust_router(folder, "vllm-router", [str(programs / "vllm-router")], upstream) as proxy:
        yield proxy


@contextmanager
def by_sglang_router(folder: Path, upstream: int) -> Iterator[RunningProxy]:
    programs = ensure_environment("sglang-router", "sglang-router==0.3.2")
    command = [str(programs / "python"), "-m", "sglang_router.launch_router"]
    with _run_rust_router(folder, "sglang-router", command, upstream) as proxy:
        yield proxy


@contextmanager
def _run_rust_router(folder: Path, name: str, command: Sequence[str], upstream: int) -> Iterator[RunningProxy]:
    port, prometheus = free_port(), free_port()
    arguments = ["--host", "127.0.0.1", "--port", str(port), "--worker-urls", f"http://127.0.0.1:{upstream}"]
    arguments += ["--policy", "round_robin", "--disable-retries", "--disable-circuit-breaker"]
    arguments += ["--prometheus-port", str(prometheus), "--log-level", "error"]
    with _run_program(folder, name, [*command, *arguments], port) as proxy:
        yield proxy


@contextmanager
def by_plain_proxy(folder: Path, upstream: int) -> Iterator[RunningProxy]:
    programs = ensure_environment(
        "plain", "fastapi==0.162.4", "httpx==0.28.1", "uvicorn==0.54.0", "uvloop", "httptools", "sniffio"
    )
    port = free_port()
    command = [str(programs / "python"), "-m", "uvicorn", "plain_proxy:app", "--app-dir", str(Path(__file__).parent)]
    command += ["--host", "127.0.0.1", "--port", str(port), "--no-access-log", "--log-level", "error"]
    with _run_program(folder, "FastAPI and httpx", command, port, UPSTREAM=f"http://127.0.0.1:{upstream}") as proxy:
        yield proxy


@contextmanager
def by_litellm(folder: Path, upstream: int) -> Iterator[RunningProxy]:
    programs = ensure_environment("litellm", "litellm[proxy]==1.106.2")
    port, config = free_port(), folder / "litellm.yaml"
    served = {"model": "openai/m", "api_base": f"http://127.0.0.1:{upstream}/v1", "api_key": "none"}
    settings = {"dangerously_permit_weak_or_unset_master_key": True}
    config.write_text(
        yaml.safe_dump({"model_list": [{"model_name": "m", "litellm_params": served}], "general_settings": settings})
    )
    command = [str(programs / "litellm"), "--config", str(config), "--host", "127.0.0.1", "--port", str(port)]
    with _run_program(folder, "LiteLLM", command, port) as proxy:
        yield proxy


@contextmanager
def _run_program(
    folder: Path, name: str, command: Sequence[str], port: int, **variables: str
) -> Iterator[RunningProxy]:
    with (folder / f"{name.replace(' ', '-')}.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, env=os.environ | variables, cwd=folder)
    try:
        _pin(process.pid)
        _wait_for_answer(port, process)
        for child in psutil.Process(process.pid).children(recursive=True):
            _pin(child.pid)
        yield RunningProxy(name, port, (process.pid,))
    finally:
        with contextlib.suppress(psutil.NoSuchProcess):
            for child in psutil.Process(process.pid).children(recursive=True):
                child.kill()
        process.kill()
        process.wait()


def _pin(pid: int) -> None:
    psutil.Process(pid).cpu_affinity([PROXY_CORE])


def _wait_for_answer(port: int, process: subprocess.Popen[bytes]) -> None:
    body = json.dumps({"model": "m", "messages": [{"role": "user", "content": "hello"}]}).encode()
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/v1/chat/completions", body, {"Content-Type": "application/json"}
    )
    deadline = time.monotonic() + READY_S
    while True:
        assert process.poll() is None, "it has ended"
        try:
            with urllib.request.urlopen(request, timeout=5) as answer:
                answer.read()
                return
        except OSError:
            assert time.monotonic() < deadline, "it does not respond"
            time.sleep(0.2)


# --- Corral ---

MODEL = "m"


@contextmanager
def by_corral(folder: Path, *, processes: int = 1, replicas: int = 1) -> Iterator[RunningProxy]:
    """A whole cluster; the engine is installed, loaded and supervised by it like any other."""
    gallery = folder / "gallery"
    gallery.mkdir(exist_ok=True)
    (gallery / "index.yaml").write_text(yaml.safe_dump([_backend(folder)]))
    with _serve_folder(gallery) as url:
        variables = {"CORRAL_BACKEND_GALLERIES": json.dumps([{"name": "bench", "url": f"{url}/index.yaml"}])}
        if processes > 1:
            variables["CORRAL_PROCESSES"] = str(processes)
        # The peers ask an engine for as much at once as their clients do.
        variables["CORRAL_REPLICA_CONCURRENCY"] = "10000"
        with run_cluster(python=ensure_corral_python(), CORRAL_ALLOW_PRIVATE_SOURCES="true", **variables) as running:
            asyncio.run(_load(running, replicas))
            pids = _frontends(running.frontend_pid)
            for pid in pids:
                psutil.Process(pid).cpu_affinity([PROXY_CORE] if processes == 1 else [PROXY_CORE, OTHER_CORE])
            for each in psutil.process_iter(["name"]):
                if each.info["name"] == "wire":
                    each.cpu_affinity([OTHER_CORE])
            name = "Corral" if processes == 1 else f"Corral, {processes} processes"
            yield RunningProxy(name, running.port, pids, running.admin_key)


def _frontends(pid: int) -> tuple[int, ...]:
    """The process that was found, and its siblings that share its port."""
    parent = psutil.Process(pid).parent()
    same = psutil.Process(pid).cmdline()[:6]
    siblings = parent.children() if parent is not None else []
    return tuple(one.pid for one in siblings if one.cmdline()[:6] == same) or (pid,)


def _backend(folder: Path) -> dict[str, object]:
    program = folder / "engine"
    program.mkdir(exist_ok=True)
    (program / "wire").unlink(missing_ok=True)
    os.link(build_wire(), program / "wire")
    return {
        "name": "wire",
        "description": "Answers at once.",
        "license": "MIT",
        "tags": ["chat"],
        "manifest": {
            "command": ["{dir}/wire", "serve", "{host}", "{port}"],
            "ready": {"path": "/health", "timeout_s": 20},
            "serves": ["chat", "completions", "embeddings"],
        },
        "versions": [{"version": "1", "source": {"kind": "directory", "uri": str(program)}}],
    }


async def _load(running: BenchCluster, replicas: int) -> None:
    headers = {"Authorization": f"Bearer {running.admin_key}"}
    async with aiohttp.ClientSession(running.url, headers=headers) as http:
        for method, path, body in (
            ("POST", "/api/backends/galleries/refresh", None),
            ("POST", "/api/backends/install/wire", None),
        ):
            async with http.request(method, path, json=body) as answer:
                answer_body = await answer.json()
                assert answer.status < 300 or answer.status == 404, answer_body
            if "jobID" in answer_body:
                await _wait_for_end(http, answer_body["jobID"])
        config = {"backend": "wire", "ram": "1MiB"}
        async with http.put(f"/api/models/config/{MODEL}", json=config) as answer:
            assert answer.status < 300, await answer.text()
        body = {"model": MODEL, "messages": []}
        deadline = time.monotonic() + READY_S
        while True:
            async with http.post("/v1/chat/completions", json=body) as answer:
                if answer.status == 200:
                    break
                assert time.monotonic() < deadline, await answer.text()
            await asyncio.sleep(0.5)
    assert replicas == 1, "one engine is enough for one core"


async def _wait_for_end(http: aiohttp.ClientSession, operation: str) -> None:
    deadline = time.monotonic() + READY_S
    while time.monotonic() < deadline:
        async with http.get(f"/api/operations/{operation}") as answer:
            found = await answer.json()
        if found["state"] == "completed":
            return
        assert found["state"] not in ("failed", "cancelled"), found
        await asyncio.sleep(0.1)
    raise AssertionError("it takes too long")


class _QuietFileHandler(http.server.SimpleHTTPRequestHandler):
    """Serves files without logging requests."""

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
        del format, args


@contextmanager
def _serve_folder(folder: Path) -> Iterator[str]:
    handler = partial(_QuietFileHandler, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


class PeerFactory(Protocol):
    """Starts a proxy in front of an engine, as a context manager."""

    __name__: str

    def __call__(self, folder: Path, upstream: int, /) -> AbstractContextManager[RunningProxy]: ...


PEERS: tuple[PeerFactory, ...] = (by_nginx, by_vllm_router, by_sglang_router, by_plain_proxy, by_litellm)
