"""Ordinary users and root, with and without user namespaces."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

import corral
from corral.embedded.home import ChildStartFailed, open_home
from corral.embedded.nats import find_nats
from corral.embedded.postgres import choose_postgres_user, find_bin_folder
from tests.embedded.cluster import Cluster

UNPRIVILEGED_ID = 65534
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")


@pytest.fixture
def nobodys(open_folder: Path) -> Iterator[Cluster]:
    """A cluster that an ordinary user runs; skipped where no Python is within that user's reach."""
    # Through `env`, because setpriv itself still may open what its target may not.
    switch = [
        "setpriv",
        f"--reuid={UNPRIVILEGED_ID}",
        f"--regid={UNPRIVILEGED_ID}",
        "--clear-groups",
        "--no-new-privs",
        "env",
    ]
    packages = Path(psutil.__file__).parent.parent
    paths = [str(Path(corral.__file__).parent.parent), str(packages)]
    env = {"PYTHONPATH": ":".join(paths), "PYTHONDONTWRITEBYTECODE": "1"}
    os.chown(open_folder, UNPRIVILEGED_ID, UNPRIVILEGED_ID)
    for python in (sys.executable, "/usr/bin/python3"):
        try:
            probe = [*switch, python, "-c", "import psutil, typer, nacl, corral"]
            subprocess.run(probe, env=env, check=True, capture_output=True, timeout=30)
        except (OSError, subprocess.SubprocessError):
            continue
        made = Cluster(open_folder / "home", python=python, prefix=switch, env=env)
        break
    else:
        pytest.skip("no Python with our packages is within reach of another user")
    try:
        yield made
    finally:
        made.close()


@as_root
@pytest.mark.behaviour("UP-11")
def test_ordinary_user_can_run_it(nobodys: Cluster) -> None:
    # Another Python does not find the program that lies beside this one.
    nobodys.up("--nats-bin", str(find_nats(None)))
    assert nobodys.sql("select 1") == "1"
    assert {psutil.Process(pid).uids().real for pid in nobodys.pids()} == {UNPRIVILEGED_ID}
    assert nobodys.stop() == 0
    assert nobodys.living() == []


@as_root
@pytest.mark.behaviour("UP-11")
def test_root_keeps_its_files_with_user_namespaces(cluster: Cluster, tmp_path: Path) -> None:
    if not choose_postgres_user(find_bin_folder(None), open_home(tmp_path / "probe")).prefix:
        pytest.skip("this machine has no user namespaces")
    modes = [stat.S_IMODE(folder.stat().st_mode) for folder in tmp_path.parents]
    cluster.up()
    assert (cluster.home.postgres_data / "PG_VERSION").stat().st_uid == 0
    cluster.stop()
    assert [stat.S_IMODE(folder.stat().st_mode) for folder in tmp_path.parents] == modes


@as_root
@pytest.mark.behaviour("UP-11")
def test_root_without_user_namespaces_runs_postgres_as_nobody(open_folder: Path) -> None:
    made = Cluster(open_folder / "home", env={"PATH": "/nonexistent"})
    try:
        made.up()
        assert psutil.Process(made.pid("postgres")).uids().real == UNPRIVILEGED_ID
        assert made.home.postgres_data.stat().st_uid == UNPRIVILEGED_ID
        made.sql("create table kept (value int)")
        # What was made that way is still usable when namespaces are back.
        made.stop()
        made.env = {}
        made.up()
        assert made.sql("select count(*) from kept") == "0"
        assert made.stop() == 0
    finally:
        made.close()


@as_root
@pytest.mark.behaviour("UP-11")
def test_binaries_out_of_nobodys_reach_are_copied_beside_the_data(open_folder: Path, tmp_path: Path) -> None:
    package = tmp_path / "closed" / "pgserver"
    (tmp_path / "closed").mkdir(mode=0o700)
    original = find_bin_folder(None)
    shutil.copytree(original.parent, package / original.parent.name)
    chosen = choose_postgres_user(
        package / original.parent.name / "bin", open_home(open_folder / "home"), unshare="/nonexistent"
    )
    assert chosen.uid == UNPRIVILEGED_ID
    assert chosen.bin_folder.is_relative_to(open_folder / "home" / "postgres")
    assert stat.S_IMODE((open_folder / "home" / "secrets").stat().st_mode) == 0o700


@as_root
@pytest.mark.behaviour("UP-11")
def test_choosing_a_user_fails_with_a_hint_when_root_has_no_unprivileged_way(tmp_path: Path) -> None:
    (tmp_path / "closed").mkdir(mode=0o700)
    home = open_home(tmp_path / "closed" / "home")
    with pytest.raises(ChildStartFailed, match="may not pass through") as caught:
        choose_postgres_user(find_bin_folder(None), home, unshare="/nonexistent")
    assert "CORRAL_HOME" in (caught.value.hint or "")
    assert stat.S_IMODE((tmp_path / "closed").stat().st_mode) == 0o700


@pytest.mark.skipif(os.geteuid() == 0, reason="about ordinary users")
@pytest.mark.behaviour("UP-11")
def test_ordinary_user_needs_no_help(tmp_path: Path) -> None:
    chosen = choose_postgres_user(find_bin_folder(None), open_home(tmp_path / "home"))
    assert (chosen.prefix, chosen.uid) == ((), None)
