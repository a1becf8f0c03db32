"""The environment of the real trainer. It is made once and kept, because torch alone has hundreds of megabytes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# The versions of the gallery; torch as the package index of this machine has it, in the build for processors if it can.
PACKAGES = ("trl==1.16.0", "peft==0.21.2", "transformers==5.23.0", "datasets==5.2.0", "safetensors==0.8.0")
TORCH = "torch==2.13.0"
VARIABLE = "CORRAL_TEST_TRAINER"


def make_environment(folder: Path) -> Path:
    """Make a virtual environment with the libraries of the trainer, by pip: it knows of builds for processors."""
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    python = folder / "bin" / "python"
    for packages in ((TORCH,), PACKAGES):
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", *packages], check=True)
    return python


@pytest.fixture(scope="session")
def trainer_python() -> Path:
    """Return the interpreter of an environment with the trainer's libraries. `CORRAL_TEST_TRAINER` names one."""
    given = os.environ.get(VARIABLE)
    if given:
        return Path(given)
    folder = ROOT / ".cache" / "trainer"
    python = folder / "bin" / "python"
    whole = folder / "is-whole"
    if not whole.exists():
        shutil.rmtree(folder, ignore_errors=True)
        make_environment(folder)
        whole.touch()
    return python
