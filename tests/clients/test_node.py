"""The official OpenAI client for Node against a frontend with real engines. What it does is in node/suite.mjs."""

from __future__ import annotations

import os
import shutil
import subprocess
from functools import partial
from pathlib import Path

import pytest

from tests.clients.asking import CALL_IT, MODEL
from tests.clients.stage import Stage
from tests.support.cached import kept
from tests.support.waiting import eventually

HERE = Path(__file__).with_name("node")
NODE, NPM = shutil.which("node"), shutil.which("npm")


def installed() -> Path:
    """A folder with the client, as the lock file has it."""
    key = (HERE / "package-lock.json").read_text(encoding="utf-8")
    return kept("clients", "node", key, partial(_install, key))


def _install(lock: str, folder: Path) -> None:
    (folder / "package-lock.json").write_text(lock, encoding="utf-8")
    shutil.copy(HERE / "package.json", folder)
    assert NPM is not None
    command = [NPM, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(NODE is None or NPM is None, reason="there is no Node on this machine")
@pytest.mark.behaviour("GW-97")
@pytest.mark.usefixtures("smol", "encoder")
async def test_the_client_for_node_finds_everything_that_it_looks_for(scene: Stage, tmp_path: Path) -> None:
    (tmp_path / "node_modules").symlink_to(installed() / "node_modules")
    shutil.copy(HERE / "suite.mjs", tmp_path)
    told = {"CORRAL_URL": scene.url, "CORRAL_KEY": scene.key, "CORRAL_MODEL": MODEL, "CALL_IT": CALL_IT}
    assert NODE is not None
    done = subprocess.run(
        [NODE, "--test", "suite.mjs"], cwd=tmp_path, env=os.environ | told, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout
    assert "# pass 9" in done.stdout

    async def nothing_is_under_way() -> bool:
        return scene.in_flight() == 0

    await eventually(nothing_is_under_way)
