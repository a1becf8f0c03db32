"""`corral up` in the foreground, with real PostgreSQL and NATS."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import shutil
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from corral.embedded.home_status import fetch_response
from corral.embedded.nats import find_nats, read_server_name
from corral.embedded.owned_processes import MARKER_HOME, MARKER_NAME
from corral.embedded.postgres import find_bin_folder
from corral.embedded.supervisor_state import SupervisorPhase
from corral.policy.sealing_keys import parse_sealing_keys
from tests.embedded.cluster import Cluster, eventually, lives, running


@contextlib.contextmanager
def a_listener(port: int = 0) -> Iterator[int]:
    with socket.create_server(("127.0.0.1", port)) as listener:
        yield int(listener.getsockname()[1])


@pytest.mark.behaviour("UP-1")
def test_up_starts_everything_and_a_signal_ends_everything(cluster: Cluster) -> None:
    cluster.up()
    pids = cluster.pids()
    assert set(cluster.snapshot.children) == {"postgres", "nats", "frontend", "worker"}
    assert cluster.phase() == SupervisorPhase.READY
    assert cluster.sql("select 1") == "1"
    assert asyncio.run(read_server_name("127.0.0.1", cluster.snapshot.ports["nats"]))

    assert cluster.stop() == 0

    assert not any(lives(pid) for pid in pids)
    assert cluster.living() == []
    assert cluster.phase() == SupervisorPhase.STOPPED
    stopped = [line.split()[0] for line in cluster.talk.splitlines() if "stopped (" in line]
    assert stopped == ["worker", "frontend", "NATS", "PostgreSQL"]


@pytest.mark.behaviour("UP-21")
def test_up_starts_an_agent_worker_beside_the_worker_and_ends_it_first(cluster: Cluster) -> None:
    cluster.up(CORRAL_AGENT_WORKER="", CORRAL_MAX_RUNS="7", CORRAL_NAME="mine")
    assert set(cluster.snapshot.children) == {"postgres", "nats", "frontend", "worker", "agent"}
    assert cluster.snapshot.ports["agent"] != cluster.snapshot.ports["worker"]
    code, status = cluster.status()
    assert (code, status["agent"]["state"], status["agent"]["pid"]) == (0, "ready", cluster.pid("agent"))
    variables = {name: psutil.Process(cluster.pid(name)).environ() for name in ("worker", "agent")}
    assert [variables[name].get("CORRAL_MAX_RUNS") for name in ("worker", "agent")] == [None, "7"]
    assert variables["worker"]["CORRAL_NAME"] == "mine"
    assert variables["agent"]["CORRAL_NAME"] == f"agent-{socket.gethostname()}"
    assert (cluster.home.agent / "environment").exists()
    cluster.kill("agent")

    assert cluster.stop() == 0

    assert cluster.living() == []
    stopped = [line.split()[0] for line in cluster.talk.splitlines() if "stopped (" in line]
    assert stopped == ["agent", "worker", "frontend", "NATS", "PostgreSQL"]
    assert cluster.status()[1]["agent"] == {"state": "stopped"}


@pytest.mark.behaviour("UP-21")
def test_up_without_an_agent_worker_gives_the_number_of_runs_to_its_worker(cluster: Cluster) -> None:
    cluster.up("--no-agent-worker", CORRAL_AGENT_WORKER="true", CORRAL_MAX_RUNS="7")
    assert "agent" not in cluster.snapshot.children
    assert "agent" not in cluster.status()[1]
    assert psutil.Process(cluster.pid("worker")).environ()["CORRAL_MAX_RUNS"] == "7"


@pytest.mark.behaviour("UP-2")
@pytest.mark.behaviour("SEC-8")
def test_next_start_finds_the_same_data_keys_and_ports(cluster: Cluster) -> None:
    cluster.up()
    cluster.sql("create table kept (value text); insert into kept values ('here')")
    secrets, ports = cluster.secrets(), cluster.snapshot.ports
    cluster.stop()

    cluster.up()

    assert cluster.sql("select value from kept") == "here"
    assert cluster.secrets() == secrets
    assert cluster.snapshot.ports == ports


@pytest.mark.behaviour("UP-2")
def test_lost_database_password_is_replaced(cluster: Cluster) -> None:
    cluster.up()
    cluster.sql("create table kept (value text)")
    cluster.stop()
    before = cluster.home.postgres_password.read_text()
    cluster.home.postgres_password.unlink()

    cluster.up()

    assert cluster.home.postgres_password.read_text() != before
    assert cluster.sql("select count(*) from kept") == "0"


@pytest.mark.behaviour("UP-3")
def test_second_up_on_the_same_home_is_refused_and_names_the_first(cluster: Cluster) -> None:
    cluster.up()
    assert cluster.process is not None

    second = cluster.run("up", "--port", "0")

    assert second.returncode == 1
    assert f"process {cluster.process.pid}" in second.stderr
    assert "hint:" in second.stderr
    assert cluster.sql("select 1") == "1"


@pytest.mark.behaviour("UP-4")
def test_killed_child_is_restarted_and_no_commit_is_lost(cluster: Cluster) -> None:
    cluster.up()
    cluster.sql("create table kept (value int)")
    for number, name in enumerate(("postgres", "nats", "frontend", "worker")):
        cluster.sql(f"insert into kept values ({number})")
        cluster.kill(name)
    assert cluster.sql("select count(*) from kept") == "4"
    assert [one.restarts for one in cluster.snapshot.children.values()] == [1, 1, 1, 1]
    assert "Postgres was ended by SIGKILL, perhaps because memory ran out. Restarting in 0.2 s" in cluster.talk
    assert "PostgreSQL is back" in cluster.talk
    assert cluster.stop() == 0
    assert cluster.living() == []


@pytest.mark.behaviour("UP-5")
def test_up_ends_the_processes_of_a_killed_supervisor_and_no_others(cluster: Cluster, tmp_path: Path) -> None:
    cluster.up()
    cluster.sql("create table kept (value int); insert into kept values (1)")
    left = cluster.pids()
    postgres_like = tmp_path / "postgres"
    shutil.copy(shutil.which("sleep", path=os.defpath) or "", postgres_like)
    marker = {MARKER_HOME: str(cluster.root), MARKER_NAME: "worker"}
    elsewhere = {MARKER_HOME: str(tmp_path / "another home"), MARKER_NAME: "worker"}
    with (
        running(str(postgres_like), "600") as innocent,
        running("sleep", "600", env={"PATH": os.defpath, **elsewhere}) as neighbour,
        running("sleep", "600", env={"PATH": os.defpath, **marker}) as unrecorded,
        running("sleep", "600", cwd=cluster.home.postgres_data) as visitor,
    ):
        cluster.kill_supervisor()
        assert left <= set(cluster.living())

        cluster.up()

        assert "ended" in cluster.talk
        assert unrecorded.wait(timeout=10) == -signal.SIGTERM
        assert [one.poll() for one in (innocent, neighbour, visitor)] == [None, None, None]
        assert not left & cluster.pids()
        assert not any(lives(pid) for pid in left)
        assert cluster.sql("select value from kept") == "1"


@pytest.mark.behaviour("UP-5")
def test_down_ends_the_processes_of_a_killed_supervisor(cluster: Cluster) -> None:
    cluster.up()
    cluster.kill_supervisor()
    code, status = cluster.status()
    assert (code, status["state"]) == (1, "degraded")
    assert set(status["leftovers"]) >= cluster.pids()

    done = cluster.run("down")

    assert done.returncode == 0
    assert cluster.living() == []
    assert cluster.run("down").stderr == "Nothing runs.\n"


@pytest.mark.behaviour("UP-5")
def test_stale_pid_file_that_names_a_foreign_process_does_not_block(cluster: Cluster) -> None:
    cluster.up()
    cluster.stop()
    with running("sleep", "600") as innocent:
        lock = cluster.home.postgres_data / "postmaster.pid"
        lock.write_text(f"{innocent.pid}\n{cluster.home.postgres_data}\n1\n5432\n\n127.0.0.1\n 1 1\nready\n")
        record = {"pid": innocent.pid, "born_s": 1.0, "state": "ready", "restarts": 0}
        state_text = f'{{"phase":"ready","url":"","external":{{}},"ports":{{}},"children":{{"postgres":{record}}}}}'
        cluster.home.state.write_text(state_text.replace("'", '"'))

        cluster.up()

        assert innocent.poll() is None
        assert cluster.sql("select 1") == "1"


def test_database_that_was_half_made_is_made_again(cluster: Cluster, tmp_path: Path) -> None:
    broken = tmp_path / "bin"
    broken.mkdir()
    (broken / "postgres").symlink_to(find_bin_folder(None) / "postgres")
    (broken / "initdb").write_text(
        '#!/bin/sh\nwhile [ "$1" != -D ]; do shift; done\necho 18 > "$2/PG_VERSION"\nexit 7\n'
    )
    (broken / "initdb").chmod(0o755)

    cluster.begin("--postgres-bin", str(broken))

    assert cluster.wait() == 1
    assert "initdb failed with exit code 7" in cluster.talk
    assert cluster.living() == []
    assert (cluster.home.postgres / "data.making" / "PG_VERSION").exists()
    assert not cluster.home.postgres_data.exists()
    cluster.up()
    assert cluster.sql("select 1") == "1"
    assert sorted(path.name for path in cluster.home.postgres.iterdir()) == ["data"]


@pytest.mark.behaviour("UP-7")
def test_held_frontend_port_is_refused_with_a_hint(cluster: Cluster) -> None:
    with a_listener() as port:
        done = cluster.run("up", "--port", str(port))
    assert done.returncode == 1
    assert f"Port {port} on 127.0.0.1 is held by" in done.stderr
    assert f"(process {os.getpid()})" in done.stderr
    assert "--port" in done.stderr
    assert cluster.living() == []


@pytest.mark.behaviour("UP-7")
def test_ports_that_others_have_taken_meanwhile_are_replaced(cluster: Cluster) -> None:
    cluster.up()
    ports = cluster.snapshot.ports
    cluster.stop()
    with a_listener(ports["postgres"]), a_listener(ports["nats"]):
        cluster.up()
        assert cluster.snapshot.ports["postgres"] != ports["postgres"]
        assert cluster.snapshot.ports["nats"] != ports["nats"]
        assert cluster.sql("select 1") == "1"
        cluster.stop()


@pytest.mark.behaviour("UP-7")
def test_port_lost_while_postgres_was_down_reaches_the_frontend(cluster: Cluster) -> None:
    cluster.up()
    before = cluster.snapshot.ports["postgres"]
    frontend = cluster.pid("frontend")
    os.kill(cluster.pid("postgres"), signal.SIGSTOP)
    # The port can be taken only between the death and the restart: the pause of 0.2 s is long enough.
    with contextlib.ExitStack() as stack:
        os.kill(cluster.pid("postgres"), signal.SIGKILL)

        def take() -> bool:
            with contextlib.suppress(OSError):
                stack.enter_context(a_listener(before))
                return True
            return False

        eventually(take)
        eventually(lambda: cluster.snapshot.ports["postgres"] != before)
        eventually(lambda: cluster.snapshot.children["frontend"].pid not in {frontend, None})
        key = cluster.home.admin_key.read_text().strip()
        answer = eventually(lambda: fetch_response(cluster.snapshot.url, "/env", key=key))
        assert answer.parse_json()["CORRAL_DATABASE_URL_FILE"] == str(cluster.home.database_url)
        assert f":{cluster.snapshot.ports['postgres']}/" in cluster.home.database_url.read_text()
        eventually(lambda: cluster.status()[1]["state"] == "ready")
        assert cluster.snapshot.children["frontend"].restarts == 0


@pytest.mark.behaviour("UP-8")
@pytest.mark.behaviour("UP-17")
@pytest.mark.behaviour("SEC-8")
def test_secrets_are_private_and_neither_in_arguments_nor_in_logs(cluster: Cluster) -> None:
    cluster.up()
    home = cluster.home
    for folder in (home.root, home.secrets, home.postgres, home.postgres_data, home.nats, home.run, home.logs):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700, folder
    private = (home.admin_key, home.secrets_key, home.state, home.lock)
    for file in (*private, *home.secrets.iterdir(), *home.logs.iterdir()):
        assert stat.S_IMODE(file.stat().st_mode) == 0o600, file
    secrets = cluster.secrets()
    assert secrets["admin.key"].startswith("ck_")
    assert secrets["local-join-token"].startswith("cj_")
    assert len(parse_sealing_keys(secrets["secrets.key"])) == 1
    assert len(secrets) == 9
    arguments = " ".join(" ".join(psutil.Process(pid).cmdline()) for pid in cluster.living())
    environments = " ".join(" ".join(psutil.Process(pid).environ().values()) for pid in cluster.living())
    with contextlib.suppress(AssertionError):
        cluster.sql("select no_such_column")
    cluster.stop()
    logs = "".join(path.read_text() for path in home.logs.iterdir()) + cluster.talk + home.state.read_text()
    for name, secret in secrets.items():
        assert secret not in arguments, name
        assert secret not in environments, name
        assert secret not in logs, name
    variables = (home.worker / "environment").read_text().split()
    assert {"CORRAL_JOIN", "CORRAL_TOKEN_FILE", "CORRAL_WORKER_HOME"} <= set(variables)
    assert not [name for name in variables if re.search("DATABASE|ADMIN_KEY|SEED|SECRETS", name)]


@pytest.mark.behaviour("UP-9")
def test_parts_given_by_address_are_used_and_left_alone(cluster: Cluster, tmp_path: Path) -> None:
    cluster.up()
    password = cluster.home.postgres_password.read_text().strip()
    database = f"postgresql://corral:{password}@127.0.0.1:{cluster.snapshot.ports['postgres']}/corral"
    bus = f"nats://127.0.0.1:{cluster.snapshot.ports['nats']}"
    second = Cluster(tmp_path / "second")
    try:
        # The password has no place on a command line.
        (tmp_path / "database-url").write_text(database)
        second.up(CORRAL_DATABASE_URL_FILE=str(tmp_path / "database-url"), CORRAL_NATS_URL=bus)
        assert set(second.snapshot.children) == {"frontend", "worker"}
        key = second.home.admin_key.read_text().strip()
        answer = fetch_response(second.snapshot.url, "/env", key=key)
        assert answer is not None
        assert second.home.database_url.read_text().strip() == database
        assert "CORRAL_DATABASE_URL" not in answer.parse_json()
        assert answer.parse_json()["CORRAL_NATS_URL"] == bus
        assert password not in second.home.state.read_text()
        code, status = second.status()
        assert (code, status["postgres"]["external"], status["nats"]["state"]) == (0, True, "ready")
        assert not list(second.home.postgres.iterdir())
        second.stop()
    finally:
        second.close()
    assert cluster.sql("select 1") == "1"
    assert cluster.status()[0] == 0


def test_named_binaries_are_the_ones_that_run(cluster: Cluster, tmp_path: Path) -> None:
    older = find_bin_folder(None).parent.parent / "pginstall" / "bin"
    bus = tmp_path / "my-nats"
    shutil.copy(find_nats(None), bus)

    cluster.up("--postgres-bin", str(older), "--nats-bin", str(bus))

    assert cluster.sql("show server_version").startswith("16.")
    assert psutil.Process(cluster.pid("nats")).exe() == str(bus)
    cluster.stop()
    cluster.begin()
    assert cluster.wait() == 1
    assert "was made by PostgreSQL 16, and the binaries are PostgreSQL 18" in cluster.talk
    assert "--postgres-bin" in cluster.talk


def test_child_that_never_becomes_ready_is_reported_with_its_last_log_lines(cluster: Cluster, tmp_path: Path) -> None:
    broken = tmp_path / "broken.py"
    broken.write_text("import sys; print('the frontend is unwell'); sys.exit(3)")

    cluster.begin(TEST_SERVE=str(broken))

    assert cluster.wait() == 1
    assert "error: frontend ended with exit code 3." in cluster.talk
    assert "    the frontend is unwell" in cluster.talk
    assert f"hint: Its log is {cluster.home.get_log_path('frontend')}" in cluster.talk
    assert cluster.living() == []
    assert cluster.phase() == SupervisorPhase.FAILED


@pytest.mark.parametrize(("flag", "hint"), [("--postgres-bin", "`bin` folder"), ("--nats-bin", "nats-server")])
def test_missing_binary_is_named(cluster: Cluster, flag: str, hint: str) -> None:
    done = cluster.run("up", flag, "/nonexistent/place")
    assert done.returncode == 1
    assert "/nonexistent/place" in done.stderr
    assert hint in done.stderr


@pytest.mark.behaviour("UP-1")
def test_start_can_be_interrupted(cluster: Cluster, tmp_path: Path) -> None:
    never_ready = tmp_path / "slow.py"
    never_ready.write_text("import signal; signal.pause()")
    cluster.begin(TEST_SERVE=str(never_ready))
    eventually(lambda: "PostgreSQL" in cluster.talk and "NATS" in cluster.talk)
    assert cluster.stop() == 0
    assert cluster.living() == []


@pytest.mark.behaviour("UP-13")
def test_detach_returns_when_ready_and_down_stops_and_waits(cluster: Cluster) -> None:
    done = cluster.run("up", "--detach", "--port", "0")
    try:
        assert done.returncode == 0, done.stderr
        assert "Corral is ready at" in done.stderr
        assert "corral down" in done.stderr
        assert cluster.sql("select 1") == "1"
        pids = cluster.pids()
    finally:
        ended = cluster.run("down")
    assert (ended.returncode, ended.stderr) == (0, "Corral has stopped.\n")
    assert not any(lives(pid) for pid in pids)
    assert cluster.living() == []
    assert "PostgreSQL  stopped" in cluster.home.get_log_path("up").read_text()
    again = cluster.run("down")
    assert (again.returncode, again.stderr) == (0, "Nothing runs.\n")


@pytest.mark.behaviour("UP-13")
def test_tilde_means_the_same_folder_detached_and_in_the_foreground(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = cluster.home.root.parent / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    home = f"~/{cluster.home.root.name}"
    done = cluster.run("up", "--detach", "--port", "0", "--home", home, HOME=str(cluster.home.root.parent))
    try:
        assert done.returncode == 0, done.stderr
        assert str(cluster.home.admin_key) in done.stderr
        assert list(elsewhere.iterdir()) == []
    finally:
        assert cluster.run("down").returncode == 0


@pytest.mark.behaviour("UP-13")
def test_detach_reports_a_start_that_failed(cluster: Cluster, tmp_path: Path) -> None:
    broken = tmp_path / "broken.py"
    broken.write_text("raise SystemExit('the frontend is unwell')")
    done = cluster.run("up", "--detach", "--port", "0", TEST_SERVE=str(broken))
    assert done.returncode == 1
    assert "the frontend is unwell" in done.stderr
    assert cluster.living() == []


@pytest.mark.behaviour("UP-13")
def test_down_stops_a_cluster_in_the_foreground(cluster: Cluster) -> None:
    cluster.up()
    assert cluster.run("down").returncode == 0
    assert cluster.wait() == 0


def test_status_tells_stopped_ready_and_degraded_apart(cluster: Cluster) -> None:
    assert cluster.run("status").returncode == 3
    assert not cluster.root.exists()
    with a_listener() as port:
        cluster.up("--nats-url", f"nats://127.0.0.1:{port}")
        code, status = cluster.status()
        assert (code, status["state"], status["url"]) == (0, "ready", cluster.snapshot.url)
        assert status["postgres"] == {
            "state": "ready",
            "pid": cluster.pid("postgres"),
            "restarts": 0,
            "port": cluster.snapshot.ports["postgres"],
        }
        assert status["frontends"][0]["id"] == "one"
        assert status["nodes"][0]["status"] == "healthy"
        shown = cluster.run("status")
        assert "here (healthy)" in shown.stdout
    code, status = cluster.status()
    assert (code, status["state"], status["nats"]["state"]) == (1, "degraded", "unreachable")
    cluster.stop()
    code, status = cluster.status()
    assert (code, status["state"], status["nodes"]) == (3, "stopped", [])


def test_status_and_down_find_the_home_that_a_settings_file_names(cluster: Cluster, tmp_path: Path) -> None:
    (tmp_path / "corral.toml").write_text(f'[up]\nhome = "{tmp_path}/elsewhere"\nport = 0\n')
    status = json.loads(cluster.run("status", "--json", CORRAL_HOME="", CORRAL_CONFIG=f"{tmp_path}/corral.toml").stdout)
    assert status["home"] == f"{tmp_path}/elsewhere"
    down = cluster.run("down", CORRAL_HOME="", CORRAL_CONFIG=f"{tmp_path}/corral.toml")
    assert down.stderr == f"Nothing runs: there is no cluster in {tmp_path}/elsewhere.\n"


@pytest.mark.behaviour("UP-1")
def test_up_starts_its_children_before_heavy_imports() -> None:
    heavy = "{'fastapi', 'sqlalchemy', 'aiohttp', 'asyncpg', 'pydantic', 'structlog', 'nacl', 'uvicorn'}"
    look = f"import sys, corral.app.up, corral.cli.cluster; print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
