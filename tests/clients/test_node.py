"""The official OpenAI client for Node against a frontend with real engines. What it does is in node/suite.mjs."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.clients.npm import NODE, NPM, install_locked
from tests.clients.prompts import CALL_IT, MODEL
from tests.clients.stage import Stage
from tests.support.polling import eventually

HERE = Path(__file__).with_name("node")


@pytest.mark.skipif(NODE is None or NPM is None, reason="there is no Node on this machine")
@pytest.mark.usefixtures("smol", "encoder")
async def test_client_for_node_finds_everything_that_it_looks_for(scene: Stage, tmp_path: Path) -> None:
    (tmp_path / "node_modules").symlink_to(install_locked(HERE) / "node_modules")
    shutil.copy(HERE / "suite.mjs", tmp_path)
    variables = {"CORRAL_URL": scene.url, "CORRAL_KEY": scene.key, "CORRAL_MODEL": MODEL, "CALL_IT": CALL_IT}
    assert NODE is not None
    done = subprocess.run(
        [NODE, "--test", "suite.mjs"],
        cwd=tmp_path,
        env=os.environ | variables,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert "# pass 9" in done.stdout

    async def nothing_is_under_way() -> bool:
        return scene.in_flight() == 0

    await eventually(nothing_is_under_way)
