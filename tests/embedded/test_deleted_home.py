"""A home that is deleted while `corral up` runs on it: the old supervisor ends, and a new one is not disturbed."""

from __future__ import annotations

import fcntl
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from corral.embedded.home import HomeLost, hold_lock, open_home
from corral.embedded.supervisor_state import SupervisorPhase, SupervisorStateFile
from tests.embedded.cluster import Cluster, eventually, lives


def delete(home: Path) -> None:
    """Delete a folder in which processes still write."""

    def is_gone() -> bool:
        shutil.rmtree(home, ignore_errors=True)
        return not home.exists()

    eventually(is_gone)


@pytest.fixture
def heir(cluster: Cluster) -> Iterator[Cluster]:
    """A second `corral up` on the path of the first."""
    made = Cluster(cluster.root, starts=10)
    try:
        yield made
    finally:
        made.close()


@pytest.mark.behaviour("UP-19")
def test_supervisor_ends_itself_and_its_children_when_its_home_is_deleted(cluster: Cluster) -> None:
    cluster.up()
    pids = cluster.pids()

    delete(cluster.root)

    assert cluster.wait() == 1
    assert not any(lives(pid) for pid in pids)
    assert cluster.living() == []
    assert f"{cluster.root} was deleted or replaced" in cluster.talk
    assert not cluster.root.exists()


@pytest.mark.behaviour("UP-19")
def test_supervisor_of_a_deleted_home_starts_nothing_in_the_new_one(cluster: Cluster, heir: Cluster) -> None:
    cluster.up()
    assert cluster.process is not None
    old = cluster.pids()
    # It notices nothing until the new one is ready: its children were ended behind its back by then.
    cluster.process.send_signal(signal.SIGSTOP)
    try:
        delete(cluster.root)
        heir.up()
        new, state = heir.pids(), heir.home.state.read_text()
    finally:
        cluster.process.send_signal(signal.SIGCONT)

    assert cluster.wait() == 1

    assert not any(lives(pid) for pid in old)
    assert set(heir.living()) >= new
    assert heir.home.state.read_text() == state
    assert heir.sql("select 1") == "1"
    assert heir.status()[1]["state"] == "ready"
    assert heir.stop() == 0
    assert heir.living() == []


@pytest.mark.behaviour("UP-19")
def test_down_ends_processes_whose_home_was_deleted_and_status_names_them(cluster: Cluster) -> None:
    cluster.up()
    pids = cluster.pids()
    cluster.kill_supervisor()
    delete(cluster.root)

    code, status = cluster.status()

    assert (code, status["state"]) == (1, "degraded")
    assert f"{cluster.root} was deleted" in status["reason"]
    assert set(status["leftovers"])

    down = cluster.run("down")

    assert (down.returncode, "Ended" in down.stderr + down.stdout) == (0, True)
    assert not any(lives(pid) for pid in pids)
    assert cluster.living() == []
    assert not cluster.root.exists()


def test_lock_is_lost_when_its_file_is_deleted_or_replaced(tmp_path: Path) -> None:
    home = open_home(tmp_path / "home")
    with hold_lock(home) as lock:
        assert lock.is_held()
        home.lock.unlink()
        assert not lock.is_held()
        with hold_lock(home) as other:
            assert (lock.is_held(), other.is_held()) == (False, True)


def test_state_file_is_not_written_into_a_home_that_is_lost(tmp_path: Path) -> None:
    home = open_home(tmp_path / "home")
    with hold_lock(home) as lock:
        state = SupervisorStateFile(home.state, can_write=lock.is_held)
        state.enter_phase(SupervisorPhase.READY)
        shutil.rmtree(home.root)
        state.enter_phase(SupervisorPhase.STOPPED)
        assert not home.root.exists()
        open_home(home.root)
        state.enter_phase(SupervisorPhase.STOPPED)
        assert list(home.run.iterdir()) == []


def test_home_that_is_replaced_while_it_is_locked_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = open_home(tmp_path / "home")
    lock_file = fcntl.flock

    def lock_late(descriptor: int, how: int) -> None:
        home.lock.unlink()
        lock_file(descriptor, how)

    monkeypatch.setattr(fcntl, "flock", lock_late)
    with pytest.raises(HomeLost, match="was deleted or replaced"), hold_lock(home):
        raise AssertionError("nobody holds a lock that others cannot see")
