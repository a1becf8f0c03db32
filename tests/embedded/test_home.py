"""The home's folders, its lock, and files that are whole or absent."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from corral.embedded.child_process import open_log, shorten_log, tail_log
from corral.embedded.home import HomeBusy, HomeUnusable, find_lock_holder, hold_lock, locate_home, open_home
from corral.embedded.private_files import ensure_secret, read_secret, write_private
from corral.embedded.supervisor_state import SupervisorPhase, SupervisorSnapshot, SupervisorStateFile, read_snapshot


def test_file_where_the_home_should_be_is_refused(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("")
    with pytest.raises(HomeUnusable, match="is a file") as caught:
        open_home(tmp_path / "home")
    assert "--home" in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("path", "sentence"),
    [
        ("/proc/corral-home", "cannot be used"),
        ("/" + "/".join(["a" * 100] * 9), "longer than 800 bytes"),
        ("/" + "a" * 300, "cannot be used: file name too long"),
        ("/tmp/line\nbreak", "cannot be printed"),
    ],
)
def test_path_that_cannot_be_used_is_refused_with_a_hint(path: str, sentence: str) -> None:
    with pytest.raises(HomeUnusable, match=sentence) as caught:
        open_home(Path(path))
    assert caught.value.hint


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_home_of_another_user_is_refused_and_not_changed(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir(mode=0o755)
    os.chown(home, 65534, 65534)
    with pytest.raises(HomeUnusable, match="belongs to another user"):
        open_home(home)
    assert list(home.iterdir()) == []
    assert stat.S_IMODE(home.stat().st_mode) == 0o755


def test_home_that_is_write_protected_is_refused_and_not_changed(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    home.chmod(0o555)
    with pytest.raises(HomeUnusable, match=r"is write-protected \(mode 0555\)") as caught:
        open_home(home)
    assert f"chmod u+w {home}" in str(caught.value.hint)
    assert stat.S_IMODE(home.stat().st_mode) == 0o555
    home.chmod(0o755)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_home_without_the_right_to_write_is_refused(tmp_path: Path) -> None:
    (tmp_path / "closed").mkdir(mode=0o500)
    with pytest.raises(HomeUnusable, match="permission denied"):
        open_home(tmp_path / "closed" / "home")


@pytest.mark.behaviour("UP-8")
def test_home_that_was_open_to_others_is_closed(tmp_path: Path) -> None:
    home = open_home(tmp_path / "home")
    home.root.chmod(0o755)
    write_private(home.admin_key, "ck_x\n")
    home.admin_key.chmod(0o644)
    open_home(tmp_path / "home")
    assert read_secret(home.admin_key) == "ck_x"
    assert stat.S_IMODE(home.root.stat().st_mode) == 0o700
    assert stat.S_IMODE(home.admin_key.stat().st_mode) == 0o600


@pytest.mark.behaviour("UP-3")
def test_lock_names_its_holder_and_is_free_afterwards(tmp_path: Path) -> None:
    home = open_home(tmp_path / "home")
    assert find_lock_holder(home) is None
    with hold_lock(home):
        holder = find_lock_holder(home)
        assert holder is not None
        assert holder.pid == os.getpid()
        with pytest.raises(HomeBusy, match=f"process {os.getpid()}"), hold_lock(home):
            pass
    assert find_lock_holder(home) is None


def test_looking_at_a_home_does_not_make_it(tmp_path: Path) -> None:
    home = locate_home(tmp_path / "home")
    assert find_lock_holder(home) is None
    assert not home.root.exists()


@pytest.mark.behaviour("UP-2")
def test_secret_is_made_once(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    made = ensure_secret(path, "ck_")
    assert made.startswith("ck_")
    assert len(made) > 40
    assert ensure_secret(path, "ck_") == made


def test_unfinished_files_of_a_killed_writer_are_removed_by_the_next_holder(tmp_path: Path) -> None:
    home = open_home(tmp_path / "home")
    half = home.secrets / "nats-account.seed.new-1234abcd"
    half.write_text("SA")
    write_private(home.admin_key, "ck_kept\n")
    with hold_lock(home):
        assert not half.exists()
    assert read_secret(home.admin_key) == "ck_kept"


@pytest.mark.parametrize("text", ["", "{", "[]", '{"phase": "ready"}', '{"phase":"odd","children":{}}'])
def test_state_file_that_cannot_be_read_is_the_same_as_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "state.json").write_text(text)
    assert read_snapshot(tmp_path / "state.json") == SupervisorSnapshot()


def test_state_remembers_ports_and_forgets_children(tmp_path: Path) -> None:
    first = SupervisorStateFile(tmp_path / "state.json")
    first.begin(url="http://127.0.0.1:1", external={})
    first.set_port("nats", 4222)
    first.enter_phase(SupervisorPhase.READY)
    assert read_snapshot(tmp_path / "state.json") == first.snapshot
    again = SupervisorStateFile(tmp_path / "state.json")
    assert again.find_port("nats") == 4222
    assert again.snapshot.children == {}


def test_log_that_has_grown_is_set_aside_while_its_writer_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "one.log"
    with open_log(path, 1000) as log:
        for number in range(300):
            log.write(f"line {number}\n".encode())
        assert shorten_log(path, 1000)
        assert path.stat().st_size == 0
        log.write(b"after\n")
    assert path.read_text() == "after\n"
    aside = path.with_name("one.log.1")
    assert aside.stat().st_size == 1000
    assert aside.read_text().endswith("line 299\n")
    assert stat.S_IMODE(aside.stat().st_mode) == 0o600
    assert not shorten_log(path, 1000)


def test_log_that_is_too_large_is_set_aside_at_the_start(tmp_path: Path) -> None:
    path = tmp_path / "one.log"
    path.write_text("x" * 2000)
    open_log(path, 1000).close()
    assert path.stat().st_size == 0


def test_tail_of_a_log_is_its_last_lines(tmp_path: Path) -> None:
    path = tmp_path / "one.log"
    path.write_text("".join(f"line {number}\n\n" for number in range(5000)))
    assert tail_log(path, 2) == ["line 4998", "line 4999"]
    assert tail_log(tmp_path / "none") == []
