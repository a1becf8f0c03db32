"""A Corral that was installed from its wheel, as a program that the tests run."""

from __future__ import annotations

import json
import os
import subprocess
import venv
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

from tools.source import ROOT


@dataclass(frozen=True, kw_only=True)
class InstalledProgram:
    """A virtual environment that holds nothing but the wheel and the locked requirements, and a home of its own."""

    wheel: Path
    folder: Path
    environment: dict[str, str]

    @classmethod
    def install(cls, folder: Path, wheel: Path) -> Self:
        venv.create(folder / "environment", with_pip=True)
        made = cls(wheel=wheel, folder=folder, environment=_environment(folder))
        made.run_pip("install", "--require-hashes", "-r", str(ROOT / "requirements/run.txt"))
        made.run_pip("install", "--no-deps", "--no-index", str(wheel))
        return made

    def with_home(self, folder: Path) -> Self:
        """Return the same program with another home."""
        return replace(self, environment=_environment(folder))

    def run_pip(self, *words: str) -> None:
        python = str(self.folder / "environment/bin/python")
        subprocess.run([python, "-m", "pip", "--quiet", "--disable-pip-version-check", *words], check=True)

    def corral(self, *words: str) -> str:
        """Run a command that has to succeed, and return its output."""
        command = [str(self.folder / "environment/bin/corral"), *words]
        done = subprocess.run(
            command, env=self.environment, cwd="/", capture_output=True, text=True, check=False, timeout=300
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def nodes(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(self.corral("nodes", "list", "--json"))
        return found


def _environment(folder: Path) -> dict[str, str]:
    return os.environ | {"HOME": str(folder), "CORRAL_HOME": str(folder / "home"), "LC_ALL": "C"}
