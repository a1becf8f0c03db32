"""What the benchmark of the gateway needs: the two ends, compiled; Corral and its peers, each in its own environment.

Everything lies in `.cache/bench` and is made once. The Python is the system's, where there is one: a Python that was
built without profile-guided optimisation, as version managers often do, is up to 1.7 times slower, for everybody.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

from bench.report import print_progress

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / ".cache/bench"
_HERE = Path(__file__).parent


def build_wire() -> Path:
    """Build the engine and the load generator (`wire.c`), and return the program."""
    source, program = _HERE / "wire.c", FOLDER / "wire"
    if not program.exists() or program.stat().st_mtime < source.stat().st_mtime:
        FOLDER.mkdir(parents=True, exist_ok=True)
        subprocess.run(["cc", "-O2", "-o", str(program), str(source)], check=True)
    return program


@cache
def find_base_python() -> str:
    return os.environ.get("BENCH_PYTHON") or shutil.which("python3", path="/usr/bin") or sys.executable


def ensure_environment(name: str, *packages: str) -> Path:
    """Return the program folder of an environment with these packages, and make the environment if needed."""
    folder = FOLDER / name
    if not (folder / "done").exists():
        print_progress(f"installing {name}")
        _uv("venv", "--clear", "--python", find_base_python(), str(folder))
        _uv("pip", "install", "--python", str(folder / "bin/python"), *packages)
        (folder / "done").touch()
    return folder / "bin"


def ensure_corral_python() -> str:
    """Return a Python with Corral as a user has it: locked dependencies under the system's Python, and the code of this
    folder."""
    folder = FOLDER / "corral"
    python = folder / "bin/python"
    locked = ROOT / "requirements/run.txt"
    stamp = folder / "done"
    if not stamp.exists() or stamp.stat().st_mtime < locked.stat().st_mtime:
        print_progress("installing corral")
        _uv("venv", "--clear", "--python", find_base_python(), str(folder))
        _uv("pip", "install", "--python", str(python), "--require-hashes", "-r", str(locked))
        site = next((folder / "lib").glob("python*/site-packages"))
        (site / "corral-bench.pth").write_text(f"{ROOT / 'src'}\n")
        stamp.touch()
    return str(python)


def _uv(*arguments: str) -> None:
    subprocess.run([str(Path(sys.executable).parent / "uv"), *arguments, "--quiet"], check=True)
