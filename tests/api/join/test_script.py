"""The script of `/join`, run by a real shell against a real frontend, up to where a package index would be needed."""

from __future__ import annotations

import asyncio
import hashlib
import os
import shutil
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from corral.api.join import routes
from corral.api.join.routes import load_worker_package
from tests.support.frontends import RunningFrontend

# A Python whose `venv` makes a folder with a pip that accepts everything: the packages are not what is tested here.
STUB = """#!/bin/sh
if [ "$1" = -m ] && [ "$2" = venv ]; then
  mkdir -p "$3/bin"
  printf '#!/bin/sh\\necho "$@" >>"{log}"\\n' >"$3/bin/python"
  printf '#!/bin/sh\\nprintf "%%s\\\\n" "$@"\\n' >"$3/bin/corral"
  chmod +x "$3/bin/python" "$3/bin/corral"
  exit 0
fi
exec "{python}" "$@"
"""


@dataclass
class Machine:
    """A new machine: a folder as home, and a Python."""

    home: Path
    log: Path

    async def run_script(self, script: str, *options: str, **environment: str) -> tuple[int, str, str]:
        """Return the exit status, the output and the errors of `sh -s -- OPTIONS <SCRIPT`."""
        names = {"HOME": str(self.home), "PATH": f"{self.home}/bin:{os.environ['PATH']}"}
        shell = await asyncio.create_subprocess_exec(
            "/bin/sh", "-s", "--", *options,
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
            env=names | environment,
        )  # fmt: skip
        out, err = await shell.communicate(script.encode())
        return shell.returncode or 0, out.decode(), err.decode()

    @property
    def installed(self) -> list[str]:
        return self.log.read_text(encoding="utf-8").splitlines() if self.log.exists() else []


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    log = tmp_path / "pip.log"
    (tmp_path / "bin").mkdir()
    _write_program(tmp_path / "bin/python3", STUB.format(log=log, python=sys.executable))
    return Machine(tmp_path, log)


def _write_program(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)


async def _script(frontend: RunningFrontend) -> str:
    status, text = await frontend.call("GET", "/join", key=None)
    assert status == 200
    return str(text)


@pytest.mark.behaviour("JOIN-1")
async def test_join_script_installs_the_wheel_and_starts_the_worker_with_the_token(
    frontend: RunningFrontend, machine: Machine
) -> None:
    code, out, err = await machine.run_script(await _script(frontend), "--token", "cj_secret", "--name", "mini")
    assert (code, err.count("error")) == (0, 0), err
    home = machine.home / ".corral-worker"
    assert out.splitlines() == [
        "worker", "--join", frontend.url, "--worker-home", str(home),
        "--name", "mini", "--token-file", str(home / "join-token"),
    ]  # fmt: skip
    assert (home / "join-token").read_text(encoding="utf-8") == "cj_secret\n"
    assert (home / "join-token").stat().st_mode & 0o077 == 0
    locked, wheel = machine.installed
    assert "--require-hashes -r" in locked
    assert "--no-deps --no-index" in wheel
    assert wheel.endswith(load_worker_package().wheel_name)


@pytest.mark.behaviour("JOIN-1")
async def test_join_script_repeated_installs_nothing_and_keeps_the_token(
    frontend: RunningFrontend, machine: Machine
) -> None:
    script = await _script(frontend)
    await machine.run_script(script, "--token", "cj_secret", "--dir", str(machine.home / "one place"))
    code, out, _ = await machine.run_script(script, "--no-start", "--dir", str(machine.home / "one place"))
    assert code == 0
    assert len(machine.installed) == 2
    assert out.startswith(f"{machine.home}/one place/program/current/bin/corral 'worker' '--join'")
    assert f"'--token-file' '{machine.home}/one place/join-token'" in out


@pytest.mark.behaviour("JOIN-2")
@pytest.mark.parametrize("changed", ["wheel", "requirements"])
async def test_join_script_refuses_a_download_whose_hash_differs(
    frontend: RunningFrontend, machine: Machine, monkeypatch: pytest.MonkeyPatch, changed: str
) -> None:
    script = await _script(frontend)
    package = load_worker_package()
    other = b"something else"
    tampered = replace(package, wheel=other) if changed == "wheel" else replace(package, requirements=other)
    monkeypatch.setattr(routes, "load_worker_package", lambda: tampered)
    code, out, err = await machine.run_script(script, "--token", "cj_secret")
    assert code == 1
    assert "is not the file that this script was made for" in err
    assert hashlib.sha256(b"something else").hexdigest() in err
    assert "Nothing was installed." in err
    assert (out, machine.installed) == ("", [])


async def test_join_script_names_the_address_when_the_frontend_cannot_be_reached(
    frontend: RunningFrontend, machine: Machine
) -> None:
    code, _, err = await machine.run_script(await _script(frontend), "--url", "http://127.0.0.1:1")
    assert code == 1
    assert err.partition("error: ")[2].startswith("http://127.0.0.1:1/join/requirements.txt cannot be reached")
    assert "hint: " in err
    assert machine.installed == []


async def test_join_script_names_the_needed_version_when_python_is_too_old(
    frontend: RunningFrontend, machine: Machine
) -> None:
    _write_program(machine.home / "bin/python3.9", "#!/bin/sh\nexit 1\n")
    script = await _script(frontend)
    code, _, err = await machine.run_script(script, CORRAL_PYTHON="python3.9")
    assert (code, err.splitlines()[0]) == (1, "error: python3.9 is too old; Corral needs Python 3.11 or newer.")
    code, _, err = await machine.run_script(script, CORRAL_PYTHON="no-such-python")
    assert code == 1
    assert err.startswith("error: Python was not found on this machine")


async def test_join_script_says_what_to_install_when_python_has_no_venv(
    frontend: RunningFrontend, machine: Machine
) -> None:
    broken = (
        f'#!/bin/sh\n[ "$2" != venv ] || {{ echo "No module named venv"; exit 1; }}\nexec "{sys.executable}" "$@"\n'
    )
    _write_program(machine.home / "bin/python3", broken)
    code, _, err = await machine.run_script(await _script(frontend))
    assert code == 1
    assert "No module named venv\n" in err
    assert "cannot make a virtual environment" in err
    assert "apt install python3-venv" in err


async def test_join_script_that_is_cut_short_does_nothing(frontend: RunningFrontend, machine: Machine) -> None:
    script = await _script(frontend)
    await machine.run_script(script[: script.rindex("main ")], "--token", "cj_secret")
    assert not (machine.home / ".corral-worker").exists()


async def test_join_script_keeps_two_programs_when_the_worker_is_upgraded(
    frontend: RunningFrontend, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = load_worker_package()
    for number in range(4):
        wheel = f"wheel {number}".encode()
        changed = replace(package, wheel=wheel, wheel_sha256=hashlib.sha256(wheel).hexdigest())
        monkeypatch.setattr(routes, "load_worker_package", lambda changed=changed: changed)
        code, _, err = await machine.run_script(await _script(frontend), "--no-start")
        assert code == 0, err
    programs = machine.home / ".corral-worker/program"
    last = hashlib.sha256(b"wheel 3").hexdigest()[:12]
    before = hashlib.sha256(b"wheel 2").hexdigest()[:12]
    assert {path.name for path in programs.iterdir()} == {"current", last, before}
    assert (programs / "current").resolve().name == last


@pytest.mark.skipif(shutil.which("curl") is None, reason="this machine has no curl")
async def test_printed_commands_fetch_the_script_with_and_without_curl(
    frontend: RunningFrontend, machine: Machine
) -> None:
    status, join = await frontend.call("GET", "/api/join")
    assert status == 200, join
    script = await _script(frontend)
    for command in (join["command"], join["command_without_curl"]):
        fetched = command.partition(" | ")[0]
        shell = await asyncio.create_subprocess_shell(fetched, stdout=asyncio.subprocess.PIPE)
        out, _ = await shell.communicate()
        assert out.decode().rstrip("\n") == script.rstrip("\n")
        assert command.endswith(" | sh -s -- --token {token}")
